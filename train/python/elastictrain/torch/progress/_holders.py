"""Things of the standard library that hold a small value, which changes in place: read and set as a whole."""

import array
import contextvars
import ctypes
import hashlib
import io
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from . import _values

NUMBERS = frozenset(getattr(ctypes, f"c_{name}") for name in (
    "bool", "byte", "ubyte", "short", "ushort", "int", "uint", "long", "ulong", "longlong", "ulonglong", "float", "double"))
SHARED = "multiprocessing.sharedctypes"  # what multiprocessing.Value() and Array() return


class _Way(NamedTuple):
    read: Callable[[Any], Any]
    write: Callable[[Any, Any], None]


def content_of(value: Any) -> Optional[Tuple[Any, ...]]:
    """None for all else; () where nothing can be read: of a buffer that is closed, of a variable without a value or with one that is
    not small."""
    way = _way_of(value)
    try:
        return None if way is None else (way.read(value),)
    except (ValueError, LookupError):
        return ()


def digest_of(content: Tuple[Any, ...]) -> bytes:
    hashed = hashlib.blake2b(digest_size=_values.DIGEST_BYTES)
    for part in content[0] if content and isinstance(content[0], tuple) else content:
        seen = part if isinstance(part, bytes) else repr(part).encode("utf-8", "backslashreplace")
        hashed.update(f"{type(part).__qualname__}{len(seen)}:".encode() + seen)
    return hashed.digest()


def set_content(value: Any, content: Tuple[Any, ...]) -> bool:
    """False: it is none of them."""
    way = _way_of(value)
    if way is not None and content:
        way.write(value, content[0])
    return way is not None


def _write_array(held: Any, content: bytes) -> None:
    del held[:]
    held.frombytes(content)


def _write_buffer(held: Any, content: Tuple[Any, int]) -> None:
    held.seek(0)
    held.truncate()
    held.write(content[0])
    held.seek(content[1])


def _write_number(held: Any, content: Any) -> None:
    held.value = content


def _write_shared_array(held: Any, content: bytes) -> None:
    memoryview(held.get_obj()).cast("B")[:] = content


def _write_variable(held: Any, content: Any) -> None:
    held.set(content)


def _read_variable(held: Any) -> Any:
    value = held.get()
    if not isinstance(value, (bool, int, float, str, bytes, type(None))):
        raise ValueError
    return value


_BUFFER = _Way(lambda held: (held.getvalue(), held.tell()), _write_buffer)
_NUMBER = _Way(lambda held: held.value, _write_number)
_WAYS: Dict[type, _Way] = {
    array.array: _Way(lambda held: held.tobytes(), _write_array),
    io.StringIO: _BUFFER,
    io.BytesIO: _BUFFER,
    contextvars.ContextVar: _Way(_read_variable, _write_variable),
    **dict.fromkeys(NUMBERS, _NUMBER),
}


def _way_of(value: Any) -> Optional[_Way]:
    kind = type(value)
    if kind.__module__ == SHARED:
        if kind.__name__ == "Synchronized":
            return _NUMBER if type(value.get_obj()) in NUMBERS else None
        return _Way(lambda held: bytes(held.get_obj()), _write_shared_array) if kind.__name__ == "SynchronizedArray" else None
    return _WAYS.get(kind)
