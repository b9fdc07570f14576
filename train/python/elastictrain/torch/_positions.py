"""Data of a script's own that are *carried*: what feeds the training of a worker is a stream, with a number that stays when ranks
change. Its position is part of the run's state. A run that resumes goes on at it, and so does a worker that comes in place of a
lost one, at the position that was left last on the board.
"""

import pickle
import sys
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from torch.utils.data import DataLoader

from ._group_board import life_of
from ._streams import Source, has_place
from .._words import number_of
from ..errors import ElasticError
from ..session import Session

ATTACHMENT = "streams"
LARGEST_BYTES = 256 << 10  # of one position
LARGEST_TOTAL_BYTES = 3 << 20  # of all of a checkpoint; the script's progress has its place there, too
REFRESH_S, LARGEST_SHARE = 2.0, 0.005  # from one position on the board to the next; of the time that these may cost
TIMEOUT_S = 20.0  # until the others have said what they have
SAVED_TIMEOUT_S = 5.0  # until their positions of a step are there
POLL_S = 0.02
NOTE = "data_streams"
_NEW, _OWN = b"new", b"own"  # of a worker without a number: it has just come; it trains on a stream that nobody counts


class Position(NamedTuple):
    number: int  # of the stream
    step: int
    rank: int
    given: int  # batches
    is_left: bool  # by a worker that the run no longer needs
    states: Optional[List[Any]]  # by source; None: it cannot be told

    def __str__(self) -> str:
        return f"stream {self.number} (after {number_of(self.given, 'batch')})" if self.given else f"stream {self.number}"


