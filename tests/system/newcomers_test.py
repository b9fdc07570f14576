"""A new worker that disagrees, ends early or cannot join harms nobody: real processes with the Python session."""

import os
import sys

import harness
from harness import Case, Run, job, pids

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROGRAM = os.path.join(HERE, "newcomer_program.py")


def run_with(odd):
    environment = {"PYTHONPATH": os.path.join(ROOT, "train", "python"), "PYTHONDONTWRITEBYTECODE": "1", "ET_ODD": odd}
    config = job(workers=(1, 2, 4), command=[sys.executable, PROGRAM], batch={"per_worker": 8})
    config["workers"]["preload"] = ["none"]
    config["failures"] = {"max_crashes": 0, "max_hangs": 0}
    return Run(config, environment=environment)


class Newcomers(Case):
    def check_refused(self, odd, reason):
        with run_with(odd) as run:
            before = sorted(pids(run.wait_size(2)))
            run.do("resize", run.name, 3)
            self.assertIn(reason, run.wait_event("grow_refused", timeout=60)["reason"])
            run.wait_size(2)
            run.wait_more_steps(20)
            # A rank may be another's: after a repeated step who has its state comes first.
            self.assertEqual(sorted(pids(run.status())), before)
            self.assertEqual(run.events("loss"), [])
            self.assertIn("grow refused", run.text())
            refused = run.command("resize", run.name, "3", "--wait", timeout=90)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn(reason, refused.stdout + refused.stderr)
            self.assertEqual(len(run.events("grow_refused")), 2, "a new request tries it again")
            run.wait_size(2)
            self.assertEqual(sorted(pids(run.status())), before)
            self.assert_ends_clean(run)

    def test_another_value(self):
        self.check_refused("value", "the counter is 7 here and 8 elsewhere")

    def test_another_collective(self):
        self.check_refused("call", "ranks disagree about a collective operation")

    def test_a_script_that_ends_in_good_order(self):
        self.check_refused("ends", "ended its training before the others")

    def test_a_script_that_raises_in_its_first_steps(self):
        self.check_refused("raises", "exited with status 1")

    def test_a_process_that_ends_with_status_0(self):
        self.check_refused("silent", "exited before its training ended")

    def test_a_worker_that_declines(self):
        self.check_refused("declines", "the script's second loop cannot be entered")

    def test_a_script_that_ends_before_it_joins(self):
        self.check_refused("exits", "exited before its training ended")


if __name__ == "__main__":
    harness.main()
