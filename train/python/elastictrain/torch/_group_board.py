"""Collectives before the training begins: among the workers that start, over the board of the run.

The results stay there under running numbers. A worker that joins later starts when they are long past: it makes the same
calls and gets the same results, in the role of a rank that is not the first unless it comes in place of that one. So "the first one prepares, the others wait"
holds for both.
"""

import contextlib
import os
import struct
import time
from typing import Iterator, List, Optional, Tuple

import torch

from ._exchange import Rows, bytes_of, fold
from .. import _replica
from ..errors import ElasticError
from ..session import Session

TIMEOUT_S = 1800.0  # torch's own
PIECE_BYTES = (4 << 20) - 64  # of a value of the board
MAX_BYTES = 32 << 20  # of the result of one exchange; the board's own limit is that of all
PATIENCE_S = 5.0  # of one question to the board
POLL_S = 0.05  # while an earlier life's value is there
LIFE = "group/life"
_FAILED, _RESULT = b"E", b"R"
KEPT = "what is exchanged before the training is kept for workers that join later"


def is_starter() -> bool:
    """Whether this process is one of those with which the training begins."""
    return os.environ.get("ELASTICTRAIN_GENERATION", "0") == "0" or os.environ.get("ELASTICTRAIN_RESUME") == "1"


def _told_rank() -> Optional[str]:
    """Of this worker, as the environment of its process said when it was started."""
    here = _replica.current()
    return os.environ.get("RANK") if here is None else here.rank_of_worker


def own_rank() -> int:
    """The same as a number, 0 without one."""
    return int(_told_rank() or "0")


def has_first_rank() -> bool:
    """Whether the environment of this process said rank 0: one with which the training began, or one in place of it."""
    return _told_rank() == "0"


def is_successor() -> bool:
    """Whether it comes in place of the first worker."""
    return has_first_rank() and not is_starter()


def present_life() -> str:
    """A run that was stopped and resumed has another one."""
    return ".".join(os.environ.get(name, "0") for name in ("ELASTICTRAIN_GENERATION", "TORCHELASTIC_RESTART_COUNT"))


def tell_life(session: Session) -> None:
    """By the first one of those with which the training begins, where no Board does."""
    if is_starter() and has_first_rank():
        session.board_put(LIFE, f"{present_life()} {int(session.world_size)}".encode())


def life_of(session: Session) -> str:
    """The name of the present life of the run, which its first worker gave it."""
    return (session.board_get(LIFE) or b"").decode().partition(" ")[0]


