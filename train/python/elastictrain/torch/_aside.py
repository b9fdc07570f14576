"""Values that a script exchanges behind the update of a step: its losses, a score, a barrier.

A step whose update was made must not be repeated, so it is committed first, and the exchange belongs to the next step. A
worker that joins at this very boundary runs no such code: it takes part without a value until the others train again.
Its early value tells it so, and where in the epoch the others are. Where nobody can have joined, the exchange is that of
any other place.
"""

from typing import List

import torch

from . import _exchange
from ..session import Session

EARLY = "aside"
_END, _VALUE = b"E", b"V"


class Aside:
    """Thread: the training thread. `rank` and `world_size` are those among the workers that run the code."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._plane = _exchange.Plane(session)
        self.is_open = False
        self._is_shared = False  # with workers that have just joined
        self.rank, self.world_size = 0, 1
        session.share_early(EARLY, b"0 0")

    def announce(self, steps: int, follows: bool) -> None:
        """In the open step, before it is committed: the steps of its epoch so far, and whether such an exchange follows."""
        self._session.share_early(EARLY, b"%d %d" % (follows, steps))

    @property
    def is_announced(self) -> bool:
        """That such exchanges may follow in the open step; the same on all workers."""
        return bool(self._session.early(EARLY).startswith(b"1"))

    def announced_steps(self) -> int:
        """What a worker finds that just joined."""
        return int(self._session.early(EARLY).split()[1])

    def open(self, may_be_joined: bool = True) -> None:
        """`may_be_joined`: the membership changed at the boundary; equal on all workers."""
        self.is_open, self._is_shared = True, may_be_joined
        self.rank, self.world_size = int(self._session.rank), int(self._session.world_size)
        if may_be_joined:
            members = sorted(int(part) for part in _exchange.gather(self._session, str(self.rank).encode()))
            self.rank, self.world_size = members.index(self.rank), len(members)

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            if self._is_shared:
                _exchange.gather(self._session, _END)

    def follow(self) -> None:
        """A worker that joined meanwhile."""
        if not self.is_announced:
            return
        while _END not in _exchange.gather(self._session, None):
            pass

    # --- As a plane

    def gather_bytes(self, part: bytes) -> List[bytes]:
        """The parts of all workers that run the code, by rank."""
        if not self._is_shared:
            return self._plane.gather_bytes(part)
        return [value[1:] for value in _exchange.gather(self._session, _VALUE + part)]

    def gather(self, tensor: torch.Tensor) -> _exchange.Rows:
        if not self._is_shared:
            return self._plane.gather(tensor)
        rows: _exchange.Rows = [None] * self.world_size
        for part in self.gather_bytes(b"%d " % self.rank + _exchange.bytes_of(tensor)):
            rank, _, content = part.partition(b" ")
            values = torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else torch.empty(0, dtype=torch.uint8)
            rows[int(rank)] = values.view(tensor.dtype).reshape(tensor.shape)
        return rows

    def reduce(self, tensor: torch.Tensor, operation: str) -> None:
        if not self._is_shared:
            return self._plane.reduce(tensor, operation)
        tensor.copy_(_exchange.fold([part for part in self.gather(tensor) if part is not None], operation))

    def broadcast(self, tensor: torch.Tensor, root: int) -> None:
        if not self._is_shared:
            return self._plane.broadcast(tensor, root)
        rows = self.gather(tensor)
        held = rows[root] if rows[root] is not None else next(part for part in rows if part is not None)
        tensor.copy_(held)

    def barrier(self) -> None:
        self._plane.barrier() if not self._is_shared else self.gather_bytes(b"")
