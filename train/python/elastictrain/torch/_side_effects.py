"""What a worker does before it takes part leaves no trace: the others have done it already.

A file that is older than the process is not written by it: what is written goes nowhere. So does what one prints that comes in
place of the first worker.
"""

import builtins
import functools
import io
import os
import shutil
import sys
import time
from typing import Any, Callable, Optional

import torch

from ._group_board import has_first_rank, is_starter
from ._script import script

_began = time.time()


def is_silent() -> bool:
    """A worker that comes later, until it is a member; and one that rehearses."""
    return script.is_apart or (not is_starter() and not script.is_training_now)


def install() -> None:
    opened = builtins.open

    @functools.wraps(opened)
    def open_file(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
        writes = isinstance(mode, str) and any(letter in mode for letter in "wa")
        if writes and is_silent() and _is_of_others(file):
            file = os.devnull
        return opened(file, mode, *arguments, **named)

    builtins.open = io.open = open_file  # type: ignore[assignment]
    _print_once()
    setattr(torch, "save", _unless_silent(torch.save, 1))
    for module, name in ((os, "remove"), (os, "unlink"), (os, "rename"), (os, "replace"), (shutil, "rmtree"), (shutil, "move")):
        setattr(module, name, _unless_silent(getattr(module, name), 0))


def _print_once() -> None:
    """What the first worker printed before its first step is not printed again by one that comes in place of it."""
    original = builtins.print

    @functools.wraps(original)
    def print_as_member(*arguments: Any, **named: Any) -> None:
        if named.get("file") in (None, sys.stdout) and has_first_rank() and is_silent():
            return
        original(*arguments, **named)

    builtins.print = print_as_member


def _unless_silent(original: Callable[..., Any], place: int) -> Callable[..., Any]:
    """`place`: of the path among the arguments."""
    @functools.wraps(original)
    def call(*arguments: Any, **named: Any) -> Any:
        path = arguments[place] if len(arguments) > place else None
        return None if is_silent() and _is_of_others(path) else original(*arguments, **named)

    return call


def _is_of_others(file: Any) -> bool:
    """A regular file or a folder that existed before this process."""
    if not isinstance(file, (str, bytes, os.PathLike)):
        return False
    changed: Optional[float]
    try:
        status = os.stat(file)
    except OSError:
        return False
    is_plain = os.path.isfile(file) or os.path.isdir(file)
    changed = min(status.st_mtime, status.st_ctime)
    return is_plain and changed < _began