class Board:
    """The workers that start; for one that joins later, what they exchanged. Thread: one at a time. `apart`: the name of other
    exchanges than those of the training thread, whose workers all are there."""

    def __init__(self, session: Session, rank: int, world_size: int, timeout_s: float = TIMEOUT_S, apart: str = "") -> None:
        self._session, self._timeout_s = session, timeout_s
        self._number = 0
        self._left: List[str] = []  # keys of this worker's values
        self.takes_part = bool(apart) or is_starter()
        self.rank, self.world_size = rank, world_size
        self._prefix = f"group/apart/{apart}" if apart else f"group/{self._enter()}"

    def _enter(self) -> str:
        """The name of this life of the run: one that was stopped and resumed begins anew. A worker that is not of those with
        which the training begins is given their number, and a rank among them that is not the first unless it comes in place of
        the first one: what its script derives from them is equal on all workers then."""
        life = present_life()
        if self.takes_part and self.rank == 0:
            self._session.board_put(LIFE, f"{life} {self.world_size}".encode())
            return life
        present, size = self._await_first(life if self.takes_part else None)
        self.takes_part = self.takes_part and size == self.world_size
        if not self.takes_part:
            self.rank, self.world_size = 0 if has_first_rank() else max(1, min(self.rank, size - 1)), size
        return present

    def _await_first(self, life: Optional[str]) -> Tuple[str, int]:
        """What the first rank says; of this life, if one is named."""
        end = time.monotonic() + self._timeout_s
        while time.monotonic() < end:
            value = self._session.board_get(LIFE, min(PATIENCE_S, max(0.0, end - time.monotonic())))
            present, _, size = (value or b"").decode().partition(" ")
            if value is not None and life in (None, present):
                return present, int(size)
            time.sleep(POLL_S if value is not None else 0.0)
        raise ElasticError(f"rank 0 did not come to init_process_group() within {self._timeout_s:.0f} s. It may need longer: "
                           "init_process_group(timeout=...) sets the time")

    # --- As a plane

    def gather_bytes(self, part: bytes, what: str = "all_gather_object") -> List[bytes]:
        """Of those with which the training begins, by rank."""
        return self._parts(part, what)

    def _parts(self, part: bytes, what: str) -> List[bytes]:
        key = self._next()
        result = self._get(key, 0.0)
        if result is None:
            self._refuse_unknown(what)
            result = self._collect(key, what, part) if self.rank == 0 else self._contribute(key, what, part)
        return _split(self._checked(result, what))

    def gather(self, tensor: torch.Tensor, what: str = "all_gather") -> Rows:
        return [_values(part, tensor) for part in self.gather_bytes(bytes_of(tensor), what)]

    def reduce(self, tensor: torch.Tensor, operation: str, what: str = "all_reduce") -> None:
        tensor.copy_(fold([_values(part, tensor) for part in self._parts(bytes_of(tensor), what)], operation))

    def broadcast(self, tensor: torch.Tensor, root: int, what: str = "broadcast") -> None:
        key = self._next()
        result = self._get(key, 0.0)
        if result is None:
            self._refuse_unknown(what)
            if self.rank == root:
                result = self._leave(key, what, bytes_of(tensor))
            else:
                result = self._wait(key, what, [root])
        tensor.copy_(_values(self._checked(result, what), tensor))

    @contextlib.contextmanager
    def receiving_from(self, root: int) -> Iterator[None]:
        """A worker that joins in the place of that rank is another one meanwhile."""
        rank = self.rank
        if not self.takes_part and rank == root:
            self.rank = root + 1
        try:
            yield
        finally:
            self.rank = rank

    def barrier(self) -> None:
        self.gather_bytes(b"", "barrier")

    def forget(self) -> None:
        """Of exchanges apart that are long past: room on the board for others."""
        for key in self._left:
            self._session.board_put(key, b"1\n")

    # --- One exchange

    def _next(self) -> str:
        self._number += 1
        return f"{self._prefix}/{self._number}"

    def _refuse_unknown(self, what: str) -> None:
        if not self.takes_part:
            raise ElasticError(f"torch.distributed.{what}() before the training: those with which the training began made "
                               f"{self._number - 1} collectives before it, and this worker one more. All workers must go the "
                               "same way to their first step")

    def _collect(self, key: str, what: str, part: bytes) -> bytes:
        """The first rank brings together what the others leave, and tells them."""
        parts = [part]
        for rank in range(1, self.world_size):
            own = self._wait(f"{key}/{rank}", what, [rank], key)
            name, _, content = own.partition(b"\n")
            if name.decode() != what:
                self._fail(key, f"rank {rank} called torch.distributed.{name.decode()}() where rank 0 called {what}(); all "
                                "workers must make the same collectives in the same order")
            parts.append(content)
        result = self._leave(key, what, b"".join(struct.pack("<Q", len(content)) + content for content in parts))
        for rank in range(1, self.world_size):
            self._session.board_put(f"{key}/{rank}", b"1\n")  # room for others
        return result

    def _contribute(self, key: str, what: str, part: bytes) -> bytes:
        self._put(f"{key}/{self.rank}", what.encode() + b"\n" + part, what)
        return self._wait(key, what, [0, *range(1, self.world_size)])

    def _leave(self, key: str, what: str, content: bytes) -> bytes:
        if len(content) > MAX_BYTES:
            self._fail(key, f"{len(content)} bytes in torch.distributed.{what}() before the training; {KEPT}, {MAX_BYTES} bytes "
                            "of a call at most. Exchange it behind the first step, or let every worker make or read it: the "
                            "model and the optimizer are those of the first worker anyway")
        result = _RESULT + what.encode() + b"\n" + content
        self._put(key, result, what)
        return result

    def _fail(self, key: str, why: str) -> None:
        self._session.board_put(key, b"1\n" + _FAILED + why.encode())
        raise ElasticError(why)

    def _checked(self, result: bytes, what: str) -> bytes:
        if result[:1] == _FAILED:
            raise ElasticError(result[1:].decode(errors="replace"))
        name, _, content = result[1:].partition(b"\n")
        if name.decode() != what:
            raise ElasticError(f"this worker called torch.distributed.{what}() where those with which the training began called "
                               f"{name.decode()}(); all workers must make the same collectives in the same order before it")
        return content

    # --- Values in pieces

    def _put(self, key: str, value: bytes, what: str) -> None:
        pieces = [value[begin:begin + PIECE_BYTES] for begin in range(0, len(value), PIECE_BYTES)] or [b""]
        self._left += [key, *(f"{key}+{number}" for number in range(1, len(pieces)))]
        try:
            for number, piece in enumerate(pieces[1:], 1):
                self._session.board_put(f"{key}+{number}", piece)
            self._session.board_put(key, b"%d\n" % len(pieces) + pieces[0])
        except ElasticError as error:
            raise ElasticError(f"torch.distributed.{what}() before the training: {error}; {KEPT}") from None

    def _get(self, key: str, timeout_s: float) -> Optional[bytes]:
        first = self._session.board_get(key, timeout_s)
        if first is None:
            return None
        count, _, value = first.partition(b"\n")
        pieces = [value]
        for number in range(1, int(count)):
            piece = self._session.board_get(f"{key}+{number}", self._timeout_s)
            if piece is None:
                return None
            pieces.append(piece)
        return b"".join(pieces)

    def _wait(self, key: str, what: str, ranks: List[int], told: Optional[str] = None) -> bytes:
        """`ranks`: those that may be late. `told`: the key under which the others learn that one is."""
        end = time.monotonic() + self._timeout_s
        while True:
            value = self._get(key, max(0.0, min(PATIENCE_S, end - time.monotonic())))
            if value is not None:
                return value
            if time.monotonic() >= end:
                why = self._missing(key, what, ranks)
                if told is not None:
                    self._fail(told, why)
                raise ElasticError(why)

    def _missing(self, key: str, what: str, ranks: List[int]) -> str:
        late = [rank for rank in ranks if rank not in (0, self.rank) and self._session.board_get(f"{key}/{rank}") is None]
        late = ranks if len(ranks) == 1 else late or [0]
        names = ", ".join(f"rank {rank}" for rank in late)
        return (f"torch.distributed.{what}() before the training: {names} did not come to it within {self._timeout_s:.0f} s. A "
                "script may go another way there, or need longer: init_process_group(timeout=...) sets the time")


def _values(content: bytes, like: torch.Tensor) -> torch.Tensor:
    if len(content) != like.numel() * like.element_size():
        raise ElasticError(f"{like.numel() * like.element_size()} bytes are to be exchanged before the training where another "
                           f"worker passed {len(content)}; values must have one size on all workers")
    if not content:
        return torch.empty_like(like)
    return torch.frombuffer(bytearray(content), dtype=torch.uint8).view(like.dtype).reshape(like.shape)


def _split(content: bytes) -> List[bytes]:
    parts, at = [], 0
    while at < len(content):
        [size] = struct.unpack_from("<Q", content, at)
        parts.append(content[at + 8:at + 8 + size])
        at += 8 + size
    return parts
