"""A run that nobody sits in front of: list, logs, attach, detach, prune, and the status of a run that has ended."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import tempfile
import time

import harness
from harness import BINARY, Case, Run, job, pids, synthetic, wait_until

COUNTER = "i=0; while [ $i -lt 1000000 ]; do echo line $i; i=$((i+1)); sleep 0.05; done"


def read_until(master, pattern, timeout_s=60):
    """What a terminal shows until the pattern is in it."""
    screen, deadline = "", time.monotonic() + timeout_s
    while not re.search(pattern, screen):
        if not select.select([master], [], [], max(0, deadline - time.monotonic()))[0]:
            raise AssertionError(f"{pattern} was not shown: {screen}")
        screen += os.read(master, 65536).decode(errors="replace")
    return screen


class Operated(Case):
    def listed(self, run):
        return {one["name"]: one for one in json.loads(run.do("list", "--json"))}

    def attach(self, run):
        return subprocess.Popen([BINARY, "attach", run.name], env={**os.environ, **run.environment}, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class List(Operated):
    def test_live_ended_and_lost_runs_are_listed(self):
        with tempfile.TemporaryDirectory(prefix="et-operate-") as state:
            with Run(job(trainer=synthetic(epochs=1, samples=64)), state=state) as ended, \
                    Run(job(), state=state) as live, Run(job(), state=state) as lost:
                self.assertEqual(ended.wait(), 0)
                live.wait_size(2)
                lost.wait_size(2)
                lost.lose_supervisor()
                runs = self.listed(live)
                self.assertEqual(runs[ended.name]["state"], "ended")
                self.assertEqual(runs[ended.name]["exit_status"], 0)
                self.assertEqual(runs[ended.name]["workers"], 2)
                self.assertGreater(runs[ended.name]["step"], 0)
                self.assertGreater(runs[ended.name]["ended"], runs[ended.name]["started"])
                self.assertEqual(runs[live.name]["state"], "running")
                self.assertIsNone(runs[live.name]["exit_status"])
                self.assertEqual(runs[lost.name]["state"], "no supervisor")
                table = live.do("list").splitlines()
                self.assertRegex(table[0], r"^run +state +workers +epoch +step +started +ended +status$")
                self.assertEqual(len(table), 4)
                self.assertRegex("\n".join(table), rf"(?m)^{ended.name} +ended +2 .* 0$")
                refused = live.command("prune", lost.name)
                self.assertEqual(refused.returncode, 1)
                self.assertIn(f"or give it up: elastictrain prune --force {lost.name}", refused.stderr)
                self.assertEqual(live.do("prune", "--force", lost.name).split(), [lost.name])
                self.assertNotIn(lost.name, self.listed(live))

    def test_a_run_that_is_interrupted_when_its_directory_is_made_has_ended(self):
        with tempfile.TemporaryDirectory(prefix="et-operate-") as state:
            environment = {**os.environ, "ELASTICTRAIN_STATE_DIR": state}
            for name in ("one", "two", "three"):
                starting = subprocess.Popen([BINARY, "run", "--name", name, "-n", "1", "--", "sleep", "60"],
                                            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                while not os.path.exists(os.path.join(state, name)) and starting.poll() is None:
                    pass
                starting.send_signal(signal.SIGINT)
                self.assertEqual((name, starting.wait(30)), (name, 130))
                starting.stdout.close()
            listed = json.loads(subprocess.check_output([BINARY, "list", "--json"], env=environment))
            self.assertEqual([(run["state"], run["exit_status"]) for run in listed], [("ended", 130)] * 3)

    def test_without_a_run_it_says_how_to_start_one(self):
        with tempfile.TemporaryDirectory(prefix="et-operate-") as state:
            done = subprocess.run([BINARY, "list"], env={**os.environ, "ELASTICTRAIN_STATE_DIR": state}, text=True,
                                  capture_output=True)
            self.assertEqual((done.returncode, done.stdout), (0, ""))
            self.assertIn("elastictrain run config.toml", done.stderr)

    def test_status_without_a_name_finds_a_run_that_lost_its_supervisor(self):
        with Run(job()) as run:
            run.wait_size(2)
            run.lose_supervisor()
            status = run.command("status")
            self.assertEqual(status.returncode, 69)
            self.assertIn(f"elastictrain run --resume {run.name}", status.stderr)

    def test_workers_of_a_plain_program_run(self):
        with Run(arguments=["-n", "2", "--", "sh", "-c", COUNTER]) as run:
            run.wait_text("line 3")
            text = wait_until(lambda: ": running, 2 workers, up " in (now := run.do("status", run.name)) and now, 60,
                              "a program that runs")
            self.assertRegex(text, r"(?m)^ +1 +w2 +localhost +1 +running ")
            self.assertNotIn("starting", text)
            refused = run.command("replace", run.name, "0")
            self.assertIn("the program has not joined the run", refused.stderr)
            self.assertEqual(refused.returncode, 1)
            self.assertRegex(run.do("stop", run.name, "--now", "--wait"), rf"run {run.name} has ended: .*\(status 0\)")
            self.assertEqual(run.wait(), 0, "a user has stopped it")
            run.wait_no_processes()

    def test_the_status_of_an_ended_run_is_its_summary(self):
        with Run(job(trainer=synthetic(epochs=1, samples=64))) as run:
            self.assertEqual(run.wait(), 0)
            text = run.do("status", run.name)
            self.assertIn(f"summary of {run.name}", text)
            self.assertRegex(text, r"ended: .* \(status 0\) after ")
            self.assertIn("0 missing, 0 repeated, 0 unequal", text)
            self.assertEqual(run.status()["state"], "ended")

    def prune_at_a_terminal(self, run, answer, then):
        master, slave = pty.openpty()
        pruning = subprocess.Popen([BINARY, "prune", run.name], env={**os.environ, **run.environment},
                                   stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        read_until(master, r"Remove .* this run\? \[y/N\]")
        os.write(master, f"{answer}\n".encode())
        read_until(master, then)
        os.close(master)
        return pruning.wait(20)

    def test_only_ended_runs_are_pruned(self):
        with tempfile.TemporaryDirectory(prefix="et-operate-") as state:
            with Run(job(trainer=synthetic(epochs=1, samples=64)), state=state) as ended, \
                    Run(arguments=["-n", "1", "--", "true"], state=state) as other, Run(job(), state=state) as live:
                self.assertEqual(ended.wait(), 0)
                self.assertEqual(other.wait(), 0)
                live.wait_size(2)
                self.assertEqual(self.prune_at_a_terminal(other, "n", "nothing was removed"), 1)
                self.assertEqual(self.prune_at_a_terminal(other, "", "nothing was removed"), 1)
                self.assertIn(other.name, self.listed(live))
                self.assertEqual(self.prune_at_a_terminal(other, "y", "1 run removed"), 0)
                self.assertNotIn(other.name, self.listed(live))
                refused = live.command("prune", live.name)
                self.assertEqual(refused.returncode, 1)
                self.assertIn("has not ended", refused.stderr)
                self.assertEqual(live.do("prune"), "", "it ended just now")
                self.assertEqual(live.do("prune", "--older", "0", "--dry-run").split(), [ended.name])
                self.assertIn(ended.name, self.listed(live))
                self.assertEqual(live.do("prune", "--older", "0").split(), [ended.name])
                self.assertEqual(list(self.listed(live)), [live.name])
                self.assertFalse(os.path.exists(os.path.join(state, ended.name)))
                self.assert_stops_clean(live)


class Logs(Operated):
    def test_output_of_all_workers_is_kept_and_chosen(self):
        with Run(arguments=["-n", "2", "--", "sh", "-c", "echo out $RANK; echo err $RANK >&2"]) as run:
            self.assertEqual(run.wait(), 0)
            lines = run.do("logs", run.name).splitlines()
            for rank in (0, 1):
                self.assertIn(f"[localhost:{rank}] out {rank}", lines)
                self.assertIn(f"[localhost:{rank}] err {rank}", lines)
            self.assertTrue(any(line.startswith(f"elastictrain: run {run.name} starts") for line in lines), lines)
            self.assertTrue(any("summary of" in line for line in lines), lines)
            self.assertEqual(sorted(run.do("logs", "--rank", "1").splitlines()),
                             ["[localhost:1] err 1", "[localhost:1] out 1"])
            self.assertEqual(run.do("logs", "--tail", "1").splitlines(), lines[-1:])
            self.assertRegex(run.do("logs", "-t", "--rank", "0").splitlines()[0], r"^\d{4}-\d\d-\d\dT[\d:.]{12} \[localhost")
            self.assertEqual(run.do("logs", "--since", "2999-01-01"), "")
            self.assertEqual(run.do("logs", "--since", "1h").splitlines(), lines)

    def test_followed_logs_end_with_the_run(self):
        with Run(arguments=["-n", "1", "--", "sh", "-c", "echo first; sleep 1; echo last"]) as run:
            run.wait_text("first")
            self.assertIn("[localhost:0] last", run.do("logs", "-f", run.name).splitlines())
            self.assertEqual(run.wait(), 0)

    def test_what_is_kept_is_bounded(self):
        program = "i=0; while [ $i -lt 3000 ]; do echo line $i of a text that is long enough to fill it; i=$((i+1)); done"
        with Run(arguments=["-n", "1", "--set", "log.kept_bytes=20000", "--", "sh", "-c", program]) as run:
            self.assertEqual(run.wait(), 0)
            directory = os.path.join(run.state, run.name)
            kept = [name for name in os.listdir(directory) if name.startswith("output.")]
            self.assertEqual(sorted(kept), ["output.1.log", "output.log"])
            self.assertLess(sum(os.path.getsize(os.path.join(directory, name)) for name in kept), 21000)
            lines = [line for line in run.do("logs", "--rank", "0").splitlines()]
            self.assertEqual(lines[-1].split(" of ")[0], "[localhost:0] line 2999")
            numbers = [int(line.split()[2]) for line in lines]
            self.assertEqual(numbers, list(range(numbers[0], 3000)), "the oldest lines went, nothing in between")

    def test_a_run_that_keeps_nothing_says_so(self):
        with Run(arguments=["-n", "1", "--set", "log.kept_bytes=0", "--", "true"]) as run:
            self.assertEqual(run.wait(), 0)
            done = run.command("logs", run.name)
            self.assertEqual(done.returncode, 69)
            self.assertIn("log.kept_bytes = 0", done.stderr)

    def test_a_fresh_run_does_not_show_the_output_of_the_one_before(self):
        with Run(arguments=["-n", "1", "--", "echo", "before"]) as run:
            self.assertEqual(run.wait(), 0)
            run.argv[-1] = "after"
            run.start()
            self.assertEqual(run.wait(), 0)
            text = run.do("logs", run.name)
            self.assertIn("after", text)
            self.assertNotIn("before", text)


class Attach(Operated):
    def test_it_shows_output_and_ends_with_the_status_of_the_run(self):
        with Run(arguments=["-n", "1", "--", "sh", "-c", "echo begins; read line < fifo; echo ends; exit 3"],
                 name="attached") as run:
            run.wait_text("begins")
            attached = self.attach(run)
            self.assertIn("attached to run attached", attached.stderr.readline())
            self.release(run)
            out, _ = attached.communicate(timeout=60)
            self.assertIn("[localhost:0] ends", out)
            self.assertEqual(attached.returncode, 3)
            self.assertEqual(run.wait(), 3)

    def release(self, run):
        wait_until(lambda: os.path.exists("fifo"), 10, "the fifo")
        with open("fifo", "w") as fifo:
            fifo.write("\n")

    def setUp(self):
        self.here = tempfile.TemporaryDirectory(prefix="et-operate-")
        self.addCleanup(self.here.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.here.name)
        os.mkfifo("fifo")

    def test_a_terminal_has_a_progress_line_below_the_output(self):
        master, slave = pty.openpty()
        with Run(job()) as run:
            run.wait_size(2)
            attached = subprocess.Popen([BINARY, "attach", run.name], env={**os.environ, **run.environment},
                                        stdout=slave, stderr=slave)
            os.close(slave)
            screen = read_until(master, r"step [0-9]+ .*2 workers")
            self.assertRegex(screen, r"\r\x1b\[K")
            attached.send_signal(signal.SIGINT)
            self.assertEqual(attached.wait(20), -signal.SIGINT)
            os.close(master)
            self.assert_stops_clean(run)

    def test_an_interrupt_leaves_the_run_alone(self):
        with Run(job()) as run:
            before = pids(run.wait_size(2))
            attached = self.attach(run)
            attached.stderr.readline()
            attached.send_signal(signal.SIGINT)
            self.assertEqual(attached.wait(20), -signal.SIGINT)
            attached.communicate()
            run.wait_more_steps(20)
            self.assertEqual(pids(run.wait_size(2)), before)
            self.assert_stops_clean(run)

    def test_it_says_when_the_supervisor_is_lost(self):
        with Run(arguments=["-n", "1", "--", "sh", "-c", COUNTER]) as run:
            run.wait_text("line 3")
            attached = self.attach(run)
            attached.stderr.readline()
            run.lose_supervisor()
            _, error = attached.communicate(timeout=60)
            self.assertEqual(attached.returncode, 69)
            self.assertIn(f"elastictrain run --resume {run.name}", error)


class Detach(Operated):
    def test_the_command_returns_and_the_run_goes_on(self):
        with Run(job(), arguments=["--detach"]) as run:
            self.assertEqual(run.wait(60), 0)
            self.assertIn(f"run {run.name} trains detached", run.text("stderr"))
            self.assertIn(f"elastictrain logs -f {run.name}", run.text("stderr"))
            status = json.loads(run.do("status", run.name, "--json"))
            self.assertEqual(status["phase"], "running")
            self.assertEqual(status["world_size"], 2)
            run.wait_more_steps(20)
            run.do("stop", run.name)
            wait_until(lambda: self.listed(run)[run.name]["state"] == "ended", 30, "the end of the run")
            run.wait_no_processes()
            self.assertEqual(self.listed(run)[run.name]["exit_status"], 0)
            self.assert_audit_clean(run)

    def test_a_program_that_does_not_use_the_library_runs_detached(self):
        with Run(arguments=["-n", "1", "--detach", "--", "sh", "-c", COUNTER]) as run:
            self.assertEqual(run.wait(60), 0)
            wait_until(lambda: "line 3" in run.do("logs", run.name), 30, "its output")
            run.do("stop", run.name, "--now")
            run.wait_no_processes(40)

    def test_what_fails_before_is_seen_with_its_status(self):
        with Run(arguments=["-n", "1", "--detach", "--", "sh", "-c", "echo a mistake >&2; exit 3"]) as run:
            self.assertEqual(run.wait(60), 3)
            self.assertIn("a mistake", run.text("stderr"))
        with Run("workers = 3\nwrong", arguments=["--detach"]) as run:
            self.assertEqual(run.wait(60), 78)
            self.assertIn("config.toml:2", run.text("stderr"))

    def test_it_outlives_a_hangup_of_the_terminal(self):
        with Run(job(), arguments=["--detach"]) as run:
            self.assertEqual(run.wait(60), 0)
            before = pids(json.loads(run.do("status", run.name, "--json")))
            supervisor = int(run.events("run_opened")[0]["pid"])
            self.assertNotEqual(os.getsid(supervisor), run.process.pid, "it has a session of its own")
            os.kill(supervisor, signal.SIGHUP)
            run.wait_more_steps(20)
            self.assertEqual(pids(json.loads(run.do("status", run.name, "--json"))), before)
            run.do("stop", run.name)
            run.wait_no_processes(30)


if __name__ == "__main__":
    harness.main()
