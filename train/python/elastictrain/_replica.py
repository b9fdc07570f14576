"""A replica: processes of one program that hold one copy of a model together. To the run they are one worker.

The first process has the session (`_replica_session`). The others are forked from it and end with it. Thread: the main thread.
"""

import atexit
import ctypes
import os
import pickle
import resource
import select
import signal
import socket
import struct
import sys
import threading
import time
from typing import Any, Dict, List, Optional, Tuple

from . import _helpers
from .errors import ElasticError
from .session import Session

SAME_ERROR_S = 1.0  # in which the first process may end with the error of another one, and say it as the worker's
REFUSAL = "this process belongs to a replica of several; its session is that of elastictrain.torch.elastic()"


class Channel:
    """Messages between two processes of a replica, each with at most one descriptor."""

    HEADER = struct.Struct("=Q?")

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._poll = select.poll()
        self._poll.register(end, select.POLLIN)

    def send(self, message: Any, descriptor: Optional[int] = None) -> None:
        body = pickle.dumps(message)
        header = self.HEADER.pack(len(body), descriptor is not None)
        try:
            socket.send_fds(self._socket, [header], [] if descriptor is None else [descriptor])
            self._socket.sendall(body)
        except (BrokenPipeError, ConnectionResetError):
            raise EOFError from None

    def receive(self) -> Tuple[Any, Optional[int]]:
        """Raises EOFError where the other process has ended."""
        header, descriptors, _, _ = socket.recv_fds(self._socket, self.HEADER.size, 1)
        header += self._read(self.HEADER.size - len(header))
        size, has_descriptor = self.HEADER.unpack(header)
        return pickle.loads(self._read(size)), descriptors[0] if has_descriptor else None

    def has_more(self) -> bool:
        return bool(self._poll.poll(0))

    def close(self) -> None:
        self._socket.close()

    def _read(self, size: int) -> bytes:
        parts = []
        while size:
            part = self._socket.recv(min(size, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


class Replica:
    """This process's place: `index` from 0, of `size`. The first one has a channel to each other process, these have one to it."""

    def __init__(self, index: int, size: int, channels: List[Channel], copies: List[Channel]) -> None:
        """`copies`: channels beside the others, for the copies that the first process asks for while these train."""
        self.index, self.size, self.channels, self.copies = index, size, channels, copies
        self.rank_of_worker = os.environ.get("RANK")  # at its start; what the program may see is another one
        self.workers_at_start = int(os.environ.get("WORLD_SIZE") or "1")
        self.follower: Any = None  # the session of a process that is not the first one
        self.watch: Optional["Watch"] = None  # of the first process

    @property
    def is_first(self) -> bool:
        return self.index == 0


_here: Optional[Replica] = None


def current() -> Optional[Replica]:
    """The replica of this process, if it has several."""
    return _here


def begin(size: int) -> Replica:
    """Forks the other processes. Returns in each."""
    global _here
    if _here is not None:
        raise ElasticError(f"this process belongs to a replica of {_here.size} processes already")
    if Session._open is not None:
        raise ElasticError("a replica begins before its session")
    if threading.current_thread() is not threading.main_thread():
        raise ElasticError("a replica begins in the program's main thread, with which its other processes end")
    sys.stdout.flush()
    sys.stderr.flush()
    parent, others, copies, pids = os.getpid(), [], [], []
    for index in range(1, size):
        pairs = socket.socketpair(), socket.socketpair()
        pid = os.fork()
        if pid == 0:
            for channel in (*others, *copies, *(mine for mine, _ in pairs)):
                channel.close()
            _follow_to_the_end(parent)
            Session.refusal = REFUSAL
            own = [Channel(theirs) for _, theirs in pairs]
            _here = Replica(index, size, own[:1], own[1:])
            atexit.register(_end_at_once, _here)
            return _here
        for _, theirs in pairs:
            theirs.close()
        others.append(Channel(pairs[0][0]))
        copies.append(Channel(pairs[1][0]))
        pids.append(pid)
    _here = Replica(0, size, others, copies)
    Session.refusal = REFUSAL
    _here.watch = Watch(dict(zip(pids, range(1, size))))
    atexit.register(_here.watch.await_all, [*others, *copies])
    return _here


def _follow_to_the_end(parent: int) -> None:
    """Of the first process, whose signals concern them all."""
    _helpers.ignore_notices(parent)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each piece of shared memory keeps one open
    ctypes.CDLL(None).prctl(_helpers.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _end_at_once(here: Replica) -> None:
    """What follows is only the unloading of torch, for which the others would wait. The first process may still copy what is here."""
    if here.follower is not None and getattr(sys, "last_value", None) is None:
        here.follower.await_last_copy()
    if here.follower is not None and here.follower.ends_at_once and getattr(sys, "last_value", None) is None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


class Watch:
    """Ends the first process as soon as another one fails: none can go on without it. Thread: its own."""

    def __init__(self, index_of: Dict[int, int]) -> None:
        self._threads = [threading.Thread(target=self._watch, args=pair, daemon=True) for pair in index_of.items()]
        for thread in self._threads:
            thread.start()

    def _watch(self, pid: int, index: int) -> None:
        try:
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        except ChildProcessError:  # the program itself has waited for it
            return
        if status > 0:
            time.sleep(SAME_ERROR_S)
        if status != 0:
            how = f"signal {-status}" if status < 0 else f"status {status}"
            os.write(2, f"elastictrain: process {index} of this replica has ended with {how}; its replica ends\n".encode())
            if status == -signal.SIGKILL:  # no fault of the program, and so the run is to see it
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(1)

    def await_one(self, index: int) -> None:
        """Of a process that is about to end: says why, unless it ends with success."""
        self._threads[index - 1].join()

    def await_all(self, channels: List[Channel]) -> None:
        """At the end of the program. What the others still do may take as long as the first one's own end may."""
        if getattr(sys, "last_value", None) is not None:
            return
        for channel in channels:
            channel.close()
        for thread in self._threads:
            thread.join()