class Streams:
    """Thread: the training thread. All workers whose data are the script's own have one, with `sources` or without."""

    def __init__(self, session: Session, sources: Sequence[Source]) -> None:
        self._session, self._sources = session, list(sources)
        self._number: Optional[int] = None  # of this worker's stream
        self._published, self._cost_s, self._step, self._given = float("-inf"), 0.0, 0, 0
        self._life = ""
        self._silent = 0  # workers that told no position of the last checkpoint's step
        self.obstacle = ""
        self._encoded(0)

    @property
    def is_carried(self) -> bool:
        return bool(self._sources) and not self.obstacle

    @property
    def names(self) -> str:
        return ", ".join(dict.fromkeys(type(source.thing).__name__ for source in self._sources))

    def things(self) -> List[Any]:
        """What is not part of the script's progress: the place in it is each worker's own."""
        owners = [source.thing for source in self._sources]
        datasets = [one.dataset for one in owners if isinstance(one, DataLoader) and has_place(one.dataset)]
        return [one for one in owners if not isinstance(one, DataLoader)] + datasets

    def at_update(self, step: int, is_changed: bool, is_new: bool, is_saved: bool) -> None:
        """At the update of each step. `is_changed`: the first one behind a change of the membership; `is_new`: of this worker;
        `is_saved`: the step has a checkpoint."""
        rank = int(self._session.rank)
        if self._number is None and not is_new and not self._step and self.is_carried:
            self._number = rank
            if rank == 0:  # of a run that begins
                self._put_open(set(range(int(self._session.world_size))), int(self._session.world_size))
        if is_changed or is_new:
            self._meet(step, rank, is_new)
        self._step, self._given = step, sum(source.given for source in self._sources)
        is_due = time.monotonic() - self._published > max(REFRESH_S, self._cost_s / LARGEST_SHARE)
        if self._number is not None and (is_due or is_saved or is_changed or is_new):
            self._publish()
        if rank == 0 and self.is_carried and is_due and len(self._get_open()[0]) > int(self._session.world_size):
            self._close_left()
        if rank == 0 and self.is_carried and is_saved:
            self._attach(step)

    def resume(self, step: int) -> None:
        """Goes on at the positions of a checkpoint."""
        value = self._session.attachment(ATTACHMENT)
        if not self.is_carried:
            return
        if value is None:
            self.obstacle = "the checkpoint has no positions"
            return self._say(f"not carried: {self.obstacle}; each worker begins anew")
        rank, size = int(self._session.rank), int(self._session.world_size)
        held = sorted((Position(*one) for one in pickle.loads(value)), key=lambda one: (one.step < step, one.rank))
        after = max((one.number for one in held), default=-1) + 1
        numbers = [one.number for one in held[:size]] + [after + more for more in range(size - len(held))]
        self._number, self._step = numbers[rank], step
        self._take(held[rank] if rank < len(held) else None, step)
        if rank == 0:
            self._put_open(set(numbers), after + max(0, size - len(held)))
            self._tell([f"{one} is closed: there is no worker for it" for one in held[size:]])
            self._tell([f"{one} goes on as it was {number_of(step - one.step, 'step')} before the checkpoint"
                        for one in held[:size] if one.step < step])
            self._tell([f"stream {number} begins anew" for number in numbers[len(held):]])

    def leave(self) -> None:
        """The run goes on without this worker, whose last step has been committed."""
        if self._number is not None and self.is_carried:
            own = Position(self._number, self._step, int(self._session.rank), self._given, True, None)
            self._session.board_put(self._key(f"at/{own.number}"), pickle.dumps(tuple(own)))

    # --- Who has which

    def _get_open(self) -> Tuple[Set[int], int]:
        """Numbers of the streams, and that of the next new one. The first worker alone changes them."""
        value = self._session.board_get(self._key("open"))
        numbers, following = pickle.loads(value) if value is not None else ([], 0)
        return set(numbers), following

    def _put_open(self, numbers: Set[int], following: int) -> None:
        self._session.board_put(self._key("open"), pickle.dumps((sorted(numbers), following)))

    def _meet(self, step: int, rank: int, is_new: bool) -> None:
        """Members and new workers, in the first step in which they are together. The first one divides the streams."""
        held = b"%d" % self._number if self._number is not None else _NEW if is_new else _OWN
        self._session.board_put(self._key(f"{step}/{rank}"), held if self.is_carried else b"")
        self._silent = 0
        if rank == 0:
            self._divide(step)
        if self._number is None and self.is_carried:
            value = self._session.board_get(self._key(f"{step}/shares"), TIMEOUT_S)
            shares: Dict[int, Tuple[int, Optional[Tuple[Any, ...]]]] = pickle.loads(value) if value is not None else {}
            if rank not in shares:
                self._print("this worker's place in its data is not carried: the first worker gave it no stream")
            else:
                self._number, position = shares[rank][0], shares[rank][1]
                if is_new:
                    self._take(Position(*position) if position is not None else None, step)
        elif is_new:
            self._print("this worker's place in its data is not carried")

    def _divide(self, step: int) -> None:
        shares: Dict[int, Tuple[int, Optional[Tuple[Any, ...]]]] = {}
        if self.is_carried:
            end = time.monotonic() + TIMEOUT_S / 2
            said = [self._session.board_get(self._key(f"{step}/{rank}"), max(0.0, end - time.monotonic()))
                    for rank in range(int(self._session.world_size))]
            present = {int(one) for one in said if one and one not in (_NEW, _OWN)}
            lost = self._close_left(present)
            known, following = self._get_open()
            known, following = known | present, max(following, *(number + 1 for number in present), 0)
            for rank, one in enumerate(said):
                if one == _NEW and lost and None not in said:  # one that said nothing may have it
                    position = lost.pop(0)
                    shares[rank] = (position.number, tuple(position))
                    age = number_of(step - position.step, "step")
                    self._tell([f"{position} of a lost worker goes on in a new one, as it was {age} before"])
                elif one in (_NEW, _OWN):
                    shares[rank] = (following, None)
                    self._tell([f"stream {following} begins anew"] if one == _NEW else [])
                    known, following = known | {following}, following + 1
            self._put_open(known, following)
        self._session.board_put(self._key(f"{step}/shares"), pickle.dumps(shares))

    def _close_left(self, present: Optional[Set[int]] = None) -> List[Position]:
        """Closes what workers have left. Returns the others without one of those that are `present`."""
        known, following = self._get_open()
        held = [one for one in self._positions(known) if present is None or one.number not in present]
        left = [one for one in held if one.is_left]
        if left:
            self._put_open(known - {one.number for one in left}, following)
            self._tell([f"{one} is closed: its worker has left" for one in left])
        return [one for one in held if not one.is_left and one.states is not None]

    def _take(self, position: Optional[Position], step: int) -> None:
        """None: a stream of its own."""
        states = position.states if position is not None else None
        if position is not None and (states is None or len(states) != len(self._sources)):
            raise ElasticError(f"could not go on with {position}: its worker iterated over other data than this one")
        for number, source in enumerate(self._sources):
            try:
                source.load(states[number]) if states is not None else source.begin_anew()
            except Exception as error:
                raise ElasticError(f"could not go on with the data: {type(source.thing).__name__}.load_state_dict() raised "
                                   f"{type(error).__name__}: {str(error)[:200]}") from error
        if position is not None and self._sources:
            self._sources[0].given = position.given
            self._print(f"this worker goes on with {position}, of step {position.step}")

    # --- Positions on the board and in checkpoints

    def _encoded(self, step: int) -> bytes:
        """Without states, and with an obstacle, where these cannot be told."""
        own = Position(self._number if self._number is not None else -1, step, int(self._session.rank) if step else 0,
                       self._given, False, None)
        was_carried = self.is_carried
        if was_carried:
            try:
                text = pickle.dumps(tuple(own._replace(states=[source.thing.state_dict() for source in self._sources])))
                if len(text) <= LARGEST_BYTES:
                    return text
                self.obstacle = f"a place in {self.names} takes {len(text) >> 10} KiB; at most {LARGEST_BYTES >> 10} are carried"
            except Exception as error:
                self.obstacle = f"{self.names}.state_dict() raised {type(error).__name__}: {str(error)[:200]}"
        if was_carried and step:
            self._print(f"not carried from step {step} on: {self.obstacle}")
            self._session.note(NOTE, f"not carried from step {step} on: {self.obstacle}")
        return pickle.dumps(tuple(own))

    def _publish(self) -> None:
        begin = time.monotonic()
        self._session.board_put(self._key(f"at/{self._number}"), self._encoded(self._step))
        self._published, self._cost_s = time.monotonic(), time.monotonic() - begin

    def _attach(self, step: int) -> None:
        """Of all workers; what a lost one left is older."""
        end = time.monotonic() + SAVED_TIMEOUT_S
        while True:
            found = self._positions(self._get_open()[0])
            missing = int(self._session.world_size) - sum(one.step == step for one in found)
            if missing <= self._silent or time.monotonic() > end:
                break
            time.sleep(POLL_S)
        self._silent = max(0, missing)
        value = pickle.dumps([tuple(one) for one in found if one.states is not None and not one.is_left])
        if len(value) > LARGEST_TOTAL_BYTES:
            return self._tell([f"the checkpoint of step {step} has no positions: all together take {len(value) >> 10} KiB"])
        self._session.attach(ATTACHMENT, value)

    def _positions(self, numbers: Set[int]) -> List[Position]:
        values = (self._session.board_get(self._key(f"at/{number}")) for number in sorted(numbers))
        return [Position(*pickle.loads(value)) for value in values if value is not None]

    def _key(self, name: str) -> str:
        self._life = self._life or life_of(self._session)
        return f"streams/{self._life}/{name}"

    # --- For people

    def _tell(self, texts: Sequence[str]) -> None:
        """By the first worker."""
        for text in texts:
            self._say(text)

    def _say(self, text: str) -> None:
        if int(self._session.rank) == 0:
            self._print(text)
            self._session.note(NOTE, text)

    @staticmethod
    def _print(text: str) -> None:
        print(f"elastictrain: data: {text}", file=sys.stderr, flush=True)
