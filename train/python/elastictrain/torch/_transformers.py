"""transformers.Trainer in a script that changes nothing.

An epoch ends with its data, whatever the number of steps. Without `max_steps`, the schedule advances with the samples that
were used: its unit is one batch of one worker, as accelerate counts.
"""

import functools
import math
from typing import Any, Callable, Dict

import torch

from ._imports import after_import
from ._script import script
from ..errors import ElasticError

REPLICATED = ("global_step", "max_steps", "epoch", "best_metric", "best_global_step", "best_model_checkpoint")
MANY_STEPS = 1 << 30


def install() -> None:
    after_import("transformers.trainer", _change_trainer)
    after_import("transformers.trainer_callback", _change_state)


def _change_state(module: Any) -> None:
    for name in ("is_world_process_zero", "is_local_process_zero"):
        setattr(module.TrainerState, name, property(lambda self: script.rank == 0, lambda self, _: None))


def _change_trainer(module: Any) -> None:
    trainer = module.Trainer
    if not hasattr(trainer, "_run_epoch"):
        raise ElasticError("this script uses transformers.Trainer of a version whose loop elastictrain.torch does not know; "
                           "version 5.23 is known")
    base = module.TrainerCallback
    for name, change in {"train": _train, "set_initial_training_values": _plan,
                         "_init_training_state": lambda own: _begin(own, base), "_run_epoch": _run_epoch,
                         "get_batch_samples": _batches, "_get_num_items_in_batch": _items,
                         "_maybe_log_save_evaluate": _unless_forwarding}.items():
        original = getattr(trainer, name)
        setattr(trainer, name, functools.wraps(original)(change(original)))


# --- The methods of Trainer

def _train(original: Callable[..., Any]) -> Callable[..., Any]:
    def train(trainer: Any, resume_from_checkpoint: Any = None, *arguments: Any, **named: Any) -> Any:
        if resume_from_checkpoint not in (None, False):
            raise ElasticError("this script resumes from a checkpoint of Trainer; use checkpoint.directory of the configuration "
                               "and `elastictrain run --resume`, which continue at any size")
        return original(trainer, resume_from_checkpoint, *arguments, **named)

    return train


def _plan(original: Callable[..., Any]) -> Callable[..., Any]:
    def plan(trainer: Any, args: Any, dataloader: Any) -> Any:
        epochs, *others = original(trainer, args, dataloader)
        return (MANY_STEPS if args.max_steps > 0 else epochs, *others)

    return plan


def _begin(original: Callable[..., Any], base: type) -> Callable[..., Any]:
    def begin(trainer: Any, max_steps: int, steps: int, epochs: int, resume: Any, trial: Any) -> Any:
        if script.run is not None:
            raise ElasticError("this script calls Trainer.train() twice; one training can be made elastic")
        if trainer.args.num_train_epochs != epochs and trainer.args.max_steps <= 0:
            raise ElasticError("num_train_epochs must be a whole number; the run ends with an epoch")
        result = original(trainer, max_steps, steps, epochs, resume, trial)
        script.has_adapter = True
        script.accumulation = trainer.args.gradient_accumulation_steps
        progress = _Progress(trainer, epochs)
        script.state["trainer"] = progress
        trainer.callback_handler.callbacks.insert(0, type("ElasticCallback", (_Callback, base), {})(progress))
        return result

    return begin


def _run_epoch(original: Callable[..., Any]) -> Callable[..., Any]:
    def run_epoch(trainer: Any, **named: Any) -> Any:
        progress = script.state["trainer"]
        progress.epoch, progress.is_empty = named["epoch"], True
        if script.model is not None:
            script.model.train()  # from_pretrained() returns a model for evaluations, and Trainer begins with a batch
        named["num_update_steps_per_epoch"] = MANY_STEPS
        named["steps_in_epoch"] = MANY_STEPS * trainer.args.gradient_accumulation_steps
        return original(trainer, **named)

    return run_epoch


