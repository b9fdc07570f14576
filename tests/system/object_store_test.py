"""Checkpoints in an object store: written through a client program, found again from another machine, refused by name."""

import os
import shutil
import signal
import tempfile

import harness
from harness import Case, Run, job, synthetic

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLIENT = os.path.join(SOURCE, "tests", "unit", "checkpoint", "client.sh")


class Places(Case):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="et-objects-")
        self.addCleanup(shutil.rmtree, self.directory)

    def config(self, trainer=None, **checkpoint):
        return job(trainer=trainer, checkpoint={**self.place(), "interval_steps": 5, **checkpoint})

    def wait_good(self, run):
        return run.wait_status(lambda s: s["checkpoint"]["step"], what="a good checkpoint", timeout=60)["checkpoint"]

    def stopped(self, run):
        """The last step of a run that has written a checkpoint and is told to end."""
        self.wait_good(run)
        run.signal(signal.SIGTERM)
        self.assertEqual(run.wait(60), 75, run.text())
        return run.last_step()

    def goes_on_by_name_and_from_another_machine(self):
        with Run(self.config()) as run:
            last = self.stopped(run)
            run.lines.clear()
            run.resume()
            run.wait_text(f"continues from the checkpoint of step {last} in {self.place()['directory']} (the newest)")
            run.wait_step(last + 5)
            run.signal(signal.SIGTERM)
            self.assertEqual(run.wait(60), 75, run.text())
        with Run(self.config(resume=True, adopt=True)) as elsewhere:  # another run, which knows nothing of the first one
            elsewhere.wait_text("continues from the checkpoint of step ")
            elsewhere.do("stop", elsewhere.name)
            self.assertEqual(elsewhere.wait(60), 0, elsewhere.text())


class Client(Places):
    def setUp(self):
        super().setUp()
        self.broken = os.path.join(self.directory, "broken")
        self.slow = os.path.join(self.directory, "slow")  # to put fences
        self.client = os.path.join(self.directory, "client")
        with open(self.client, "w") as file:
            file.write(f"#!/bin/sh\n[ ! -e {self.broken} ] || {{ echo 'SlowDown: reduce your request rate' >&2; exit 1; }}\n"
                       f'case "$1 $2" in "put "*/fence.*) [ ! -e {self.slow} ] || sleep 2 ;; esac\n'
                       f"exec {CLIENT} \"$@\"\n")
        os.chmod(self.client, 0o755)

    def place(self):
        return {"directory": f"dir://{self.directory}/objects", "client": self.client}

    def test_a_run_goes_on_by_its_name_and_from_another_machine(self):
        self.goes_on_by_name_and_from_another_machine()
        names = os.listdir(f"{self.directory}/objects")
        self.assertLessEqual(len([name for name in names if name.endswith(".safetensors")]), 3)  # checkpoint.keep
        self.assertFalse([name for name in names if "tries" in name or ".tmp" in name], names)

    def test_what_ends_with_the_supervisor_continues_from_the_store(self):
        with Run(self.config()) as run:
            good = self.wait_good(run)["step"]
            run.lose_everything()
            run.resume("--set", "timeouts.resume_timeout_ms=1000")
            run.wait_text("continues from the checkpoint of step ")
            run.wait_step(good + 5)
            self.assert_stops_clean(run)

    def test_no_step_is_trained_before_the_fence_is_there(self):
        """Without it a start after the loss of these workers would not know of their steps."""
        with Run(self.config()) as run:
            last = self.stopped(run)
            with open(self.slow, "w"):
                pass
            run.resume()
            run.wait_step(last + 1)
            self.assertTrue([name for name in os.listdir(f"{self.directory}/objects") if name.startswith("fence.gen-")])
            self.assert_stops_clean(run)

    def test_a_store_that_refuses_costs_checkpoints_and_nothing_else(self):
        with Run(self.config()) as run:
            self.wait_good(run)
            open(self.broken, "w").close()
            bad = run.wait_status(lambda s: s["checkpoint"]["failures"] > 1, what="failures")["checkpoint"]
            self.assertIn("SlowDown: reduce your request rate", bad["reason"])
            self.assertEqual(run.text().count("warning: no checkpoint was written: "), 1)
            os.remove(self.broken)
            run.wait_text("checkpoints are written again: step ")
            self.assert_stops_clean(run)

    def test_a_place_belongs_to_one_run_at_a_time(self):
        with Run(self.config()) as first:
            self.wait_good(first)
            second = Run(self.config())
            with second:
                self.assertNotEqual(second.wait(), 0)
                self.assertIn(f"belongs to run {first.name}, which trains on ", second.text("stderr"))
            self.assert_stops_clean(first)

    def test_mistakes_are_named_before_anything_starts(self):
        for checkpoint, expected in (
                ({"client": "/nonexistent"}, "the client /nonexistent cannot be run: No such file or directory; install it on each host"),
                ({"directory": "gs://bucket/x", "client": ""}, "needs checkpoint.client, a program that reaches it"),
                ({"directory": f"{self.directory}/plain"}, "is for a checkpoint.directory in an object store")):
            with self.subTest(expected), Run(self.config(**checkpoint)) as run:
                self.assertNotEqual(run.wait(), 0)
                self.assertIn(expected, run.text("stderr"))
        open(self.broken, "w").close()
        with Run(self.config()) as run:
            self.assertEqual(run.wait(), 73)
            self.assertIn("checkpoints cannot be written to checkpoint.directory dir://", run.text("stderr"))
            self.assertIn("the client " + self.client + " ended with status 1: SlowDown", run.text("stderr"))


if __name__ == "__main__":
    harness.main()
