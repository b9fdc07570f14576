"""The session of Python programs, alone in a process: buffers in place of pointers, exceptions in place of statuses."""

import argparse
import array
import ctypes
import os
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "train", "python")
sys.path.insert(0, PACKAGE)

import elastictrain  # noqa: E402
from elastictrain import _cuda_libraries, _memory, _paths  # noqa: E402


def trained(session, steps=None, gradient=None):
    """The batches of a session that trains one buffer."""
    weights = array.array("f", [0.0] * 8)
    session.share_model("weights", weights)
    session.set_data(sample_count=100, epochs=2, batch=16)
    assert session.start()
    batches = []
    while (batch := session.next_batch()) is not None:
        batches.append(batch)
        gradient = gradient or array.array("f", [1.0] * 8)
        session.all_reduce(gradient)
        weights[0] -= 0.5
        session.commit_step(loss=0.25)
        if steps is not None and len(batches) >= steps:
            break
    return batches


class Alone(unittest.TestCase):
    def setUp(self):
        self.session = elastictrain.Session()
        self.addCleanup(self.session.close)

    def test_every_sample_comes_once_in_each_epoch(self):
        batches = trained(self.session)
        for epoch in (0, 1):
            seen = sorted(index for batch in batches if batch.epoch == epoch for index in batch.samples)
            self.assertEqual(seen, list(range(100)))
        self.assertEqual(self.session.outcome, "finished")
        self.assertEqual((self.session.rank, self.session.world_size, self.session.launched), (0, 1, False))
        self.assertEqual(self.session.committed_step, len(batches))
        self.assertEqual(self.session.last_step().loss, 0.25)

    def test_a_wrong_call_raises_with_the_librarys_text(self):
        with self.assertRaisesRegex(elastictrain.SessionError, "next_batch.. before start"):
            self.session.next_batch()

    def test_what_a_callback_raises_is_raised_by_the_call(self):
        def callback(change):
            raise KeyError(f"generation {change.generation}")

        self.session.on_change(callback)
        with self.assertRaisesRegex(KeyError, "generation 0"):
            trained(self.session)

    def test_memory_of_the_session_takes_values_until_the_next_batch(self):
        self.session.set_data(sample_count=4, batch=2)
        self.assertTrue(self.session.start())
        while self.session.next_batch() is not None:
            values = memoryview(self.session.step_memory(8)).cast("B").cast("f")
            values[0] = 3.0
            self.session.reduce_values(values)
            self.session.commit_step()
            self.assertEqual(values[0], 3.0)

    def test_groups_and_keys_and_what_hooks_raise(self):
        self.session.set_data(sample_count=4, batch=2)
        calls = []
        self.session.step_hooks(lambda: calls.append("before"), lambda: calls.append("after"))
        self.assertTrue(self.session.start())
        while self.session.next_batch() is not None:
            values, copied = array.array("d", [3.0]), array.array("i", [4])
            self.session.reduce_values_async("largest", values, "max")
            self.session.broadcast_async("copied", copied)
            with self.assertRaisesRegex(elastictrain.SessionError, "largest.*is in use"):
                self.session.reduce_values_async("largest", values)
            self.session.reduce_values_in(7, values, "product")
            self.session.broadcast_in(7, copied)
            self.assertEqual(self.session.all_gather_in(7, array.array("B", b"ab")), b"ab")
            self.session.commit_step()
            self.assertEqual((values[0], copied[0]), (3.0, 4))
        self.assertEqual(calls, ["before", "after"] * 2)

    def test_what_a_hook_raises_is_raised_by_the_call(self):
        def raising():
            raise KeyError("in a hook")

        self.session.set_data(sample_count=4, batch=2)
        self.session.step_hooks(before=raising)
        self.assertTrue(self.session.start())
        with self.assertRaisesRegex(KeyError, "in a hook"):
            self.session.next_batch()

    def test_what_trains_with_a_session_and_its_program_both_watch_the_steps(self):
        calls = []
        self.session.watch_steps(lambda: calls.append("watcher"))
        self.session.step_hooks(after=lambda: calls.append("program"))
        batches = trained(self.session)
        self.assertEqual(calls, ["watcher", "program"] * len(batches))

    def test_an_interruption_ends_the_hook_behind_a_step_and_is_an_error_before_one(self):
        def interrupted():
            raise elastictrain.Interrupted("by a loss")

        self.session.set_data(sample_count=4, batch=2)
        self.session.step_hooks(after=interrupted)
        self.assertTrue(self.session.start())
        self.session.next_batch()
        self.session.commit_step()
        self.session.step_hooks(before=interrupted)
        with self.assertRaises(elastictrain.Interrupted):
            self.session.next_batch()

    def test_a_session_is_not_closed_in_its_own_callback(self):
        self.session.set_data(sample_count=4, batch=2)
        self.session.step_hooks(after=self.session.close)
        self.assertTrue(self.session.start())
        self.session.next_batch()
        with self.assertRaisesRegex(elastictrain.ElasticError, "close it after the step"):
            self.session.commit_step()
        self.session.step_hooks()
        self.session.next_batch()
        self.session.commit_step()

    def test_state_of_the_first_worker_is_any_writable_buffer(self):
        best = array.array("d", [0.5])
        self.session.share_first_tensor("best", best, every_steps=2)
        with self.assertRaisesRegex(elastictrain.SessionError, "every 0 steps"):
            self.session.share_first_tensor("never", best, every_steps=0)
        trained(self.session)
        self.assertEqual(best[0], 0.5)

    def test_state_of_each_worker_is_any_writable_buffer_of_the_host(self):
        own = array.array("d", [0.5])
        self.session.share_local_state("own", own)
        with self.assertRaisesRegex(elastictrain.SessionError, '"own" is shared twice'):
            self.session.share_local_state("own", own)
        trained(self.session)
        self.assertEqual(own[0], 0.5)
        with self.assertRaisesRegex(elastictrain.SessionError, "after start"):
            self.session.share_local_state("late", own)

    def test_state_that_only_functions_reach_is_saved_and_resumed_and_an_interrupt_is_no_copy(self):
        with tempfile.TemporaryDirectory() as directory:
            os.environ.update(ELASTICTRAIN_CHECKPOINT_DIR=directory, ELASTICTRAIN_CHECKPOINT_EVERY="1", ELASTICTRAIN_RESUME="1")
            self.addCleanup(lambda: [os.environ.pop(name) for name in list(os.environ) if name.startswith(
                ("ELASTICTRAIN_CHECKPOINT", "ELASTICTRAIN_RESUME"))])
            held = bytearray(range(16))

            def read(offset, address, size):
                ctypes.memmove(address, bytes(held[offset:offset + size]), size)

            def write(offset, address, size):
                held[offset:offset + size] = ctypes.string_at(address, size)

            def interrupted(*_):
                raise KeyboardInterrupt

            self.session.close()
            for steps in (2, 4):
                with elastictrain.Session() as session:
                    session.share_tensor_through("held", "uint8", (16,), read, write)
                    session.set_data(sample_count=100, epochs=1000, batch=16, max_steps=steps)
                    self.assertTrue(session.start())
                    self.assertEqual(bytes(held), bytes(range(16)))
                    while session.next_batch() is not None:
                        session.commit_step()
                held[:] = bytes(16)
            with elastictrain.Session() as session:
                session.share_tensor_through("held", "uint8", (16,), read, interrupted)
                session.set_data(sample_count=100, epochs=1000, batch=16, max_steps=6)
                with self.assertRaises(KeyboardInterrupt):
                    session.start()

    def test_the_norms_of_two_halves_show_the_noise_of_one_worker(self):
        self.session.set_data(sample_count=8, batch=4)
        self.assertTrue(self.session.start())
        asked = []
        while self.session.next_batch() is not None:
            asked.append(self.session.half_batch)
            if self.session.half_batch:
                self.session.report_halves(9.0, 5.0)  # G^2 = 1, S = 12: a mean of 7 for halves of 2
            self.session.all_reduce(array.array("f", [2.0]))  # 1 + 12 / 4
            self.session.commit_step()
        self.assertEqual(asked, [2, 0])
        self.assertAlmostEqual(self.session.monitors()["noise_scale"], 12.0, places=4)
        with self.assertRaisesRegex(elastictrain.SessionError, "outside a step"):
            self.session.report_halves(9.0, 5.0)

    def test_state_moves_but_not_what_is_copied_in_each_step(self):
        counter, statistic, best, elsewhere = (array.array("f", [value]) for value in (1, 2, 3, 1))
        self.session.share_state("counter", counter)
        self.session.share_forward_tensor("statistic", statistic)
        self.session.share_first_tensor("best", best)
        self.session.move_state("counter", elsewhere)
        for name in ("statistic", "best"):
            with self.assertRaisesRegex(elastictrain.SessionError, f"move_state.*\"{name}\" was shared with"):
                self.session.move_state(name, elsewhere)
        trained(self.session)

    def test_a_second_session_is_refused(self):
        with self.assertRaisesRegex(elastictrain.ElasticError, "has a session already"):
            elastictrain.Session()

    def test_an_interrupt_in_a_notebook_leaves_no_session(self):
        self.session.close()
        with self.assertRaises(KeyboardInterrupt):
            with elastictrain.Session():
                signal.raise_signal(signal.SIGINT)
        elastictrain.Session().close()

    def test_after_close_every_call_raises(self):
        self.session.close()
        self.session.close()
        with self.assertRaisesRegex(elastictrain.ElasticError, "closed"):
            self.session.start()

    def test_a_forked_child_cannot_use_it_and_does_not_end_it(self):
        child = os.fork()
        if child == 0:
            try:
                self.session.close()
                self.session.start()
            except elastictrain.ElasticError as error:
                os._exit(0 if "child process" in str(error) else 1)
            os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(len(trained(self.session)), 14)

    def test_children_do_not_find_the_agent(self):
        self.assertNotIn("ELASTICTRAIN_SOCKET", os.environ)


