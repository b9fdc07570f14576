"""Checkpoints that a user can trust: a failed one is loud, `status` shows the newest good one, a start says what it takes."""

import os
import shutil
import signal
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

    def test_a_last_state_that_is_on_no_disk_is_a_status_of_its_own(self):
        for stopped in (False, True):
            with self.subTest(stopped=stopped), Run(self.config(None if stopped else synthetic(epochs=1, samples=9600))) as run:
                good = run.wait_status(lambda s: s["checkpoint"]["step"], what="a good checkpoint")["checkpoint"]["step"]
                self.break_place()
                run.wait_status(lambda s: s["checkpoint"]["failures"] > 0, what="a failure")
                if stopped:
                    run.do("stop", run.name)
                self.assertEqual(run.wait(), 74)
                run.wait_no_processes()
                ended = next(line for line in run.text().splitlines() if line.startswith("  ended: "))
                self.assertRegex(ended, r"but the last state, that of step \d+, is on no disk: .*; the newest checkpoint is that of step")
                self.assertIn(f"continue with: elastictrain run --resume {run.name}", run.text("stderr"))
                self.assertEqual(run.events("end")[0]["status"], 74)
                self.mend_place()
                if not stopped:
                    run.resume()
                    self.assertEqual(run.wait(), 0)
                    self.assertIn(f"continues from the checkpoint of step", run.text())
            shutil.rmtree(self.place)

    def test_a_run_whose_checkpoints_are_gone_does_not_start_again_from_its_first_step(self):
        with Run(self.config()) as run:
            run.wait_checkpoint(self.place, 10)
            run.signal(signal.SIGTERM)
            self.assertEqual(run.wait(), 75)
            last = harness.newest_checkpoint(self.place)
            os.rename(self.place, self.place + ".away")
            run.lines.clear()
            run.resume()
            self.assertEqual(run.wait(), 66, run.text())
            self.assertIn(f"there is no checkpoint in checkpoint.directory {self.place}, and its newest one, of step {last},", run.text())
            run.resume("--fresh")
            run.wait_size(2)
            self.assertEqual(min(step["step"] for step in run.steps() if step["pid"] in harness.pids(run.status())), 1)
            self.assert_ends_clean(run)

    def test_workers_look_where_the_supervisor_cannot(self):
        """Everything is lost with the checkpoints, so that only workers that start again find out."""
        with Run(self.config()) as run:
            run.wait_status(lambda s: s["checkpoint"]["step"], what="a good checkpoint")
            run.lose_everything()
            shutil.rmtree(self.place)
            run.resume("--set", "timeouts.resume_timeout_ms=1000", "--set", "failures.max_crashes=0")
            self.assertNotIn(run.wait(60), (0, 75), run.text())
            self.assertEqual(run.events("generation", first_step=1), run.events("generation", generation=1), "nothing trains")
            self.assertRegex(run.text(), r"where this run wrote that of step \d+: mount the directory or restore its files")

    def test_a_directory_belongs_to_one_run_at_a_time(self):
        with Run(self.config()) as first:
            first.wait_checkpoint(self.place, 10)
            self.refused(f"belongs to run {first.name}, which trains on ", "/{run}")
            self.refused(f"belongs to run {first.name}, which trains on ", "/{run}", adopt=True)
            first.signal(signal.SIGTERM)
            self.assertEqual(first.wait(), 75)
            files = sorted(name for name in os.listdir(self.place) if name.startswith("step-"))
            self.refused(f"belongs to run {first.name}, which left on ", "checkpoint.adopt = true", resume=True)
            self.assertEqual(sorted(name for name in os.listdir(self.place) if name.startswith("step-")), files)
            last = first.last_step()
            first.resume()
            first.wait_step(last + 5)
            first.signal(signal.SIGTERM)
            self.assertEqual(first.wait(), 75)
            with Run(self.config(resume=True, adopt=True)) as second:
                second.wait_text(f"continues from the checkpoint of step {first.last_step()}")
                second.wait_more_steps(5)
                second.do("stop", second.name)
                self.assertEqual(second.wait(), 0)
                first.lines.clear()
                first.resume()
                self.assertEqual(first.wait(), 69, "its checkpoints are another run's by now")
                self.assertIn(f"belongs to run {second.name}, which ended on ", first.text())
            with Run(self.config()) as third:
                third.wait_size(2)
                self.assert_stops_clean(third)

    def refused(self, *texts, **checkpoint):
        with Run(self.config(**checkpoint)) as run:
            self.assertEqual(run.wait(), 69)
            for text in texts:
                self.assertIn(text, run.text("stderr"))
            self.assertEqual(run.journal(), [])

    def test_a_directory_may_be_named_after_the_run(self):
        place, self.place = self.place, os.path.join(self.place, "{run}")
        with Run(self.config()) as run:
            run.wait_checkpoint(os.path.join(place, run.name), 5)
            run.lose_everything()
            run.resume()
            run.wait_text("continues from the checkpoint of step ", 60)
            self.assert_ends_clean(run)

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
