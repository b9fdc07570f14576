"""torch.distributed for a script that changes nothing: its process group is that of the run, its functions are torch's own.

What the group cannot be is refused by the name that the script used. In epochs through which a new worker only passes,
collectives return its own values.
"""

import contextlib
import functools
import inspect
import os
import sys
import threading
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

import torch
from torch import distributed
from torch.distributed import Backend, HashStore, ReduceOp
from torch.distributed.distributed_c10d import GroupMember, _world

from . import _exchange, _lists
from ._group import BETWEEN_TWO, NAME, SHOWN, ElasticGroup, LiveRanks, refusal
from ._group_board import TIMEOUT_S, Board
from ._imports import after_import
from ._script import script
from ..errors import ElasticError

PARTS = ("as FSDP, pipelines and process groups of parts of the workers do; elastictrain.torch makes scripts elastic that average "
         "gradients over all workers. One that divides its model by fully_shard() or parallelize_module() is started with `elastictrain run "
         "--per-replica N`, the number of processes that hold one copy together")
_OPERATIONS = {"sum": ReduceOp.SUM, "mean": ReduceOp.AVG, "max": ReduceOp.MAX, "min": ReduceOp.MIN, "product": ReduceOp.PRODUCT}
_own: Dict[str, Callable[..., Any]] = {}  # torch's own functions, by name
_timeout_s = TIMEOUT_S
_board: Optional[Board] = None
_told: Tuple[int, int] = (0, 1)  # rank and number of workers, before the training


# --- Who takes part

def place() -> Tuple[int, int]:
    """Rank and world size at present."""
    if script.is_apart or (script.run is not None and script.run.is_started):
        return script.rank, script.world_size
    held = _before_training()
    return held.rank, held.world_size


def plane(what: str) -> Any:
    """The workers with which a collective of this name is made now; see _exchange.Plane."""
    thread = threading.current_thread()
    if thread is not threading.main_thread() and thread.ident != script.thread and type(thread).__name__ != "_DummyThread":
        raise ElasticError(f"torch.distributed.{what}() in the thread {thread.name!r}: collectives of a run are made in one order, "
                           "by the thread that trains. Make it there")
    if script.is_apart:
        return _exchange.Alone(script.rank, script.world_size)
    run = script.run
    if run is None or not run.is_started:
        return _before_training()
    return run.plane()


def note_gather(tensor: torch.Tensor) -> None:
    """A script gathers it, as the others do."""
    run = script.run
    if run is not None and run.is_started and not script.is_apart and (run.step_of_pass is not None or script.has_model_in_training):
        run.note_gather(tensor)


def _before_training() -> Board:
    global _board
    if _board is None:
        _board = Board(script.session(), script.rank, script.world_size, _timeout_s)
    return _board


def gatherer(what: str) -> _exchange.Gather:
    """Gathers bytes of all workers."""
    gather: _exchange.Gather = plane(what).gather_bytes
    return gather


def operation_of(name: str) -> Any:
    return _OPERATIONS[name]


# --- The group

def init_process_group(backend: Any = None, init_method: Any = None, timeout: Optional[timedelta] = None, *_: Any,
                       **__: Any) -> None:
    """As torch's; how the workers find each other is the run's."""
    global _timeout_s, _told
    if timeout is not None:
        _timeout_s = timeout.total_seconds()
    rank, world_size = place()
    if script.run is None:
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(world_size))
        _told = rank, world_size
    hook = sys.excepthook  # torch's would print the rank of now for ever
    _own["init_process_group"](backend=NAME, store=HashStore(), rank=rank, world_size=max(world_size, rank + 1))
    sys.excepthook = hook
    _adopt(distributed.group.WORLD)
    script.is_initialized = True


def _make(*_: Any) -> ElasticGroup:
    return ElasticGroup(place, plane, note_gather)


def _adopt(group: Any) -> None:
    """What torch keeps of a group, as scripts know it: the ranks of the moment, and a name that they compare with."""
    _world.pg_map[group] = (SHOWN, _world.pg_map[group][1])
    _world.pg_backend_config[group] = f"cpu:{SHOWN},cuda:{SHOWN}"
    _world.pg_group_ranks[group] = LiveRanks(group)  # type: ignore[assignment]
    group.is_registered = True


def destroy_process_group(group: Any = None) -> None:
    if group is not None and group is not GroupMember.WORLD:
        return _own["destroy_process_group"](group)
    script.finish()
    if GroupMember.WORLD is not None:
        _own["destroy_process_group"]()


def new_group(ranks: Optional[List[int]] = None, timeout: Any = None, backend: Any = None, *_: Any, **named: Any) -> Any:
    """Of all workers, as many as there are at any time."""
    if ranks is not None and sorted(ranks) != list(range(place()[1])):
        raise refused("new_group", PARTS)
    group = _own["new_group"](timeout=timeout, backend=NAME, **{key: named[key] for key in ("group_desc",) if key in named})
    _adopt(group)
    return group


