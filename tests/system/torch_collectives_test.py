"""torch.distributed's own functions in scripts that nobody changed: their values in a step, between epochs and before the
training, there also for a worker that joins later; what is refused is so by the name that the script used."""

import os
import re
import tempfile
import unittest

import harness
from harness import Case
from torch_frameworks_test import script_job
from torch_test import END_S, PYTHON, START_S, WHY_NOT, torch_run

REFUSED = {
    "send": ("dist.send(torch.ones(1), 0)", r"torch\.distributed\.send\(\) cannot be elastic: a message between two workers"),
    "part": ("dist.new_group([1])", r"this script needs torch\.distributed\.new_group\(\), as FSDP, pipelines and process groups"),
    "mesh": ("dist.init_device_mesh('cpu', (1,))", r"this script needs torch\.distributed\.init_device_mesh\(\), as FSDP"),
    "zero": ("ZeroRedundancyOptimizer([torch.nn.Parameter(torch.ones(1))], torch.optim.SGD, lr=1.0)",
             r"torch\.distributed\.optim\.ZeroRedundancyOptimizer, which divides the optimizer's state"),
    "local": ("PostLocalSGDOptimizer(None, None)",
              r"torch\.distributed\.optim\.PostLocalSGDOptimizer, which averages models now and then"),
    "thread": ("in_thread(dist.barrier)", r"torch\.distributed\.barrier\(\) in the thread 'apart': collectives of a run are made"),
}
PROGRAM = """
import threading, torch, torch.distributed as dist
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
def in_thread(call):
    found = []
    def held():
        try: call()
        except Exception as error: found.append(error)
    thread = threading.Thread(target=held, name="apart")
    thread.start(); thread.join()
    raise found[0]
dist.init_process_group("gloo")
{}
"""


@unittest.skipIf(PYTHON is None, WHY_NOT)
class Collectives(Case):
    def test_values(self):
        for point in ("setup", "update", "between"):
            with self.subTest(point), tempfile.TemporaryDirectory() as saved:
                with torch_run(script_job("torch_collectives.py", (2, 2, 2)), ET_POINT=point, ET_SAVED=saved) as run:
                    self.assertEqual(run.wait(END_S), 0, run.text()[-2000:])
                    run.wait_no_processes()
                found = re.findall(r"case (\w+) rank (\d) of 2: (.*)", run.text())
                self.assertEqual([case for case in found if case[2] != "equal"], [])
                self.assertEqual(len(found), 2 * len({name for name, _, _ in found}), "a case is missing")
                self.assertGreaterEqual(len(found), 2 * 24)

    def test_what_is_refused(self):
        for uses, (line, sentence) in REFUSED.items():
            with self.subTest(uses), tempfile.TemporaryDirectory() as directory:
                program = os.path.join(directory, "script.py")
                with open(program, "w") as file:
                    file.write(PROGRAM.format(line))
                with torch_run(script_job(program, (1, 1, 1))) as run:
                    self.assertEqual(run.wait(END_S), 1)
                    run.wait_no_processes()
                    self.assertRegex(run.text(), sentence)


@unittest.skipIf(PYTHON is None, WHY_NOT)
class Pass(Case):
    """A script whose loss is over the batches of all workers."""

    def test_a_loss_between_two_exchanges_of_a_pass_costs_nobody_else(self):
        """Nor do batches at the end of an epoch, which cannot be divided equally."""
        for way in ("list", "gradient"):
            with self.subTest(way), tempfile.TemporaryDirectory() as directory:
                config = script_job("torch_contrast.py", (1, 3, 3), failures={"cool_down_ms": 500})
                with torch_run(config, ET_GATHER=way, ET_MARK=os.path.join(directory, "mark")) as run:
                    run.wait_event("loss", timeout=START_S)
                    run.wait_status(lambda s: s["phase"] == "running" and s["world_size"] == 3, START_S, "the successor")
                    run.wait_step(100, START_S)
                    self.assertEqual([event["worker"] for event in run.events("exited")], [2], run.text()[-2000:])
                    self.assertIn("lost in a pass: the worker of rank 1, in step 12, between two exchanges", run.text())
                    self.assertIn("repeated: this script gathers values of all batches", run.text())
                    self.assert_stops_clean(run)

    def test_what_is_no_row_of_a_batch_leaves_the_batches_as_they_are(self):
        """Nor does its length mean one thing to one worker and another to the next, where they have 33, 33 and 30 samples."""
        with torch_run(script_job("torch_contrast.py", (3, 3, 3)), ET_GATHER="counts") as run:
            run.wait_step(40, START_S)
            self.assertEqual(run.events("exited"), [], run.text()[-2000:])
            self.assertNotIn("repeated:", run.text())
            self.assert_stops_clean(run)


@unittest.skipIf(PYTHON is None, WHY_NOT)
class BeforeTraining(Case):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.saved = os.path.join(directory.name, "saved")

    def test_the_first_rank_prepares_for_those_that_start_and_for_one_that_joins(self):
        with torch_run(script_job("torch_prepares.py", (1, 2, 3)), ET_SAVED=self.saved) as run:
            run.wait_size(2, START_S)
            run.do("resize", run.name, 3)
            run.wait_size(3, START_S)
            with open(f"{self.saved}.stop", "w"):
                pass
            self.assertEqual(run.wait(END_S), 0, run.text()[-2000:])
            run.wait_no_processes()
            found = re.findall(r"found: (.*)", run.text())
            self.assertEqual(len(found), 3, run.text())
            self.assertEqual(len(set(found)), 1, found)
            self.assertRegex(found[0], r"^prepared; run of process (\d+); began with \1; 2 workers$")

    def test_a_rank_that_goes_another_way_ends_it_with_a_sentence(self):
        with torch_run(script_job("torch_prepares.py", (2, 2, 2)), ET_SAVED=self.saved, ET_USES="one-waits") as run:
            self.assertNotEqual(run.wait(END_S), 0)
            run.wait_no_processes()
            self.assertTrue(re.search(r"FileNotFoundError|where rank 0 called barrier", run.text()), run.text())


if __name__ == "__main__":
    harness.main()
