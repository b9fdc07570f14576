"""Data of a script's own in replicas of several processes: the replicas take turns in them.

The world that such a script divides its data by is its replica's, so each replica draws the same batches as the others, process by
process. In a step of R replicas each draws R batches and trains on one of them: the k-th on the k-th. So every batch is trained on
once, at any number of replicas, and all of them stay at the same place. What gives the batches is what the script's own code first
draws one from when it is ready to train: a DataLoader, an iterator of the script's own, or a function that is named.
"""

import functools
import inspect
import os
import sys
import threading
import types
from typing import Any, Callable, Iterator, List, Optional, Set, Tuple

import torch
from torch.utils.data import DataLoader, get_worker_info

from ._group_board import is_starter, own_rank
from ._imports import after_import
from ._streams import has_place
from .progress import _iterators, _loaders, _loops
from .progress._hook import is_own_file
from .. import _replica
from ..errors import ElasticError

NAMED = "ELASTICTRAIN_BATCHES"  # MODULE:NAME of the function, or of the method CLASS.NAME, that gives a batch, or gives them one by one
PARTS = ("{} gives the parts of one batch, all of them for one update, and each replica of this script took another one of them. Name "
         f"what gives the batches by {NAMED}=MODULE:FUNCTION or MODULE:CLASS.METHOD, or train with one replica")
_Take = Callable[[], Any]


class Turns:
    """As _streams.Opened, of a script in replicas. `is_ready`: whether it trains on what it draws now. Thread: the training thread."""

    obstacle = ""

    def __init__(self, script: Any) -> None:
        self._script = script
        self._source: Any = None  # what gives the batches
        self.name = ""
        self._is_named = self._is_within = False  # by the user; something is being drawn
        self._step, self._has_drawn = -1, False  # of the last pass; since its first one
        self._passes = self._steps = 0  # that were seen
        self._parts: Set[Any] = set()  # what gives parts of a batch
        self._first = 0  # batches that were drawn in the first turn, where that was before the run
        self._owed = 0  # by this replica: others have drawn more in theirs

    def install(self) -> None:
        _loops.make_iterator, _loops.take_next = self.over, self._next
        after_import("torchdata.stateful_dataloader.stateful_dataloader", self._change_stateful)

    def fix(self) -> List[Any]:
        """No source is one worker's own."""
        return []

    # --- What a script draws from

    def over(self, thing: Any) -> Iterator[Any]:
        """In place of iter() in the script's own loops."""
        it = iter(thing)
        return it if self._is_elsewhere() else self._passing(it)

    def _passing(self, it: Any) -> Any:
        source = _source_of(it)
        if source is not None:
            return it if self._source not in (None, source) else Turn(it, self)
        inner = _iterators.operands_of(it) if _iterators.kind_of(it) in _AROUND else []
        made = [self._passing(one) for one in inner]
        return it if all(new is old for new, old in zip(made, inner)) else _iterators.placed(it, _iterators.place_of(it), made)

    def _next(self, it: Any, *default: Any) -> Any:
        """In place of next() in the script's own files."""
        source = None if isinstance(it, Turn) else _source_of(it)
        if source is None or self._is_elsewhere():
            return next(it, *default)
        try:
            return self.draw(source, lambda: next(it))
        except StopIteration:
            if default:
                return default[0]
            raise

    def over_loader(self, loader: DataLoader, iterate: Callable[[Any], Iterator[Any]]) -> Iterator[Any]:
        """Over a DataLoader that is not counted."""
        if self._is_elsewhere() or self._script.counts_samples or type(loader).__iter__ is not DataLoader.__iter__:
            return iterate(loader)
        return PlacedTurn(loader, self) if has_place(loader.dataset) and not loader.num_workers else LoaderTurn(loader, self)

    def _change_stateful(self, module: Any) -> None:
        iterate = module.StatefulDataLoader.__iter__
        module.StatefulDataLoader.__iter__ = lambda loader: (iterate(loader) if self._is_elsewhere() else
                                                             StatefulTurn(loader, iterate, self))

    def name_function(self) -> None:
        """That of ELASTICTRAIN_BATCHES, once."""
        named = os.environ.get(NAMED, "")
        if not named or self._source is not None:
            return
        path, _, name = named.partition(":")
        try:
            owner: Any = sys.modules[path]
            *outer, name = name.split(".")
            owner = functools.reduce(getattr, outer, owner)
            function = getattr(owner, name)
        except (KeyError, AttributeError):
            raise ElasticError(f"{NAMED}={named}: there is no such function when the model is divided; it is MODULE:FUNCTION, "
                               "MODULE:CLASS.METHOD or __main__:FUNCTION") from None
        self.name, self._is_named = f"{'.'.join([*outer, name])}()", True
        if inspect.isgeneratorfunction(function):
            self._source = function.__code__
            return
        self._source = named

        @functools.wraps(function)
        def take_turn(*arguments: Any, **options: Any) -> Any:
            return self.draw(named, lambda: function(*arguments, **options))

        setattr(owner, name, take_turn)

    # --- Turns

    def draw(self, source: Any, take: _Take) -> Any:
        """One of those that `take` gives, of which each replica takes another. Where fewer are left than there are replicas, there are
        none."""
        is_other = self._source not in (None, source) or source in self._parts
        if is_other or self._is_elsewhere() or not self._script.trains_on_own:
            return take()
        while self._owed:
            self._owed -= 1
            self._taken(take)
        item = self._taken(take)
        if self._source is None:
            if not _is_batch(item) or self._script.counts_samples:  # since this one: it comes from a loader
                return item
            self._source, self.name = source, _name_of(source)
            self._tell()
        self._has_drawn = True
        place, number = self._turn()
        for later in range(1, number):
            other = self._taken(take)
            item = other if later == place else item
        return item

    def _taken(self, take: _Take) -> Any:
        self._is_within = True
        try:
            return take()
        finally:
            self._is_within = False

    def _turn(self) -> Tuple[int, int]:
        run, here = self._script.run, _replica.current()
        if run is not None:
            place: Tuple[int, int] = run.turn()
            return place
        if here is None or not is_starter():
            return 0, 1
        self._first = max(here.workers_at_start, own_rank() + 1)
        return own_rank(), self._first

    def note_pass(self, run: Any) -> None:
        """A pass begins whose gradients count. In one of the first step: those that begin together may have known of different numbers
        of them. What was not drawn from since the step before gives no batches."""
        if self._first and run.begins_together:
            self._owed = max(int(part) for part in run.gather(b"%d" % self._first)) - self._first
        self._first = 0
        self._passes += 1
        self._steps += run.step != self._step
        if run.step != self._step:
            if not self._has_drawn and not self._is_named:
                self._source, self.name = None, ""
            self._step, self._has_drawn = run.step, False

    def seen(self) -> Tuple[int, int]:
        return self._passes, self._steps

    def note_end(self, source: Any, begun: Tuple[int, int]) -> None:
        """An iterator of `source` is at its end. If all of it was drawn for one update, it has given the parts of a batch. Raises
        ElasticError where replicas have taken turns in them."""
        run = self._script.run
        is_within_update = (run is not None and self._passes > begun[0] and self._steps <= begun[1] + 1 and run.step == self._step)
        if source != self._source or self._is_named or not is_within_update:
            return
        self._parts.add(source)
        self._source, name, self.name = None, self.name, ""
        assert run is not None
        if run.world_size > 1:
            raise ElasticError(PARTS.format(name))

    def _tell(self) -> None:
        """What is found later than the start says."""
        run, here = self._script.run, _replica.current()
        if run is not None and here is not None and here.is_first and run.is_started and run.rank == 0:
            run.note("data", self.said())
            print(f"elastictrain: data: {self.said()}", file=sys.stderr, flush=True)

    def said(self) -> str:
        return f"each replica takes another one of the batches that {self.name} gives; they are not counted"

    def _is_elsewhere(self) -> bool:
        """What is drawn there is a part of a batch, or is not trained on by this thread."""
        return self._is_within or threading.get_ident() != self._script.thread or get_worker_info() is not None


