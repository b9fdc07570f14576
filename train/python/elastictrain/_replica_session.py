"""What the processes of a replica (`_replica`) use as their session: the first one `Leader`, a session that carries out the calls
of all, with their memory, which it maps; every other one `Follower`, which hands its calls to it.

All of them make the same calls in the same order, so a call of the first process waits for the same call of each other one.
Whatever crosses replicas is done for all processes together: a step is committed for all of them or for none.

Thread: the training thread of each process; a gradient may arrive on another one.
"""

import collections
import contextlib
import ctypes
import functools
import mmap
import os
import threading
from typing import Any, Callable, Deque, Dict, FrozenSet, Iterator, List, NamedTuple, NoReturn, Optional, Tuple

from . import _helpers, _memory
from ._planes import Planes
from ._replica import AWAITED_S, Replica
from .errors import ElasticError, Interrupted, SessionError
from .session import _ITEM_BYTES, _SAFETENSORS, TYPES, Batch, Change, GoesOn, OtherLayout, Session, StepReport

SHARED_MEMORY = "/dev/shm"
DIVISION = "/parts"  # the end of the names of early values that say how a replica's processes divide its state and data
_ERRORS = {"SessionError": SessionError, "Interrupted": Interrupted}


def of(here: Replica) -> Any:
    """What this process uses as its session."""
    if here.is_first:
        return Leader(here)
    if here.sums is not None:
        from ._replica_remote import RemoteFollower
        here.follower = RemoteFollower(here)
    else:
        here.follower = Follower(here)
    return here.follower


def decided(session: Any, value: Any) -> Any:
    """The value of the replica's first process, for what each one would decide by its own clock."""
    return session.decided(value) if isinstance(session, (Leader, Follower)) else value


class Piece(NamedTuple):
    """A part of a follower's memory, by the number of the storage that it is in."""
    storage: int
    offset: int
    bytes: int
    dtype: str
    shape: Tuple[int, ...]


class OwnMemory:
    """What both have of their own that the others cannot map: gradients on their way to the session and back, state on devices."""

    _is_shared = False  # what these cross by is another process's memory, too
    _keeps_own = False  # the sums of the open step are what this replica puts into them
    _copied: Any = None
    _on_devices: Any = None

    def _cross(self, gradient: Any) -> List[Any]:
        """Returns those that are in memory which the first process has."""
        if self._copied is None:
            from .torch._devices import Copied
            self._copied = Copied(self._is_shared)
        self._copied.add(gradient)
        return list(self._copied.there())

    def _crossed(self) -> List[Any]:
        """The rest of them."""
        return [] if self._copied is None else self._copied.there(wait=True)

    def _cross_back(self) -> None:
        if self._copied is not None:
            self._copied.take_back(is_changed=not self._keeps_own)

    def _add_to_devices(self, name: str, tensor: Any) -> Any:
        if self._on_devices is None:
            self._on_devices = self._begin_device_state()
        return self._on_devices.add(name, tensor)

    def _begin_device_state(self) -> Any:
        from .torch._device_state import DeviceState
        return DeviceState(self._is_shared)

    def _note_written(self) -> None:
        if self._on_devices is not None:
            self._on_devices.note_written()

    def _memory_of_devices(self) -> Any:
        return None if self._on_devices is None else self._on_devices.memory()


