"""Replicas of several processes: a model that is divided among them, as torch's FSDP does, is trained as one worker of the run.

Inside a replica PyTorch's own process group does what it does; across replicas the run averages gradients, part by part.
"""

import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from . import _exchange
from .. import _replica
from ..errors import ElasticError

_threads_at_import = len(os.listdir("/proc/self/task"))


PROCESSES = "ELASTICTRAIN_PER_REPLICA"  # as the run says it: --per-replica


def replica(size: Optional[int] = None) -> "Place":
    """Makes this worker a replica of so many processes, or of as many as `elastictrain run --per-replica` says, and returns this
    process's place in it. Call it first in the program, before anything is computed: the other processes begin here, as copies of
    this one. torch.distributed is initialised for the processes of the replica, with gloo: `init_device_mesh("cpu", (size,))`,
    `fully_shard(model)` and the like see only them.

    Raises ElasticError where it is too late, and for a size below 1 or another one than the run's."""
    asked = size_of_run()
    size = (asked or 1) if size is None else size
    if asked is not None and size != asked:
        raise ElasticError(f"the program makes replicas of {size} processes, but the run says --per-replica {asked}")
    if size < 1:
        raise ElasticError(f"a replica has at least one process, not {size}")
    if dist.is_initialized():
        raise ElasticError("replica() initialises torch.distributed for its processes; the program has done so before")
    here, store = begin(size)
    dist.init_process_group("gloo", store=store, rank=here.index, world_size=size)
    return Place(here.index, size)


def size_of_run() -> Optional[int]:
    """None: the run does not say."""
    text = os.environ.get(PROCESSES)
    if text is not None and not (text.isdigit() and int(text)):
        raise ElasticError(f"{PROCESSES} is a number of processes from 1 on, not {text!r}")
    return None if text is None else int(text)


def begin(size: int) -> Tuple[_replica.Replica, dist.Store]:
    """As replica(); their process group is to be made over the store."""
    if torch.cuda.is_initialized() or len(os.listdir("/proc/self/task")) > _threads_at_import:
        raise ElasticError("replica() comes first in a program: its other processes begin as copies of this one, which has started "
                           "threads for computations by now")
    here = _replica.begin(size)
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, torch.get_num_threads() // size))
    _set_environment(here.index, size)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    return here, _store(here)


class Place:
    """`index`: of this process, from 0. `size`: of the replica."""

    def __init__(self, index: int, size: int) -> None:
        self.index, self.size = index, size


def _set_environment(index: int, size: int) -> None:
    for name in ("RANK", "LOCAL_RANK"):
        os.environ[name] = str(index)
    for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        os.environ[name] = str(size)


def _store(here: _replica.Replica) -> dist.Store:
    if here.is_first:
        store = dist.TCPStore("127.0.0.1", 0, here.size, is_master=True, wait_for_workers=False)
        for channel in here.channels:
            channel.send(store.port)
    else:
        port, _ = here.channels[0].receive()
        store = dist.TCPStore("127.0.0.1", port, here.size, is_master=False)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(store.port))
    return store


class Units:
    """The samples of each epoch in an order of their own, in units of one for each process of the replica: what the session counts as
    a sample is such a unit, so that all processes have as many. The last samples of an epoch that are less than a unit are left
    out; which ones these are differs from epoch to epoch where the order is shuffled."""

    def __init__(self, size: int, shuffle: bool, seed: int, here: _replica.Replica, order: Any = None) -> None:
        """`order`: of the samples, if they have one already; as _sampling.Order."""
        self._size, self._shuffle, self._seed, self._here, self._order = size, shuffle, seed, here, order
        self._epoch: Optional[int] = None
        self._drawn: Sequence[int] = range(size)
        if size < here.size:
            raise ElasticError(f"{size} samples are fewer than the {here.size} processes of a replica")

    def __len__(self) -> int:
        return self._size // self._here.size

    def enter(self, epoch: int) -> None:
        if epoch != self._epoch and self._shuffle:
            generator = torch.Generator().manual_seed(self._seed + epoch)
            self._drawn = torch.randperm(self._size, generator=generator).tolist()
        self._epoch = epoch
        if self._order is not None:
            self._order.enter(epoch)

    def indices(self, places: Sequence[int]) -> Tuple[int, ...]:
        drawn = tuple(self._drawn[place * self._here.size + self._here.index] for place in places)
        return drawn if self._order is None else tuple(self._order.indices(drawn))

    def state_dict(self) -> dict:
        """That of the order; all else follows from the seed."""
        return {} if self._order is None else dict(self._order.state_dict())

    def load_state_dict(self, state: dict) -> None:
        if self._order is not None:
            self._order.load_state_dict(state)


