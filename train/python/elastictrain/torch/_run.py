"""The training loop of a PyTorch program: the run that `elastic()` returns. `_script_run` adds what scripts need."""

import collections
import contextlib
import enum
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Tuple

import torch

from . import _compiled, _exchange, _layout, _model, _optimizers, _trial
from ._buffers import Buffers
from ._companion import Companion
from ._first_state import FirstState
from ._gradients import Gradients
from ._likeness import Likeness
from ._loader import Loader, NoLoader
from ._local_state import LocalState
from ._observers import Observers
from ._options import Plan
from ._other_size import UNITS, encode_units
from ._replica import Units, refuse_divided, size_of_run
from ._state import SharedState
from .. import _cuda_libraries, _replica, session as _session
from ..errors import ElasticError
from ..session import Batch, Change, Session

STEPS_THAT_MAY_COMPILE = 3
FEWEST_SAMPLES = 2  # of a stand-in: a BatchNorm cannot train on one


class Stage(enum.IntEnum):
    """Of this process in the run."""
    BEFORE = 0
    JOINING = 1
    JOINED = 2  # its first step opens
    NEW = 3  # it has committed none
    MEMBER = 4
    OVER = 5  # for it


class ElasticRun:
    """The run as the program sees it. Thread: the training thread.

    `for epoch in run.epochs(): for x, y in run: …` — each batch is one step: one backward pass, then the update.
    """

    def __init__(self, session: Session, plan: Plan) -> None:
        self.session = session
        self.accumulation = plan.data.accumulation
        self._parts: Deque[Tuple[int, ...]] = collections.deque()  # of the open step, not taken yet
        self.samples_in_epoch = self.steps_in_epoch = 0  # of committed steps
        self._exits = plan.exits
        self._batch: Optional[Batch] = None
        self._is_taken = False  # the open step's data was handed to the program
        self._stage = Stage.BEFORE
        self._loss: Optional[float] = None
        self._callbacks: List[Callable[[Change], None]] = []
        self._observers = Observers(session)
        self._steps = 0  # of this process
        _model.refuse_lazy(plan.model)
        self._replica = _replica.current()
        self.layout = self._layout_of(plan)
        self._end_bounds = _compiled.offer_bounds()
        device = _model.device_of(plan.model)
        if self._replica is not None:
            _require_own_devices(session, device)
        elif device.type == "cuda":
            _cuda_libraries.name_installed()
            session.use_device(device.index or 0)
            session.use_stream_order()
        self._open_data(plan)
        self._buffers = self._rehearse(plan)
        self._gradients = Gradients(session, self.accumulation, _model.trained(plan.model, plan.optimizers))
        self._share_state(plan)
        self._follow_passes(plan.model)
        self._companion = Companion(session, self._gradients, self._buffers, self._state, Likeness(self._state.tensors), device)
        self._gradients.before_end, self._gradients.after_end = self._send_companion, self._take_companion
        session.set_data(sample_count=self._size, epochs=plan.data.epochs, batch=plan.samples_of_batch,
                         batch_of_all=plan.batch_of_all, batches_per_step=self.accumulation, shuffle=plan.data.shuffle,
                         seed=plan.data.seed, max_steps=plan.data.max_steps, drop_last=plan.data.drop_last,
                         min_local_samples=plan.min_local_samples)
        session.on_change(self._changed)
        session.watch_steps(self._after_step)

    def _layout_of(self, plan: Plan) -> Optional[_layout.Layout]:
        """Of the model in a replica of several processes."""
        if self._replica is None:
            refuse_divided(plan.model)
            return None
        return _layout.of_model(_model.trained(plan.model, plan.optimizers), plan.model, self.session, self._replica)

    def _open_data(self, plan: Plan) -> None:
        dataset = plan.dataset
        if self.layout is not None and dataset is not None:
            size = len(dataset if plan.order is None else plan.order)
            plan.order = Units(size, plan.data.shuffle, plan.data.seed, self.layout.data_size, self.layout.data_index, plan.order)
            plan.data.shuffle = False
            self.session.share_early(UNITS, encode_units(size, self.layout.data_size, plan.order.words))
        self._loader: Any = NoLoader() if dataset is None else Loader(dataset, plan.data.loader, self._look_ahead)
        self._order = plan.order
        self._size = 0 if dataset is None else len(dataset if plan.order is None else plan.order)
        samples = range(min(plan.data.batch, 0 if dataset is None else len(dataset)))
        self._samples = self._loader.samples(samples)  # for steps without own
        self._whole = self._samples  # of a usual batch

    def _rehearse(self, plan: Plan) -> Buffers:
        """Makes a trial pass. Returns the model's buffers, of which it shows those that a pass writes."""
        buffers = Buffers(plan.model, plan.state.local)
        buffers.find_running(plan.dataset is not None and _trial.make_pass(plan.model, self.stand_in(), plan.warm_up))
        if not plan.data.drop_last and not _trial.has_compiled():
            self._samples = self._samples[:max(FEWEST_SAMPLES, plan.min_local_samples // self.accumulation)]
        return buffers

    def _follow_passes(self, model: Any) -> None:
        if self.layout is None or self.accumulation == 1:
            return
        waiting = _layout.Gathered(model)
        follow = torch.compiler.disable(lambda *_: self._gradients.follow_passes(waiting.newly_made()))
        self._hooks.append(model.register_forward_hook(follow))

    def _share_state(self, plan: Plan) -> None:
        self._optimizers = plan.optimizers
        self._hooks: List[Any] = []  # of optimizers
        for optimizer in plan.optimizers:
            _optimizers.create_state(optimizer)
            self._hooks += _optimizers.refuse_other_parameters(optimizer, plan.model.named_parameters())
        rates = self._rates = [_optimizers.ScaledRates(optimizer, lambda: float(self.session.learning_rate_factor))
                               for optimizer in plan.optimizers]
        self._hooks += [hook for rate in rates for hook in rate.hooks]
        self._objects = list(plan.state.shared.values())
        objects = {**plan.state.shared, "progress": Progress(self), **({} if plan.order is None else {"order": plan.order})}
        self._state = SharedState(self.session, plan.model, plan.optimizers, self._buffers, objects, rates)
        self._first = FirstState(self.session, plan.state.first, plan.state.first_every)
        self._local = LocalState(self.session, self._buffers.local)

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
            self._before_training()
            batch = self._peek()
        self._late_epoch = False
        if batch is not None:
            self.session.phase("evaluation")  # what the program does between two epochs, until the next batch
        else:
            self._leave_if_asked()

    def stop(self) -> None:
        """The data end here, for all workers: the run finishes with status 0. For a program that ends by a condition of its
        own, which all workers reach in the same step. Returns when the run is over."""
        if self._stage in (Stage.BEFORE, Stage.OVER):
            return
        self._before_training()
        self.session.end_data()
        while self._batch is not None:
            if not self._is_taken or not self._gradients.reduced:
                self._pass_without_data()
            self._commit()
            self._open()
        self._end()

    def no_sync(self) -> Any:
        """`with run.no_sync(): loss.backward()`: for all but the last backward pass of a step that accumulates."""
        return self._inactive()

    @contextlib.contextmanager
    def evaluation(self) -> Iterator[None]:
        """For an evaluation in the middle of an epoch: it may take long, on one worker too."""
        self.begin_evaluation()
        try:
            yield
        finally:
            self.session.phase(None)

    def begin_evaluation(self) -> None:
        """What follows may take long and reads the model, which a new worker has from here on."""
        if self._batch is not None and self._stage < Stage.MEMBER:
            self._await_state()
            self._buffers.open()
        self.session.phase("evaluation")

    def report(self, loss: Any) -> None:
        """The step's loss, the mean over this worker's samples, for `status`, the journal and policies."""
        self._loss = float(loss.detach() if isinstance(loss, torch.Tensor) else loss)

    def on_change(self, callback: Callable[[Change], None]) -> Callable[[Change], None]:
        """Calls back after each change of the membership; usable as a decorator."""
        self._callbacks.append(callback)
        return callback

    def before_step(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls back before the program gets the batch of a step; usable as a decorator."""
        self._observers.before.append(callback)
        return callback

    def after_step(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls back when a step is committed, on all workers that made it, before the membership changes: it may exchange values
        (`reduce`). Usable as a decorator."""
        self._observers.after.append(callback)
        return callback

    def decide_with(self, policy: Callable[["ElasticRun"], Optional[int]], every_steps: int = 100) -> None:
        """A policy of the program's own: called with this run after so many steps, on the first worker. The number that it
        returns is asked for as the run's size; None asks for nothing. For policies beside the run: elastictrain.policy."""
        self._observers.add_policy(self, policy, every_steps)

    def note(self, key: str, value: Any) -> None:
        """Writes a value to the run's journal and summary; the first worker's call counts."""
        self.session.note(key, value)

    def reduce(self, values: torch.Tensor, operation: str = "sum") -> torch.Tensor:
        """In-place all-reduce ("sum", "mean", "max", "min" or "product") of values of any type, between two epochs or in a
        step before its backward pass; all workers call it alike. Without what a worker had that is lost meanwhile; after
        the end of the data a loss raises elastictrain.Interrupted."""
        if self.layout is None:
            _exchange.reduce(self.session, values, operation)
        else:
            self.layout.reduce(values, operation)
        return values

    @property
    def trained_by(self) -> List[Any]:
        """Optimizers, and the objects of state=."""
        return [*self._optimizers, *self._objects]

    is_started = property(lambda self: self._stage > Stage.BEFORE, doc="Whether it has joined.")
    rank = property(lambda self: int(self.session.rank), doc="This worker's place, at present.")
    world_size = property(lambda self: int(self.session.world_size), doc="The number of workers, at present.")
    step = property(lambda self: self._batch.step if self._batch else int(self.session.committed_step),
                    doc="The number of the open step, from 1.")
    share_ahead = property(lambda self: self._loader.share_ahead, doc="Of this worker's batches, those that its loader "
                           "processes were asked for before they were needed.")
    noise_scale = property(lambda self: self._observers.noise_scale(), doc="The gradient noise scale in samples; None until "
                           "two workers have trained.")
    gradient_variance = property(lambda self: self._observers.gradient_variance(), doc="The variance of gradients between "
                                 "workers, once `session.measure_gradient_variance(every_steps)` asks for it.")
    outcome = property(lambda self: self.session.outcome, doc="running, finished, left or stopped.")
    is_first = property(lambda self: self.rank == 0 and self.outcome in (_session.RUNNING, _session.FINISHED)
                        and (self._replica is None or self._replica.is_first), doc="Whether this process should print and save.")

    def close(self) -> None:
        """Ends the loader's processes and the session; model and optimizer are as they were without the run. The end of the
        program does the same."""
        self._loader.close()
        self._gradients.release()
        self._end_bounds()
        for hook in self._hooks:
            hook.remove()
        self.session.close()

    # --- Steps

    _late_epoch = False

    def _start(self) -> None:
        if self._stage > Stage.BEFORE:
            return
        self._stage = Stage.JOINING
        self._local.put()
        if not self.session.start():
            self._end()
            return
        self._state.adopt()
        self._first.adopt()
        self._local.adopt()
        self._stage = Stage.JOINED

    def _enters_late(self) -> Optional[int]:
        """The epoch that ends as this worker joins, if it does."""
        was_before = self._stage is Stage.BEFORE
        batch = self._peek()
        if not was_before or batch is None or not (batch.first_of_epoch and batch.epoch) or batch.local_samples:
            return None
        self._late_epoch = True
        return batch.epoch - 1

    def _peek(self) -> Optional[Batch]:
        """The open step whose data the program has not taken yet; commits the one before."""
        self._start()
        if self._stage is Stage.OVER or (self._batch is not None and not self._is_taken):
            return self._batch
        if self._batch is not None:
            self._commit()
        self._open()
        if self._batch is None:
            self._end()
        elif self._batch.first_of_epoch and self._batch.epoch:
            self._await_state()
        if self._stage is Stage.JOINED:
            if self._batch is not None:
                self._after_join(self._batch)
            self._stage = Stage.NEW
        return self._batch

    def _open(self) -> None:
        self._local.put()
        batch = self._batch = self.session.next_batch()
        self._is_taken = False
        if batch is not None:
            self._parts = collections.deque(_split(batch.samples, self.accumulation))
            self._count_from_epoch()

    def _count_from_epoch(self) -> None:
        if self._batch is not None and self._batch.first_of_epoch:
            self.samples_in_epoch = self.steps_in_epoch = 0

    def _await_state(self) -> None:
        """A joiner needs it before its first sum where the program reads the model: between two epochs, in an evaluation."""
        self.session.wait_all_reduce()
        self._adopt()

    def _adopt(self, always: bool = False) -> None:
        """What the state holds, which is that of the last committed step: its epoch may be over."""
        self._state.adopt(always)
        self._first.adopt()
        self._count_from_epoch()

    def _take(self) -> Any:
        batch = self._batch
        assert batch is not None
        if len(self._parts) == self.accumulation:
            self._observers.before_step()
            self._open_gradients(batch)
        part = self._parts.popleft()
        self._is_taken = not self._parts
        self.session.phase("data")
        if part and self._order is not None:
            self._order.enter(batch.epoch)
            part = self._order.indices(part)
        data = self._data_of(part)
        if self.layout is not None:
            self.layout.check_batch(data, is_drawn_by_script=False)
        self._steps += 1
        self.session.phase("compile" if self._steps <= STEPS_THAT_MAY_COMPILE else None)
        return data

    def _data_of(self, part: Tuple[int, ...]) -> Any:
        return self._loader.take(part) if part else self.stand_in()

    def _open_gradients(self, batch: Batch) -> None:
        counts = [len(part) for part in self._parts]
        self._gradients.open([self.accumulation * count / max(1, batch.local_samples) for count in counts]
                             if batch.local_samples else [1.0] * len(counts))
        self._companion.open(batch.step)
        self._first.put()

    def stand_in(self) -> Any:
        """The batch of a step for which this worker has no samples."""
        return self._loader.collate(self._samples)

    def _pass_without_data(self) -> None:
        """The sums of a step in which nothing is learned."""
        batch = self._batch
        assert batch is not None
        if len(self._parts) == self.accumulation:
            self._open_gradients(batch)
        self._parts.clear()
        self._is_taken = True
        self._trains = False
        self._gradients.end_without_pass()
        self._trains = True

    _trains = True  # there is a pass in the open step

    def _commit(self) -> None:
        if not self._gradients.reduced:
            raise ElasticError(f"step {self.step} had no backward pass; each batch of the run needs one, on every worker")
        self._gradients.close()
        self.steps_in_epoch += 1
        self._before_commit()
        self._state.check_addresses(whole=self._steps <= STEPS_THAT_MAY_COMPILE)
        self._state.store()
        loss, self._loss = self._loss, None
        counted = self.samples_in_epoch  # a change of the membership may replace what the hook has counted
        self.session.commit_step(loss)
        self._stage = Stage.MEMBER
        if self._companion.is_given_up:
            self._state.adopt()
            counted = self.samples_in_epoch
        self._first.adopt()
        self.samples_in_epoch = counted + self.session.last_step().samples

    def _after_step(self) -> None:
        """On all workers that made the step, before the membership changes."""
        self.samples_in_epoch += self.session.last_step().samples
        self._observers.after_step()

    def _end(self) -> None:
        self._stage = Stage.OVER
        self._gradients.close()
        self._loader.close()

    def _leave_if_asked(self) -> None:
        if self._stage is Stage.OVER and self._exits and self.outcome != _session.FINISHED:
            self.session.ends_at_once = self.session.launched
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
        steps = self.session.look_ahead(max(1, batches // self.accumulation), batches * most)
        parts = [*self._parts, *(part for step in steps for part in _split(step, self.accumulation) if part)]
        return parts if self._order is None else [self._order.indices(part) for part in parts]

    def _send_companion(self) -> None:
        self.session.phase(None)
        batch = self._batch
        is_equal = self._stage is Stage.MEMBER and self.session.synchronization == "s-sgd"  # other strategies let workers differ
        self._companion.send(batch is not None and batch.local_samples > 0, is_equal, self._trains)

    def _take_companion(self) -> Optional[List[float]]:
        used = self._companion.take_equal()
        if self.layout is not None and used is not None:
            self.layout.check_copies(self._gradients.named)
        if self._stage < Stage.MEMBER:  # what a joiner writes from here on is written to the state that it received
            self._first.adopt()
        return used

    # --- For scripts that change nothing

    def _after_join(self, batch: Batch) -> None:
        """In the first step of this process."""

    def _before_commit(self) -> None:
        """In the open step."""

    def _before_training(self) -> None:
        """The program goes on to its next batch."""

    # --- The others

    def _changed(self, change: Change) -> None:
        for callback in self._callbacks:
            callback(change)


def _require_own_devices(session: Any, device: torch.device) -> None:
    """Raises ElasticError where the run has not given each replica of a host devices of its own."""
    if device.type != "cpu" and session.launched and size_of_run() is None:
        raise ElasticError("the run gives each replica GPUs of its own where it knows how many these are: start it with --per-replica, or "
                           "workers.per_replica in its configuration")


class Progress:
    """How far a run is, as a part of its state."""

    def __init__(self, run: ElasticRun) -> None:
        self._run = run

    def state_dict(self) -> Dict[str, int]:
        return {"samples": self._run.samples_in_epoch, "steps": self._run.steps_in_epoch}

    def load_state_dict(self, state: Dict[str, int]) -> None:
        self._run.samples_in_epoch, self._run.steps_in_epoch = state["samples"], state["steps"]


def _split(samples: Tuple[int, ...], parts: int) -> List[Tuple[int, ...]]:
    """Into parts of sizes that differ by at most one, the larger ones first."""
    size, longer = divmod(len(samples), parts)
    ends = [number * size + min(number, longer) for number in range(parts + 1)]
    return [samples[begin:end] for begin, end in zip(ends, ends[1:])]
