"""How many batches a script's loops over its training loader have, and what `len(loader)` says of it.

A script that asks for the length may compute from it at the begin of its loop, so that no loop gets more batches than it was
told. What is left of the data then goes to the next loop, which ends with an epoch of the data again.
"""

from typing import Any, Dict, NamedTuple, Optional


class Place(NamedTuple):
    """Where the run is in its data."""
    epoch: int
    left: int  # samples of the epoch that no step has, the open one included
    step: int  # samples of the open step, over all workers; 0 where none is open
    waiting: int  # batches of the open step that the script has not got


class Lengths:
    """Equal on all workers but for `is_asked`. `usual`: samples of a step; the others as for ElasticRun.

    All methods but those that say so leave everything as it is. Thread: the training thread."""

    def __init__(self, size: int, usual: int, least: int, drops_last: bool, accumulation: int) -> None:
        self._size, self._usual, self._least = size, usual, least
        self._drops_last, self._accumulation = drops_last, accumulation
        self.last: Optional[int] = None  # the epoch with which the present loop ends; between loops, None: the present one
        self._handed = 0  # batches of the present loop
        self._shortest: Optional[int] = None  # what the script may have been told, since the last loop ended
        self.is_asked = False  # whether it was, on this worker
        self._is_limited = False  # to the shortest; on all workers

    def announce(self, length: int) -> None:
        """Before the first loop. Sets."""
        self._shortest = length if self._shortest is None else min(self._shortest, length)

    def opened(self, place: Place) -> bool:
        """A step was opened. Sets. Returns whether the present loop has become longer than the script may know; then all
        workers tell each other whether it does, and call settle()."""
        if place.step and (place.left or not self._usual):
            self._usual = place.step
        length = self._all(place)
        is_longer = self._shortest is not None and length > self._shortest and not self._is_limited
        self._shortest = length if self._shortest is None else min(self._shortest, length)
        return is_longer

    def settle(self, is_asked: bool, place: Place) -> None:
        """`is_asked`: on any worker. Sets."""
        self._is_limited = is_asked
        if not is_asked:
            self._shortest = self._all(place)

    def begin(self, place: Place, repeats: bool = False) -> None:
        """A loop begins. Sets. `repeats`: with the batch that the script got last, and did not train on."""
        self._handed = int(repeats)
        if self._shortest is not None:
            self._shortest = min(self._shortest, self._all(place))

    def is_over(self, place: Place) -> bool:
        """Whether the present loop has had all its batches."""
        if self.last is not None and place.epoch > self.last:
            return True
        return self._is_limited and self._shortest is not None and self._handed >= self._shortest

    def hand(self, epoch: int) -> None:
        """A batch goes to the script. Sets."""
        self._handed += 1
        self.last = epoch if self.last is None else self.last

    def end(self, place: Place) -> None:
        """The loop is over. Sets."""
        is_cut = self.last is not None and place.epoch <= self.last
        self.last = self.last + 1 if is_cut and self.last is not None else None
        self._handed, self._is_limited, self.is_asked = 0, False, False
        self._shortest = self._all(place)

    def carried(self, place: Place) -> int:
        """Behind the last loop: samples that it did not get, as it would have been longer than the script was told."""
        if self.last is None or self._handed:
            return 0
        return place.left + place.step + max(0, self.last - 1 - place.epoch) * self._size

    def length(self, place: Place) -> int:
        """What the script is told: of the present loop, or of the next one."""
        length = self._all(place)
        return length if self._shortest is None else min(length, self._shortest)

    def _all(self, place: Place) -> int:
        last = place.epoch if self.last is None else self.last
        if place.epoch > last:
            return self._handed
        whole = max(1, self._steps(self._size)) * (last - place.epoch)
        return self._handed + place.waiting + (self._steps(place.left) + whole) * self._accumulation

    def _steps(self, samples: int) -> int:
        usual = max(1, self._usual)
        if self._drops_last:
            return samples // usual
        return max(1, -(-(samples - max(0, self._least - 1)) // usual)) if samples else 0

    # --- As a part of the script's progress

    def state(self) -> Dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _OWN}

    def set_state(self, state: Dict[str, Any]) -> None:
        vars(self).update(state)


_OWN = ("_size", "_least", "_drops_last", "_accumulation")
