"""Iterators over a DataLoader that can be put to another place, for a script that runs without a run of elastictrain: by their
count, the epoch of the samplers, and the random numbers with which they began."""

import weakref
from typing import Any, Dict, Iterator, List

from torch.utils.data import DataLoader, IterableDataset

from . import _randomness
from .._imports import after_import

_iterate = DataLoader.__iter__
live: "weakref.WeakSet[LoaderIterator]" = weakref.WeakSet()


class LoaderIterator:
    """In place of the iterator of a DataLoader."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader, self._count = loader, 0
        self._states = _random_states(loader)
        self._epochs = [getattr(sampler, "epoch", None) for sampler in _samplers_of(loader)]
        self._it = _iterate(loader)
        live.add(self)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        item = next(self._it)
        self._count += 1
        return item

    def __len__(self) -> int:
        return len(self._loader)

    def progress_place(self) -> Dict[str, Any]:
        return {"count": self._count, "states": self._states, "epochs": self._epochs}

    def set_progress_place(self, place: Dict[str, Any]) -> None:
        for sampler, epoch in zip(_samplers_of(self._loader), place["epochs"]):
            if epoch is not None:
                sampler.epoch = epoch
        self._epochs, self._states, self._count = place["epochs"], place["states"], place["count"]
        own = {**_randomness.own_generators(), "loader": self._loader.generator}
        for name, state in self._states.items():
            _randomness.set_state(own[name], state)
        self._it = _iterate(self._loader)
        self._skip()

    def _skip(self) -> None:
        """Of a loader without processes the indices alone are drawn."""
        indices = getattr(self._it, "_sampler_iter", None)
        is_simple = self._loader.num_workers == 0 and not isinstance(self._loader.dataset, IterableDataset)
        for _ in range(self._count):
            next(indices if is_simple and indices is not None else self._it)


class StatefulIterator:
    """In place of the iterator of torchdata's StatefulDataLoader, whose state is its place."""

    def __init__(self, loader: Any, iterate: Any) -> None:
        self._loader, self._iterate, self._it = loader, iterate, iterate(loader)
        live.add(self)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._it)

    def progress_place(self) -> Any:
        return self._loader.state_dict()

    def set_progress_place(self, place: Any) -> None:
        self._loader.load_state_dict(place)
        self._it = self._iterate(self._loader)


def install() -> None:
    """From now on."""
    DataLoader.__iter__ = lambda self: LoaderIterator(self)  # type: ignore[method-assign, assignment, return-value]
    after_import("torchdata.stateful_dataloader.stateful_dataloader", _change_stateful)


def _change_stateful(module: Any) -> None:
    iterate = module.StatefulDataLoader.__iter__
    module.StatefulDataLoader.__iter__ = lambda self: StatefulIterator(self, iterate)


def _random_states(loader: DataLoader) -> Dict[str, Any]:
    own = _randomness.own_generators()
    if loader.generator is not None:
        own["loader"] = loader.generator
    return {name: _randomness.state_of(generator) for name, generator in own.items()}


def _samplers_of(loader: DataLoader) -> List[Any]:
    found: List[Any] = []
    todo: List[Any] = [loader.batch_sampler, loader.sampler]
    while todo:
        sampler = todo.pop(0)
        if hasattr(sampler, "__dict__") and all(sampler is not other for other in found):
            found.append(sampler)
            todo += [getattr(sampler, name, None) for name in ("sampler", "batch_sampler")]
    return found
