"""Replicas of several processes: a model that is divided among them is trained as one worker of the run.

Inside a replica PyTorch's own process group does what it does; across replicas the run averages gradients, part by part.
"""

import os
import random
import sys
from typing import Any, Dict, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from .. import _replica
from ..errors import ElasticError

_threads_at_import = len(os.listdir("/proc/self/task"))


PROCESSES = "ELASTICTRAIN_PER_REPLICA"  # as the run says it: --per-replica


def replica(size: Optional[int] = None) -> "Place":
    """Makes this worker a replica of so many processes, or of as many as `elastictrain run --per-replica` says, and returns this
    process's place in it. Call it first in the program, before anything is computed: the other processes begin here, as copies of
    this one. torch.distributed is initialised for the processes of the replica, with gloo, and nccl for GPUs:
    `init_device_mesh("cpu", (size,))`, `fully_shard(model)` and the like see only them.

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
    dist.init_process_group(backends(), store=store, rank=here.index, world_size=size)
    return Place(here.index, size)


def backends() -> str:
    """Of a replica's processes: gloo, and for devices that this machine has what torch uses there."""
    if torch.cuda.is_available():
        return "cpu:gloo,cuda:nccl"
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None or not accelerator.is_available():
        return "gloo"
    kind = accelerator.current_accelerator().type
    return f"cpu:gloo,{kind}:{dist.get_default_backend_for_device(kind)}"


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
        torch.set_num_threads(max(1, torch.get_num_threads() // here.local_size))
    _set_environment(here)
    _begin_alike(here)
    return here, _store(here)


class Place:
    """`index`: of this process, from 0. `size`: of the replica."""

    def __init__(self, index: int, size: int) -> None:
        self.index, self.size = index, size


def _set_environment(here: _replica.Replica) -> None:
    os.environ.update(RANK=str(here.index), WORLD_SIZE=str(here.size), LOCAL_RANK=str(here.index % here.local_size),
                      LOCAL_WORLD_SIZE=str(here.local_size))
    if here.hosts is not None:
        os.environ.update(GROUP_RANK=str(here.hosts.number))
    interface = "lo" if here.hosts is None else here.hosts.interface
    if interface:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)


def _begin_alike(here: _replica.Replica) -> None:
    """Those of other hosts are no copies of the first one: they get its random numbers."""
    for index in here.remotes:
        here.channels[index - 1].send(_random_numbers())
    if here.sums is None:
        return
    states, _ = here.channels[0].receive()
    torch.set_rng_state(states["torch"])
    random.setstate(states["python"])
    if "numpy" in states:
        import numpy
        numpy.random.set_state(states["numpy"])


def _random_numbers() -> Dict[str, Any]:
    states: Dict[str, Any] = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if "numpy" in sys.modules:
        states["numpy"] = sys.modules["numpy"].random.get_state()
    return states


def _store(here: _replica.Replica) -> dist.Store:
    address = "127.0.0.1" if here.hosts is None else here.hosts.address[0]
    if here.is_first:
        store = dist.TCPStore(address, 0, here.size, is_master=True, wait_for_workers=False)
        for channel in here.channels:
            channel.send(store.port)
    else:
        port, _ = here.channels[0].receive()
        store = dist.TCPStore(address, port, here.size, is_master=False)
    os.environ.update(MASTER_ADDR=address, MASTER_PORT=str(store.port))
    return store


class Units:
    """The samples of each epoch in an order of their own, in units of one for each batch that a replica trains on at a time: what
    the session counts as a sample is such a unit, so that all processes have as many. The last samples of an epoch that are less
    than a unit are left out; which ones these are differs from epoch to epoch where the order is shuffled."""

    def __init__(self, size: int, shuffle: bool, seed: int, unit: int, place: int, order: Any = None) -> None:
        """`unit`: its samples, of which this process has the one at `place`. `order`: of the samples, if they have one already; as
        _sampling.Order."""
        self._size, self._shuffle, self._seed, self._unit, self._place, self._order = size, shuffle, seed, unit, place, order
        self._epoch: Optional[int] = None
        self._drawn: Sequence[int] = range(size)
        if size < unit:
            raise ElasticError(f"{size} samples are fewer than the {unit} processes of a replica that have each its own")

    def __len__(self) -> int:
        return self._size // self._unit

    @property
    def words(self) -> str:
        """What the order is drawn by."""
        return f"shuffled with seed {self._seed}" if self._shuffle else "in order"

    def enter(self, epoch: int) -> None:
        if epoch != self._epoch and self._shuffle:
            generator = torch.Generator().manual_seed(self._seed + epoch)
            self._drawn = torch.randperm(self._size, generator=generator).tolist()
        self._epoch = epoch
        if self._order is not None:
            self._order.enter(epoch)

    def indices(self, places: Sequence[int]) -> Tuple[int, ...]:
        drawn = tuple(self._drawn[place * self._unit + self._place] for place in places)
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


def part_as(tensor: Any, gradient: Any) -> torch.Tensor:
    """This process's part of a gradient, divided as the tensor is. Of a layer whose inputs are parts, as SequenceParallel's are, it
    may be a sum that is still to be made: then it is made here, in all processes that the tensor is divided among."""
    if is_divided(gradient) and gradient.placements != tensor.placements:
        gradient = gradient.redistribute(placements=tensor.placements)
    return local(gradient)