ENDING = """
import atexit, threading
from elastictrain import Session

class Unloaded:
    def __del__(self):
        print("unloaded", flush=True)

def fails():
    raise ValueError("of an exit function")

unloaded = Unloaded()
atexit.register(print, "before the session", flush=True)
atexit.register(fails)
session = Session()
atexit.register(lambda: print("behind it,", "open" if session._handle else "closed", flush=True))
thread = threading.Thread(target=print, args=("a thread",), kwargs={"flush": True})
session.ends_at_once = %s
thread.start()
"""


class End(unittest.TestCase):
    def ending(self, at_once):
        environment = {**os.environ, "PYTHONPATH": PACKAGE}
        done = subprocess.run([sys.executable, "-c", ENDING % at_once], env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("ValueError: of an exit function"), 1, done.stderr)
        return done.stdout.split("\n")[:-1]

    def test_exit_functions_run_once_and_find_the_session_open_where_they_were_registered_behind_it(self):
        functions = ["a thread", "behind it, open", "before the session"]
        self.assertEqual(self.ending(True), functions)
        self.assertEqual(self.ending(False), [*functions, "unloaded"])


class Tensor:
    """What the package asks of a torch.Tensor."""

    def __init__(self, address, count, dtype, device):
        self.address, self.count, self.dtype, self.device = address, count, dtype, argparse.Namespace(type=device)

    def data_ptr(self):
        return self.address

    def is_contiguous(self):
        return True

    def numel(self):
        return self.count

    def element_size(self):
        return {"torch.float32": 4, "torch.float64": 8}.get(self.dtype, 2)


