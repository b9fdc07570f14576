"""Everything that may be saved is saved when a run is told to go: TERM to every process of a job, in any order."""

import os
import random
import signal
import sys
import tempfile
import unittest

import harness
from harness import Case, Run, job, newest_checkpoint, signal_all

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "python"))

import torch_python  # noqa: E402

PYTHON, WHY_NOT = torch_python.find()
REPEATS = int(os.environ.get("ET_REPEATS", "2"))
START_S = 600  # until workers with torch take part, beside other work
END_S = 120


def torch_run(directory, **variables):
    config = job(workers=(1, 2, 2), command=[PYTHON, os.path.join(HERE, "torch_loading.py")], audit={"every_steps": 1},
                 checkpoint={"directory": directory}, batch={"per_worker": 8})
    config["workers"].update(preload=["torch"])
    config["timeouts"] = {"ready_ms": 1000 * START_S, "start_ms": 1000 * START_S}
    environment = {"PYTHONPATH": torch_python.PACKAGE, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1",
                   "PYTHONWARNINGS": "ignore", **{name: str(value) for name, value in variables.items()}}
    return Run(config, environment=environment)


def everyone(run, seed):
    processes = [run.process.pid, *run.processes()]
    random.Random(seed).shuffle(processes)
    return processes


@unittest.skipIf(PYTHON is None, WHY_NOT)
class TermToAll(Case):
    def saves_and_resumes(self, seed, **variables):
        with tempfile.TemporaryDirectory() as directory, torch_run(directory, **variables) as run:
            run.wait_size(2, START_S)
            run.wait_more_steps(10)
            before = run.last_step()
            signal_all(everyone(run, seed), signal.SIGTERM)
            self.assertEqual(run.wait(END_S), 75, run.text()[-3000:])
            run.wait_no_processes()
            self.assertGreaterEqual(newest_checkpoint(directory), before, "the last step is saved")
            run.resume()
            self.assertEqual(run.wait(END_S), 0, run.text()[-3000:])
            self.assertIn("counted 2 to 2 after 2 epochs", run.text())
            self.assert_audit_clean(run)

    def repeated(self, **variables):
        for seed in range(REPEATS):
            with self.subTest(seed=seed):
                self.saves_and_resumes(seed, **variables)

    def test_without_loader_processes(self):
        self.repeated()

    def test_with_loader_processes(self):
        self.repeated(ET_LOADERS=2)

    def test_with_a_loader_of_the_programs_own(self):
        self.repeated(ET_OWN_LOADER=1)


if __name__ == "__main__":
    harness.main()
