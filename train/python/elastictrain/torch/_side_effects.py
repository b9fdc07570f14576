"""What a worker does before it takes part leaves no trace: the others have done it already.

A file that is older than the process is not written by it: what is written goes nowhere. A text file that the script keeps open
is not emptied either, and what is written into it later is appended. So is it in a run that resumes. What one prints that comes in
place of the first worker goes nowhere until it takes part.
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


def keeps_files() -> bool:
    """Also one of a run that resumes."""
    return is_silent() or (os.environ.get("ELASTICTRAIN_RESUME") == "1" and not script.is_training_now)


class Continued(io.TextIOWrapper):
    """A text file of the others. What is written before this worker takes part is in it already, or belongs to a pass that counts
    nowhere; what is written later is appended. `append`: opens it in binary mode. The others as in open()."""

    def __init__(self, append: Callable[..., Any], mode: str, buffering: int = -1, encoding: Optional[str] = None,
                 errors: Optional[str] = None, newline: Optional[str] = None, closefd: bool = True, opener: Any = None) -> None:
        super().__init__(append(closefd=closefd, opener=opener), encoding, errors, newline, buffering == 1)
        self.mode = mode

    def write(self, text: str) -> int:
        return len(text) if keeps_files() else super().write(text)

    def truncate(self, size: Optional[int] = None) -> int:
        return self.tell() if keeps_files() else super().truncate(size)


_is_kept_said = False


def _say_kept(path: Any) -> None:
    """Once, in a run that resumes: its user may have wanted another file."""
    global _is_kept_said
    if is_silent() or _is_kept_said:
        return
    _is_kept_said = True
    print(f"elastictrain: {path} and other files of before are left as they are until this run trains: it resumes", file=sys.stderr,
          flush=True)


def install() -> None:
    opened = builtins.open

    @functools.wraps(opened)
    def open_file(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
        writes = isinstance(mode, str) and any(letter in mode for letter in "wax")
        if writes and keeps_files() and _is_of_others(file):
            if os.path.isfile(file) and not set(mode) & set("b+"):
                _say_kept(file)
                return Continued(functools.partial(opened, file, "ab"), mode, *arguments, **named)
            _say_kept(file)
            file, mode = os.devnull, mode.replace("x", "w")
        return opened(file, mode, *arguments, **named)

    builtins.open = io.open = open_file  # type: ignore[assignment]
    _print_once()
    _find_folders()
    setattr(torch, "save", _unless_silent(torch.save, 1))
    for module, name in ((os, "remove"), (os, "unlink"), (os, "rename"), (os, "replace"), (shutil, "rmtree"), (shutil, "move")):
        setattr(module, name, _unless_silent(getattr(module, name), 0))


def _print_once() -> None:
    """What the first worker printed before its first step is not printed again by one that comes in place of it, nor by a run that
    resumes what was printed in the step of its checkpoint."""
    original = builtins.print

    @functools.wraps(original)
    def print_as_member(*arguments: Any, **named: Any) -> None:
        is_said = has_first_rank() or os.environ.get("ELASTICTRAIN_RESUME") == "1"
        if named.get("file") in (None, sys.stdout) and is_said and is_silent():
            return
        original(*arguments, **named)

    builtins.print = print_as_member


def _find_folders() -> None:
    """A folder that the first worker made is there for the one that comes in place of it."""
    make = os.mkdir

    @functools.wraps(make)
    def mkdir(path: Any, *arguments: Any, **named: Any) -> None:
        is_there = has_first_rank() and keeps_files() and os.path.isdir(path) and _is_of_others(path)
        return None if is_there else make(path, *arguments, **named)

    setattr(os, "mkdir", mkdir)


def _unless_silent(original: Callable[..., Any], place: int) -> Callable[..., Any]:
    """`place`: of the path among the arguments."""
    @functools.wraps(original)
    def call(*arguments: Any, **named: Any) -> Any:
        path = arguments[place] if len(arguments) > place else None
        if not (keeps_files() and _is_of_others(path)):
            return original(*arguments, **named)
        _say_kept(path)
        return None

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
