"""Values of the program's own among all workers. In a step a loss repeats them like a gradient; what a worker that is lost
meanwhile had is left out.
"""

import ctypes
import io
from typing import Any, List

import torch

from ..session import OPERATIONS, Session

PRESENT = 1  # the first byte of each part; those of a lost worker are zeros
LENGTH_BYTES = 8


def gather(session: Session, part: bytes) -> List[bytes]:
    """The parts of all workers, by rank."""
    sizes = session.all_gather(bytearray((1 + len(part)).to_bytes(LENGTH_BYTES, "little")))
    counts = [int.from_bytes(sizes[i:i + LENGTH_BYTES], "little") for i in range(0, len(sizes), LENGTH_BYTES)]
    padded = (ctypes.c_char * max(counts)).from_buffer_copy((bytes([PRESENT]) + part).ljust(max(counts), b"\0"))
    gathered = session.all_gather(padded)
    rows = [gathered[rank * max(counts):][:count] for rank, count in enumerate(counts)]
    return [row[1:] for row in rows if row[:1] == bytes([PRESENT])]


def gather_objects(session: Session, value: Any) -> List[Any]:
    """As torch saves them; tensors and what pickle takes."""
    file = io.BytesIO()
    torch.save(value, file)
    return [torch.load(io.BytesIO(part), weights_only=False) for part in gather(session, file.getvalue())]


def gather_tensors(session: Session, tensor: torch.Tensor) -> List[torch.Tensor]:
    """Tensors of one shape and type, on the CPU."""
    own = tensor.detach().cpu().contiguous()
    raw = bytes(own.reshape(-1).view(torch.uint8).tolist()) if own.numel() else b""
    parts = gather(session, raw)
    return [torch.frombuffer(bytearray(part), dtype=own.dtype).reshape(own.shape) if part else own.clone() for part in parts]


def reduce(session: Session, tensor: torch.Tensor, operation: str) -> None:
    """In place, by "sum", "mean", "max", "min" or "product"."""
    if operation == "mean":
        values = torch.stack(gather_tensors(session, tensor)).mean(0)
    elif operation in OPERATIONS:
        values = tensor.detach().cpu().clone().contiguous()
        session.reduce_values(values, operation)
    else:
        raise ValueError(f"values can be reduced by mean, {', '.join(OPERATIONS)}, not by {operation!r}")
    with torch.no_grad():
        tensor.copy_(values)
