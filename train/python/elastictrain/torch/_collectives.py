"""torch.distributed for a script that changes nothing: figures that follow the membership, and collectives over the session.

In epochs through which a new worker only passes, collectives return its own values.
"""

from typing import Any, Callable, Dict, List, Optional

import torch
from torch.distributed import ReduceOp

from . import _exchange
from ._script import script
from ..errors import ElasticError

_NAMES = {ReduceOp.SUM: "sum", ReduceOp.AVG: "mean", ReduceOp.MAX: "max", ReduceOp.MIN: "min", ReduceOp.PRODUCT: "product"}


class Done:
    """The handle of an asynchronous collective, which is complete."""

    def wait(self, *_: Any) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


def gatherer(what: str) -> Optional[_exchange.Gather]:
    """Gathers bytes of all workers; None where only this worker's own values count. Raises ElasticError before the training
    begins."""
    if script.is_apart:
        return None
    if script.run is None or not script.run.is_started:
        raise ElasticError(f"torch.distributed.{what}() before the first batch of training: a worker that joins later would not "
                           "take part. Move it behind the first batch, or let every worker compute the value")
    return script.run.gather


def operation_of(name: str) -> Any:
    return next(operation for operation, known in _NAMES.items() if known == name)


def init_process_group(*_: Any, **__: Any) -> None:
    script.is_initialized = True


def destroy_process_group(*_: Any, **__: Any) -> None:
    script.finish()


def barrier(*_: Any, async_op: bool = False, **__: Any) -> Optional[Done]:
    """Before the training begins nothing waits: workers join when they are ready."""
    if script.run is not None and script.run.is_started and not script.is_apart:
        script.run.gather(b"")
    return Done() if async_op else None


def all_reduce(tensor: torch.Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Optional[Done]:
    is_shared = gatherer("all_reduce") is not None
    operation = next((name for known, name in _NAMES.items() if known == op), None)
    if operation is None:
        raise ElasticError(f"torch.distributed.all_reduce() with {op}; possible are {', '.join(_NAMES.values())}")
    if is_shared and script.run is not None:
        script.run.reduce_anywhere(tensor, operation)
    return Done() if async_op else None


def reduce(tensor: torch.Tensor, dst: int = 0, op: Any = ReduceOp.SUM, group: Any = None,
           async_op: bool = False) -> Optional[Done]:
    return all_reduce(tensor, op, group, async_op)


def broadcast(tensor: torch.Tensor, src: int = 0, group: Any = None, async_op: bool = False) -> Optional[Done]:
    gather = gatherer("broadcast")
    if gather is not None:
        with torch.no_grad():
            tensor.copy_(_exchange.gather_tensors(gather, tensor)[src])
    return Done() if async_op else None


def all_gather(tensor_list: List[torch.Tensor], tensor: torch.Tensor, group: Any = None,
               async_op: bool = False) -> Optional[Done]:
    """What a worker had that is lost meanwhile is left out: the list is shorter then."""
    gather = gatherer("all_gather")
    parts = _exchange.gather_tensors(gather, tensor) if gather is not None else [tensor] * len(tensor_list)
    for target, part in zip(tensor_list, parts):
        target.copy_(part)
    del tensor_list[len(parts):]
    return Done() if async_op else None


def all_gather_into_tensor(output: torch.Tensor, tensor: torch.Tensor, group: Any = None,
                           async_op: bool = False) -> Optional[Done]:
    gather = gatherer("all_gather_into_tensor")
    parts = _exchange.gather_tensors(gather, tensor) if gather is not None else [tensor] * script.world_size
    output.copy_(torch.cat(parts).reshape(output.shape))
    return Done() if async_op else None


def all_gather_object(object_list: List[Any], value: Any, group: Any = None) -> None:
    gather = gatherer("all_gather_object")
    object_list[:] = _exchange.gather_objects(gather, value) if gather is not None else [value] * len(object_list)


def gather_object(value: Any, object_gather_list: Optional[List[Any]] = None, dst: int = 0, group: Any = None) -> None:
    gather = gatherer("gather_object")
    if object_gather_list is not None:
        object_gather_list[:] = _exchange.gather_objects(gather, value) if gather is not None else [value]
    elif gather is not None:
        _exchange.gather_objects(gather, value)


def broadcast_object_list(object_list: List[Any], src: int = 0, group: Any = None, device: Any = None) -> None:
    gather = gatherer("broadcast_object_list")
    if gather is not None:
        object_list[:] = _exchange.gather_objects(gather, list(object_list))[src]


FUNCTIONS: Dict[str, Callable[..., Any]] = {
    "init_process_group": init_process_group, "destroy_process_group": destroy_process_group, "barrier": barrier,
    "all_reduce": all_reduce, "reduce": reduce, "broadcast": broadcast, "all_gather": all_gather,
    "all_gather_into_tensor": all_gather_into_tensor, "all_gather_object": all_gather_object,
    "broadcast_object_list": broadcast_object_list, "gather_object": gather_object,
    "is_initialized": lambda: script.is_initialized,
    "is_available": lambda: True, "get_rank": lambda group=None: script.rank,
    "get_world_size": lambda group=None: script.world_size, "get_backend": lambda group=None: "gloo"}
