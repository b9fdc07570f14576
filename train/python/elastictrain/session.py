"""The session: the calls of elastictrain.h with arrays and tensors in place of pointers, and exceptions in place of
statuses. `elastictrain/session.hpp` documents their order and rules.

Thread: one training thread makes all calls. A forked child (a data loader's process) must not use its parent's session;
its calls raise, and its end does not disturb the parent.
"""

import atexit
import contextlib
import ctypes
import functools
import json
import os
import sys
import threading
from dataclasses import dataclass
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Sequence, Tuple

from . import _helpers, _memory
from . import _interface as c
from ._elsewhere import Sum, Sums
from .errors import ElasticError, Interrupted, SessionError

RUNNING, FINISHED, LEFT, STOPPED = "running", "finished", "left", "stopped"
_OUTCOMES = (RUNNING, FINISHED, LEFT, STOPPED)
_BOUNDARY = ("checkpoint", "change", "stop", "end")  # by bit
_SYNCHRONIZATIONS = ("s-sgd", "averaging", "pair-averaging")
_ERRORS = {c.SESSION: SessionError, c.INTERRUPTED: Interrupted}
TYPES = {"float32": 0, "float16": 1, "bfloat16": 2, "float64": 3, "int32": 4, "int64": 5, "uint8": 6, "bool": 7}
OPERATIONS = {"sum": 0, "max": 1, "min": 2, "product": 3}


@dataclass(frozen=True)
class DataOptions:
    """How the data is divided into steps."""
    sample_count: int = 0  # of the dataset; 0: the program counts its own
    epochs: int = 1
    batch: int = 32  # per worker; the run's --batch counts before it, times `batches_per_step`
    shuffle: bool = True
    seed: int = 0
    max_steps: int = 0  # 0: as many as the epochs have
    drop_last: bool = False
    min_local_samples: int = 0  # of a worker that has any
    batches_per_step: int = 1  # from so many batches the program makes a step
    batch_of_all: bool = False  # `batch` is that of all workers together, at any number of them


@dataclass(frozen=True)
class Batch:
    """What this worker computes in one step."""
    step: int  # its number once it is committed
    epoch: int  # from 0
    samples: Tuple[int, ...]  # indices of this worker; may be empty
    local_samples: int  # of this worker
    global_samples: int  # of all workers
    first_of_epoch: bool  # no sample of this epoch was used before


@dataclass(frozen=True)
class Change:
    """What changed at the last boundary."""
    generation: int
    rank: int
    world_size: int
    previous_world_size: int
    joined_now: bool
    reason: str


@dataclass(frozen=True)
class StepReport:
    """Figures of the whole job, equal on all workers. Loss and compute time are those of the step before."""
    loss: float
    samples: int
    gradient_norm: float
    slowest_compute_us: float


@dataclass(frozen=True)
class OtherLayout:
    """A checkpoint whose state is divided otherwise than this program's. Its memory is valid in the callback only."""
    manifest: Dict[str, Any]
    header: bytes  # of the safetensors file, from its first byte
    data: Any  # a ctypes array: the bytes of all its tensors
    state: Dict[str, Any]  # ctypes arrays: the memory of this program, to be filled


@dataclass(frozen=True)
class GoesOn:
    """What a run goes on with, in place of what the manifest says."""
    samples_used: int
    epoch: int
    cursor: int
    returned: List[Tuple[int, int]]  # (first, count)
    early: Dict[str, bytes]
    attachments: Dict[str, bytes]


