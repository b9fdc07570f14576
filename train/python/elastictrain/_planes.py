"""The gradients of a replica's processes on other hosts: each sums its own with those of the same index in the other replicas, on a plane
of theirs, when the first process says so. The connection for that shows each of them, too, when the other ends.
"""

import contextlib
import ctypes
import mmap
import os
import queue
import threading
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from ._elsewhere import Order, Plane, Sum, Sums, World
from ._interface import PLANE_ENDPOINT_BYTES
from ._replica_hosts import RemoteChannel
from .errors import ElasticError
from .session import TYPES

SAME_ERROR_S = 1.0  # in which the first process may end with the error of another one, and say it as the worker's
LOOK_S = 0.02  # between two looks at whether a generation is over
GRADIENTS = ("float32", "float16", "bfloat16")
_END = "end"


def view(address: int, size: int) -> memoryview:
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")


def memory_of(values: Any) -> Optional[memoryview]:
    """Of a dense tensor on the CPU; None: it has none."""
    size = values.numel() * values.element_size()
    return view(values.data_ptr(), size) if size else None


class Gradient(NamedTuple):
    """Of a process on another host, as the first one knows it."""
    number: int  # in the step
    bytes: int


class Written(NamedTuple):
    """A tensor of a process on another host whose values are copied to this one in each step, and back where they change here."""
    address: int
    bytes: int


class Remote:
    """Of the first process: what it has of one on another host. Thread: the training thread, start() that which reduces; its own one
    receives."""

    def __init__(self, index: int, channel: RemoteChannel, changed: threading.Condition) -> None:
        """`changed`: of all such processes."""
        self.index = index
        self.addresses: Dict[int, int] = {}  # of mirrors of its memory, by the number of the storage
        self._mirrors: List[mmap.mmap] = []
        self._written: List[Written] = []
        self._known: List[bytes] = []  # what the other process has in these
        self._channel, self.changed = channel, changed
        self._endpoint: Optional[bytes] = None
        self._started = 0
        self._results: List[Tuple[str, float, float]] = []
        self.has_ended = False
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()

    # --- State that has a mirror here

    def take(self, message: Tuple[Any, ...]) -> bool:
        """Of the messages that this object alone handles."""
        if message[0] == "mirror":
            memory = mmap.mmap(-1, max(message[2], 1))
            self._mirrors.append(memory)
            self.addresses[message[1]] = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        elif message[0] == "written":
            for number, value in message[1].items():
                ctypes.memmove(self._written[number].address, value, len(value))
                self._known[number] = value
        else:
            return False
        return True

    def add_written(self, address: int, size: int) -> None:
        self._written.append(Written(address, size))
        self._known.append(ctypes.string_at(address, size))

    def changed_here(self) -> Dict[int, bytes]:
        """Of such tensors, what the other process lacks."""
        found = {}
        for number, (address, size) in enumerate(self._written):
            memory = view(address, size) if size else b""
            if memory != self._known[number]:
                found[number] = self._known[number] = bytes(memory)
        return found

    # --- Sums

    def endpoint(self) -> bytes:
        """Of its plane. Raises EOFError where the process has ended."""
        with self.changed:
            self.changed.wait_for(lambda: self._endpoint is not None or self.has_ended)
            if self._endpoint is None:
                raise EOFError
            return self._endpoint

    def build(self, world: World) -> None:
        self._channel.send(("build", world))

    def start(self, order: Order) -> None:
        self._channel.send(("sum", order))
        self._started += 1

    def abort(self, generation: int) -> None:
        with contextlib.suppress(EOFError):
            self._channel.send(("abort", generation))

    @property
    def is_complete(self) -> bool:
        return self.has_ended or len(self._results) >= self._started

    def take_results(self) -> List[Tuple[str, float, float]]:
        """Of all sums that were started since the last call: why it failed, if it did, and its norms. Raises EOFError as above."""
        if len(self._results) < self._started:
            raise EOFError
        found, self._results, self._started = self._results, [], 0
        return found

    def await_end(self, limit_s: Optional[float] = None) -> None:
        self._thread.join(limit_s)

    def _receive(self) -> None:
        is_orderly = False
        with contextlib.suppress(EOFError):
            while not is_orderly:
                (kind, *rest), _ = self._channel.receive()
                is_orderly = kind == _END
                with self.changed:
                    if kind == "endpoint":
                        self._endpoint = rest[0]
                    elif kind == "result":
                        self._results.append(tuple(rest))
                    self.changed.notify_all()
        if not is_orderly:
            self._end_with_it()
        with self.changed:
            self.has_ended = True
            self.changed.notify_all()

    def _end_with_it(self) -> None:
        """None can go on without it."""
        time.sleep(SAME_ERROR_S)
        os.write(2, f"elastictrain: process {self.index} of this replica, on another host, has ended or cannot be reached; its replica "
                    "ends\n".encode())
        os._exit(1)


