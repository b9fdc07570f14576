"""accelerate in a script that changes nothing: figures that follow the membership, training batches from the run.

accelerate divides a loader among the processes when it prepares it, and loads one batch ahead to know the last one. The
training loader's batches come from the run instead; other loaders divide among the present workers. With split_batches=True
a batch has its size at any number of workers, and its parts differ by one sample at most.

In a replica of several processes accelerate's world is the replica, and the model one that its FSDP2 has divided.
"""

import functools
import itertools
from typing import Any, Callable, Iterator, List

from torch.utils.data import IterableDataset

from ._imports import after_import
from ._script import script
from ..errors import ElasticError

ONLY_DIVIDED = ("this script's Accelerator does not divide its model by FSDP2, and in replicas of several processes it has to: give it "
                "FullyShardedDataParallelPlugin(fsdp_version=2), or ACCELERATE_USE_FSDP=true and FSDP_VERSION=2 in its environment, and "
                "transformers' Trainer fsdp=True; or start the run without --per-replica")
SPLITS = ("this script's Accelerator has split_batches=True, which divides a batch among the processes; in replicas of several processes "
          "batch_size is that of one process. Leave it out")
DISPATCHES = ("this script's Accelerator has dispatch_batches=True, where one process draws for the others; in replicas of several "
              "processes each draws its own. Leave it out")


def install() -> None:
    after_import("accelerate.state", _change_state)
    after_import("accelerate.data_loader", _change_loaders)
    after_import("accelerate.optimizer", _note_optimizers)
    after_import("accelerate.utils.operations", _change_operations)


def install_in_replica() -> None:
    after_import("accelerate.state", _change_state_of_replica)
    after_import("accelerate.accelerator", _require_division)
    after_import("accelerate.data_loader", _change_training_loaders)
    after_import("accelerate.optimizer", _note_optimizers)
    after_import("accelerate.scheduler", _advance_for_all_replicas)


# --- The state of accelerate

def _change_state(module: Any) -> None:
    for state in (module.PartialState, module.AcceleratorState):
        state.num_processes = _live(lambda: script.world_size)
        state.process_index = _live(lambda: script.rank)
        state.local_process_index = _live(lambda: script.local_rank)
    module.PartialState.use_distributed = property(lambda self: True)
    module.PartialState.is_local_main_process = property(lambda self: script.is_first_on_host)
    _choose_gloo(module)


def _choose_gloo(module: Any) -> None:
    """Where accelerate would not be distributed: on CPUs that nothing names."""
    choose = module.PartialState._prepare_backend

    @functools.wraps(choose)
    def chosen(self: Any, *arguments: Any, **named: Any) -> Any:
        backend, kind = choose(self, *arguments, **named)
        return (backend, kind) if backend is not None else ("gloo", module.DistributedType.MULTI_CPU)

    module.PartialState._prepare_backend = chosen


def _live(value: Callable[[], int]) -> property:
    """What accelerate sets once is not kept."""
    return property(lambda self: value(), lambda self, _: None)


def _note_optimizers(module: Any) -> None:
    """What accelerate puts around an optimizer has its state, which a new worker gets with the model's."""
    construct = module.AcceleratedOptimizer.__init__

    @functools.wraps(construct)
    def constructed(self: Any, *arguments: Any, **named: Any) -> None:
        construct(self, *arguments, **named)
        script.found["wrapper"].append(self)

    module.AcceleratedOptimizer.__init__ = constructed


# --- In a replica of several processes

def _change_state_of_replica(module: Any) -> None:
    """accelerate divides models on devices only; those of replicas are on CPUs. What the first process of each replica would say and
    save, that of the first one does once they train; before, each needs its own, which gives its weights to the others."""
    from . import _replica_script

    _choose_gloo(module)
    construct = module.PartialState.__init__

    @functools.wraps(construct)
    def constructed(self: Any, *arguments: Any, **named: Any) -> None:
        construct(self, *arguments, **named)
        if self.distributed_type == module.DistributedType.MULTI_CPU:
            self.distributed_type = module.DistributedType.MULTI_GPU

    def is_main(self: Any) -> bool:
        return bool(self.process_index == 0) and not (script.is_training_now and _replica_script.is_quiet())

    module.PartialState.__init__ = constructed
    module.PartialState.is_main_process = module.PartialState.is_local_main_process = property(is_main)


def _require_division(module: Any) -> None:
    construct = module.Accelerator.__init__

    @functools.wraps(construct)
    def constructed(self: Any, *arguments: Any, **named: Any) -> None:
        construct(self, *arguments, **named)
        if not self.is_fsdp2:
            raise ElasticError(ONLY_DIVIDED)
        for is_on, text in ((self.split_batches, SPLITS), (self.dispatch_batches, DISPATCHES)):
            if is_on:
                raise ElasticError(text)

    module.Accelerator.__init__ = constructed


