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
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import torch

from ..errors import ElasticError

PARTS = "elastictrain/parts"  # a value of the manifest: how tensors are divided among the processes of a replica
_TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
          "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool}


class Part(NamedTuple):
    """Of a tensor: a box in it, which one process holds."""
    whole: List[int]  # the tensor's shape
    begin: List[int]
    shape: List[int]


def encode_parts(tensors: Dict[str, Any]) -> bytes:
    """Where the parts of DTensors that this process holds lie, by name; empty where there is none."""
    parts = {name: part_of(name, tensor) for name, tensor in tensors.items()}
    return zlib.compress(json.dumps(parts).encode()) if parts else b""


def part_of(name: str, tensor: Any) -> Part:
    """Raises ElasticError for a tensor that is divided otherwise than in boxes."""
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
    shape, begin = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    if list(shape) != list(tensor._local_tensor.shape) or not all(_is_box(tensor, dim) for dim in range(len(tensor.placements))):
        raise ElasticError(f"'{name}' is divided in a way that checkpoints do not have: {tensor.placements}")
    return Part(list(tensor.shape), list(begin), list(shape))


def _is_box(tensor: Any, dim: int) -> bool:
    """Along this dimension of the mesh. What is divided in strides is a box where later dimensions divide it first, into as many."""
    placement = tensor.placements[dim]
    later = [size for other, size in zip(tensor.placements[dim + 1:], tensor.device_mesh.shape[dim + 1:])
             if not placement.is_replicate() and getattr(other, "dim", None) == getattr(placement, "dim", None)]
    return not placement.is_partial() and getattr(placement, "split_factor", 1) in (1, math.prod(later))


def covers(whole: List[int], parts: Sequence[Part]) -> bool:
    """Whether each element is in one of them; equal ones are copies."""
    boxes = [(begin, shape) for begin, shape in {(tuple(part.begin), tuple(part.shape)) for part in parts} if math.prod(shape)]
    apart = all(any(one[0][dim] + one[1][dim] <= other[0][dim] or other[0][dim] + other[1][dim] <= one[0][dim] for dim in range(len(whole)))
                for number, one in enumerate(boxes) for other in boxes[:number])
    return apart and sum(math.prod(shape) for _, shape in boxes) == math.prod(whole)


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
        if "://" in path:
            raise ElasticError(f"{path} is in an object store, and this reads files: copy it and its manifest (the same name with "
                               ".json) into a directory, as by `aws s3 cp`")
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            text = file.read(size) if size < 1 << 30 else b""
            length = os.fstat(file.fileno()).st_size
        try:
            self._stored = stored_in(text, 8 + size)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ElasticError(f"{path} is no safetensors file ({error})") from None
        if any(one.offset + one.bytes > length for one in self._stored.values()):
            raise ElasticError(f"{path} is no safetensors file (it is shorter than its header says)")
        self._divided = self._read_parts()

    def names(self) -> List[str]:
        """Of whole tensors. Of what each process of a replica has for itself, such as small values, the first one's."""
        own = [name for name in self._stored if not _is_part(name)]
        first = [_short(name) for name in self._stored if name.startswith("shard0/")]
        return list(dict.fromkeys([*own, *first, *self._divided]))

    def is_divided(self, name: str) -> bool:
        return name in self._divided

    def shape_of(self, name: str) -> List[int]:
        return self._divided[name][0].whole if name in self._divided else self._parts(name)[0][1].shape

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
        parts = self._parts(name)
        if len(parts) == 1:
            return self.read(name, 0)
        found = torch.empty(self.shape_of(name), dtype=self.dtype_of(name))
        for number, (begin, stored) in enumerate(parts):
            found[tuple(slice(first, first + size) for first, size in zip(begin, stored.shape))] = self.read(name, number)
        return found

    def _parts(self, name: str) -> List[Tuple[List[int], Stored]]:
        if name not in self._divided:
            stored = self._stored[name] if name in self._stored else self._stored[f"shard0/{name}"]
            return [([0] * len(stored.shape), stored)]
        parts: Dict[Tuple[int, ...], Stored] = {}
        for holder, part in self._divided[name].items():
            found = self._stored.get(f"shard{holder}/{name}") or self._stored.get(name if holder == 0 else "")
            if found is not None and found.shape == part.shape:  # a process whose part is empty has none
                parts.setdefault(tuple(part.begin), found)
        whole = self.shape_of(name)
        if not parts or not covers(whole, [Part(whole, list(begin), stored.shape) for begin, stored in parts.items()]):
            raise ElasticError(f"{self.path} has not all parts of '{name}'")
        return [(list(begin), parts[begin]) for begin in sorted(parts)]

    def _read_parts(self) -> Dict[str, Dict[int, Part]]:
        """Of the tensors that several processes hold together: by the process, from 0 on."""
        if not any(map(_is_part, self._stored)):
            return {}
        manifest = f"{os.path.splitext(self.path)[0]}.json"
        try:
            with open(manifest) as file:
                return parts_in({name: bytes.fromhex(value) for name, value in json.load(file)["early"]})
        except (OSError, ValueError, KeyError, TypeError, zlib.error) as error:
            raise ElasticError(f"{self.path} has parts of several processes, and {manifest}, which says how they belong together, "
                               f"cannot be read ({type(error).__name__}: {error})") from None


def stored_in(header: bytes, begin: int) -> Dict[str, Stored]:
    """The tensors of a safetensors file, by the JSON of its header. `begin`: of their bytes."""
    return {name: _stored(about, begin) for name, about in json.loads(header).items() if name != "__metadata__"}


def parts_in(early: Dict[str, bytes]) -> Dict[str, Dict[int, Part]]:
    """Of the tensors that several processes hold together: by the process, from 0 on. `early`: values of the manifest."""
    found: Dict[str, Dict[int, Part]] = {}
    texts = [early[f"shard{holder}/{PARTS}"] for holder in range(len(early)) if f"shard{holder}/{PARTS}" in early]
    for holder, text in enumerate(texts):
        for name, part in decode_parts(text).items():
            found.setdefault(name, {})[holder] = part
    return found


def decode_parts(text: bytes) -> Dict[str, Part]:
    return {name: Part(*part) for name, part in json.loads(zlib.decompress(text)).items()}


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
