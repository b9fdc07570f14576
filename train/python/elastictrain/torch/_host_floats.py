"""Floats in host memory, as a tensor that is summed and as an array that is read and written without an operator of torch: one
that reads a tensor would wait for a device if the tensor were there.
"""

import ctypes
from typing import Any, List, Sequence

import torch


class HostFloats:
    """Ownership: keeps the tensor, which is contiguous, of float32 and in host memory."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self._array: Any = (ctypes.c_float * tensor.numel()).from_address(tensor.data_ptr())

    def __len__(self) -> int:
        return len(self._array)

    def write(self, values: Sequence[float]) -> None:
        """From the first one on."""
        self._array[:len(values)] = values

    def read(self, begin: int = 0, end: int = -1) -> List[float]:
        return list(self._array[begin:len(self._array) if end < 0 else end])
