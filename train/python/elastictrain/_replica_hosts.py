"""A replica whose processes are on several hosts: how those on other hosts reach the first one, over TCP.

The agent of each host starts one process; that of the first host listens where its agent says, the others connect to it, each process for
itself. Both ends of a connection prove that they know the worker's key before anything else is read from it. What follows is in
the clear, as what torch itself sends between these processes.
"""

import contextlib
import hashlib
import hmac
import os
import pickle
import secrets
import socket
import struct
import threading
import time
from typing import Any, Dict, NamedTuple, Optional, Tuple

from ._channel import Channel
from .errors import ElasticError

CONTROL, COPIES, SUMS = PURPOSES = range(3)  # of a connection
HANDSHAKE_S = 5.0
RETRY_S = 0.1
_MOST_HANDSHAKES = 64
_HELLO = struct.Struct("=8sIB32s")  # magic, index, purpose, a number used once
_MAGIC = b"etparts1"


class Hosts(NamedTuple):
    """What this host's agent says of the replica."""
    count: int
    number: int  # of this host, from 0
    address: Tuple[str, int]  # of the first process
    interface: str
    key: bytes
    limit_s: float  # in which the processes wait for one another

    def processes(self, size: int) -> int:
        """Of each host, in a replica of this size."""
        if size % self.count:
            raise ElasticError(f"a replica of {size} processes cannot be divided among {self.count} hosts alike (workers.hosts_per_replica)")
        return size // self.count


def here() -> Optional[Hosts]:
    """None: the replica is on one host. Call it once: the key is removed from the host."""
    count = int(os.environ.get("ELASTICTRAIN_REPLICA_HOSTS") or "1")
    if count == 1:
        return None
    address, _, port = os.environ["ELASTICTRAIN_REPLICA_ADDRESS"].rpartition(":")
    path = os.environ["ELASTICTRAIN_REPLICA_KEY_FILE"]
    try:
        with open(path, encoding="ascii") as file:
            key = bytes.fromhex(file.read())
        os.unlink(path)
    except OSError as error:
        raise ElasticError(f"the key of this replica cannot be read: {error}. A program calls elastictrain.torch.replica() once, in the "
                           "process that the agent has started") from None
    return Hosts(count, int(os.environ["ELASTICTRAIN_REPLICA_HOST"]), (address.strip("[]"), int(port)),
                 os.environ.get("ELASTICTRAIN_REPLICA_INTERFACE", ""), key,
                 float(os.environ.get("ELASTICTRAIN_REPLICA_TIMEOUT_MS", "600000")) / 1e3)


class RemoteChannel(Channel):
    """Messages to a process on another host."""

    def send(self, message: Any, descriptor: Optional[int] = None) -> None:
        assert descriptor is None
        body = pickle.dumps(message)
        self.send_bytes(self.HEADER.pack(len(body), False), body)

    def receive(self) -> Tuple[Any, Optional[int]]:
        size, _ = self.HEADER.unpack(self._read(self.HEADER.size))
        return pickle.loads(self._read(size)), None

    def read_into(self, memory: memoryview) -> None:
        """Raises EOFError where the other process has ended."""
        while memory:
            try:
                count = self._socket.recv_into(memory)
            except OSError:
                count = 0
            if not count:
                raise EOFError
            memory = memory[count:]

    def send_bytes(self, *parts: Any) -> None:
        try:
            for part in parts:
                self._socket.sendall(part)
        except OSError:
            raise EOFError from None


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _prepared(end: socket.socket) -> socket.socket:
    end.settimeout(None)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return end


def _proof(key: bytes, end: str, hello: bytes, answer: bytes) -> bytes:
    return hmac.new(key, end.encode() + hello + answer, hashlib.sha256).digest()


