"""The run of a script that changes nothing: it counts its epochs and batches itself, and exchanges values of its own anywhere,
behind an update too.
"""

from typing import Any, Iterator, List, Tuple

import torch

from . import _exchange
from ._aside import Aside
from ._run import ElasticRun
from ..session import Batch


class ScriptRun(ElasticRun):
    """Thread: the training thread."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._aside = Aside(self.session)
        self._is_updated = False  # the open step's update was made
        self._settles = False  # the open step is committed for an exchange
        for optimizer in self._optimizers:
            optimizer.register_step_post_hook(lambda *_: self.note_update())

    # --- Epochs and batches

    def is_past(self, epoch: int) -> bool:
        """Before it has joined: whether the run is known to be in a later epoch. Otherwise it waits until it can join."""
        return self.session.await_start(epoch) > epoch

    def enter_epoch(self) -> "Epoch":
        """The present epoch; for a worker that joined at its end the one that it finds without batches, until it was there."""
        self._enters_late()
        batch = self._peek()
        self._leave_if_asked()
        epoch = batch.epoch if batch is not None else 0
        return Epoch(self, epoch - 1 if self._late_epoch else epoch)

    @property
    def batch_in_epoch(self) -> int:
        """The number of the batch that was taken last, from 0."""
        return (self.steps_in_epoch + 1) * self.accumulation - len(self._parts) - 1

    @property
    def samples_of_step(self) -> int:
        return self._batch.global_samples if self._batch is not None else 0

    @property
    def samples_with_open_step(self) -> int:
        """That this epoch used, the open step included."""
        return self.samples_in_epoch + self.samples_of_step

    @property
    def place(self) -> Tuple[int, int]:
        """(rank, world size) among the workers that run the script's code here."""
        aside = self._aside
        return (aside.rank, aside.world_size) if aside.is_open else (self.rank, self.world_size)

    # --- Values of the script's own

    def gather(self, part: bytes) -> List[bytes]:
        """The parts of all workers, by rank."""
        self._settle()
        return self._aside.gather(part) if self._aside.is_open else _exchange.gather(self.session, part)

    def reduce_anywhere(self, values: torch.Tensor, operation: str) -> None:
        """As reduce()."""
        self._settle()
        if self._aside.is_open:
            _exchange.reduce_gathered(self._aside.gather, values, operation)
        else:
            _exchange.reduce(self.session, values, operation)

    def share_of_items(self, own: Any) -> Any:
        """For a loss that is a sum over this worker's items (tokens): the number to divide it by, so that the mean over all
        samples is the sum over all items by their number. Counts a factor of the world size in the loss."""
        batch = self._batch
        assert batch is not None
        self._gradients.weigh_alike()
        total = torch.tensor([float(own) if batch.local_samples else 0.0], dtype=torch.float64)
        self.reduce_anywhere(total, "sum")
        share = batch.local_samples / max(1, batch.global_samples)
        return own * 0 + float(total) * share * self.world_size if batch.local_samples else own

    # --- Exchanges behind an update

    def note_update(self) -> None:
        """The optimizer made its step, or a scaler left it out."""
        self._is_updated = self._gradients.reduced

    def _settle(self) -> None:
        """Commits a step whose update was made, before the program exchanges values of its own."""
        if self._is_over or not self._is_taken or not self._gradients.reduced or not self._is_updated:
            return
        self._settles = True
        self._peek()
        self._settles = False
        self._leave_if_asked()
        self.session.phase("evaluation")
        self._aside.open()

    def _open(self) -> None:
        super()._open()
        self._is_updated = False

    def _before_commit(self) -> None:
        self._aside.announce(self.steps_in_epoch, self._settles)

    def _after_join(self, batch: Batch) -> None:
        self.steps_in_epoch = 0 if batch.first_of_epoch else self._aside.announced_steps()
        self._aside.follow()

    def _before_training(self) -> None:
        self._aside.close()


class Epoch:
    """One pass over the data."""

    def __init__(self, run: ScriptRun, epoch: int) -> None:
        self._run, self.epoch = run, epoch

    def catch_up(self) -> None:
        """Undoes what the script did to the state on its way here."""
        if self._run._late_epoch:
            self._run._adopt(always=True)

    def batches(self) -> Iterator[Any]:
        return iter(self._run)
