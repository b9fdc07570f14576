"""Values that a script exchanges behind the update of a step: its losses, a score, a barrier.

A step whose update was made must not be repeated, so it is committed first, and the exchange belongs to the next step. A
worker that joins at this very boundary runs no such code: it takes part without a value until the others train again.
Its early value tells it so, and where in the epoch the others are.
"""

from typing import List

from . import _exchange
from ..session import Session

EARLY = "aside"
_END, _VALUE = b"E", b"V"


class Aside:
    """Thread: the training thread. `rank` and `world_size` are those among the workers that run the code."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.is_open = False
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

    def open(self) -> None:
        own = int(self._session.rank)
        members = sorted(int(part) for part in _exchange.gather(self._session, str(own).encode()))
        self.rank, self.world_size, self.is_open = members.index(own), len(members), True

    def gather(self, part: bytes) -> List[bytes]:
        """The parts of all workers that run the code, by rank."""
        return [value[1:] for value in _exchange.gather(self._session, _VALUE + part)]

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            _exchange.gather(self._session, _END)

    def follow(self) -> None:
        """A worker that joined meanwhile."""
        if not self.is_announced:
            return
        while _END not in _exchange.gather(self._session, None):
            pass
