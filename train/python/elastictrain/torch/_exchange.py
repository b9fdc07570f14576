"""Values of the program's own among all workers. In a step a loss repeats them like a gradient; what a worker that is lost
meanwhile had is left out.
"""

import ctypes
import io
from typing import Any, Callable, Dict, List, Optional, Sequence, Set

import torch

from ..errors import ElasticError
from ..session import OPERATIONS, TYPES, Session

PRESENT = 1  # the first byte of each part; those of a lost worker are zeros
LENGTH_BYTES = 8
_save = torch.save  # not one that a script replaces
Gather = Callable[[bytes], List[bytes]]
Rows = List[Optional[torch.Tensor]]  # by rank; None: what a worker had that is lost


def gather(session: Session, part: Optional[bytes]) -> List[bytes]:
    """The parts of all workers, by rank, without those of workers that have None."""
    own = b"" if part is None else bytes([PRESENT]) + len(part).to_bytes(LENGTH_BYTES, "little") + part
    room = max(1, *gather_numbers(session, len(own)))
    gathered = session.all_gather((ctypes.c_char * room).from_buffer_copy(own.ljust(room, b"\0")))
    rows = [memoryview(gathered)[begin:begin + room] for begin in range(0, len(gathered), room)]
    return [_content(row) for row in rows if row[0] == PRESENT]


def gather_numbers(session: Session, number: int) -> List[int]:
    """Of all workers, by rank; behind them 0 for each that is lost meanwhile."""
    numbers = session.all_gather(bytearray(number.to_bytes(LENGTH_BYTES, "little")))
    return [int.from_bytes(numbers[i:i + LENGTH_BYTES], "little") for i in range(0, len(numbers), LENGTH_BYTES)]


def _content(row: memoryview) -> bytes:
    begin = 1 + LENGTH_BYTES
    return bytes(row[begin:begin + int.from_bytes(row[1:begin], "little")])


def gather_objects(gather: Gather, value: Any) -> List[Any]:
    """As torch saves them; tensors and what pickle takes."""
    file = io.BytesIO()
    _save(value, file)
    return [torch.load(io.BytesIO(part), weights_only=False) for part in gather(file.getvalue())]


def bytes_of(tensor: torch.Tensor) -> bytes:
    """Of a contiguous tensor on the CPU."""
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size()) if tensor.numel() else b""


def gather_tensors(gather: Gather, tensor: torch.Tensor) -> List[torch.Tensor]:
    """Tensors of one type, on the CPU; their first dimensions may differ."""
    own = tensor.detach().cpu().contiguous()
    shape = (-1, *own.shape[1:]) if own.dim() else ()
    empty = own[:0] if own.dim() else own
    return [torch.frombuffer(bytearray(part), dtype=own.dtype).reshape(shape) if part else empty.clone()
            for part in gather(bytes_of(own))]


def reduce(session: Session, tensor: torch.Tensor, operation: str) -> None:
    """In place, by "sum", "mean", "max", "min" or "product"."""
    if operation not in ("mean", *OPERATIONS):
        raise ValueError(f"values can be reduced by mean, {', '.join(OPERATIONS)}, not by {operation!r}")
    values = tensor.detach().cpu().clone().contiguous()
    Plane(session).reduce(values, operation)
    with torch.no_grad():
        tensor.copy_(values)


def fold(parts: Sequence[torch.Tensor], operation: str) -> torch.Tensor:
    """Values of all workers in one order, so that all have the same bits."""
    stacked = torch.stack(list(parts))
    if operation == "mean" and not (stacked.is_floating_point() or stacked.is_complex()):
        return torch.div(stacked.sum(0), len(parts), rounding_mode="trunc").to(stacked.dtype)
    if operation in _BITWISE:
        result = stacked[0].clone()
        for part in stacked[1:]:
            result = _BITWISE[operation](result, part)
        return result
    return _FOLDED[operation](stacked).to(stacked.dtype)


_BITWISE: Dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "and": torch.bitwise_and, "or": torch.bitwise_or, "xor": torch.bitwise_xor}
_FOLDED: Dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sum": lambda parts: parts.sum(0), "mean": lambda parts: parts.mean(0), "max": lambda parts: parts.amax(0),
    "min": lambda parts: parts.amin(0), "product": lambda parts: parts.prod(0)}


