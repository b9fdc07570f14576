"""The training loop of a PyTorch program: `elastic()` and the run that it returns."""

import contextlib
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from . import _exchange, _loader, _optimizers, _trial
from ._buffers import Buffers, has_statistics
from ._companion import Companion
from ._gradients import Gradients
from ._loader import Loader
from ._state import State
from .. import session as _session
from ..errors import ElasticError
from ..session import Batch, Change, Session

STEPS_THAT_MAY_COMPILE = 3


def elastic(model: nn.Module, optimizer: Union[Optimizer, Sequence[Optimizer]], dataset: Any, *, batch: int = 32,
            epochs: int = 1, state: Optional[Dict[str, Any]] = None, shuffle: bool = True, seed: int = 0,
            max_steps: int = 0, drop_last: bool = False, min_batch: Optional[int] = None,
            warm_up: Optional[Callable[[Any], Any]] = None, leave: str = "exit", **loader: Any) -> "ElasticRun":
    """Makes a training loop elastic. Call it once, when model and optimizer are complete and on their device.

    model: a module with float32, float16 or bfloat16 parameters, on a CPU or a CUDA device, equal on all workers.
    optimizer: one, or several for disjoint parameters; its state is created here.
    dataset: has __getitem__ and __len__; or a DataLoader, whose settings are taken over.
    batch: samples per worker and step, unless the launcher sets it. The loss must be a mean over the samples.
    state: what else an update changes, by name: schedulers, a GradScaler, averaged models, tensors, dictionaries.
    min_batch: samples that a batch has at least; by default 2 for a model with BatchNorm, which cannot train on one.
    warm_up: a function of a batch that makes one forward and backward pass; by default a pass is guessed.
    leave: "exit": the loop ends the program with status 0 when this worker leaves or the run is stopped; "return": the
        loop ends, and `run.outcome` tells why.
    loader: options of torch's DataLoader: num_workers, collate_fn, prefetch_factor, multiprocessing_context, …

    Raises TypeError for what cannot be trained in this way, and SessionError where the run cannot be joined.
    """
    if leave not in ("exit", "return"):
        raise ValueError(f"leave is 'exit' or 'return', not {leave!r}")
    if isinstance(dataset, DataLoader):
        batch, loader = dataset.batch_size or batch, {**_loader.options_of(dataset), **loader}
        drop_last, dataset = drop_last or dataset.drop_last, dataset.dataset
    if min_batch is None:
        min_batch = 2 if has_statistics(model) else 0
    data = dict(epochs=epochs, batch=batch, shuffle=shuffle, seed=seed, max_steps=max_steps, drop_last=drop_last,
                min_local_samples=min(min_batch, batch))
    optimizers = [optimizer] if isinstance(optimizer, Optimizer) else list(optimizer)
    session = Session()
    try:
        return ElasticRun(session, model, optimizers, dataset, data, dict(state or {}), warm_up, leave == "exit", loader)
    except BaseException:
        if not session.launched:  # a notebook may call again; the worker of a run ends with its error
            session.close()
        raise


