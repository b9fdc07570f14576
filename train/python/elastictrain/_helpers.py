"""Processes that a worker starts for a part of its work, above all to load data.

A signal that every process of a job gets (TERM at its end, USR1 before it) concerns the worker, which saves and leaves, and
needs them until then. torch gives its loaders a handler of TERM that ends them.

They begin with these signals blocked, which also a process inherits that is executed (start methods spawn and forkserver), and
take them when their own handlers are set. A fork server keeps them blocked; it ends with the worker. What such a process starts in
turn is not covered.
"""

import os
import runpy
import signal
import sys
import threading
from multiprocessing import popen_fork, spawn, util
from multiprocessing.process import BaseProcess
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from . import _interface

NOTICES = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
PR_SET_PDEATHSIG = 1
_TORCH_HANDLERS = "torch.utils.data._utils.signal_handling"


def ignore_notices(worker: int) -> None:
    """In such a process; `worker`: the process that it helps."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _interface.load().et_ignore_notices(worker)


def _is_default() -> bool:
    """Otherwise the program has its own way, in its processes too."""
    return signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


class _Blocking(threading.local):
    """Notices are blocked in this thread while a process begins."""

    def __init__(self) -> None:
        self._before: Optional[Set[Any]] = None

    def before(self) -> Set[Any]:
        """The signals that the program itself has blocked."""
        return self._before if self._before is not None else signal.pthread_sigmask(signal.SIG_BLOCK, ())

    def begin(self) -> None:
        if _is_default():
            self._before = signal.pthread_sigmask(signal.SIG_BLOCK, NOTICES)

    def end(self) -> None:
        """In the worker, and in a process that it has forked."""
        before, self._before = self._before, None
        if before is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.begin()
            try:
                return function(*arguments)
            finally:
                self.end()

        return call


_blocking = _Blocking()


class _Begun:
    """What a process of the module multiprocessing begins with. `worker`: the process that it helps, or its parent, as for
    those that it forks in turn."""

    def __init__(self, worker: Optional[int] = None) -> None:
        self._worker = worker

    def begin(self) -> None:
        worker, self._worker = self._worker or os.getppid(), None
        if _is_default():
            ignore_notices(worker)
        _blocking.end()
        handlers: Any = sys.modules.get(_TORCH_HANDLERS)
        if handlers is None:
            return
        set_handlers = handlers._set_worker_signal_handlers

        def set_and_ignore() -> None:
            set_handlers()
            ignore_notices(worker)

        handlers._set_worker_signal_handlers = set_and_ignore


class _Executed:
    """Among the data that an executed process prepares itself with, before sys.path is set there: calls begin_executed()."""

    def __init__(self) -> None:
        self._names = {"worker": os.getpid(), "ignores": _is_default(), "blocked": sorted(map(int, _blocking.before()))}

    def __reduce__(self) -> Tuple[Callable[..., Any], Tuple[Any, ...]]:
        return runpy.run_path, (os.path.join(os.path.dirname(__file__), "_executed.py"), self._names)


def begin_executed(worker: int, ignores: bool, blocked: List[int]) -> None:
    """In a process that the worker, or its fork server, has begun with blocked signals. `blocked`: by the program itself."""
    if ignores:
        begun = _Begun(worker)
        process: Any = BaseProcess
        bootstrap = process._bootstrap

        def begin_and_run(self: Any, *arguments: Any, **named: Any) -> Any:
            """When it has imported its work, and torch has its handlers. What is registered for after a fork does not run in a
            process of `spawn`."""
            begun.begin()
            return bootstrap(self, *arguments, **named)

        process._bootstrap = begin_and_run
        ignore_notices(worker)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, set(NOTICES) - set(blocked))


_of_worker = _Begun()  # the registry holds a weak reference
_is_watching = False


def watch() -> None:
    """In a worker: from now on the processes that the module multiprocessing starts ignore notices."""
    global _is_watching
    if _is_watching:
        return
    _is_watching = True
    util.register_after_fork(_of_worker, _Begun.begin)
    prepare = spawn.get_preparation_data

    def prepare_to_ignore(name: str) -> Dict[str, Any]:
        return {"elastictrain": _Executed(), **prepare(name)}

    forking: Any = popen_fork.Popen
    forking._launch = _blocking.around(forking._launch)
    executing: Any = util
    executing.spawnv_passfds = _blocking.around(executing.spawnv_passfds)
    spawn.get_preparation_data = prepare_to_ignore
