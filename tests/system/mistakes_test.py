"""Mistakes of users and operators as a table: the command, what is said, the exit status. The next step is in the message."""

import os
import shutil
import subprocess
import tempfile

import harness
from harness import BINARY, Case, Run, job

FILES = {
    "unknown_key.toml": "[workers]\nstrat = 2\n",
    "wrong_type.toml": '[workers]\nstart = "two"\n',
    "not_closed.toml": "[workers\n",
    "policy.toml": '[policy]\nname = "efficency"\n[trainer]\nmodel = "synthetic"\n',
    "checkpoints.toml": '[trainer]\nmodel = "synthetic"\n[checkpoint]\ndirectory = "unknown_key.toml/below"\n',
    "no_program": "no program\n",
    "traceback.py": "import os\nif os.environ['RANK'] == '1':\n    raise ValueError('an unknown mistake')\n"
                    "import time\ntime.sleep(60)\n",
}

# Nothing trains. Words of the command, what is said, the exit status.
WITHOUT_A_RUN = (
    ("run", "e.g. elastictrain run -n 4 -- ./train", 64),
    ("rnu job.toml", "did you mean run?", 64),
    ("run --bacth 3 true", "did you mean --batch?", 64),
    ("run -n 5:2 true", "workers.min = 5 (-n 5:2) must be at most workers.max = 2", 64),
    ("run -n 0 true", "a whole number of workers from 1", 64),
    ("run --set nonsense true", "write --set KEY=VALUE, e.g. --set batch.per_worker=64", 64),
    ("run --set batch.per_wroker=3 true", 'did you mean "per_worker"', 64),
    ("run --set checkpoint.every=3 true", 'unknown key "every" in [checkpoint]; its keys: directory, interval_steps', 64),
    ("run --on-failure retry true", 'must be one of "replace", "shrink", "stop"', 64),
    ("run -n 2 no-such-program", "one that only the hosts have is written after --", 64),
    ("run -n 2 -- ./no_program", "allow it: chmod +x ./no_program", 126),
    ("run -n 2 -- no-such-program", "is not found in PATH (", 127),
    ("run missing.toml", "missing.toml: cannot be read: No such file", 66),
    ("run unknown_key.toml", 'unknown_key.toml:2:1: unknown key "strat" in [workers]; did you mean "start"', 78),
    ("run wrong_type.toml", "wrong_type.toml:2:1: workers.start must be a whole number", 78),
    ("check not_closed.toml", "not_closed.toml:1:9: ", 78),
    ("run folder.toml", "folder.toml: cannot be read: it is a directory", 66),
    ("run policy.toml", 'did you mean "efficiency"?', 78),
    ("run checkpoints.toml", "choose another directory, or make this one writable", 73),
    ("run --log-dir /proc/nothing true", "log.directory /proc/nothing cannot be created", 73),
    ("run -n 4 -H localhost:2 true", "Add hosts or slots, or lower workers.min", 69),
    ("run -n 1 -H no-such-host.invalid:1 true", "host no-such-host.invalid could not be used: ssh", 69),
    ("run -n 1 -H 127.0.0.2:1 --ssh-identity no-such-key true", "launcher.ssh_identity no-such-key: No such file", 78),
    ("run -n 2 python3 traceback.py", "exited with status 1: ValueError: an unknown mistake", 1),
    ("run -n 1 -- sh -c 'kill -SEGV $$'", "was killed by signal 11 (SIGSEGV)", 139),
    ("run --name done true", "all processes of the program exited (status 0)", 0),
    ("run --resume done", "there is nothing to resume. To start it again from the beginning, omit --resume", 69),
    ("events done --level loud", "must be one of detail, info, warning, error", 64),
    ("run --resume nowhere", "elastictrain list names all runs", 69),
    ("resize 4", "start one with: elastictrain run config.toml", 69),
    ("status nowhere", "no live run is named nowhere; elastictrain list names all", 69),
    ("logs nowhere", "elastictrain list names all", 69),
    ("prune nowhere", "elastictrain list names all", 69),
    ("completion tcsh", "e.g. source <(elastictrain completion bash)", 64),
    ("queue", "start one with: elastictrain cluster cluster.toml", 69),
    ("simulate missing.csv --policy srtf --gpus 4", "missing.csv: there is no such file", 66),
)

# A run of two workers on one host trains.
BESIDE_A_RUN = (
    ("resize 9", "workers.max", 1),
    ("replace 7", "rank 7", 1),
    ("drain nowhere", "there is no host nowhere in this run", 1),
    ("drain localhost", "at least 1 worker must train", 1),
    ("drain localhots", "there is no host localhots in this run; did you mean localhost?", 1),
    ("replace localhots", "there is no host localhots in this run; did you mean localhost?", 1),
    ("undrain nowhere", "there is no host nowhere in this run", 1),
    ("undrain localhost", "host localhost is not drained", 1),
    ("topology pentagon", "pentagon", 64),
    ("prune {name}", "has not ended", 1),
    ("run -n 1 --name {name} true", "{name}", 69),
)


class Mistakes(Case):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="et-mistakes-")
        self.addCleanup(shutil.rmtree, self.directory)
        for name, text in FILES.items():
            with open(os.path.join(self.directory, name), "w") as file:
                file.write(text)
        os.mkdir(os.path.join(self.directory, "folder.toml"))

    def ask(self, line, environment):
        return subprocess.run(["sh", "-c", f'exec "$ELASTICTRAIN_BINARY" {line}'], cwd=self.directory, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=120,
                              env={**os.environ, "ELASTICTRAIN_BINARY": BINARY, **environment})

    def check(self, table, environment, name=""):
        for line, said, status in table:
            line, said = line.replace("{name}", name), said.replace("{name}", name)
            with self.subTest(line):
                done = self.ask(line, environment)
                self.assertIn(said, done.stderr + done.stdout)
                self.assertEqual(done.returncode, status, done.stderr)

    def test_without_a_run(self):
        self.check(WITHOUT_A_RUN, {"ELASTICTRAIN_STATE_DIR": os.path.join(self.directory, "state")})

    def test_beside_a_run(self):
        with Run(job()) as run:
            run.wait_size(2)
            self.check(BESIDE_A_RUN, run.environment, run.name)
            self.assert_stops_clean(run)

    def test_a_misspelt_variable_is_named(self):
        environment = {"ELASTICTRAIN_STATE_DIR": self.directory, "ELASTICTRAIN_BATCH_PER_WROKER": "3"}
        self.assertIn("ELASTICTRAIN_BATCH_PER_WORKER", self.ask("run -n 1 true", environment).stderr)

    def test_a_traceback_is_shown_once(self):
        done = self.ask("run -n 2 python3 traceback.py", {"ELASTICTRAIN_STATE_DIR": self.directory})
        self.assertEqual((done.stderr + done.stdout).count("Traceback"), 1)
        self.assertNotIn("last error output", done.stderr + done.stdout)


if __name__ == "__main__":
    harness.main()
