"""Floats in host memory, as a tensor that is summed and as an array that is read and written without an operator of torch: one
that reads a tensor would wait for a device if the tensor were there.
"""

import ctypes
from typing import Any, List, Sequence

import torch


# What travels beside the gradients is as much smaller in the sums, so that the norms of a step, and the noise scale that policies
# read, are those of its gradients. A power of two: nothing is rounded.
BESIDE = 2.0 ** -30


class HostFloats:
    """Ownership: keeps the tensor, which is contiguous, of float32 and in host memory. It holds the values times `scale`."""

    def __init__(self, tensor: torch.Tensor, scale: float = 1.0) -> None:
        self.tensor, self._scale = tensor, scale
        self._array: Any = (ctypes.c_float * tensor.numel()).from_address(tensor.data_ptr())

    def __len__(self) -> int:
        return len(self._array)

    def write(self, values: Sequence[float]) -> None:
        """From the first one on."""
        self._array[:len(values)] = [self._scale * value for value in values]

    def read(self, begin: int = 0, end: int = -1) -> List[float]:
        return [value / self._scale for value in self._array[begin:len(self._array) if end < 0 else end]]