class Leader(OwnMemory, Session):
    """The session of the first process, which carries out the calls of all."""

    refusal = None

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._inbox: List[Deque[Any]] = [collections.deque() for _ in replica.channels]
        self._remotes = {index - 1: remote for index, remote in replica.remotes.items()}
        self._planes = Planes(replica.remotes)
        self._maps: List[Dict[int, int]] = [self._remotes[number].addresses if number in self._remotes else {}
                                            for number in range(len(replica.channels))]  # by the number of the storage
        self._gradients: List[List[Any]] = [[] for _ in range(replica.size)]  # of the open step, by index; not summed yet
        self._row = 0
        self._accesses: Dict[int, Any] = {}  # to each process's state on devices
        super().__init__()
        self._divisions: List[Dict[str, bytes]] = [{} for _ in range(replica.size)]  # early values of each process
        self.on_other_layout(DIVISION, self._take_other)
        self._gather("enter")
        self._answer()

    # --- What the others ask for

    def _receive(self, number: int) -> None:
        with self._present(number):
            message, descriptor = self._replica.channels[number].receive()
        if descriptor is not None:
            storage, size = message
            self._maps[number][storage] = _mapped(descriptor, size)
        elif number not in self._remotes or not self._remotes[number].take(message):
            self._inbox[number].append(message)

    @contextlib.contextmanager
    def _present(self, number: int) -> Iterator[None]:
        try:
            yield
        except EOFError:
            if number in self._remotes:
                self._remotes[number].await_end(AWAITED_S)
            else:
                assert self._replica.watch is not None
                self._replica.watch.await_one(number + 1)
            raise ElasticError(f"process {number + 1} of this replica has ended before the others") from None

    def _send(self, number: int, *message: Any) -> None:
        with self._present(number):
            self._replica.channels[number].send(message)

    def _next(self, number: int, name: str) -> Tuple[Any, ...]:
        """The arguments with which this process makes the same call."""
        while not self._inbox[number]:
            self._receive(number)
        called, *arguments = self._inbox[number].popleft()
        if called == "decline":
            super().decline(arguments[0])
            raise ElasticError(f"process {number + 1} of this replica could not join: {arguments[0]}")
        if called != name:
            why = f": {arguments[0]}" if called == "disagree" else ""
            raise ElasticError(f"the processes of a replica make the same calls in the same order, but process {number + 1} called "
                               f"{called}() where process 0 called {name}(){why}")
        return tuple(arguments)

    def _gather(self, name: str) -> List[Tuple[Any, ...]]:
        return [self._next(number, name) for number in range(len(self._inbox))]

    def _answer(self, values: Any = None, each: Optional[List[Any]] = None) -> None:
        seen = self._seen()
        for number in range(len(self._inbox)):
            self._send(number, "result", values if each is None else each[number], seen)

    def _seen(self) -> Dict[str, Any]:
        return {name: getattr(self, name) for name in Follower.SEEN} | {"last_step": self.last_step()}

    def _for_all(self, call: Callable[[], Any]) -> Any:
        """What the first process's call gives is that of all."""
        try:
            value = call()
        except ElasticError as error:
            for channel in self._replica.channels:
                with contextlib.suppress(EOFError):
                    channel.send(("error", type(error).__name__, str(error)))
            raise
        self._answer(value)
        return value

    def _call_others(self, name: str, argument: Any = None) -> None:
        seen = self._seen()
        for number in range(len(self._inbox)):
            self._send(number, "callback", name, argument, seen)

    def _address(self, number: int, piece: Piece) -> int:
        return self._maps[number][piece.storage] + piece.offset if piece.bytes else 0

    # --- Before start()

    def share_tensor(self, name: str, tensor: Any) -> None:
        if _memory.is_on_device(tensor):
            self._share_on_device(0, name, self._add_to_devices(name, tensor))
        elif tensor.numel():
            super().share_tensor(_named(0, name), tensor)
        for number, (other, piece) in enumerate(self._gather("share_tensor")):
            self._share_piece("share_tensor", number, name, other, piece)

    def _share_on_device(self, index: int, name: str, tensor: Any) -> None:
        if tensor.bytes == 0:
            return
        if index not in self._accesses:
            self._accesses[index] = self._access_to(index)
        access = self._accesses[index]
        is_known = tensor.dtype in _SAFETENSORS
        dtype, shape = (tensor.dtype, tensor.shape) if is_known else ("uint8", (tensor.bytes,))
        self.share_tensor_through(_named(index, name), dtype, shape, functools.partial(access.read, tensor.number),
                                  functools.partial(access.write, tensor.number))

    def _access_to(self, index: int) -> Any:
        from .torch._device_state import Access, asking, by_channel, by_room
        if index == 0:
            return Access(by_room(self._on_devices.room.data_ptr(), self._on_devices.copy))
        channel = self._replica.copies[index - 1]
        if index - 1 in self._remotes:
            return Access(by_channel(channel, index))
        with self._present(index - 1):
            size, descriptor = channel.receive()
        assert descriptor is not None
        return Access(by_room(_mapped(descriptor, size), asking(channel, index)))

    def share_first_tensor(self, name: str, value: Any, every_steps: int = 1) -> None:
        super().share_first_tensor(_named(0, name), value, every_steps)
        for number, (other, piece) in enumerate(self._gather("share_first_tensor")):
            self._share_piece("share_first_tensor", number, name, other, piece, every_steps)
            self._note_written_there(number, piece)

    def share_local_state(self, name: str, value: Any) -> None:
        super().share_local_state(_named(0, name), value)
        for number, (other, piece) in enumerate(self._gather("share_local_state")):
            _refuse_other(number, name, other)
            self._do("share_local_state", _named(number + 1, name).encode(), self._address(number, piece), piece.bytes)
            self._note_written_there(number, piece)

    def _note_written_there(self, number: int, piece: Piece) -> None:
        if number in self._remotes:
            self._remotes[number].add_written(self._address(number, piece), piece.bytes)

    def _share_piece(self, call: str, number: int, name: str, other: str, piece: Piece, *options: int) -> None:
        _refuse_other(number, name, other)
        if not isinstance(piece, Piece):
            return self._share_on_device(number + 1, name, piece)
        if piece.bytes == 0:
            return
        if piece.dtype not in _SAFETENSORS:
            return self._do("share_state", _named(number + 1, name).encode(), self._address(number, piece), piece.bytes)
        shape = (ctypes.c_uint64 * max(1, len(piece.shape)))(*piece.shape)
        self._do(call, _named(number + 1, name).encode(), self._address(number, piece), _SAFETENSORS[piece.dtype], shape,
                 len(piece.shape), *options)

    def share_early(self, name: str, value: bytes) -> None:
        self._share_early(0, name, value)
        for number, (other, theirs) in enumerate(self._gather("share_early")):
            _refuse_other(number, name, other)
            self._share_early(number + 1, other, theirs)

    def _share_early(self, index: int, name: str, value: bytes) -> None:
        super().share_early(_named(index, name), value)
        self._divisions[index][name] = value

    def early(self, name: str, room: int = 1 << 16) -> bytes:
        own = super().early(_named(0, name), room)
        asked = self._gather("early")
        self._answer(each=[super(Leader, self).early(_named(number + 1, other), room) for number, (other,) in enumerate(asked)])
        return own

    def set_data(self, sample_count: int = 0, **options: Any) -> None:
        for number, (count, theirs) in enumerate(self._gather("set_data")):
            if (count, theirs) != (sample_count, options):
                raise ElasticError(f"the processes of a replica divide their data alike, but process {number + 1} has "
                                   f"{_differences({**theirs, 'sample_count': count}, {**options, 'sample_count': sample_count})}")
        super().set_data(sample_count, **options)

    def on_change(self, callback: Callable[[Change], None]) -> None:
        def called(change: Change) -> None:
            self._call_others("change", change)
            callback(change)

        super().on_change(called)

    def watch_steps(self, after: Callable[[], None]) -> None:
        def called() -> None:
            self._call_others("step")
            after()

        super().watch_steps(called)

    def use_device(self, ordinal: int = -1) -> int:
        raise ElasticError("the processes of a replica choose their devices themselves")

    def start(self) -> bool:
        self._note_written()
        self._gather("start")

        def start() -> bool:
            is_open = super(Leader, self).start()
            self._tell_written()
            return is_open

        return bool(self._for_all(start))

    def _tell_written(self) -> None:
        """Processes on other hosts get what the session has written into mirrors of their state."""
        for number, remote in self._remotes.items():
            changed = remote.changed_here()
            if changed:
                self._send(number, "callback", "written", changed, self._seen())

    def _take_other(self, other: OtherLayout) -> GoesOn:
        """Of a checkpoint of replicas of another size, or of another mesh."""
        from .torch._other_size import take
        return take(other, self._divisions)

    # --- Steps

    def next_batch(self) -> Optional[Batch]:
        self._gather("next_batch")
        self._row = 0
        found: Optional[Batch] = self._for_all(super().next_batch)
        self._keeps_own = _keeps_own(self, found)
        return found

    def look_ahead(self, batches: int, samples: int) -> List[Tuple[int, ...]]:
        self._gather("look_ahead")
        found: List[Tuple[int, ...]] = self._for_all(lambda: super(Leader, self).look_ahead(batches, samples))
        return found

    def all_reduce_async(self, gradient: Any, stream: Optional[int] = None) -> None:
        self._gradients[0] += self._cross(gradient)
        for number in range(len(self._inbox)):
            while self._replica.channels[number].has_more():
                self._receive(number)
        self._submit_rows()

    def wait_all_reduce(self) -> None:
        self._gradients[0] += self._crossed()
        for number, inbox in enumerate(self._inbox):
            while not any(message[0] != "all_reduce_async" for message in inbox):
                self._receive(number)
        self._submit_rows(is_last=True)
        self._gather("wait_all_reduce")
        self._row = 0
        self._gradients = [[] for _ in self._gradients]
        self._for_all(super().wait_all_reduce)
        self._cross_back()

    def _submit_rows(self, is_last: bool = False) -> None:
        """The n-th gradients of all processes, when all are there, so that their order is the same in every replica. A process
        that has fewer has gone on to its next call."""
        ended = [is_last]
        for number, inbox in enumerate(self._inbox):
            while inbox and inbox[0][0] == "all_reduce_async":
                self._gradients[number + 1].append(inbox.popleft()[1])
            ended.append(bool(inbox))
        while True:
            row = [gradients[self._row:self._row + 1] for gradients in self._gradients]
            if not any(row) or not all(part or over for part, over in zip(row, ended)):
                return
            for index, part in enumerate(row):
                for gradient in part:
                    self._submit(index, gradient)
            self._row += 1

    def _submit(self, index: int, gradient: Any) -> None:
        if index == 0:
            super().all_reduce_async(gradient)
        elif gradient.bytes == 0:
            return
        elif index in self._replica.remotes:
            self.all_reduce_elsewhere_async(functools.partial(self._planes.start, index, gradient), self._planes.finish)
        else:
            self._do("all_reduce_typed_async", self._address(index - 1, gradient), gradient.bytes // _ITEM_BYTES[gradient.dtype],
                     TYPES[gradient.dtype])

    def boundary(self) -> FrozenSet[str]:
        self._gather("boundary")
        found: FrozenSet[str] = self._for_all(super().boundary)
        return found

    def decided(self, value: Any) -> Any:
        """As the function below."""
        self._gather("decided")
        self._answer(value)
        return value

    def gathered(self, value: Any) -> List[Any]:
        """The values of all processes of the replica, by index."""
        values = [value, *(theirs for (theirs,) in self._gather("gathered"))]
        self._answer(values)
        return values

    def all_gather(self, value: Any) -> bytes:
        own = super().all_gather(value)
        self._answer(each=[super(Leader, self).all_gather(bytearray(theirs)) for (theirs,) in self._gather("all_gather")])
        return own

    def board_put(self, key: str, value: bytes) -> None:
        super().board_put(key, value)
        for number, (other, theirs) in enumerate(self._gather("board_put")):
            super().board_put(_key(number + 1, other), theirs)

    def board_get(self, key: str, timeout_s: float = 0.0) -> Optional[bytes]:
        """None also where a process of the others has not got its own value: all go the same way from here."""
        asked = self._gather("board_get")
        found = [super(Leader, self).board_get(_key(number, other), timeout_s)
                 for number, other in enumerate([key, *(other for (other,) in asked)])]
        return self._all_or_none(found)

    def attach(self, name: str, value: bytes) -> None:
        super().attach(name, value)
        for number, (other, theirs) in enumerate(self._gather("attach")):
            super().attach(_key(number + 1, other), theirs)

    def attachment(self, name: str) -> Optional[bytes]:
        asked = self._gather("attachment")
        return self._all_or_none([super(Leader, self).attachment(_key(number, other))
                                  for number, other in enumerate([name, *(other for (other,) in asked)])])

    def _all_or_none(self, found: List[Optional[bytes]]) -> Optional[bytes]:
        found = [None] * len(found) if None in found else found
        self._answer(each=found[1:])
        return found[0]

    def broadcast(self, values: Any) -> None:
        super().broadcast(values)
        theirs = []
        for (part,) in self._gather("broadcast"):
            theirs.append((ctypes.c_char * len(part)).from_buffer_copy(part))
            super().broadcast(theirs[-1])
        self._answer(each=[bytes(part) for part in theirs])

    def disagree(self, reason: str) -> None:
        raise SessionError(reason)

    def commit_step(self, loss: Optional[float] = None) -> None:
        self._note_written()
        losses, memories = zip((loss, self._memory_of_devices()), *self._gather("commit_step"))
        known = [one for one in losses if one is not None]
        fullest = min((memory for memory in memories if memory is not None), key=lambda memory: memory.free, default=None)
        if fullest is not None:
            super().device_memory(fullest.total, fullest.free)

        def commit() -> None:
            super(Leader, self).commit_step(sum(known) / len(known) if known else None)
            self._tell_written()

        self._for_all(commit)


