"""Buffers that a forward pass writes: BatchNorm's statistics and counters.

State may change only after the step's last sum, so the state is a copy of these buffers. After the sums of a step the
copy and the module's own buffers get the same values: floating-point ones their mean over the step's samples, integer
ones their own advance. The copies of one type are one tensor, so that a step makes the same few operators for any number of
buffers, and none that reads a value.
"""

import fnmatch
from typing import Dict, List, Sequence, Tuple

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from ._host_floats import BESIDE

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
                raise ValueError(f"local: the model has no buffer '{pattern}'; its buffers are "
                                 f"{', '.join(buffer.name for buffer in found) or 'none'}")
        self.local = [buffer for buffer in found if any(fnmatch.fnmatch(buffer.name, pattern) for pattern in local)]
        self._all = [buffer for buffer in found if buffer not in self.local]
        self.running: List[Buffer] = []
        self.constant: List[Buffer] = list(self._all)
        self._statistics: List[Statistics] = []
        self._counters: List[Counters] = []
        self._memory = torch.empty(0)

    def find_running(self, after_pass: bool) -> None:
        """After a trial pass: its writes tell. Without one every buffer of a size of statistics counts."""
        self.running = [b for b in self._all if b.is_statistic or
                        (b.is_written() if after_pass else b.copy.numel() <= LARGEST_STATISTIC)]
        self.constant = [b for b in self._all if b not in self.running]
        for buffer in self._all:
            buffer.restore()
        self._statistics = [Statistics(alike) for alike in _alike(self.running) if alike[0].is_floating]
        self._counters = [Counters(alike) for alike in _alike(self.running) if not alike[0].is_floating]

    def count(self) -> int:
        """Floats that travel with a step."""
        return sum(part.count() for part in self._statistics)

    def use(self, values: torch.Tensor) -> None:
        """The memory in which they travel, so many floats."""
        self._memory = values
        for part, own in zip(self._statistics, values.split([part.count() for part in self._statistics])):
            part.use(own)

    def open(self) -> None:
        for counters in self._counters:
            counters.open()

    def again(self) -> None:
        """One more pass of the same step is over; it began with the state."""
        for counters in self._counters:
            counters.again()

    def put(self) -> None:
        """This step's values into that memory."""
        for part in self._groups():
            part.put()
        if self._statistics:
            self._memory.mul_(BESIDE)

    def take(self) -> None:
        """The means of a step are there: writes the state, and gives it to the modules."""
        if self._statistics:
            self._memory.mul_(1 / BESIDE)
        for part in self._groups():
            part.advance()
        self.restore()

    def restore(self) -> None:
        """Gives the modules the state, for example one that was just received."""
        for part in self._groups():
            part.restore()

    def _groups(self) -> "List[Alike]":
        return [*self._statistics, *self._counters]

    def check_constant(self) -> None:
        """Raises RuntimeError for a buffer that was constant in the trial pass and is written now."""
        for buffer in self.constant:
            if buffer.is_touched():
                raise RuntimeError(f"buffer '{buffer.name}' is written in training, but not in the trial pass that elastic() "
                                   "makes; pass warm_up=, a function that makes a full pass for one batch")


class Alike:
    """Running buffers of one type on one device, whose copies become parts of one tensor."""

    ALIGNMENT = 64  # bytes, of each part

    def __init__(self, buffers: List[Buffer]) -> None:
        self._buffers = buffers
        first = buffers[0].copy
        step = max(1, self.ALIGNMENT // first.element_size())
        self._begins, end = [], 0
        for buffer in buffers:
            self._begins.append(end)
            end += -(-buffer.copy.numel() // step) * step
        self._state = torch.zeros(end, dtype=first.dtype, device=first.device)
        self._copies = self._parts(self._state)
        self._set(self._copies, [buffer.copy for buffer in buffers])
        for buffer, copy in zip(buffers, self._copies):
            buffer.copy = copy

    def _parts(self, flat: torch.Tensor) -> List[torch.Tensor]:
        """In the shapes of the buffers."""
        return [flat[begin:begin + buffer.copy.numel()].view(buffer.copy.shape)
                for begin, buffer in zip(self._begins, self._buffers)]

    def _live(self) -> List[torch.Tensor]:
        return [buffer.live for buffer in self._buffers]

    def _set(self, parts: List[torch.Tensor], values: List[torch.Tensor]) -> None:
        with torch.no_grad():
            torch._foreach_copy_(parts, values)

    def put(self) -> None:
        """The pass is over: what the state needs of it."""
        raise NotImplementedError

    def advance(self) -> None:
        """The state to that after the step."""
        raise NotImplementedError

    def restore(self) -> None:
        """Gives the modules the state."""
        self._set(self._live(), self._copies)


class Statistics(Alike):
    """Floating-point buffers. Which elements a step wrote travels with them: the others keep their bits, which a mean of equal
    values might not."""

    def count(self) -> int:
        return 2 * len(self._state)

    def use(self, memory: torch.Tensor) -> None:
        self._values, self._written = memory.split(len(self._state))
        is_same = self._values.dtype == self._state.dtype and self._values.device == self._state.device
        self._now = self._values if is_same else torch.zeros_like(self._state)
        self._present = self._parts(self._now)

    def put(self) -> None:
        self._set(self._present, self._live())
        if self._now is self._values:
            # torch's own BatchNorm does not count its writes in `_version`.
            torch.ne(self._now, self._state, out=self._written)
        else:
            self._written.copy_(torch.ne(self._now, self._state))
            self._values.copy_(self._now)

    def advance(self) -> None:
        values, written = self._values.to(self._state.device), self._written.to(self._state.device)
        if self._now is self._values:
            torch.where(written > 0, values, self._state, out=self._state)
        else:
            self._state.copy_(torch.where(written > 0, values, self._state))


class Counters(Alike):
    """Integer buffers."""

    def __init__(self, buffers: List[Buffer]) -> None:
        super().__init__(buffers)
        self._begin = torch.zeros_like(self._state)  # of the step
        self._at_begin = self._parts(self._begin)

    def open(self) -> None:
        self._set(self._at_begin, self._live())

    def again(self) -> None:
        self._begin.copy_(self._state)

    def put(self) -> None:
        """The negative advance takes the place of the values at the begin."""
        with torch.no_grad():
            torch._foreach_sub_(self._at_begin, self._live())

    def advance(self) -> None:
        self._state.sub_(self._begin)


def _alike(buffers: Sequence[Buffer]) -> List[List[Buffer]]:
    found: Dict[Tuple[torch.dtype, torch.device], List[Buffer]] = {}
    for buffer in buffers:
        found.setdefault((buffer.copy.dtype, buffer.copy.device), []).append(buffer)
    return list(found.values())


def has_statistics(model: nn.Module) -> bool:
    """Whether it has a BatchNorm."""
    return any(isinstance(module, _NormBase) for module in model.modules())


def _full(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
