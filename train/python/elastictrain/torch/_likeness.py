"""Whether the state is equal on all workers: each step compares one element of some tensors, all of them in turn.

Workers that apply the same update to the same values stay equal. A program that writes a parameter on one worker only, or
with numbers of its own, would train a mixture: new workers receive parts of the state from several others.
"""

from typing import List, Optional, Sequence, Tuple

import torch

from ._host_floats import HostFloats
from ..errors import Unequal

PER_STEP = 4
STRIDE = 7919  # between the elements of a parameter that are compared; prime
TOLERANCE = 1e-3  # of the value: processors of different kinds round differently
SMALLEST = 1e-6


class Likeness:
    """`named`: parameters and other tensors, which keep their memory. Thread: that of the backward pass."""

    def __init__(self, named: Sequence[Tuple[str, torch.Tensor]]) -> None:
        self._named = [(name, _flat(tensor)) for name, tensor in named if tensor.numel() and tensor.is_floating_point()]
        self.count = min(PER_STEP, len(self._named))
        self._copies = [Copies(device, self.count) for device in dict.fromkeys(tensor.device for _, tensor in self._named)]
        self._compared: List[str] = []
        self._from: List[int] = []  # which of the copies has each of them
        self._mine: Optional[List[float]] = None

    def forget(self) -> None:
        """A new step, whose elements have not been read."""
        self._compared = []

    def read(self, step: int) -> None:
        """Begins to copy the elements whose turn it is in this step into host memory."""
        chosen = [self._named[(step * self.count + i) % len(self._named)] for i in range(self.count)]
        devices = [copies.device for copies in self._copies]
        self._compared = [name for name, _ in chosen]
        self._from = [devices.index(elements.device) for _, elements in chosen]
        places = [step * STRIDE % len(elements) for _, elements in chosen]
        parts = [elements[place:place + 1] for (_, elements), place in zip(chosen, places)]
        for number, copies in enumerate(self._copies):
            copies.begin([part for part, own in zip(parts, self._from) if own == number])

    def values(self, step: int, has_state: bool) -> List[float]:
        """Those elements. `has_state`: this worker had the run's state when the step began."""
        if not self._compared and self.count:
            self.read(step)
        rest = [iter(copies.values()) for copies in self._copies]
        found = [next(rest[number]) for number in self._from]
        self._mine = found if has_state else None
        return found

    def compare_nothing(self) -> None:
        """In this step: there is no other worker."""
        self._mine = None

    def check(self, mean: Sequence[float]) -> None:
        """Of the workers with samples. Raises Unequal that names a tensor whose value here is another one."""
        if self._mine is None:
            return
        for name, mine, all_of_them in zip(self._compared, self._mine, mean):
            both_no_number = mine != mine and all_of_them != all_of_them
            if not both_no_number and not abs(mine - all_of_them) <= TOLERANCE * abs(all_of_them) + SMALLEST:
                if mine == all_of_them:  # both infinite
                    continue
                raise Unequal(f"'{name}' is not equal on all workers: an element is {mine:.6g} here and "
                                   f"{all_of_them:.6g} in the mean. Only an update with averaged gradients, made alike on all "
                                   "workers, may change parameters and what belongs to the update")


class Copies:
    """Of at most `most` elements of one device, in host memory: one copy, for which nothing waits until the values are asked
    for."""

    def __init__(self, device: torch.device, most: int) -> None:
        self.device, self._count = device, 0
        on_host = torch.zeros(most, pin_memory=device.type == "cuda")
        self._floats = HostFloats(on_host)
        there = on_host if device.type == "cpu" else torch.zeros(most, device=device)
        self._views = [(there[:count], on_host[:count]) for count in range(most + 1)]
        self._there: Optional[torch.cuda.Event] = torch.cuda.Event() if device.type == "cuda" else None

    def begin(self, elements: List[torch.Tensor]) -> None:
        self._count = len(elements)
        if not elements:
            return
        there, on_host = self._views[self._count]
        torch.cat(elements, out=there)
        if self._there is not None:
            on_host.copy_(there, non_blocking=True)
            self._there.record(torch.cuda.current_stream(self.device))

    def values(self) -> List[float]:
        if self._count and self._there is not None:
            self._there.synchronize()
        return self._floats.read(0, self._count)


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """Its elements as they lie in memory, which is contiguous in some order of dimensions."""
    return tensor.detach().as_strided((tensor.numel(),), (1,))
