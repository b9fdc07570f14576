"""Commands at events of a run ([on]), changes that are waited for (--wait), `init`, and the schema for editors."""

import json
import os
import signal
import subprocess
import tempfile
import unittest

import harness
from harness import BINARY, Case, Run, job, pids, wait_until

try:
    import tomllib
except ImportError:  # before Python 3.11
    tomllib = None

CONFIGS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "configs")


class Folder(Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="et-hooks-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)


class Hooks(Folder):
    def recorded(self, name):
        """The environments of the commands so far, each a dictionary."""
        try:
            with open(self.path(name)) as file:
                blocks = file.read().split("--\n")
        except FileNotFoundError:
            return []
        return [dict(line.split("=", 1) for line in block.splitlines()) for block in blocks[:-1]]

    def record(self, name):
        # One write, so that two commands at a time do not mix.
        return f"text=$(env | grep ^ELASTICTRAIN_ ; echo --) && printf '%s\\n' \"$text\" >> {self.path(name)}"

    def test_each_event_starts_its_command_with_what_happened(self):
        hooks = {name: self.record(name) for name in ("loss", "recovered", "resized", "ended")}
        with Run(job(on=hooks)) as run:
            run.wait_size(2)
            run.do("resize", "3")
            wait_until(lambda: self.recorded("resized"), 60, "the command after the change")
            grown = self.recorded("resized")[0]
            self.assertEqual((grown["ELASTICTRAIN_EVENT"], grown["ELASTICTRAIN_WORKERS_BEFORE"],
                              grown["ELASTICTRAIN_WORKERS"], grown["ELASTICTRAIN_CHANGE"]), ("resized", "2", "3", "grow"))
            self.assertEqual(grown["ELASTICTRAIN_RUN_NAME"], run.name)
            os.kill(pids(run.status())[1], signal.SIGKILL)
            wait_until(lambda: self.recorded("loss") and self.recorded("recovered"), 60, "the commands after the loss")
            self.assertEqual(self.recorded("loss")[0]["ELASTICTRAIN_CLASS"], "crash")
            self.assertIn("rank 1", self.recorded("loss")[0]["ELASTICTRAIN_REASON"])
            self.assertEqual(self.recorded("recovered")[0]["ELASTICTRAIN_CHANGE"], "recover")
            run.wait_size(3)
            self.assert_ends_clean(run)
            ended = self.recorded("ended")
            self.assertEqual(len(ended), 1)
            self.assertEqual(ended[0]["ELASTICTRAIN_STATUS"], "0")

    def test_the_first_change_after_a_takeover_is_told(self):
        with Run(job(on={"resized": self.record("resized")})) as run:
            run.wait_size(2)
            run.lose_supervisor()
            run.resume()
            run.wait_size(2)
            run.do("resize", "3", "--wait")
            wait_until(lambda: self.recorded("resized"), 60, "the command after the change")
            self.assertEqual(self.recorded("resized")[0]["ELASTICTRAIN_WORKERS_BEFORE"], "2")
            self.assert_stops_clean(run)

    def test_commands_that_hang_or_fail_hold_nothing_up(self):
        with Run(job(on={"resized": "sleep 1000", "loss": "echo no mail here >&2; exit 7", "ended": "sleep 1000",
                         "timeout_ms": 1000})) as run:
            run.wait_size(2)
            run.do("resize", "3", "--wait")
            os.kill(pids(run.status())[1], signal.SIGKILL)
            run.wait_text("warning: on.loss: the command ended with status 7: no mail here")
            run.wait_text("warning: on.resized: the command was ended: it took longer than on.timeout_ms = 1000")
            run.wait_size(3)
            self.assert_ends_clean(run)
            self.assertIn("on.ended: the command was ended", run.text("stderr"))


class Wait(Folder):
    def test_resize_and_replace_return_when_the_change_is_complete(self):
        with Run(job()) as run:
            run.wait_size(2)
            run.do("resize", "3", "--wait", timeout=60)
            status = run.status()
            self.assertEqual((status["phase"], status["world_size"]), ("running", 3))
            before = pids(status)
            run.do("replace", "1", "--wait", timeout=60)
            after = pids(run.status())
            self.assertEqual(len(set(after) & set(before)), 2)
            self.assertNotIn(before[1], after)
            run.do("resize", "2", "--wait", timeout=60)
            self.assertEqual(run.status()["world_size"], 2)
            self.assert_stops_clean(run)

    def test_a_change_that_takes_too_long_or_cannot_be_is_status_69_or_1(self):
        with Run(job(workers=(1, 1, 2), hosts={"list": ["localhost:1"]})) as run:
            run.wait_size(1)
            done = run.command("resize", "2", "--wait", "--timeout", "60s", timeout=90)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertIn("slot", done.stderr)
            self.assertEqual(run.command("resize", "1", "--wait", "--timeout", "soon").returncode, 64)
            self.assert_stops_clean(run)

    def test_the_time_is_over(self):
        sleeper = ["sh", "-c", "exec sleep 1000"]
        with Run(arguments=["-n", "1", "--", *sleeper]) as run:
            run.wait_status(lambda s: s.get("workers"))
            done = run.command("resize", "2", "--wait", "--timeout", "1s", timeout=60)
            self.assertNotEqual(done.returncode, 0)
            run.do("stop", run.name, "--now")
            run.wait(60)


@unittest.skipUnless(tomllib, "this Python has no tomllib")
class Init(Folder):
    def init(self, *words, **environment):
        return subprocess.run([BINARY, "init", *words], cwd=self.folder, env={**os.environ, **environment}, text=True,
                              capture_output=True, timeout=60)

    def test_what_it_writes_runs(self):
        done = self.init("--", "sh", "-c", "echo \"a 'quoted' word\" $RANK")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("elastictrain run config.toml", done.stdout)
        with open(self.path("config.toml")) as file:
            text = file.read()
        self.assertEqual(tomllib.loads(text)["command"], ["sh", "-c", "echo \"a 'quoted' word\" $RANK"])
        with Run(text, arguments=["-n", "2"]) as run:
            self.assertEqual(run.wait(60), 0)
            self.assertIn("a 'quoted' word 1", run.text("stdout"))
        again = self.init("--", "true")
        self.assertEqual(again.returncode, 73)
        self.assertIn("--force", again.stderr)
        self.assertEqual(self.init("--force", "--", "true").returncode, 0)
        self.assertEqual(self.init("-o", "-").stdout.count("command = "), 1)

    def test_in_a_batch_job_hosts_come_from_the_job(self):
        done = self.init("-o", "-", "--", "true", SLURM_JOB_ID="7", SLURM_JOB_NODELIST="node[1-2]",
                         SLURM_TASKS_PER_NODE="4(x2)", SLURM_NNODES="2", SLURM_NTASKS="8")
        self.assertIn("2 hosts of slurm with 8 slots", done.stdout)
        self.assertIn("#   node2:4", done.stdout)
        self.assertEqual(tomllib.loads(done.stdout)["workers"]["max"], 8)


@unittest.skipUnless(tomllib, "this Python has no tomllib")
class Schema(Folder):
    def test_every_ready_configuration_fits_the_schema_and_mistakes_do_not(self):
        try:
            import jsonschema
        except ImportError:
            self.skipTest("python3-jsonschema is not installed (scripts/setup.sh test)")
        text = subprocess.run([BINARY, "check", "--schema"], capture_output=True, text=True, check=True, timeout=60).stdout
        schema = json.loads(text)
        jsonschema.Draft7Validator.check_schema(schema)
        validator = jsonschema.Draft7Validator(schema)
        others = ("cluster.toml", "sweep.toml", "sweep_program.toml")  # have formats of their own
        names = [name for name in os.listdir(CONFIGS) if name.endswith(".toml") and name not in others]
        self.assertGreater(len(names), 5)
        for name in names:
            with open(os.path.join(CONFIGS, name), "rb") as file:
                self.assertEqual([error.message for error in validator.iter_errors(tomllib.load(file))], [], name)
        for wrong in ("[workers]\nmni = 1", "[workers]\nmin = 'two'", "[workers]\nmin = 0", "[batch]\nat_limit = 'x'",
                      "[policy.efficiency]\nnothing = 1"):
            self.assertFalse(validator.is_valid(tomllib.loads(wrong)), wrong)


if __name__ == "__main__":
    harness.main()
