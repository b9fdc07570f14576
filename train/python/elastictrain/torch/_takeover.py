"""How a worker of an unchanged script takes over the progress of the others, and gives its own: what goes over the run's board,
and when.

A worker that comes later makes one pass of the script before it is a member. At its first update it looks whether it can go on
where the others are: their records lie on the board. Then it joins. In its first step it takes part with weight zero; at the
update of that step every member of low rank puts its record on the board, and the new worker goes on from there. A run that
resumes does the same with the record of its checkpoint, whose update is part of the state.
"""

import os
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from ..errors import ElasticError
from ..session import Session

ATTACHMENT = "progress"
DONORS = 4  # that give their records, at most
REFRESH_S = 10.0  # from one record for those that are still to come to the next
LARGEST_SHARE = 0.002  # of the time that these may cost
RECORD_TIMEOUT_S = 60.0
OTHERS_TIMEOUT_S = 2.0  # for those that only compare


class Takeover:
    """Thread: the training thread. `extras`: values of the run's own that belong to the script's progress."""

    def __init__(self, session: Session, progress: Any, parameters: Sequence[torch.Tensor],
                 extras: Tuple[Callable[[], Dict[str, Any]], Callable[[Dict[str, Any]], None]]) -> None:
        self._session, self._progress, self._parameters = session, progress, list(parameters)
        self._extras = extras
        self.is_rehearsing = False  # before this worker takes part in a step
        self.has_rehearsed = False
        self._resumed: Optional[bytes] = None  # the record of a checkpoint
        self._takes = False  # in the open step
        self._has_first = False
        self._given: List[str] = []  # keys of its records
        self._published = self._cost_s = float("-inf")
        self._signature = b""

    def comes_later(self) -> bool:
        """Whether the others train already; then this worker rehearses first."""
        self.is_rehearsing = comes_later()
        return self.is_rehearsing

    def join(self, is_newcomer: bool) -> None:
        """The session has started, as the first one of its run or as one more."""
        was_rehearsing, self.is_rehearsing = self.is_rehearsing, False
        if is_newcomer:
            self._takes = True
        elif self._session.committed_step and not was_rehearsing:
            self._resumed = self._session.attachment(ATTACHMENT)
            if self._resumed is None:
                raise ElasticError("the checkpoint does not say how far this script was (another program wrote it, or an earlier "
                                   "version of elastictrain), so the script cannot go on from it. Start a new run, and load the "
                                   "model from the checkpoint's safetensors file")
            self.is_rehearsing = True

    def rehearse(self) -> None:
        """At the update of the pass before this worker takes part: nothing is updated."""
        self._note_first()
        if self._resumed is not None:
            self._take_over([self._resumed])
        else:
            self._check()
        for parameter in self._parameters:
            parameter.grad = None
        self.has_rehearsed = True

    def at_update(self, step: int, has_newcomers: bool) -> None:
        """At the update of each step."""
        self._note_first()
        if self._takes:
            self._takes = False
            self._session.board_put(_key_of(step, int(self._session.rank)), b"")  # nobody waits for its record
            self._take_over(self._records_of(step))
        elif has_newcomers and self._session.rank < DONORS:
            self._give(step)
        if self._session.rank == 0 and "checkpoint" in self._session.boundary():
            self._session.attach(ATTACHMENT, self._record(step))
        if self._session.rank < 2:
            self._publish(step)

    # --- Its own progress

    def _note_first(self) -> None:
        if not self._has_first:
            self._has_first = True
            self._progress.note_first()

    def _record(self, step: int) -> bytes:
        return self._progress.record(step, self._extras[0]())

    def _give(self, step: int) -> None:
        for key in self._given:
            self._session.board_put(key, b"")
        self._given = [_key_of(step, int(self._session.rank))]
        self._session.board_put(self._given[0], self._record(step))

    def _publish(self, step: int) -> None:
        """For those that are still to come: where the script makes its updates, and what they would take over."""
        signature, now = self._progress.signature(), time.monotonic()
        is_due = now - self._published > max(REFRESH_S, self._cost_s / LARGEST_SHARE)
        if not is_due and signature == self._signature:
            return
        self._signature = signature
        self._session.board_put(_role_key(int(self._session.rank)), self._record(step))
        self._published, self._cost_s = time.monotonic(), time.monotonic() - now

    # --- That of the others

    def _check(self) -> None:
        """Declines with a sentence where this worker could not go on."""
        other = self._session.board_get(_role_key(1))
        record = other or self._session.board_get(_role_key(0), RECORD_TIMEOUT_S)
        problems = ["the others have not said how far they are"] if record is None else self._progress.check(record, [record])
        if problems:
            self._session.decline(problems[0])
            raise SystemExit(0)

    def _records_of(self, step: int) -> List[bytes]:
        """The first is the donor's: of a worker in a like role, if there is one."""
        own, size = int(self._session.rank), int(self._session.world_size)
        ranks = sorted((rank for rank in range(min(DONORS, size)) if rank != own), key=lambda rank: (rank == 0) != (own == 0))
        found: List[bytes] = []
        for rank in ranks:
            record = self._session.board_get(_key_of(step, rank), OTHERS_TIMEOUT_S if found else RECORD_TIMEOUT_S / len(ranks))
            if record:
                found.append(record)
        if not found:
            raise ElasticError(f"no member has said how far its script is in step {step}, within {RECORD_TIMEOUT_S:.0f} s")
        return found

    def _take_over(self, records: List[bytes]) -> None:
        report = self._progress.apply(records[0], records)
        self._extras[1](report.extras)
        print(f"elastictrain: {report}", file=sys.stderr, flush=True)


def comes_later() -> bool:
    """Whether this process was started for a run that trained already, or was about to begin; one that resumes begins anew."""
    return os.environ.get("ELASTICTRAIN_GENERATION", "0") != "0" and os.environ.get("ELASTICTRAIN_RESUME") != "1"


def _key_of(step: int, rank: int) -> str:
    return f"script/{step}/{rank}"


def _role_key(rank: int) -> str:
    return "script/first" if rank == 0 else "script/other"
