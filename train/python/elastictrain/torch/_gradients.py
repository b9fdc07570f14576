"""Gradients in buckets of a layout that is equal on all workers, reduced while the backward pass computes the next ones.

The layout follows from the model, and from the second step on from the order in which gradients arrived on the first worker, if
that lets them leave earlier; a joiner has both before its first step. Gradients are copied into their bucket, whose memory becomes their `.grad`. Buckets are reduced in the order of the layout on all workers, whatever the order in which
gradients arrive.
"""

import functools
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

import torch

from ._order import Order
from ._replica import is_divided, like, local, part_as
from .. import _replica, _replica_session
from .._memory import is_on_device
from ..errors import ElasticError
from ..session import Session

BUCKET_BYTES = 25 << 20
FIRST_BUCKET_BYTES = 1 << 20
COPY_ALIGNMENT = 16  # of Session.reserve_gradient_copies()
WORTH_A_LAYOUT = 0.02  # of the pass, by which buckets leave earlier on average


class Slot:
    """One parameter's place in a bucket, or that of the part of it that this process holds."""

    def __init__(self, name: str, parameter: torch.Tensor, number: int) -> None:
        self.name, self.parameter, self.number = name, parameter, number
        self.bucket = Bucket()
        self.part = local(parameter).detach()  # for its shape
        self.view = torch.empty(0)  # its place in the bucket, in that shape
        self.gradient = self.view  # the same, as `.grad`
        self.arrived = False
        self.bytes = self.part.element_size() * self.part.numel()

    def take_place(self, flat: torch.Tensor) -> None:
        self.view = _shaped(flat, self.part)
        self.gradient = like(self.parameter, self.view)


class Bucket:
    """Of parameters of one type. Sums of 16 bits are made in single precision by the session, and rounded once."""

    def __init__(self) -> None:
        self.slots: List[Slot] = []
        self.views: List[torch.Tensor] = []  # of the slots
        self.flat = torch.empty(0)
        self.missing = 0
        # Copies a gradient as soon as it is there, while a CPU has it in its cache. A device gets one kernel for all of them.
        self.takes_each = False
        self.is_divided = False

    def add(self, slot: Slot) -> None:
        self.slots.append(slot)
        slot.bucket = self

    def allocate(self) -> None:
        first = self.slots[0].part
        self.takes_each = first.device.type == "cpu"
        self.is_divided = any(is_divided(slot.parameter) for slot in self.slots)
        count = sum(slot.part.numel() for slot in self.slots)
        self.flat = torch.zeros(count, dtype=first.dtype, device=first.device)
        if _replica.current() is not None and not is_on_device(first):
            _replica_session.share(self.flat.untyped_storage())
        begin = 0
        for slot in self.slots:
            count = slot.part.numel()
            slot.take_place(self.flat[begin:begin + count])
            begin += count
        self.views = [slot.view for slot in self.slots]

    def take(self) -> None:
        """All gradients, with one operator."""
        gradients = []
        for slot in self.slots:
            gradient = slot.parameter.grad
            if gradient is None or gradient is slot.gradient:
                return _take(self.slots)
            gradients.append(gradient)
        if self.is_divided:
            gradients = [part_as(slot.parameter, gradient) for slot, gradient in zip(self.slots, gradients)]
        try:
            with torch.no_grad():
                torch._foreach_copy_(self.views, gradients)
        except RuntimeError:
            return _take(self.slots)  # names what cannot be
        for slot in self.slots:
            slot.parameter.grad = slot.gradient


def reserve_copies(session: Session, flats: Sequence[torch.Tensor], slots: int) -> Optional[torch.Tensor]:
    """Memory for the copies of these gradients on a GPU, before other workers wait for this one. Returns it, to be kept as long
    as the session, if it is torch's. As many buckets as there are slots may come."""
    size = sum(flat.numel() * flat.element_size() for flat in flats) + COPY_ALIGNMENT * slots
    if not session.reserve_gradient_copies(0):
        session.reserve_gradient_copies(size)
        return None
    try:
        copies = torch.empty(size, dtype=torch.uint8, device=flats[0].device)
    except torch.cuda.OutOfMemoryError as problem:
        raise ElasticError(f"no memory on the GPU for copies of the gradients ({size >> 20} MiB), from which a step is repeated "
                           "after a loss. Make the model or the batch smaller, or set failures.on_failure = \"stop\", which "
                           f"needs none: {problem}") from problem
    session.reserve_gradient_copies(size, copies.data_ptr())
    return copies


