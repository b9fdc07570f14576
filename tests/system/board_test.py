"""The board on real processes: before a start, while training, for a joiner, and through the loss of a supervisor."""

import os
import sys
import tempfile

import harness
from harness import Case, Run, job

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROGRAM = os.path.join(HERE, "board_program.py")


def board_run(**variables):
    environment = {"PYTHONPATH": os.path.join(ROOT, "train", "python"), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    config = job(workers=(1, 2, 4), command=[sys.executable, PROGRAM], batch={"per_worker": 8})
    config["workers"]["preload"] = ["none"]
    return Run(config, environment=environment)


def path_of(run):
    return os.path.join(run.state, run.name, "board")


class Board(Case):
    def test_workers_meet_on_it_before_they_start_and_a_joiner_reads_what_members_leave(self):
        with board_run() as run:
            run.wait_size(2)
            self.assertIn("worker 1 met worker 2", run.text())
            self.assertIn("worker 2 met worker 1", run.text())
            run.do("resize", run.name, 3)
            run.wait_size(3)
            run.wait_text("worker 3 met worker 1")
            run.wait_text("worker 3 starts behind step ")
            self.assertNotIn("behind step none", run.text())
            self.assertTrue(os.path.exists(path_of(run)))
            self.assert_stops_clean(run)
            self.assertFalse(os.path.exists(path_of(run)), "the board outlives the run")

    def test_it_survives_the_loss_of_its_supervisor_and_nobody_waits_for_it(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        asks = os.path.join(directory.name, "asks")
        with board_run(ET_ASKS=asks) as run:
            run.wait_size(2)
            run.lose_supervisor()
            run.wait_more_steps(50)
            run.resume()
            run.wait_size(2)
            open(asks, "w").close()
            run.wait_text("kept a value of before")
            self.assertNotIn("kept nothing", run.text())
            run.do("resize", run.name, 3)
            run.wait_size(3)
            run.wait_text("worker 3 met worker 1")
            self.assert_ends_clean(run)


if __name__ == "__main__":
    harness.main()