def _advance_for_all_replicas(module: Any) -> None:
    """A scheduler advances by the number of processes at each update, which accelerate takes for that of all."""
    step = module.AcceleratedScheduler.step

    @functools.wraps(step)
    def advance(self: Any, *arguments: Any, **named: Any) -> None:
        counts = script.is_training_now and self.step_with_optimizer and not self.split_batches
        for _ in range(script.world_size if counts else 1):
            step(self, *arguments, **named)

    module.AcceleratedScheduler.step = advance


# --- Loaders

def _change_training_loaders(module: Any) -> None:
    for kind in (module.DataLoaderShard, module.DataLoaderDispatcher):
        kind.__iter__ = _iteration(kind.__iter__, module)


def _change_loaders(module: Any) -> None:
    shard = module.BatchSamplerShard
    # Lengths are computed before the training: schedules must not depend on the number of workers at that time.
    shard.num_processes = _live(lambda: script.world_size if script.is_training_now else 1)
    shard.process_index = _live(lambda: min(script.rank, script.world_size - 1) if script.is_training_now else 0)
    shard._iter_with_split = _parts_of_batches
    stream = module.IterableDatasetShard
    stream.num_processes = _live(lambda: script.world_size)
    stream.process_index = _live(lambda: min(script.rank, script.world_size - 1))
    prepare = module.prepare_data_loader

    @functools.wraps(prepare)
    def prepared(dataloader: Any, device: Any = None, num_processes: Any = None, process_index: Any = None,
                 split_batches: bool = False, *rest: Any, **named: Any) -> Any:
        return prepare(dataloader, device, _number_to_divide_by(dataloader, split_batches), 0, split_batches, *rest, **named)

    module.prepare_data_loader = prepared
    _change_training_loaders(module)


def _number_to_divide_by(loader: Any, splits: bool) -> int:
    """What accelerate is told at first: more than one, so that it divides, and a divisor of a batch that it is to divide."""
    batch = loader.batch_size or getattr(loader.batch_sampler, "batch_size", None) or 0
    is_indexed = not isinstance(loader.dataset, IterableDataset)
    return batch if splits and is_indexed and batch > 1 else max(2, script.world_size)


def _parts_of_batches(shard: Any) -> Iterator[Any]:
    """In place of BatchSamplerShard's own, which leaves out what is over where the number of workers is no divisor."""
    first: List[Any] = []
    for batch in shard.batch_sampler:
        first = first or batch
        if len(batch) < shard.batch_size and shard.drop_last:
            return
        if shard.even_batches:
            batch = batch + list(itertools.islice(itertools.cycle(first), shard.batch_size - len(batch)))
        begin, end = (len(batch) * rank // shard.num_processes for rank in (shard.process_index, shard.process_index + 1))
        if begin < end:
            yield batch[begin:end]


def _iteration(original: Callable[[Any], Iterator[Any]], module: Any) -> Callable[[Any], Iterator[Any]]:
    @functools.wraps(original)
    def iterate(loader: Any) -> Iterator[Any]:
        return _Batches(loader, module) if script.is_training(loader.base_dataloader) else original(loader)

    return iterate


class _Batches:
    """The iterator of a loop over a training loader that accelerate prepared."""

    def __init__(self, loader: Any, module: Any) -> None:
        if script.run is None and loader.gradient_state.num_steps > 1:
            script.accumulation = max(script.accumulation, loader.gradient_state.num_steps)
        if script.run is None:
            script.divides_batches = any(getattr(one, "split_batches", False) for one in (loader, loader.batch_sampler))
        self._loader, self._module = loader, module
        loader.begin()
        loader.set_epoch(loader.iteration)
        self._batches: Any = script.batches(loader.base_dataloader)

    def __iter__(self) -> "_Batches":
        return self

    def __next__(self) -> Any:
        try:
            batch = next(self._batches)
        except StopIteration:
            self._loader.iteration += 1
            self._loader.end()
            raise
        device = getattr(self._loader, "device", None)
        return batch if device is None else self._module.send_to_device(batch, device)

    def progress_place(self) -> None:
        """The run knows it."""

    def set_progress_place(self, place: None) -> None:
        """The run knows it."""
        self._batches.set_progress_place(place)


# --- Collectives

def _change_operations(module: Any) -> None:
    """Parts of different sizes: the last batches of an epoch, and what a worker had that is lost. All tensors of one call are
    gathered at once, so that it is left out of all of them."""
    import torch

    from . import _collectives, _exchange

    def gather_all(data: Any) -> Any:
        own: List[Any] = []
        module.recursively_apply(lambda tensor: own.append(tensor.detach().cpu().contiguous()), data, error_on_other_type=True)
        own = [tensor[None] if tensor.ndim == 0 else tensor for tensor in own]
        parts = _exchange.gather_objects(_collectives.gatherer("all_gather"), own)
        gathered = (torch.cat(tensors) for tensors in zip(*parts))
        return module.recursively_apply(lambda tensor: next(gathered).to(tensor.device), data)

    module._gpu_gather = gather_all