# --- Checkpoints that are written in the background

_apart: List[Tuple[Any, Board]] = []
_apart_at = (-1, -1, 0)  # generation, step, and how many groups were made there
KEPT_APART = 3


def _saves_apart(module: Any) -> None:
    original = module.async_save
    signature = inspect.signature(original)

    @functools.wraps(original)
    def async_save(*arguments: Any, **named: Any) -> Any:
        bound = signature.bind(*arguments, **named)
        if isinstance(_group(bound.arguments.get("process_group")), ElasticGroup):
            bound.arguments["process_group"] = _group_apart()
        return original(*bound.args, **bound.kwargs)

    module.async_save = async_save


def _group_apart() -> Any:
    """A group of the workers of now for a thread of its own, which talks over the board: the training goes on meanwhile. Where
    one of them is lost, the others' wait ends with its time."""
    global _apart_at
    plane("async_save")
    session, (rank, world_size) = script.session(), place()
    where = (int(session.generation), int(session.committed_step))
    _apart_at = (*where, _apart_at[2] + 1 if _apart_at[:2] == where else 0)
    board = Board(session, rank, world_size, _timeout_s, apart=".".join(map(str, _apart_at)))
    group = ElasticGroup(lambda: (rank, world_size), lambda what: board)
    group.setGroupName(f"apart.{'.'.join(map(str, _apart_at))}")
    _world.pg_names[group] = group.group_name  # type: ignore[index]
    _world.pg_map[group] = (SHOWN, HashStore())
    _adopt(group)
    _apart.append((group, board))
    while len(_apart) > KEPT_APART:
        _forget(*_apart.pop(0))
    return group


def _forget(group: Any, board: Board) -> None:
    for known in (_world.pg_names, _world.pg_map, _world.pg_backend_config, _world.pg_group_ranks):
        known.pop(group, None)
    board.forget()


# --- Lists of as many values as there are workers; without what a worker had that is lost meanwhile

def all_gather(tensor_list: List[Any], tensor: Any, group: Any = None, async_op: bool = False) -> Any:
    chosen = _group(group)
    if not isinstance(chosen, ElasticGroup):
        return _own["all_gather"](tensor_list, tensor, group, async_op)
    chosen.plane_of("all_gather")  # the membership changes here, if it does
    own, size = chosen.rank(), chosen.size()
    silent, seat = _in_pass(chosen, tensor, len(tensor_list))
    fits = len(tensor_list) == size and seat in (None, own) and not silent
    rows = tensor_list if fits else [torch.empty_like(tensor) for _ in range(size)]
    chosen.lost = []
    result = _own["all_gather"](rows, tensor, group, async_op)
    missing = silent.union(chosen.lost) - {own}
    if missing or not fits:
        _lists.fit(tensor_list, [None if rank in missing else row for rank, row in enumerate(rows)], own, seat)
    return result


def _in_pass(group: ElasticGroup, tensor: Any, places: int) -> Tuple[Set[int], Optional[int]]:
    """(ranks whose values do not count, the place of this worker's): in a forward pass of a script that does not ask for its rank
    there, but wrote down its rank and the number of workers at its start. A loss over the batches of all workers is such a one.
    What a worker without samples has, as a new one in its first step, is no part of it."""
    run = script.run
    if run is None or not run.is_in_pass or script.is_apart or tensor.dim() == 0:
        return set(), None
    chosen = group.plane_of("all_gather")
    counts = chosen.gather(torch.tensor([run.has_samples], dtype=torch.uint8))
    if run.asks_rank or places != _told[1]:
        return set(), None
    chosen.silent |= {rank for rank, row in enumerate(counts) if row is not None and not int(row)}
    return set(chosen.silent), _told[0]


def gather(tensor: Any, gather_list: Optional[List[Any]] = None, *arguments: Any, **named: Any) -> Any:
    bound = inspect.signature(_own["gather"]).bind(tensor, gather_list, *arguments, **named).arguments
    chosen = _group(bound.get("group"))
    if not isinstance(chosen, ElasticGroup) or not gather_list:
        return _own["gather"](tensor, gather_list, *arguments, **named)
    chosen.plane_of("gather")
    rows = [torch.empty_like(tensor) for _ in range(chosen.size())]
    chosen.lost = []
    result = _own["gather"](tensor, rows, *arguments, **named)
    _lists.fit(gather_list, [None if rank in chosen.lost else row for rank, row in enumerate(rows)], chosen.rank())
    return result


def broadcast_object_list(object_list: List[Any], *arguments: Any, **named: Any) -> None:
    """torch's own root keeps its objects. A worker in the place of a lost one has what that one sent before the training."""
    own = _own["broadcast_object_list"]
    bound = inspect.signature(own).bind(object_list, *arguments, **named).arguments
    chosen = _group(bound.get("group"))
    held = chosen.plane_of("broadcast_object_list") if isinstance(chosen, ElasticGroup) else None
    root = bound.get("src") if bound.get("src") is not None else bound.get("group_src") or 0
    with held.receiving_from(root) if isinstance(held, Board) else contextlib.nullcontext():
        own(object_list, *arguments, **named)


