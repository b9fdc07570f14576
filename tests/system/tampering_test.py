"""Somebody in the path between two hosts, who listens, changes a bit, or repeats what has passed. Workers of one host
stand in for hosts: they use TCP only, and every connection between them is led through a proxy."""

import contextlib
import os
import re
import shutil
import socket
import tempfile
import threading
import zlib

import harness
from harness import Case, Run, job, synthetic

REDIRECT = os.environ.get("ELASTICTRAIN_REDIRECT", "")
AUDIT_FAILED = 94
RING, TREE, STATE = 1, 2, 4  # purposes of a connection, in its first message
FROM_CONNECTOR, FROM_ACCEPTOR = 40 + 32, 56 + 8  # bytes of the handshake
PATIENCE = 120
KEPT = 1 << 20


class Path:
    """The proxy. `change(purpose, number of the connection of this purpose, bytes so far, data)` returns what passes on
    of what a connector sends after the handshake."""

    def __init__(self, case, change=None):
        self.change = change or (lambda purpose, number, before, data: data)
        self.seen = {}  # purpose -> everything after the handshake, in both directions
        self.said = []  # (where to, purpose, both messages of the connector) of each handshake
        self.numbers = {}
        self.lock = threading.Lock()
        self.directory = tempfile.mkdtemp(prefix="etpath-")
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        case.addCleanup(self.listener.close)
        threading.Thread(target=self.serve, daemon=True).start()

    def variables(self):
        # The loader takes a space in LD_PRELOAD for the end of a name.
        preloaded = shutil.copy(REDIRECT, self.directory)
        return [f"LD_PRELOAD={preloaded}", f"REDIRECT_PORT={self.listener.getsockname()[1]}",
                f"REDIRECT_DIR={self.directory}"]

    def serve(self):
        while True:
            try:
                near, (_, port) = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.connect, args=(near, port), daemon=True).start()

    def connect(self, near, port):
        with open(os.path.join(self.directory, str(port))) as file:
            address, meant = file.read().split()
        try:
            far = socket.create_connection((address, int(meant)), timeout=PATIENCE)
        except OSError:
            near.close()
            return
        hello = near.recv(40, socket.MSG_WAITALL)
        if len(hello) < 40:
            near.close()
            far.close()
            return
        far.sendall(hello)
        purpose = hello[6]
        with self.lock:
            number = self.numbers[purpose] = self.numbers.get(purpose, 0) + 1
        back = threading.Thread(target=self.pump, args=(far, near, purpose, FROM_ACCEPTOR, None), daemon=True)
        back.start()
        proof = near.recv(FROM_CONNECTOR - 40, socket.MSG_WAITALL)
        with self.lock:
            self.said.append(((address, int(meant)), purpose, hello + proof))
        try:
            far.sendall(proof)
        except OSError:
            pass
        self.pump(near, far, purpose, 0, number)

    def keep(self, purpose, data):
        with self.lock:
            seen = self.seen.setdefault(purpose, bytearray())
            if len(seen) < KEPT:
                seen += data

    def pump(self, source, target, purpose, handshake, number):
        passed = 0
        while True:
            try:
                data = source.recv(handshake if handshake > 0 else 1 << 16)
                if not data:
                    break
                if handshake > 0:
                    handshake -= len(data)
                else:
                    self.keep(purpose, data)
                    before, passed = passed, passed + len(data)
                    data = data if number is None else self.change(purpose, number, before, data)
                target.sendall(data)
            except OSError:
                break
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def flip(data, before, *offsets):
    """One bit of each byte at these offsets of the stream, as far as they are in this piece."""
    changed = bytearray(data)
    for offset in offsets:
        if before <= offset < before + len(data):
            changed[offset - before] ^= 4
    return bytes(changed)


def flip_once(wanted, *offsets):
    """In the first connection of this purpose."""
    return lambda purpose, number, before, data: (
        flip(data, before, *offsets) if (purpose, number) == (wanted, 1) else data)


