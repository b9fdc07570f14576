"""Iterators of Python: how far they are, in a form that can be sent, and others like them that go on at such a place."""

import collections
import gc
import itertools
import sys
import types
import warnings
from typing import Any, List, Optional, Sequence, Tuple

Place = Tuple[Any, ...]  # the kind, and what the kind needs

SEQUENCES = ("list_iterator", "tuple_iterator", "str_iterator", "str_ascii_iterator", "bytes_iterator", "list_reverseiterator",
             "reversed")
UNORDERED = {"dict_keyiterator": iter, "dict_valueiterator": lambda of: iter(of.values()),
             "dict_itemiterator": lambda of: iter(of.items()), "dict_reversekeyiterator": reversed,
             "dict_reversevalueiterator": lambda of: reversed(of.values()),
             "dict_reverseitemiterator": lambda of: reversed(of.items()), "set_iterator": iter, "_deque_iterator": iter,
             "_deque_reverse_iterator": reversed}
OVER_ITERATORS = ("map", "filter", "takewhile", "dropwhile", "starmap")  # a function comes first
REPEATABLE = ("count", "repeat", "product", "permutations", "combinations")
ITERTOOLS_ARE_OPEN = sys.version_info < (3, 14)


class Passing:
    """An iterator that gives what another one does. `over`: makes one like this one."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __iter__(self) -> "Passing":
        return self

    def __next__(self) -> Any:
        return next(self.inner)

    def over(self, inner: Any) -> "Passing":
        return type(self)(inner)


def is_iterator(value: Any) -> bool:
    return not isinstance(value, type) and hasattr(type(value), "__next__")


def tells_place(it: Any) -> bool:
    """Of a library whose iterators can be read and placed by methods of their own, as those of grain."""
    return is_iterator(it) and all(callable(getattr(type(it), name, None)) for name in ("get_state", "set_state"))


def kind_of(it: Any) -> Optional[str]:
    """None for an iterator of another kind."""
    name, module = type(it).__name__, type(it).__module__
    if isinstance(it, types.GeneratorType):
        return "finished" if it.gi_frame is None else None
    if isinstance(it, Passing):
        return "passing"
    if module not in ("builtins", "itertools", "collections", "_collections") or module == "itertools" and not ITERTOOLS_ARE_OPEN:
        return None
    if name in SEQUENCES:
        return "sequence"
    if name in ("range_iterator", "longrange_iterator"):
        return "range"
    if name in UNORDERED:
        return "unordered"
    known = ("enumerate", "zip", "islice", "chain", "cycle", *OVER_ITERATORS, *REPEATABLE)
    return name if name in known else None


def _reduced(it: Any) -> Tuple[Any, Tuple[Any, ...], Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        function, arguments, *rest = it.__reduce__()
    return function, arguments, rest[0] if rest else None


def operands_of(it: Any) -> List[Any]:
    """What it iterates over."""
    kind = kind_of(it)
    if kind == "unordered":
        return [value for value in gc.get_referents(it) if isinstance(value, (dict, set, frozenset, collections.deque))][:1]
    if kind in (None, "finished", "range", *REPEATABLE):
        return []
    if kind == "passing":
        return [it.inner]
    _, arguments, state = _reduced(it)
    if kind == "sequence":
        return list(arguments[:1]) if state is not None else []
    if kind == "chain":
        return list(state or ())
    if kind == "cycle":
        return list(arguments) if not state[1] else []
    if kind in OVER_ITERATORS:
        return list(arguments[1:])
    return list(arguments) if kind == "zip" else [arguments[0]]


def place_of(it: Any) -> Place:
    kind, operands = kind_of(it), operands_of(it)
    if kind in (None, "finished") or kind in ("sequence", "unordered") and not operands:
        return ("finished",)
    if kind == "passing":
        return ("passing",)
    if kind == "unordered":
        return ("unordered", type(it).__name__, len(operands[0]) - it.__length_hint__())
    _, arguments, state = _reduced(it)
    if kind == "range":
        return ("range", arguments[0][state or 0:] if isinstance(arguments[0], range) else range(0))
    if kind == "chain":
        return ("chain", len(operands))
    if kind == "cycle":
        return ("cycle", list(state[0]), _index_of(arguments[0]) if state[1] else None)
    if kind in REPEATABLE:
        return (kind, tuple(arguments), state)
    if kind in ("zip", *OVER_ITERATORS):
        return (kind, type(it).__name__, len(operands), state)
    return (kind, type(it).__name__, tuple(arguments[1:]), state)


def _index_of(it: Any) -> int:
    return int(_reduced(it)[2] or 0)


def is_like(place: Place, own: Place) -> bool:
    """Whether the iterators are of one kind, so that this one can be placed there. What is finished is like all."""
    if place[0] == "finished":
        return True
    return place[0] == own[0] and (place[0] not in ("sequence", "unordered") or own[1] == place[1])


def placed(it: Any, place: Place, operands: Sequence[Any]) -> Any:
    """An iterator like `it`, over these operands, that goes on at a place. Raises ValueError where there is none."""
    kind = place[0]
    if kind == "finished":
        return iter(())
    if kind == "passing":
        return it.over(operands[0])
    if kind == "range":
        return iter(place[1])
    if kind == "unordered":
        return _advanced(UNORDERED[place[1]](operands[0]), place[2], len(operands[0]))
    if kind in REPEATABLE:
        return _with_state(type(it)(*place[1]), place[2])
    if kind == "chain":
        return _with_state(itertools.chain(), tuple(operands)) if operands else iter(())
    if kind == "cycle":
        return _cycle(place, operands)
    if kind == "sequence":
        function = reversed if place[1] in ("list_reverseiterator", "reversed") else iter
        return _with_state(function(operands[0]), place[3])
    if kind in OVER_ITERATORS:
        return _with_state(type(it)(_reduced(it)[1][0], *operands), place[3])
    return _with_state(type(it)(*operands, *(place[2] if kind != "zip" else ())), place[3])


def _advanced(it: Any, count: int, size: int) -> Any:
    if size < count:
        raise ValueError(f"what it iterates over has {size} items here; {count} were used there")
    for _ in range(count):
        next(it)
    return it


def _cycle(place: Place, operands: Sequence[Any]) -> Any:
    _, saved, index = place
    inner = operands[0] if index is None else _with_state(iter(saved), index)
    return _with_state(itertools.cycle(inner), (saved, index is not None))


def _with_state(it: Any, state: Any) -> Any:
    if state is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            it.__setstate__(state)
    return it
