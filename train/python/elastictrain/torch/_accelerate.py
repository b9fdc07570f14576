"""accelerate in a script that changes nothing: figures that follow the membership, training batches from the run.

accelerate divides a loader among the processes when it prepares it, and loads one batch ahead to know the last one. The
training loader's batches come from the run instead; other loaders divide among the present workers. With split_batches=True
a batch has its size at any number of workers, and its parts differ by one sample at most.
"""

import functools
import itertools
from typing import Any, Callable, Iterator, List

from torch.utils.data import IterableDataset

from ._imports import after_import
from ._script import script


def install() -> None:
    after_import("accelerate.state", _change_state)
    after_import("accelerate.data_loader", _change_loaders)
    after_import("accelerate.optimizer", _note_optimizers)
    after_import("accelerate.utils.operations", _change_operations)


# --- The state of accelerate

def _change_state(module: Any) -> None:
    for state in (module.PartialState, module.AcceleratorState):
        state.num_processes = _live(lambda: script.world_size)
        state.process_index = _live(lambda: script.rank)
        state.local_process_index = _live(lambda: script.local_rank)
    module.PartialState.use_distributed = property(lambda self: True)
    module.PartialState.is_local_main_process = property(lambda self: script.is_first_on_host)
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


# --- Loaders

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
    for kind in (module.DataLoaderShard, module.DataLoaderDispatcher):
        kind.__iter__ = _iteration(kind.__iter__, module)


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
