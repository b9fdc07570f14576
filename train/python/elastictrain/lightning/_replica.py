"""Lightning's ModelParallelStrategy in a replica of several processes. Its world is the replica; what it decides and writes once, that
the first replica does for all.
"""

import os
import pickle
import threading
from typing import Any, Callable, List, Optional

import torch
from lightning.fabric.plugins.environments import ClusterEnvironment
from lightning.fabric.utilities import rank_zero as _fabric_rank_zero
from lightning.pytorch.strategies import Strategy as TrainerStrategy
from lightning.pytorch.trainer.states import TrainerFn
from lightning.pytorch.utilities import rank_zero as _rank_zero

from . import _loop
from .. import _replica
from ..errors import ElasticError
from ..session import RUNNING
from ..torch import _exchange
from ..torch._group_board import is_successor, own_rank
from ..torch._script import script

SIZES = ("this script's ModelParallelStrategy divides its model over {} x {} processes (data_parallel_size x tensor_parallel_size), and its "
         "replica has {}. Start the run with --per-replica {}")
OTHER_CALL = ("the replicas exchange values in the same order, but this one came to {} and another one to {}; hooks and callbacks exchange "
              "in all replicas or in none")


def in_replica(strategy: Any) -> Any:
    """That of a Trainer, or of Fabric. The script's own variable has the same attributes."""
    if isinstance(strategy, InReplica):
        return strategy
    kind, own = type(strategy), OfTrainer if isinstance(strategy, TrainerStrategy) else OfFabric
    made = object.__new__(type(kind.__name__, (own, kind), {"__module__": kind.__module__}))
    made.__dict__ = strategy.__dict__
    return made


def place() -> _replica.Replica:
    here = _replica.current()
    assert here is not None
    return here


# --- All replicas

def is_of_first_replica() -> bool:
    run = script.run
    if run is not None and run.is_started:
        return bool(run.rank == 0)
    return own_rank() == 0 and not is_successor()  # it is the first one as any other that is so later: with what the others know


def is_first() -> bool:
    return place().is_first and is_of_first_replica()


def are_together() -> bool:
    """Whether all replicas do the same as this one does now."""
    run = script.run
    is_training = run is not None and run.is_started and run.outcome == RUNNING and not script.is_apart
    return is_training and threading.get_ident() == script.thread


def gather(what: str, part: bytes) -> List[bytes]:
    """Of the process with this one's place in each replica, new ones last; its own alone before they train. `what` is exchanged: a
    replica that comes without batches at the end of an epoch may have less to exchange there than the others, who go on without it."""
    run = script.run
    if run is None or not are_together():
        return [part]
    found = [pickle.loads(one) for one in run.gather(pickle.dumps((run.is_new, what, part)))]
    for is_new, other, _ in found:
        if other != what and (run.is_new or not is_new):
            raise ElasticError(OTHER_CALL.format(what, other))
    return [value for _, other, value in sorted(found, key=lambda one: bool(one[0])) if other == what]


class ReplicaEnvironment(ClusterEnvironment):
    """The processes are there, and their number never changes."""

    creates_processes_externally = True
    main_address = property(lambda self: os.environ["MASTER_ADDR"])
    main_port = property(lambda self: int(os.environ["MASTER_PORT"]))

    @staticmethod
    def detect() -> bool:
        return True

    def world_size(self) -> int:
        return place().size

    def set_world_size(self, size: int) -> None:
        """It is the replica's."""

    def global_rank(self) -> int:
        return place().index

    def set_global_rank(self, rank: int) -> None:
        """The same."""

    def local_rank(self) -> int:
        return place().index

    def node_rank(self) -> int:
        return 0


# --- The strategies

