"""Streams and marks of devices of any kind that torch knows, by its module for the kind."""

from typing import Any, Dict, List, Tuple

import torch

from .._memory import is_on_device
from .._replica_session import share
from ..errors import ElasticError


def mark(device: torch.device) -> Any:
    """Of the work that the device's current stream holds now."""
    module = torch.get_device_module(device)
    event = module.Event()
    event.record(module.current_stream(device))
    return event


def host_memory(values: torch.Tensor, is_shared: bool = False) -> torch.Tensor:
    """Of their shape and type; `is_shared`: with other processes."""
    memory = torch.empty(values.shape, dtype=values.dtype)
    if is_shared:
        share(memory.untyped_storage())
    lock(memory, values.device)
    return memory


def lock(memory: torch.Tensor, device: torch.device) -> None:
    """In its place, for copies from and to the device that the host does not wait for. Raises ElasticError where the driver refuses."""
    if device.type == "cuda" and memory.numel():
        size = memory.numel() * memory.element_size()
        problem = torch.cuda.cudart().cudaHostRegister(memory.data_ptr(), size, 0)
        if int(problem) != 0:
            raise ElasticError(f"the GPU's driver cannot lock {size >> 20} MiB of host memory for copies (cudaHostRegister: {problem})")


def unlock(memory: torch.Tensor, device: torch.device) -> None:
    """Before it is given back."""
    if device.type == "cuda" and memory.numel():
        torch.cuda.cudart().cudaHostUnregister(memory.data_ptr())


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """Its memory, which is contiguous in some order of dimensions."""
    return tensor.detach().as_strided((tensor.numel(),), (1,)).view(torch.uint8)


Key = Tuple[int, int, torch.dtype]  # address, elements and type of a tensor


class Copied:
    """Tensors whose values cross to host memory and back: gradients on their way to the run and what comes back of them. In the order
    of add(). Thread: one at a time.

    The memory on the host is the same in each step."""

    def __init__(self, is_shared: bool) -> None:
        """`is_shared`: the host memory is another process's, too."""
        self._is_shared = is_shared
        self._on_host: Dict[Key, Tuple[torch.Tensor, torch.device]] = {}
        self._waiting: List[Any] = []  # (the values on the host, the mark behind their copy)
        self._back: List[Any] = []  # (tensor, its values on the host)
        self._streams: Dict[torch.device, Any] = {}

    def add(self, tensor: torch.Tensor) -> None:
        if not is_on_device(tensor) and (tensor.is_shared() or not self._is_shared):
            self._waiting.append((tensor, None))
            return
        values = self._room_for(tensor)
        self._waiting.append((values, self._begin(tensor, values)))
        self._back.append((tensor, values))

    def _begin(self, tensor: torch.Tensor, values: torch.Tensor) -> Any:
        if not is_on_device(tensor):
            values.copy_(tensor.detach())
            return None
        module = torch.get_device_module(tensor.device)
        stream = self._streams.get(tensor.device)
        if stream is None:
            stream = self._streams[tensor.device] = module.Stream(tensor.device)
        stream.wait_event(mark(tensor.device))
        with module.stream(stream):
            values.copy_(tensor.detach(), non_blocking=True)
            return mark(tensor.device)

    def _room_for(self, tensor: torch.Tensor) -> torch.Tensor:
        key = _key(tensor)
        if key not in self._on_host:
            self._on_host[key] = host_memory(tensor.detach(), self._is_shared), tensor.device
        return self._on_host[key][0]

    def there(self, wait: bool = False) -> List[torch.Tensor]:
        """The values of those that have been copied, each once; `wait`: for all of them."""
        found = []
        while self._waiting:
            values, copied = self._waiting[0]
            if copied is not None and not copied.query():
                if not wait:
                    break
                copied.synchronize()
            found.append(values)
            self._waiting.pop(0)
        return found

    def take_back(self, is_changed: bool) -> None:
        """Gives the tensors what the host memory holds, behind the work of their current streams. Not `is_changed`: they have it."""
        for tensor, values in self._back if is_changed else ():
            tensor.detach().copy_(values, non_blocking=True)
        self._forget_unused({_key(tensor): None for tensor, _ in self._back})
        self._back = []

    def _forget_unused(self, used: Dict[Key, Any]) -> None:
        for key in [key for key in self._on_host if key not in used]:
            values, device = self._on_host.pop(key)
            unlock(values, device)


def _key(tensor: torch.Tensor) -> Key:
    return tensor.data_ptr(), tensor.numel(), tensor.dtype
