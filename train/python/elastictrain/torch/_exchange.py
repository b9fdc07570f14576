"""Values of the program's own among all workers. In a step a loss repeats them like a gradient; what a worker that is lost
meanwhile had is left out.
"""

import ctypes
import io
from typing import Any, Callable, Dict, List, Optional

import torch

from ..session import OPERATIONS, Session

PRESENT = 1  # the first byte of each part; those of a lost worker are zeros
LENGTH_BYTES = 8
_save = torch.save  # not one that a script replaces
Gather = Callable[[bytes], List[bytes]]


def gather(session: Session, part: Optional[bytes]) -> List[bytes]:
    """The parts of all workers, by rank, without those of workers that have None."""
    own = b"" if part is None else bytes([PRESENT]) + len(part).to_bytes(LENGTH_BYTES, "little") + part
    sizes = session.all_gather(bytearray(len(own).to_bytes(LENGTH_BYTES, "little")))
    room = max(1, *(int.from_bytes(sizes[i:i + LENGTH_BYTES], "little") for i in range(0, len(sizes), LENGTH_BYTES)))
    gathered = session.all_gather((ctypes.c_char * room).from_buffer_copy(own.ljust(room, b"\0")))
    rows = [gathered[begin:begin + room] for begin in range(0, len(gathered), room)]
    return [_content(row) for row in rows if row[:1] == bytes([PRESENT])]


def _content(row: bytes) -> bytes:
    begin = 1 + LENGTH_BYTES
    return row[begin:begin + int.from_bytes(row[1:begin], "little")]


def gather_objects(gather: Gather, value: Any) -> List[Any]:
    """As torch saves them; tensors and what pickle takes."""
    file = io.BytesIO()
    _save(value, file)
    return [torch.load(io.BytesIO(part), weights_only=False) for part in gather(file.getvalue())]


def gather_tensors(gather: Gather, tensor: torch.Tensor) -> List[torch.Tensor]:
    """Tensors of one type, on the CPU; their first dimensions may differ."""
    own = tensor.detach().cpu().contiguous()
    raw = bytes(own.reshape(-1).view(torch.uint8).tolist()) if own.numel() else b""
    shape = (-1, *own.shape[1:]) if own.dim() else ()
    empty = own[:0] if own.dim() else own
    return [torch.frombuffer(bytearray(part), dtype=own.dtype).reshape(shape) if part else empty.clone()
            for part in gather(raw)]


def reduce(session: Session, tensor: torch.Tensor, operation: str) -> None:
    """In place, by "sum", "mean", "max", "min" or "product"."""
    if operation == "mean":
        reduce_gathered(lambda part: gather(session, part), tensor, operation)
    elif operation in OPERATIONS:
        values = tensor.detach().cpu().clone().contiguous()
        session.reduce_values(values, operation)
        with torch.no_grad():
            tensor.copy_(values)
    else:
        raise ValueError(f"values can be reduced by mean, {', '.join(OPERATIONS)}, not by {operation!r}")


def reduce_gathered(gather: Gather, tensor: torch.Tensor, operation: str) -> None:
    """The same over the parts that a gather returns, in one order on all workers."""
    parts = torch.stack(gather_tensors(gather, tensor))
    with torch.no_grad():
        tensor.copy_(_COMBINED[operation](parts))


_COMBINED: Dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sum": lambda parts: parts.sum(0), "mean": lambda parts: parts.mean(0), "max": lambda parts: parts.amax(0),
    "min": lambda parts: parts.amin(0), "product": lambda parts: parts.prod(0)}
