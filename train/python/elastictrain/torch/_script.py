"""A script with DistributedDataParallel that changes nothing: what it makes is found by the constructors it calls.

`install()` replaces DistributedDataParallel, the functions of torch.distributed and the iteration over a DataLoader before
the script starts. Averaging begins with the DDP model: with the first batch of its training loader, or with the first forward
pass in which gradients are computed.
"""

import atexit
import itertools
import os
import sys
import threading
import traceback
import weakref
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from . import _accumulation, _elastic, _held, _loader, _optimizers, _positions, _sampling, _streams
from ._group_board import is_starter, is_successor, own_rank, tell_life
from ._options import Data, Plan, State
from ._script_run import Epoch, ScriptRun
from ._takeover import Declined, Takeover
from .progress import _frames, _pickling
from .progress._hook import is_own_file
from .. import _replica
from ..errors import ElasticError
from ..session import Session

MANY_EPOCHS = 1 << 40  # the script ends by itself
NEVER_AVERAGED_STATUS = 95
NOT_RESUMED = ("its script ended before it trained, but the run is to go on from a checkpoint. What the script does where files of "
               "an earlier start exist may be why; an option of its own may say that it resumes")
ACCUMULATES = ("this script makes one update from several batches. Start it with ELASTICTRAIN_ACCUMULATION=N, the number of "
               "batches, so that each step has as many")
iterate = DataLoader.__iter__

TWO_LOADERS = "this script trains on the batches of two loaders; the samples of one can be counted. Join their datasets"