class Gradients:
    """Thread: that of the backward pass. A step has so many passes; the last one is reduced.

    `at_first` is called when the step's first gradient is there; `before_end` submits what else belongs to the step;
    `after_end` is called when all sums are there and returns for each parameter the mean of `used`, or None for a step that
    this worker gives up."""

    def __init__(self, session: Session, passes: int, named: List[Tuple[str, torch.Tensor]]) -> None:
        self._session = session
        self._slots = _slots_of(named)
        self._buckets = _layout(self._slots)
        on_device = [bucket.flat for bucket in self._buckets if bucket.flat.is_cuda and _replica.current() is None]
        self._copies = reserve_copies(session, on_device, len(self._slots)) if on_device else None
        self._order = Order(session, len(self._slots))
        self._next = 0  # bucket to be submitted
        self._ending = False  # the end of this backward pass is awaited
        self._receives = False  # what arrives belongs to the pass that is reduced, which has begun
        self._passes, self._pass, self._in_pass = passes, 0, False
        self._weights: List[float] = []  # of each pass's gradients
        self.active = False  # gradients of the present pass are reduced
        self.closed = False  # there is no step in which a pass could be made
        self.reduced = True  # those of the present step have been
        self.may_repeat: Callable[[], bool] = lambda: False  # whether one more backward pass may be a part of the step
        self.at_first: Callable[[], None] = lambda: None
        self.before_end: Callable[[], None] = lambda: None
        self.after_end: Callable[[], Any] = lambda: None
        self._hooks: List[Any] = [slot.parameter.register_post_accumulate_grad_hook(functools.partial(self.arrived, slot))
                                  for slot in self._slots]
        self.follow_passes(slot.parameter for slot in self._slots)

    def follow_passes(self, parameters: Iterable[torch.Tensor]) -> None:
        """Of several in a step, by the tensors that their gradients come to: those that fully_shard() gathers are others than the
        parameters, and there from the first forward pass on. Each once."""
        if self._passes > 1:
            self._hooks += [parameter.register_hook(self._weighted) for parameter in parameters]

    def open(self, weights: Sequence[float] = (1.0,)) -> None:
        """A new step; `weights` of the gradients of its passes."""
        self._weights, self._pass, self._in_pass = list(weights), 0, False
        self._next, self._ending, self.active, self.closed, self.reduced = 0, False, True, False, False
        self._receives = False
        self._follow(self._order.begin())
        for bucket in self._buckets:
            bucket.missing = len(bucket.slots)
        for slot in self._slots:
            slot.arrived = False

    def _follow(self, order: Optional[List[int]]) -> None:
        """In new memory: `.grad`s may still be parts of the old, which is given back first if none is."""
        arriving = [self._slots[number] for number in order or ()]
        present = [bucket.slots for bucket in self._buckets]
        if _delay(present, arriving) - _delay(_filled(arriving), arriving) > WORTH_A_LAYOUT:
            self._buckets, present = [], []
            for slot in arriving:
                slot.view = slot.gradient = torch.empty(0)
                slot.bucket = Bucket()
            self._buckets = _layout(arriving)

    @property
    def count(self) -> int:
        """Of the parameters."""
        return len(self._slots)

    @property
    def used(self) -> List[float]:
        """1 for each parameter that has a gradient in this pass."""
        return [float(slot.arrived) for slot in self._slots]

    def named(self) -> List[Tuple[str, torch.Tensor, torch.Tensor]]:
        """(name, parameter, its mean gradient) of each, as far as this process holds them."""
        return [(slot.name, local(slot.parameter).detach(), slot.view) for slot in self._slots]

    @property
    def has_begun(self) -> bool:
        """A backward pass of the open step."""
        return self._ending or self._in_pass or self._pass > 0

    def again(self) -> None:
        """One more backward pass of the same step: it is added to what was averaged before."""
        self._next, self._ending, self.reduced = 0, False, False
        for bucket in self._buckets:
            bucket.missing = len(bucket.slots)
        for slot in self._slots:
            slot.arrived = False

    def weigh_alike(self) -> None:
        """The losses of this step's passes are sums."""
        self._weights = [1.0] * self._passes

    def close(self) -> None:
        """The step is over."""
        self.active, self.closed, self._receives = False, True, False

    def release(self) -> None:
        """The model is the program's own again."""
        for hook in self._hooks:
            hook.remove()

    def arrived(self, slot: Slot, _: Any = None) -> None:
        """The hook of a parameter: little is done here, as the host begins the next operators of the pass meanwhile."""
        if not self._receives and not self._begin():
            return
        bucket = slot.bucket
        if not slot.arrived:
            slot.arrived = True
            bucket.missing -= 1
            if not self._order.is_known:
                self._order.arrived(slot.number)
        if bucket.takes_each:
            _take((slot,))
        if bucket.missing == 0:
            if not bucket.takes_each:
                bucket.take()
            self._submit_complete()

    def _begin(self) -> bool:
        """At the first gradient of a pass: whether the pass is to be reduced."""
        if self.closed:
            raise RuntimeError("backward() outside of a step: its gradients would not be averaged. Only batches of the run can "
                               "be trained on")
        if not self.active or self._pass + 1 < self._passes:
            return False
        if self.reduced and self._passes == 1 and self.may_repeat():  # of several, each backward pass counts as one
            self.again()
        if self.reduced:
            raise RuntimeError("a second backward() in one step: its gradients would not be averaged. Use `with "
                               "run.no_sync():` for all but the last one")
        self._ending = self._receives = True
        torch.autograd.Variable._execution_engine.queue_callback(self.end)
        self.at_first()
        return True

    def _weighted(self, gradient: torch.Tensor) -> torch.Tensor:
        """Of one pass, before it is added to those of the earlier ones."""
        if not self._in_pass:
            self._in_pass = True
            torch.autograd.Variable._execution_engine.queue_callback(self._end_pass)
        weight = self._weights[self._pass] if self._pass < len(self._weights) else 1.0
        return gradient if weight == 1.0 else gradient * weight

    def _end_pass(self) -> None:
        self._in_pass, self._pass = False, self._pass + 1

    def _submit_complete(self) -> None:
        while self._next < len(self._buckets) and self._buckets[self._next].missing == 0:
            submit(self._session, self._buckets[self._next].flat)
            self._next += 1

    def end(self) -> None:
        """At the end of the backward pass, on the thread that called it: waits for all sums."""
        self._receives = False
        self._fill(bucket for bucket in self._buckets if bucket.missing)
        self._submit_complete()
        self.before_end()
        self._session.wait_all_reduce()
        self.reduced = True
        used = self.after_end()
        if used is not None:
            self._hand_out(used)
            self._order.settle()

    def end_without_pass(self) -> None:
        """The sums of a step in which this worker makes no pass. Each `.grad` keeps its values."""
        kept = [(bucket.flat, bucket.flat.clone()) for bucket in self._buckets
                if any(slot.parameter.grad is slot.gradient for slot in bucket.slots)]
        for bucket in self._buckets:
            bucket.flat.zero_()
            bucket.missing = 0
        try:
            self._submit_complete()
            self.before_end()
            self._session.wait_all_reduce()
            self.reduced = True
            if self.after_end() is not None:
                self._order.settle()
        finally:
            for flat, values in kept:
                flat.copy_(values)

    def scale(self, factor: float) -> None:
        """The means of this step."""
        for bucket in self._buckets:
            bucket.flat.mul_(factor)

    def _fill(self, buckets: Iterable[Bucket]) -> None:
        """With parameters that this pass did not use; earlier passes of the step may have."""
        rest = []
        for bucket in buckets:
            rest += bucket.slots
            bucket.missing = 0
        unused = [slot.view for slot in rest if slot.parameter.grad is None]
        if unused:
            torch._foreach_zero_(unused)
        _take(rest)

    def _hand_out(self, used: List[float]) -> None:
        """A parameter that no worker used keeps its `.grad`, which is usually None, as in a program of one process."""
        for slot, share in zip(self._slots, used):
            if share > 0 and slot.parameter.grad is not slot.gradient:
                slot.parameter.grad = slot.gradient