class Tampering(Case):
    def setUp(self):
        if not os.access(REDIRECT, os.R_OK):
            self.skipTest("the library that leads connections through the proxy is not built")

    def run_through(self, path, level, workers=(1, 2, 2), **sections):
        trainer = synthetic(samples=3200, epochs=1, compute_us_per_sample=100)
        config = job(workers=workers, trainer=trainer, audit={"every_steps": 1},
                     network={"transport": "tcp", "encryption": level}, environment={"set": path.variables()},
                     failures={"cool_down_ms": 500}, **sections)
        return Run(config)

    def test_a_bit_of_a_sum_that_is_changed_once_costs_a_recovery_and_nothing_else(self):
        for level in ("integrity", "full"):
            with self.subTest(level=level):
                path = Path(self, flip_once(RING, 3_000_000))
                with self.run_through(path, level) as run:
                    self.assertEqual(run.wait(PATIENCE), 0)
                    run.wait_no_processes()
                    self.assert_audit_clean(run)
                    self.assertEqual(len(run.events("generation", kind="recover")), 1)
                    self.assertRegex(run.text(), "from rank 1 to rank 0 .* is not what was sent")

    def test_the_same_without_protection_is_noticed_by_the_audit_only(self):
        # The same change of a summand reaches both, and is noticed by nobody; one of a sum differs.
        path = Path(self, flip_once(RING, *range(3_000_000, 4_000_000, 30_001)))
        with self.run_through(path, "none") as run:
            self.assertEqual(run.wait(PATIENCE), AUDIT_FAILED)
            self.assertEqual(run.events("generation", kind="recover"), [])

    def test_what_has_passed_cannot_be_repeated(self):
        held = []

        def repeat(purpose, number, before, data):
            if (purpose, number) != (RING, 1) or held:
                return data
            held.append(data)
            return data + data

        with self.run_through(Path(self, repeat), "integrity") as run:
            self.assertEqual(run.wait(PATIENCE), 0)
            self.assert_audit_clean(run)
            self.assertIn("is not what was sent", run.text())

    def test_state_that_is_changed_on_its_way_reaches_no_joiner(self):
        path = Path(self, flip_once(STATE, 100_000))
        config = job(network={"transport": "tcp", "encryption": "integrity"}, environment={"set": path.variables()},
                     failures={"cool_down_ms": 500})
        with Run(config) as run:
            run.wait_size(2)
            run.do("resize", run.name, 3)
            run.wait_size(3, timeout=PATIENCE)
            self.assertIn("is not what was sent", run.text())
            run.wait_more_steps(20, timeout=PATIENCE)
            self.assert_ends_clean(run)

    def test_nobody_gets_in_by_repeating_handshakes_and_the_key_is_not_among_them(self):
        path = Path(self)
        config = job(network={"transport": "tcp", "encryption": "none"}, environment={"set": path.variables()})
        with Run(config) as run:
            run.wait_size(2)
            with open(os.path.join(run.state, run.name, "run.json")) as file:
                record = file.read()
            # Listeners answer while a generation is built: strangers say all that was heard, again and again.
            repeating = threading.Event()
            admitted = []
            strangers = [threading.Thread(target=self.repeat, args=(path, repeating, admitted)) for _ in range(4)]
            for stranger in strangers:
                stranger.start()
            for size in (3, 2, 4, 2, 3):
                run.do("resize", run.name, size)
                run.wait_size(size, timeout=PATIENCE)
            run.wait_more_steps(10)
            repeating.set()
            for stranger in strangers:
                stranger.join()
            self.assertEqual(admitted, [])
            with path.lock:
                heard = b"".join(said for _, _, said in path.said) + b"".join(path.seen.values())
                self.assertLessEqual({RING, STATE}, {purpose for _, purpose, _ in path.said})
            keys = re.findall(r'"key": *"([0-9a-f]{64})"', record)
            self.assertEqual(len(keys), 1)
            self.assertNotIn(bytes.fromhex(keys[0]), heard)
            self.assertNotIn(keys[0].encode(), heard)
            self.assert_ends_clean(run)

    def repeat(self, path, ending, admitted):
        while not ending.is_set():
            with path.lock:
                said = list(path.said)
            for address, _, both in said:
                with contextlib.suppress(OSError), socket.create_connection(address, timeout=1) as stranger:
                    stranger.sendall(both)
                    answer = stranger.recv(FROM_ACCEPTOR, socket.MSG_WAITALL)
                    if len(answer) == FROM_ACCEPTOR:  # a challenge is for everybody, the acknowledgement for members
                        admitted.append(address)

    def test_who_changes_everything_ends_the_run_but_never_with_success(self):
        path = Path(self, lambda purpose, number, before, data: flip(data, before, 100) if purpose == RING else data)
        with self.run_through(path, "integrity") as run:
            self.assertNotEqual(run.wait(PATIENCE), 0)
            run.wait_no_processes()
            self.assertIn("is not what was sent", run.text())

    def test_who_listens_reads_numbers_unless_they_are_encrypted(self):
        for level in ("integrity", "full"):
            with self.subTest(level=level):
                path = Path(self)
                config = job(network={"transport": "tcp", "encryption": level}, environment={"set": path.variables()})
                with Run(config) as run:
                    run.wait_size(2)
                    run.do("resize", run.name, 3)
                    run.wait_size(3, timeout=PATIENCE)
                    run.wait_more_steps(10, timeout=PATIENCE)
                    for purpose in (RING, STATE):
                        with path.lock:
                            seen = bytes(path.seen[purpose])
                        self.assertGreater(len(seen), 100_000)
                        # Floating-point numbers have like exponents; what is encrypted looks like noise.
                        left = len(zlib.compress(seen)) / len(seen)
                        self.assertEqual(left > 0.99, level == "full", f"purpose {purpose}: {left:.3f}")
                    self.assert_ends_clean(run)


if __name__ == "__main__":
    harness.main()
