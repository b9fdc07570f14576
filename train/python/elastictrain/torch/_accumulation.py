"""How many batches a script makes an update from, by a setting of the script that says so."""

import argparse
import re
import sys
import types
from typing import Any, Dict, Iterator, Mapping, Sequence, Tuple

NAME = re.compile(r"(?:n_|num_)?(?:grad(?:ient)?s?_?)?accum(?:ulate|ulation)?(?:_?(?:grad(?:ient)?s?|batch(?:es)?|steps?|iters?|freq|"
                  r"every|factor))*", re.IGNORECASE)
LARGEST = 1 << 16


def find(frames: Sequence[types.FrameType]) -> Tuple[int, str]:
    """(batches, the name of the setting), from variables of these functions and of the main module, and one level below them;
    (1, "") where there is none, or settings differ."""
    main = sys.modules.get("__main__")
    places = [frame.f_locals for frame in frames] + ([vars(main)] if main is not None else [])
    found: Dict[int, str] = {}
    for place in places:
        for name, value in _settings(place):
            found.setdefault(value, name)
    return next(iter(found.items())) if len(found) == 1 else (1, "")


def _settings(place: Mapping[str, Any]) -> Iterator[Tuple[str, int]]:
    for name, value in list(place.items()):
        yield from _if_setting(name, value)
        for inner, held in list(_below(value).items()):
            yield from _if_setting(inner, held)


def _if_setting(name: Any, value: Any) -> Iterator[Tuple[str, int]]:
    if type(value) is int and 1 < value <= LARGEST and isinstance(name, str) and NAME.fullmatch(name):
        yield name, value


def _below(value: Any) -> Mapping[str, Any]:
    """Of what holds settings."""
    if isinstance(value, argparse.Namespace) or hasattr(type(value), "__dataclass_fields__"):
        return vars(value) if hasattr(value, "__dict__") else {}
    is_mapping = isinstance(value, Mapping) and len(value) <= 1000  # of configurations, too
    return value if is_mapping else {}
