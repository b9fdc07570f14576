"""Logs that are written once in a script that changes nothing: by the first worker, whichever it is now.

Every worker may make a SummaryWriter. Its files are made by the worker that first writes as the first one.
"""

import functools
import os
from typing import Any, Callable

from ._imports import after_import
from ._script import script
from ._side_effects import is_silent


def install() -> None:
    after_import("torch.utils.tensorboard.writer", _change_writer)
    after_import("accelerate.tracking", _change_trackers)


def _change_writer(module: Any) -> None:
    module.FileWriter = functools.partial(FirstWriter, module.FileWriter)
    writer = module.SummaryWriter
    original = writer.__init__

    @functools.wraps(original)
    def constructed(self: Any, log_dir: Any = None, comment: str = "", *rest: Any, **named: Any) -> None:
        name = os.environ.get("ELASTICTRAIN_JOB_ID")  # torch's own has the time, which differs between workers
        original(self, log_dir or (name and os.path.join("runs", name + comment)), comment, *rest, **named)

    writer.__init__ = constructed


def _change_trackers(module: Any) -> None:
    """Every worker makes the writer, since each may become the first one."""
    tracker = module.TensorBoardTracker
    tracker.start = getattr(tracker.start, "__wrapped__", tracker.start)


class FirstWriter:
    """In place of a FileWriter of the class `kind`: writes where this worker is the first one."""

    def __init__(self, kind: Callable[..., Any], log_dir: Any, *arguments: Any, **named: Any) -> None:
        self._log_dir = str(log_dir)
        self._make = functools.partial(kind, log_dir, *arguments, **named)
        self._own: Any = None

    def get_logdir(self) -> str:
        return self._log_dir

    def flush(self) -> None:
        if self._own is not None:
            self._own.flush()

    def close(self) -> None:
        if self._own is not None:
            self._own.close()

    def __getattr__(self, name: str) -> Callable[..., None]:
        def write(*arguments: Any, **named: Any) -> None:
            if script.rank == 0 and not is_silent():
                self._own = self._own or self._make()
                getattr(self._own, name)(*arguments, **named)

        return write
