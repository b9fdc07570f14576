"""Modules that a script holds besides its model and that are as large, such as an average of its weights: where all workers have
them, they are a part of the run's state. What is smaller travels with the script's progress."""

import collections
import hashlib
from typing import Any, Callable, Dict, Iterable, List, Set, Tuple

import torch
from torch import nn

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

    def copies(self) -> List[Tuple[torch.Tensor, torch.Tensor]]:
        """Each tensor, and its present values."""
        return [(tensor, tensor.detach().clone()) for tensor in (*self.parameters(), *self.buffers())]

    @property
    def signature(self) -> bytes:
        """Equal on workers that hold the same."""
        texts = [f"{key} {tensor.dtype} {tuple(tensor.shape)}" for key, tensor in (*self.named_parameters(), *self.named_buffers())]
        return hashlib.blake2b("\n".join([self.name, *texts]).encode(), digest_size=16).digest()


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
