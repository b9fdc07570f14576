"""Lightning's fit loop over the batches of a run: an epoch ends with its data, not with a number of batches."""

import enum
import os
from typing import Any, Dict, Iterator, Optional

from lightning.pytorch.loops.fetchers import _DataFetcher
from lightning.pytorch.loops.fit_loop import _FitLoop
from lightning.pytorch.loops.training_epoch_loop import _TrainingEpochLoop
from torch.utils.data import DataLoader, IterableDataset

from ..errors import ElasticError
from ..torch._script import script
from ..torch._script_run import Epoch


def prepare(trainer: Any) -> None:
    """Replaces its loops in place, with the limits and the progress that they have."""
    _refuse(trainer)
    trainer.num_sanity_val_steps = 0  # a worker that joins later would make them alone
    trainer.fit_loop.__class__ = FitLoop
    trainer.fit_loop.epoch_loop.__class__ = EpochLoop
    script.has_adapter = script.has_own_loop = True
    script.accumulation = trainer.accumulate_grad_batches
    script.state["lightning"] = Progress(trainer)


def name_versions(loggers: Any) -> None:
    """A version that is counted from the folders would differ between workers."""
    name = os.environ.get("ELASTICTRAIN_JOB_ID")
    for logger in loggers:
        if name and getattr(logger, "_version", name) is None:
            logger._version = name


def show_progress(trainer: Any) -> None:
    """By a worker that is the first one now."""
    bar = trainer.progress_bar_callback
    if bar is not None and getattr(bar, "is_disabled", False):
        bar.enable()
        bar.on_train_start(trainer, trainer.lightning_module)
        bar.on_train_epoch_start(trainer, trainer.lightning_module)


class FitLoop(_FitLoop):
    def setup_data(self) -> None:
        if self._combined_loader is not None:
            return
        super().setup_data()
        assert self._combined_loader is not None
        loaders = self._combined_loader.flattened
        if len(loaders) != 1 or not isinstance(loaders[0], DataLoader):
            raise ElasticError("ElasticStrategy trains on the batches of one DataLoader; two training loaders have no common "
                               "order of samples. Join their datasets")
        if isinstance(loaders[0].dataset, IterableDataset):
            raise ElasticError("ElasticStrategy counts the samples of the training loader, and an IterableDataset cannot be counted. Use "
                               "a dataset with __len__() and __getitem__(), or a loop of the script's own, as with Fabric")
        self.loader: DataLoader = loaders[0]
        limit = self.trainer.limit_train_batches
        self.max_batches = limit if isinstance(limit, int) else float("inf")
        if isinstance(self.trainer.val_check_interval, float):
            self.trainer.val_check_batch = float("inf")
        self._data_fetcher = Batches(self)
        iter(self._data_fetcher)

    def on_run_start(self) -> None:
        super().on_run_start()  # its barriers wait for nobody: workers join when they are ready
        trainer = self.trainer
        run = script.begin(self.loader, lambda batch: _pass(trainer.lightning_module, batch))
        self._entered: Optional[Epoch] = run.enter_epoch()
        strategy: Any = trainer.strategy
        strategy.joined(run)
        _count(self.epoch_progress.current, self._entered.epoch)

    def batches(self) -> Iterator[Any]:
        assert script.run is not None
        entered = self._entered or script.run.enter_epoch()
        self._entered = None
        if entered.epoch < self.trainer.current_epoch:
            raise ElasticError(f"epoch {self.trainer.current_epoch} ended before all of its samples were used (a hook returned "
                               "-1, or training was told to stop); a run ends an epoch with its data")
        entered.catch_up()
        yield from entered.batches()


class EpochLoop(_TrainingEpochLoop):
    def run(self, data_fetcher: Any) -> None:
        super().run(data_fetcher)
        if data_fetcher.done:
            self._end_epoch(data_fetcher)

    def _end_epoch(self, data_fetcher: Any) -> None:
        """What Lightning does at the last batch of an epoch, which is known as such when there is no other one."""
        self.batch_progress.is_last_batch = True
        self.update_lr_schedulers("epoch", update_plateau_schedulers=False)
        if self._should_check_val_fx(data_fetcher):
            self.trainer.validating = True
            self.val_loop.run()
            self.trainer.training = True

    def _broadcast_sigterm_tensor(self) -> None:
        """The launcher tells the workers to leave."""


class Batches(_DataFetcher):
    """The batches of one epoch; none is fetched before it is asked for."""

    def __init__(self, loop: FitLoop) -> None:
        super().__init__()
        self._loop = loop
        assert loop._combined_loader is not None
        self.setup(loop._combined_loader)

    def __iter__(self) -> "Batches":
        self.iterator = self._loop.batches()
        self.fetched, self.done, self.length = 0, False, None
        return self

    def reset(self) -> None:
        self.fetched = 0

    def __next__(self) -> Any:
        batch = super().__next__()
        assert script.run is not None
        number = script.run.batch_in_epoch
        _count(self._loop.epoch_loop.batch_progress.current, number)
        return batch, number, 0


class Progress:
    """What of a Trainer is equal on all workers."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def state_dict(self) -> Dict[str, Any]:
        loop = self._trainer.fit_loop.epoch_loop
        return {"steps": loop.automatic_optimization.optim_progress.optimizer.step.total.completed,
                "batches": loop._batches_that_stepped,
                "callbacks": [callback.state_dict() for callback in self._trainer.callbacks]}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        loop = self._trainer.fit_loop.epoch_loop
        step = loop.automatic_optimization.optim_progress.optimizer.step.total
        step.ready = step.completed = state["steps"]
        loop._batches_that_stepped = state["batches"]
        for callback, values in zip(self._trainer.callbacks, state["callbacks"]):
            if values:
                callback.load_state_dict(values)
                _complete(callback, values)


def _count(tracker: Any, number: int) -> None:
    """Of epochs or batches that are complete."""
    tracker.ready = tracker.started = tracker.processed = tracker.completed = number


def _complete(callback: Any, values: Dict[str, Any]) -> None:
    """What a callback saves and does not load: the last score of ModelCheckpoint."""
    held = vars(callback)
    held.update({name: value for name, value in values.items() if name in held and not isinstance(held[name], enum.Enum)})


def _pass(module: Any, batch: Any) -> None:
    """A trial pass by the program's own step, which logs nothing."""
    module.log = module.log_dict = lambda *_, **__: None
    try:
        output = module.training_step(batch, 0)
        (output["loss"] if isinstance(output, dict) else output).backward()
    finally:
        del module.log, module.log_dict


def _refuse(trainer: Any) -> None:
    """Raises ElasticError for what a run cannot count."""
    if not trainer.lightning_module.automatic_optimization:
        raise ElasticError("ElasticStrategy needs automatic optimization: each batch of the run is a part of one step")
    limit = trainer.limit_train_batches
    ends_last_epoch = isinstance(limit, int) and trainer.max_epochs == 1 and limit % trainer.accumulate_grad_batches == 0
    if limit != 1.0 and not ends_last_epoch:
        raise ElasticError("limit_train_batches would end an epoch before all of its samples were used; ElasticStrategy counts "
                           "each sample once. Use a smaller dataset, max_steps, or a number of whole steps with max_epochs=1")
    if isinstance(trainer.val_check_interval, float) and trainer.val_check_interval != 1.0:
        raise ElasticError("val_check_interval as a part of an epoch has no number of batches when workers come and go; give a "
                           "number of batches")
