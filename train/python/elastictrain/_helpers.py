"""Processes that a worker starts for a part of its work, above all to load data.

A signal that every process of a job gets (TERM at its end, USR1 before it) concerns the worker, which saves and leaves, and
needs them until then. torch gives its loaders a handler of TERM that ends them.
"""

import os
import signal
import sys
from multiprocessing import util
from typing import Any

from . import _interface

_TORCH_HANDLERS = "torch.utils.data._utils.signal_handling"


def ignore_notices(worker: int) -> None:
    """In such a process; `worker`: the process that it helps."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _interface.load().et_ignore_notices(worker)


class _Forked:
    """What a process of the module multiprocessing begins with that this one has forked."""

    def begin(self) -> None:
        worker = os.getppid()
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # otherwise the program has its own way, here too
            ignore_notices(worker)
        handlers: Any = sys.modules.get(_TORCH_HANDLERS)
        if handlers is None:
            return
        set_handlers = handlers._set_worker_signal_handlers

        def set_and_ignore() -> None:
            set_handlers()
            ignore_notices(worker)

        handlers._set_worker_signal_handlers = set_and_ignore


_forked = _Forked()


def watch() -> None:
    """In a worker, once: from now on the processes that the module multiprocessing forks ignore notices."""
    util.register_after_fork(_forked, _Forked.begin)