class Plane:
    """The workers of a session, each of which passes a value of the same size: contiguous tensors on the CPU, which are read
    before a call returns. Thread: the training thread.

    From the first exchange of a pass to its end ranks and their number stay, although a worker may be lost: what a script gathers in
    one pass (features, then those of the texts; labels) has as many rows each time. `on_filled(rank)`: other values are in the place
    of those of this worker, which is lost."""

    def __init__(self, session: Session, on_filled: Callable[[int], None] = lambda rank: None) -> None:
        self._session, self._on_filled = session, on_filled
        self._rooms = Rooms(session)
        self._step: Optional[int] = None  # of the pass
        self._place = 0, 1  # in it
        self.silent: Set[int] = set()  # those whose values do not count in it
        self._given: Set[int] = set()  # whose values were in what was gathered in it
        self._filled: Set[int] = set()

    rank = property(lambda self: self._place[0] if self.is_in_pass else int(self._session.rank))
    world_size = property(lambda self: self._place[1] if self.is_in_pass else int(self._session.world_size))
    is_in_pass = property(lambda self: self._step is not None)

    def enter(self, step: Optional[int]) -> None:
        """What follows belongs to the pass of this step, or to none."""
        if step == self._step:
            return
        self._step, self.silent, self._given, self._filled = step, set(), set(), set()
        self._place = int(self._session.rank), int(self._session.world_size)

    def filled(self, rows: Rows) -> Rows:
        """In a pass, the values of another worker for one that is lost, if it had a part in what was gathered before. (Zeros could
        not be divided by.)"""
        if not self.is_in_pass:
            return rows
        lost = {rank for rank, row in enumerate(rows) if row is None and rank in self._given - self.silent}
        for rank in sorted(lost - self._filled):
            self._on_filled(rank)
        self._filled |= lost
        self._given.update(rank for rank, row in enumerate(rows) if row is not None)
        instead = next((row for row in rows if row is not None), None)
        return [instead.clone() if rank in lost and instead is not None else row for rank, row in enumerate(rows)]

    def gather(self, tensor: torch.Tensor) -> Rows:
        size, own, world_size = tensor.numel() * tensor.element_size(), self.rank, self.world_size
        if size == 0:
            return [tensor.clone() for _ in range(world_size)]
        gathered = self._rooms.take(int(self._session.world_size) * size)
        self._session.all_gather_into(gathered, tensor)
        rows: Rows = [None] * world_size
        for place, rank in enumerate(self._present(own)):
            rows[rank] = gathered[place * size:(place + 1) * size].view(tensor.dtype).reshape(tensor.shape)
        return rows

    def _present(self, own: int) -> List[int]:
        """The ranks whose blocks are in what was gathered just before, in their order, as they were before that: a loss repeats both,
        and gives others."""
        return [number - 1 for number in gather_numbers(self._session, own + 1) if number]

    def gather_bytes(self, part: bytes) -> List[bytes]:
        """Parts of any size, by rank, without those of lost workers."""
        return gather(self._session, part)

    def reduce(self, tensor: torch.Tensor, operation: str) -> None:
        if operation in _BITWISE:
            tensor.copy_(fold([part for part in self.gather(tensor) if part is not None], operation))
            return
        values = self._room_like(_reducible(tensor))
        values.copy_(tensor)
        self._session.reduce_values(values, "sum" if operation == "mean" else operation)
        if operation == "mean":
            values = _divided(values, self._count())
        tensor.copy_(values)

    def _count(self) -> int:
        """The workers that are in the sum before."""
        one = self._room_like(torch.ones(1, dtype=torch.int64))
        one.fill_(1)
        self._session.reduce_values(one, "sum")
        return int(one)

    def broadcast(self, tensor: torch.Tensor, root: int) -> None:
        if self.world_size != int(self._session.world_size):  # since the pass began
            rows = self.gather(tensor)
            tensor.copy_(rows[root] if rows[root] is not None else next(row for row in rows if row is not None))
            return
        values = self._room_like(tensor)
        self._session.broadcast_into(values, tensor, root)
        if self.rank != root:
            tensor.copy_(values)

    def barrier(self) -> None:
        self._session.barrier()

    def _room_like(self, tensor: torch.Tensor) -> torch.Tensor:
        room = self._rooms.take(tensor.numel() * tensor.element_size())
        return room.view(tensor.dtype).reshape(tensor.shape)


def _reducible(tensor: torch.Tensor) -> torch.Tensor:
    """Of the type in which the session sums it."""
    name = str(tensor.dtype).replace("torch.", "")
    if name in TYPES:
        return tensor
    if name in _WIDER:
        return tensor.to(_WIDER[name])
    raise ElasticError(f"values of {tensor.dtype} cannot be reduced over the workers; possible are "
                       f"{', '.join([*TYPES, *_WIDER])}")


_WIDER = {"int8": torch.int32, "int16": torch.int32}


def _divided(total: torch.Tensor, count: int) -> torch.Tensor:
    return total.div_(count) if total.is_floating_point() else torch.div(total, count, rounding_mode="trunc")


class Rooms:
    """Memory for values that a loss may write again until their step is committed. Then it is used for the next ones: fresh
    pages cost more than the values themselves."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._step = -1
        self._free: List[torch.Tensor] = []
        self._used: List[torch.Tensor] = []

    def take(self, size: int) -> torch.Tensor:
        step = int(self._session.committed_step)
        if step != self._step:
            self._step, self._free, self._used = step, self._used, []
        fitting = [room for room in self._free if size <= room.numel() <= 2 * size]
        room = min(fitting, key=torch.numel) if fitting else torch.empty(size, dtype=torch.uint8)
        self._free = [other for other in self._free if other is not room]
        self._used.append(room)
        return room[:size]


class Alone:
    """A worker whose own values count for all."""

    def __init__(self, rank: int, world_size: int) -> None:
        self.rank, self.world_size = rank, world_size

    def gather(self, tensor: torch.Tensor) -> Rows:
        return [tensor.clone() for _ in range(self.world_size)]

    def gather_bytes(self, part: bytes) -> List[bytes]:
        return [part] * self.world_size

    def reduce(self, tensor: torch.Tensor, operation: str) -> None:
        """Its own value remains."""

    def broadcast(self, tensor: torch.Tensor, root: int) -> None:
        """The same."""

    def barrier(self) -> None:
        """Nobody to wait for."""
