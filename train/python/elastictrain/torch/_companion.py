"""What travels with the gradients, as the last bucket of each step: which parameters have one, the buffers that the forward
pass wrote, some elements of parameters that are compared, and the small values as one float for each byte.
"""

from typing import Optional, Tuple

import torch

from ._buffers import Buffers
from ._gradients import Gradients, submit
from ._likeness import Likeness
from ._state import LENGTH_BYTES, State
from ..session import Session


class Companion:
    """Thread: that of the backward pass. Ownership: the run; the bucket's memory lives as long."""

    def __init__(self, session: Session, gradients: Gradients, buffers: Buffers, state: State, likeness: Likeness,
                 device: torch.device) -> None:
        self._session, self._gradients, self._buffers, self._state = session, gradients, buffers, state
        self._likeness = likeness
        self._sizes = (len(gradients.used), buffers.count(), likeness.count, LENGTH_BYTES + state.capacity)
        self._values = torch.zeros(sum(self._sizes), device=device)
        self._sent: Optional[bytes] = None
        self.is_given_up = False  # the others finish the step without this worker

    def send(self, counts: bool, step: int = 0, has_state: bool = False) -> None:
        """`counts`: this worker has samples in the step. `has_state`: it had the run's state when the step began."""
        used, buffers, alike, small = self._parts()
        used.copy_(self._gradients.used)
        self._buffers.check_constant()
        self._buffers.put_into(buffers)
        self._likeness.put_into(alike, step, has_state)
        text = self._state.put_into(small)
        self._sent = text if counts else None
        submit(self._session, self._values)

    def take(self) -> Optional[torch.Tensor]:
        """After the sums: writes buffers and small values. Returns for each parameter whether a worker used it; None for a
        step that is given up."""
        used, buffers, alike, small = self._parts()
        self.is_given_up = not self._state.take_from(small, self._sent)
        if self.is_given_up:
            return None
        self._likeness.check(alike)
        self._buffers.take_from(buffers)
        return used

    def _parts(self) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        used, buffers, alike, small = self._values.split(self._sizes)
        return used, buffers, alike, small
