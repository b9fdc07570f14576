"""How the values of a record travel: things of the first step as their paths, tensors as their numbers, the rest by pickle."""

import hashlib
import io
import pickle
import struct
import weakref
import zlib
from typing import Any, Callable, Dict, Optional, Tuple

import torch

from . import _pools, _values

MAGIC = b"ETPR"
PLAIN, VERSION = 1, 2  # as earlier versions wrote it; compressed
LEVEL = 1
MAX_BYTES = 4 << 20
PROTOCOL = 4
_header = struct.Struct("<4sHQ16s")


class RecordError(Exception):
    """A record that cannot be read."""


class Pickler(pickle.Pickler):
    """`path_of`: of a thing that the reader has, too; None for others."""

    def __init__(self, file: Any, path_of: Callable[[Any], Any]) -> None:
        super().__init__(file, PROTOCOL)
        self._path_of = path_of

    def persistent_id(self, value: Any) -> Any:
        return self._path_of(value)

    def reducer_override(self, value: Any) -> Any:
        if _values.local(value) is not value:
            return _part_from, (_values.local(value).detach(), value.placements, value.shape, value.stride(),
                                _name_of(value.device_mesh))
        if type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout is torch.strided and not value.is_quantized:
            is_parameter = type(value) is torch.nn.Parameter
            arguments = (_values.bytes_of(value), str(value.dtype)[6:], tuple(value.shape), value.device.type,
                         value.requires_grad and value.is_leaf)
            return (_parameter_from if is_parameter else _values.tensor_from), arguments
        if type(value) is weakref.ReferenceType and value() is None:
            return _reference_to_nothing, ()
        if type(value) is weakref.ReferenceType and self._path_of(value()) is not None:
            return weakref.ref, (value(),)
        return _pools.reduced(value) or NotImplemented


def _parameter_from(*arguments: Any) -> torch.Tensor:
    made = _values.tensor_from(*arguments)
    return torch.nn.Parameter(made.detach(), made.requires_grad)


_meshes: Dict[Tuple[Any, ...], Any] = {}  # of the model's own DTensors, as on all workers


def know_mesh(mesh: Any) -> None:
    """And those of each of its dimensions."""
    for name in mesh.mesh_dim_names or () if mesh.ndim > 1 else ():
        know_mesh(mesh[name])
    _meshes.setdefault(_name_of(mesh), mesh)


def _name_of(mesh: Any) -> Tuple[Any, ...]:
    """Equal in processes of the same place, and in each."""
    return mesh.mesh_dim_names, tuple(mesh.shape), tuple(mesh.mesh.flatten().tolist())


def _part_from(part: torch.Tensor, placements: Any, shape: Any, stride: Any, mesh: Tuple[Any, ...]) -> Any:
    from torch.distributed.tensor import DTensor
    if mesh not in _meshes:
        raise RecordError(f"a DTensor over a mesh of {'x'.join(map(str, mesh[1]))} processes, which the model's parameters have not")
    return DTensor.from_local(part, _meshes[mesh], placements, run_check=False, shape=shape, stride=stride)


class _Gone:
    """What a weak reference referred to."""


def _reference_to_nothing() -> Any:
    return weakref.ref(_Gone())


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, thing_at: Callable[[Any], Any]) -> None:
        super().__init__(file)
        self._thing_at = thing_at

    def persistent_load(self, path: Any) -> Any:
        return self._thing_at(path)


def pickled(value: Any, path_of: Callable[[Any], Any]) -> bytes:
    file = io.BytesIO()
    Pickler(file, path_of).dump(value)
    return file.getvalue()


def unpickled(data: bytes, thing_at: Callable[[Any], Any]) -> Any:
    try:
        return _Unpickler(io.BytesIO(data), thing_at).load()
    except Exception as error:  # pickle raises anything
        raise RecordError(f"{type(error).__name__}: {error}") from error


def sealed(content: Any, limit: Optional[int] = MAX_BYTES) -> bytes:
    """A record's bytes. Raises RecordError where they are more than the limit."""
    data = zlib.compress(pickle.dumps(content, PROTOCOL), LEVEL)
    if limit is not None and len(data) > limit:
        raise RecordError(f"the progress of this script takes {len(data) >> 10} KiB; at most {limit >> 10} KiB can be handed "
                          "over")
    return _header.pack(MAGIC, VERSION, len(data), hashlib.blake2b(data, digest_size=16).digest()) + data


def opened(record: bytes) -> Any:
    """Raises RecordError for what is no record, another version's, or damaged."""
    if len(record) < _header.size:
        raise RecordError(f"it has {len(record)} bytes")
    magic, version, size, digest = _header.unpack(record[:_header.size])
    data = record[_header.size:]
    if magic != MAGIC or version not in (PLAIN, VERSION):
        raise RecordError(f"it is not of version {VERSION}")
    if len(data) != size or hashlib.blake2b(data, digest_size=16).digest() != digest:
        raise RecordError("it is damaged")
    try:
        return pickle.loads(zlib.decompress(data) if version == VERSION else data)
    except Exception as error:
        raise RecordError(f"{type(error).__name__}: {error}") from error
