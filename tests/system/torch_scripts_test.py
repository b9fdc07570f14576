"""The table of train/python/SCRIPTS.md: patterns of PyTorch's own DDP examples work while the size changes and a worker is
killed, or are refused with a sentence."""

import os
import re
import signal
import tempfile
import unittest

import harness
from harness import Case, Run, pids
from torch_frameworks_test import script_job
from torch_test import END_S, PYTHON, START_S, WHY_NOT, torch_python, torch_run

WORKS = ("plain", "hook", "accumulation", "logged", "join", "join-class", "unused", "static", "mixed", "weighted", "stream", "closure",
         "evaluation-mode")
REFUSED = {
    "fsdp": "as FSDP, pipelines and process groups of parts of the workers do",
    "fully-shard": "as FSDP, pipelines and process groups of parts of the workers do",
    "sync-batchnorm": "this script needs SyncBatchNorm",
    "early": "this script makes an update before a backward pass through its model has made the gradients of the step",
    "alternating": "Only batches of the run can be trained on",
}


@unittest.skipIf(PYTHON is None, WHY_NOT)
class Scripts(Case):
    def test_what_works(self):
        for pattern in WORKS:
            with self.subTest(pattern), tempfile.TemporaryDirectory() as directory:
                self.works(pattern, os.path.join(directory, "saved"))

    def works(self, pattern, saved):
        variables = {"ELASTICTRAIN_ACCUMULATION": 2} if pattern == "accumulation" else {}
        with torch_run(script_job("torch_patterns.py", (1, 1, 2)), ET_PATTERN=pattern, ET_EPOCHS=10000, ET_SAVED=saved,
                       **variables) as run:
            run.wait_size(1, START_S)
            run.do("resize", run.name, 2)
            run.wait_size(2, START_S)
            victim = pids(run.status())[1]
            os.kill(victim, signal.SIGKILL)
            run.wait_status(lambda s: s.get("world_size") == 2 and victim not in pids(s), 60, "the replacement")
            run.wait_size(2, START_S)
            with open(saved + ".stop", "w"):
                pass
            self.assertEqual(run.wait(END_S), 0, run.text()[-2000:])
            run.wait_no_processes()
            self.assert_audit_clean(run)
            self.assertIn(f"done {pattern}", run.text())
            self.assertEqual("counts once in an epoch" in run.text(), pattern != "stream")

    def test_a_second_loader_beside_that_of_the_run(self):
        """Who joins such a script must meet the others in its first loop, and may not; those who are there train on."""
        with tempfile.TemporaryDirectory() as directory:
            saved = os.path.join(directory, "saved")
            with torch_run(script_job("torch_patterns.py", (1, 1, 2)), ET_PATTERN="zipped", ET_EPOCHS=10000,
                           ET_SAVED=saved) as run:
                first = pids(run.wait_size(1, START_S))[0]
                run.do("resize", run.name, 2)
                run.wait_status(lambda s: s.get("world_size") == 2 or run.events("grow_refused"), START_S, "a try to grow")
                run.wait_more_steps(50)
                self.assertIn(first, pids(run.status()))
                with open(saved + ".stop", "w"):
                    pass
                self.assertEqual(run.wait(END_S), 0, run.text()[-2000:])
                self.assert_audit_clean(run)

    def test_what_is_refused(self):
        for pattern, sentence in REFUSED.items():
            with self.subTest(pattern), torch_run(script_job("torch_patterns.py", (1, 1, 1)), ET_PATTERN=pattern) as run:
                self.assertEqual(run.wait(END_S), 1)
                run.wait_no_processes()
                self.assertIn(sentence, run.text())

    def test_accumulation_without_its_number_is_refused(self):
        with torch_run(script_job("torch_patterns.py", (1, 1, 1)), ET_PATTERN="accumulation") as run:
            self.assertEqual(run.wait(END_S), 1)
            run.wait_no_processes()
            self.assertIn("Start it with ELASTICTRAIN_ACCUMULATION=N", run.text())


@unittest.skipIf(PYTHON is None, WHY_NOT)
class Preload(Case):
    def test_workers_that_share_an_import_have_seeds_and_threads_of_their_own(self):
        script = os.path.join(os.path.dirname(__file__), "torch_preloaded.py")
        for modules, place, threads in (("torch", "before", 2), ("none", "here", 1)):
            with self.subTest(modules):
                arguments = ["-n", "2", "--preload", modules, "-x", f"OMP_NUM_THREADS={threads}", "--", PYTHON, script]
                with Run(arguments=arguments, environment={"PYTHONPATH": torch_python.PACKAGE}) as run:
                    self.assertEqual(run.wait(END_S), 0, run.text()[-2000:])
                    run.wait_no_processes()
                    seeds = re.findall(rf"worker [01]: torch imported {place}, seed (\d+), {threads} threads", run.text())
                    self.assertEqual(len(set(seeds)), 2, run.text())


@unittest.skipIf(PYTHON is None, WHY_NOT)
class Flag(Case):
    """`elastictrain run --torch`."""

    def started(self, path):
        arguments = ["-n", "1:1", "--torch", "--", PYTHON, os.path.join(os.path.dirname(__file__), "torch_patterns.py")]
        environment = {"PYTHONPATH": path, "ET_PATTERN": "plain", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        return Run(arguments=arguments, environment=environment)

    def test_it_makes_a_script_elastic_where_the_package_is_installed(self):
        with tempfile.TemporaryDirectory() as installed:
            information = os.path.join(installed, "elastictrain-0.1.0.dist-info")
            os.mkdir(information)
            with open(os.path.join(information, "entry_points.txt"), "w") as file:
                file.write("[torch.backends]\nelastictrain = elastictrain._torch_autoload:activate\n")
            with self.started(os.pathsep.join([installed, torch_python.PACKAGE])) as run:
                self.assertEqual(run.wait(END_S), 0, run.text()[-2000:])
                run.wait_no_processes()
                self.assertIn("elastictrain: made elastic: Sequential, SGD", run.text())

    def test_it_says_so_where_the_package_is_not_installed(self):
        with self.started("") as run:
            self.assertEqual(run.wait(END_S), 78)
            self.assertIn(f"--torch: {PYTHON} has no package elastictrain", run.text())


if __name__ == "__main__":
    harness.main()
