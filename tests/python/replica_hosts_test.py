"""Replicas whose processes are on several hosts, without torch: how these meet, and that they make their calls and end together."""

import contextlib
import ctypes
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGE = os.path.join(ROOT, "train", "python")
AGENTS = os.path.join(ROOT, "tests", "system", "torch_hosts.py")
sys.path.insert(0, PACKAGE)

import replica_test  # noqa: E402
from elastictrain import _elsewhere, _planes, _replica_hosts  # noqa: E402
from elastictrain._replica_hosts import SUMS, CONTROL, COPIES, Hosts, Listener, connect  # noqa: E402
from elastictrain.errors import ElasticError  # noqa: E402

KEY = secrets.token_bytes(32)


def free_port():
    with socket.socket() as end:
        end.bind(("127.0.0.1", 0))
        return end.getsockname()[1]


class Meeting(unittest.TestCase):
    def setUp(self):
        self.hosts = Hosts(2, 0, ("127.0.0.1", free_port()), "lo", KEY, 20.0)
        self.listener = Listener(self.hosts)
        self.found, self.error = None, None
        self.waiting = threading.Thread(target=self.wait)
        self.waiting.start()

    def wait(self):
        try:
            self.found = self.listener.await_all(range(1, 2))
        except ElasticError as error:
            self.error = str(error)

    def tearDown(self):
        for channel in (self.found or {}).values():
            channel.close()

    def join(self, key=KEY, limit_s=20.0):
        found = [connect(self.hosts._replace(key=key, limit_s=limit_s), 1, purpose) for purpose in (CONTROL, COPIES, SUMS)]
        for channel in found:
            self.addCleanup(channel.close)
        return found

    def test_messages_and_memory_pass_in_both_directions(self):
        control, copies, _ = self.join()
        self.waiting.join()
        there = self.found[1, CONTROL]
        there.send(("a call", {"with": b"bytes"}))
        self.assertEqual(control.receive(), (("a call", {"with": b"bytes"}), None))
        memory = bytearray(1 << 20)
        sending = threading.Thread(target=copies.send_bytes, args=(secrets.token_bytes(1 << 20),))
        sending.start()
        self.found[1, COPIES].read_into(memoryview(memory))
        sending.join()
        self.assertNotEqual(bytes(memory), bytes(1 << 20))
        control.close()
        with self.assertRaises(EOFError):
            there.receive()

    def test_those_who_do_not_know_the_key_are_left_out_and_harm_nobody(self):
        with self.assertRaisesRegex(ElasticError, "what listens there does not know the replica's key"):
            self.join(key=secrets.token_bytes(32), limit_s=0.5)
        with contextlib.ExitStack() as strangers:
            for words in (b"", b"GET / HTTP/1.1\r\n\r\n", secrets.token_bytes(200)):
                stranger = strangers.enter_context(socket.create_connection(self.hosts.address))
                stranger.sendall(words)
            self.join()
            self.waiting.join()
        self.assertEqual(sorted(self.found), [(1, CONTROL), (1, COPIES), (1, SUMS)])

    def test_a_stranger_who_repeats_what_it_heard_is_left_out(self):
        heard = bytearray()
        with socket.create_server(("127.0.0.1", 0)) as server:
            def relay():
                end, _ = server.accept()
                with end, socket.create_connection(self.hosts.address) as on:
                    heard.extend(_replica_hosts._read(end, _replica_hosts._HELLO.size))
                    on.sendall(heard)
                    end.sendall(_replica_hosts._read(on, 64))
                    heard.extend(_replica_hosts._read(end, 32))
            relaying = threading.Thread(target=relay)
            relaying.start()
            with contextlib.suppress(ElasticError):
                connect(self.hosts._replace(address=server.getsockname(), limit_s=0.2), 1, CONTROL)
            relaying.join()
        with socket.create_connection(self.hosts.address) as stranger:
            stranger.sendall(heard)
            stranger.settimeout(5)
            with contextlib.suppress(ConnectionResetError):
                while stranger.recv(1024):
                    pass
        self.assertEqual(self.listener._found, {})
        self.join()
        self.waiting.join()
        self.assertEqual(len(self.found), 3)

    def test_a_process_that_does_not_come_is_named(self):
        other = Listener(self.hosts._replace(address=("127.0.0.1", free_port()), limit_s=0.1))
        with self.assertRaisesRegex(ElasticError, "process 2 of this replica, on another host, did not connect within 0 s"):
            other.await_all(range(2, 4))
        self.join()
        self.waiting.join()

    def test_a_first_process_that_does_not_listen_is_named(self):
        with self.assertRaisesRegex(ElasticError, "was not reached at 127.0.0.1 port .* refused"):
            connect(self.hosts._replace(address=("127.0.0.1", free_port()), limit_s=0.3), 1, CONTROL)
        self.join()
        self.waiting.join()


