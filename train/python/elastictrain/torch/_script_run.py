"""The run of a script that changes nothing: it counts its epochs and batches itself, and exchanges values of its own anywhere,
behind an update too.
"""

import sys
from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch

from . import _exchange, _optimizers
from ._aside import Aside
from ._buffers import Buffers
from ._held import Held, Unchanged
from ._lengths import Lengths, Place
from ._options import Plan
from ._run import ElasticRun, Stage
from ._tail import Tail
from ._takeover import Takeover
from .progress import _frames
from .. import session as _session
from .._words import number_of
from ..errors import ElasticError
from ..session import Batch, Change, Session


GATHERS = "gathers"
NOT_TRAINED = ("this script took a batch and made no backward pass with it before it took the next one, as a loader that fetches "
               "ahead does, or a loop that leaves out a batch. Each batch of the training loader needs one, before the next one is "
               "taken; an option such as --no-prefetcher may do that")
LEFT_OUT = ("this worker's script made no backward pass with a batch, and others did with theirs. It has left out their update, so that "
            "another worker takes its place. All workers must leave out a batch together, by an all_reduce() of whether one is to be "
            "left out, or none, by a loss that is multiplied by 0")
NO_GRADIENTS = ("this script makes an update before a backward pass through its model has made the gradients of the step. Call backward() "
                "first, or give step() a closure that does")
NUMBER_OF_BATCHES = "Start it with ELASTICTRAIN_ACCUMULATION=N, the number of batches of each update"


