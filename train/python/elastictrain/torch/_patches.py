"""Puts elastictrain's functions in the places of torch's, for a script that changes nothing."""

import contextlib
import functools
import itertools
import sys
from typing import Any, Callable, Iterator, List

import torch
import torch.distributed.algorithms.join
import torch.multiprocessing
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from . import (_accelerate, _collectives, _lightning, _loggers, _prefetchers, _replica_script, _script, _script_model,
               _side_effects, _torchtitan, _trackers, _transformers)
from ._imports import after_import
from ._script import script
from ..errors import ElasticError


def install() -> None:
    """Call it before the script is run or imports anything of torch.distributed. Once; further calls do nothing."""
    if DataLoader.__iter__ is not _script.iterate:
        return
    _replica_script.begin()
    is_replica = _replica_script.is_on()
    if not is_replica:
        _collectives.install()
        for module in (torch.nn.parallel, torch.nn.parallel.distributed):
            setattr(module, "DistributedDataParallel", _script_model.ElasticModel)
    setattr(torch.nn.SyncBatchNorm, "convert_sync_batchnorm", staticmethod(_refuse_sync_batchnorm))
    setattr(torch.distributed.algorithms.join, "Join", _Join)
    setattr(DataLoader, "__iter__", lambda loader: script.batches(loader))
    _follow_length()
    _repeat_loaders()
    _refuse_spawn()
    find("optimizer", Optimizer)
    register_optimizer_step_pre_hook(lambda optimizer, *_: script.note_update(optimizer))
    find("scheduler", torch.optim.lr_scheduler.LRScheduler)
    find("scaler", torch.amp.GradScaler)
    find("average", torch.optim.swa_utils.AveragedModel)
    _skip_steps_of_scalers()
    _average_once()
    _note_files()
    script.opened.install()
    _loggers.install()
    _prefetchers.install()
    _side_effects.install()
    _trackers.install()
    _torchtitan.install()
    if is_replica:
        _replica_script.install()
        _accelerate.install_in_replica()
        _transformers.install_in_replica()
        _lightning.install_in_replica()
        return
    _follow_membership()
    after_import("torch.distributed.fsdp.fully_sharded_data_parallel", _refuse_fsdp)
    _accelerate.install()
    _lightning.install()
    _transformers.install()


def _refuse_fsdp(module: Any) -> None:
    module.FullyShardedDataParallel.__init__ = _collectives.refusal_of_parts("fsdp.FullyShardedDataParallel")


def _refuse_sync_batchnorm(*_: Any, **__: Any) -> Any:
    raise ElasticError("this script needs SyncBatchNorm, which waits for all workers in each forward pass; with BatchNorm "
                       "elastictrain averages the running statistics over the samples of a step")


class _Join(contextlib.nullcontext):  # type: ignore[type-arg]
    """In place of torch's context for uneven inputs: each worker takes part in each step anyway."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()


def find(kind: str, base: type) -> None:
    """Notes every object of a class when it is made."""
    original = base.__init__  # type: ignore[misc]

    @functools.wraps(original)
    def noting(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        known: List[Any] = script.found[kind]
        if not any(thing is self for thing in known):
            known.append(self)

    base.__init__ = noting  # type: ignore[misc]


def _skip_steps_of_scalers() -> None:
    """There are no gradients in epochs through which a new worker only passes. One that rehearses makes an update without any
    effect, whatever its gradients are."""
    for name in ("unscale_", "step", "update"):
        setattr(torch.amp.GradScaler, name, _skipped_while_forwarding(getattr(torch.amp.GradScaler, name)))


def _skipped_while_forwarding(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(*arguments: Any, **named: Any) -> Any:
        if script.run is not None and original.__name__ == "step":
            script.run.before_update()
            script.run.note_update(arguments[1])
        return None if script.is_apart or script.makes_no_update else original(*arguments, **named)

    return method


def _average_once() -> None:
    """In a run that resumes, the first step's update of an average is part of the state."""
    original = torch.optim.swa_utils.AveragedModel.update_parameters

    @functools.wraps(original)
    def update_parameters(self: Any, model: Any) -> None:
        if script.run is None or script.run.updates(self):
            original(self, model)

    setattr(torch.optim.swa_utils.AveragedModel, "update_parameters", update_parameters)


SHOWING = ("rich", "tqdm", "transformers")  # modules that compute nothing from it; the length of an epoch of Trainer is replaced


def _follow_length() -> None:
    """The length of the training loader is that of the present loop, on all workers."""
    original = DataLoader.__len__

    @functools.wraps(original)
    def length(loader: Any) -> int:
        asks = sys._getframe(1).f_globals.get("__name__") or ""
        known = script.length(loader, is_shown=asks.partition(".")[0] in SHOWING)
        return original(loader) if known is None else known

    setattr(DataLoader, "__len__", length)


def _repeat_loaders() -> None:
    """itertools.cycle() keeps the batches of the first pass, and would never ask for those of the next epoch."""
    class Cycle(itertools.cycle):  # type: ignore[type-arg]
        def __new__(cls, iterable: Any) -> Any:
            return _batches_of_all_epochs(iterable) if isinstance(iterable, DataLoader) else itertools_cycle(iterable)

    itertools_cycle = itertools.cycle
    setattr(itertools, "cycle", Cycle)


def _batches_of_all_epochs(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


def _refuse_spawn() -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise ElasticError("this script starts its own workers (torch.multiprocessing.spawn), but elastictrain has started this one "
                           "of them already. Call the function of one worker directly, with int(os.environ['RANK']) and "
                           "int(os.environ['WORLD_SIZE']), as for torchrun")

    for name in ("spawn", "start_processes"):
        setattr(torch.multiprocessing, name, refuse)


def _note_files() -> None:
    """A large file may take longer to write than a step to compute."""
    original = torch.save

    @functools.wraps(original)
    def save(*arguments: Any, **named: Any) -> Any:
        if script.run is not None and script.run.is_started and not script.is_apart:
            script.run.session.phase("checkpoint")
            if script.run.takeover is not None:
                script.run.takeover.note_saved()
        return original(*arguments, **named)

    setattr(torch, "save", save)


def _follow_membership() -> None:
    """Samplers of an evaluation divide among the present workers."""
    original, construct = DistributedSampler.__iter__, DistributedSampler.__init__

    @functools.wraps(construct)
    def constructed(self: Any, dataset: Any, num_replicas: Any = None, rank: Any = None, *rest: Any, **named: Any) -> None:
        self._is_elastic = num_replicas is None and rank is None
        if self._is_elastic and script.is_initialized:
            num_replicas, rank = script.world_size, min(script.rank, script.world_size - 1)
        construct(self, dataset, num_replicas, rank, *rest, **named)

    def divided(self: Any) -> Any:
        if self._is_elastic and script.is_initialized:
            options = dict(shuffle=self.shuffle, seed=self.seed, drop_last=self.drop_last)
            epoch = self.epoch
            construct(self, self.dataset, script.world_size, min(script.rank, script.world_size - 1), **options)
            self.epoch = epoch
        return original(self)

    setattr(DistributedSampler, "__init__", constructed)
    setattr(DistributedSampler, "__iter__", divided)
