"""The session of a process of a replica that is on another host than the first one, which cannot map its memory: it sums its gradients
itself when that one says so, and state is copied where it asks for it.
"""

import ctypes
import threading
from typing import Any, Dict, List, Optional, Tuple

from ._planes import Gradient, PlaneServer, memory_of
from ._replica import Replica
from ._replica_session import Follower
from .session import Batch


class RemoteFollower(Follower):
    _is_shared = False

    def __init__(self, replica: Replica) -> None:
        assert replica.sums is not None
        self._sums: PlaneServer = replica.sums
        self._is_refreshed = False  # in the open step
        self._written: List[Tuple[bool, Any]] = []  # whether the first worker's values count, and the tensor
        self._refreshed: Dict[int, bytes] = {}
        super().__init__(replica)
        self._callbacks["written"] = self._take_written
        self._sums.open()

    def _map(self, storage: Any, number: int) -> None:
        self._channel.send(("mirror", number, len(storage)))

    # --- State

    def share_tensor(self, name: str, tensor: Any) -> None:
        self._send("share_tensor", name, self._add_to_devices(name, tensor))

    def _begin_device_state(self) -> Any:
        from .torch._device_state import DeviceState
        state = DeviceState(is_shared=False)
        self._server = threading.Thread(target=state.serve_remote, args=(self._copies,), daemon=True)
        self._server.start()
        return state

    def share_first_tensor(self, name: str, value: Any, every_steps: int = 1) -> None:
        super().share_first_tensor(name, value, every_steps)
        self._add_written(True, value)

    def share_local_state(self, name: str, value: Any) -> None:
        super().share_local_state(name, value)
        self._add_written(False, value)

    def _add_written(self, is_first: bool, value: Any) -> None:
        self._written.append((is_first, value))
        self._refresh(len(self._written) - 1)

    def _refresh(self, *numbers: int) -> None:
        """Tells the first process the values of these."""
        values = {}
        for number in numbers:
            memory = memory_of(self._written[number][1])
            if memory is not None and memory != self._refreshed.get(number):
                values[number] = self._refreshed[number] = bytes(memory)
        if values:
            self._send("written", values)

    def _take_written(self, values: Dict[int, bytes]) -> None:
        for number, value in values.items():
            ctypes.memmove(self._written[number][1].data_ptr(), value, len(value))
            self._refreshed[number] = value

    # --- Steps

    def _hand_over(self, gradients: List[Any]) -> None:
        if not self._is_refreshed:  # these are state as of the first sum of a step
            self._is_refreshed = True
            self._refresh(*(number for number, (is_first, _) in enumerate(self._written) if not is_first or self.rank == 0))
        for values in gradients:
            self._send("all_reduce_async", Gradient(self._sums.add(values), values.numel() * values.element_size()))

    def wait_all_reduce(self) -> None:
        super().wait_all_reduce()
        self._is_refreshed = False

    def next_batch(self) -> Optional[Batch]:
        self._sums.begin_step()  # until now a loss may make those of the step before again
        return super().next_batch()
