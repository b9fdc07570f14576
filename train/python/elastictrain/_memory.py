"""Address and size of the memory behind a tensor, an array or any buffer. Neither torch nor numpy is imported."""

import ctypes
from typing import Any, NamedTuple


class Memory(NamedTuple):
    address: int
    bytes: int
    on_device: bool
    is_float32: bool


def of(value: Any) -> Memory:
    """Of a torch.Tensor (contiguous, on a CPU or a CUDA device), a numpy array or a writable C-contiguous buffer.

    Raises TypeError or ValueError for anything else. The memory must outlive its use: keep a reference to `value`.
    """
    if hasattr(value, "data_ptr"):
        return _of_tensor(value)
    if isinstance(value, ctypes.Array):
        return Memory(ctypes.addressof(value), ctypes.sizeof(value), False, value._type_ is ctypes.c_float)
    try:
        view = memoryview(value)
    except TypeError:
        raise TypeError(f"{type(value).__name__} is neither a tensor nor an array nor a buffer") from None
    if view.readonly or not view.c_contiguous:
        raise ValueError("the buffer must be writable and contiguous")
    if view.nbytes == 0:
        return Memory(0, 0, False, view.format == "f")
    return Memory(ctypes.addressof(ctypes.c_char.from_buffer(view)), view.nbytes, False, view.format == "f")


def _of_tensor(tensor: Any) -> Memory:
    if not tensor.is_contiguous() and not _is_dense(tensor):
        raise ValueError(f"a tensor of shape {tuple(tensor.shape)} is not contiguous; pass tensor.contiguous()")
    if tensor.device.type not in ("cpu", "cuda"):
        raise ValueError(f"a tensor on {tensor.device} cannot be shared; tensors must be on a CPU or a CUDA device")
    size = tensor.numel() * tensor.element_size()
    return Memory(tensor.data_ptr(), size, tensor.device.type == "cuda", str(tensor.dtype) == "torch.float32")


def is_on_device(tensor: Any) -> bool:
    """Whether the host cannot access the memory of this torch.Tensor."""
    return bool(tensor.device.type != "cpu")


def _is_dense(tensor: Any) -> bool:
    """Every element once, in whatever order of dimensions (channels last)."""
    expected = 1
    for stride, length in sorted(zip(tensor.stride(), tensor.shape)):
        if length != 1 and stride != expected:
            return False
        expected *= length
    return True


def floats(value: Any) -> Memory:
    """The same for float32 values only."""
    memory = of(value)
    if not memory.is_float32:
        raise TypeError("values must be float32")
    return memory
