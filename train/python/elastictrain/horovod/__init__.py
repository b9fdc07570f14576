"""Horovod's functions for PyTorch over an elastictrain run: `import elastictrain.horovod as hvd`.

Workers are not restarted and their collectives are not built anew: a change takes effect between two steps, and each sample
counts once in an epoch.
"""

import contextlib
import os
from typing import Any, List, Optional

import torch
from torch.utils.data import DataLoader

from . import elastic
from ..errors import ElasticError
from ..torch import _collectives, _patches
from ..torch._script import script

__all__ = ["Average", "DistributedOptimizer", "Max", "Min", "Product", "Sum", "allgather", "allgather_object", "allreduce",
           "allreduce_", "broadcast", "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters", "elastic",
           "init", "is_initialized", "local_rank", "rank", "shutdown", "size"]

Average, Sum, Max, Min, Product = "mean", "sum", "max", "min", "product"


def init(*_: Any, **__: Any) -> None:
    if script.is_initialized:
        return
    _patches.install()
    _patches.find("loader", DataLoader)
    _collectives.init_process_group()
    script.finishes_at_exit = script.has_adapter = True


def shutdown() -> None:
    script.finish()


def is_initialized() -> bool:
    return script.is_initialized


def rank() -> int:
    """At present: it may change between two steps, like size()."""
    return script.rank


def size() -> int:
    return script.world_size


def local_rank() -> int:
    """The slot on this host, which is constant."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def DistributedOptimizer(optimizer: Any, named_parameters: Any = None, compression: Any = None,
                         backward_passes_per_step: int = 1, op: str = Average, **_: Any) -> Any:
    """The same optimizer: gradients are averaged as the backward pass computes them."""
    if op != Average:
        raise ElasticError(f"DistributedOptimizer with op={op}; a run averages gradients over all samples of a step")
    script.accumulation = backward_passes_per_step
    optimizer.synchronize = lambda: None  # the gradients are averaged when backward() returns
    optimizer.skip_synchronize = contextlib.nullcontext
    return optimizer


def broadcast_parameters(params: Any, root_rank: int = 0) -> None:
    """Nothing to do: all workers begin with the state of the first one, and a later one gets the present state."""


def broadcast_optimizer_state(optimizer: Any, root_rank: int = 0, *_: Any, **__: Any) -> None:
    """As broadcast_parameters()."""


def allreduce(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None, compression: Any = None,
              op: Optional[str] = None, **_: Any) -> torch.Tensor:
    """A new tensor with the mean over all workers, unless `op` says otherwise. Raises ElasticError before the training."""
    return allreduce_(tensor.detach().clone(), average, name, op=op)


def allreduce_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None, compression: Any = None,
               op: Optional[str] = None, **_: Any) -> torch.Tensor:
    """The same in place."""
    torch.distributed.all_reduce(tensor, _collectives.operation_of(op or (Sum if average is False else Average)))
    return tensor


def allgather(tensor: torch.Tensor, name: Optional[str] = None, **_: Any) -> torch.Tensor:
    """The tensors of all workers along the first dimension, which may differ in size."""
    return torch.cat(allgather_object(tensor))


def allgather_object(value: Any, name: Optional[str] = None, **_: Any) -> List[Any]:
    values = [None] * size()
    torch.distributed.all_gather_object(values, value)
    return values


def broadcast(tensor: torch.Tensor, root_rank: int = 0, name: Optional[str] = None, **_: Any) -> torch.Tensor:
    values = tensor.detach().clone()
    torch.distributed.broadcast(values, root_rank)
    return values


def broadcast_object(value: Any, root_rank: int = 0, name: Optional[str] = None, **_: Any) -> Any:
    values = [value]
    torch.distributed.broadcast_object_list(values, root_rank)
    return values[0]