class Gradients(unittest.TestCase):
    """In memory of the host, and in that of a stand-in device."""

    ONES = {"torch.float32": struct.pack("<f", 1.0), "torch.float16": struct.pack("<e", 1.0), "torch.bfloat16": b"\x80\x3f"}

    def norm_of_ones(self, dtype, device, asynchronous):
        content = self.ONES[dtype] * 16
        with elastictrain.Session() as session:
            if device == "cuda":
                session.use_device(0)
                driver, address = ctypes.CDLL(os.environ["ELASTICTRAIN_CUDA_LIBRARY"]), ctypes.c_uint64()
                self.assertEqual(driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(len(content))), 0)
                memory = ctypes.c_void_p(address.value)
            else:
                memory = ctypes.create_string_buffer(len(content))
            session.set_data(sample_count=4, batch=4)
            self.assertTrue(session.start())
            self.assertIsNotNone(session.next_batch())
            ctypes.memmove(memory, content, len(content))
            tensor = Tensor(ctypes.cast(memory, ctypes.c_void_p).value, 16, dtype, device)
            if asynchronous:
                session.all_reduce_async(tensor)
                session.wait_all_reduce()
            else:
                session.all_reduce(tensor)
            session.commit_step()
            self.assertEqual(ctypes.string_at(memory, len(content)), content)
            return session.last_step().gradient_norm

    def test_they_may_have_16_bits_on_the_host_and_on_a_device(self):
        for dtype in self.ONES:
            for device in ("cpu", "cuda"):
                for asynchronous in (False, True):
                    with self.subTest(dtype=dtype, device=device, asynchronous=asynchronous):
                        self.assertEqual(self.norm_of_ones(dtype, device, asynchronous), 4.0)

    def test_other_types_are_refused(self):
        with elastictrain.Session() as session:
            with self.assertRaisesRegex(TypeError, "float32, float16 or bfloat16"):
                session.all_reduce(Tensor(4096, 1, "torch.float64", "cpu"))
            with self.assertRaisesRegex(TypeError, "float32, float16 or bfloat16"):
                session.all_reduce_async(array.array("d", [1.0]))


