"""The frames whose functions make the training: between the script's first call and the one that ends in a step."""

import ctypes
import dis
import functools
import inspect
import sys
import types
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from . import _hook, _rewrite
from ._loops import Loop, Mark

CO_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
_WRITES_THROUGH = sys.version_info >= (3, 13)


def frames() -> List[types.FrameType]:
    """From the script's outermost function to its innermost one, with those of libraries between them."""
    found: List[types.FrameType] = []
    own = 0
    frame: Optional[types.FrameType] = sys._getframe(1)
    while frame is not None and not _is_start(frame.f_code):
        is_own = _hook.is_own_file(frame.f_code.co_filename)
        if is_own or found:
            found.append(frame)
        own = len(found) if is_own else own
        frame = frame.f_back
    return found[:own][::-1]


def place() -> str:
    """Where the script is, as the begin of a sentence."""
    stack = frames()
    return f"{site_of(stack[-1])}: " if stack else ""


def _is_start(code: types.CodeType) -> bool:
    """Of what runs the main module."""
    return code is _hook.run_main.__code__ or code.co_filename == _hook.OURS + "_fork_server.py"


class Site(NamedTuple):
    file: str
    function: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line} ({self.function})"


def site_of(frame: types.FrameType) -> Site:
    return Site(_short_name(frame.f_code.co_filename), frame.f_code.co_name, frame.f_lineno or 0)


_short_name = functools.lru_cache(maxsize=None)(_hook.short_name)


def is_module(frame: types.FrameType) -> bool:
    """Whether its variables are a module's."""
    return frame.f_code.co_name == "<module>" and not frame.f_code.co_flags & 1


@functools.lru_cache(maxsize=None)
def _loop_names(code: types.CodeType) -> Tuple[str, ...]:
    names = code.co_names if code.co_name == "<module>" else (*code.co_varnames, *code.co_cellvars)
    return tuple(name for name in names if name.startswith(_rewrite.LOOP_PREFIX))


def live_loops(frame: types.FrameType) -> Dict[str, Loop]:
    """By the variables of their marks."""
    names = _loop_names(frame.f_code)
    if not names:
        return {}
    held = locals_of(frame)
    marks = {name: held.get(name) for name in names}
    loops = {name: mark.loop for name, mark in marks.items() if isinstance(mark, Mark)}
    return {name: loop for name, loop in loops.items() if loop is not None}


def locals_of(frame: types.FrameType) -> Dict[str, Any]:
    """The variables as they are now. What the interpreter keeps of them is emptied, so that nothing lives longer."""
    held = frame.f_locals
    if is_module(frame):
        return held
    copy = dict(held)
    if not _WRITES_THROUGH and sys.getrefcount(held) <= 3:  # the frame, this variable, the argument; more: locals() of the script
        held.clear()
    return copy


# --- What cannot be carried

def obstacles(stack: Sequence[types.FrameType]) -> List[str]:
    """Why the place of these frames cannot be set, one sentence each."""
    return [f"{site_of(frame)}: {reason}" for number, frame in enumerate(stack)
            for reason in _obstacles_of(frame, is_last=number == len(stack) - 1)]


def _obstacles_of(frame: types.FrameType, is_last: bool) -> Iterator[str]:
    code = frame.f_code
    notes = _rewrite.NOTES.get(code.co_filename)
    if code.co_name in CO_COMPREHENSIONS:
        yield "a comprehension drives the training; what it has gathered cannot be seen. Write it as a `for` statement"
    elif code.co_flags & 0x280:  # a coroutine, an asynchronous generator
        yield "asynchronous code drives the training, whose place cannot be set"
    elif notes is None and _open_loops(code, frame.f_lasti):
        yield ("a loop that was not rewritten drives the training"
               f"{_why_not(code.co_filename)}; its place cannot be set")
    elif notes is not None:
        yield from _obstacles_in(frame, notes)


