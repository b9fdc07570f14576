"""A script with DistributedDataParallel that changes nothing: what it makes is found by the constructors it calls.

`install()` replaces DistributedDataParallel, the functions of torch.distributed and the iteration over a DataLoader before
the script starts. Its training loader is the first one that it iterates over once it has a model and an optimizer.
"""

import atexit
import itertools
import os
import sys
import traceback
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

import torch
from torch.optim import Optimizer
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, IterableDataset, RandomSampler, SequentialSampler

from . import _elastic, _loader
from ._script_run import Epoch, ScriptRun
from ..errors import ElasticError

MANY_EPOCHS = 1 << 40  # the script ends by itself
ACCUMULATES = ("this script makes one update from several batches. Start it with ELASTICTRAIN_ACCUMULATION=N, the number of "
               "batches, so that each step has as many")
iterate = DataLoader.__iter__

TWO_LOADERS = ("this script trains on the batches of two loaders (an evaluation is recognized by model.eval() or "
               "torch.no_grad()); the samples of one can be counted. Join their datasets")


class Script:
    """Thread: the training thread."""

    def __init__(self) -> None:
        self.is_initialized = False
        self.model: Any = None  # an ElasticModel
        self.state: Dict[str, Any] = {}  # of a framework around the script
        self.accumulation = int(os.environ.get("ELASTICTRAIN_ACCUMULATION", "1"))
        self.found: Dict[str, List[Any]] = {"optimizer": [], "scheduler": [], "scaler": [], "average": [],
                                            "loader": []}
        self.run: Optional[ScriptRun] = None
        self.is_forwarding = False  # through epochs that were over before this worker joined
        self.finishes_at_exit = False  # nobody else calls finish()
        self.handed_out = 0  # training batches
        self._loader: Optional[DataLoader] = None
        self._entered: Optional[Epoch] = None
        self._known_batches: Dict[int, Tuple[DataLoader, List[Any]]] = {}  # of other loaders, in epochs that are over
        self._passed_before_start = False
        self._epoch = -1  # the script's, counted by its passes over the training loader

    # --- Figures

    @property
    def rank(self) -> int:
        """Never the first one in epochs that are over: nothing is to be printed or saved there."""
        is_started = self.run is not None and self.run.is_started
        if self.is_forwarding:
            return max(1, self.run.rank if self.run is not None and is_started else _number("RANK"))
        return self.run.place[0] if self.run is not None and is_started else _number("RANK")

    @property
    def world_size(self) -> int:
        is_started = self.run is not None and self.run.is_started
        return self.run.place[1] if self.run is not None and is_started else int(os.environ.get("WORLD_SIZE", "1"))

    @property
    def local_rank(self) -> int:
        """Among the workers of this host; the slot, by which a device is chosen, until it has joined."""
        is_started = self.run is not None and self.run.is_started
        own = int(self.run.session.local_rank) if self.run is not None and is_started else _number("LOCAL_RANK")
        return max(1, own) if self.is_forwarding else own

    @property
    def is_first_on_host(self) -> bool:
        """Before it has joined, the slot says nothing on the first worker's host: a worker may take another's place there."""
        is_started = self.run is not None and self.run.is_started
        return self.rank == 0 if not is_started and os.environ.get("GROUP_RANK", "0") == "0" else self.local_rank == 0

    @property
    def is_training_now(self) -> bool:
        """Whether it has joined, so that other loaders divide among the present workers."""
        return self.run is not None and self.run.is_started

    # --- Loaders

    def batches(self, loader: DataLoader) -> Iterator[Any]:
        """In place of DataLoader.__iter__()."""
        if isinstance(loader.batch_sampler, _loader.Requests):
            return iterate(loader)
        if self.is_training(loader):
            return self._train(loader)
        if self.run is not None and self.run.is_started and not self.is_forwarding:
            self._refuse_second_loader()
            self.run.begin_evaluation()
        return self._known_batch(loader) if self.is_forwarding else iterate(loader)

    def _known_batch(self, loader: DataLoader) -> Iterator[Any]:
        """One batch, loaded once: the others wait while this worker passes through all epochs that are over."""
        known = self._known_batches.setdefault(id(loader), (loader, []))[1]
        if not known:
            known.extend(itertools.islice(iterate(loader), 1))
        return iter(known)

    def _refuse_second_loader(self) -> None:
        if self._is_in_training_mode():
            raise ElasticError(TWO_LOADERS)

    def _is_in_training_mode(self) -> bool:
        """A framework may call eval() of the module inside DDP, which leaves DDP's own flag as it is."""
        model = self.model
        return torch.is_grad_enabled() and model is not None and model.training and model.module.training

    def is_training(self, loader: DataLoader) -> bool:
        if self._loader is not None:
            return loader is self._loader or loader.dataset is self._loader.dataset
        return self.is_initialized and bool(self._optimizers()) and self._is_in_training_mode()

    def begin(self, loader: DataLoader, warm_up: Optional[Callable[[Any], Any]] = None) -> ScriptRun:
        """The run over this loader's data; made when it is first asked for."""
        if self.run is None:
            self._loader, self.run = loader, self._make_run(loader, warm_up)
        elif not self.is_training(loader):
            raise ElasticError(TWO_LOADERS)
        return self.run

    def enter(self, loader: DataLoader) -> int:
        """The present epoch, for a script that can begin with it."""
        self._entered = self.begin(loader).enter_epoch()
        self._epoch = self._entered.epoch - 1
        return self._entered.epoch

    def _train(self, loader: DataLoader) -> Iterator[Any]:
        run = self.begin(loader)
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
        for batch in entered.batches():
            self.handed_out += 1
            yield batch

    def _stand_ins(self, run: ScriptRun) -> Iterator[Any]:
        return (run.stand_in() for _ in range(run.accumulation))

    def enumerate(self, iterable: Iterable[Any], start: int = 0) -> Iterator[Tuple[int, Any]]:
        """In place of enumerate() in the script: a worker that joins in the middle of an epoch counts its batches as the
        others do, so that all do the same where the script asks for the number."""
        handed_out = self.handed_out
        for number, item in enumerate(iterable, start):
            is_batch, handed_out = self.handed_out == handed_out + 1, self.handed_out
            yield start + self.run.batch_in_epoch if is_batch and self.run is not None else number, item

    # --- What was found

    def _optimizers(self) -> List[Optimizer]:
        """Those that train the model."""
        if self.model is None:
            return []
        own = {id(parameter) for parameter in self.model.parameters()}
        return [optimizer for optimizer in self.found["optimizer"]
                if any(id(parameter) in own for group in optimizer.param_groups for parameter in group["params"])]

    def _make_run(self, loader: DataLoader, warm_up: Optional[Callable[[Any], Any]]) -> ScriptRun:
        batch = _refuse_unknown_order(loader)
        optimizers = self._optimizers()
        state = {f"{kind}{number}": thing for kind in ("scheduler", "scaler", "average")
                 for number, thing in enumerate(thing for thing in self.found[kind] if _belongs(thing, optimizers))}
        run = _elastic.elastic(self.model.module, optimizers, loader, epochs=MANY_EPOCHS, state={**state, **self.state},
                               accumulation=self.accumulation, warm_up=warm_up, _kind=ScriptRun)
        assert isinstance(run, ScriptRun)
        if self.finishes_at_exit:
            atexit.register(self._finish_at_exit)  # before the session's own end, which is registered already
        if self.rank == 0:
            data: Any = loader.dataset
            names = [type(thing).__name__ for thing in [*optimizers, *state.values()]]
            print(f"elastictrain: made elastic: {type(self.model.module).__name__}, {', '.join(names)}, a loader of "
                  f"{len(data)} samples that asks for batches of {batch} per worker", flush=True)
        return run

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

    def _finish_at_exit(self) -> None:
        if getattr(sys, "last_value", None) is not None:
            return
        try:
            self.finish()
        except ElasticError:  # an exit handler's exception would leave the exit status at 0
            traceback.print_exc()
            sys.stdout.flush()
            os._exit(1)


