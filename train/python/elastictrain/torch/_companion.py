"""What travels with the gradients, behind the last bucket of each step. In host memory: which parameters have a gradient, whether
the worker made a pass, some elements and sums of parameters that are compared, and the small values as one float for each byte. In
that of the model's device: the buffers that the forward pass wrote. Nothing here waits for a device.
"""

from typing import List, Optional

import torch

from ._buffers import Buffers
from ._gradients import Gradients, submit
from ._host_floats import BESIDE, HostFloats
from ._likeness import Likeness
from ._state import SharedState
from ..errors import SessionError, Unequal
from ..session import Session


class Companion:
    """Thread: the training thread; the gradients' first one may arrive on another. Ownership: the run; the memory of the sums
    lives as long."""

    def __init__(self, session: Session, gradients: Gradients, buffers: Buffers, state: SharedState, likeness: Likeness,
                 device: torch.device) -> None:
        self._session, self._gradients, self._buffers, self._state = session, gradients, buffers, state
        self._likeness = likeness
        sizes = (gradients.count + 1, likeness.count, state.floats)
        if device.type == "cpu":  # one sum for all
            whole = torch.zeros(sum(sizes) + buffers.count())
            lane, written = whole.split((sum(sizes), buffers.count()))
            self._sums = [whole]
        else:
            lane, written = torch.zeros(sum(sizes)), torch.zeros(buffers.count(), device=device)
            self._sums = [written, lane] if len(written) else [lane]
        self._used, self._alike, self._small = (HostFloats(part, BESIDE) for part in lane.split(sizes))
        buffers.use(written)
        self._sent: Optional[bytes] = None
        self._is_alone = False  # its own small values count, and are compared with nobody's
        self._step, self._is_first = 0, True
        gradients.at_first = self._read_elements
        self.is_given_up = False  # the others finish the step without this worker
        self.trained = 1.0  # of the step's samples, the share with which a pass was made

    def open(self, step: int) -> None:
        """The step of this number begins."""
        self._step, self._is_first = step, True
        self._buffers.open()
        self._likeness.forget()

    def _read_elements(self) -> None:
        """While the device computes the pass, so that they are there at its end. A worker alone has nobody to be like, and its
        host does not wait for the device."""
        if self._session.world_size > 1:
            self._likeness.read(self._step)

    def send(self, counts: bool, has_state: bool = False, trains: bool = True) -> None:
        """`counts`: this worker has samples in the step. `has_state`: it had the run's state when the step began. `trains`: it
        made a pass."""
        if not self._is_first:
            self._buffers.again()
        self._is_first = False
        self._buffers.check_constant()
        self._buffers.put()
        self._used.write([*self._gradients.used, float(trains)])
        self._is_alone = counts and self._session.world_size == 1
        if self._is_alone:
            self._likeness.compare_nothing()
        else:
            self._alike.write(self._likeness.values(self._step, has_state))
            text = self._state.put_into(self._small)
            self._sent = text if counts else None
        for values in self._sums:
            submit(self._session, values)

    def take(self) -> Optional[List[float]]:
        """After the sums: writes buffers and small values. Returns for each parameter whether a worker used it; None for a
        step that is given up."""
        self.is_given_up = not self._is_alone and not self._state.take_from(self._small, self._sent)
        if self.is_given_up:
            return None
        self._likeness.check(self._alike.read())
        self._buffers.take()
        *used, self.trained = self._used.read()
        return used

    def take_equal(self) -> Optional[List[float]]:
        """As take(). Where workers differ the newest go, and the values are taken of the sums that the others have repeated."""
        while True:
            try:
                return self.take()
            except Unequal as error:
                self._disagree(error)

    def _disagree(self, error: Unequal) -> None:
        try:
            self._session.disagree(str(error).partition(";")[0])
        except SessionError:  # nobody is newer than the others
            raise error from None