def _take(slots: Sequence[Slot]) -> None:
    """Those gradients that are not there yet, with one operator."""
    views, gradients = [], []
    for slot in slots:
        gradient = slot.parameter.grad
        if gradient is None or gradient is slot.gradient:
            continue
        if gradient.is_sparse:
            raise RuntimeError(f"the gradient of '{slot.name}' is sparse; create its Embedding with sparse=False")
        own = part_as(slot.parameter, gradient) if slot.bucket.is_divided else gradient
        if own.data_ptr() != slot.view.data_ptr():
            views.append(slot.view)
            gradients.append(own)
    if views:
        with torch.no_grad():
            torch._foreach_copy_(views, gradients)
    for slot in slots:
        if slot.parameter.grad is not None and slot.parameter.grad is not slot.gradient:
            slot.parameter.grad = slot.gradient


def submit(session: Session, values: torch.Tensor) -> None:
    """Behind the work of the current stream, if the values are on a device."""
    session.all_reduce_async(values, _current_stream(values.device) if values.is_cuda else None)


def _current_stream(device: torch.device) -> int:
    """As torch.cuda.current_stream(), whose object costs more than the rest of a sum's begin on the host."""
    handle = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return int(handle(device.index)) if handle is not None else int(torch.cuda.current_stream(device).cuda_stream)


