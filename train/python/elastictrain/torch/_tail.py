"""What a script does behind its update: once for each step, also for the step of a checkpoint with which a run resumes.

The checkpoint's state is that at the step's end. The script that resumes leaves its update out and does the rest of the step once
more: small values are those of the update again, and averages that have their part of the step do not get it twice.
"""

from typing import Any, Dict, List

from torch.amp import GradScaler
from torch.optim import Optimizer
from torch.optim.swa_utils import AveragedModel

from ._optimizers import name_of
from ._state import SharedState
from ..session import Session


class Tail:
    """Thread: the training thread. `objects`: the state besides model and optimizers, by name."""

    def __init__(self, session: Session, state: SharedState, optimizers: List[Optimizer], objects: Dict[str, Any]) -> None:
        self._session, self._state, self._optimizers = session, state, optimizers
        self._averages: List[Any] = [thing for thing in objects.values() if isinstance(thing, AveragedModel)]
        # A scaler makes no update where the optimizer makes none.
        self._left = ["progress", *(name for name, thing in objects.items() if isinstance(thing, GradScaler))]
        self._made: Dict[int, int] = {}  # updates of averages that the state has from behind the step's own update

    def values(self) -> Any:
        """At the update of a step."""
        return {"small": self._state.small_values(), "averages": [int(average.n_averaged) for average in self._averages]}

    def go_back_to(self, values: Any) -> None:
        """At the update that is left out."""
        self._state.go_back_to(values["small"], self._left)
        self._made = {id(average): int(average.n_averaged) - before
                      for average, before in zip(self._averages, values["averages"])}

    def is_made(self, average: Any) -> bool:
        """Whether the state has this update of an average already."""
        left = self._made.get(id(average), 0)
        self._made[id(average)] = left - 1
        return left > 0

    def keep(self, optimizer: Any) -> None:
        """Behind an update in a step with a checkpoint: what the optimizer itself wrote into its groups."""
        name = self._name(optimizer)
        self._session.attach(name, self._state.small_value(name))

    def take(self, optimizer: Any) -> None:
        """Behind an update that is left out, of the checkpoint's step."""
        name = self._name(optimizer)
        value = self._session.attachment(name)
        if value is not None:
            self._state.set_small_value(name, value)

    def _name(self, optimizer: Any) -> str:
        return name_of(next(number for number, own in enumerate(self._optimizers) if own is optimizer))
