"""Replicas of several processes without torch: the calls of all are made together, and none goes on without the others."""

import os
import signal
import subprocess
import sys
import time
import unittest
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGE = os.path.join(ROOT, "train", "python")
sys.path.insert(0, PACKAGE)

from elastictrain import _replica_session  # noqa: E402
from elastictrain.errors import ElasticError  # noqa: E402

BEGIN = """
import os, signal, sys, time
import elastictrain
from elastictrain import _replica, _replica_session
here = _replica.begin(3)
"""
MAKE = """
session = _replica_session.of(here)
session.set_data(sample_count=30, batch=10, shuffle=False)
session.share_early("index", bytes([here.index]))
"""
SESSION = BEGIN + MAKE
LOOP = SESSION + """
seen = []
session.on_change(lambda change: seen.append(("change", change.world_size)))
session.watch_steps(lambda: seen.append(("step", session.last_step().samples)))
assert session.start()
assert session.early("index") == bytes([here.index])
while (batch := session.next_batch()) is not None:
    assert batch.samples == tuple(range(10 * batch.step - 10, 10 * batch.step)), batch
    assert session.look_ahead(1, 10) == ([] if batch.step == 3 else [tuple(range(10 * batch.step, 10 * batch.step + 10))])
    session.wait_all_reduce()
    session.commit_step(loss=float(here.index))
    assert session.committed_step == batch.step and session.world_size == 1
assert session.outcome == "finished"
os.write(1, f"process {here.index}: {seen}\\n".encode())
"""


def run(program, **options):
    return subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": PACKAGE}, capture_output=True, text=True,
                          timeout=60, **options)


class Alike:
    """What is so on one host and on several."""

    run_program = staticmethod(run)

    def assert_ends_with(self, program, sentence, status=1):
        done = self.run_program(program)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(sentence, done.stderr)

    def test_all_processes_go_through_the_same_steps(self):
        done = self.run_program(LOOP)
        self.assertEqual(done.returncode, 0, done.stderr)
        seen = [("change", 1), ("step", 10), ("step", 10), ("step", 10)]
        self.assertEqual(sorted(done.stdout.splitlines()), [f"process {index}: {seen}" for index in range(3)])

    def test_a_process_that_makes_another_call_ends_the_replica(self):
        self.assert_ends_with(SESSION + "session.early('index') if here.index == 2 else session.start()",
                              "process 2 called early() where process 0 called start()")
        self.assert_ends_with(SESSION + "session.share_early('one' if here.index else 'other', b''); session.start()",
                              "process 1 shares 'one' where process 0 shares 'other'")

    def test_values_of_each_process_stay_apart(self):
        done = self.run_program(SESSION + """
from elastictrain import _replica_session
assert session.start()
own = bytes([here.index])
session.board_put("own", own)
session.board_put("of one " + str(here.index), own)
session.board_put("group/all", b"of all")
assert session.board_get("own") == own
assert session.board_get("of one 0") is None, "what one process lacks is missing to all: they go on in the same way"
assert session.board_get("group/all") == b"of all"
assert _replica_session.decided(session, here.index) == 0
assert session.gathered(here.index * 10) == [0, 10, 20]
session.next_batch()
assert session.all_gather(bytearray(own)) == own
session.wait_all_reduce()
assert session.boundary() == frozenset()
session.attach("own", own)
assert session.attachment("own") is None
session.commit_step()
os.write(1, b"done ")
""")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.split(), ["done"] * 3)

    def test_a_process_that_cannot_join_says_why_for_all(self):
        self.assert_ends_with(SESSION + "session.decline('its loop is another') if here.index == 2 else session.start()",
                              "process 2 of this replica could not join: its loop is another")

    def test_a_process_that_divides_its_data_otherwise_is_refused(self):
        self.assert_ends_with(BEGIN + "_replica_session.of(here).set_data(sample_count=30, batch=10 + here.index)",
                              "divide their data alike, but process 1 has batch 11 and process 0 10")

    def test_a_process_whose_state_may_still_be_copied_ends_the_replica_as_well(self):
        """It stays until the first process has ended, which waits for none of its calls."""
        self.assert_ends_with(SESSION + """
if here.index == 2:
    import threading
    session._server = threading.Thread(target=here.copies[0].receive, daemon=True)
    session._server.start()
    sys.exit(0)
session.start()
""", "process 2 of this replica has ended before the others")

    def assert_all_end(self, program):
        done = self.run_program(BEGIN + "os.write(1, f'{os.getpid()}\\n'.encode())\n" + MAKE + program)
        self.assertNotEqual(done.returncode, 0)
        pids = [int(line) for line in done.stdout.split()]
        self.assertEqual(len(pids), 3)
        deadline = time.monotonic() + 30
        while any(os.path.exists(f"/proc/{pid}") for pid in pids):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_no_process_outlives_the_first_one(self):
        for end in ("os.kill(os.getpid(), signal.SIGKILL)", "raise ValueError('its own fault')"):
            with self.subTest(end):
                self.assert_all_end(f"if here.index == 2: time.sleep(1000)\nif here.index: session.start()\n{end}")

    def test_the_end_of_the_others_is_awaited(self):
        done = self.run_program(LOOP + "\nif here.index == 2:\n    time.sleep(1)\n    os.write(1, b'its last words')\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("its last words", done.stdout)


class Replicas(Alike, unittest.TestCase):
    def test_a_process_that_dies_ends_the_replica(self):
        wait = "\nsession.start()\n"
        self.assert_ends_with(SESSION + "if here.index == 1: os.kill(os.getpid(), signal.SIGKILL)" + wait,
                              "process 1 of this replica has ended with signal 9; its replica ends", -signal.SIGKILL)
        self.assert_ends_with(SESSION + "if here.index == 1: os.kill(os.getpid(), signal.SIGSEGV)" + wait,
                              "process 1 of this replica has ended with signal 11; its replica ends")
        self.assert_ends_with(SESSION + "if here.index == 2: sys.exit(5)" + wait,
                              "process 2 of this replica has ended with status 5; its replica ends")
        self.assert_ends_with(SESSION + "if here.index == 2: sys.exit()" + wait,
                              "process 2 of this replica has ended before the others")

    def test_there_is_one_session(self):
        self.assert_ends_with(BEGIN + "elastictrain.Session()", "its session is that of elastictrain.torch.elastic()")
        self.assert_ends_with(BEGIN + "_replica.begin(2)", "belongs to a replica of 3 processes already")
        self.assert_ends_with("import elastictrain\nfrom elastictrain import _replica\nelastictrain.Session()\n_replica.begin(2)",
                              "a replica begins before its session")
        self.assert_ends_with("import threading\nfrom elastictrain import _replica\n"
                              "def begin():\n    try:\n        _replica.begin(2)\n    except Exception as error:\n        why.append(error)\n"
                              "why = []\nthread = threading.Thread(target=begin)\nthread.start()\nthread.join()\nraise why[0]",
                              "a replica begins in the program's main thread")
        self.assert_ends_with(SESSION + "session.start()\nsession.barrier() if here.index else session.next_batch()",
                              "session.barrier is not available in a replica of several processes")

    def test_shared_memory_without_room_is_named(self):
        with mock.patch.object(_replica_session, "SHARED_MEMORY", "/"), \
                self.assertRaisesRegex(ElasticError, r"are in \S+, where \d+ MiB are free and 1099511627776 more are needed"):
            _replica_session.check_room(1 << 60)


if __name__ == "__main__":
    unittest.main()
