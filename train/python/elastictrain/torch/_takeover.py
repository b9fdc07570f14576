"""How a worker of an unchanged script takes over the progress of the others, and gives its own: what goes over the run's board,
and when.

A worker that comes later makes one pass of the script before it is a member. At its first update it looks whether it can go on
where the others are: their records lie on the board. Then it joins. In its first step it takes part with weight zero; at the
update of that step members of low rank put their records on the board, and the new worker goes on from there. A run that
resumes does the same with the record of its checkpoint, whose update is part of the state.
"""

import contextlib
import pickle
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from ._group_board import has_first_rank, is_starter, is_successor, life_of
from ._other_size import ANEW, Anew
from ._positions import Streams
from .progress import Progress, RecordError
from .progress._values import fingerprint_of
from .. import _replica
from .._replica_session import decided
from ..errors import ElasticError
from ..session import Session

ATTACHMENT = "progress"
OPEN_END = "open end"  # the rest of the checkpoint's step, from an exchange behind its update on, was not done
DONORS = 2  # ranks that give their records
COMPARED = 4  # ranks that tell which of their values are equal
REFRESH_S = 10.0  # from one record for those that are still to come to the next
LARGEST_SHARE = 0.002  # of the time that these may cost
FIRST_REFRESH_S, FIRST_SHARE = 2.0, 0.005  # of the first worker, which may be the only one to have what is in them
SAVING_SHARE = 0.1  # where it has saved a file
TIMEOUT_S = 60.0
LOOKS = (1, 2, 4, 8, 16)  # steps after a change in which a new worker compares its values with those of the others
LOOK_TIMEOUT_S = 5.0
_RECORD, _NONE = b"R", b"N"  # the first byte on the board; a reason follows the second
SAME_BATCHES = ("this replica trains on the same batch as another one in the same step: the script's data are its own, and what gives "
                "their batches was not found. Name it by ELASTICTRAIN_BATCHES=MODULE:FUNCTION or MODULE:CLASS.METHOD, so that each replica "
                "takes another one of them, or train with one replica")
FIXED = "this script trains at a fixed size, and a run of it cannot be resumed: "


class Declined(ElasticError):
    """This worker has said that it cannot join."""


