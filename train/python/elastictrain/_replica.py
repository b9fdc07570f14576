"""A replica: processes of one program that hold one copy of a model together. To the run they are one worker.

The first process has the session (`_replica_session`). The others of its host are forked from it and end with it; those of other hosts
(`_replica_hosts`) are forked from the one that the agent there has started. Thread: the main thread.
"""

import atexit
import contextlib
import ctypes
import os
import resource
import signal
import socket
import sys
import threading
import time
from typing import Any, Dict, List, Optional

from . import _helpers, _replica_hosts
from ._channel import Channel
from ._planes import SAME_ERROR_S, PlaneServer, Remote
from ._replica_hosts import Hosts
from .errors import ElasticError
from .session import Session

AWAITED_S = 2 * SAME_ERROR_S  # for the reason of another one's end
REFUSAL = "this process belongs to a replica of several; its session is that of elastictrain.torch.elastic()"


class Replica:
    """This process's place: `index` from 0, of `size`. The first one has a channel to each other process, these have one to it."""

    def __init__(self, index: int, size: int, channels: List[Channel], copies: List[Channel],
                 hosts: Optional[Hosts] = None) -> None:
        """`copies`: channels beside the others, for the copies that the first process asks for while these train."""
        self.index, self.size, self.channels, self.copies, self.hosts = index, size, channels, copies, hosts
        self.rank_of_worker = os.environ.get("RANK")  # at its start; what the program may see is another one
        self.workers_at_start = int(os.environ.get("WORLD_SIZE") or "1")
        self.follower: Any = None  # the session of a process that is not the first one
        self.watch: Optional["Watch"] = None  # of a process that has forked others
        self.remotes: Dict[int, Remote] = {}  # of the first process: those on other hosts, by index
        self.sums: Optional[PlaneServer] = None  # of a process on another host than the first one

    @property
    def is_first(self) -> bool:
        return self.index == 0

    @property
    def local_size(self) -> int:
        """Processes of this host."""
        return self.size if self.hosts is None else self.hosts.processes(self.size)


_here: Optional[Replica] = None


def current() -> Optional[Replica]:
    """The replica of this process, if it has several."""
    return _here


def begin(size: int) -> Replica:
    """Forks the other processes of this host, and connects those of several. Returns in each."""
    global _here
    if _here is not None:
        raise ElasticError(f"this process belongs to a replica of {_here.size} processes already")
    if Session._open is not None:
        raise ElasticError("a replica begins before its session")
    if threading.current_thread() is not threading.main_thread():
        raise ElasticError("a replica begins in the program's main thread, with which its other processes end")
    sys.stdout.flush()
    sys.stderr.flush()
    hosts = _replica_hosts.here()
    Session.refusal = REFUSAL
    if hosts is None:
        _here = _begin_on_this_host(size)
    elif hosts.number == 0:
        listener = _replica_hosts.Listener(hosts)
        _here = _begin_on_this_host(size, hosts)
        if _here.is_first:
            _here.remotes = _connected_to(listener, _here)
    else:
        _here = _begin_on_another_host(size, hosts)
    if _here.is_first:
        atexit.register(_await_all, _here)
    else:
        atexit.register(_end_at_once, _here)
    return _here


def _begin_on_this_host(size: int, hosts: Optional[Hosts] = None) -> Replica:
    """Of the first process."""
    parent, others, copies, pids = os.getpid(), [], [], []
    count = size if hosts is None else hosts.processes(size)
    for index in range(1, count):
        pairs = socket.socketpair(), socket.socketpair()
        pid = os.fork()
        if pid == 0:
            for channel in (*others, *copies, *(mine for mine, _ in pairs)):
                channel.close()
            _follow_to_the_end(parent)
            own = [Channel(theirs) for _, theirs in pairs]
            return Replica(index, size, own[:1], own[1:], hosts)
        for _, theirs in pairs:
            theirs.close()
        others.append(Channel(pairs[0][0]))
        copies.append(Channel(pairs[1][0]))
        pids.append(pid)
    here = Replica(0, size, others, copies, hosts)
    here.watch = Watch(dict(zip(pids, range(1, count))))
    return here


def _connected_to(listener: _replica_hosts.Listener, here: Replica) -> Dict[int, Remote]:
    indices = range(here.local_size, here.size)
    found = listener.await_all(indices)
    for index in indices:
        here.channels.append(found[index, _replica_hosts.CONTROL])
        here.copies.append(found[index, _replica_hosts.COPIES])
    changed = threading.Condition()
    return {index: Remote(index, found[index, _replica_hosts.SUMS], changed) for index in indices}


def _begin_on_another_host(size: int, hosts: Hosts) -> Replica:
    """The agent has started the first one of its host, which forks the rest; each connects for itself."""
    parent, count = os.getpid(), hosts.processes(size)
    pids: Dict[int, int] = {}
    index = hosts.number * count
    for other in range(index + 1, index + count):
        pid = os.fork()
        if pid == 0:
            _follow_to_the_end(parent)
            return _connected(other, size, hosts)
        pids[pid] = other
    _helpers.ignore_notices(os.getppid())
    here = _connected(index, size, hosts)
    here.watch = Watch(pids)
    return here


def _connected(index: int, size: int, hosts: Hosts) -> Replica:
    control, copies, sums = (_replica_hosts.connect(hosts, index, purpose) for purpose in _replica_hosts.PURPOSES)
    here = Replica(index, size, [control], [copies], hosts)
    here.sums = PlaneServer(sums)
    return here


def _follow_to_the_end(parent: int) -> None:
    """Of the first process, whose signals concern them all."""
    _helpers.ignore_notices(parent)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each piece of shared memory keeps one open
    ctypes.CDLL(None).prctl(_helpers.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _await_all(here: Replica) -> None:
    """At the end of the first process's program. What the others still do may take as long as its own end may."""
    if getattr(sys, "last_value", None) is not None:
        return
    local = here.local_size - 1
    for channel in (*here.channels[:local], *here.copies[:local]):
        channel.close()
    for copies in here.copies[local:]:
        with contextlib.suppress(EOFError):
            copies.send(None)
    assert here.watch is not None
    here.watch.await_all()
    for remote in here.remotes.values():
        remote.await_end()


def _end_at_once(here: Replica) -> None:
    """What follows is only the unloading of torch, for which the others would wait. The first process may still copy what is here."""
    if getattr(sys, "last_value", None) is not None:
        return
    here.channels[0].close()  # a first process that still waits for a call of this one ends
    if here.follower is not None:
        here.follower.await_last_copy()
    if here.watch is not None:
        here.watch.await_all()
    if here.sums is not None:
        here.sums.end()
    if here.follower is not None and here.follower.ends_at_once:
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
        self._threads[index - 1].join(AWAITED_S)

    def await_all(self) -> None:
        for thread in self._threads:
            thread.join()
