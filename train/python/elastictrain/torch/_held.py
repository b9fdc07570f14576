"""Modules that a script holds besides its model and that are as large, such as an average of its weights: where all workers have
them, they are a part of the run's state. What is smaller travels with the script's progress."""

import collections
import hashlib
from typing import Any, Callable, Dict, Iterable, List, Set, Tuple

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from .progress import Progress

LARGE_BYTES = 1 << 20


class Held(nn.Module):
    """The tensors of a module that are not the model's. `name`: of its class, for people."""

    def __init__(self, module: nn.Module, tensors: Dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.name = type(module).__name__
        for number, (name, tensor) in enumerate(tensors.items()):
            key = f"{number}/{name.replace('.', '/')}"
            if isinstance(tensor, nn.Parameter):
                self.register_parameter(key, tensor)
            else:
                self.register_buffer(key, tensor)
        self.source: List[nn.Module] = [module]  # in a list: no part of this one

    @property
    def signature(self) -> bytes:
        """Equal on workers that hold the same."""
        texts = [f"{key} {tensor.dtype} {tuple(tensor.shape)}" for key, tensor in (*self.named_parameters(), *self.named_buffers())]
        return hashlib.blake2b("\n".join([self.name, *texts]).encode(), digest_size=16).digest()


class Unchanged(TorchDispatchMode):
    """While it is entered these modules keep their values: what is written into their tensors is in them already. A write is
    made, for its result, and taken back at once."""

    def __init__(self, modules: Iterable[Held]) -> None:
        super().__init__()
        self._copies: Dict[int, List[Tuple[torch.Tensor, torch.Tensor]]] = {}  # by the place of their memory
        for module in modules:
            for tensor in (*module.parameters(), *module.buffers()):
                self._copies.setdefault(_memory_of(tensor), []).append((tensor.detach(), tensor.detach().clone()))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func._schema.is_mutable:
            named = {argument.name: value for argument, value in zip(func._schema.arguments, args)}
            for argument in func._schema.arguments:
                if argument.alias_info is not None and argument.alias_info.is_write:
                    self._take_back({**named, **(kwargs or {})}.get(argument.name))
        return result

    def _take_back(self, written: Any) -> None:
        for tensor in written if isinstance(written, (list, tuple)) else [written]:
            for own, copy in self._copies.get(_memory_of(tensor), []) if isinstance(tensor, torch.Tensor) else ():
                own.copy_(copy)


def _memory_of(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())


def agreed(found: List[Held], gather: Callable[[bytes], List[bytes]]) -> List[Held]:
    """None, where another worker has others. `gather`: of all workers."""
    own = b"".join(held.signature for held in found)
    return found if all(part == own for part in gather(own)) else []


def find(model: nn.Module, known: Iterable[Any]) -> List[Held]:
    """Those with tensors of all the shapes that the model's parameters have."""
    own = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
    wanted = collections.Counter(tuple(parameter.shape) for parameter in model.parameters())
    seen: Set[int] = set(own)
    found = []
    for module in Progress(known).large().values():
        if not isinstance(module, nn.Module):
            continue
        tensors = {name: tensor for name, tensor in (*module.named_parameters(), *module.named_buffers()) if id(tensor) not in seen}
        seen.update(id(tensor) for tensor in tensors.values())
        held = Held(module, tensors)
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        has_all = not wanted - collections.Counter(tuple(tensor.shape) for tensor in tensors.values())
        if size > LARGE_BYTES and has_all and _can_be_shared(tensors.values()):
            found.append(held)
    return found


def _can_be_shared(tensors: Iterable[torch.Tensor]) -> bool:
    return all(tensor.layout is torch.strided and tensor.is_contiguous() and tensor.device.type in ("cpu", "cuda")
               for tensor in tensors)
