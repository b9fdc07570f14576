"""What of a script's training loader can be counted, and the order that it asks for."""

import inspect
import random
import sys
import zlib
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, IterableDataset, RandomSampler, SequentialSampler

from . import _loader
from ..errors import ElasticError

SHUFFLES_BY_NAME = ("SeedableRandomSampler",)  # of accelerate


class Order:
    """The indices that a sampler of the script's own draws, once in each epoch and alike on all workers.

    Raises ElasticError where it draws another number in another epoch. Thread: the training thread."""

    def __init__(self, sampler: Any, seed: int = 0) -> None:
        self._sampler, self._seed = sampler, seed
        self._size = len(sampler)
        self._epoch: Optional[int] = None
        self._drawn: List[int] = []
        self._checksum = 0

    def __len__(self) -> int:
        return self._size

    def enter(self, epoch: int) -> None:
        """Draws for the epoch."""
        if epoch == self._epoch:
            return
        self._epoch = epoch
        self._drawn = _drawn_alike(self._sampler, self._seed + epoch)
        self._checksum = zlib.crc32(repr(self._drawn).encode())
        if len(self._drawn) != self._size:
            raise ElasticError(f"{type(self._sampler).__name__} drew {len(self._drawn)} samples for epoch {epoch + 1} and announced "
                               f"{self._size}; a sampler draws the same number in each epoch")

    def indices(self, places: Sequence[int]) -> Tuple[int, ...]:
        return tuple(self._drawn[place] for place in places)

    def state_dict(self) -> Dict[str, int]:
        """Equal on all workers if they have drawn the same."""
        return {"drawn": self._checksum}

    def load_state_dict(self, state: Dict[str, int]) -> None:
        """Each worker draws by itself, and then compares."""
        self._checksum = state["drawn"]


class Counted(NamedTuple):
    dataset: Any
    size: int
    batch: int
    drop_last: bool
    is_shuffled: bool
    order: Optional[Order]  # None: that of the run, shuffled or by index
    words: str


def can_be_counted(loader: DataLoader) -> bool:
    """Whether its samples have indices, its batches a size, and each worker can draw all of its order."""
    batch, _ = _loader.division_of(loader)
    is_indexed = not isinstance(loader.dataset, IterableDataset) and hasattr(loader.dataset, "__len__")
    return is_indexed and batch is not None and not _is_divided(_sampler_of(loader))


def counted(loader: DataLoader) -> Counted:
    """For a loader that can be counted."""
    batch, drop_last = _loader.division_of(loader)
    assert batch is not None
    sampler, size = _sampler_of(loader), len(loader.dataset)  # type: ignore[arg-type]
    if _shuffles(sampler, size):
        return Counted(loader.dataset, size, batch, drop_last, True, None, "shuffled")
    if isinstance(sampler, (SequentialSampler, DistributedSampler)):
        return Counted(loader.dataset, size, batch, drop_last, False, None, "in their order")
    order = Order(sampler)
    return Counted(loader.dataset, len(order), batch, drop_last, False, order, f"as {type(sampler).__name__} draws them")


def length_of(loader: DataLoader) -> int:
    """The batches that it announces by itself."""
    return len(loader.batch_sampler)  # type: ignore[arg-type]


def division_of(loader: DataLoader) -> Tuple[int, int]:
    """(parts, the one of this process) into which the script's own sampler divides the data."""
    sampler = _sampler_of(loader)
    return (sampler.num_replicas, sampler.rank) if isinstance(sampler, DistributedSampler) else (1, 0)


def _sampler_of(loader: DataLoader) -> Any:
    sampler: Any = loader.batch_sampler
    while hasattr(sampler, "batch_sampler"):  # accelerate's, around another one
        sampler = sampler.batch_sampler
    return sampler.sampler if isinstance(sampler, BatchSampler) else sampler


def _shuffles(sampler: Any, size: int) -> bool:
    if isinstance(sampler, DistributedSampler):
        return bool(sampler.shuffle)
    is_random = isinstance(sampler, RandomSampler) or type(sampler).__name__ in SHUFFLES_BY_NAME
    return is_random and not getattr(sampler, "replacement", False) and len(sampler) == size


def _is_divided(sampler: Any) -> bool:
    """A sampler of the script's own that draws for one rank only."""
    if type(sampler) is DistributedSampler:
        return False
    names = {*vars(sampler), *inspect.signature(type(sampler).__init__).parameters} if hasattr(sampler, "__dict__") else set()
    return bool(names & {"rank", "num_replicas"}) or not hasattr(sampler, "__len__")


def _drawn_alike(sampler: Any, seed: int) -> List[int]:
    """With the same random numbers on all workers; those of the program go on as if nothing had been drawn."""
    numpy = sys.modules.get("numpy")
    python_state, numpy_state = random.getstate(), numpy.random.get_state() if numpy is not None else None
    generator = getattr(sampler, "generator", None)
    own = generator.get_state() if isinstance(generator, torch.Generator) else None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        random.seed(seed)
        if numpy is not None:
            numpy.random.seed(seed % 2**32)
        if own is not None:
            generator.manual_seed(seed)  # type: ignore[union-attr]
        drawn = [int(index) for index in sampler]
    random.setstate(python_state)
    if numpy is not None:
        numpy.random.set_state(numpy_state)
    if own is not None:
        generator.set_state(own)  # type: ignore[union-attr]
    return drawn
