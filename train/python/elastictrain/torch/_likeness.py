"""Whether the state is equal on all workers: each step compares one element of some tensors, all of them in turn.

Workers that apply the same update to the same values stay equal. A program that writes a parameter on one worker only, or
with numbers of its own, would train a mixture: new workers receive parts of the state from several others.
"""

from typing import List, Optional, Sequence, Tuple

import torch

PER_STEP = 4
STRIDE = 7919  # between the elements of a parameter that are compared; prime
TOLERANCE = 1e-3  # of the value: processors of different kinds round differently
SMALLEST = 1e-6


class Likeness:
    """`named`: parameters and other tensors, which keep their memory. Thread: that of the backward pass."""

    def __init__(self, named: Sequence[Tuple[str, torch.Tensor]]) -> None:
        self._named = [(name, _flat(tensor)) for name, tensor in named if tensor.numel() and tensor.is_floating_point()]
        self.count = min(PER_STEP, len(self._named))
        self._compared: List[str] = []
        self._mine: Optional[torch.Tensor] = None

    def put_into(self, values: torch.Tensor, step: int, has_state: bool) -> None:
        """The elements whose turn it is in this step. `has_state`: this worker had the run's state when the step began."""
        chosen = [self._named[(step * self.count + i) % len(self._named)] for i in range(self.count)]
        self._compared = [name for name, _ in chosen]
        for i, (_, elements) in enumerate(chosen):
            values[i].copy_(elements[step * STRIDE % len(elements)])
        self._mine = values.clone() if has_state else None

    def check(self, mean: torch.Tensor) -> None:
        """Of the workers with samples. Raises RuntimeError that names a tensor whose value here is another one."""
        if self._mine is None:
            return
        for name, mine, all_of_them in zip(self._compared, self._mine.tolist(), mean.tolist()):
            both_no_number = mine != mine and all_of_them != all_of_them
            if not both_no_number and not abs(mine - all_of_them) <= TOLERANCE * abs(all_of_them) + SMALLEST:
                if mine == all_of_them:  # both infinite
                    continue
                raise RuntimeError(f"'{name}' is not equal on all workers: an element is {mine:.6g} here and "
                                   f"{all_of_them:.6g} in the mean. Only an update with averaged gradients, made alike on all "
                                   "workers, may change parameters and what belongs to the update")


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """Its elements as they lie in memory, which is contiguous in some order of dimensions."""
    return tensor.detach().as_strided((tensor.numel(),), (1,))