class Place(unittest.TestCase):
    def test_the_agent_says_it_and_the_key_is_read_once(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "key")
            with open(path, "w", encoding="ascii") as file:
                file.write(KEY.hex())
            said = {"ELASTICTRAIN_REPLICA_HOSTS": "3", "ELASTICTRAIN_REPLICA_HOST": "2", "ELASTICTRAIN_REPLICA_ADDRESS": "[fd77::1]:4711",
                    "ELASTICTRAIN_REPLICA_KEY_FILE": path, "ELASTICTRAIN_REPLICA_INTERFACE": "eth0",
                    "ELASTICTRAIN_REPLICA_TIMEOUT_MS": "1500"}
            with mock.patch.dict(os.environ, said):
                found = _replica_hosts.here()
                self.assertEqual(found, Hosts(3, 2, ("fd77::1", 4711), "eth0", KEY, 1.5))
                self.assertFalse(os.path.exists(path))
                with self.assertRaisesRegex(ElasticError, "the key of this replica cannot be read"):
                    _replica_hosts.here()
        self.assertEqual(found.processes(6), 2)
        with self.assertRaisesRegex(ElasticError, "a replica of 4 processes cannot be divided among 3 hosts alike"):
            found.processes(4)

    def test_without_several_hosts_there_is_none(self):
        self.assertIsNone(_replica_hosts.here())


class Values:
    """What a tensor says of itself."""

    def __init__(self, memory, dtype="torch.float32"):
        self.memory, self.dtype = memory, dtype

    def data_ptr(self):
        return ctypes.addressof(self.memory)

    def numel(self):
        return len(self.memory)

    def element_size(self):
        return 4


