"""The iterators of rewritten loops: as fast as the plain ones, but their place can be read and set.

A loop keeps a mark in a variable of its own. The mark refers weakly to the loop's iterator, which so ends with the loop.
"""

import itertools
import types
import warnings
import weakref
from typing import Any, Iterator, Optional

try:
    from torch.compiler import is_compiling as _is_compiling
except ImportError:
    def _is_compiling() -> bool:
        return False


if hasattr(itertools.chain, "__setstate__"):
    class Loop(itertools.chain):
        """The iterator of one loop."""
        __slots__ = ("it", "__weakref__")
        it: Any

        def place_at(self, it: Iterator[Any]) -> None:
            """Goes on with another iterator."""
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                self.__setstate__((iter(()), it))  # type: ignore[attr-defined]
            self.it = it
else:
    class Loop:  # type: ignore[no-redef]
        """The iterator of one loop."""
        __slots__ = ("it", "__weakref__")

        def __init__(self, _: Any) -> None:
            self.it: Any = None

        def __iter__(self) -> Iterator[Any]:
            return self

        def __next__(self) -> Any:
            return next(self.it)

        def place_at(self, it: Iterator[Any]) -> None:
            self.it = it


def _iter(source: Any) -> Iterator[Any]:
    return iter(source)


make_iterator = _iter  # what it yields feeds a loop of the script


take_next = next  # of an iterator of the script


def draw(*arguments: Any) -> Any:
    """In place of next(). torch.compile sees the call as it was written."""
    return next(*arguments) if _is_compiling() else take_next(*arguments)


class Mark:
    """What a rewritten loop iterates over; afterwards it only knows whether the loop still runs."""
    __slots__ = ("_source", "_loop")

    def __init__(self, source: Any) -> None:
        self._source: Any = source
        self._loop: Any = None

    def __iter__(self) -> Iterator[Any]:
        source, self._source = self._source, None
        it = make_iterator(source)
        loop = Loop(it)
        loop.it = it
        self._loop = weakref.ref(loop)
        return loop  # type: ignore[return-value]

    @property
    def loop(self) -> Optional["Loop"]:
        """None once it is over."""
        return None if self._loop is None else self._loop()


def mark(source: Any) -> Any:
    """Around what a `for` statement iterates over. torch.compile sees the loop as it was written."""
    return source if _is_compiling() else Mark(source)


def wrap(source: Any) -> Any:
    """Around what a generator expression iterates over."""
    if _is_compiling():
        return source
    it = make_iterator(source)
    loop = Loop(it)
    loop.it = it
    return loop


def delegate(source: Any) -> Any:
    """Around what `yield from` iterates over; generators and the like are passed on to as they are."""
    if _is_compiling() or isinstance(source, (types.GeneratorType, types.CoroutineType)) or hasattr(source, "send"):
        return source
    return Mark(source)