class Follower(OwnMemory):
    """The session of every other process. Its calls end when the first process has made the same ones."""

    _is_shared = True

    SEEN = ("rank", "world_size", "generation", "committed_step", "learning_rate_factor", "launched", "outcome", "synchronization")

    def __init__(self, replica: Replica) -> None:
        self._channel = replica.channels[0]
        self._known: Dict[str, Any] = dict.fromkeys(self.SEEN, 0) | {
            "launched": True, "outcome": "running", "synchronization": "s-sgd", "learning_rate_factor": 1.0}
        self._storages: Dict[int, Tuple[int, Any]] = {}  # by address
        self._callbacks: Dict[str, Callable[..., None]] = {}
        self._copies = replica.copies[0]
        self._server: Optional[threading.Thread] = None
        self.ends_at_once = False
        _helpers.watch()
        self._call("enter")

    def __getattr__(self, name: str) -> Any:
        if name in ("_known", "__deepcopy__"):
            raise AttributeError(name)
        if name in self._known:
            return self._known[name]
        raise ElasticError(f"session.{name} is not available in a replica of several processes")

    # --- Messages

    def _send(self, name: str, *arguments: Any) -> None:
        try:
            self._channel.send((name, *arguments))
        except EOFError:
            self._end()

    def _end(self) -> NoReturn:
        """With the first process, which says why."""
        os._exit(1)

    def _call(self, name: str, *arguments: Any) -> Any:
        self._send(name, *arguments)
        while True:
            try:
                (kind, *rest), _ = self._channel.receive()
            except EOFError:
                self._end()
            if kind == "error":
                raise _ERRORS.get(rest[0], ElasticError)(rest[1])
            self._known.update(rest[-1])
            if kind == "result":
                return rest[0]
            callback, argument = rest[0], rest[1]
            if callback in self._callbacks:
                with contextlib.suppress(Interrupted):
                    self._callbacks[callback](*(() if argument is None else (argument,)))

    def _piece(self, value: Any) -> Piece:
        """Memory of a tensor, which is moved into shared memory if it is not there yet."""
        if _memory.is_on_device(value):
            raise TypeError(f"a tensor on {value.device} cannot be shared in this way; keep it on the CPU")
        storage = value.untyped_storage()
        if self._is_shared:
            share(storage)
        found = self._storages.get(storage.data_ptr())
        if found is None:
            found = self._storages[storage.data_ptr()] = (len(self._storages), storage)
            if len(storage):
                self._map(storage, found[0])
        dtype = str(value.dtype).replace("torch.", "")
        size = value.numel() * value.element_size()
        return Piece(found[0], value.storage_offset() * value.element_size(), size, dtype, tuple(value.shape))

    def _map(self, storage: Any, number: int) -> None:
        """In the first process, too."""
        descriptor, size = storage._share_fd_cpu_()
        self._channel.send((number, size), descriptor)  # which stays the storage's

    # --- The calls of a session

    def share_tensor(self, name: str, tensor: Any) -> None:
        if _memory.is_on_device(tensor):
            self._send("share_tensor", name, self._add_to_devices(name, tensor))
            return
        if not tensor.is_contiguous():
            raise ElasticError(f"'{name}' ({tensor.dtype}) is no contiguous tensor")
        self._send("share_tensor", name, self._piece(tensor))

    def _begin_device_state(self) -> Any:
        """Served from now on."""
        state = super()._begin_device_state()
        storage = state.room.untyped_storage()
        descriptor, size = storage._share_fd_cpu_()
        self._copies.send(size, descriptor)
        self._server = threading.Thread(target=state.serve, args=(self._copies,), daemon=True)
        self._server.start()
        return state

    def await_last_copy(self) -> None:
        """Returns when the first process's session has ended."""
        if self._server is not None:
            self._server.join()

    def share_first_tensor(self, name: str, value: Any, every_steps: int = 1) -> None:
        self._send("share_first_tensor", name, self._piece(value))

    def share_local_state(self, name: str, value: Any) -> None:
        self._send("share_local_state", name, self._piece(value))

    def share_early(self, name: str, value: bytes) -> None:
        self._send("share_early", name, value)

    def early(self, name: str, room: int = 1 << 16) -> bytes:
        return bytes(self._call("early", name))

    def set_data(self, sample_count: int = 0, **options: Any) -> None:
        self._send("set_data", sample_count, options)

    def on_change(self, callback: Callable[[Change], None]) -> None:
        self._callbacks["change"] = callback

    def watch_steps(self, after: Callable[[], None]) -> None:
        self._callbacks["step"] = after

    def start(self) -> bool:
        self._note_written()
        return bool(self._call("start"))

    def next_batch(self) -> Optional[Batch]:
        found: Optional[Batch] = self._call("next_batch")
        self._keeps_own = _keeps_own(self, found)
        return found

    def all_reduce_async(self, gradient: Any, stream: Optional[int] = None) -> None:
        self._hand_over(self._cross(gradient))

    def _hand_over(self, gradients: List[Any]) -> None:
        for values in gradients:
            self._send("all_reduce_async", self._piece(values))

    def wait_all_reduce(self) -> None:
        self._hand_over(self._crossed())
        self._call("wait_all_reduce")
        self._cross_back()

    def broadcast(self, values: Any) -> None:
        ctypes.memmove(values, self._call("broadcast", bytes(values)), ctypes.sizeof(values))

    def disagree(self, reason: str) -> None:
        self._call("disagree", reason)

    def boundary(self) -> FrozenSet[str]:
        found: FrozenSet[str] = self._call("boundary")
        return found

    def decided(self, value: Any) -> Any:
        return self._call("decided")

    def gathered(self, value: Any) -> List[Any]:
        found: List[Any] = self._call("gathered", value)
        return found

    def decline(self, reason: str) -> None:
        self._send("decline", reason)

    def all_gather(self, value: Any) -> bytes:
        return bytes(self._call("all_gather", bytes(value)))

    def board_put(self, key: str, value: bytes) -> None:
        self._send("board_put", key, value)

    def board_get(self, key: str, timeout_s: float = 0.0) -> Optional[bytes]:
        found: Optional[bytes] = self._call("board_get", key)
        return found

    def attach(self, name: str, value: bytes) -> None:
        self._send("attach", name, value)

    def attachment(self, name: str) -> Optional[bytes]:
        found: Optional[bytes] = self._call("attachment", name)
        return found

    def commit_step(self, loss: Optional[float] = None) -> None:
        self._note_written()
        self._call("commit_step", loss, self._memory_of_devices())

    def last_step(self) -> StepReport:
        report: StepReport = self._known["last_step"]
        return report

    def look_ahead(self, batches: int, samples: int) -> List[Tuple[int, ...]]:
        found: List[Tuple[int, ...]] = self._call("look_ahead")
        return found

    def phase(self, name: Optional[str]) -> None:
        """That of the first process counts."""

    def note(self, key: str, value: Any) -> None:
        """The same."""

    def end_data(self) -> None:
        """The same."""

    def close(self) -> None:
        """The session is the first process's."""


