"""torch.distributed for a script that changes nothing: figures that follow the membership, and collectives over the session.

In epochs through which a new worker only passes, collectives return its own values.
"""

from typing import Any, Callable, Dict, List, Optional

import torch
from torch.distributed import ReduceOp

from . import _exchange
from ._script import script
from ..errors import ElasticError
from ..session import Session

_NAMES = {ReduceOp.SUM: "sum", ReduceOp.AVG: "mean", ReduceOp.MAX: "max", ReduceOp.MIN: "min", ReduceOp.PRODUCT: "product"}


class Done:
    """The handle of an asynchronous collective, which is complete."""

    def wait(self, *_: Any) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


def _session(what: str) -> Optional[Session]:
    """None where only this worker's own values count. Raises ElasticError before the training begins."""
    if script.run is None or not script.run.is_started:
        raise ElasticError(f"torch.distributed.{what}() before the first batch of training: a worker that joins later would not "
                           "take part. Move it behind the first batch, or let every worker compute the value")
    return None if script.is_forwarding else script.run.session


def init_process_group(*_: Any, **__: Any) -> None:
    script.is_initialized = True


def destroy_process_group(*_: Any, **__: Any) -> None:
    script.finish()


def barrier(*_: Any, async_op: bool = False, **__: Any) -> Optional[Done]:
    """Before the training begins nothing waits: workers join when they are ready."""
    if script.run is not None and script.run.is_started and not script.is_forwarding:
        script.run.session.barrier()
    return Done() if async_op else None


def all_reduce(tensor: torch.Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Optional[Done]:
    session = _session("all_reduce")
    operation = next((name for known, name in _NAMES.items() if known == op), None)
    if operation is None:
        raise ElasticError(f"torch.distributed.all_reduce() with {op}; possible are {', '.join(_NAMES.values())}")
    if session is not None:
        _exchange.reduce(session, tensor, operation)
    return Done() if async_op else None


def reduce(tensor: torch.Tensor, dst: int = 0, op: Any = ReduceOp.SUM, group: Any = None,
           async_op: bool = False) -> Optional[Done]:
    return all_reduce(tensor, op, group, async_op)


def broadcast(tensor: torch.Tensor, src: int = 0, group: Any = None, async_op: bool = False) -> Optional[Done]:
    session = _session("broadcast")
    if session is not None:
        with torch.no_grad():
            tensor.copy_(_exchange.gather_tensors(session, tensor)[src])
    return Done() if async_op else None


def all_gather(tensor_list: List[torch.Tensor], tensor: torch.Tensor, group: Any = None,
               async_op: bool = False) -> Optional[Done]:
    session = _session("all_gather")
    parts = _exchange.gather_tensors(session, tensor) if session is not None else [tensor] * len(tensor_list)
    for target, part in zip(tensor_list, parts):
        target.copy_(part)
    return Done() if async_op else None


def all_gather_into_tensor(output: torch.Tensor, tensor: torch.Tensor, group: Any = None,
                           async_op: bool = False) -> Optional[Done]:
    session = _session("all_gather_into_tensor")
    parts = _exchange.gather_tensors(session, tensor) if session is not None else [tensor] * script.world_size
    output.copy_(torch.cat(parts).reshape(output.shape))
    return Done() if async_op else None


def all_gather_object(object_list: List[Any], value: Any, group: Any = None) -> None:
    session = _session("all_gather_object")
    parts = _exchange.gather_objects(session, value) if session is not None else [value] * len(object_list)
    object_list[:len(parts)] = parts


def broadcast_object_list(object_list: List[Any], src: int = 0, group: Any = None, device: Any = None) -> None:
    session = _session("broadcast_object_list")
    if session is not None:
        object_list[:] = _exchange.gather_objects(session, list(object_list))[src]


FUNCTIONS: Dict[str, Callable[..., Any]] = {
    "init_process_group": init_process_group, "destroy_process_group": destroy_process_group, "barrier": barrier,
    "all_reduce": all_reduce, "reduce": reduce, "broadcast": broadcast, "all_gather": all_gather,
    "all_gather_into_tensor": all_gather_into_tensor, "all_gather_object": all_gather_object,
    "broadcast_object_list": broadcast_object_list, "is_initialized": lambda: script.is_initialized,
    "is_available": lambda: True, "get_rank": lambda group=None: script.rank,
    "get_world_size": lambda group=None: script.world_size, "get_backend": lambda group=None: "gloo"}