class ScriptRun(ElasticRun):
    """Thread: the training thread.

    With a `takeover`, a worker that comes later does not live through the past: it makes one pass before it is a member, and
    takes over the progress of the others in its first step. Without one (an adapter of a framework) it begins with the present
    epoch."""

    def __init__(self, session: Session, plan: Plan) -> None:
        super().__init__(session, plan)
        self.takeover: Optional[Takeover] = None
        self._aside, self._plane = Aside(self.session), _exchange.Plane(self.session, self._tell_filled)
        if self.layout is None:
            self.session.share_early(GATHERS, b"0")
        self._is_updated = False  # the open step's update was made, or left out
        self._is_at_update = False  # the script has come to it
        self._settles = False  # the open step is committed for an exchange
        self._may_be_joined = True  # the membership changed at the last boundary
        self._stops = False  # this worker's script is at its end
        self.held: List[Held] = []  # modules that are a part of the state
        self._unchanged: Optional[Unchanged] = None  # while the rest of the step of a checkpoint is done once more
        self.notes: Dict[str, str] = {}  # what is done with the script, for people
        usual = plan.samples_of_batch * (1 if plan.batch_of_all else self.world_size)
        self._lengths = Lengths(self._size, usual, plan.min_local_samples, plan.data.drop_last, self.accumulation)
        self._gradients.may_repeat = self._has_no_update
        self.tail = Tail(self.session, self._state, self._optimizers, plan.state.shared)
        for optimizer in self._optimizers:
            optimizer.register_step_pre_hook(self._before_step)
            optimizer.register_step_post_hook(lambda own, *_: self.note_update(own))

    def _rehearse(self, plan: Plan) -> Buffers:
        """A guessed pass that fails would leave a divided model in the middle of one."""
        if self._replica is None:
            return super()._rehearse(plan)
        buffers = Buffers(plan.model, plan.state.local)
        buffers.find_running(False)
        return buffers

    # --- Epochs and batches

    def is_past(self, epoch: int) -> bool:
        """Before it has joined: whether the run is known to be in a later epoch. Otherwise it waits until it can join."""
        return self.session.await_start(epoch) > epoch

    def enter_epoch(self) -> "Epoch":
        """The present epoch; for a worker that joined at its end the one that it finds without batches, until it was there."""
        self._enters_late()
        batch = self._peek()
        self._leave_if_asked()
        epoch = batch.epoch if batch is not None else 0
        return Epoch(self, epoch - 1 if self._late_epoch else epoch)

    def next_batch(self, is_new_loop: bool) -> Tuple[bool, Any]:
        """(whether the epoch has one, the batch). `is_new_loop`: of the script. It gets the last batch once more if it has left
        the loop for which that was, and has not trained on it."""
        if self.is_rehearsing():
            return True, self._loader.collate(self._whole)  # nobody waits, and a script may look at its size
        if is_new_loop and self._handed is not None and self._is_taken and not self._gradients.has_begun:
            self._lengths.begin(self._place_in_data(), repeats=True)
            return True, self._handed[0]
        batch = self._peek()
        self._leave_if_asked()
        place = self._place_in_data()
        if is_new_loop:
            self._lengths.begin(place)
        if batch is None or self._lengths.is_over(place):
            self._lengths.end(place)
            self._handed = None
            if batch is not None:
                self.session.phase("evaluation")  # what the script does between two epochs, until the next batch
            return False, None
        self._lengths.hand(batch.epoch)
        self._before_training()
        data = self._take()
        self._batches_of_update += 1
        self._handed = (data,)
        return True, data

    _handed: Optional[Tuple[Any]] = None  # the last batch

    def note_gather(self, tensor: torch.Tensor) -> None:
        """The script gathers this and those of the other workers while it trains. If it has a row for each sample of the batch, the
        batches have one size from the next step on: torch's sampler gives each process as many samples, some of them twice, and such
        a script relies on it. Decided by what is equal on all workers."""
        batch = self._batch
        if batch is None or self._gathers or self.layout is not None:
            return
        size, rest = divmod(batch.global_samples, self.world_size * self.accumulation)
        if not rest and size > 1 and tensor.dim() > 0 and len(tensor) > 0 and len(tensor) % size == 0:
            self._gathers = True
            self.session.share_early(GATHERS, b"1")

    _gathers = _has_repeated = False

    def _data_of(self, part: Tuple[int, ...]) -> Any:
        if self.layout is not None or self.world_size == 1 or self.session.early(GATHERS) != b"1":
            return super()._data_of(part)
        lengths = _exchange.gather_numbers(self.session, len(part))
        most = max(lengths)
        if {*lengths} - {0, most} and not self._has_repeated:
            self._has_repeated = True
            self._tell("repeated", "this script gathers values of all batches while it trains, so they have one size: where those at the "
                       "end of an epoch differ, the smaller ones have samples twice, as those of a DistributedSampler do")
        if not part:
            return self._loader.collate([self._whole[place % len(self._whole)] for place in range(most)])
        return self._loader.take(tuple(part[place % len(part)] for place in range(most)))

    def announce_length(self, length: int, is_asked: bool) -> None:
        """Of the script's first loop, as its own loader has it before the training. A loop has whole steps."""
        self._lengths.announce(max(1, length // self.accumulation) * self.accumulation)
        self._lengths.is_asked = is_asked

    def ask_length(self) -> int:
        """Batches of this worker in the script's present loop, or in the next one, as the present shares divide what is left.
        Equal on all workers; a loop gets no more than the script was told."""
        self._lengths.is_asked = True
        return self.length()

    def length(self) -> int:
        """The same, for somebody who computes nothing from it."""
        return self._lengths.length(self._place_in_data())

    def _place_in_data(self) -> Place:
        batch = self._batch
        used, open_samples = self.samples_in_epoch, self.samples_of_step
        waiting = 0 if batch is None or self._is_taken else len(self._parts)
        return Place(batch.epoch if batch is not None else 0, max(0, self._size - used - open_samples), open_samples, waiting)

    @property
    def batch_in_epoch(self) -> int:
        """The number of the batch that was taken last, from 0."""
        return (self.steps_in_epoch + 1) * self.accumulation - len(self._parts) - 1

    @property
    def samples_of_step(self) -> int:
        return self._batch.global_samples if self._batch is not None else 0

    @property
    def samples_with_open_step(self) -> int:
        """That this epoch used, the open step included."""
        return self.samples_in_epoch + self.samples_of_step

    @property
    def samples_used(self) -> int:
        """Of all epochs, the open step included."""
        return self._batch.epoch * self._size + self.samples_with_open_step if self._batch is not None else self._used_before

    _used_before = 0  # in the rest of the step with which this run resumes

    @property
    def extras(self) -> Tuple[Any, Any]:
        """Reads and replaces what of a script's progress the run itself holds. The groups of the optimizers: what the script has set
        in them behind the backward pass, of the step of the others."""
        groups = [_optimizers.hyperparameters(*pair) for pair in zip(self._optimizers, self._rates)]

        def read() -> Any:
            return {"lengths": self._lengths.state(), "samples": (self.samples_used, self.samples_with_open_step),
                    "left_out": self._left_out, "groups": [own() for own, _ in groups], **self.tail.values()}

        def write(values: Any) -> None:
            self._lengths.set_state(values["lengths"])
            self._left_out = values.get("left_out", 0)
            if self.takeover is not None and self.takeover.is_rehearsing:
                self.tail.go_back_to(values)
                self._keep_held()
                anew = self.takeover.anew
                self._used_before, self.samples_in_epoch = values["samples"] if anew is None else anew[1:]
            else:
                for (_, replace), held in zip(groups, values.get("groups", [])):
                    replace(held)

        return read, write

    @property
    def place(self) -> Tuple[int, int]:
        """(rank, world size) among the workers that run the script's code here."""
        if self._plane.is_in_pass:
            self._plane.enter(self.step_of_pass)
        held: Any = self._aside if self._aside.is_open else self._plane
        return held.rank, held.world_size

    # --- A script whose data are its own

    @property
    def begins_together(self) -> bool:
        """It is one of those with which the run began, and goes on from no checkpoint."""
        return not self._is_newcomer and self.takeover is not None and not self.takeover.is_rehearsing

    def turn(self) -> Tuple[int, int]:
        """(place of this worker, number of workers) for a batch that the script draws now: in the step that begins here, where the one
        before is complete."""
        if self.is_rehearsing():
            return 0, 1
        if self._batch is None or (self._is_taken and self._gradients.reduced and self._is_updated):
            self._is_at_turn = True
            self._peek()
            self._is_at_turn = False
            self._leave_if_asked()
            self.session.phase("data")
        batch = self._batch
        if batch is None or batch.local_samples * self.world_size == batch.global_samples:
            return self._place
        return self._place_before if batch.local_samples else (0, 1)  # with workers that have just joined

    _place = _place_before = (0, 1)  # of this worker, in the open step and in the one before

    def before_pass(self, is_last: bool) -> None:
        """A forward pass begins whose gradients count. `is_last`: they are to be averaged behind its backward pass; otherwise
        they are added to those of the next pass."""
        if not self.is_rehearsing():
            self._open_pass()
            self._gradients.active = is_last

    def _open_pass(self) -> None:
        if self._batch is not None and self._is_taken and not (self._gradients.reduced and self._is_updated):
            if self._gradients.reduced:
                self._gradients.again()
            return
        batch = self._peek()
        self._leave_if_asked()
        if batch is None:
            return
        self._follow()
        self._before_training()
        self._open_gradients(batch)
        self._parts.clear()
        self._is_taken = True
        self.session.phase(None)

    def _has_no_update(self) -> bool:
        """In a replica of several processes a loss that is computed in parts has a backward pass for each, and one for the rest."""
        return self.layout is not None and not self._is_at_update and not self._is_updated

    def see_inputs(self, inputs: List[torch.Tensor]) -> None:
        """Of a forward pass in a replica of several processes."""
        if self.takeover is not None:
            self.takeover.batch = inputs
        if self.layout is not None and self.is_in_pass:
            self.layout.check_batch(inputs, is_drawn_by_script=True)

    # --- Before it is a member

    def is_rehearsing(self) -> bool:
        """Asked when a pass begins: whether it is made before this worker takes part in a step. The pass after it joins."""
        takeover = self.takeover
        if takeover is None or (self.is_started and not takeover.is_rehearsing):
            return False
        if takeover.is_rehearsing and not takeover.has_rehearsed:
            return True
        if not takeover.is_rehearsing and takeover.comes_later():
            return True
        if not self.is_started:
            self._start()
            self._leave_if_asked()
        self._release_held()
        takeover.join(self._is_newcomer)
        return takeover.is_rehearsing

    def _keep_held(self) -> None:
        """The checkpoint has what the script did to these modules behind its update, up to the exchange at which it was written."""
        if self.held:
            self._unchanged = Unchanged(self.held)
            self._unchanged.__enter__()

    def _release_held(self) -> None:
        if self._unchanged is not None:
            self._unchanged.__exit__(None, None, None)
            self._unchanged = None

    _is_newcomer = False  # the others trained before this worker was a member

    def _changed(self, change: Change) -> None:
        self._is_newcomer = change.joined_now and change.previous_world_size > 0
        super()._changed(change)

    # --- Values of the script's own

    def plane(self) -> Any:
        """The workers among which the script exchanges values here: an _exchange.Plane, or its like."""
        self._settle()
        self._release_held()
        if self._aside.is_open:
            return self._aside
        if self._follows:
            return _exchange.Alone(0, 1)
        self._plane.enter(self.step_of_pass)
        return self._plane

    @property
    def step_of_pass(self) -> Optional[int]:
        """The step whose pass is open."""
        batch = self._batch
        return None if batch is None or self._gradients.closed or self._gradients.reduced else batch.step

    @property
    def is_in_pass(self) -> bool:
        """Between a batch and the end of its backward pass, where gradients count."""
        return not (self._gradients.closed or self._gradients.reduced) and torch.is_grad_enabled()

    @property
    def is_new(self) -> bool:
        """The others trained before it was a member, and it has committed no step."""
        return self._is_newcomer and self._stage < Stage.MEMBER

    @property
    def has_samples(self) -> bool:
        """In the open step."""
        return self._batch is not None and self._batch.local_samples > 0

    asks_rank = False  # the script does, within its passes

    def gather(self, part: bytes) -> List[bytes]:
        """The parts of all workers, by rank."""
        parts: List[bytes] = self.plane().gather_bytes(part)
        return parts

    def reduce_anywhere(self, values: torch.Tensor, operation: str) -> None:
        """As reduce(), of a contiguous tensor on the CPU."""
        self.plane().reduce(values, operation)

    def share_of_items(self, own: Any) -> Any:
        """For a loss that is a sum over this worker's items (tokens): the number to divide it by, so that the mean over all
        samples is the sum over all items by their number. Counts a factor of the world size in the loss; in a replica of several
        processes that is the number of its batches."""
        batch = self._batch
        assert batch is not None
        self._gradients.weigh_alike()
        total = torch.tensor([float(own) if batch.local_samples else 0.0], dtype=torch.float64)
        if self.layout is None:
            self.reduce_anywhere(total, "sum")
        else:
            self.layout.reduce_in_replica(total, "sum")
            total = torch.stack(_exchange.gather_tensors(self.gather, total)).sum()
        share = batch.local_samples / max(1, batch.global_samples)
        factor = self.world_size if self.layout is None else 1
        return own * 0 + float(total) * share * factor if batch.local_samples else own

    # --- Updates, and exchanges behind them

    def _before_step(self, _: Any, arguments: Tuple[Any, ...], named: Dict[str, Any]) -> Any:
        """Of an optimizer. With a closure, which makes the backward pass, the update comes behind that."""
        closure = named.get("closure", arguments[1] if len(arguments) > 1 else None)
        if not callable(closure):
            return self.before_update()

        def with_update() -> Any:
            loss = closure()
            self.before_update()
            return loss

        return (arguments[0], with_update, *arguments[2:]), {name: value for name, value in named.items() if name != "closure"}

    def before_update(self) -> None:
        """The script comes to its update: the point of a step at which progress passes from worker to worker."""
        if self.takeover is None or self._is_at_update:
            return
        if self.takeover.is_rehearsing:
            self.takeover.rehearse()
        elif self._batch is not None:
            self._check_number_of_batches()
            if self._is_taken and not self._gradients.reduced:
                raise ElasticError(f"{_frames.place()}{NO_GRADIENTS}")
            self._is_at_update = True
            self.takeover.at_update(self._batch.step, self._is_changed)
            self._is_changed = False

    def _check_number_of_batches(self) -> None:
        """All workers make an update in the same batch, a new one as well."""
        left, batches = len(self._parts), self._batches_of_update
        if left:
            raise ElasticError(f"this script makes an update from {self.accumulation - left} batches where a step has "
                               f"{self.accumulation}. {NUMBER_OF_BATCHES}")
        if batches > self.accumulation and not self._has_updated and self.takeover is not None:
            self.takeover.obstacle = f"it makes an update from {batches} batches, and no setting says so. {NUMBER_OF_BATCHES}"
        self._batches_of_update, self._has_updated = 0, True

    _is_changed = False  # since the last update there was a change of the membership
    _batches_of_update = 0  # taken since the last one
    _has_updated = False

    def note_update(self, optimizer: Any) -> None:
        """It made its step, or a scaler left it out."""
        self._is_updated = self._gradients.reduced
        if self.takeover is None:
            return
        self.takeover.end_update()
        if self.takeover.is_rehearsing:
            self.tail.take(optimizer)
        elif self._is_at_update and self.rank == 0 and "checkpoint" in self.session.boundary():
            self.tail.keep(optimizer)

    def updates(self, average: Any) -> bool:
        """Whether an average of the model is to get its update. The worker that rehearses has none for it."""
        takeover = self.takeover
        if takeover is None or not takeover.is_rehearsing:
            return True
        return takeover.has_rehearsed and not self.tail.is_made(average)

    def _settle(self) -> None:
        """Commits a step whose update was made, before the program exchanges values of its own."""
        if self._stage is Stage.OVER or not self._is_taken or not self._gradients.reduced or not self._is_updated:
            return
        self._settles = True
        self._peek()
        self._settles = False
        self._leave_if_asked()
        self.session.phase("evaluation")
        if self.takeover is None:
            self._aside.open(self._may_be_joined)

    def _open(self) -> None:
        super()._open()
        self._place_before, self._place = self._place, (self.rank, self.world_size)
        self._is_updated = self._is_at_update = False
        is_announced = self._batch is not None and self.takeover is not None and self._aside.is_announced
        self._is_changed |= is_announced
        if is_announced and self._stage is not Stage.JOINED:
            self._aside.open()
        if self._batch is not None and self.takeover is not None and not self._stops:
            self._follow_length()

    def _follow_length(self) -> None:
        """All workers but new ones, which take over what these know."""
        is_longer = self._lengths.opened(self._place_in_data())
        if is_longer and not (self._stage is Stage.JOINED and self._is_newcomer):
            plane = self._aside if self._aside.is_open else self._plane
            is_asked = self._lengths.is_asked
            if self._replica is not None:  # its first process alone may show the progress
                is_asked = any(self.session.gathered(is_asked))
            asked = plane.gather_bytes(b"%d" % is_asked)
            self._lengths.settle(b"1" in asked, self._place_in_data())

    def _start(self) -> None:
        if not self.is_started:
            super()._start()
            for name, text in self.notes.items() if Stage.BEFORE < self._stage < Stage.OVER else ():
                self.note(name, text)

    def _commit(self) -> None:
        self._follow()
        if not self._gradients.reduced and self.takeover is not None:
            self._leave_out()
        super()._commit()

    def _leave_out(self) -> None:
        """The script goes on to the next batch and has made no pass with this one. Where all workers do so nothing is learned in
        the step. One that does so alone is behind by an update, of which the others know."""
        if self.accumulation > 1 or self._gradients.has_begun or not (self._has_updated or self._is_newcomer):
            raise ElasticError(f"{_frames.place()}{NOT_TRAINED}")
        self._buffers.restore()
        self._pass_without_data()
        self._batches_of_update = 0
        if self._companion.is_given_up:  # the others finish the step without this worker, which takes over their state
            return
        if self._companion.trained > 0:
            raise ElasticError(f"{_frames.place()}{LEFT_OUT}")
        self._tell_left_out(0)

    def _take_companion(self) -> Optional[List[float]]:
        used, batch = super()._take_companion(), self._batch
        if used is not None and batch is not None and self._trains:
            trained = round(self._companion.trained * batch.global_samples)
            if 0 < trained < batch.global_samples:
                self._gradients.scale(batch.global_samples / trained)
                self._tell_left_out(trained)
        return used

    def _tell_left_out(self, trained: int) -> None:
        """`trained`: samples of the step with which a pass was made."""
        batch = self._batch
        assert batch is not None
        is_first, self._left_out = not self._left_out, self._left_out + batch.global_samples - trained
        if is_first or trained:
            until = f"{number_of(self._left_out, 'sample')} until step {batch.step}"
            self._tell("left_out", f"{until}, with which the script made no backward pass")

    def _tell_filled(self, rank: int) -> None:
        step = self._batch.step if self._batch is not None else 0
        self._tell("lost_in_a_pass", f"the worker of rank {rank}, in step {step}, between two exchanges of the script; in that step the "
                   "values that it would have had in them are those of another worker")

    def _tell(self, key: str, text: str) -> None:
        self.note(key, text)
        if self.rank == 0:
            print(f"elastictrain: {key.replace('_', ' ')}: {text}", file=sys.stderr, flush=True)

    _left_out = 0  # samples, of all workers

    def _before_commit(self) -> None:
        self._may_be_joined = "change" in self.session.boundary()
        if self._settles and self.takeover is not None and "checkpoint" in self.session.boundary():
            self.takeover.attach_end_is_open()
        self._aside.announce(self.steps_in_epoch, self._settles if self.takeover is None else self._may_be_joined)

    def _after_join(self, batch: Batch) -> None:
        self.steps_in_epoch = 0 if batch.first_of_epoch else self._aside.announced_steps()
        if self._is_newcomer:
            self._follows = True
            if not self._is_at_turn:
                self._follow()

    def _follow(self) -> None:
        """A new worker, what the others exchange until they train again. Where it has joined at a batch that it draws, its script may
        exchange values between that and its pass, which the others do meanwhile: those are its own until then."""
        if self._follows:
            self._follows = False
            self._aside.follow()

    _is_at_turn = _follows = False

    def _await_state(self) -> None:
        self._follow()
        super()._await_state()

    def _before_training(self) -> None:
        self._aside.close()

    # --- The end

    def stop(self) -> None:
        self._stops = True
        self._tell_what_is_left()
        super().stop()

    def _tell_what_is_left(self) -> None:
        left = self._lengths.carried(self._place_in_data()) if self._batch is not None and self.takeover is not None else 0
        if left:
            of_epoch = f"{number_of(left, 'sample')} of the last epoch"
            self._tell("not_trained", f"{of_epoch}: its loop would have been longer than len(loader) had said")
        if self._left_out:
            self._tell("left_out", f"{number_of(self._left_out, 'sample')} in all, with which the script made no backward pass")

    def _end(self) -> None:
        self._release_held()
        super()._end()
        if self.outcome == _session.LEFT and self.takeover is not None and self.takeover.streams is not None:
            self.takeover.streams.leave()
        if self.outcome == _session.FINISHED and not self._stops and self.takeover is not None:
            raise ElasticError(f"another worker's script has ended after step {int(self.session.committed_step)}, and this one goes "
                               "on. All workers of a script end behind the same step")


class Epoch:
    """One pass over the data."""

    def __init__(self, run: ScriptRun, epoch: int) -> None:
        self._run, self.epoch = run, epoch

    def catch_up(self) -> None:
        """Undoes what the script did to the state on its way here."""
        if self._run._late_epoch:
            self._run._adopt(always=True)

    def batches(self) -> Iterator[Any]:
        return iter(self._run)
