"""A search over a program's parameters as jobs of a live cluster: stopped early, left alone and continued, cancelled."""

import json
import os
import signal
import subprocess
import sys

import harness
from cluster_lab import Cluster
from harness import BINARY, Case, toml, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
RATES = (1.0, 0.00001, 0.01, 0.3, 0.0001, 0.1)
BEST = "rates-3"


class Sweeps(Case):
    def setUp(self):
        # All of them take turns in two slots.
        self.cluster = Cluster(self, slots=2, policy="gandiva", slice_ms=500, suspended_per_slot=3)
        self.cluster.environment.update(PYTHONPATH=os.path.join(ROOT, "train", "python"), PYTHONDONTWRITEBYTECODE="1")
        self.cluster.start()

    def file(self, **changes):
        program = [sys.executable, os.path.join(HERE, "sweep_program.py"), "--rate={rate}"]
        settings = {"name": "rates", "arguments": ["-n", "1:2", "--start", "1", "-x", harness.MARK, "--", *program],
                    "goal": "max", "metric": "accuracy", "parameters": {"rate": list(RATES)}}
        settings.update(changes)
        return self.cluster.write("sweep.toml", toml({key: value for key, value in settings.items() if value is not None}))

    def trials(self, text):
        return {trial["name"]: trial for trial in json.loads(text)["trials"]}

    def test_the_worse_ones_are_stopped_early_and_the_best_one_trains_to_its_end_with_their_slots(self):
        program = [sys.executable, os.path.join(HERE, "sweep_program.py"), "--rate={rate}", "--ends-at=0.01"]
        path = self.file(arguments=["-n", "1:2", "--start", "1", "-x", harness.MARK, "--", *program])
        done = self.cluster.command("sweep", path, "--json")
        self.assertEqual(done.returncode, 0, done.stderr + self.cluster.text())
        trials = self.trials(done.stdout)
        self.assertEqual(list(trials)[0], BEST, "the best one is the first")
        self.assertEqual({name: trial["state"] for name, trial in trials.items()},
                         {f"rates-{i + 1}": "ended" if f"rates-{i + 1}" == BEST else "stopped" for i in range(len(RATES))})
        for name, trial in trials.items():
            if name != BEST:
                self.assertRegex(trial["why"], r"after \d report.* ahead, and \d goe?s? on")
        self.assertGreaterEqual(len(trials[BEST]["reports"]), 10)
        generations = self.cluster.run_journal(BEST, "generation")
        grown = [pair for pair in zip(generations, generations[1:]) if pair[1]["kind"] == "grow"]
        self.assertTrue(grown, "it got the slots of those that were stopped")
        for before, after in grown:
            self.assertLess(set(before["members"]), set(after["members"]), "growing restarts nobody")
        self.assertEqual(self.cluster.run_journal(BEST, "loss"), [])
        self.assertEqual(self.cluster.job(BEST)["status"], 0)

    def test_who_leaves_a_sweep_finds_it_again_and_may_end_it(self):
        path = self.file(metric=None, pattern="error ([0-9.]+)", goal="min", stop={"first": 2})
        sweep = subprocess.Popen([BINARY, "sweep", path], env=self.cluster.environment, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.addCleanup(sweep.stdout.close)
        self.addCleanup(sweep.kill)
        wait_until(lambda: "is stopped" in sweep.stdout.readline(), 60, "a stopped trial")
        os.kill(sweep.pid, signal.SIGKILL)
        sweep.wait()
        before = {job["name"]: job["id"] for job in self.cluster.queue()["jobs"]}
        self.assertEqual(len(before), len(RATES))
        self.forget_that_it_submitted()
        self.cluster.refused(78, "has other trials", "sweep", self.file(parameters={"rate": [0.5]}))
        path = self.file(metric=None, pattern="error ([0-9.]+)", goal="min", stop={"first": 2})
        done = self.cluster.command("sweep", path)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"best: {BEST} (value ", done.stdout)
        self.assertEqual({job["name"]: job["id"] for job in self.cluster.queue()["jobs"]}, before, "none is submitted twice")
        self.assertEqual(self.cluster.command("sweep", path).returncode, 0, "it is over, and shown again")
        program = [sys.executable, os.path.join(HERE, "sweep_program.py"), "--rate={rate}", "--epochs=1000000"]
        other = self.file(name="others", stop={"rule": "none"},
                          arguments=["-n", "1:2", "--start", "1", "-x", harness.MARK, "--", *program])
        sweep = subprocess.Popen([BINARY, "sweep", other], env=self.cluster.environment, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(sweep.kill)
        wait_until(lambda: self.cluster.job("others-6"), 30, "the last trial")
        os.kill(sweep.pid, signal.SIGINT)
        sweep.wait()
        said = self.cluster.do("sweep", other, "--cancel")
        self.assertEqual(said.splitlines(), [f"others-{i + 1} is cancelled" for i in range(len(RATES))])
        wait_until(lambda: all(job["phase"] == "ended" for job in self.cluster.queue()["jobs"]), 60, "their end")

    def forget_that_it_submitted(self):
        """As if the sweep had been killed after the cluster had accepted the trials."""
        path = os.path.join(self.cluster.state, "sweeps", "rates.json")
        with open(path) as file:
            kept = json.load(file)
        for trial in kept["trials"]:
            self.assertGreater(trial["begun_unix_s"], 0)
            trial["submitted"] = False
        with open(path, "w") as file:
            json.dump(kept, file)

    def judged_by(self, program, **changes):
        """A sweep whose trials are judged by this program's text."""
        path = self.cluster.write("judge.py", program)
        return self.cluster.command("sweep", self.file(stop={"program": [sys.executable, path], "timeout_ms": 5000}, **changes))

    def test_a_program_of_the_users_judges_the_trials(self):
        program = [sys.executable, os.path.join(HERE, "sweep_program.py"), "--rate={rate}", "--best-after=3",
                   "--ends-at=0.01"]
        with open(os.path.join(ROOT, "scripts", "policies", "sweep.py")) as file:
            done = self.judged_by(file.read(), parameters={"rate": [0.01, 0.3]},
                                  arguments=["-n", "1:2", "--start", "1", "-x", harness.MARK, "--", *program])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("rates-2 is stopped: nothing better in 3 reports, and rates-1 is ahead\n", done.stdout)
        self.assertIn("rates-1 ended\n", done.stdout)

    def test_the_sweep_with_a_program_that_we_ship_runs(self):
        done = self.cluster.command("sweep", os.path.join(ROOT, "configs", "sweep_program.toml"), "--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = json.loads(done.stdout)
        self.assertNotIn("problem", found)
        self.assertEqual(sorted(trial["name"] for trial in found["trials"]), [f"patience-{i + 1}" for i in range(4)])
        self.assertGreater(len(found["trials"][0]["reports"]), 2)

    def test_a_program_that_fails_stops_nobody(self):
        rates = {"parameters": {"rate": [1.0, 0.01]}, "arguments": self.short()}
        bad = "import sys\nfor line in sys.stdin:\n    print('rates-1', file=sys.stderr)\n    print('stop', flush=True)\n"
        done = self.judged_by(bad, **rates)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("rule: rates-1\n", done.stdout)
        self.assertIn("the program of stop.program wrote a line that is not a verdict: it must be", done.stdout)
        self.assertIn("no trial is stopped any more", done.stdout)
        self.assertIn("sweep rates: 2 trials, 2 ended", done.stdout)
        self.cluster.refused(78, "stop.program: ", "sweep", self.file(name="missing", stop={"program": ["./missing"]}))

    def short(self, *more):
        program = [sys.executable, os.path.join(HERE, "sweep_program.py"), "--rate={rate}", "--epochs=3", "--steps=4", *more]
        return ["-n", "1:2", "--start", "1", "-x", harness.MARK, "--", *program]

    def test_a_refused_trial_is_told_and_tried_again_only_where_that_may_help(self):
        self.cluster.clean()
        self.cluster = Cluster(self, slots=2, policy="fifo", limits={"queued": 1})
        self.cluster.environment.update(PYTHONPATH=os.path.join(ROOT, "train", "python"), PYTHONDONTWRITEBYTECODE="1")
        self.cluster.start()
        begin = os.path.join(self.cluster.directory, "begin")
        path = self.file(parameters={"rate": [0.1, 0.01]}, arguments=self.short("--wait-for", begin))
        sweep = subprocess.Popen([BINARY, "sweep", path], env=self.cluster.environment, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.addCleanup(sweep.kill)
        said = ""
        while "rates-2 is not accepted yet" not in said:
            line = sweep.stdout.readline()
            self.assertTrue(line, said)
            said += line
        with open(begin, "w"):
            pass
        said += sweep.communicate(timeout=120)[0]
        self.assertEqual(sweep.returncode, 0, said)
        self.assertEqual(said.count("rates-2 is not accepted yet, and is submitted again: "), 1, said)
        self.assertIn("(limits.queued)", said)
        self.assertIn("sweep rates: 2 trials, 2 ended", said)
        words = self.short()
        words[1] = "{size}"
        done = self.cluster.command("sweep", self.file(name="sizes", parameters={"rate": [0.1], "size": [1, "0"]}, arguments=words))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"sizes-2 is refused \(64\), and the sweep goes on without it: ")
        self.assertRegex(done.stdout, r"sizes-1 .* ended")
        self.assertRegex(done.stdout, r"sizes-2 .* refused \(64\)")

    def test_what_cannot_be_is_refused_before_anything_is_submitted(self):
        self.cluster.refused(78, "sweep.toml: parameters.size is used nowhere", "sweep", self.file(parameters={"size": [1], "rate": [1]}))
        self.cluster.refused(78, "does not exist here", "sweep", self.file(arguments=["missing.py", "--rate={rate}"]))
        self.cluster.refused(64, "name the file", "sweep")
        self.cluster.refused(66, "cannot be read", "sweep", "nowhere.toml")
        self.assertEqual(self.cluster.queue()["jobs"], [])
        lines = self.cluster.do("sweep", self.file(trials=2, seed=5), "--dry-run").splitlines()
        self.assertEqual(len(lines), 2)
        self.cluster.do("submit", "--name", "taken-1", "-n", "1", "-x", harness.MARK, "--", "sleep", "600")
        self.cluster.refused(78, " taken-1 already, which is none of this sweep", "sweep", self.file(name="taken"))
        self.cluster.do("cancel", "taken-1")
        self.assertRegex(lines[0], r"^elastictrain submit --name rates-1 .* --rate=[0-9.e+-]+$")
        failing = self.file(name="failing", arguments=["-n", "1", "-x", harness.MARK, "--", "sh", "-c", "exit {code}"], parameters={"code": [3]})
        done = self.cluster.command("sweep", failing)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("failing-1 failed (3)", done.stdout)
        self.assertRegex(done.stdout, r"failing-1 .* it noted no accuracy\n")
        self.assertIn("every trial has failed", done.stderr)
        silent = self.file(name="silent", arguments=["-n", "1", "-x", harness.MARK, "--", "sh", "-c", "exit {code}"], parameters={"code": [0]})
        done = self.cluster.command("sweep", silent)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("no trial has reported a number for accuracy", done.stderr)

    def test_what_a_trial_has_reported_does_not_count_once_it_has_failed(self):
        path = self.file(arguments=self.short("--status={status}"), parameters={"rate": [0.01], "status": [3]})
        done = self.cluster.command("sweep", path)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"rates-1 .* failed \(3\)")
        self.assertIn("every trial has failed", done.stderr)


if __name__ == "__main__":
    harness.main()