def _keeps_own(session: Any, batch: Optional[Batch]) -> bool:
    """Of a step that opens: this replica is alone in it, and has samples. (One that loses the others has some of their sums.)"""
    return bool(session.world_size == 1 and batch is not None and batch.local_samples)


def share(storage: Any) -> None:
    """A tensor's, with the other processes, if it is not yet. Raises ElasticError where the system's shared memory has no room: a write
    into it would end the process."""
    if not storage.is_shared():
        check_room(len(storage))
        storage.share_memory_()


def check_room(size: int) -> None:
    with contextlib.suppress(OSError):
        room = os.statvfs(SHARED_MEMORY)
        if room.f_bavail * room.f_frsize < size:
            raise ElasticError(f"the state and the gradients of a replica's other processes are in {SHARED_MEMORY}, where "
                               f"{room.f_bavail * room.f_frsize >> 20} MiB are free and {size >> 20} more are needed. Make it larger "
                               "(mount -o remount,size=…; docker run --shm-size=…)")


def _mapped(descriptor: int, size: int) -> int:
    """The address of this shared memory, for the process's lifetime. Closes the descriptor, which mmap.mmap would keep."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    address = library.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, descriptor, 0)
    os.close(descriptor)
    if address == ctypes.c_void_p(-1).value:
        raise ElasticError(f"cannot map {size} bytes of another process of this replica: {os.strerror(ctypes.get_errno())}")
    return int(address)


def _named(index: int, name: str) -> str:
    return f"shard{index}/{name}"


OF_ALL = "group/"  # keys of the board that are those of the whole run


def _key(index: int, name: str) -> str:
    """Each process has values of its own; the first one those without its number."""
    return name if index == 0 or name.startswith(OF_ALL) else _named(index, name)


def _refuse_other(number: int, name: str, other: str) -> None:
    if other != name:
        raise ElasticError(f"the processes of a replica share the same state, but process {number + 1} shares '{other}' where "
                           f"process 0 shares '{name}'")


def _differences(theirs: Dict[str, Any], own: Dict[str, Any]) -> str:
    return ", ".join(f"{name} {theirs.get(name)} and process 0 {own.get(name)}" for name in {**own, **theirs}
                     if theirs.get(name) != own.get(name))