def _batches(original: Callable[..., Any]) -> Callable[..., Any]:
    def batches(trainer: Any, *arguments: Any) -> Any:
        found, items = original(trainer, *arguments)
        progress = script.state["trainer"]
        if found:
            progress.is_empty = False
        else:
            progress.end_epoch()
        return found, items

    return batches


def _items(original: Callable[..., Any]) -> Callable[..., Any]:
    """What a loss that is a sum is divided by, so that the average over all samples is one over all items."""
    def items(trainer: Any, batch_samples: Any, device: Any) -> Any:
        if not trainer.args.average_tokens_across_devices or not batch_samples or script.is_forwarding or script.run is None:
            return original(trainer, batch_samples, device)
        trainer.args.average_tokens_across_devices = False
        try:
            own = original(trainer, batch_samples, device)
        finally:
            trainer.args.average_tokens_across_devices = True
        return None if own is None else script.run.share_of_items(own)

    return items


def _unless_forwarding(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments, **named: None if script.is_forwarding else original(*arguments, **named)


# --- Progress

class _Progress:
    """What of a Trainer is equal on all workers."""

    def __init__(self, trainer: Any, epochs: int) -> None:
        self._trainer, self._epochs = trainer, epochs
        self.epoch, self.is_empty = 0, True

    def state_dict(self) -> Dict[str, Any]:
        state = {name: getattr(self._trainer.state, name) for name in REPLICATED}
        return {"trainer": state, "callbacks": [callback.state()["attributes"] for callback in self._stateful()]}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        for name, value in state["trainer"].items():
            setattr(self._trainer.state, name, value)
        for callback, values in zip(self._stateful(), state["callbacks"]):
            vars(callback).update(values)

    def end_step(self) -> None:
        run, trainer = script.run, self._trainer
        if script.is_forwarding or run is None:
            return
        used, batch = run.samples_with_open_step, run.samples_of_step
        size = len(trainer.train_dataset)
        trainer.state.epoch = self.epoch + used / size
        if trainer.args.max_steps > 0:
            return
        left = (self._epochs - self.epoch) * size - used
        trainer.state.max_steps = trainer.state.global_step + max(1, math.ceil(left / batch))
        self._advance_schedule(self.epoch * size + used)

    def end_epoch(self) -> None:
        """There is no batch any more. What Trainer does at its last step, which it cannot know beforehand, is done now."""
        trainer, control = self._trainer, self._trainer.control
        control.should_epoch_stop = True
        if script.is_forwarding or self.epoch + 1 < self._epochs or trainer.args.max_steps > 0:
            return
        trainer.state.max_steps = trainer.state.global_step
        control.should_training_stop = True
        control.should_save |= str(trainer.args.save_strategy.value) == "steps"
        control.should_evaluate |= str(trainer.args.eval_strategy.value) == "steps"

    def end_epoch_without_batches(self, control: Any) -> None:
        """Of a worker that joined as the epoch ended; Trainer takes it for the end of the training."""
        self._trainer.state.epoch = float(self.epoch + 1)
        if self.is_empty and self.epoch + 1 < self._epochs:
            control.should_training_stop = False

    def _advance_schedule(self, used: int) -> None:
        scheduler = self._trainer.lr_scheduler
        unit = self._trainer.args.train_batch_size * self._trainer.args.gradient_accumulation_steps
        if isinstance(scheduler, torch.optim.lr_scheduler.LambdaLR):
            while scheduler.last_epoch < round(used / unit):
                scheduler.step()

    def _stateful(self) -> Any:
        return [callback for callback in self._trainer.callback_handler.callbacks if hasattr(callback, "state")]


class _Callback:
    """Comes before the script's own callbacks."""

    def __init__(self, progress: _Progress) -> None:
        self._progress = progress

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        self._progress.end_step()
        return control

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        self._progress.end_epoch_without_batches(control)
        return control