def _slots_of(named: List[Tuple[str, torch.Tensor]]) -> List[Slot]:
    """In the reverse order of the parameters, which is about that of the backward pass."""
    for name, parameter in named:
        _refuse(name, parameter)
    return [Slot(name, parameter, number) for number, (name, parameter) in enumerate(reversed(named))]


def _layout(slots: Sequence[Slot]) -> List[Bucket]:
    buckets = []
    for parts in _filled(slots):
        bucket = Bucket()
        for slot in parts:
            bucket.add(slot)
        bucket.allocate()
        buckets.append(bucket)
    return buckets


def _filled(slots: Sequence[Slot]) -> List[List[Slot]]:
    """The content of each bucket, in the order in which they are begun. The first one is small, so that the first sum starts
    early. A gradient that would make one half as large again begins the next, so that the others' sum need not wait for it."""
    buckets: List[List[Slot]] = []
    filled: Dict[torch.dtype, Tuple[List[Slot], int]] = {}  # of each type: what is being filled, and its bytes
    for slot in slots:
        parts, held = filled.get(slot.parameter.dtype, ([], 0))
        limit = FIRST_BUCKET_BYTES if len(buckets) <= 1 else BUCKET_BYTES
        if not parts or held >= limit or held + slot.bytes > BUCKET_BYTES + BUCKET_BYTES // 2:
            parts, held = [], 0
            buckets.append(parts)
        parts.append(slot)
        filled[slot.parameter.dtype] = parts, held + slot.bytes
    return buckets


def _delay(buckets: Sequence[Sequence[Slot]], arriving: Sequence[Slot]) -> float:
    """By which share of all bytes the buckets leave later than theirs have arrived one by one, on average."""
    arrived: Dict[int, int] = {}  # bytes, when a slot's has
    total = 0
    for slot in arriving:
        total += slot.bytes
        arrived[slot.number] = total
    sent = left = waited = 0
    for bucket in buckets if arriving else ():
        size = sum(slot.bytes for slot in bucket)
        sent += size
        left = max(left, *(arrived[slot.number] for slot in bucket))
        waited += size * (left - sent)
    return waited / max(1, total) ** 2


def _refuse(name: str, parameter: torch.Tensor) -> None:
    if parameter.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise TypeError(f"parameter '{name}' is {parameter.dtype}; float32, float16 and bfloat16 can be trained")
    is_copied = _replica.current() is not None and parameter.device.type != "meta"
    if parameter.device.type not in ("cpu", "cuda") and not is_copied:
        raise TypeError(f"parameter '{name}' is on {parameter.device}; parameters must be on a CPU or a CUDA device")


def _shaped(flat: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """A view with the parameter's strides, if they are dense (channels last too)."""
    try:
        view = flat.as_strided(parameter.size(), parameter.stride(), flat.storage_offset())
        return view if view.numel() == flat.numel() else flat.view(parameter.shape)
    except RuntimeError:
        return flat.view(parameter.shape)