class ElasticRun:
    """The run as the program sees it. Thread: the training thread.

    `for epoch in run.epochs(): for x, y in run: …` — each batch is one step: one backward pass, then the update.
    """

    def __init__(self, session: Session, model: nn.Module, optimizers: List[Optimizer], dataset: Any,
                 data: Dict[str, Any], objects: Dict[str, Any], warm_up: Optional[Callable[[Any], Any]], exits: bool,
                 loader: Dict[str, Any]) -> None:
        self.session = session
        self._exits = exits
        self._batch: Optional[Batch] = None
        self._is_taken = False  # the open step's data was handed to the program
        self._started = self._is_over = False
        self._loss: Optional[float] = None
        self._callbacks: List[Callable[[Change], None]] = []
        self._steps = 0  # of this process
        device = _device_of(model)
        if device.type == "cuda":
            session.use_device(device.index or 0)
        self._loader = Loader(dataset, loader, self._look_ahead)
        self._size = len(dataset)
        self._samples = self._loader.samples(range(min(int(data["batch"]), self._size)))  # for steps without own ones
        buffers = Buffers(model)
        buffers.find_running(_trial.make_pass(model, self.stand_in(), warm_up))
        self._gradients = Gradients(self.session, _trained(model, optimizers))
        for optimizer in optimizers:
            _optimizers.create_state(optimizer)
            _optimizers.scale_learning_rate(optimizer, lambda: float(self.session.learning_rate_factor))
        self._state = State(self.session, model, optimizers, buffers, objects)
        self._buffers = buffers
        self._companion = Companion(session, self._gradients, buffers, self._state, device)
        self._gradients.before_end, self._gradients.after_end = self._send_companion, self._companion.take
        self.session.set_data(sample_count=self._size, **data)
        self.session.on_change(self._changed)

    # --- The loop

    def epochs(self) -> Iterator[int]:
        """The number of each epoch from the present one on. A worker that joins at the end of an epoch gets this epoch
        without batches, so that it takes part in what the program does then."""
        late = self._enters_late()
        if late is not None:
            yield late
        while self._peek() is not None:
            batch = self._batch
            yield batch.epoch if batch is not None else 0
            if self._batch is batch and not self._is_taken:
                raise ElasticError(f"epoch {batch.epoch if batch else 0} was left without a step; iterate over the run")
        self._leave_if_asked()

    def __iter__(self) -> Iterator[Any]:
        """The batches of the present epoch."""
        batch = self._peek()
        epoch = batch.epoch if batch is not None else None
        while batch is not None and batch.epoch == epoch and not self._late_epoch:
            yield self._take()
            batch = self._peek()
        self._late_epoch = False
        if batch is not None:
            self.session.phase("evaluation")  # what the program does between two epochs, until the next batch
        else:
            self._leave_if_asked()

    def enter_epoch(self) -> "Epoch":
        """The present epoch, of a script that counts its epochs itself."""
        late = self._enters_late()
        batch = self._peek()
        self._leave_if_asked()
        return Epoch(self, late if late is not None else batch.epoch if batch is not None else 0)

    def stop(self) -> None:
        """The data end here, for all workers: the run finishes with status 0. For a program that ends by a condition of its
        own, which all workers reach in the same step. Returns when the run is over."""
        if self._is_over or not self._started:
            return
        self.session.end_data()
        while self._batch is not None:
            if not self._is_taken or not self._gradients.reduced:
                self._pass_without_data()
            self._commit()
            self._batch, self._is_taken = self.session.next_batch(), False
        self._end()

    def no_sync(self) -> Any:
        """`with run.no_sync(): loss.backward()`: for all but the last backward pass of a step that accumulates."""
        return self._inactive()

    @contextlib.contextmanager
    def evaluation(self) -> Iterator[None]:
        """For an evaluation in the middle of an epoch: it may take long, on one worker too."""
        self.session.phase("evaluation")
        try:
            yield
        finally:
            self.session.phase(None)

    def report(self, loss: Any) -> None:
        """The step's loss, the mean over this worker's samples, for `status`, the journal and policies."""
        self._loss = float(loss.detach() if isinstance(loss, torch.Tensor) else loss)

    def on_change(self, callback: Callable[[Change], None]) -> Callable[[Change], None]:
        """Calls back after each change of the membership; usable as a decorator."""
        self._callbacks.append(callback)
        return callback

    def note(self, key: str, value: Any) -> None:
        """Writes a value to the run's journal and summary; the first worker's call counts."""
        self.session.note(key, value)

    def reduce(self, values: torch.Tensor, operation: str = "sum") -> torch.Tensor:
        """In-place all-reduce ("sum", "mean", "max", "min" or "product") of values of any type, between two epochs or in a
        step before its backward pass; all workers call it alike. Without what a worker had that is lost meanwhile; after
        the end of the data a loss raises elastictrain.Interrupted."""
        _exchange.reduce(self.session, values, operation)
        return values

    is_started = property(lambda self: self._started, doc="Whether it has joined.")
    rank = property(lambda self: int(self.session.rank), doc="This worker's place, at present.")
    world_size = property(lambda self: int(self.session.world_size), doc="The number of workers, at present.")
    step = property(lambda self: self._batch.step if self._batch else int(self.session.committed_step),
                    doc="The number of the open step, from 1.")
    share_ahead = property(lambda self: self._loader.share_ahead, doc="Of this worker's batches, those that its loader "
                           "processes were asked for before they were needed.")
    outcome = property(lambda self: self.session.outcome, doc="running, finished, left or stopped.")
    is_first = property(lambda self: self.rank == 0 and self.outcome in (_session.RUNNING, _session.FINISHED),
                        doc="Whether this worker should print and save.")

    def close(self) -> None:
        """Ends the loader's processes and the session. The end of the program does the same."""
        self._loader.close()
        self.session.close()

    # --- Steps

    _late_epoch = False

    def _start(self) -> None:
        if self._started:
            return
        self._started = True
        if not self.session.start():
            self._end()
            return
        self._state.adopt()

    def _enters_late(self) -> Optional[int]:
        """The epoch that ends as this worker joins, if it does."""
        was_started = self._started
        batch = self._peek()
        if was_started or batch is None or not (batch.first_of_epoch and batch.epoch) or batch.local_samples:
            return None
        self._late_epoch = True
        return batch.epoch - 1

    def _peek(self) -> Optional[Batch]:
        """The open step whose data the program has not taken yet; commits the one before."""
        self._start()
        if self._is_over or (self._batch is not None and not self._is_taken):
            return self._batch
        if self._batch is not None:
            self._commit()
        self._batch, self._is_taken = self.session.next_batch(), False
        if self._batch is None:
            self._end()
        elif self._batch.first_of_epoch and self._batch.epoch:
            self._meet()
        return self._batch

    def _meet(self) -> None:
        """At the end of an epoch a joiner needs the state before the program's own code between two epochs."""
        self.session.all_reduce(torch.zeros(1))
        self._state.adopt()

    def _take(self) -> Any:
        batch = self._batch
        assert batch is not None
        self._is_taken = True
        self._gradients.open()
        self._buffers.open()
        self.session.phase("data")
        data = self._loader.take(batch.samples) if batch.local_samples else self.stand_in()
        self._steps += 1
        self.session.phase("compile" if self._steps <= STEPS_THAT_MAY_COMPILE else None)
        return data

    def stand_in(self) -> Any:
        """The batch of a step for which this worker has no samples."""
        return self._loader.collate(self._samples)

    def _pass_without_data(self) -> None:
        """The sums of a step in which nothing is learned."""
        if not self._is_taken:
            self._is_taken = True
            self._gradients.open()
            self._buffers.open()
        self._gradients.end()

    def _commit(self) -> None:
        if not self._gradients.reduced:
            raise ElasticError(f"step {self.step} had no backward pass; each batch of the run needs one, on every worker")
        self._gradients.close()
        if self._steps <= STEPS_THAT_MAY_COMPILE:
            self._state.check_addresses()
        self._state.store()
        loss, self._loss = self._loss, None
        self.session.commit_step(loss)
        if self._companion.is_given_up:
            self._state.adopt()

    def _end(self) -> None:
        self._is_over = True
        self._gradients.close()
        self._loader.close()

    def _leave_if_asked(self) -> None:
        if self._is_over and self._exits and self.outcome != _session.FINISHED:
            raise SystemExit(0)

    @contextlib.contextmanager
    def _inactive(self) -> Iterator[None]:
        was, self._gradients.active = self._gradients.active, False
        try:
            yield
        finally:
            self._gradients.active = was

    def _look_ahead(self, batches: int) -> List[Tuple[int, ...]]:
        most = 4 * max(1, self._batch.local_samples if self._batch else 1)
        return self.session.look_ahead(batches, batches * most)

    def _send_companion(self) -> None:
        self.session.phase(None)
        self._companion.send(counts=self._batch is not None and self._batch.local_samples > 0)

    # --- The others

    def _changed(self, change: Change) -> None:
        for callback in self._callbacks:
            callback(change)


