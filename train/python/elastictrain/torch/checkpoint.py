"""Checkpoints of a run for other programs.

    torch.distributed.checkpoint.load({"model": model.state_dict()},
                                      storage_reader=elastictrain.torch.checkpoint.Reader("step-400.gen-2.safetensors"))

reads one as torch.distributed.checkpoint reads its own, with a model that is whole or divided in any way. Where no program of
this package is at hand,

    python3 -m elastictrain.torch.checkpoint step-400.gen-2.safetensors DIRECTORY

writes it anew: torch.distributed.checkpoint.load({"model": model.state_dict()}, checkpoint_id=DIRECTORY).
"""

import json
import math
import os
import sys
import warnings
import zlib
from typing import Any, Dict, List, NamedTuple, Tuple

import torch

from ..errors import ElasticError

PARTS = "elastictrain/parts"  # a value of the manifest: how tensors are divided among the processes of a replica
_TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
          "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool}


class Division(NamedTuple):
    """Of a tensor of this shape: over the processes of a mesh, by index in its order; along `dim` over one dimension of the
    mesh, and equal along the others."""
    shape: List[int]
    mesh: List[int]
    axis: int  # of the mesh; -1: every process holds the whole
    dim: int

    def holders(self) -> List[int]:
        """The processes whose parts together are the tensor, in the order of the parts."""
        if self.axis < 0:
            return [0]
        step = math.prod(self.mesh[self.axis + 1:])
        return [step * place for place in range(self.mesh[self.axis])]


def encode_parts(tensors: Dict[str, Any]) -> bytes:
    """Of DTensors, by name; empty where there is none."""
    divisions = {name: _division_of(name, tensor) for name, tensor in tensors.items()}
    return zlib.compress(json.dumps(divisions).encode()) if divisions else b""


def _division_of(name: str, tensor: Any) -> Division:
    axes = [(axis, placement.dim) for axis, placement in enumerate(tensor.placements) if placement.is_shard()]
    if len(axes) > 1 or any(placement.is_partial() for placement in tensor.placements):
        raise ElasticError(f"'{name}' is divided in a way that checkpoints do not have: {tensor.placements}")
    axis, dim = axes[0] if axes else (-1, 0)
    return Division(list(tensor.shape), list(tensor.device_mesh.shape), axis, dim)


class Stored(NamedTuple):
    """A tensor, or one process's part of it, in a file."""
    dtype: torch.dtype
    shape: List[int]
    offset: int  # in the file
    bytes: int