class Session:
    """This process as a worker of a run; a world of one without a launcher. One in a process.

    Memory that is shared, or reduced in the background, is referenced until the session is closed.
    """

    _open: Optional["Session"] = None
    refusal: Optional[str] = None  # why this process has none

    def __init__(self) -> None:
        self._process: int = os.getpid()
        if self.refusal is not None:
            raise ElasticError(self.refusal)
        if Session._open is not None and Session._open._process == self._process:
            raise ElasticError("this process has a session already; a process is one worker")
        self._library = c.load()
        self._handle = ctypes.c_void_p()
        self._kept: List[Any] = []  # shared memory
        self._elsewhere: List[Any] = []  # the program's functions of the open step
        self._on_elsewhere: Any = None  # the library's to them
        self._step_kept: List[Any] = []  # gradients of the open step
        self._callback: Any = None
        self._hooks: Any = None
        self._program_hooks: Tuple[Optional[Callable[[], None]], Optional[Callable[[], None]]] = (None, None)
        self._watcher: Optional[Callable[[], None]] = None  # of watch_steps()
        self._calls_back = 0  # callbacks that run
        self._raised: Dict[int, BaseException] = {}  # by it, in which thread
        self.ends_at_once = False  # with status 0 once the program's own code has ended
        self._raise_for(self._library.et_session_create(ctypes.byref(self._handle)))
        # Processes that this one starts are no workers.
        os.environ.pop("ELASTICTRAIN_SOCKET", None)
        Session._open = self
        atexit.register(self._close_at_exit)
        _helpers.watch()
        _watch_end()

    # --- Before start()

    def share_state(self, name: str, value: Any) -> None:
        """Registers state that an update changes: a tensor, an array or a buffer, at the same address until close()."""
        memory = _memory.of(value)
        call = "share_device_state" if memory.on_device else "share_state"
        self._do(call, name.encode(), memory.address, memory.bytes)
        self._kept.append(value)

    def share_tensor(self, name: str, tensor: Any) -> None:
        """The same for a torch.Tensor, with its type and shape: checkpoints are then safetensors of real tensors."""
        memory = _memory.of(tensor)
        dtype = _SAFETENSORS.get(str(tensor.dtype).replace("torch.", ""))
        if memory.on_device or dtype is None or not tensor.is_contiguous():
            return self.share_state(name, tensor)
        shape = (ctypes.c_uint64 * max(1, tensor.dim()))(*tensor.shape)
        self._do("share_tensor", name.encode(), memory.address, dtype, shape, tensor.dim())
        self._kept.append(tensor)

    def share_tensor_through(self, name: str, dtype: str, shape: Sequence[int], read: Callable[[int, int, int], None],
                             write: Callable[[int, int, int], None]) -> None:
        """The same for a tensor that this process cannot reach itself. `read(offset, address, size)` copies so many of its bytes to
        host memory at that address, `write` from there; what they raise is why that cannot be. They are called on threads of the
        session too, several at once, until close(). `dtype`: torch's name, of a type that safetensors have."""
        lengths = (ctypes.c_uint64 * max(1, len(shape)))(*shape)
        functions = [c.MemoryCopy(self._copying(copy)) for copy in (read, write)]
        self._do("share_tensor_through", name.encode(), _SAFETENSORS[dtype], lengths, len(shape), *functions, None)
        self._kept += functions

    def _copying(self, copy: Callable[[int, int, int], None]) -> Callable[..., int]:
        """As the library calls it."""
        def called(offset: int, address: int, size: int, problem: int, room: int, _: Any) -> int:
            return self._done(lambda: copy(offset, address, size), problem, room)
        return called

    def _done(self, call: Callable[[], None], problem: int, room: int) -> int:
        """What a function of the program answers the library. An interrupt of the program, too, is a failure, and is raised again by the
        call that it is in."""
        try:
            call()
            return 0
        except BaseException as error:
            if not isinstance(error, Exception):
                self._raised[threading.get_ident()] = error
            text = (str(error) or type(error).__name__).encode()[:room - 1] + b"\0"
            ctypes.memmove(problem, text, len(text))
            return 1

    def share_forward_tensor(self, name: str, tensor: Any) -> None:
        """The same for a tensor that the forward pass writes (statistics, counters), contiguous and on the CPU: it may be
        written at any time in a step, and is equal on all workers when the step is committed. Raises TypeError otherwise."""
        self._share_written("share_forward_tensor", name, tensor)

    def share_first_tensor(self, name: str, value: Any, every_steps: int = 1) -> None:
        """State that the first worker alone keeps up to date (a best score, a history, an average of weights), in a contiguous
        tensor on the CPU or a buffer: its values as of the first all-reduce of every `every_steps`-th step are state, and in
        the memory of all workers, when that step is committed. All workers register it. Raises TypeError as above."""
        self._share_written("share_first_tensor", name, value, every_steps)

    def share_local_state(self, name: str, value: Any) -> None:
        """State that each rank keeps for itself (a generator, statistics of its own), in a contiguous tensor on the CPU or a
        buffer; written at any time. It is sent to no new worker. Checkpoints have that of each rank, as of their step's first
        all-reduce, and a run that resumes gives it back. Small: that of all ranks together is part of the early values."""
        memory = _memory.of(value)
        if memory.on_device or (hasattr(value, "data_ptr") and not value.is_contiguous()):
            raise TypeError(f"'{name}' is no contiguous memory on the CPU")
        self._do("share_local_state", name.encode(), memory.address, memory.bytes)
        self._kept.append(value)

    def move_state(self, name: str, value: Any) -> None:
        """Shared state of the same size that the program has moved to `value`, with its content: before start(), or between
        the step's last all-reduce and commit_step(). Raises SessionError for a name of share_forward_tensor() or
        share_first_tensor(), whose memory stays where it is, and for memory of a device."""
        self._do("move_state", name.encode(), _memory.of(value).address)
        self._kept.append(value)

    def _share_written(self, call: str, name: str, value: Any, *options: int) -> None:
        """A tensor, or a buffer as bytes."""
        memory = _memory.of(value)
        is_tensor = hasattr(value, "data_ptr")
        dtype = _SAFETENSORS.get(str(value.dtype).replace("torch.", "")) if is_tensor else b"U8"
        if memory.on_device or dtype is None or (is_tensor and not value.is_contiguous()):
            raise TypeError(f"'{name}' is no contiguous tensor on the CPU of a type that checkpoints have")
        lengths = tuple(value.shape) if is_tensor else (memory.bytes,)
        shape = (ctypes.c_uint64 * max(1, len(lengths)))(*lengths)
        self._do(call, name.encode(), memory.address, dtype, shape, len(lengths), *options)
        self._kept.append(value)

    def share_model(self, name: str, value: Any) -> None:
        """State that is a model of float32: replicas of it may be averaged."""
        memory = _memory.floats(value)
        self._do("share_model", name.encode(), memory.address, memory.bytes // 4)
        self._kept.append(value)

    def share_early(self, name: str, value: bytes) -> None:
        """A small value, equal on all workers, that a joiner can read as soon as start() returns."""
        self._do("share_early", name.encode(), value, len(value))

    def set_data(self, sample_count: int = 0, **options: Any) -> None:
        """How the data is divided into steps: `options` are fields of DataOptions. Raises TypeError for another name."""
        data = DataOptions(sample_count, **options)
        values = {name: int(value) for name, value in vars(data).items()}
        values["batches_per_step"] = data.batches_per_step if data.batches_per_step > 1 else 0
        self._do("set_data", ctypes.byref(c.DataOptions(**values)))

    def on_change(self, callback: Callable[[Change], None]) -> None:
        """Calls back inside start() or commit_step(). What the callback raises is raised by that call."""
        def called(pointer: Any, _: Any) -> None:
            self._call_back(lambda: callback(_change_of(pointer.contents)))

        self._callback = c.ChangeCallback(called)
        self._do("on_change", self._callback, None)

    def on_other_layout(self, division: str, take: Callable[[OtherLayout], GoesOn]) -> None:
        """Calls back inside start(), on the first rank, where the run is to go on from a checkpoint whose state is divided
        otherwise: `take` fills the program's. An ElasticError that it raises is why that cannot be, and the checkpoint is
        skipped. `division`: the end of the names of early values that say how state is divided."""
        def called(pointer: Any, _: Any) -> None:
            self._call_back(lambda: self._answer_other(pointer.contents, take))

        callback = c.OtherLayoutCallback(called)
        self._kept.append(callback)
        self._do("on_other_layout", division.encode(), callback, None)

    def _answer_other(self, other: Any, take: Callable[[OtherLayout], GoesOn]) -> None:
        own = {part.name.decode(): (ctypes.c_ubyte * part.bytes).from_address(part.data or 0)
               for part in other.state[:other.state_count] if part.bytes}
        manifest = json.loads(ctypes.string_at(other.manifest, other.manifest_bytes))
        data = (ctypes.c_ubyte * other.data_bytes).from_address(other.data or 0)
        try:
            found = take(OtherLayout(manifest, ctypes.string_at(other.header, other.header_bytes), data, own))
        except ElasticError as error:
            other.refusal = self._keep(str(error).encode())
            return
        other.refusal = None
        other.samples_used, other.epoch, other.cursor = found.samples_used, found.epoch, found.cursor
        numbers = [number for interval in found.returned for number in interval]
        other.returned, other.returned_count = self._keep((ctypes.c_uint64 * len(numbers))(*numbers)), len(found.returned)
        other.early, other.early_count = self._named(found.early), len(found.early)
        other.attachments, other.attachment_count = self._named(found.attachments), len(found.attachments)

    def _named(self, values: Dict[str, bytes]) -> Any:
        parts = [c.Named(self._keep(name.encode()), ctypes.cast(ctypes.c_char_p(self._keep(value)), ctypes.c_void_p), len(value))
                 for name, value in values.items()]
        return self._keep((c.Named * len(parts))(*parts))

    def _keep(self, value: Any) -> Any:
        self._kept.append(value)
        return value

    def _call_back(self, callback: Callable[[], None]) -> None:
        self._calls_back += 1
        try:
            callback()
        except BaseException as error:  # raised again by the call that called back
            self._raised[threading.get_ident()] = error
        finally:
            self._calls_back -= 1

    def step_hooks(self, before: Optional[Callable[[], None]] = None, after: Optional[Callable[[], None]] = None) -> None:
        """A policy of the program's own, in every worker: `before` is called when a step has been opened, `after` when one
        has ended, on all workers that made it, before the membership changes. Both may ask for another size, batch, rate,
        synchronization or topology, and call collectives. Where a loss interrupts one in `after`, training goes on, and the
        hook is not repeated."""
        self._program_hooks = (before, after)
        self._set_hooks()

    def watch_steps(self, after: Callable[[], None]) -> None:
        """As the hook `after`, for what trains with this session, beside the program's hooks and before them."""
        self._watcher = after
        self._set_hooks()

    def _set_hooks(self) -> None:
        """Without one nothing is called."""
        before, after = self._program_hooks

        def all_after() -> None:
            try:
                for hook in (self._watcher, after):
                    if hook is not None:
                        hook()
            except Interrupted:  # by a loss: no error of the program
                pass

        first = c.BeforeStep(lambda *_: self._call_back(before)) if before is not None else c.BeforeStep()
        last = c.AfterStep(lambda *_: self._call_back(all_after)) if after or self._watcher else c.AfterStep()
        self._kept.append(self._hooks)  # one of them may be what calls this
        self._hooks = (first, last)
        self._do("step_hooks", first, last, None)

    def use_device(self, ordinal: int = -1) -> int:
        """Trains on a CUDA device; -1: that of the slot. Returns the ordinal. Call it before state is shared."""
        number = ctypes.c_int(ordinal)
        self._do("use_device", ctypes.byref(number))
        return number.value

    def use_stream_order(self) -> None:
        """After use_device(): gradients there are used only in the stream that was passed with them. A worker alone then does not
        wait for the device before its update."""
        self._do("use_stream_order")

    def reserve_gradient_copies(self, size: int, device_memory: Optional[int] = None) -> bool:
        """Memory for the copies of a step's gradients in device memory: the sum of their sizes in bytes and 16 for each bucket.
        `device_memory`: the address of the program's own, for the session's lifetime; without it the session allocates it when
        it is needed. Returns whether that is at once; 0 bytes only ask that. After use_device(), before start()."""
        needed = ctypes.c_int()
        self._do("reserve_gradient_copies", size, device_memory, ctypes.byref(needed))
        return bool(needed.value)

    def enable_store(self) -> None:
        self._do("enable_store")

    def await_start(self, epoch: int) -> int:
        """For a program that goes through past epochs until it is in the present one: it may do so before start(), while the
        others train. `epoch`: where it is. Returns the same once start() would not wait any more, or a later epoch in which
        the run is: go there and call again."""
        number = ctypes.c_uint64(epoch)
        self._do("await_start", ctypes.byref(number))
        return number.value

    def start(self) -> bool:
        """Joins. False: this worker is not needed; end with success."""
        go = ctypes.c_int()
        self._do("start", ctypes.byref(go))
        return bool(go.value)

    # --- Steps

    def next_batch(self) -> Optional[Batch]:
        """Opens a step; None at the end (see `outcome`)."""
        self._elsewhere = []
        batch, has_batch = c.Batch(), ctypes.c_int()
        self._do("next_batch", ctypes.byref(batch), ctypes.byref(has_batch))
        if not has_batch.value:
            return None
        samples = tuple(batch.samples[:batch.local_samples]) if batch.samples else ()
        return Batch(batch.step, batch.epoch, samples, batch.local_samples, batch.global_samples,
                     bool(batch.first_of_epoch))

    def all_reduce(self, gradient: Any, stream: Optional[int] = None) -> None:
        """In-place mean over all samples of the step, of float32, float16 or bfloat16 values, which are summed in float32 and
        rounded once. An empty batch contributes nothing. `stream`: the CUDA stream that computes values on a device; None: the
        default one."""
        self._reduce_gradient("", gradient, stream)

    def all_reduce_async(self, gradient: Any, stream: Optional[int] = None) -> None:
        """The same in the background, in the order of the calls, which must be equal on all workers."""
        self._reduce_gradient("_async", gradient, stream)

    def all_reduce_elsewhere_async(self, start: Callable[[Sum], None], finish: Callable[[Sums], None]) -> None:
        """One bucket of the step whose sum the program makes elsewhere, in another process of this worker for example: `start` begins
        it, on a thread of the session, in the order of the calls; `finish`, of the last such bucket, returns when all are complete. What
        they raise counts as the loss of a worker: the step is repeated. elastictrain/plane.hpp has the whole."""
        if self._on_elsewhere is None:
            self._on_elsewhere = c.StartElsewhere(self._start_elsewhere), c.FinishElsewhere(self._finish_elsewhere)
        self._elsewhere.append((start, finish))
        self._do("all_reduce_elsewhere_async", *self._on_elsewhere, len(self._elsewhere))

    def _start_elsewhere(self, said: Any, problem: int, room: int, number: int) -> int:
        return self._done(lambda: self._elsewhere[number - 1][0](Sum(said.contents)), problem, room)

    def _finish_elsewhere(self, said: Any, problem: int, room: int, number: int) -> int:
        return self._done(lambda: self._elsewhere[number - 1][1](Sums(said.contents)), problem, room)

    def _reduce_gradient(self, suffix: str, gradient: Any, stream: Optional[int]) -> None:
        memory = _memory.of(gradient)
        name = "float32" if memory.is_float32 else str(getattr(gradient, "dtype", "")).replace("torch.", "")
        if name not in ("float32", "float16", "bfloat16"):
            raise TypeError("values must be float32, float16 or bfloat16")
        arguments = (memory.address, memory.bytes // _ITEM_BYTES[name], TYPES[name])
        if memory.on_device:
            self._do(f"all_reduce_device_typed{suffix}", *arguments, stream)
        else:
            self._do(f"all_reduce_typed{suffix}", *arguments)
        self._step_kept.append(gradient)

    def wait_all_reduce(self) -> None:
        self._do("wait_all_reduce")

    def sum(self, values: Any) -> None:
        """In-place sum of float32 values over all workers, in a step."""
        memory = _memory.floats(values)
        self._do("sum", memory.address, memory.bytes // 4)
        self._step_kept.append(values)

    def broadcast(self, values: Any) -> None:
        """Replaces the values by the first worker's, in a step."""
        memory = _memory.of(values)
        self._do("broadcast", memory.address, memory.bytes)
        self._step_kept.append(values)

    def boundary(self) -> FrozenSet[str]:
        """What the open step's commit will do, the same on all members: "checkpoint" (one of this step is written), "change"
        (of the membership), "stop" (of the run), "end" (of the data). Behind the step's last sum; on all workers if it has
        none. Empty for a worker whose step is given up because it is behind the others."""
        parts = ctypes.c_uint32()
        self._do("boundary", ctypes.byref(parts))
        return frozenset(name for bit, name in enumerate(_BOUNDARY) if parts.value >> bit & 1)

    def disagree(self, reason: str) -> None:
        """In a step, behind its sums and before the update: this worker sees values that must be equal on all ranks and are
        not. The newest members go (those that joined since the last end of an epoch), and the call returns when the others
        have repeated the sums without them. SessionError if nobody is newer than the others."""
        self._do("disagree", reason.encode())

    def decline(self, reason: str) -> None:
        """Before start(): this worker cannot join; the sentence is for the user. End the program then, with any status."""
        self._do("decline", reason.encode())

    def attach(self, name: str, value: bytes) -> None:
        """In a step: a value that becomes part of its checkpoint, if one is written; the first rank's counts. All of a step
        together: 8 MiB. A checkpoint of a step to which nothing was attached has none."""
        self._do("attach", name.encode(), value, len(value))

    def attachment(self, name: str) -> Optional[bytes]:
        """After start(): what was attached to the checkpoint with which this run has begun, on each worker of its first
        generation. None otherwise."""
        return self._read("attachment", name.encode())

    def commit_step(self, loss: Optional[float] = None) -> None:
        """Ends the step; memberships change here. `loss`: mean over this worker's samples."""
        metrics = None if loss is None else ctypes.byref(c.StepMetrics(loss=loss))
        self._do("commit_step", metrics)
        self._step_kept.clear()

    # --- Values of the program's own, in a step or between steps

    def reduce_values(self, values: Any, operation: str = "sum") -> None:
        """In-place all-reduce ("sum", "max", "min" or "product") over all workers.

        Raises Interrupted if a loss interrupts it between steps.
        """
        name = _type_name(values)
        size = _memory.of(values)
        self._step_kept.append(values)
        self._do("reduce_values", size.address, size.bytes // _ITEM_BYTES[name], TYPES[name], OPERATIONS[operation])

    def broadcast_from(self, values: Any, root: int = 0) -> None:
        """Replaces the values by those of rank `root`."""
        memory = _memory.of(values)
        self._step_kept.append(values)
        self._do("broadcast_from", memory.address, memory.bytes, root)

    def broadcast_into(self, received: Any, value: Any, root: int = 0) -> None:
        """The bytes of rank `root`'s value, into other memory of the same size, which must stay valid until commit_step() in a
        step; `value` is read before the call returns."""
        memory, room = _memory.of(value), _memory.of(received)
        if room.bytes != memory.bytes:
            raise ValueError(f"{room.bytes} bytes for a value of {memory.bytes}")
        self._step_kept.append(received)
        self._do("broadcast_into", memory.address, memory.bytes, root, room.address)

    def all_gather(self, value: Any) -> bytes:
        """The bytes of all workers' values, by rank; all of one size."""
        memory = _memory.of(value)
        gathered = ctypes.create_string_buffer(memory.bytes * self.world_size)
        self._step_kept += [value, gathered]
        self._do("all_gather", memory.address, memory.bytes, gathered)
        return gathered.raw

    def all_gather_into(self, gathered: Any, value: Any) -> None:
        """The same into memory of the caller's, which has room for the blocks of all workers. In a step it must stay valid
        until commit_step(); `value` is read at once."""
        memory, room = _memory.of(value), _memory.of(gathered)
        if room.bytes != memory.bytes * self.world_size:
            raise ValueError(f"{room.bytes} bytes have no room for {self.world_size} blocks of {memory.bytes}")
        self._step_kept.append(gathered)
        self._do("all_gather", memory.address, memory.bytes, room.address)

    def agree(self, value: Any) -> bool:
        """Whether all workers passed the same bytes; the same answer on all of them."""
        memory, equal = _memory.of(value), ctypes.c_int()
        self._step_kept += [value, equal]
        self._do("agree", memory.address, memory.bytes, ctypes.byref(equal))
        return bool(equal.value)

    def barrier(self) -> None:
        self._do("barrier")

    def reduce_values_in(self, group: int, values: Any, operation: str = "sum") -> None:
        """reduce_values() among the workers that pass the same number; all workers call."""
        name, size = _type_name(values), _memory.of(values)
        self._step_kept.append(values)
        self._do("reduce_values_in", group, size.address, size.bytes // _ITEM_BYTES[name], TYPES[name],
                 OPERATIONS[operation])

    def all_gather_in(self, group: int, value: Any) -> bytes:
        """The bytes of the workers that pass the same number, by rank; all workers call."""
        memory, members = _memory.of(value), ctypes.c_uint32()
        gathered = ctypes.create_string_buffer(memory.bytes * self.world_size)
        self._step_kept += [value, gathered]
        self._do("all_gather_in", group, memory.address, memory.bytes, gathered, ctypes.byref(members))
        return gathered.raw[:memory.bytes * members.value]

    def broadcast_in(self, group: int, values: Any, root: int = 0) -> None:
        """Replaces the values by those of place `root` of the workers that pass the same number; all workers call."""
        memory = _memory.of(values)
        self._step_kept.append(values)
        self._do("broadcast_in", group, memory.address, memory.bytes, root)

    def reduce_values_async(self, key: str, values: Any, operation: str = "sum") -> None:
        """reduce_values() in the background of a step, until wait_all_reduce() or commit_step().

        Workers may start these in different orders: the key says which belong together. Between two other calls of the step
        all start the same keys.
        """
        name, size = _type_name(values), _memory.of(values)
        self._step_kept.append(values)
        self._do("reduce_values_async", key.encode(), size.address, size.bytes // _ITEM_BYTES[name], TYPES[name],
                 OPERATIONS[operation])

    def broadcast_async(self, key: str, values: Any, root: int = 0) -> None:
        """broadcast_from() in the same way."""
        memory = _memory.of(values)
        self._step_kept.append(values)
        self._do("broadcast_async", key.encode(), memory.address, memory.bytes, root)

    def step_memory(self, size: int) -> Any:
        """So many bytes of the session's, for values of collectives whose own memory would not live until commit_step(): a
        ctypes array for numpy.frombuffer() or torch.frombuffer(), valid until the next next_batch()."""
        address = ctypes.c_void_p()
        self._do("step_memory", size, ctypes.byref(address))
        return (ctypes.c_ubyte * size).from_address(address.value or 0)

    def phase(self, name: Optional[str]) -> None:
        """"data", "evaluation", "compile" or "checkpoint": no verdict of a hang while it lasts. None ends it."""
        self._do("phase", None if name is None else name.encode())

    def early(self, name: str, room: int = 1 << 16) -> bytes:
        """The value of share_early() as of the last committed step; readable after start()."""
        buffer, size = ctypes.create_string_buffer(room), ctypes.c_size_t(room)
        self._do("early", name.encode(), buffer, ctypes.byref(size))
        return buffer.raw[:size.value] if size.value <= room else self.early(name, size.value)

    def look_ahead(self, batches: int, samples: int) -> List[Tuple[int, ...]]:
        """This worker's indices in the next steps, if nothing interferes; at most so many batches and samples."""
        indices, sizes = (ctypes.c_uint64 * samples)(), (ctypes.c_uint64 * batches)()
        room, count = ctypes.c_size_t(samples), ctypes.c_uint32(batches)
        self._do("look_ahead", batches, indices, ctypes.byref(room), sizes, ctypes.byref(count))
        return _split(indices, sizes[:count.value])

    def end_data(self) -> None:
        """The program's data are at an end: the run ends for all, with status 0, at the next boundary."""
        self._do("end_data")

    # --- The board of the run, from the session's construction on, whether this worker is a member or not; any thread

    def board_put(self, key: str, value: bytes) -> None:
        """Leaves a value for the other workers, until it is replaced or the run ends; it does not wait. A key has at most 200
        bytes, a value 4 MiB, all of the run together 64 MiB: SessionError otherwise, from the next call where only the
        supervisor knows it."""
        self._do("board_put", key.encode(), value, len(value))

    def board_get(self, key: str, timeout_s: float = 0.0) -> Optional[bytes]:
        """The value, waiting for it up to `timeout_s`. None: there is none, or the supervisor, which may be away, has not
        answered within at least 5 s."""
        return self._read("board_get", key.encode(), int(min(max(timeout_s, 0.0), 1e6) * 1000))

    # --- Requests and figures

    def request_resize(self, workers: int) -> None:
        self._do("request_resize", workers)

    def request_batch(self, per_worker: int) -> None:
        self._do("request_batch", per_worker)

    def request_learning_rate_factor(self, factor: float) -> None:
        self._do("request_learning_rate_factor", factor)

    def request_synchronization(self, strategy: str) -> None:
        """"s-sgd", "averaging" or "pair-averaging"."""
        self._do("request_synchronization", _SYNCHRONIZATIONS.index(strategy))

    def request_topology(self, name: str) -> None:
        self._do("request_topology", name.encode())

    def measure_gradient_variance(self, every_steps: int) -> None:
        self._do("measure_gradient_variance", every_steps)

    def report_halves(self, first_square: float, second_square: float) -> None:
        """Where `half_batch` is above 0: the squared norms of the mean gradients of the batch's first `half_batch` samples and
        of the others. They show the noise scale of a worker that trains alone."""
        self._do("report_halves", first_square, second_square)

    def save(self, name: str, value: Any, version: int) -> None:
        """Puts a copy into this worker's store, where the others can read it at any time."""
        memory = _memory.of(value)
        self._do("save", name.encode(), memory.address, memory.bytes, version)

    def request(self, rank: int, name: str, value: Any, version: int = 0) -> int:
        """Reads another worker's copy into `value`. Returns its version; 0: there is none."""
        memory, found = _memory.of(value), ctypes.c_uint64(version)
        self._do("request", rank, name.encode(), memory.address, memory.bytes, ctypes.byref(found))
        return found.value

    def device_memory(self, total: int, free: int) -> None:
        """In bytes, of the device with the least free memory, for a program that uses devices without use_device(): `status` shows it,
        and where more than half is used a successor starts when this worker has left. The last call counts."""
        self._do("device_memory", total, free)

    def note(self, key: str, value: Any) -> None:
        """Writes a named value to the run's journal and summary; only the first rank's call has an effect."""
        self._do("note", str(key).encode(), str(value).encode())

    def last_step(self) -> StepReport:
        report = c.StepReport()
        self._do("last_step", ctypes.byref(report))
        return StepReport(report.loss, report.samples, report.gradient_norm, report.slowest_compute_us)

    def monitors(self) -> Dict[str, float]:
        """The measurements of RunMonitors in session.hpp, by name."""
        seen = c.Monitors()
        self._do("get_monitors", ctypes.byref(seen))
        return {name: getattr(seen, name) for name, _ in seen._fields_ if name != "size"}

    rank = property(lambda self: self._number("rank"), doc="This worker's place in its generation.")
    world_size = property(lambda self: self._number("world_size"), doc="Workers of its generation.")
    local_rank = property(lambda self: self._number("local_rank"), doc="Its place on its host.")
    generation = property(lambda self: self._number("generation"))
    worker_id = property(lambda self: self._number("worker_id"), doc="Constant while the rank may change.")
    committed_step = property(lambda self: self._number("committed_step"))
    half_batch = property(lambda self: self._number("half_batch"),
                          doc="Above 0: the open step asks for report_halves(); every 16th does while one worker trains.")
    learning_rate_factor = property(lambda self: self._number("learning_rate_factor"))
    launched = property(lambda self: bool(self._number("launched")), doc="False: a world of one, without a launcher.")
    outcome = property(lambda self: _OUTCOMES[self._number("outcome_of")],
                       doc="running, finished (all epochs are done), left (end with success) or stopped (the same).")
    synchronization = property(lambda self: _SYNCHRONIZATIONS[self._number("synchronization_of")])

    # --- Its end

    def close(self) -> None:
        """Ends the session cleanly. Nothing happens the second time, and in a forked child. Not in a callback of it."""
        if self._calls_back:
            raise ElasticError("close() in a callback of the session, which goes on behind it; close it after the step")
        if self._handle and os.getpid() == self._process:
            handle, self._handle = self._handle, ctypes.c_void_p()
            self._library.et_session_destroy(handle)
            self._kept.clear()
            self._callback = None
            atexit.unregister(self._close_at_exit)
            Session._open = None

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None or not self.launched:  # what an exception ends in a run is not done
            self.close()

    def _close_at_exit(self) -> None:
        """A program that an exception ends is not done: its exit status says so, and nothing else may."""
        if getattr(sys, "last_value", None) is None:
            self.close()

    def _status_at_once(self) -> Optional[int]:
        """Of a process whose end the others wait for, or that ends on processors that they need: unloading torch takes
        seconds. None for any other."""
        if not self._handle or os.getpid() != self._process:
            return None
        if getattr(sys, "last_value", None) is not None:
            return 1 if self.launched else None
        return 0 if self.ends_at_once else None

    def _end_at_once(self, status: int) -> None:
        """What the program registered for its end is done before. It is called before all of that, as what has run already
        would run again here."""
        atexit.unregister(self._end_at_once)
        try:
            atexit._run_exitfuncs()
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()
            os._exit(status)

    # --- Calls

    def _do(self, name: str, *arguments: Any) -> None:
        if not self._handle or os.getpid() != self._process:
            raise ElasticError(f"{name}(): the session is closed" if os.getpid() == self._process else
                               f"{name}(): a child process cannot use its parent's session")
        status = getattr(self._library, f"et_{name}")(self._handle, *arguments)
        raised = self._raised.pop(threading.get_ident(), None)
        if raised is not None:
            raise raised
        self._raise_for(status)

    def _read(self, name: str, *arguments: Any) -> Optional[bytes]:
        """Bytes of any length; None: there are none."""
        room = 1 << 16
        while True:
            buffer, size, found = ctypes.create_string_buffer(room), ctypes.c_size_t(room), ctypes.c_int()
            self._do(name, *arguments, buffer, ctypes.byref(size), ctypes.byref(found))
            if not found.value:
                return None
            if size.value <= room:
                return buffer.raw[:size.value]
            room = size.value

    def _number(self, name: str) -> Any:
        return getattr(self._library, f"et_{name}")(self._handle)

    def _raise_for(self, status: int) -> None:
        if status != c.OK:
            text = self._library.et_last_error().decode(errors="replace")
            raise _ERRORS.get(status, ElasticError)(text)


@functools.lru_cache(maxsize=None)
def _watch_end() -> None:
    threading._register_atexit(_end_begins)  # type: ignore[attr-defined]


def _end_begins() -> None:
    """All threads but this one are about to end; what is registered now is called before all that was registered earlier."""
    session = Session._open
    status = session._status_at_once() if session is not None else None
    if session is not None and status is not None:
        atexit.register(session._end_at_once, status)


_SAFETENSORS = {"float32": b"F32", "float64": b"F64", "float16": b"F16", "bfloat16": b"BF16", "int64": b"I64",
                "int32": b"I32", "int16": b"I16", "int8": b"I8", "uint8": b"U8", "bool": b"BOOL"}
_ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8, "int32": 4, "int64": 8, "uint8": 1, "bool": 1}


def _type_name(values: Any) -> str:
    """Of a tensor or an array; of another buffer by its format."""
    name = str(getattr(values, "dtype", "")).replace("torch.", "")
    name = name or {"f": "float32", "d": "float64", "i": "int32", "q": "int64", "l": "int64", "B": "uint8", "?": "bool"}.get(
        memoryview(values).format, "")
    if name not in TYPES:
        raise TypeError(f"values of type {name or type(values).__name__} cannot be reduced; possible: {', '.join(TYPES)}")
    return name


def _change_of(change: Any) -> Change:
    return Change(change.generation, change.rank, change.world_size, change.previous_world_size, bool(change.joined_now),
                  (change.reason or b"").decode(errors="replace"))


def _split(indices: Any, sizes: Sequence[int]) -> List[Tuple[int, ...]]:
    batches, begin = [], 0
    for size in sizes:
        batches.append(tuple(indices[begin:begin + size]))
        begin += size
    return batches
