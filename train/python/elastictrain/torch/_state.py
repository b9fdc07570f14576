"""What is replicated besides the gradients: parameters, buffers, optimizers and the objects of state=, in an order that
follows from the program alone. Small values that are no tensors are one buffer of bytes.
"""

import zlib
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch import nn
from torch.optim import Optimizer

from . import _optimizers, checkpoint
from ._buffers import Buffer, Buffers
from ._host_floats import HostFloats
from ._optimizers import ScaledRates
from ._python_state import PythonState
from ._replica import is_divided, local
from ..errors import Unequal
from ..session import Session

LENGTH_BYTES = 4
HEADER_BYTES = 2 * LENGTH_BYTES  # length and checksum
CHECKED_IN_A_STEP = 32
Reader = Callable[[], torch.Tensor]  # of the tensor that the program uses now


class SharedState:
    """Registers everything with the session, which must not have started. Thread: the training thread."""

    def __init__(self, session: Session, model: nn.Module, optimizers: Sequence[Optimizer], buffers: Buffers,
                 objects: Dict[str, Any], rates: Sequence[ScaledRates] = ()) -> None:
        """`rates`: of each optimizer, where its learning rate is scaled."""
        self._tensors: List[Tuple[str, Reader]] = []
        self._python = PythonState()
        self.buffers = buffers
        self._collect(model, optimizers, objects, rates)
        for name, read in self._tensors:
            session.share_tensor(name, local(read()).detach())
        divided = checkpoint.encode_parts({name: read() for name, read in self._tensors if is_divided(read())})
        if divided:
            session.share_early(checkpoint.PARTS, divided)
        self._addresses = Addresses(self._tensors)
        text = self._python.encode()
        self.capacity = (2 * len(text) + 1024) // 512 * 512
        self._packed = Packed(self.capacity)
        self._loaded = text
        self.store()
        session.share_tensor("python", self._packed.bytes)

    @property
    def tensors(self) -> List[Tuple[str, torch.Tensor]]:
        return [(name, local(read()).detach()) for name, read in self._tensors]

    # --- The bytes in shared memory

    def store(self) -> None:
        """Writes the present small values; only at a time at which state may change."""
        self._loaded = self._checked(self._python.encode())
        self._packed.write(self._loaded)

    def adopt(self, always: bool = False) -> None:
        """Gives the program's objects what the shared memory holds, for example state that was just received. State that is
        still on its way is left out: the sums of this worker's first step bring the small values. `always`: the objects may
        have changed since they were read."""
        self.buffers.restore()
        text = self._packed.read()
        if text is not None and (always or text != self._loaded):
            self._python.decode(text)
            self._loaded = text

    def small_values(self) -> bytes:
        """The present ones: learning rates, schedulers and the like."""
        return self._python.encode()

    def go_back_to(self, small_values: bytes, leave: Sequence[str]) -> None:
        """Gives the program's objects what they held earlier in the step, but for some by name."""
        self._python.decode(small_values, leave)
        self.buffers.restore()

    def small_value(self, name: str) -> bytes:
        """One of them."""
        return self._python.encode([name])

    def set_small_value(self, name: str, value: bytes) -> None:
        self._python.decode_one(name, value)

    # --- The bytes that travel with a step

    @property
    def floats(self) -> int:
        """How many of them travel."""
        return HEADER_BYTES + self.capacity

    def put_into(self, values: HostFloats) -> bytes:
        """The present small values, one byte for each float, behind their length and checksum. Returns them."""
        text = self._checked(self._python.encode())
        values.write(_header(text) + text)
        return text

    def take_from(self, values: HostFloats, mine: Optional[bytes]) -> bool:
        """The step's mean of those bytes. Returns False for a step that this worker gives up, in which all is zero.

        `mine`: what this worker put in, None if it did not count. Raises Unequal where workers differ."""
        header = _bytes_of(values.read(0, HEADER_BYTES))
        size = int.from_bytes(header[:LENGTH_BYTES], "little")
        if size == 0:
            return False
        if mine is not None and header == _header(mine):
            return True
        text = _bytes_of(values.read(HEADER_BYTES, HEADER_BYTES + min(size, self.capacity)))
        if mine is not None or header != _header(text):
            raise Unequal("small state is not equal on all workers (learning rates, schedulers or objects of state=); "
                               f"what this worker holds where it differs: {_around_difference(mine or b'', text)}")
        self._python.decode(text)
        return True

    def check_addresses(self, whole: bool) -> None:
        """As Addresses.check()."""
        self._addresses.check(whole)

    # --- Its parts

    def _collect(self, model: nn.Module, optimizers: Sequence[Optimizer], objects: Dict[str, Any],
                 rates: Sequence[ScaledRates]) -> None:
        names: Dict[torch.Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
        self._tensors += [(name, _reader(parameter)) for name, parameter in model.named_parameters()]
        self._tensors += [(buffer.name, _reader(buffer.copy)) for buffer in self.buffers.running]
        self._tensors += [(buffer.name, _reader_of(buffer)) for buffer in self.buffers.constant]
        for number, optimizer in enumerate(optimizers):
            prefix = _optimizers.name_of(number)
            self._tensors += [(f"{prefix}/{name}", read) for name, read in _optimizers.tensors_of(optimizer, names)]
            self._python.add(prefix, _optimizers.hyperparameters(optimizer, *rates[number:number + 1]))
        for name, value in sorted(objects.items()):
            self._add_object(name, value)

    def _add_object(self, name: str, value: Any) -> None:
        tensors = tensors_of(f"state/{name}", value)
        if tensors is None:
            self._python.add_object(name, _prepared(value))
        else:
            self._tensors += tensors

    def _checked(self, text: bytes) -> bytes:
        if len(text) > self.capacity:
            raise RuntimeError(f"small state (schedulers and other objects of state=) has grown from {self.capacity // 2} to "
                               f"{len(text)} bytes; it may at most double")
        return text


class Addresses:
    """Where tensors were when they were shared."""

    def __init__(self, tensors: List[Tuple[str, Reader]]) -> None:
        self._tensors = tensors
        self._places = [local(read()).data_ptr() for _, read in tensors]
        self._next = 0  # to be checked

    def check(self, whole: bool) -> None:
        """Raises RuntimeError for a tensor that no longer has the memory that was shared. `whole`: looks at all of them, not
        only at those whose turn it is."""
        count = len(self._tensors) if whole else min(CHECKED_IN_A_STEP, len(self._tensors))
        for place in range(self._next, self._next + count):
            name, read = self._tensors[place % len(self._tensors)]
            if local(read()).data_ptr() != self._places[place % len(self._tensors)]:
                raise RuntimeError(f"'{name}' was given other memory after elastic(), which new workers would not receive. Move, "
                                   "convert and load model and optimizer before it; later, write into their tensors")
        self._next = (self._next + count) % max(1, len(self._tensors))


class Packed:
    """A text of at most `capacity` bytes in memory that is shared, behind its length and its checksum: another thread receives
    the state of a worker that joins, from several others, while this one may read it."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.bytes = torch.zeros(HEADER_BYTES + capacity, dtype=torch.uint8)

    @classmethod
    def around(cls, memory: torch.Tensor) -> "Packed":
        """That of memory which is there."""
        made = cls.__new__(cls)
        made.capacity, made.bytes = len(memory) - HEADER_BYTES, memory
        return made

    def write(self, text: bytes) -> None:
        packed = _header(text) + text
        self.bytes[:len(packed)] = torch.frombuffer(bytearray(packed), dtype=torch.uint8)

    def read(self) -> Optional[bytes]:
        """None while it is on its way."""
        header = self.bytes[:HEADER_BYTES].split(LENGTH_BYTES)
        size, checksum = (int.from_bytes(bytes(part.tolist()), "little") for part in header)
        text = bytes(self.bytes[HEADER_BYTES:HEADER_BYTES + size].tolist())
        return text if zlib.crc32(text) == checksum else None


def tensors_of(name: str, value: Any) -> Optional[List[Tuple[str, Reader]]]:
    """Of a tensor or a module; None for an object of small values."""
    if isinstance(value, torch.Tensor):
        return [(name, _reader(value))]
    if isinstance(value, nn.Module):
        own = [*value.named_parameters(), *value.named_buffers()]
        return [(f"{name}.{key}", _reader(tensor)) for key, tensor in own]
    return None


def _reader(tensor: torch.Tensor) -> Reader:
    return lambda: tensor


def _reader_of(buffer: Buffer) -> Reader:
    return lambda: buffer.live


def _around_difference(mine: bytes, mean: bytes) -> str:
    same = next((place for place, (own, other) in enumerate(zip(mine, mean)) if own != other), min(len(mine), len(mean)))
    return mine[max(0, same - 200):same + 100].decode()


def _prepared(value: Any) -> Any:
    """A GradScaler makes its tensors when it is first used; its state is read from then on."""
    if isinstance(value, torch.amp.GradScaler) and value.is_enabled() and getattr(value, "_scale", 0) is None:
        value._lazy_init_scale_growth_tracker(torch.device(getattr(value, "_device", "cuda")))
    return value


def _header(text: bytes) -> bytes:
    return len(text).to_bytes(LENGTH_BYTES, "little") + zlib.crc32(text).to_bytes(LENGTH_BYTES, "little")


def _bytes_of(values: Sequence[float]) -> bytes:
    """NaN, from memory that another worker did not write, becomes 0."""
    return bytes(min(255, max(0, int(value + 0.5))) if value == value else 0 for value in values)
