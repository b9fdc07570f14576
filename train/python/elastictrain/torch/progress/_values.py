"""Small values: what they are, and digests that tell whether two are equal."""

import ctypes
import datetime
import decimal
import enum
import fractions
import hashlib
import itertools
import pathlib
import sys
import time
import uuid
from typing import Any, List, NamedTuple, Optional, Tuple

import torch

DIGEST_BYTES = 8
ABSENT = bytes(DIGEST_BYTES)  # the digest of what is not there
MAX_ELEMENTS = 10000  # of a container that is looked into as a whole
MAX_DEPTH = 8
WHOLE_TENSOR = 4096  # elements that are compared one by one; of larger tensors as many are
SAMPLES = 65536
MAX_FUNCTIONS = 100
SIMPLE = (int, float, bool, str, bytes, type(None), complex)
ATOMS = (*SIMPLE, torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format, enum.Enum, datetime.date,
         datetime.time, datetime.timedelta, datetime.tzinfo, pathlib.PurePath, range, slice, type(Ellipsis), fractions.Fraction,
         decimal.Decimal, uuid.UUID)
_simple_kinds = frozenset(SIMPLE)


def numpy() -> Any:
    """The module if the script has imported it."""
    return sys.modules.get("numpy")


def is_array(value: Any) -> bool:
    return numpy() is not None and isinstance(value, numpy().ndarray)


def is_atom(value: Any) -> bool:
    """A value that cannot change, and holds none that can."""
    return isinstance(value, ATOMS) or numpy() is not None and isinstance(value, (numpy().generic, numpy().dtype))


def local(tensor: Any) -> Any:
    """The part of a DTensor that this process holds; anything else itself."""
    return getattr(tensor, "_local_tensor", tensor) if isinstance(tensor, torch.Tensor) else tensor


def digest_of(value: Any) -> Optional[bytes]:
    """None for what is not of small values alone."""
    hashed = hashlib.blake2b(digest_size=DIGEST_BYTES)
    return hashed.digest() if _feed(hashed, value, MAX_DEPTH) else None


def digest_of_text(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()


def _feed(hashed: Any, value: Any, depth: int) -> bool:
    kind = type(value)
    if kind in _simple_kinds or is_atom(value):
        hashed.update(f"{kind.__qualname__}:{value!r};".encode("utf-8", "backslashreplace"))
        return True
    if isinstance(value, torch.Tensor) or is_array(value):
        return _feed_numbers(hashed, value)
    if depth == 0 or not isinstance(value, (list, tuple, set, frozenset, dict)) and kind.__name__ != "deque":
        return False
    if len(value) > MAX_ELEMENTS:
        return False
    hashed.update(f"{kind.__qualname__}{len(value)}:".encode())
    if isinstance(value, dict):
        return all(_feed(hashed, key, depth - 1) and _feed(hashed, item, depth - 1) for key, item in value.items())
    if isinstance(value, (set, frozenset)):
        digests = [digest_of(item) for item in value]
        hashed.update(b"".join(sorted(digest for digest in digests if digest is not None)))
        return None not in digests
    if all(type(item) in _simple_kinds for item in value):
        hashed.update(repr(list(value)).encode("utf-8", "backslashreplace"))
        return True
    return all(_feed(hashed, item, depth - 1) for item in value)


def _feed_numbers(hashed: Any, value: Any) -> bool:
    if isinstance(value, torch.nn.Parameter):
        return False
    value = local(value)
    if isinstance(value, torch.Tensor):
        if type(value) is not torch.Tensor or value.layout is not torch.strided or value.numel() > WHOLE_TENSOR:
            return False
        hashed.update(f"tensor:{value.dtype}{tuple(value.shape)}".encode() + bytes_of(value))
        return True
    if value.size > WHOLE_TENSOR or value.dtype.hasobject:
        return False
    hashed.update(f"array:{value.dtype}{value.shape}".encode() + value.tobytes())
    return True


def bytes_of(tensor: torch.Tensor) -> bytes:
    held = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    return ctypes.string_at(held.data_ptr(), held.numel() * held.element_size()) if held.numel() else b""


def tensor_from(data: bytes, dtype: str, shape: Tuple[int, ...], device: str, needs_gradient: bool) -> torch.Tensor:
    made = torch.empty(shape, dtype=getattr(torch, dtype))
    if data:
        ctypes.memmove(made.data_ptr(), data, len(data))
    return made.to(device).requires_grad_(needs_gradient)


def fingerprint_of(tensors: List[torch.Tensor]) -> bytes:
    """Of large tensors: of a part of their elements."""
    hashed = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for tensor in map(local, tensors):
        hashed.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        if tensor.layout is torch.strided and tensor.device.type != "meta" and tensor.numel():
            flat = tensor.detach().reshape(-1) if tensor.is_contiguous() else tensor.detach().flatten()[:SAMPLES]
            hashed.update(bytes_of(flat[::max(1, flat.numel() // SAMPLES)]))
    return hashed.digest()


def has_open_graph(tensor: torch.Tensor) -> bool:
    """Whether a backward pass from it is still possible: a copy could not take its place."""
    todo: List[Any] = [tensor.grad_fn] if tensor.grad_fn is not None else []
    for function in itertools.islice(todo, MAX_FUNCTIONS):  # grows while it is read
        for name in dir(function):
            if name.startswith("_saved_"):
                try:
                    if isinstance(getattr(function, name), torch.Tensor):
                        return True
                except RuntimeError:  # its saved tensors are freed
                    return False
        todo += [below for below, _ in function.next_functions if below is not None]
    return False


# --- Clocks

class Clock(NamedTuple):
    """A number that was read from a clock of another process."""
    name: str
    age_s: float

    def here(self) -> float:
        return float(_CLOCKS[self.name]()) - self.age_s


_CLOCKS = {"time": time.time, "perf_counter": time.perf_counter, "monotonic": time.monotonic}
_STARTS = {name: clock() for name, clock in _CLOCKS.items()}


def clock_of(value: Any) -> Optional[Clock]:
    """What clock a number was read from since this module was imported. The clocks count whole nanoseconds, which other
    numbers of that size hardly ever are."""
    if type(value) is not float or not 1 < value < 1e11 or value == int(value):
        return None
    for name, clock in _CLOCKS.items():
        if _STARTS[name] - 60 <= value <= clock() and (name == "time" or round(value * 1e9) / 1e9 == value):
            return Clock(name, clock() - value)
    return None
