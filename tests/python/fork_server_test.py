"""What a process of the fork server does before it runs a worker's program, on a torch that only counts threads."""

import os
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "train", "python"))

from elastictrain import _fork_server  # noqa: E402


class Torch(types.ModuleType):
    def __init__(self, threads):
        super().__init__("torch")
        self.threads = threads

    def get_num_threads(self):
        return self.threads

    def set_num_threads(self, threads):
        self.threads = threads


class Threads(unittest.TestCase):
    def left(self, of_server, environment, processors):
        torch = Torch(of_server)
        with mock.patch.dict(sys.modules, torch=torch), mock.patch("os.sched_getaffinity", return_value=range(processors)):
            _fork_server._limit_threads(environment)
        return torch.threads

    def test_a_worker_has_as_many_as_it_would_have_counted_itself(self):
        self.assertEqual(self.left(64, ["OMP_NUM_THREADS=4"], 16), 4)
        self.assertEqual(self.left(64, [], 16), 16)
        self.assertEqual(self.left(8, [], 16), 8, "PyTorch takes cores, which may be fewer than processors")
        self.assertEqual(self.left(64, ["OMP_NUM_THREADS=all"], 16), 16)


class Paths(unittest.TestCase):
    def path(self, program, **flags):
        interpreter = types.SimpleNamespace(path=["of the server", "library"],
                                            flags=types.SimpleNamespace(**{"isolated": 0, "safe_path": False, **flags}))
        with mock.patch.object(_fork_server, "sys", interpreter):
            _fork_server._put_first_into_path(program)
        return interpreter.path

    def test_the_first_place_for_imports_is_that_of_the_program(self):
        self.assertEqual(self.path(["-m", "package.train"]), [os.getcwd(), "library"])
        self.assertEqual(self.path([__file__, "--epochs", "1"]), [os.path.dirname(os.path.realpath(__file__)), "library"])

    def test_an_interpreter_that_adds_none_keeps_what_it_has(self):
        for flag in ("isolated", "safe_path"):
            self.assertEqual(self.path(["train.py"], **{flag: True}), ["of the server", "library"])


class Imports(unittest.TestCase):
    def test_initialized_cuda_is_refused(self):
        torch = Torch(1)
        torch.cuda = types.SimpleNamespace(is_initialized=lambda: True)
        with mock.patch.dict(sys.modules, torch=torch), self.assertRaisesRegex(_fork_server.Refused, "json initialized CUDA"):
            _fork_server._import(["json"])


class Ends(unittest.TestCase):
    def test_what_was_imported_is_freed_at_the_end_of_a_worker(self):
        text = """
import gc, os, sys
from elastictrain import _fork_server
class Held:
    def __init__(self): self.myself = self
    def __del__(self, write=os.write): write(1, b"freed")
sys.held = Held()
gc.freeze()
_fork_server._run([sys.argv[1]])
"""
        with tempfile.NamedTemporaryFile("w", suffix=".py") as program:
            done = subprocess.run([sys.executable, "-c", text, program.name], stdout=subprocess.PIPE, timeout=60, check=True,
                                  env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(_fork_server.__file__))})
        self.assertEqual(done.stdout, b"freed")


if __name__ == "__main__":
    unittest.main()