class CudaLibraries(unittest.TestCase):
    VARIABLES = ("ELASTICTRAIN_NVRTC_LIBRARY", "ELASTICTRAIN_NCCL_LIBRARY")

    def named(self, chosen=None):
        with tempfile.TemporaryDirectory() as packages:
            for name in ("cu13/lib/libnvrtc.so.13", "cu13/lib/libnvrtc-builtins.so.13.0", "nccl/lib/libnccl.so.2"):
                path = os.path.join(packages, "nvidia", name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                open(path, "w").close()
            clean = {name: value for name, value in os.environ.items() if name not in self.VARIABLES}
            with unittest.mock.patch.dict(os.environ, {**clean, **(chosen or {})}, clear=True), \
                    unittest.mock.patch.object(sys, "path", ["", "/nowhere", packages]):
                _cuda_libraries.name_installed()
                return [os.environ[name].replace(packages, "") for name in self.VARIABLES]

    def test_those_of_torchs_wheels_are_named(self):
        self.assertEqual(self.named(), ["/nvidia/cu13/lib/libnvrtc.so.13", "/nvidia/nccl/lib/libnccl.so.2"])

    def test_what_the_user_names_counts(self):
        chosen = {"ELASTICTRAIN_NVRTC_LIBRARY": "/mine/libnvrtc.so"}
        self.assertEqual(self.named(chosen), ["/mine/libnvrtc.so", "/nvidia/nccl/lib/libnccl.so.2"])


class Memory(unittest.TestCase):
    def test_only_writable_contiguous_memory_is_taken(self):
        with self.assertRaisesRegex(ValueError, "writable"):
            _memory.of(b"constant")
        with self.assertRaisesRegex(ValueError, "contiguous"):
            _memory.of(memoryview(bytearray(8))[::2])
        with self.assertRaisesRegex(TypeError, "neither a tensor"):
            _memory.of(3)

    def test_floats_are_float32(self):
        self.assertEqual(_memory.floats(array.array("f", [1, 2])).bytes, 8)
        self.assertEqual(_memory.floats((ctypes.c_float * 3)()).bytes, 12)
        with self.assertRaisesRegex(TypeError, "float32"):
            _memory.floats(array.array("d", [1]))

    def test_an_empty_buffer_has_no_memory(self):
        self.assertEqual(_memory.of(bytearray()).bytes, 0)


class Places(unittest.TestCase):
    def test_a_named_library_that_is_missing_is_an_error_that_names_it(self):
        code = "import elastictrain; elastictrain.version()"
        environment = {**os.environ, "PYTHONPATH": PACKAGE, "ELASTICTRAIN_LIBRARY": "/nowhere/lib.so"}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("ELASTICTRAIN_LIBRARY=/nowhere/lib.so: there is no such file", done.stderr)

    def test_the_module_is_the_command(self):
        done = subprocess.run([sys.executable, "-m", "elastictrain", "--version"], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": PACKAGE})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(elastictrain.version(), done.stdout)

    def test_the_binary_is_found(self):
        self.assertTrue(os.access(_paths.binary(), os.X_OK))

    def test_a_torch_that_is_too_old_is_named(self):
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "torch.py"), "w") as file:
                file.write("__version__ = '2.4.1+cpu'\n")
            done = subprocess.run([sys.executable, "-c", "import elastictrain.torch"], capture_output=True, text=True,
                                  env={**os.environ, "PYTHONPATH": os.pathsep.join([directory, PACKAGE])})
        self.assertEqual(done.returncode, 1)
        self.assertIn("elastictrain.torch needs torch 2.5 or newer; this is 2.4.1+cpu", done.stderr)

    def test_neither_torch_nor_numpy_is_imported(self):
        code = "import sys, elastictrain; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
        self.assertEqual(subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": PACKAGE}).returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