class Remotes(unittest.TestCase):
    def setUp(self):
        ours, self.theirs = (_replica_hosts.RemoteChannel(end) for end in socket.socketpair())
        self.addCleanup(ours.close)
        self.addCleanup(self.theirs.close)
        self.remote = _planes.Remote(1, ours, threading.Condition())

    def end(self):
        self.theirs.send(("end",))
        self.remote.await_end()

    def test_what_a_process_writes_is_here_and_what_is_written_here_is_told(self):
        self.assertTrue(self.remote.take(("mirror", 7, 8)))
        self.assertFalse(self.remote.take(("next_batch",)))
        memory = _planes.view(self.remote.addresses[7], 8)
        self.remote.add_written(self.remote.addresses[7], 4)
        self.assertEqual(self.remote.changed_here(), {})
        self.assertTrue(self.remote.take(("written", {0: b"1234"})))
        self.assertEqual(bytes(memory), b"1234\0\0\0\0")
        self.assertEqual(self.remote.changed_here(), {}, "the other process knows it")
        memory[0:1] = b"x"
        self.assertEqual(self.remote.changed_here(), {0: b"x234"})
        self.assertEqual(self.remote.changed_here(), {})
        self.end()

    def test_each_sum_that_was_started_has_a_result(self):
        order = _elsewhere.Order(0, 5, 0, 0.5, True, True, False, False)
        for bucket in (0, 1):
            self.remote.start(order._replace(bucket=bucket))
            self.assertEqual(self.theirs.receive(), (("sum", order._replace(bucket=bucket)), None))
        self.theirs.send(("result", "", 1.0, 2.0))
        self.assertFalse(self.remote.is_complete)
        self.theirs.send(("result", "a peer is gone", 0.0, 0.0))
        with self.remote.changed:
            self.remote.changed.wait_for(lambda: self.remote.is_complete)
        self.assertEqual(self.remote.take_results(), [("", 1.0, 2.0), ("a peer is gone", 0.0, 0.0)])
        self.assertEqual(self.remote.take_results(), [])
        self.remote.start(order)
        self.end()
        self.assertTrue(self.remote.is_complete)
        with self.assertRaises(EOFError):
            self.remote.take_results()

    def test_orders_are_carried_out_one_after_the_other(self):
        """Of a plane that is alone: its sum is its input, weighted."""
        server = _planes.PlaneServer(self.theirs)
        server.open()
        memory = (ctypes.c_float * 3)(1, 2, 4)
        self.assertEqual(server.add(Values(memory)), 0)
        order = _elsewhere.Order(0, 5, 0, 0.5, True, True, False, True)
        world = _elsewhere.World(3, bytes(16), 0, 1, 0, [self.remote.endpoint()])
        self.assertEqual(self.ask(order), [("its plane was not built", 0.0, 0.0)])
        self.remote.build(world)
        self.assertEqual(self.ask(order), [("", 21.0, 5.25)])
        self.assertEqual(list(memory), [0.5, 1, 2])
        self.assertEqual(self.ask(order._replace(is_kept=True, scale=2.0)), [("", 21.0, 84.0)], "from the input that was kept")
        self.assertEqual(list(memory), [2, 4, 8])
        self.remote.abort(3)
        (problem, *_), = self.ask(order)
        self.assertNotEqual(problem, "")
        self.remote.build(world._replace(generation=4))
        self.assertEqual([problem for problem, *_ in self.ask(order._replace(has_input=False))], [""])
        self.assertEqual(list(memory), [0, 0, 0])
        server.end()
        self.remote.await_end()

    def test_a_sum_that_is_made_again_leaves_the_memory_to_that_of_a_later_pass(self):
        server = _planes.PlaneServer(self.theirs)
        server.open()
        memory = (ctypes.c_float * 3)(1, 2, 4)
        server.add(Values(memory))
        order = _elsewhere.Order(0, 5, 0, 0.5, True, True, False, False)
        self.remote.build(_elsewhere.World(3, bytes(16), 0, 1, 0, [self.remote.endpoint()]))
        self.assertEqual(self.ask(order), [("", 0.0, 0.0)])
        memory[:] = (8, 8, 8)
        self.assertEqual(server.add(Values(memory)), 1)
        self.assertEqual(self.ask(order._replace(is_kept=True)), [("", 0.0, 0.0)])
        self.assertEqual(list(memory), [8, 8, 8])
        self.assertEqual(self.ask(order._replace(number=1, bucket=1, is_kept=True)), [("", 0.0, 0.0)])
        self.assertEqual(list(memory), [4, 4, 4])
        with self.assertRaisesRegex(ElasticError, "gradients of float64 cannot be averaged"):
            server.add(Values(memory, "torch.float64"))
        (problem, *_), = self.ask(order._replace(number=7))
        self.assertIn("list index out of range", problem, "nobody waits for an answer that does not come")
        server.end()
        self.remote.await_end()

    def ask(self, order):
        self.remote.start(order)
        with self.remote.changed:
            self.remote.changed.wait_for(lambda: self.remote.is_complete)
        return self.remote.take_results()


def run(program, **options):
    """A replica of three processes, on three hosts."""
    return subprocess.run([sys.executable, AGENTS, "3", sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": PACKAGE},
                          capture_output=True, text=True, timeout=60, **options)


class Replicas(replica_test.Alike, unittest.TestCase):
    run_program = staticmethod(run)

    def test_a_process_that_dies_ends_the_replica(self):
        wait = "\nsession.start()\n"
        gone = "process 1 of this replica, on another host, has ended or cannot be reached; its replica ends"
        for end in ("os.kill(os.getpid(), signal.SIGKILL)", "raise ValueError('its own fault')"):
            with self.subTest(end):
                self.assert_ends_with(replica_test.SESSION + f"if here.index == 1: {end}" + wait, gone)
        self.assert_ends_with(replica_test.SESSION + "if here.index == 2: sys.exit()" + wait,
                              "process 2 of this replica has ended before the others")

    def test_no_process_outlives_the_first_one(self):
        """Those that compute for long are ended by their agents."""
        for end in ("os.kill(os.getpid(), signal.SIGKILL)", "raise ValueError('its own fault')"):
            with self.subTest(end):
                self.assert_all_end(f"if here.index: session.start()\n{end}")


if __name__ == "__main__":
    unittest.main()
