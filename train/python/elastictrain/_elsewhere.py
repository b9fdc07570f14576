"""Sums that a program makes elsewhere: what the session says of them, and the planes on which other processes of its worker make them."""

import ctypes
from typing import Any, List, NamedTuple, Tuple

from . import _interface as c
from .errors import ElasticError


class Exchange:
    def __init__(self, handle: int) -> None:
        self._library, self._handle = c.load(), handle

    def is_broken(self) -> bool:
        """The generation is over: what waits for others must end."""
        return bool(self._library.et_exchange_is_broken(self._handle))


class Sum(Exchange):
    """One that starts: valid in the call that gets it. The fields are those of SumElsewhere in elastictrain/session.hpp."""

    def __init__(self, said: Any) -> None:
        super().__init__(said.exchange)
        self.step, self.bucket, self.generation = said.step, said.bucket, said.generation
        self.rank, self.world_size = said.rank, said.world_size
        self.token, self.encryption = bytes(said.token), said.encryption
        self.scale, self.has_input = said.scale, bool(said.has_input)
        self.keeps, self.is_kept, self.wants_norms = bool(said.keeps), bool(said.is_kept), bool(said.wants_norms)

    def all_gather(self, mine: bytes) -> bytes:
        """As many bytes of all workers, by rank. All of them call it."""
        gathered = ctypes.create_string_buffer(len(mine) * self.world_size)
        _raise_for(self._library, self._library.et_exchange_all_gather(self._handle, mine, len(mine), gathered))
        return gathered.raw


class Sums(Exchange):
    """The end of those that were started: valid in the call that gets it."""

    def __init__(self, said: Any) -> None:
        super().__init__(said.exchange)
        self._said = said
        self.failed = bool(said.failed)  # something else: they are aborted

    def add_norms(self, local_square_sum: float, reduced_square_sum: float) -> None:
        self._said.local_square_sum += local_square_sum
        self._said.reduced_square_sum += reduced_square_sum


class World(NamedTuple):
    """What connects a plane for one generation."""
    generation: int
    token: bytes
    encryption: int
    index: int
    rank: int
    endpoints: List[bytes]  # by rank


class Order(NamedTuple):
    """Of the first process to another one: to sum a gradient of the open step."""
    number: int  # of the gradient, in the step of that process
    step: int
    bucket: int
    scale: float
    has_input: bool
    keeps: bool
    is_kept: bool
    wants_norms: bool


class Plane:
    """Of a process without a session. Thread: one at a time, abort() any. Raises ElasticError where a sum, or a connection, has ended
    that the plane of a later generation makes again."""

    def __init__(self) -> None:
        self._library = c.load()
        self._handle = ctypes.c_void_p()
        _raise_for(self._library, self._library.et_plane_open(ctypes.byref(self._handle)))

    def endpoint(self) -> bytes:
        block = ctypes.create_string_buffer(c.PLANE_ENDPOINT_BYTES)
        _raise_for(self._library, self._library.et_plane_endpoint(self._handle, block))
        return block.raw

    def build(self, world: World) -> None:
        endpoints = ctypes.create_string_buffer(b"".join(world.endpoints), c.PLANE_ENDPOINT_BYTES * len(world.endpoints))
        said = c.PlaneWorld(generation=world.generation, token=(ctypes.c_uint8 * 16)(*world.token), encryption=world.encryption,
                            index=world.index, rank=world.rank, world_size=len(world.endpoints),
                            endpoints=ctypes.addressof(endpoints), time_limit_ms=30_000)
        _raise_for(self._library, self._library.et_plane_build(self._handle, ctypes.byref(said)))

    def all_reduce(self, address: int, count: int, kind: int, order: Order) -> Tuple[float, float]:
        """Returns the sums of squares of this rank's input and of the result, where the order asks for them."""
        said = c.PlaneSum(data=address, count=count, type=kind, step=order.step, bucket=order.bucket, scale=order.scale,
                          has_input=order.has_input, keeps=order.keeps, is_kept=order.is_kept, wants_norms=order.wants_norms)
        _raise_for(self._library, self._library.et_plane_all_reduce(self._handle, ctypes.byref(said)))
        return said.local_square_sum, said.reduced_square_sum

    def abort(self, generation: int) -> None:
        self._library.et_plane_abort(self._handle, generation)


def _raise_for(library: Any, status: int) -> None:
    if status != c.OK:
        raise ElasticError((library.et_last_error() or b"").decode(errors="replace"))