class Script:
    """Thread: the training thread."""

    def __init__(self) -> None:
        self.is_initialized = False
        self.model: Any = None  # an ElasticModel, or its like of a framework
        self.state: Dict[str, Any] = {}  # of a framework around the script
        self.accumulation = int(os.environ.get("ELASTICTRAIN_ACCUMULATION", "0"))  # 0: as it seems to do
        self.divides_batches = False  # of the training loader among the workers, at any number of them
        self.found: Dict[str, List[Any]] = {"optimizer": [], "scheduler": [], "scaler": [], "average": [],
                                            "loader": [], "wrapper": []}
        self.run: Optional[ScriptRun] = None
        self.has_adapter = False  # of a framework that knows how far the script is
        self.has_own_loop = False  # whose loop asks the run for batches, and a DataLoader only in evaluations
        self.thread = threading.get_ident()
        self._is_watched = False  # it finishes at the end of the process
        self.is_forwarding = False  # through epochs that were over before this worker joined
        self.finishes_at_exit = False  # nobody else calls finish()
        self._session: Optional[Session] = None
        self._loader: Optional[DataLoader] = None
        self._entered: Optional[Epoch] = None
        self._known_batches: Dict[int, Tuple[DataLoader, List[Any]]] = {}  # of other loaders, in epochs that are over
        self._passed_before_start = False
        self._asked: "weakref.WeakSet[DataLoader]" = weakref.WeakSet()  # for their lengths, before the training
        self._epoch = -1  # the script's, counted by its passes over the training loader, where it has an adapter
        self.opened: Any = _streams.Opened(self._may_train)  # or _turns.Turns
        self._is_making = False  # a run
        self._was_in_training_mode = False  # the model, in a pass
        self._updated_alone = False  # with gradients of this worker only

    # --- Figures

    @property
    def is_apart(self) -> bool:
        """It goes through what the others have done already, or rehearses: nothing is to be printed or saved there."""
        takeover = self.run.takeover if self.run is not None else None
        return self.is_forwarding or (takeover is not None and takeover.is_apart)

    @property
    def makes_no_update(self) -> bool:
        """It rehearses."""
        return self.run is not None and self.run.takeover is not None and self.run.takeover.is_rehearsing

    @property
    def _has_place(self) -> bool:
        return self.run is not None and self.run.is_started

    @property
    def rank(self) -> int:
        """Never the first one where this worker is apart, unless it comes in place of that one."""
        if self.is_apart:
            return 0 if is_successor() else max(1, self.run.rank if self.run is not None and self._has_place else own_rank())
        return self.run.place[0] if self.run is not None and self._has_place else own_rank()

    @property
    def world_size(self) -> int:
        return self.run.place[1] if self.run is not None and self._has_place else int(os.environ.get("WORLD_SIZE", "1"))

    @property
    def local_rank(self) -> int:
        """Among the workers of this host; the slot, by which a device is chosen, until it has joined."""
        own = int(self.run.session.local_rank) if self.run is not None and self._has_place else _number("LOCAL_RANK")
        return max(1, own) if self.is_apart else own

    @property
    def is_first_on_host(self) -> bool:
        """Before it has joined, the slot says nothing on the first worker's host: a worker may take another's place there."""
        is_on_first_host = not self._has_place and os.environ.get("GROUP_RANK", "0") == "0"
        return self.rank == 0 if is_on_first_host else self.local_rank == 0

    @property
    def is_training_now(self) -> bool:
        """Whether it has joined, so that other loaders divide among the present workers."""
        return self._has_place

    @property
    def counts_samples(self) -> bool:
        return self._loader is not None

    def session(self) -> Session:
        """Of this process, also before it trains; the run takes it over."""
        if self.run is not None:
            return self.run.session
        if self._session is None:
            self._session = _elastic.new_session()
            self._finish_with_process()
        return self._session

    def _finish_with_process(self) -> None:
        """Before the session's own end, which is registered already."""
        if self.finishes_at_exit and not self._is_watched:
            self._is_watched = True
            atexit.register(self._finish_at_exit)

    # --- Loaders

    def batches(self, loader: DataLoader) -> Iterator[Any]:
        """In place of DataLoader.__iter__()."""
        if isinstance(loader.batch_sampler, _loader.Requests):
            return iterate(loader)
        if self.is_training(loader):
            return self._train(loader)
        if self.is_forwarding:
            return self._known_batch(loader)
        if self._has_place and self.run is not None and not self._is_in_training_mode():
            self.run.begin_evaluation()
        return self.opened.over_loader(loader, iterate)

    def _known_batch(self, loader: DataLoader) -> Iterator[Any]:
        """One batch, loaded once: the others wait while this worker passes through all epochs that are over."""
        known = self._known_batches.setdefault(id(loader), (loader, []))[1]
        if not known:
            known.extend(itertools.islice(iterate(loader), 1))
        return iter(known)

    @property
    def has_model_in_training(self) -> bool:
        """A framework may call eval() of the module inside DDP, which leaves DDP's own flag as it is."""
        model = self.model
        return model is not None and model.training and model.module.training

    def _is_in_training_mode(self) -> bool:
        return torch.is_grad_enabled() and (self.has_model_in_training or self._trains_in_evaluation_mode)

    @property
    def _trains_in_evaluation_mode(self) -> bool:
        """As a script does that never calls train() of a model which from_pretrained() has made."""
        return self.model is not None and self.model.begins_in_evaluation_mode and not self._was_in_training_mode

    def _may_train(self) -> bool:
        """On what it iterates over now."""
        is_own_thread = threading.get_ident() == self.thread
        return is_own_thread and torch.is_grad_enabled() and (self.model is None or self._is_in_training_mode())

    @property
    def trains_on_own(self) -> bool:
        """What the script draws now is a batch that it trains on, of data that are its own."""
        is_ready = self.run is not None or (self.is_initialized and bool(self._optimizers()))
        return is_ready and not self.counts_samples and self._is_in_training_mode()

    def is_training(self, loader: DataLoader) -> bool:
        """Whether the batches that this loader is asked for now are the run's."""
        if self.has_own_loop or (self.run is not None and self._loader is None):
            return False  # or its data are its own
        has_adapter = self.run is not None and self.run.takeover is None
        if not has_adapter and not self._is_in_training_mode():
            return False
        if self._loader is not None:
            return loader is self._loader or loader.dataset is self._loader.dataset
        return self.is_initialized and bool(self._optimizers()) and _sampling.can_be_counted(loader)

    def length(self, loader: DataLoader, is_shown: bool = False) -> Optional[int]:
        """Of the training loader: the batches of this loop, as the present membership divides what is left; None for another
        one. `is_shown`: to people only."""
        run, loader = self.run, getattr(loader, "base_dataloader", loader)  # which accelerate divides
        if run is None or not run.is_started:
            self._asked.update([] if is_shown else [loader])
            return None
        if self._loader is None or loader is not self._loader:
            return None
        return run.length() if is_shown else run.ask_length()

    def begin(self, loader: DataLoader, warm_up: Optional[Callable[[Any], Any]] = None) -> ScriptRun:
        """The run over this loader's data; made when it is first asked for."""
        if self.run is None:
            self._loader, self.run = loader, self._make_counted(loader, warm_up)
        elif self._loader is None or (loader is not self._loader and loader.dataset is not self._loader.dataset):
            raise ElasticError(TWO_LOADERS)
        return self.run

    def enter(self, loader: DataLoader) -> int:
        """The present epoch, for a script that can begin with it."""
        self.has_adapter = True
        self._entered = self.begin(loader).enter_epoch()
        self._epoch = self._entered.epoch - 1
        return self._entered.epoch

    def _train(self, loader: DataLoader) -> Iterator[Any]:
        run = self.begin(loader)
        return Batches(run) if run.takeover is not None else self._pass_or_train(run)

    def _pass_or_train(self, run: ScriptRun) -> Iterator[Any]:
        """Of a framework with an adapter."""
        self._epoch += 1
        self.is_forwarding = not run.is_started and run.is_past(self._epoch)
        if self.is_forwarding:  # while the others train: this worker has not joined
            self._passed_before_start = True
            yield from self._stand_ins(run)
            return
        entered, self._entered = self._entered or run.enter_epoch(), None
        present = entered.epoch
        if self._epoch > present and self._passed_before_start:
            raise ElasticError(f"the run went back to epoch {present + 1} while this worker, which would have joined it in epoch "
                               f"{self._epoch + 1}, was starting; another one takes its place")
        if self._epoch > present:
            raise ElasticError(f"the script began its epoch {self._epoch + 1} before all samples of epoch {present + 1} were "
                               "used; a script that ends an epoch early cannot be made elastic without changes")
        self.is_forwarding = self._epoch < present
        if self.is_forwarding:
            yield from self._stand_ins(run)
            return
        self._known_batches.clear()
        entered.catch_up()
        yield from entered.batches()

    def _stand_ins(self, run: ScriptRun) -> Iterator[Any]:
        return (run.stand_in() for _ in range(run.accumulation))

    # --- The model

    def before_pass(self) -> None:
        """A forward pass of the DDP model begins."""
        if not torch.is_grad_enabled() or self.is_forwarding:
            return
        self._was_in_training_mode |= self.model.module.training
        if self.run is None and self.is_initialized and self._optimizers():
            self.run = self._make_own()
        if self.run is not None and self._loader is None:
            self.run.before_pass(self.model.require_backward_grad_sync)

    def check_backward(self) -> None:
        """A backward pass has made a gradient of the DDP model. Raises ElasticError where it would not be averaged."""
        if self.run is None and not self.is_forwarding:
            raise ElasticError("the gradients of this backward pass would not be averaged: it did not go through the model of "
                               "DistributedDataParallel, fully_shard() or parallelize_module() that init_process_group() came before, or no "
                               "torch.optim.Optimizer has its parameters yet. Call that model itself, and make the optimizer before the pass")

    def note_update(self, optimizer: Optimizer) -> None:
        """Before each step of an optimizer."""
        if self.run is None and self.model is not None and not self._is_making and optimizer in self._optimizers():
            self._updated_alone |= any(parameter.grad is not None for parameter in self.model.parameters())

    # --- What was found

    def _optimizers(self) -> List[Optimizer]:
        """Those that train the model."""
        if self.model is None:
            return []
        own = {id(parameter) for parameter in self.model.parameters()}
        return [optimizer for optimizer in self.found["optimizer"]
                if any(id(parameter) in own for group in optimizer.param_groups for parameter in group["params"])]

    def _make_counted(self, loader: DataLoader, warm_up: Optional[Callable[[Any], Any]]) -> ScriptRun:
        """Its samples are the run's: each counts once in an epoch."""
        counted, setting = _sampling.counted(loader), ""
        if not self.accumulation and not self.has_adapter:
            self.accumulation, setting = _accumulation.find(_frames.frames())
        data = Data(counted.batch, MANY_EPOCHS, counted.is_shuffled, drop_last=counted.drop_last,
                    accumulation=max(1, self.accumulation), loader=_loader.options_of(loader))
        run = self._make(counted.dataset, data, warm_up, counted.order)
        if run.layout is not None:
            run.layout.refuse_other_divisions_of_data(_sampling.division_of(loader))
        run.announce_length(_sampling.length_of(loader), loader in self._asked)
        batches = f"; a step has {self.accumulation} of them, as '{setting}' says" if setting else ""
        whose = ", divided among all workers" if self.divides_batches else " per worker"
        self._say(run, f"each of {counted.size} samples counts once in an epoch, {counted.words}; the script asks for batches of "
                       f"{counted.batch}{whose}{batches}")
        return run

    def _make_own(self) -> ScriptRun:
        """Its data are its own."""
        run = self._make(None, Data(1, MANY_EPOCHS))
        streams = run.takeover.streams if run.takeover is not None else None
        obstacle = self.opened.obstacle or (streams.obstacle if streams is not None else "")
        if getattr(self.opened, "name", ""):
            self._say(run, self.opened.said())
        elif streams is not None and streams.is_carried:
            self._say(run, f"carried: each worker's position in its {streams.names} is part of the state")
        else:
            self._say(run, f"not counted{f', not carried ({obstacle})' if obstacle else ''}; each worker trains on what its script "
                           "gives it")
        return run

    def _make(self, dataset: Any, data: Data, warm_up: Optional[Callable[[Any], Any]] = None, order: Any = None) -> ScriptRun:
        here = _replica.current()
        if here is not None:
            self.model.prepare()
        optimizers = self._optimizers()
        state = {f"{kind}{number}": thing for kind in ("scheduler", "scaler", "average")
                 for number, thing in enumerate(thing for thing in self.found[kind] if _belongs(thing, optimizers))}
        self._is_making = True
        for watch in getattr(self.model, "watches", ()):
            watch.remove()
        known = [self.model, self.model.module, *optimizers, *self.found["wrapper"], *state.values()]
        held = [] if self.has_adapter or here is not None else self._held(known)
        state.update({f"held{number}": one for number, one in enumerate(held)})
        plan = Plan(self.model.module, optimizers, dataset, data, State({**state, **self.state}), warm_up, order=order,
                    batch_of_all=self.divides_batches and dataset is not None)
        run = _elastic.make(ScriptRun, plan, self._session)
        self._finish_with_process()
        if not self.has_adapter:
            streams = _positions.Streams(run.session, self.opened.fix()) if dataset is None and here is None else None
            known += [run, *held, *(one.source[0] for one in held), *(streams.things() if streams is not None else [])]
            run.takeover = Takeover(run.session, known, list(self.model.parameters()), run.extras, streams)
            run.held = held
            for optimizer in optimizers:
                key = _optimizers.key_with_tensors_within(optimizer)
                if key is not None:
                    run.takeover.obstacle = (f"its {type(optimizer).__name__} keeps tensors within '{key}' of its state, which new workers "
                                             "do not get")
        if here is not None:
            for parameter in self.model.parameters():
                if hasattr(parameter, "device_mesh"):  # a frozen one may be whole
                    _pickling.know_mesh(parameter.device_mesh)
            tell_life(run.session)
            self._refuse_held(run, known)
        return run

    def _refuse_held(self, run: ScriptRun, known: List[Any]) -> None:
        """In a replica of several processes."""
        found = _held.find(self.model.module, known)
        if found and run.takeover is not None:
            run.takeover.obstacle = (f"it holds {', '.join(one.name for one in found)} besides its model, which new replicas of several "
                                     "processes do not get")

    def _held(self, known: List[Any]) -> List[_held.Held]:
        """Large modules that all workers hold besides the model."""
        from . import _collectives  # which needs this module

        found = _held.find(self.model.module, known)
        return _held.agreed(found, _collectives.gatherer("all_gather_object")) if self.session().launched else found

    def _say(self, run: ScriptRun, data: str) -> None:
        """What is done with the script, once; `status` shows it too."""
        makes = ", ".join(thing.name if isinstance(thing, _held.Held) else type(thing).__name__
                          for thing in [self.model.module, *run.trained_by])
        joins = ("takes over the loops and variables of the others, and repeats nothing" if run.takeover is not None else
                 "begins with the present epoch")
        run.notes = {"averaged": makes, "data": data, "new_worker": joins}
        here = _replica.current()
        if self.rank == 0 and not self.is_apart and (here is None or here.is_first):
            print(f"elastictrain: made elastic: {makes}; gradients are averaged over all workers", flush=True)
            print(f"elastictrain: data: {data}", flush=True)
            print(f"elastictrain: a new worker {joins}", flush=True)

    def decline(self, error: Exception) -> None:
        """What ends a worker before it is a member is said where the run says why it does not grow."""
        session = self.run.session if self.run is not None else self._session
        if session is None or is_starter() or self._has_place or isinstance(error, Declined):
            return
        place = next((f" ({frame.filename}:{frame.lineno})" for frame in reversed(traceback.extract_tb(error.__traceback__))
                      if is_own_file(frame.filename)), "")
        session.decline(f"its script ended with {type(error).__name__}: {str(error)[:300]}{place}")

    def finish(self) -> None:
        """The script is at its end: so are the data, for all workers."""
        run, self.is_initialized = self.run, False
        if self.is_forwarding:
            raise ElasticError(f"this script ended in epoch {self._epoch + 1}, which was over before this worker joined. What "
                               "ends it early (a limit of time, a score that no longer improves) must not look at the epochs "
                               "through which a new worker only passes; a number of epochs or steps, and what a scheduler or "
                               "the model holds, is equal on all workers")
        if run is not None and run.is_started:
            run.stop()
        elif self._updated_alone:
            raise NeverAveraged("this script has a model of DistributedDataParallel, fully_shard() or parallelize_module() and updated it with gradients that "
                                "were never averaged: no backward() of a pass through that model made them. Each worker trained alone")
        elif run is None and self._session is not None and is_starter():
            self._end_without_training(self._session)

    def _end_without_training(self, session: Session) -> None:
        """A script that exchanged values and never trained is done when all of its workers are."""
        if os.environ.get("ELASTICTRAIN_RESUME") == "1":
            session.decline(NOT_RESUMED)
            raise ElasticError(NOT_RESUMED)
        self._session, nothing = None, torch.zeros(1)
        session.set_data()
        if session.start():
            session.end_data()
            while session.next_batch() is not None:
                session.all_reduce(nothing)
                session.commit_step()

    def _finish_at_exit(self) -> None:
        if getattr(sys, "last_value", None) is not None:
            return
        try:
            self.finish_or_exit()
        except ElasticError:  # an exit handler's exception would leave the exit status at 0
            _exit_with(1)

    def finish_or_exit(self) -> None:
        """finish(); a script that was never averaged ends with a status of its own."""
        try:
            self.finish()
        except NeverAveraged:
            _exit_with(NEVER_AVERAGED_STATUS)


class NeverAveraged(ElasticError):
    """The workers of a run trained each for itself."""


class Batches:
    """The iterator of a loop over the training loader."""

    def __init__(self, run: ScriptRun) -> None:
        self._run, self._is_new = run, True

    def __iter__(self) -> "Batches":
        return self

    def __next__(self) -> Any:
        has_batch, batch = self._run.next_batch(self._is_new)
        self._is_new = False
        if not has_batch:
            raise StopIteration
        return batch

    def progress_place(self) -> None:
        """The run knows it."""

    def set_progress_place(self, place: None) -> None:
        """The run knows it."""
        self._is_new = False


def _exit_with(status: int) -> None:
    """Of the exception that is handled."""
    traceback.print_exc()
    sys.stdout.flush()
    os._exit(status)


def _number(variable: str) -> int:
    return int(os.environ.get(variable, "0"))


def _belongs(thing: Any, optimizers: List[Optimizer]) -> bool:
    """A scheduler may be that of another model. accelerate wraps optimizers."""
    own = getattr(thing, "optimizer", None)
    own = getattr(own, "optimizer", own)
    return own is None or any(own is optimizer for optimizer in optimizers)


script = Script()