class Planes:
    """Of the first process: the sums of all processes on other hosts. Thread: as of a session's functions start and finish."""

    def __init__(self, remotes: Dict[int, Remote]) -> None:
        self._remotes = remotes
        self._generation = 0  # whose planes were built last

    def start(self, index: int, gradient: Gradient, sum_: Sum) -> None:
        if sum_.generation != self._generation or self._generation == 0:
            self._build(sum_)
        with _named(index):
            self._remotes[index].start(Order(gradient.number, sum_.step, sum_.bucket, sum_.scale, sum_.has_input, sum_.keeps, sum_.is_kept,
                                             sum_.wants_norms))

    def _build(self, sum_: Sum) -> None:
        own = []
        for index, remote in self._remotes.items():
            with _named(index):
                own.append(remote.endpoint())
        blocks = _blocks(sum_.all_gather(b"".join(own)))
        for place, (index, remote) in enumerate(self._remotes.items()):
            with _named(index):
                remote.build(World(sum_.generation, sum_.token, sum_.encryption, index, sum_.rank, blocks[place::len(own)]))
        self._generation = sum_.generation

    def finish(self, sums: Sums) -> None:
        aborted, changed = False, next(iter(self._remotes.values())).changed
        with changed:
            while not all(remote.is_complete for remote in self._remotes.values()):
                if not aborted and (sums.failed or sums.is_broken()):
                    aborted = True
                    for remote in self._remotes.values():
                        remote.abort(self._generation)
                changed.wait(LOOK_S)
        problems = []
        for index, remote in self._remotes.items():
            with _named(index):
                for problem, local, reduced in remote.take_results():
                    problems += [f"process {index} of this replica: {problem}"] if problem else []
                    sums.add_norms(local, reduced)
        if problems:
            raise ElasticError(problems[0])


def _blocks(gathered: bytes) -> List[bytes]:
    return [gathered[begin:begin + PLANE_ENDPOINT_BYTES] for begin in range(0, len(gathered), PLANE_ENDPOINT_BYTES)]


@contextlib.contextmanager
def _named(index: int) -> Any:
    try:
        yield
    except EOFError:
        raise ElasticError(f"process {index} of this replica has ended") from None


class _Summed(NamedTuple):
    address: int
    bytes: int
    count: int
    kind: int


class PlaneServer:
    """Of a process on another host than the first one: makes the sums that it orders. Thread: add() and begin_step() that of training; one
    of its own takes orders, another one carries them out."""

    def __init__(self, channel: RemoteChannel) -> None:
        self._channel = channel
        self._sending = threading.Lock()
        self._plane: Any = None
        self._gradients: List[_Summed] = []  # of the open step
        self._left: List[Any] = []  # memory in place of theirs
        self._orders: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._problem = "its plane was not built"

    def open(self) -> None:
        self._plane = Plane()
        self._send("endpoint", self._plane.endpoint())
        for target in (self._take, self._carry_out):
            threading.Thread(target=target, daemon=True).start()

    def add(self, values: Any) -> int:
        """Returns the gradient's number in the step; its memory stays as it is until the step's sums are complete."""
        dtype = str(values.dtype).replace("torch.", "")
        if dtype not in GRADIENTS:
            raise ElasticError(f"gradients of {dtype} cannot be averaged; possible are {', '.join(GRADIENTS)}")
        address, size = values.data_ptr(), values.numel() * values.element_size()
        self._leave(address, size)
        self._gradients.append(_Summed(address, size, values.numel(), TYPES[dtype]))
        return len(self._gradients) - 1

    def _leave(self, address: int, size: int) -> None:
        """Sums that are complete, and that a loss later in this step would make again, leave their memory to that of another pass."""
        for number, earlier in enumerate(self._gradients):
            if earlier.address < address + size and address < earlier.address + earlier.bytes:
                self._left.append(ctypes.create_string_buffer(earlier.bytes))
                self._gradients[number] = earlier._replace(address=ctypes.addressof(self._left[-1]))

    def begin_step(self) -> None:
        self._gradients, self._left = [], []

    def end(self) -> None:
        """Says that this process ends in good order."""
        self._send(_END)

    def _send(self, *message: Any) -> None:
        with self._sending, contextlib.suppress(EOFError):  # whoever waits for the first process notices its end
            self._channel.send(message)

    def _take(self) -> None:
        with contextlib.suppress(EOFError):
            while True:
                (kind, what), _ = self._channel.receive()
                if kind == "abort":
                    self._plane.abort(what)
                else:
                    self._orders.put((self._build if kind == "build" else self._sum, what))

    def _carry_out(self) -> None:
        while True:
            call, what = self._orders.get()
            call(what)

    def _build(self, world: World) -> None:
        _, self._problem = _tried(lambda: self._plane.build(world))

    def _sum(self, order: Order) -> None:
        norms, problem = None, self._problem
        if not problem:
            norms, problem = _tried(lambda: self._reduce(self._gradients[order.number], order))
        self._send("result", problem, *(norms or (0.0, 0.0)))

    def _reduce(self, summed: "_Summed", order: Order) -> Tuple[float, float]:
        found: Tuple[float, float] = self._plane.all_reduce(summed.address, summed.count, summed.kind, order)
        return found


def _tried(call: Callable[[], Any]) -> Tuple[Any, str]:
    try:
        return call(), ""
    except Exception as error:  # the first process says it
        return None, str(error) or type(error).__name__
