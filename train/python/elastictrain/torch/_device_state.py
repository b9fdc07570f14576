"""State of a replica's processes in memory of devices. The session is the first process's; each process copies its own, in pieces,
through host memory that the first one maps.
"""

import contextlib
import os
import threading
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

import torch

from . import _devices
from .._memory import is_on_device
from .._planes import view
from .._replica_session import share
from ..errors import ElasticError

ROOM_BYTES = 8 << 20
MEMORY_EVERY = 16  # steps between two looks at a device's memory


class OnDevice(NamedTuple):
    """A tensor of a process, by its number among those on devices."""
    number: int
    bytes: int
    dtype: str
    shape: Tuple[int, ...]


class Memory(NamedTuple):
    """Of a device, in bytes, by its driver."""
    total: int
    free: int


class DeviceState:
    """Of this process. Thread: add() and note_written() that of training, copy() any, one at a time."""

    def __init__(self, is_shared: bool) -> None:
        """`is_shared`: the first process maps the room."""
        self.room = torch.empty(ROOM_BYTES, dtype=torch.uint8)
        if is_shared:
            share(self.room.untyped_storage())
        self._tensors: List[torch.Tensor] = []  # as bytes
        self._devices: Set[torch.device] = set()  # that they are on
        self._written: Dict[torch.device, Any] = {}  # marks
        self._streams: Dict[torch.device, Any] = {}
        self._asked = 0

    def add(self, name: str, tensor: torch.Tensor) -> OnDevice:
        if not tensor.is_contiguous():
            raise ElasticError(f"'{name}' ({tensor.dtype}) is no contiguous tensor")
        if is_on_device(tensor):
            if not self._devices:
                _devices.lock(self.room, tensor.device)
            self._devices.add(tensor.device)
        self._tensors.append(_devices.bytes_of(tensor.data))  # what is written into it is no change that a backward pass sees
        size = tensor.numel() * tensor.element_size()
        return OnDevice(len(self._tensors) - 1, size, str(tensor.dtype).replace("torch.", ""), tuple(tensor.shape))

    def note_written(self) -> None:
        """What the devices' current streams hold now is a part of the state."""
        self._written = {device: _devices.mark(device) for device in self._devices}

    def memory(self) -> Optional[Memory]:
        """Of the device with the least free memory, asked now and then; None in between, and where it is not known."""
        self._asked += 1
        if self._asked % MEMORY_EVERY != 1:
            return None
        asking = [(getattr(torch.get_device_module(device), "mem_get_info", None), device) for device in self._devices]
        known = [Memory(total, free) for ask, device in asking if ask is not None for free, total in (ask(device),)]
        return min(known, key=lambda memory: memory.free, default=None)

    def copy(self, reads: bool, number: int, offset: int, size: int) -> None:
        """Between a part of that tensor and the room. Done when it returns."""
        tensor, room = self._tensors[number][offset:offset + size], self.room[:size]
        if not is_on_device(tensor):
            (room if reads else tensor).copy_(tensor if reads else room)
            return
        module = torch.get_device_module(tensor.device)
        if tensor.device not in self._streams:
            self._streams[tensor.device] = module.Stream(tensor.device)
        stream = self._streams[tensor.device]
        if tensor.device in self._written:
            stream.wait_event(self._written[tensor.device])
        with torch.no_grad(), module.stream(stream):
            if reads:
                room.copy_(tensor, non_blocking=True)
            else:
                tensor.copy_(room, non_blocking=True)
            stream.synchronize()

    def serve(self, channel: Any) -> None:
        """Copies what the first process asks for, until that has ended."""
        while True:
            try:
                asked, _ = channel.receive()
            except EOFError:
                return
            channel.send(self._problem_of(asked))

    def serve_remote(self, channel: Any) -> None:
        """The same for one on another host, which gets and sends what the room holds."""
        room = view(self.room.data_ptr(), ROOM_BYTES)
        with contextlib.suppress(EOFError):
            while (asked := channel.receive()[0]) is not None:
                reads, _, _, size = asked
                if not reads:
                    channel.read_into(room[:size])
                problem = self._problem_of(asked)
                channel.send(problem)
                if reads and problem is None:
                    channel.send_bytes(room[:size])
            return
        os._exit(1)  # with the first process, which says why

    def _problem_of(self, asked: Tuple[bool, int, int, int]) -> Optional[str]:
        """Copies; the first process says why it could not be."""
        try:
            self.copy(*asked)
        except Exception as error:
            return str(error).partition("\n")[0]
        return None


Copy = Callable[[bool, int, int, memoryview], None]  # as DeviceState.copy(), between a tensor and this memory


class Access:
    """The first process's to the state of one. Thread: any."""

    def __init__(self, copy: Copy) -> None:
        self._copy = copy
        self._lock = threading.Lock()

    def read(self, number: int, offset: int, into: int, size: int) -> None:
        self._copy_pieces(True, number, offset, into, size)

    def write(self, number: int, offset: int, source: int, size: int) -> None:
        self._copy_pieces(False, number, offset, source, size)

    def _copy_pieces(self, reads: bool, number: int, offset: int, address: int, size: int) -> None:
        for begin in range(0, size, ROOM_BYTES):
            memory = view(address + begin, min(ROOM_BYTES, size - begin))
            with self._lock:
                self._copy(reads, number, offset + begin, memory)


def by_room(address: int, copy: Callable[[bool, int, int, int], None]) -> Copy:
    """By way of the room at `address`, which this process has too; `copy`: as DeviceState.copy()."""
    def move(reads: bool, number: int, offset: int, memory: memoryview) -> None:
        room = view(address, len(memory))
        if not reads:
            room[:] = memory
        copy(reads, number, offset, len(memory))
        if reads:
            memory[:] = room
    return move


def asking(channel: Any, index: int) -> Callable[[bool, int, int, int], None]:
    """What copies in process `index`, which serves the channel."""
    return lambda *asked: _ask(channel, index, asked)


def by_channel(channel: Any, index: int) -> Copy:
    """The same of a process on another host: what is copied crosses with the question or the answer."""
    return lambda reads, number, offset, memory: _ask(channel, index, (reads, number, offset, len(memory)), memory)


def _ask(channel: Any, index: int, asked: Any, memory: Optional[memoryview] = None) -> None:
    reads = asked[0]
    try:
        channel.send(asked)
        if memory is not None and not reads:
            channel.send_bytes(memory)
        problem, _ = channel.receive()
        if memory is not None and reads and problem is None:
            channel.read_into(memory)
    except EOFError:
        raise ElasticError(f"process {index} of this replica has ended, and what it held with it") from None
    if problem is not None:
        raise ElasticError(f"process {index} of this replica: {problem}")