class Turn(_iterators.Passing):
    """Over an iterator of the script's own, in a loop of its own."""

    def __init__(self, inner: Any, turns: Turns, is_placed: bool = False) -> None:
        """`is_placed`: others have drawn from it, of whose updates this process knows nothing."""
        super().__init__(inner)
        self._turns, self._source, self._begun = turns, _source_of(inner), None if is_placed else turns.seen()

    def __next__(self) -> Any:
        try:
            return self._turns.draw(self._source, lambda: next(self.inner))
        except StopIteration:
            if self._begun is not None:
                self._turns.note_end(self._source, self._begun)
            raise

    def over(self, inner: Any) -> "Turn":
        return Turn(inner, self._turns, is_placed=True)


class LoaderTurn(_loaders.LoaderIterator):
    """Over a DataLoader; the place is the number of batches, which a new replica loads again."""

    def __init__(self, loader: DataLoader, turns: Turns) -> None:
        super().__init__(loader)
        self._turns = turns

    def __next__(self) -> Any:
        return self._turns.draw(type(self._loader.dataset), super().__next__)


class PlacedTurn(LoaderTurn):
    """Over one whose dataset tells its place."""

    def progress_place(self) -> Any:
        return {"dataset": self._loader.dataset.state_dict(), "count": self._count}

    def set_progress_place(self, place: Any) -> None:
        self._loader.dataset.load_state_dict(place["dataset"])
        self._count, self._it = place["count"], _loaders._iterate(self._loader)


class StatefulTurn(_loaders.StatefulIterator):
    """Over torchdata's StatefulDataLoader."""

    def __init__(self, loader: Any, iterate: Any, turns: Turns) -> None:
        super().__init__(loader, iterate)
        self._turns = turns

    def __next__(self) -> Any:
        return self._turns.draw(type(self._loader.dataset), super().__next__)


_AROUND = ("enumerate", "zip", "islice", *_iterators.OVER_ITERATORS)


def _source_of(it: Any) -> Optional[Any]:
    """Of an iterator of the script's own: the code of a generator, or a class."""
    if isinstance(it, types.GeneratorType):
        return it.gi_code if is_own_file(it.gi_code.co_filename) else None
    kind = type(it)
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    is_own = kind.__module__ == "__main__" or (file is not None and is_own_file(file))
    return kind if is_own and _iterators.is_iterator(it) and not isinstance(it, _loaders.LoaderIterator) else None


def _name_of(source: Any) -> str:
    return f"{getattr(source, 'co_qualname', source.co_name)}()" if isinstance(source, types.CodeType) else str(source.__name__)


def _is_batch(item: Any, depth: int = 3) -> bool:
    """Whether somebody could train on it: tensors, arrays, or lists of numbers."""
    if isinstance(item, torch.Tensor):
        return not isinstance(item, torch.nn.Parameter)
    if isinstance(item, (torch.nn.Module, torch.optim.Optimizer)) or depth == 0:
        return False
    if isinstance(item, (list, tuple)):
        return any(_is_batch(part, depth - 1) for part in item) or (len(item) > 0 and all(type(part) is int for part in item))
    parts = item if isinstance(item, dict) else getattr(item, "__dict__", {})
    return type(item).__module__ == "numpy" or any(_is_batch(part, depth - 1) for part in parts.values())
