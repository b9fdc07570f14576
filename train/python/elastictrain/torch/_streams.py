"""What a script iterates over that can tell its place, and be put to another one: something with state_dict() and
load_state_dict(), such as torchdata's StatefulDataLoader or an IterableDataset of datasets.
"""

import os
import pickle
import sys
from typing import Any, Callable, Iterator, List, Optional

import torch
from torch.utils.data import DataLoader

from ._group_board import is_starter
from ._imports import after_import
from .progress import _frames, _loops, _randomness


class Source:
    """Something with state_dict() and load_state_dict(). `make`: a new iterator over it; None where it is one itself."""

    def __init__(self, thing: Any, make: Optional[Callable[[], Iterator[Any]]]) -> None:
        self.thing, self.make = thing, make
        self.stream: Optional["Stream"] = None  # the present iterator
        self.given = 0  # batches
        self._begin: Any = None
        if make is not None and _may_begin_anew():
            try:
                self._begin = pickle.dumps(thing.state_dict())
            except Exception:  # it has no place before its first batch
                self._begin = None

    def load(self, state: Any) -> None:
        """Goes on at a state. Random numbers of the process are as before."""
        generators = _randomness.own_generators()
        states = {name: _randomness.state_of(generator) for name, generator in generators.items()}
        if state is not None:
            self.thing.load_state_dict(state)
        if self.make is not None and self.stream is not None:
            self.stream.inner = self.make()
        for name, held in states.items():
            _randomness.set_state(generators[name], held)

    def begin_anew(self) -> None:
        """Without the batches of passes that count nowhere."""
        self.given = 0
        self.load(None if self._begin is None else pickle.loads(self._begin))


class Stream:
    """The iterator that a script gets. It places itself, so that the progress of another worker does not."""

    def __init__(self, source: Source, inner: Iterator[Any]) -> None:
        self._source, self.inner = source, inner

    def __iter__(self) -> "Stream":
        return self

    def __next__(self) -> Any:
        item = next(self.inner)
        self._source.given += 1
        return item

    def progress_place(self) -> None:
        """It is the worker's own."""

    def set_progress_place(self, place: None) -> None:
        """It is the worker's own."""


class LoaderStream(Stream):
    def __len__(self) -> int:
        return len(self.inner)  # type: ignore[arg-type]


# --- What a script iterates over

def has_place(thing: Any) -> bool:
    kind = type(thing)
    return hasattr(kind, "state_dict") and hasattr(kind, "load_state_dict") and not isinstance(thing, torch.nn.Module) and \
        (hasattr(kind, "__iter__") or hasattr(kind, "__next__"))


class Opened:
    """The sources that a script has opened iterators over, in their order. `is_training`: now. Thread: the training thread."""

    def __init__(self, is_training: Callable[[], bool]) -> None:
        self._is_training = is_training
        self._sources: List[Source] = []
        self._carried: List[Source] = []
        self._is_fixed = False  # the training has begun
        self.obstacle = ""  # why something with a state is not carried

    def install(self) -> None:
        _loops.make_iterator = self.over
        after_import("torchdata.stateful_dataloader.stateful_dataloader", self._change_stateful)

    def _change_stateful(self, module: Any) -> None:
        iterate = module.StatefulDataLoader.__iter__

        def opened(loader: Any) -> Iterator[Any]:
            return self._open(loader, lambda: iterate(loader), LoaderStream) if _is_own_call() else iterate(loader)

        module.StatefulDataLoader.__iter__ = opened

    def over(self, thing: Any) -> Iterator[Any]:
        """In place of iter() in the script's own loops."""
        if isinstance(thing, (DataLoader, Stream)) or not has_place(thing):
            return iter(thing)
        return self._open(thing, lambda: iter(thing), Stream)

    def over_loader(self, loader: DataLoader, iterate: Callable[[Any], Iterator[Any]]) -> Iterator[Any]:
        """Over a DataLoader that cannot be counted: its dataset may have a place."""
        if not has_place(loader.dataset) or type(loader).__iter__ is not DataLoader.__iter__:
            return iterate(loader)
        if loader.num_workers:
            self.obstacle = "the loader's processes hold the positions; torchdata's StatefulDataLoader tells them"
            return iterate(loader)
        return self._open(loader.dataset, lambda: iterate(loader), LoaderStream)

    def _open(self, thing: Any, make: Callable[[], Iterator[Any]], kind: Any) -> Iterator[Any]:
        source = next((one for one in self._sources if one.thing is thing), None)
        if source is None and not self._is_training():
            return make()
        if source is None:
            source = Source(thing, make)
            self._sources.append(source)
            if self._is_fixed and self._carried:
                print(f"elastictrain: data: this worker's place in a further {type(thing).__name__} is not carried, which the "
                      "training did not begin with", file=sys.stderr, flush=True)
        source.make = make
        source.stream = kind(source, make())
        assert source.stream is not None
        return source.stream

    def fix(self) -> List[Source]:
        """Those that have fed the first pass of the training."""
        if not self._is_fixed:
            self._is_fixed = True
            self._carried = [source for source in self._sources if source.given]
            seen = {id(source.thing) for source in self._sources}
            held = [value for frame in _frames.frames() for value in _frames.locals_of(frame).values() if has_place(value)]
            for value in held if not self._carried else ():
                if hasattr(type(value), "__next__") and id(value) not in seen:
                    seen.add(id(value))
                    self._carried.append(Source(value, None))
            if held and not self._carried:
                self.obstacle = self.obstacle or f"no loop of the script goes over its {type(held[0]).__name__}"
        return self._carried


def _is_own_call() -> bool:
    """Not accelerate's, which takes a batch ahead."""
    return not str(sys._getframe(2).f_globals.get("__name__")).startswith("accelerate.")


def _may_begin_anew() -> bool:
    """A worker that comes later, or one of a run that resumes."""
    return not is_starter() or os.environ.get("ELASTICTRAIN_RESUME") == "1"
