"""Checkpoints that a user can trust: a failed one is loud, `status` shows the newest good one, a start says what it takes."""

import os
import shutil
import tempfile

import harness
from harness import Case, Run, job, synthetic


class Checkpoints(Case):
    def setUp(self):
        directory = tempfile.mkdtemp(prefix="et-checkpoints-")
        self.addCleanup(shutil.rmtree, directory)
        self.place = os.path.join(directory, "checkpoints")

    def config(self, trainer=None, **checkpoint):
        return job(trainer=trainer, checkpoint={"directory": self.place, "interval_steps": 5, **checkpoint})

    def break_place(self):
        os.rename(self.place, self.place + ".away")
        with open(self.place, "w") as file:
            file.write("no directory")

    def mend_place(self):
        os.remove(self.place)
        os.rename(self.place + ".away", self.place)

    def test_a_failure_is_said_once_shown_in_status_and_its_end_is_said(self):
        with Run(self.config()) as run:
            good = run.wait_status(lambda s: s["checkpoint"]["step"], what="a good checkpoint")["checkpoint"]
            self.assertEqual((good["failures"], good["reason"]), (0, ""))
            self.assertGreaterEqual(good["age_s"], 0)
            self.assertRegex(run.do("status", run.name), r"(?m)^checkpoint: step \d+, .* ago$")
            self.break_place()
            bad = run.wait_status(lambda s: s["checkpoint"]["failures"] > 2, what="failures")["checkpoint"]
            self.assertIn(self.place, bad["reason"])
            self.assertRegex(run.do("status", run.name), r"(?m)^checkpoint: step \d+, .* ago; \d+ failures since: .*checkpoints")
            self.assertEqual(run.text().count("warning: no checkpoint was written: "), 1)
            self.assertIn("the newest good one is that of step", run.text())
            self.mend_place()
            run.wait_text("checkpoints are written again: step ")
            self.assertEqual(run.status()["checkpoint"]["failures"], 0)
            self.assert_stops_clean(run)

    def test_a_takeover_knows_the_newest_good_one(self):
        with Run(self.config()) as run:
            run.wait_status(lambda s: s["checkpoint"]["step"], what="a good checkpoint")
            run.lose_supervisor()
            run.resume()
            run.wait_status(lambda s: s.get("checkpoint", {}).get("step"), what="the same after the takeover")
            self.assert_stops_clean(run)

    def test_starting_anew_beside_a_checkpoint_and_resuming_from_one_are_said(self):
        with Run(self.config(synthetic(epochs=1, samples=640))) as run:
            self.assertEqual(run.wait(), 0)
        with Run(self.config(synthetic(samples=640), resume=True)) as resumed:
            resumed.wait_text(f"continues from the checkpoint of step 20 in {self.place} (the newest)")
            resumed.do("stop", resumed.name)
            self.assertEqual(resumed.wait(), 0)
        with Run(self.config()) as anew:
            anew.wait_text(f"leaves the checkpoints in {self.place} unchanged; to continue from the newest, set")
            self.assert_stops_clean(anew)

    def test_a_damaged_one_is_said_and_the_one_before_is_taken(self):
        with Run(self.config(synthetic(epochs=1, samples=640))) as run:
            self.assertEqual(run.wait(), 0)
        newest = harness.newest_checkpoint(self.place)
        damaged = next(name for name in os.listdir(self.place)
                       if name.startswith(f"step-{newest}.") and not name.endswith(".json"))
        with open(os.path.join(self.place, damaged), "r+b") as file:
            file.truncate(10)
        with Run(self.config(synthetic(samples=640), resume=True)) as resumed:
            resumed.wait_text("warning: checkpoint skipped: ")
            resumed.wait_text("continues from the checkpoint of step ")
            resumed.do("stop", resumed.name)
            self.assertEqual(resumed.wait(), 0)

    def test_a_place_that_cannot_be_written_is_said_before_anything_starts(self):
        os.makedirs(os.path.dirname(self.place), exist_ok=True)
        with open(self.place, "w") as file:
            file.write("no directory")
        with Run(self.config()) as run:
            self.assertEqual(run.wait(), 73)
            self.assertIn(f"checkpoints cannot be written to checkpoint.directory {self.place}: ", run.text("stderr"))
            self.assertEqual(run.journal(), [])
            checked = run.command("check", run.argv[2])
            self.assertEqual(checked.returncode, 73)
            self.assertIn("problem: checkpoints cannot be written", checked.stdout)
            self.assertIn("verdict: the run cannot start like this: 1 problem", checked.stdout)


if __name__ == "__main__":
    harness.main()