def _number(variable: str) -> int:
    return int(os.environ.get(variable, "0"))


def _refuse_unknown_order(loader: DataLoader) -> int:
    """The loader's batch. Raises ElasticError where its samples have no indices, or an order that has a meaning."""
    batch, _ = _loader.division_of(loader)
    if isinstance(loader.dataset, IterableDataset) or batch is None:
        raise ElasticError("this script's training data have no indices (an IterableDataset or an own batch sampler); "
                           "elastictrain.torch counts samples by their index")
    sampler = _sampler_of(loader)
    if not isinstance(sampler, SHUFFLES) and type(sampler).__name__ not in SHUFFLES_BY_NAME:
        raise ElasticError(f"this script's training data have an order of their own ({type(sampler).__name__}); "
                           "elastictrain.torch shuffles, so that every sample counts once in an epoch")
    return batch


SHUFFLES = (RandomSampler, SequentialSampler, DistributedSampler)
SHUFFLES_BY_NAME = ("SeedableRandomSampler",)  # of accelerate


def _sampler_of(loader: DataLoader) -> Any:
    sampler: Any = loader.batch_sampler
    while hasattr(sampler, "batch_sampler"):
        sampler = sampler.batch_sampler
    return sampler.sampler if isinstance(sampler, BatchSampler) else sampler


def _belongs(thing: Any, optimizers: List[Optimizer]) -> bool:
    """A scheduler may be that of another model. accelerate wraps optimizers."""
    own = getattr(thing, "optimizer", None)
    own = getattr(own, "optimizer", own)
    return own is None or any(own is optimizer for optimizer in optimizers)


script = Script()
