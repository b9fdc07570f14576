"""State that the first worker alone keeps: an average of the weights, a best score, a history. In every so many steps its values
travel to all workers, so that the next first worker goes on with them.
"""

from typing import Any, Dict, List, Tuple

from ._python_state import PythonState
from ._state import Addresses, Packed, Reader, tensors_of
from ..session import Session

CAPACITY_BYTES = 16384  # of small values; more if they begin with more than half of it


class FirstState:
    """Registers everything with the session, which must not have started. Thread: the training thread.

    Small values are read when a step begins, tensors at its first sum."""

    def __init__(self, session: Session, objects: Dict[str, Any], every_steps: int) -> None:
        if every_steps < 1:
            raise ValueError(f"first_every is a number of steps from 1 on, not {every_steps}")
        self._session = session
        self._python = PythonState()
        self._tensors: List[Tuple[str, Reader]] = []
        self._has_small = False
        for name, value in sorted(objects.items()):
            self._add(name, value)
        for name, read in self._tensors:
            session.share_first_tensor(name, read().detach(), every_steps)
        self._addresses = Addresses(self._tensors)
        self._is_own = False  # the open step sends what this worker put
        self._known = text = self._python.encode()
        self._packed = Packed(max(CAPACITY_BYTES, 2 * len(text)))
        if self._has_small:
            self._packed.write(text)
            session.share_first_tensor("first/python", self._packed.bytes, every_steps)

    def put(self) -> None:
        """The first worker's present values, when a step begins."""
        self._addresses.check(whole=False)
        self._is_own = self._session.rank == 0
        if not self._is_own or not self._has_small:
            return
        text = self._python.encode()
        if len(text) > self._packed.capacity:
            raise RuntimeError(f"the small state of the first worker has grown to {len(text)} bytes; there is room for "
                               f"{self._packed.capacity}. Keep what grows in a tensor or a file")
        self._known = text
        self._packed.write(text)

    def adopt(self) -> None:
        """Gives the program's objects what the shared memory holds, unless it is what this worker put there itself."""
        if not self._has_small:
            return
        text = self._packed.read()
        if text is not None and (text != self._known or not self._is_own):
            self._python.decode(text)
            self._known = text

    def _add(self, name: str, value: Any) -> None:
        tensors = tensors_of(f"first/{name}", value)
        if tensors is None:
            self._python.add_object(name, value)
            self._has_small = True
        else:
            self._tensors += tensors