class Takeover:
    """Thread: the training thread. `extras`: reads and replaces values of the run's own that belong to the script's progress."""

    def __init__(self, session: Session, exclude: Sequence[Any], parameters: Sequence[torch.Tensor],
                 extras: Tuple[Callable[[], Any], Callable[[Any], None]], streams: Optional[Streams] = None) -> None:
        self._session, self._parameters, self._extras = session, list(parameters), extras
        self._progress = Progress(exclude)
        self.streams = streams  # of a script whose data are its own
        self.is_rehearsing = False  # before this worker takes part in a step
        self.has_rehearsed = False
        self._end_is_open = False  # of the step with which this run resumes
        self._gradients: List[Optional[torch.Tensor]] = []  # while the update of a rehearsal is left out
        self._resumed: Optional[bytes] = None  # the record of a checkpoint
        self.anew: Optional[Anew] = None  # where replicas of another size wrote it
        self._takes = False  # at the next update
        self._met: Optional[int] = None  # the step of the last change
        self._strayed: Optional[Dict[str, str]] = None  # a new worker's values that were another than the others' in each look
        self._is_looking = False
        self._keys: List[str] = []  # of its values on the board
        self._published, self._cost_s, self._updates = float("-inf"), 0.0, 0
        self._signature = b""
        self.obstacle = ""  # why nobody can join
        self.batch: Optional[List[torch.Tensor]] = None  # that of the open step, where replicas might train on the same data
        self._own_updates = 0
        self._joined_at: Optional[int] = None  # the step in which this worker came, later than others
        self._known_life = ""
        self._is_told = False

    def comes_later(self) -> bool:
        """Whether the others train already, or are about to; then this worker rehearses first."""
        self.is_rehearsing = self._session.launched and not is_starter()
        return self.is_rehearsing

    def join(self, is_newcomer: bool) -> None:
        """The session has started, with the first workers of its run or later."""
        was_rehearsing, self.is_rehearsing = self.is_rehearsing, False
        if is_newcomer:
            self._takes = True
        elif self._session.committed_step and not was_rehearsing:
            self._resumed = self._session.attachment(ATTACHMENT)
            if self._resumed is None:
                raise ElasticError("the checkpoint does not say how far this script was (another program wrote it, or an earlier "
                                   "version of elastictrain), so the script cannot go on from it. Start a new run, and load the "
                                   "model from the checkpoint's safetensors file")
            self._end_is_open = self._session.attachment(OPEN_END) is not None
            others = self._session.attachment(ANEW)
            self.anew = Anew(*pickle.loads(others)) if others is not None else None
            self.is_rehearsing = True

    @property
    def is_apart(self) -> bool:
        """It does what the others have done already, or this worker in an earlier process."""
        return self.is_rehearsing and not (self.has_rehearsed and self._end_is_open)

    def attach_end_is_open(self) -> None:
        """In a step that is committed in the middle of what follows its update."""
        self._session.attach(OPEN_END, b"1")

    def rehearse(self) -> None:
        """At an update of the pass before this worker takes part: nothing is updated."""
        if not self.has_rehearsed:
            self._note_first()
            if self._resumed is not None:
                self._apply_resumed(self._resumed)
                if self.streams is not None:
                    self.streams.resume(int(self._session.committed_step))
            else:
                self._check()
        self._gradients = [parameter.grad for parameter in self._parameters]
        for parameter in self._parameters:
            parameter.grad = None
        self.has_rehearsed = True

    def _apply_resumed(self, record: bytes) -> None:
        if self.anew is None:
            return self._apply(record, [], is_own=int(self._session.rank) == 0)
        self._apply(record, self.anew.tables)
        here = _replica.current()
        if int(self._session.rank) == 0 and here is not None and here.is_first:
            self._take_role_of(record, self.anew.tables)

    def end_update(self) -> None:
        """Behind an update that was left out: a script may look at its gradients."""
        for parameter, gradient in zip(self._parameters, self._gradients):
            parameter.grad = gradient
        self._gradients = []

    def at_update(self, step: int, is_changed: bool) -> None:
        """At the update of each step. `is_changed`: it is the first one after a change of the membership."""
        self._note_first()
        self._own_updates += 1
        is_new, is_asked = self._takes, self._session.rank == 0 or self.streams is not None
        is_saved = is_asked and "checkpoint" in self._session.boundary()
        if is_changed or is_new:
            self._meet(step)
        elif self._met is not None and step - self._met in LOOKS:
            self._look(step, self._met)
        batch, self.batch = self.batch, None
        if batch is not None and (step - 1 == self._met or (self._met is None and self._own_updates == 2)):
            self._compare_batches(step, fingerprint_of(batch))
        if self._session.rank == 0 and is_saved:
            self._attach(step)
        if self.streams is not None:
            self.streams.at_update(step, is_changed, is_new, is_saved)
        if self._session.rank < DONORS or has_first_rank():
            self._publish(step)

    def _compare_batches(self, step: int, own: bytes) -> None:
        """Of the same step: a script that divides its data by rank and world size gives those of each replica the same ones."""
        rank = int(self._session.rank)
        if rank < COMPARED:
            self._session.board_put(self._step_key(step, "b", rank), own)
        if self._met is not None and step - 1 != self._joined_at:  # of those that begin together each compares
            return
        ranks = [other for other in range(min(COMPARED, int(self._session.world_size))) if other != rank]
        others = [self._session.board_get(self._step_key(step, "b", other), LOOK_TIMEOUT_S) for other in ranks]
        if own in others:
            raise ElasticError(SAME_BATCHES)

    # --- Its own progress

    def _note_first(self) -> None:
        if not self._progress.has_first:
            self._progress.note_first()

    def _record(self, step: int) -> bytes:
        return self._progress.record(step, self._extras[0]())

    def _put(self, key: str, make: Callable[[], bytes]) -> None:
        value = _NONE + self.obstacle.encode()
        if not self.obstacle:
            try:
                value = _RECORD + make()
            except RecordError as error:
                value = _NONE + str(error).encode()
        self._session.board_put(key, value)
        if value[:1] == _NONE and not self._is_told:
            self._is_told = True
            print(f"elastictrain: {FIXED}{value[1:].decode()}", file=sys.stderr, flush=True)

    def _attach(self, step: int) -> None:
        with contextlib.suppress(RecordError):  # which was said when the first one was published
            self._session.attach(ATTACHMENT, self._record(step))

    def _publish(self, step: int) -> None:
        """For those that are still to come: where the script makes its updates, and what they would take over. What the first
        update changed shows whether that can be handed over at all."""
        self._updates += 1
        signature, now = self._progress.signature(), time.monotonic()
        refresh_s, share = (FIRST_REFRESH_S, FIRST_SHARE) if has_first_rank() else (REFRESH_S, LARGEST_SHARE)
        if self._has_saved:
            refresh_s, share = 0.0, SAVING_SHARE
        is_due = now - self._published > max(refresh_s, self._cost_s / share)
        if decided(self._session, is_due or signature != self._signature or self._updates == 2):
            self._put(self._role_key(has_first_rank()), lambda: self._record(step))
            self._signature, self._published, self._cost_s = signature, time.monotonic(), time.monotonic() - now
            self._has_saved = False

    def note_saved(self) -> None:
        """The script has written a file: what it has decided and counted for it goes to those that are still to come at once."""
        self._has_saved = has_first_rank()

    _has_saved = False  # since the last record

    # --- That of the others

    def _check(self) -> None:
        """Declines with a sentence where this worker could not go on."""
        value = self._session.board_get(self._role_key(False)) or self._session.board_get(self._role_key(True), TIMEOUT_S)
        if value is None:
            problems = [f"no member has said how far its script is, within {TIMEOUT_S:.0f} s"]
        elif value[:1] == _NONE:
            problems = [value[1:].decode()]
        else:
            problems = self._progress.check(value[1:])
        if problems:
            self._session.decline(problems[0])
            raise Declined(f"could not join: {problems[0]}")

    def _meet(self, step: int) -> None:
        """Members and new workers, in the first step in which they are together."""
        own, is_new = int(self._session.rank), self._takes
        self._met, self._strayed = step, None
        self._show(step, is_new, own < DONORS)
        if is_new:
            self._takes, self._is_looking, self._joined_at = False, True, step
            tables = self._tables(step)
            self._apply(self._donated(step, own), tables)
            if is_successor():
                self._take_role(tables)

    def _take_role(self, tables: List[bytes]) -> None:
        """From what the worker in whose place this one comes has left."""
        value = self._session.board_get(self._role_key(True))
        if value is not None and value[:1] == _RECORD:
            self._take_role_of(value[1:], tables)

    def _take_role_of(self, record: bytes, tables: List[bytes]) -> None:
        try:
            taken = self._progress.apply_role(record, tables)
            said = f"took over {', '.join(taken)}" if taken else ""
        except RecordError as error:
            said = f"begins anew with what only that one had: {error}"
        if said:
            print(f"elastictrain: as the first worker it {said}", file=sys.stderr, flush=True)

    def _show(self, step: int, is_new: bool, gives: bool) -> None:
        """This worker's table and record, in place of those that it has on the board."""
        own, keys = int(self._session.rank), self._keys
        self._keys = [self._step_key(step, kind, own) for kind in "tr"]
        for key, is_asked_for, make in ((self._keys[0], own < COMPARED, self._progress.table),
                                        (self._keys[1], gives, lambda: self._record(step))):
            if is_asked_for and is_new:
                self._session.board_put(key, _NONE)
            elif is_asked_for:
                self._put(key, make)
        for key in keys:
            self._session.board_put(key, b"")

    def _look(self, step: int, met: int) -> None:
        """Values that the others hold alike may be each worker's own and equal by chance; not in every look. There must be two
        others: one cannot tell what is its own."""
        is_last = step - met == LOOKS[-1]
        if self._session.world_size < 3:
            self._is_looking &= not is_last
            return
        self._show(step, self._is_looking, gives=False)
        if not self._is_looking:
            return
        found = self._progress.strayed(self._tables(step, LOOK_TIMEOUT_S))
        known = self._strayed if self._strayed is not None else found
        self._strayed = {name: value for name, value in found.items() if name in known}
        if is_last:
            self._is_looking = False
            if self._strayed:
                name, value = min(self._strayed.items())
                self._session.disagree(f"the new worker's script holds another value than the others' in {name}: {value}")

    def _tables(self, step: int, timeout_s: float = TIMEOUT_S) -> List[bytes]:
        return self._values(step, "t", range(min(COMPARED, int(self._session.world_size))), timeout_s)

    def _donated(self, step: int, own: int) -> bytes:
        """Of a member in a like role, if there is one."""
        ranks = [rank for rank in range(min(DONORS, int(self._session.world_size))) if rank != own]
        for rank in sorted(ranks, key=lambda rank: (rank == 0) != (own == 0)):
            found = self._values(step, "r", [rank])
            if found:
                return found[0]
        raise ElasticError(f"could not join: no member has said how far its script is in step {step}")

    def _values(self, step: int, kind: str, ranks: Sequence[int], timeout_s: float = TIMEOUT_S) -> List[bytes]:
        values = (self._session.board_get(self._step_key(step, kind, rank), timeout_s) for rank in ranks)
        return [value[1:] for value in values if value is not None and value[:1] == _RECORD]

    def _apply(self, record: bytes, tables: List[bytes], is_own: bool = False) -> None:
        try:
            report = self._progress.apply(record, tables, int(self._session.rank), self._extras[1], is_own)
        except RecordError as error:
            raise ElasticError(f"could not go on where the others are: {error}") from None
        print(f"elastictrain: this worker {report}", file=sys.stderr, flush=True)

    # --- Keys on the board

    def _step_key(self, step: int, kind: str, rank: int) -> str:
        return f"script/{self._life()}/{step}/{kind}{rank}"

    def _role_key(self, is_first: bool) -> str:
        return f"script/{self._life()}/{'first' if is_first else 'other'}"

    def _life(self) -> str:
        self._known_life = self._known_life or life_of(self._session)
        return self._known_life
