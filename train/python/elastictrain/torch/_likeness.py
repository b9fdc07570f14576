"""Whether the state is equal on all workers: each step compares one element of some tensors, and the sums of a part of one, all of
them in turn.

Workers that apply the same update to the same values stay equal. A program that writes a parameter on one worker only, or
with numbers of its own, would train a mixture: new workers receive parts of the state from several others.
"""

from typing import Any, List, Optional, Sequence, Tuple

import torch

from . import _devices
from ._host_floats import HostFloats
from ..errors import Unequal

PER_STEP = 4
PART = 2 ** 20  # elements: a step's own cost does not grow with the model, and sums of float32 are exact enough
STRIDE = 7919  # between the elements of a parameter that are compared; prime
TOLERANCE = 1e-3  # of the value: processors of different kinds round differently
SMALLEST = 1e-6


class Likeness:
    """`named`: parameters and other tensors, which keep their memory. Thread: that of the backward pass."""

    def __init__(self, named: Sequence[Tuple[str, torch.Tensor]]) -> None:
        self._named = [(name, flat(tensor)) for name, tensor in named if tensor.numel() and tensor.is_floating_point()]
        self._parts = [(name, part) for name, elements in self._named for part in elements.split(PART)]
        self._elements = min(PER_STEP, len(self._named))
        self.count = self._elements + min(1, self._elements)
        devices = dict.fromkeys(tensor.device for _, tensor in self._named)
        self._copies = [Copies(device, self._elements + 2) for device in devices]
        self._compared: List[str] = []
        self._from: List[int] = []  # which of the copies has each of them
        self._norm = 0.0  # of the part whose sums are compared
        self._mine: Optional[List[float]] = None

    def forget(self) -> None:
        """A new step, whose elements have not been read."""
        self._compared = []

    def read(self, step: int) -> None:
        """Begins to copy what is compared in this step into host memory."""
        chosen = [self._named[(step * self._elements + i) % len(self._named)] for i in range(self._elements)]
        summed = self._parts[step % len(self._parts)]
        devices = [copies.device for copies in self._copies]
        self._compared = [name for name, _ in (*chosen, summed)]
        self._from = [devices.index(elements.device) for _, elements in (*chosen, summed, summed)]
        places = [step * STRIDE % len(elements) for _, elements in chosen]
        parts = [elements[place:place + 1] for (_, elements), place in zip(chosen, places)]
        parts += sums(summed[1])
        for number, copies in enumerate(self._copies):
            copies.begin([part for part, own in zip(parts, self._from) if own == number])

    def values(self, step: int, has_state: bool) -> List[float]:
        """What is compared. `has_state`: this worker had the run's state when the step began."""
        if not self._compared and self.count:
            self.read(step)
        rest = [iter(copies.values()) for copies in self._copies]
        found = [next(rest[number]) for number in self._from]
        self._norm = found.pop() if found else 0.0
        self._mine = found if has_state else None
        return found

    def compare_nothing(self) -> None:
        """In this step: there is no other worker."""
        self._mine = None

    def check(self, mean: Sequence[float]) -> None:
        """Of the workers with samples. Raises Unequal that names a tensor whose value here is another one."""
        if self._mine is None:
            return
        for number, (name, mine, all_of_them) in enumerate(zip(self._compared, self._mine, mean)):
            is_element = number < self._elements
            both_no_number = mine != mine and all_of_them != all_of_them
            size = abs(all_of_them) if is_element else self._norm
            if both_no_number or mine == all_of_them or abs(mine - all_of_them) <= TOLERANCE * size + SMALLEST:
                continue
            what = "an element" if is_element else "the sum of one half of a part less that of the other"
            raise Unequal(f"'{name}' is not equal on all workers: {what} is {mine:.6g} here and "
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
        self._there: Any = None  # the mark behind the copy

    def begin(self, elements: List[torch.Tensor]) -> None:
        self._count = len(elements)
        if not elements:
            return
        there, on_host = self._views[self._count]
        torch.cat(elements, out=there)
        if self.device.type != "cpu":
            on_host.copy_(there, non_blocking=True)
            self._there = _devices.mark(self.device)

    def values(self) -> List[float]:
        if self._count and self._there is not None:
            self._there.synchronize()
        return self._floats.read(0, self._count)


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """Its elements as they lie in memory, which is contiguous in some order of dimensions."""
    return tensor.detach().as_strided((tensor.numel(),), (1,))


def sums(elements: torch.Tensor) -> List[torch.Tensor]:
    """The sum of one half less that of the other, and the norm. Where a share of the elements differs by their own size, the first
    differs by the root of that share of the second."""
    half = len(elements) // 2
    first, second = (torch.sum(part, dtype=torch.float32) for part in (elements[:half], elements[half:]))
    return [(first - second).view(1), torch.linalg.vector_norm(elements, dtype=torch.float32).view(1)]
