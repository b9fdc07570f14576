"""Small state that is no tensor: learning rates, schedulers, scalers. It is encoded into bytes that are equal on all
workers if the values are, and that fit into a fixed size.
"""

import base64
import collections.abc
import json
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Tuple

import torch

LARGEST_TENSOR_BYTES = 4096
Source = Tuple[Callable[[], Any], Callable[[Any], None]]  # reads the present value; replaces it


class Fixed(NamedTuple):
    """In place of a value that is compared, and not made anew from small state."""
    text: str


class PythonState:
    """Named sources of small values. Thread: the training thread."""

    def __init__(self) -> None:
        self._sources: Dict[str, Source] = {}

    def add(self, name: str, source: Source) -> None:
        self._sources[name] = source

    def add_object(self, name: str, value: Any) -> None:
        """An object with state_dict() and load_state_dict(), or a dictionary of small values."""
        if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
            self.add(name, (value.state_dict, value.load_state_dict))
        elif isinstance(value, dict):
            self.add(name, (lambda: value, lambda new: _replace(value, new)))
        else:
            raise TypeError(f"state '{name}' is a {type(value).__name__}. Possible are a tensor, a module, a dictionary of "
                            "small values, or an object with state_dict() and load_state_dict()")

    def encode(self, names: Optional[Sequence[str]] = None) -> bytes:
        """Of all sources or of some. Raises TypeError that names the source whose value cannot be encoded."""
        parts = {}
        for name in self._sources if names is None else names:
            try:
                parts[name] = _encoded(self._sources[name][0]())
            except TypeError as error:
                raise TypeError(f"state '{name}': {error}") from None
        return json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()

    def decode(self, text: bytes, leave: Sequence[str] = ()) -> None:
        """Gives every source its value, but for some."""
        values = json.loads(text)
        for name, (_, write) in self._sources.items():
            if name not in leave:
                write(_decoded(values[name]))

    def decode_one(self, name: str, text: bytes) -> None:
        """Gives one source its value."""
        self._sources[name][1](_decoded(json.loads(text)[name]))


def _replace(held: Dict[Any, Any], new: Dict[Any, Any]) -> None:
    held.clear()
    held.update(new)


def _encoded(value: Any) -> Any:
    """In values of JSON; what JSON lacks is {"!": type, "v": value}."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, torch.Tensor):
        return _encoded_tensor(value)
    if isinstance(value, Fixed):
        return {"!": "fixed", "v": value.text}
    if isinstance(value, collections.abc.Mapping):
        kind = "counter" if isinstance(value, collections.Counter) else "dict"
        return {"!": kind, "v": sorted(([_encoded(key), _encoded(item)] for key, item in value.items()), key=repr)}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [_encoded(item) for item in value]
        if isinstance(value, list):
            return items
        return {"!": "tuple", "v": items} if isinstance(value, tuple) else {"!": "set", "v": sorted(items, key=repr)}
    if type(value).__module__ == "numpy" and hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return _encoded(value.item())
    if isinstance(value, collections.abc.Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        return [_encoded(item) for item in value]  # such as that of a file of settings
    raise TypeError(f"a {type(value).__module__}.{type(value).__name__} is not part of small state")


def is_other(value: Any, read: Any) -> bool:
    """Whether a value is another one than what was read of small state."""
    try:
        return bool(_encoded(value) != _encoded(read))
    except TypeError:
        return True


def _encoded_tensor(tensor: torch.Tensor) -> Any:
    size = tensor.numel() * tensor.element_size()
    if size > LARGEST_TENSOR_BYTES:
        raise TypeError(f"a tensor of {size} bytes is too large here; pass the tensor or the module itself in state=")
    raw = bytes(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).tolist()) if size else b""
    return {"!": "tensor", "v": [str(tensor.dtype)[6:], list(tensor.shape), base64.b64encode(raw).decode()]}


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind, held = value["!"], value["v"]
    if kind == "tensor":
        dtype, shape, raw = held
        data = bytearray(base64.b64decode(raw))
        return torch.frombuffer(data, dtype=getattr(torch, dtype)).clone().reshape(shape) if data else torch.empty(shape)
    if kind == "fixed":
        return Fixed(held)
    if kind in ("dict", "counter"):
        made = {_decoded(key): _decoded(item) for key, item in held}
        return collections.Counter(made) if kind == "counter" else made
    return (tuple if kind == "tuple" else set)(_decoded(held))