class File:
    """A checkpoint's safetensors file, and the manifest beside it. Raises ElasticError for a file of another kind, and OSError."""

    def __init__(self, path: str) -> None:
        self.path = path
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            text = file.read(size) if size < 1 << 30 else b""
            length = os.fstat(file.fileno()).st_size
        try:
            self._stored = {name: _stored(about, 8 + size) for name, about in json.loads(text).items() if name != "__metadata__"}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ElasticError(f"{path} is no safetensors file ({error})") from None
        if any(one.offset + one.bytes > length for one in self._stored.values()):
            raise ElasticError(f"{path} is no safetensors file (it is shorter than its header says)")
        self._divisions = self._read_divisions()

    def names(self) -> List[str]:
        """Of whole tensors. Of what each process of a replica has for itself, such as small values, the first one's."""
        own = [name for name in self._stored if not _is_part(name)]
        first = [_short(name) for name in self._stored if name.startswith("shard0/")]
        return list(dict.fromkeys([*own, *first, *self._divisions]))

    def shape_of(self, name: str) -> List[int]:
        return self._divisions[name].shape if name in self._divisions else self._parts(name)[0][1].shape

    def dtype_of(self, name: str) -> torch.dtype:
        return self._parts(name)[0][1].dtype

    def pieces(self, name: str) -> List[Tuple[List[int], List[int]]]:
        """(offsets, shape) of each part, which read() takes by its number."""
        return [(offsets, stored.shape) for offsets, stored in self._parts(name)]

    def read(self, name: str, number: int) -> torch.Tensor:
        stored = self._parts(name)[number][1]
        if not stored.bytes:
            return torch.empty(stored.shape, dtype=stored.dtype)
        with open(self.path, "rb") as file:
            file.seek(stored.offset)
            content = bytearray(file.read(stored.bytes))
        return torch.frombuffer(content, dtype=stored.dtype).reshape(stored.shape)

    def whole(self, name: str) -> torch.Tensor:
        parts = [self.read(name, number) for number in range(len(self._parts(name)))]
        return parts[0] if len(parts) == 1 else torch.cat(parts, self._divisions[name].dim)

    def _parts(self, name: str) -> List[Tuple[List[int], Stored]]:
        division = self._divisions.get(name)
        if division is None:
            stored = self._stored[name] if name in self._stored else self._stored[f"shard0/{name}"]
            return [([0] * len(stored.shape), stored)]
        parts, begin = [], 0
        for holder in division.holders():
            stored = self._stored.get(f"shard{holder}/{name}") or self._stored.get(name if holder == 0 else "")
            if stored is not None:  # a process whose part is empty has none
                parts.append(([begin if dim == division.dim else 0 for dim in range(len(stored.shape))], stored))
                begin += stored.shape[division.dim] if stored.shape else 0
        if not parts or division.axis >= 0 and begin != division.shape[division.dim]:
            raise ElasticError(f"{self.path} has not all parts of '{name}'")
        return parts

    def _read_divisions(self) -> Dict[str, Division]:
        if not any(map(_is_part, self._stored)):
            return {}
        manifest = f"{os.path.splitext(self.path)[0]}.json"
        try:
            with open(manifest) as file:
                early = dict(json.load(file)["early"])
            text = zlib.decompress(bytes.fromhex(early[f"shard0/{PARTS}"]))
            return {name: Division(*division) for name, division in json.loads(text).items()}
        except (OSError, ValueError, KeyError, TypeError, zlib.error) as error:
            raise ElasticError(f"{self.path} has parts of several processes, and {manifest}, which says how they belong together, "
                               f"cannot be read ({type(error).__name__}: {error})") from None


def load(path: str) -> Dict[str, torch.Tensor]:
    """All tensors of a checkpoint's safetensors file, by name: the model's under their own names, "optimizer/…", "state/…" and
    "first/…". Those that the processes of a replica hold together are whole. Raises as File does."""
    file = File(path)
    return {name: file.whole(name) for name in file.names()}


def model_of(tensors: Dict[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
    """Those of the model, for its load_state_dict()."""
    return {name: tensor for name, tensor in tensors.items() if is_of_model(name)}


def convert(path: str, directory: str) -> None:
    """Writes a checkpoint of torch.distributed.checkpoint: "model", and "others" with the names of load()."""
    import torch.distributed.checkpoint

    tensors = load(path)
    model = model_of(tensors)
    others = {name: tensor for name, tensor in tensors.items() if name not in model}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that this is one process
        torch.distributed.checkpoint.save({"model": model, "others": others}, checkpoint_id=directory)


def __getattr__(name: str) -> Any:
    """torch.distributed.checkpoint takes long to import, and programs that train need none of it."""
    if name == "Reader":
        from ._checkpoint_reader import Reader
        return Reader
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _is_part(name: str) -> bool:
    head, slash, _ = name.partition("/")
    return bool(slash) and head.startswith("shard") and head[5:].isdigit()


def _short(name: str) -> str:
    return name.partition("/")[2]


def is_of_model(name: str) -> bool:
    """Whether a tensor of this name is the model's."""
    return "/" not in name and name != "python"


def _stored(about: Dict[str, Any], begin: int) -> Stored:
    first, last = about["data_offsets"]
    return Stored(_TYPES[about["dtype"]], list(about["shape"]), begin + first, last - first)


def main(words: List[str]) -> None:
    """The command line: FILE DIRECTORY."""
    if len(words) != 2:
        raise SystemExit("usage: python3 -m elastictrain.torch.checkpoint FILE.safetensors DIRECTORY")
    try:
        convert(*words)
    except (ElasticError, OSError) as error:
        raise SystemExit(f"elastictrain.torch.checkpoint: {error}") from None


if __name__ == "__main__":
    main(sys.argv[1:])