class Epoch:
    """One pass over the data, for a script."""

    def __init__(self, run: ElasticRun, epoch: int) -> None:
        self._run, self.epoch = run, epoch

    def catch_up(self) -> None:
        """Undoes what the script did to the state on its way here."""
        if self._run._late_epoch:
            self._run._state.adopt(always=True)

    def batches(self) -> Iterator[Any]:
        return iter(self._run)


def _device_of(model: nn.Module) -> torch.device:
    devices = {parameter.device for parameter in model.parameters()}
    if len(devices) > 1:
        raise TypeError(f"the model is on {len(devices)} devices; a worker trains on one")
    return devices.pop() if devices else torch.device("cpu")


def _trained(model: nn.Module, optimizers: Sequence[Optimizer]) -> List[Tuple[str, torch.Tensor]]:
    """The parameters that get a gradient, by name. Raises TypeError for one of an optimizer that is not the model's."""
    named: List[Tuple[str, torch.Tensor]] = [
        (name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    known = {id(parameter) for _, parameter in model.named_parameters()}
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            if any(id(parameter) not in known for parameter in group["params"]):
                raise TypeError("the optimizer trains a parameter that is not the model's; pass one module that holds all")
    if not named:
        raise TypeError("no parameter of the model requires a gradient")
    return named