def _read(end: socket.socket, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        part = end.recv(size - len(parts))
        if not part:
            raise OSError("the connection was closed")
        parts += part
    return parts


class Listener:
    """The first process's. Thread: one for each connection that is not known yet; the rest that of the caller."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._found: Dict[Tuple[int, int], RemoteChannel] = {}
        self._changed = threading.Condition()
        self._handshakes = threading.Semaphore(_MOST_HANDSHAKES)
        self._socket = socket.socket(_family(hosts.address[0]), socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # the agent holds the port for this process
        try:
            self._socket.bind(hosts.address)
        except OSError as error:
            raise ElasticError(f"cannot listen at {hosts.address[0]} port {hosts.address[1]} for the replica's processes on other hosts: "
                               f"{error.strerror}") from None
        self._socket.listen(_MOST_HANDSHAKES)

    def await_all(self, indices: range) -> Dict[Tuple[int, int], RemoteChannel]:
        """The connections of these processes, by index and purpose."""
        wanted = {(index, purpose) for index in indices for purpose in PURPOSES}
        accepting = threading.Thread(target=self._accept, daemon=True)
        accepting.start()
        with self._changed:
            there = self._changed.wait_for(lambda: wanted <= self._found.keys(), self._hosts.limit_s)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        accepting.join()
        self._socket.close()
        if not there:
            missing = sorted({index for index, purpose in wanted - self._found.keys()})
            raise ElasticError(f"process {missing[0]} of this replica, on another host, did not connect within {self._hosts.limit_s:.0f} s. "
                               "Each host runs the same program, which calls elastictrain.torch.replica() or is run with --torch")
        return {which: channel for which, channel in self._found.items() if which in wanted}

    def _accept(self) -> None:
        while True:
            try:
                end, _ = self._socket.accept()
            except OSError:
                return
            if self._handshakes.acquire(timeout=HANDSHAKE_S):
                threading.Thread(target=self._meet, args=(end,), daemon=True).start()
            else:
                end.close()

    def _meet(self, end: socket.socket) -> None:
        try:
            end.settimeout(HANDSHAKE_S)
            hello = _read(end, _HELLO.size)
            magic, index, purpose, _ = _HELLO.unpack(hello)
            answer = secrets.token_bytes(32)
            if magic != _MAGIC:
                raise OSError
            end.sendall(answer + _proof(self._hosts.key, "first", hello, answer))
            if not hmac.compare_digest(_read(end, 32), _proof(self._hosts.key, "other", hello, answer)):
                raise OSError
            with self._changed:
                if (index, purpose) in self._found:
                    raise OSError
                self._found[index, purpose] = RemoteChannel(_prepared(end))
                self._changed.notify_all()
        except OSError:
            end.close()
        finally:
            self._handshakes.release()


def connect(hosts: Hosts, index: int, purpose: int) -> RemoteChannel:
    """To the first process, as process `index`. Waits for it."""
    until, why = time.monotonic() + hosts.limit_s, ""
    while time.monotonic() < until:
        end = socket.socket(_family(hosts.address[0]), socket.SOCK_STREAM)
        try:
            end.settimeout(HANDSHAKE_S)
            end.connect(hosts.address)
            _introduce(end, hosts.key, index, purpose)
            return RemoteChannel(_prepared(end))
        except OSError as error:
            end.close()
            why = str(error)
            time.sleep(RETRY_S)
    raise ElasticError(f"the first process of this replica was not reached at {hosts.address[0]} port {hosts.address[1]} within "
                       f"{hosts.limit_s:.0f} s: {why}")


def _introduce(end: socket.socket, key: bytes, index: int, purpose: int) -> None:
    hello = _HELLO.pack(_MAGIC, index, purpose, secrets.token_bytes(32))
    end.sendall(hello)
    answer = _read(end, 32)
    if not hmac.compare_digest(_read(end, 32), _proof(key, "first", hello, answer)):
        raise OSError("what listens there does not know the replica's key")
    end.sendall(_proof(key, "other", hello, answer))
