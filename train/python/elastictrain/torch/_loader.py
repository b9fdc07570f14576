"""Batches by their sample indices: loaded in this process, or ahead of time by the processes of a DataLoader.

A DataLoader returns what it was asked for in the order of the requests. Requests follow the look-ahead of the session;
after a change of the membership those that no longer fit are thrown away as they arrive.
"""

import collections
import ctypes
import os
import select
import signal
import threading
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Sequence, Tuple

from torch.utils.data import BatchSampler, DataLoader, IterableDataset
from torch.utils.data._utils.collate import default_collate

from .. import _helpers

Indices = Tuple[int, ...]


class Loader:
    """`look_ahead(n)`: the next n batches of this worker after the present one, as far as they are known.

    Thread: the training thread. Errors of the dataset or of `collate` are raised by take()."""

    def __init__(self, dataset: Any, options: Dict[str, Any], look_ahead: Callable[[int], List[Indices]]) -> None:
        if isinstance(dataset, IterableDataset):
            raise TypeError("an IterableDataset has no indices, so its samples cannot be counted exactly once. Use a dataset "
                            "with __getitem__ and __len__")
        self._dataset, self._look_ahead = dataset, look_ahead
        self._collate = options.get("collate_fn") or default_collate
        self._options = options
        self._requested: Deque[Indices] = collections.deque()
        self._wanted: List[Indices] = []
        self._iterator: Optional[Iterator[Any]] = None
        self.ahead = self.late = 0  # batches that were requested before they were needed, and not

    def take(self, indices: Indices) -> Any:
        if not self._options.get("num_workers"):
            return self._collate(self.samples(indices))
        self._wanted = [indices, *self._look_ahead(self._depth())]
        on_time = indices in self._requested
        self.ahead, self.late = self.ahead + on_time, self.late + (not on_time)
        if self._iterator is None:
            self._iterator = iter(self._data_loader())
        return self._receive(indices)

    @property
    def share_ahead(self) -> float:
        """Of the batches so far, those that were requested before they were needed."""
        return self.ahead / max(1, self.ahead + self.late)

    def samples(self, indices: Sequence[int]) -> List[Any]:
        """In this process, not collated."""
        if hasattr(self._dataset, "__getitems__"):
            return list(self._dataset.__getitems__(list(indices)))
        return [self._dataset[index] for index in indices]

    def collate(self, samples: List[Any]) -> Any:
        return self._collate(samples)

    def close(self) -> None:
        """Ends the loader's processes."""
        iterator, self._iterator = self._iterator, None
        if iterator is not None and hasattr(iterator, "_shutdown_workers"):
            iterator._shutdown_workers()

    def _depth(self) -> int:
        return int(self._options["num_workers"]) * int(self._options.get("prefetch_factor") or 2)

    def _receive(self, indices: Indices) -> Any:
        assert self._iterator is not None
        while True:
            batch = next(self._iterator)
            if self._requested.popleft() == indices:
                return batch

    def _requests(self) -> Iterator[List[int]]:
        """Asked by the DataLoader whenever it has room. An empty request keeps the place of one that is not known yet."""
        while True:
            known = (indices for indices in self._wanted if indices not in self._requested)
            request = next(known, ())
            self._requested.append(request)
            yield list(request)

    def _data_loader(self) -> DataLoader:
        options = {key: value for key, value in self._options.items() if key != "collate_fn"}
        options["worker_init_fn"] = _WorkerStart(options.get("worker_init_fn"))
        return DataLoader(self._dataset, batch_sampler=Requests(self._requests), collate_fn=_Collate(self._collate),
                          **options)


class NoLoader:
    """Of a program whose data are its own: nothing is loaded for it."""

    share_ahead = 1.0

    def take(self, indices: Indices) -> Any:
        raise AssertionError("the program has its own data")

    def samples(self, indices: Sequence[int]) -> List[Any]:
        return []

    def collate(self, samples: List[Any]) -> Any:
        return None

    def close(self) -> None:
        """Nothing was started."""


class Requests:
    """A batch sampler that never ends."""

    def __init__(self, requests: Callable[[], Iterator[List[int]]]) -> None:
        self._requests = requests

    def __iter__(self) -> Iterator[List[int]]:
        return self._requests()


class _Collate:
    """In a loader's process; nothing for an empty request."""

    def __init__(self, collate: Callable[[List[Any]], Any]) -> None:
        self._collate = collate

    def __call__(self, samples: List[Any]) -> Any:
        return self._collate(samples) if samples else None


class _WorkerStart:
    """In a loader's process: it ends with the worker that it loads for, also when that is killed, and not before it."""

    def __init__(self, program: Optional[Callable[[int], None]]) -> None:
        self._program, self._worker = program, os.getpid()

    def __call__(self, number: int) -> None:
        ctypes.CDLL(None).prctl(_helpers.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != self._worker:
            _end_with(self._worker)
        _helpers.ignore_notices(self._worker)
        if self._program is not None:
            self._program(number)


def _end_with(worker: int) -> None:
    """For a child of a forkserver, and for one whose parent was lost before it asked for the signal."""
    try:
        end = os.pidfd_open(worker)
    except ProcessLookupError:
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Thread(target=_end_after, args=(end,), daemon=True).start()


def _end_after(end: int) -> None:
    select.select([end], [], [])
    os.kill(os.getpid(), signal.SIGKILL)


def division_of(loader: DataLoader) -> Tuple[Optional[int], bool]:
    """(samples of a batch, whether the rest of an epoch is dropped); of the batch sampler, where it is torch's."""
    if loader.batch_size is not None:
        return loader.batch_size, loader.drop_last
    sampler: Any = loader.batch_sampler
    while hasattr(sampler, "batch_sampler"):  # accelerate's, around another one
        sampler = sampler.batch_sampler
    return (sampler.batch_size, sampler.drop_last) if type(sampler) is BatchSampler else (None, False)


def options_of(loader: DataLoader) -> Dict[str, Any]:
    """What of a program's own DataLoader is used again."""
    options = {key: getattr(loader, key) for key in ("num_workers", "collate_fn", "pin_memory", "worker_init_fn", "timeout")}
    if loader.num_workers:
        options.update(multiprocessing_context=loader.multiprocessing_context, prefetch_factor=loader.prefetch_factor)
    return options
