"""Buffers of the model that are each worker's own. Checkpoints have them, rank by rank."""

from typing import List, Sequence, Tuple

import torch

from ._buffers import Buffer
from ..session import Session


class LocalState:
    """Registers a copy of each with the session, which must not have started: a program may replace a buffer. Thread: the
    training thread."""

    def __init__(self, session: Session, buffers: Sequence[Buffer]) -> None:
        self._pairs: List[Tuple[Buffer, torch.Tensor]] = [(buffer, buffer.live.detach().cpu().clone().contiguous())
                                                          for buffer in buffers]
        for buffer, copy in self._pairs:
            session.share_local_state(f"local/{buffer.name}", copy)

    def put(self) -> None:
        """The present values, before the session starts and before a step begins or the data have ended."""
        for buffer, copy in self._pairs:
            if buffer.live.shape == copy.shape:
                copy.copy_(buffer.live.detach())

    def adopt(self) -> None:
        """Those of a checkpoint, when the session has started."""
        for buffer, copy in self._pairs:
            buffer.live.copy_(copy)