def _why_not(path: str) -> str:
    if path in _rewrite.LEFT:
        return f" ({_rewrite.LEFT[path]})"
    package = _hook.package_of(path)
    return f" (ELASTICTRAIN_REWRITE_PACKAGES={package} rewrites it)" if package else ""


def _obstacles_in(frame: types.FrameType, notes: _rewrite.Notes) -> Iterator[str]:
    line = frame.f_lineno or 0
    if _calls_driver(frame, notes, line):
        yield ("a function that gathers values (list, sum, max, …) drives the training; what it has gathered cannot be seen. "
               "Write it as a `for` statement")
    elif _is_in_comprehension(frame, notes):
        yield "a comprehension drives the training; what it has gathered cannot be seen. Write it as a `for` statement"
    elif _is_waiting(frame, notes, line):
        yield "a value waits here while the training goes on, and cannot be seen. Write the call as a statement of its own"


def _calls_driver(frame: types.FrameType, notes: _rewrite.Notes, line: int) -> bool:
    position = _position(frame)
    if position is not None:
        return position in notes.drivers
    return any(first <= line <= last for first, last in notes.lazily_driven)


def _is_waiting(frame: types.FrameType, notes: _rewrite.Notes, line: int) -> bool:
    position = _position(frame)
    if position is not None:
        return position in notes.waiting
    return any(first <= line <= last for first, last in notes.waiting_lines)


def _position(frame: types.FrameType) -> Any:
    """Of the call in the source; None before Python 3.11."""
    if not hasattr(frame.f_code, "co_positions"):
        return None
    line, last, column, last_column = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    return line, column, last, last_column


@functools.lru_cache(maxsize=4096)
def _open_loops(code: types.CodeType, place: int) -> Tuple[Tuple[int, int], ...]:
    """Line and column of what the loops around an instruction iterate over; columns from Python 3.11 on."""
    found = []
    for instruction in dis.get_instructions(code):
        if instruction.opname == "FOR_ITER" and instruction.offset <= place < instruction.argval:
            positions = getattr(instruction, "positions", None)
            found.append((positions.lineno or 0, positions.col_offset or 0) if positions else (0, 0))
    return tuple(found)


def _is_in_comprehension(frame: types.FrameType, notes: _rewrite.Notes) -> bool:
    """One that is part of its function's code, as since Python 3.12."""
    return sys.version_info >= (3, 12) and any(place not in notes.loops for place in _open_loops(frame.f_code, frame.f_lasti))


def place_in(generator: types.GeneratorType) -> Tuple[str, Optional[int]]:
    """Its function, and the line where it waits once it has begun."""
    is_begun = inspect.getgeneratorstate(generator) != inspect.GEN_CREATED and generator.gi_frame is not None
    return generator.gi_code.co_name, generator.gi_frame.f_lineno if is_begun else None  # type: ignore[union-attr]


def generator_obstacle(generator: types.GeneratorType) -> str:
    """Why the place of a generator that waits cannot be set; an empty text if nothing is in the way."""
    code, frame = generator.gi_code, generator.gi_frame
    if frame is None or inspect.getgeneratorstate(generator) != inspect.GEN_SUSPENDED:
        return ""
    count = len(_open_loops(code, frame.f_lasti))
    if code.co_name == "<genexpr>":
        return "a generator expression with several loops" if count > 1 else ""
    if _rewrite.NOTES.get(code.co_filename) is None and count:
        return f"a generator of {_short_name(code.co_filename)}:{code.co_firstlineno}{_why_not(code.co_filename)}"
    return ""


# --- Setting variables

def set_locals(frame: types.FrameType, values: Dict[str, Any]) -> None:
    held = frame.f_locals
    held.update(values)
    if not _WRITES_THROUGH and not is_module(frame):
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def delete_local(frame: types.FrameType, name: str) -> None:
    """Before Python 3.13; afterwards the variable is set to None."""
    if _WRITES_THROUGH:
        set_locals(frame, {name: None})
        return
    frame.f_locals.pop(name, None)
    ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(1))
