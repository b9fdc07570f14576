"""Processes that a worker starts for a part of its work stay when all processes of its job get a notice."""

import os
import signal
import subprocess
import sys
import unittest

import torch_python

HERE = os.path.dirname(os.path.abspath(__file__))
NOTICES = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
START_S = 120  # with torch, beside other work


def parents():
    """process -> its parent"""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                found[int(pid)] = int(file.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            pass
    return found


def helpers_of(worker):
    """Children of the process and their children: a fork server has some."""
    parent = parents()
    children = {pid for pid, of in parent.items() if of == worker}
    return children | {pid for pid, of in parent.items() if of in children}


class Helpers(unittest.TestCase):
    def helped(self, python, *words):
        """The program's output. All processes but the worker get each notice at once, twice."""
        environment = {**os.environ, "PYTHONPATH": torch_python.PACKAGE, "OMP_NUM_THREADS": "1"}
        program = subprocess.Popen([python, os.path.join(HERE, "helped_program.py"), *words], text=True, env=environment,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True)
        try:
            self.assertEqual(program.stdout.readline(), "signal now\n")
            helpers = helpers_of(program.pid)
            self.assertTrue(helpers)
            for number in NOTICES * 2:
                for pid in helpers:
                    os.kill(pid, number)
            out, errors = program.communicate("\n", timeout=START_S)
            self.assertEqual(program.returncode, 0, errors)
            return out
        finally:
            try:
                os.killpg(program.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            program.communicate()

    def test_a_process_of_any_start_method(self):
        for method in ("fork", "spawn", "forkserver"):
            for when in ("begins", "works"):
                with self.subTest(method=method, when=when):
                    self.assertEqual(self.helped(sys.executable, method, "process", when), "ended with -15\n")

    @unittest.skipIf(torch_python.find()[0] is None, torch_python.find()[1])
    def test_a_loader_of_the_programs_own_that_is_executed(self):
        for method, when in (("spawn", "begins"), ("spawn", "works"), ("forkserver", "works")):
            with self.subTest(method=method, when=when):
                self.assertEqual(self.helped(torch_python.find()[0], method, "loader", when), "loaded [0, 1, 2, 3]\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
