"""Scripts as others write them, on real processes that change: data, loops and files of a script's own, without a change for
elastictrain. A worker that joins goes on where the others are, or says why it cannot; those that train lose nothing by it."""

import os
import re
import signal
import tempfile
import unittest

import harness
from harness import Case, pids, wait_until
from torch_frameworks_test import lacks, script_job
from torch_test import END_S, PYTHON, START_S, WHY_NOT, torch_run

NEVER_AVERAGED = 95


class Changed(Case):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory, self.saved = directory.name, os.path.join(directory.name, "saved")

    def started(self, script, case, workers, **sections):
        return torch_run(script_job(script, workers, **sections), ET_CASE=case, ET_SAVED=self.saved)

    def resized(self, script, case, sizes, **sections):
        """Its output, after it trained with these numbers of workers, one after the other, to its own end."""
        with self.started(script, case, (1, sizes[0], max(sizes)), **sections) as run:
            run.wait_size(sizes[0], START_S)
            for size in sizes[1:]:
                run.wait_more_steps(8, START_S)
                run.do("resize", run.name, size)
                run.wait_size(size, START_S)
            run.wait_more_steps(8, START_S)
            self.ends(run)
            self.assertNotIn("Traceback", run.text())
            self.assertEqual(run.events("worker_lost"), [])
            return run.text()

    def ends(self, run):
        with open(f"{self.saved}.stop", "w"):
            pass
        self.assertEqual(run.wait(END_S), 0, run.text()[-3000:])
        run.wait_no_processes()
        self.assert_audit_clean(run)

    def trains_on_without(self, script, case, reason):
        """A third worker cannot join. It says why, and the two that train do so to their own end."""
        with self.started(script, case, (1, 2, 3)) as run:
            run.wait_size(2, START_S)
            first = pids(run.status())
            run.do("resize", run.name, 3)
            run.wait_text(reason, START_S)
            run.wait_more_steps(8, START_S)
            self.assertEqual(pids(run.status()), first)
            self.assertEqual(run.events("worker_lost") + run.events("abort"), [])
            self.ends(run)

    def refuses(self, script, case, sentence, status=1):
        with self.started(script, case, (2, 2, 2)) as run:
            self.assertEqual(run.wait(END_S), status, run.text()[-3000:])
            run.wait_no_processes()
            self.assertIn(sentence, run.text())


@unittest.skipIf(PYTHON is None, WHY_NOT)
class OwnData(Changed):
    """torch_own_data.py"""

    def averages(self, case, sizes):
        text = self.resized("torch_own_data.py", case, sizes)
        ends = re.findall(r"ends after (\d+) with ([\d.]+) and (.+)", text)
        self.assertEqual(len(ends), sizes[-1], text[-3000:])
        self.assertEqual(len(set(ends)), 1, "weights and rates are equal on all workers")
        iteration, rate, _ = ends[0]
        self.assertAlmostEqual(float(rate), 0.1 / (1 + 0.01 * (int(iteration) - 1)), 8, "as without a change")
        self.assertIn("data: not counted", text)

    def test_random_batches_and_a_rate_made_by_hand(self):
        self.averages("random", (2, 3, 1, 2))

    def test_no_sync(self):
        self.averages("no-sync", (2, 3))

    def test_the_flag_of_no_sync(self):
        self.averages("flag", (2, 3))

    def test_a_stateful_loader(self):
        why = lacks("torchdata")
        if why:
            self.skipTest(why)
        self.averages("stateful", (2, 3))

    def test_a_model_that_is_never_averaged_is_an_error_at_the_end(self):
        self.refuses("torch_own_data.py", "own-update", "whose gradients were never averaged", NEVER_AVERAGED)

    def test_a_loop_that_cannot_be_set_lets_nobody_join(self):
        self.trains_on_without("torch_own_data.py", "comprehension", "could not join: ")

    def test_a_setup_that_fails_with_another_size_lets_nobody_join(self):
        self.trains_on_without("torch_own_data.py", "fixed-world", "this script is for 2 workers, not for 3")


if __name__ == "__main__":
    harness.main()