class InReplica:
    """Comes before the strategy's own class. Thread: the training thread."""

    def setup_environment(self: Any) -> None:
        asked = (self._data_parallel_size, self._tensor_parallel_size)
        data, tensor = (usual if size == "auto" else size for size, usual in zip(asked, (1, place().size)))
        if data * tensor != place().size:
            raise ElasticError(SIZES.format(data, tensor, place().size, data * tensor))
        super().setup_environment()  # type: ignore[misc]

    def set_world_ranks(self) -> None:
        self.follow()

    _set_world_ranks = set_world_ranks  # Fabric's

    def follow(self) -> None:
        """What Lightning keeps of the rank: who writes."""
        rank = 0 if is_first() else max(1, place().index)
        _rank_zero.rank_zero_only.rank = _fabric_rank_zero.rank_zero_only.rank = rank  # type: ignore[attr-defined]

    def barrier(self, *arguments: Any, **named: Any) -> None:
        super().barrier(*arguments, **named)  # type: ignore[misc]
        gather("a barrier", b"")

    def broadcast(self, obj: Any, src: int = 0) -> Any:
        """A path, or whether a file exists: what the first replica has decided."""
        obj = super().broadcast(obj, src)  # type: ignore[misc]
        return pickle.loads(gather("a broadcast", pickle.dumps(obj))[0]) if are_together() else obj

    def reduce_boolean_decision(self, decision: bool, all: bool = True) -> bool:
        own = torch.tensor(int(decision))
        torch.distributed.distributed_c10d.all_reduce(own)
        is_so = bool(own == place().size) if all else bool(own)
        parts = gather("a decision", b"%d" % is_so)
        return b"0" not in parts if all else b"1" in parts

    def write(self, original: Callable[[], None], path: Any) -> None:
        """`original` begins with a broadcast of the path."""
        run = script.run
        if run is not None and run.is_started:
            run.session.phase("checkpoint")
        if is_of_first_replica():
            original()
        else:
            self.broadcast(path)


class OfTrainer(InReplica):
    """Its loops are those of ElasticStrategy, over the batches of the run."""

    _trainer: Any = None
    is_global_zero = property(lambda self: is_first())

    def setup_environment(self: Any) -> None:
        super().setup_environment()
        self._trainer = self.lightning_module.trainer
        _loop.name_versions(self._trainer.loggers)

    def setup(self, trainer: Any) -> None:
        if trainer.state.fn == TrainerFn.FITTING:
            _loop.prepare(trainer)
        super().setup(trainer)  # type: ignore[misc]

    def joined(self, run: Any) -> None:
        """The run has begun for this worker."""
        self.follow()
        run.on_change(lambda change: self.follow())

    def follow(self) -> None:
        super().follow()
        if self._trainer is not None and is_first():
            _loop.show_progress(self._trainer)

    def reduce(self, tensor: Any, group: Optional[Any] = None, reduce_op: Any = "mean") -> Any:
        """Of training, over all replicas, where a sum is that of one in the mean; an evaluation goes over all of its data in each."""
        if not isinstance(tensor, torch.Tensor) or not are_together():
            return super().reduce(tensor, group, reduce_op)  # type: ignore[misc]
        name = str(reduce_op or "sum").lower().rsplit(".", 1)[-1].replace("avg", "mean")
        values = tensor.detach().cpu().clone().contiguous()
        values = values if values.is_floating_point() else values.double()
        operation = getattr(torch.distributed.ReduceOp, "SUM" if name == "mean" else name.upper())
        torch.distributed.distributed_c10d.all_reduce(values, operation, group)
        if name == "mean":
            values /= torch.distributed.get_world_size(group)
        parts = [torch.frombuffer(bytearray(part), dtype=values.dtype).reshape(values.shape)
                 for part in gather(f"the {name} of {tuple(values.shape)} values", _exchange.bytes_of(values))]
        return _exchange.fold(parts, "mean" if name == "sum" else name) if self._trainer.training else parts[0]

    def load_checkpoint(self: Any, *arguments: Any, **named: Any) -> Any:
        """For an evaluation behind the training the optimizers stay as they are: their state is the run's."""
        held, evaluates = self.optimizers, self._trainer.state.fn != TrainerFn.FITTING
        try:
            self.optimizers = [] if evaluates else held
            return super().load_checkpoint(*arguments, **named)  # type: ignore[misc]
        finally:
            self.optimizers = held

    def save_checkpoint(self, checkpoint: Any, filepath: Any, storage_options: Optional[Any] = None) -> None:
        save = super().save_checkpoint  # type: ignore[misc]
        self.write(lambda: save(checkpoint, filepath, storage_options), filepath)


class OfFabric(InReplica):
    """The loop is the script's own, and the same in each replica: its rank there is 0 in each."""

    def backward(self, *arguments: Any, **named: Any) -> None:
        self.follow()
        super().backward(*arguments, **named)  # type: ignore[misc]

    def save_checkpoint(self, path: Any, *arguments: Any, **named: Any) -> None:
        save = super().save_checkpoint  # type: ignore[misc]
        self.write(lambda: save(path, *arguments, **named), path)
        self.barrier()
