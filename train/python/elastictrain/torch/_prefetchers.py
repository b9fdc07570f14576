"""Loaders that take the next batch before the last one was trained on. A step's samples are known when it begins, so they get
one batch at a time from the training loader.
"""

import copy
import functools
from typing import Any, Iterator

from ._imports import after_import
from ._script import script


def install() -> None:
    after_import("timm.data.loader", lambda module: take_one_at_a_time(module.PrefetchLoader))


def take_one_at_a_time(kind: Any) -> None:
    """`kind`: a class that iterates over its attribute `loader`."""
    iterate = kind.__iter__

    @functools.wraps(iterate)
    def batches(prefetcher: Any) -> Iterator[Any]:
        return _one_by_one(iterate, prefetcher) if script.is_training(prefetcher.loader) else iterate(prefetcher)

    kind.__iter__ = batches


def _one_by_one(iterate: Any, prefetcher: Any) -> Iterator[Any]:
    single = copy.copy(prefetcher)
    for batch in prefetcher.loader:
        single.loader = [batch]
        yield from iterate(single)