def get_rank(group: Any = None) -> int:
    if script.run is not None and script.run.is_in_pass:
        script.run.asks_rank = True
    return int(_own["get_rank"](group))


def _group(group: Any) -> Any:
    return GroupMember.WORLD if group is None else group


def all_gather_object(object_list: List[Any], obj: Any, group: Any = None) -> None:
    _require_group(group, "all_gather_object")
    chosen = _group(group).plane_of("all_gather_object")
    object_list[:] = _exchange.gather_objects(chosen.gather_bytes, obj)


def gather_object(obj: Any, object_gather_list: Optional[List[Any]] = None, dst: Optional[int] = None, group: Any = None,
                  group_dst: Optional[int] = None) -> None:
    _require_group(group, "gather_object")
    chosen = _group(group).plane_of("gather_object")
    to = group_dst if group_dst is not None else dst or 0
    if (object_gather_list is not None) != (chosen.rank == to):
        raise ValueError("Argument ``object_gather_list`` must be specified on destination rank." if chosen.rank == to else
                         "Argument ``object_gather_list`` must NOT be specified on non-destination ranks.")
    values = _exchange.gather_objects(chosen.gather_bytes, obj)
    if object_gather_list is not None:
        object_gather_list[:] = values


def _require_group(group: Any, what: str) -> None:
    if _group(group) is None:
        raise ValueError(f"torch.distributed.{what}(): the default process group has not been initialized; call "
                         "torch.distributed.init_process_group() first")


# --- What is refused

def refused(name: str, why: str) -> ElasticError:
    return ElasticError(f"this script needs torch.distributed.{name}(), {why}")


def refusal_of_parts(name: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise refused(name, PARTS)
    return refuse


def _refusal_of_messages(name: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise refusal(name, BETWEEN_TWO)
    return refuse


_BETWEEN_TWO = ("send", "recv", "isend", "irecv", "batch_isend_irecv", "send_object_list", "recv_object_list")
_OF_PARTS = ("new_subgroups", "new_subgroups_by_enumeration", "split_group", "shrink_group", "init_device_mesh")
_SHARDED = ("which divides the optimizer's state among the workers: what one of them holds would be lost with it. Use the optimizer "
            "itself, whose state every worker holds")
_SHARDING = ("torch.distributed.fsdp._fully_shard._fully_shard", "torch.distributed.fsdp._fully_shard", "torch.distributed.fsdp",
             "torch.distributed._composable.fsdp.fully_shard", "torch.distributed._composable.fsdp")
_OPTIMIZERS = {
    "zero_redundancy_optimizer.ZeroRedundancyOptimizer": _SHARDED,
    "post_localSGD_optimizer.PostLocalSGDOptimizer": "which averages models now and then: set synchronization.strategy = "
                                                     "\"averaging\" of the configuration instead"}


def _refuse_optimizer(name: str, why: str) -> Callable[[Any], None]:
    def change(module: Any) -> None:
        def refuse(*_: Any, **__: Any) -> None:
            raise ElasticError(f"this script needs torch.distributed.optim.{name}, {why}")
        getattr(module, name).__init__ = refuse
    return change


def _refuse_sharding(module: Any) -> None:
    if callable(getattr(module, "fully_shard", None)):  # in older versions the name is also that of a module
        module.fully_shard = refusal_of_parts("fsdp.fully_shard")


# --- Installation

def install() -> None:
    """Once, before the script is run."""
    Backend.register_backend(NAME, _make, devices=["cpu", "cuda"])
    for name in ("init_process_group", "destroy_process_group", "new_group", "all_gather", "gather", "get_rank",
                 "broadcast_object_list"):
        _own[name] = getattr(distributed, name)
    for function in (init_process_group, destroy_process_group, new_group, all_gather, gather, all_gather_object, gather_object,
                     broadcast_object_list):
        _set(function.__name__, functools.wraps(getattr(distributed, function.__name__))(function))
    distributed.get_rank = functools.wraps(_own["get_rank"])(get_rank)  # not where torch itself asks
    for name in _BETWEEN_TWO:
        _set(name, _refusal_of_messages(name))
    for name in _OF_PARTS:
        _set(name, refusal_of_parts(name))
    for path, why in _OPTIMIZERS.items():
        module, _, name = path.partition(".")
        after_import(f"torch.distributed.optim.{module}", _refuse_optimizer(name, why))
    after_import("torch.distributed.checkpoint.state_dict_saver", _saves_apart)
    for module in _SHARDING:
        after_import(module, _refuse_sharding)


def _set(name: str, function: Callable[..., Any]) -> None:
    for module in (distributed, distributed.distributed_c10d):
        if hasattr(module, name):
            setattr(module, name, function)
