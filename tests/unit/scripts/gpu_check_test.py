"""What scripts/gpu_check.sh does first, within its budget, and where it refuses a package. No GPU is used."""

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "scripts", "bench"))

import gpu_check  # noqa: E402  (the path comes first)
import rows  # noqa: E402
from gpu_check import Part  # noqa: E402

FIRST = ["connect", "first-stories", "kill", "abort", "revoke", "queued", "lonely", "kernels", "gpu-kill", "gpu-swap",
         "trainer", "torch"]


def good():
    yield True, "as it must be"


class Budget(unittest.TestCase):
    def check(self, parts, *words):
        output = io.StringIO()
        patched = unittest.mock.patch.multiple(gpu_check, parts=lambda *_: parts, ranks_share_a_gpu=lambda: True,
                                               driver=lambda: "none")
        facts = unittest.mock.patch.object(gpu_check.gpu, "facts", lambda: '{"gpu": "a GPU", "cuda": 13000, "nccl": "2.28.9"}')
        arguments = unittest.mock.patch.object(sys, "argv", ["gpu_check.py", *words])
        with patched, facts, arguments, contextlib.redirect_stdout(output):
            status = gpu_check.main()
        return status, output.getvalue()

    def test_the_most_valuable_parts_come_first_and_speed_last(self):
        parts = gpu_check.parts(False, "")
        self.assertEqual([part.name for part in parts][:len(FIRST)], FIRST)
        speed = [part.mps != "no" for part in parts]
        self.assertEqual(speed, sorted(speed))

    def test_what_passes(self):
        status, text = self.check([Part("a", "", 1, good), Part("b", "", 1, good)])
        self.assertEqual((status, text.count("as it must be")), (0, 2))
        self.assertIn("verdict: PASSED", text)

    def check_with_an_endless_part(self, needs):
        clock = types.SimpleNamespace(now=0.0, monotonic=lambda: clock.now)

        def endless():
            yield True, "begins"
            clock.now = 540.0
            raise gpu_check.TimeIsUp

        with unittest.mock.patch.object(gpu_check, "time", clock):
            status, text = self.check([Part("a", "", 1, good), Part("long", "", needs, endless), Part("b", "", 50, good)])
        self.assertIn(f"| long |  | not done after {min(540, 3 * needs)} s |", text)
        return status, text

    def test_what_hangs_fails_and_what_does_not_fit_is_named(self):
        status, text = self.check_with_an_endless_part(needs=60)
        self.assertEqual(status, 1)
        self.assertIn("not within 540 s: b; --only b runs them", text)
        self.assertIn("verdict: FAILED: long", text)

    def test_what_the_budget_ends_is_named_and_does_not_fail(self):
        status, text = self.check_with_an_endless_part(needs=400)
        self.assertEqual(status, 0)
        self.assertIn("not within 540 s: long, b; --only long,b runs them", text)
        self.assertIn("verdict: PASSED", text)

    def test_what_hangs_leaves_the_others_their_time(self):
        def endless():
            time.sleep(60)
            yield True, "never"

        status, text = self.check([Part("hangs", "", 0.05, endless), Part("b", "", 1, good)])
        self.assertEqual((status, text.count("as it must be")), (1, 1))
        self.assertIn("verdict: FAILED: hangs", text)

    def test_a_part_is_ended_when_its_time_is_up(self):
        with self.assertRaises(gpu_check.TimeIsUp), gpu_check.ended_after(0.05):
            time.sleep(60)

    def test_speeds_say_nothing_where_ranks_share_a_gpu(self):
        parts = [Part("a", "", 1, good), Part("speed", "", 1, good, "needed")]
        text = self.check(parts)[1]
        self.assertIn("left out, because ranks share a GPU and there is no MPS: speed", text)
        self.assertEqual(text.count("as it must be"), 1)
        self.assertIn("| speed |  | as it must be |", self.check(parts, "--only", "speed")[1])

    def test_speeds_are_compared_through_mps(self):
        def seen():
            yield True, f"pipes in {os.environ.get('CUDA_MPS_PIPE_DIRECTORY')}"

        with tempfile.TemporaryDirectory() as directory:
            told = os.path.join(directory, "told")
            control = os.path.join(directory, gpu_check.MPS_CONTROL)
            with open(control, "w") as file:
                file.write(f'#!/bin/sh\n[ "$1" = -d ] || read -r words\necho "$1$words $CUDA_MPS_PIPE_DIRECTORY" >>{told}\n')
            os.chmod(control, 0o755)
            with unittest.mock.patch.dict(os.environ, PATH=f"{directory}:{os.environ['PATH']}"):
                parts = [Part("a", "", 1, seen), Part("speed", "", 1, seen, "needed"), Part("better", "", 1, seen, "better")]
                status, text = self.check(parts)
            with open(told) as file:
                begun, ended, *_ = file.read().splitlines()
        self.assertEqual(status, 0)
        self.assertIn("| a |  | pipes in None |", text)
        folder = begun.removeprefix("-d ")
        self.assertIn(f"| speed |  | pipes in {folder} |", text)
        self.assertEqual(ended, f"quit {folder}")
        self.assertEqual(text.count("pipes in None"), 1)

    def test_an_unknown_part_is_refused(self):
        with contextlib.redirect_stderr(io.StringIO()) as told, self.assertRaises(SystemExit):
            self.check([Part("a", "", 1, good)], "--only", "a,none")
        self.assertIn("no part is called none", told.getvalue())


