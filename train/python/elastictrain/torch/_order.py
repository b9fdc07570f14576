"""The order in which gradients arrive, as the first worker saw it in the first step. It becomes a part of the run's early values
with that step, so that a worker which joins has it before its first step: the layout of buckets follows from it on all workers.
"""

import ctypes
from typing import List, Optional

from ..session import Session

NAME = "elastictrain/order"
UNKNOWN = b"?"


class Order:
    """Of `count` parameters, by number. Thread: the training thread; arrivals on that of the backward pass."""

    def __init__(self, session: Session, count: int) -> None:
        self._session, self._count = session, count
        self.is_known = False
        self._seen: List[int] = []
        session.share_early(NAME, UNKNOWN)

    def begin(self) -> Optional[List[int]]:
        """When a step begins: the order, once, when it has become known."""
        if self.is_known:
            return None
        self._seen = []
        value = self._session.early(NAME)
        if value == UNKNOWN:
            return None
        self.is_known = True
        order = list((ctypes.c_uint32 * (len(value) // 4)).from_buffer_copy(value))
        # A checkpoint may be of another model.
        return order if sorted(order) == list(range(self._count)) else None

    def arrived(self, number: int) -> None:
        """While the order is not known."""
        self._seen.append(number)

    def settle(self) -> None:
        """After the sums of a step, each time if it has several: the first worker's order counts from the next step on.
        Strategies that let workers differ exchange nothing here."""
        if self.is_known or self._session.synchronization != "s-sgd":
            return
        missing = set(range(self._count)) - set(self._seen)
        order = (ctypes.c_uint32 * self._count)(*self._seen, *sorted(missing))
        self._seen = []
        self._session.broadcast(order)
        self._session.share_early(NAME, bytes(order))
