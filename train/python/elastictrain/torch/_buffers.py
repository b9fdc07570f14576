"""Buffers that a forward pass writes: BatchNorm's statistics and counters.

State may change only after the step's last sum, so the state is a copy of these buffers. After the sums of a step the
copy and the module's own buffers get the same values: floating-point ones their mean over the step's samples, integer
ones their own advance.
"""

import fnmatch
from typing import Iterator, List, Sequence, Tuple

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

LARGEST_STATISTIC = 65536  # elements


class Buffer:
    def __init__(self, name: str, module: nn.Module, key: str) -> None:
        self.name, self._module, self._key = name, module, key
        self.is_statistic = isinstance(module, _NormBase)
        self.copy = self.live.detach().clone().contiguous()
        self._mark = self._seen()

    @property
    def live(self) -> torch.Tensor:
        found = self._module._buffers[self._key]
        assert found is not None
        return found

    @property
    def is_floating(self) -> bool:
        return self.copy.is_floating_point()

    def _seen(self) -> Tuple[int, int]:
        live = self.live
        return id(live), live._version

    def is_written(self) -> bool:
        """Whether it differs from the copy. torch's own BatchNorm does not count its writes in `_version`."""
        return not torch.equal(self.live, self.copy)

    def is_touched(self) -> bool:
        """Cheaper, for a large buffer: whether Python code wrote or replaced it."""
        return self._seen() != self._mark

    def restore(self) -> None:
        """Gives the module the copy."""
        self.live.copy_(self.copy)
        self._mark = self._seen()


class Buffers:
    """The buffers of a model. Those that its forward pass writes are `running`; the others are constant.

    `local`: patterns of names of buffers that are each worker's own, which this class only finds. Raises ValueError for a
    pattern that matches none."""

    def __init__(self, model: nn.Module, local: Sequence[str] = ()) -> None:
        found = [Buffer(_full(path, key), module, key) for path, module in model.named_modules()
                 for key, value in module._buffers.items() if value is not None]
        for pattern in local:
            if not fnmatch.filter([buffer.name for buffer in found], pattern):
                raise ValueError(f"local_state: the model has no buffer '{pattern}'; its buffers are "
                                 f"{', '.join(buffer.name for buffer in found) or 'none'}")
        self.local = [buffer for buffer in found if any(fnmatch.fnmatch(buffer.name, pattern) for pattern in local)]
        self._all = [buffer for buffer in found if buffer not in self.local]
        self.running: List[Buffer] = []
        self.constant: List[Buffer] = list(self._all)
        self._begin: List[torch.Tensor] = []  # integer buffers at the begin of the step

    def find_running(self, after_pass: bool) -> None:
        """After a trial pass: its writes tell. Without one every buffer of a size of statistics counts."""
        self.running = [b for b in self._all if b.is_statistic or
                        (b.is_written() if after_pass else b.copy.numel() <= LARGEST_STATISTIC)]
        self.constant = [b for b in self._all if b not in self.running]
        for buffer in self._all:
            buffer.restore()

    @property
    def floats(self) -> List[Buffer]:
        return [buffer for buffer in self.running if buffer.is_floating]

    @property
    def integers(self) -> List[Buffer]:
        return [buffer for buffer in self.running if not buffer.is_floating]

    def count(self) -> int:
        """Floats that travel with a step: a flag and the values of each buffer."""
        return sum(1 + buffer.copy.numel() for buffer in self.floats)

    def open(self) -> None:
        self._begin = [buffer.live.detach().clone() for buffer in self.integers]

    def put_into(self, values: torch.Tensor) -> None:
        for buffer, part in self._parts(values):
            part[0] = float(buffer.is_written())
            part[1:].copy_(buffer.live.detach().reshape(-1))

    def take_from(self, values: torch.Tensor) -> None:
        """The means of a step; writes the state."""
        for buffer, part in self._parts(values):
            if part[0] > 0:
                buffer.copy.copy_(part[1:].view(buffer.copy.shape))
        for buffer, before in zip(self.integers, self._begin):
            buffer.copy.add_(buffer.live - before)
        self.restore()

    def _parts(self, values: torch.Tensor) -> Iterator[Tuple[Buffer, torch.Tensor]]:
        """A flag, whether the step wrote it, and the values of each buffer."""
        return zip(self.floats, values.split([1 + buffer.copy.numel() for buffer in self.floats]))

    def restore(self) -> None:
        """Gives the modules the state, for example one that was just received."""
        for buffer in self.running:
            buffer.restore()

    def check_constant(self) -> None:
        """Raises RuntimeError for a buffer that was constant in the trial pass and is written now."""
        for buffer in self.constant:
            if buffer.is_touched():
                raise RuntimeError(f"buffer '{buffer.name}' is written in training, but not in the trial pass that elastic() "
                                   "makes; pass warm_up=, a function that makes a full pass for one batch")


def has_statistics(model: nn.Module) -> bool:
    """Whether it has a BatchNorm."""
    return any(isinstance(module, _NormBase) for module in model.modules())


def _full(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