def refuse_divided(model: Any) -> None:
    """Raises ElasticError for a parameter of which each worker would hold another part, in a run whose workers are one process."""
    for name, parameter in model.named_parameters():
        if is_divided(parameter):
            raise ElasticError(f"parameter '{name}' is divided among processes. Workers hold whole models, or are replicas of several "
                               "processes: call elastictrain.torch.replica(size) first, and divide the model among them")


def refuse_whole(named: Sequence[Tuple[str, Any]], model: Any, accumulation: int, here: _replica.Replica) -> None:
    """Raises ElasticError for a model that torch's fully_shard() has not divided among all processes of the replica: gradients of
    what is whole would not be averaged between them."""
    if not any(kind.__name__ == "FSDPModule" for kind in type(model).__mro__):
        raise ElasticError(f"a replica of {here.size} processes trains a model that fully_shard() has divided among them; this "
                           f"{type(model).__name__} is not divided")
    averaged = _parameters_of_fsdp(model)
    for name, parameter in named:
        mesh = getattr(parameter, "device_mesh", None)
        if mesh is None:
            raise ElasticError(f"parameter '{name}' is whole in each process of the replica, whose gradients would differ; let "
                               "fully_shard() divide it")
        if id(parameter) not in averaged:
            raise ElasticError(f"parameter '{name}' is divided, but not by fully_shard(): tensor parallelism needs the same batch in "
                               "the processes that share a layer, and they get different ones")
        over = averaged[id(parameter)]
        if over != here.size or mesh.size() != here.size:
            raise ElasticError(f"parameter '{name}' is divided over a mesh of {'x'.join(map(str, mesh.shape))} processes, {over} of which "
                               f"average its gradient; possible is one whose {here.size} processes, all of the replica, do")
    if accumulation > 1:
        raise ElasticError("accumulation is not possible in a replica of several processes; use `with run.no_sync():` around all "
                           "but the last backward pass, or a larger batch")


def _parameters_of_fsdp(model: Any) -> Dict[int, int]:
    """The number of processes among which FSDP averages the gradient of each of its parameters, by id: over all dimensions of the
    mesh that it was given, and not over one of tensor parallelism."""
    return {id(part.sharded_param): group.mesh_info.mesh.size() for group in _groups_of_fsdp(model) for part in group.fsdp_params}


def _groups_of_fsdp(model: Any) -> List[Any]:
    states = [module._get_fsdp_state() for module in model.modules() if hasattr(module, "_get_fsdp_state")]
    groups = [group for state in states for group in getattr(state, "_fsdp_param_groups", None) or [state._fsdp_param_group]]
    return [group for group in groups if group is not None]


def divided_parameters(model: Any) -> List[Any]:
    """The parameters of a model that fully_shard() has divided, as its optimizer has them; model.parameters() are others while
    they are gathered, which an evaluation may leave them."""
    parts = [part for group in _groups_of_fsdp(model) for part in group.fsdp_params]
    gathered = {id(getattr(part, "_unsharded_param", None)) for part in parts}
    own = {id(part.sharded_param) for part in parts}
    others = [parameter for parameter in model.parameters() if id(parameter) not in gathered | own]
    return [*(part.sharded_param for part in parts), *others]


def local(tensor: Any) -> torch.Tensor:
    """The part of a divided tensor that this process holds; any other tensor itself."""
    found: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    return found


def is_divided(tensor: Any) -> bool:
    return hasattr(tensor, "_local_tensor")


def like(tensor: Any, values: torch.Tensor) -> torch.Tensor:
    """`values` as the part of a tensor that is divided as this one."""
    if not is_divided(tensor):
        return values
    from torch.distributed.tensor import DTensor
    return DTensor.from_local(values, tensor.device_mesh, tensor.placements, run_check=False, shape=tensor.shape,
                              stride=tensor.stride())


def reduce_over_all(session: Any, here: _replica.Replica, values: torch.Tensor, operation: str) -> None:
    """In place, over all processes of all replicas."""
    inside = "sum" if operation == "mean" else operation
    if inside not in _OPERATIONS:
        raise ValueError(f"values can be reduced by mean, {', '.join(_OPERATIONS)}, not by {operation!r}")
    dist.all_reduce(values, _OPERATIONS[inside])
    if here.is_first:
        _exchange.reduce(session, values, operation)
    dist.broadcast(values, 0)
    if operation == "mean":
        values.copy_(values / here.size if values.is_floating_point() else
                     torch.div(values, here.size, rounding_mode="trunc"))


_OPERATIONS = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN, "product": dist.ReduceOp.PRODUCT}
