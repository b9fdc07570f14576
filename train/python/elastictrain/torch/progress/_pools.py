"""Pools of threads that a script keeps. One that has nothing to do is the same in any worker that has one of its size, so a new
worker makes its own; so is a future whose result is there."""

import concurrent.futures
import concurrent.futures.thread as _thread
import sys
import threading
import time
import types
from typing import Any, Iterable, Optional, Set, Tuple

PATIENCE_S = 0.1  # until a pool has done what it was given
PAUSE_S = 0.001


def threads_at_work(threads: Iterable[threading.Thread]) -> Set[str]:
    """The names of those that are not of a pool with nothing to do, once pools have had the time for it."""
    latest = time.monotonic() + PATIENCE_S
    while True:
        names = {thread.name for thread in threads if not _is_idle(_pool_of(thread))}
        if not names or time.monotonic() > latest or all(_pool_of(thread) is None for thread in threads if thread.name in names):
            return names
        time.sleep(PAUSE_S)


def reduced(value: Any) -> Optional[Tuple[Any, ...]]:
    """As __reduce__(), of such a pool or future; None for all else. Raises ValueError for one that is at work."""
    if type(value) is concurrent.futures.ThreadPoolExecutor and value._initializer is None and not value._shutdown:
        if not _is_idle(value):
            raise ValueError("a pool of threads at work")
        return concurrent.futures.ThreadPoolExecutor, (value._max_workers, value._thread_name_prefix)
    if type(value) is concurrent.futures.Future:
        if not value.done() or value.cancelled():
            raise ValueError("a future without a result")
        error = value.exception()
        return _done, (None if error is not None else value.result(), error)
    return None


def _done(result: Any, error: Optional[BaseException]) -> Any:
    made: Any = concurrent.futures.Future()
    if error is None:
        made.set_result(result)
    else:
        made.set_exception(error)
    return made


def _pool_of(thread: threading.Thread) -> Any:
    """The executor that has started it, if one has."""
    if thread not in _thread._threads_queues:
        return None
    arguments = getattr(thread, "_args", None)
    return arguments[0]() if arguments and callable(arguments[0]) else None


def _is_idle(pool: Any) -> bool:
    """Each of its threads waits, and nothing waits for one of them. (The pool's own count of idle ones is too large where more was
    given to it than it has threads.)"""
    if pool is None or not pool._work_queue.empty():
        return False
    frames = sys._current_frames()
    return all(_waits(frames.get(thread.ident)) for thread in list(pool._threads))


def _waits(frame: Optional[types.FrameType]) -> bool:
    """In the loop of a pool's thread, with nothing in its hand."""
    return frame is not None and frame.f_code is _thread._worker.__code__ and frame.f_locals.get("work_item") is None