class Torch(unittest.TestCase):
    def only_line(self, **environment):
        with unittest.mock.patch.dict(os.environ, environment):
            (passed, line), = gpu_check.gpu.torch_lines(True)
        self.assertTrue(passed)
        return line

    def test_a_machine_without_torch_is_told(self):
        def absent():
            raise rows.Unavailable("no Python has torch")

        with unittest.mock.patch.object(gpu_check.gpu.peers, "python_with_torch", absent):
            self.assertEqual(self.only_line(GPU_CHECK_STANDIN=""), "SKIPPED: no Python has torch")

    def test_a_torch_that_sees_no_device_is_told(self):
        with tempfile.TemporaryDirectory() as directory:
            python = os.path.join(directory, "python")
            with open(python, "w") as file:
                file.write("#!/bin/sh\necho 2.9.0 None False\n")
            os.chmod(python, 0o755)
            with unittest.mock.patch.object(gpu_check.gpu.peers, "python_with_torch", lambda: python):
                self.assertIn("sees no CUDA device (2.9.0 None False)", self.only_line(GPU_CHECK_STANDIN=""))

    def test_stand_ins_do_not_serve_torch(self):
        self.assertIn("SKIPPED: stand-ins", self.only_line(GPU_CHECK_STANDIN="1"))


class Package(unittest.TestCase):
    def refusal(self, program):
        with tempfile.TemporaryDirectory() as directory:
            os.mkdir(os.path.join(directory, "scripts"))
            script = shutil.copy(os.path.join(ROOT, "scripts", "gpu_check.sh"), os.path.join(directory, "scripts"))
            path = os.path.join(directory, program)
            os.makedirs(os.path.dirname(path))
            with open(path, "w") as file:
                file.write("#!/bin/sh\nexit 1\n")
            os.chmod(path, 0o755)
            done = subprocess.run(["bash", script], capture_output=True, text=True)
            self.assertEqual(done.returncode, 69, done.stderr)
            return done.stderr

    def test_one_that_is_unpacked_elsewhere_is_refused(self):
        self.assertIn("a package is in gpu_check, not in build/gpu_check", self.refusal("gpu_check/cli/elastictrain"))

    def test_half_a_package_is_refused(self):
        self.assertIn("build/gpu_check has no tests/gpu/nccl_rank", self.refusal("build/gpu_check/cli/elastictrain"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
