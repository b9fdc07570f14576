"""The programs of train/python/examples: each trains with two workers to its end, and every sample counts once."""

import os
import tempfile
import unittest

import harness
from harness import Case, Run
from torch_frameworks_test import lacks
from torch_test import END_S, PYTHON, WHY_NOT, torch_python

EXAMPLES = os.path.join(torch_python.PACKAGE, "examples")
DATA = os.path.join(torch_python.ROOT, "tests", "data")
ARGUMENTS = {"digits": (os.path.join(DATA, "optdigits"), "2"), "resnet": ("1",),
             "gpt": (os.path.join(DATA, "tinyshakespeare", "input.txt"), "30")}


@unittest.skipIf(PYTHON is None, WHY_NOT)
class Examples(Case):
    def setUp(self):
        """What a program writes goes to a folder that is thrown away."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(directory.name)

    def trains(self, kind, *door):
        for subject, arguments in ARGUMENTS.items():
            with self.subTest(subject):
                self.runs([PYTHON, *door, os.path.join(EXAMPLES, f"{subject}_{kind}.py"), *arguments])

    def runs(self, command):
        environment = {"PYTHONPATH": torch_python.PACKAGE, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore",
                       "PYTHONDONTWRITEBYTECODE": "1"}
        with Run(arguments=["-n", "2", "--audit", "1", "--", *command], environment=environment) as run:
            self.assertEqual(run.wait(END_S), 0, run.text()[-2000:])
            run.wait_no_processes()
            self.assert_audit_clean(run)

    def test_two_lines(self):
        self.trains("elastic")

    def test_scripts_with_ddp_that_change_nothing(self):
        self.trains("ddp", "-m", "elastictrain.torch")

    def test_lightning(self):
        why = lacks("lightning")
        if why:
            self.skipTest(why)
        self.trains("lightning")


if __name__ == "__main__":
    harness.main()
