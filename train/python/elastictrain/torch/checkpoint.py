"""Checkpoints of a run for other programs.

    python3 -m elastictrain.torch.checkpoint step-400.gen-2.safetensors DIRECTORY

writes the file's tensors for torch.distributed.checkpoint:

    torch.distributed.checkpoint.load({"model": model.state_dict()}, checkpoint_id=DIRECTORY)
"""

import json
import sys
import warnings
from typing import Any, Dict, List

import torch
import torch.distributed.checkpoint

from ..errors import ElasticError

_TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
          "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool}


def load(path: str) -> Dict[str, torch.Tensor]:
    """All tensors of a checkpoint's safetensors file, by name: the model's under their own names, "optimizer/…", "state/…" and
    "first/…". Raises ElasticError for a file of another kind, and OSError."""
    with open(path, "rb") as file:
        head = file.read(8)
        size = int.from_bytes(head, "little")
        text = file.read(size) if size < 1 << 30 else b""
        content = bytearray(file.read())
    try:
        tensors = json.loads(text)
        return {name: _tensor(content, about) for name, about in tensors.items() if name != "__metadata__"}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ElasticError(f"{path} is no safetensors file ({error})") from None


def model_of(tensors: Dict[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
    """Those of the model, for its load_state_dict()."""
    return {name: tensor for name, tensor in tensors.items() if "/" not in name and name != "python"}


def convert(path: str, directory: str) -> None:
    """Writes a checkpoint of torch.distributed.checkpoint: "model", and "others" with the names of load()."""
    tensors = load(path)
    model = model_of(tensors)
    others = {name: tensor for name, tensor in tensors.items() if name not in model}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that this is one process
        torch.distributed.checkpoint.save({"model": model, "others": others}, checkpoint_id=directory)


def _tensor(content: bytearray, about: Dict[str, Any]) -> torch.Tensor:
    dtype, shape = _TYPES[about["dtype"]], about["shape"]
    begin, end = about["data_offsets"]
    if begin == end:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(content, dtype=dtype, count=(end - begin) // dtype.itemsize, offset=begin).reshape(shape)


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
