"""transformers.Trainer in a script that changes nothing.

An epoch ends with its data, whatever the number of steps. Without `max_steps`, the schedule advances with the samples that
were used: its unit is one batch of one worker, as accelerate counts. A replica of several processes is one worker.
"""

import functools
import math
import weakref
from typing import Any, Callable, Dict, Optional

import torch

from ._imports import after_import
from . import _replica_script
from ._script import script
from ._side_effects import is_silent
from .. import _replica
from ..errors import ElasticError

REPLICATED = ("global_step", "max_steps", "epoch", "best_metric", "best_global_step", "best_model_checkpoint")
FIRST_STEP = "_initial_global_step"  # of Trainer, for its summary
MANY_STEPS = 1 << 30


def install() -> None:
    after_import("transformers.trainer", _change_trainer)
    after_import("transformers.trainer_callback", _change_callbacks)


def install_in_replica() -> None:
    """Of several processes."""
    install()
    after_import("transformers.training_args", lambda module: _follow_replica(module.TrainingArguments, "should_save", "should_log"))
    after_import("transformers.trainer", lambda module: _follow_replica(module.Trainer, "is_world_process_zero", "is_local_process_zero"))


def _follow_replica(kind: Any, *names: str) -> None:
    """What the first process of each replica says of itself, that of the first replica alone does."""
    for name in names:
        held = getattr(kind, name)
        original = getattr(held, "fget", held)
        changed = functools.wraps(original)(lambda own, original=original: original(own) and not _replica_script.is_quiet())
        setattr(kind, name, property(changed) if isinstance(held, property) else changed)


def _change_callbacks(module: Any) -> None:
    for name in ("is_world_process_zero", "is_local_process_zero"):
        setattr(module.TrainerState, name, property(lambda self: events.is_first, lambda self, _: None))
    original = module.CallbackHandler.call_event
    events = _Events(original)
    module.CallbackHandler.call_event = functools.wraps(original)(lambda *arguments, **named: events.call(*arguments, **named))


def _is_first() -> bool:
    """Not before it is a member, also where it comes in place of the first one: the others have made and shown what it would."""
    here = _replica.current()
    return script.rank == 0 and not is_silent() and (here is None or here.is_first)


class _Events:
    """A progress bar and the like are made as the training begins, in the first worker alone. One that is first later makes them
    at its next event. Whether it is first does not change within an event, in which a callback may exchange values. What is
    kept here is this worker's own: in the handler it would reach new workers, as what the script itself has changed does."""

    def __init__(self, original: Callable[..., Any]) -> None:
        self._original = original
        self._began_silently: "weakref.WeakSet[Any]" = weakref.WeakSet()  # handlers
        self._in_event: Optional[bool] = None

    @property
    def is_first(self) -> bool:
        return _is_first() if self._in_event is None else self._in_event

    def call(self, handler: Any, event: str, args: Any, state: Any, control: Any, **named: Any) -> Any:
        outer, self._in_event = self._in_event, self.is_first
        try:
            if event == "on_train_begin":
                (self._began_silently.discard if self._in_event else self._began_silently.add)(handler)
            elif self._in_event and handler in self._began_silently:
                self._began_silently.discard(handler)
                self._begin(handler, args, state, control)
            return self._original(handler, event, args, state, control, **named)
        finally:
            self._in_event = outer

    def _begin(self, handler: Any, args: Any, state: Any, control: Any) -> None:
        """Again, in the library's own callbacks."""
        callbacks, handler.callbacks = handler.callbacks, [one for one in handler.callbacks if _is_of_library(one)]
        try:
            self._original(handler, "on_train_begin", args, state, control)
        finally:
            handler.callbacks = callbacks


def _is_of_library(callback: Any) -> bool:
    return type(callback).__module__.partition(".")[0] in ("transformers", "trl")


def _change_trainer(module: Any) -> None:
    trainer = module.Trainer
    if not hasattr(trainer, "_run_epoch"):
        raise ElasticError("this script uses transformers.Trainer of a version whose loop elastictrain.torch does not know; "
                           "version 5.23 is known")
    base = module.TrainerCallback
    for name, change in {"set_initial_training_values": _plan, "_init_training_state": lambda own: _begin(own, base),
                         "_run_epoch": _run_epoch,
                         "get_batch_samples": _batches, "_get_num_items_in_batch": _items,
                         "_maybe_log_save_evaluate": _unless_apart}.items():
        original = getattr(trainer, name)
        setattr(trainer, name, functools.wraps(original)(change(original)))


# --- The methods of Trainer

def _plan(original: Callable[..., Any]) -> Callable[..., Any]:
    def plan(trainer: Any, args: Any, dataloader: Any) -> Any:
        epochs, *others = original(trainer, args, dataloader)
        return (MANY_STEPS if args.max_steps > 0 else epochs, *others)

    return plan


def _begin(original: Callable[..., Any], base: type) -> Callable[..., Any]:
    def begin(trainer: Any, max_steps: int, steps: int, epochs: int, resume: Any, trial: Any) -> Any:
        if script.run is not None:
            raise ElasticError("this script calls Trainer.train() twice; one training can be made elastic")
        original(trainer, max_steps, steps, epochs, resume, trial)
        script.accumulation = trainer.args.gradient_accumulation_steps
        progress = _Progress(trainer, trainer.state.epoch or 0.0)
        script.state["trainer"] = progress
        trainer.callback_handler.callbacks.insert(0, type("ElasticCallback", (_Callback, base), {})(progress))
        return int(progress.begin), 0  # its own figures are those of another number of workers

    return begin


def _run_epoch(original: Callable[..., Any]) -> Callable[..., Any]:
    def run_epoch(trainer: Any, **named: Any) -> Any:
        script.state["trainer"].epoch = named["epoch"]
        if script.model is not None:
            script.model.train()  # from_pretrained() returns a model for evaluations, and Trainer begins with a batch
        named["resume_from_checkpoint"] = None  # it skips no batches: the samples that are left follow from what the state says
        named["num_update_steps_per_epoch"] = MANY_STEPS
        named["steps_in_epoch"] = MANY_STEPS * trainer.args.gradient_accumulation_steps
        return original(trainer, **named)

    return run_epoch


def _batches(original: Callable[..., Any]) -> Callable[..., Any]:
    def batches(trainer: Any, *arguments: Any) -> Any:
        found, items = original(trainer, *arguments)
        progress = script.state["trainer"]
        if not found and progress.is_in_epoch():
            found, items = original(trainer, *arguments)
        if not found:
            progress.end_epoch()
        return found, items

    return batches


def _items(original: Callable[..., Any]) -> Callable[..., Any]:
    """What a loss that is a sum is divided by, so that the average over all samples is one over all items."""
    def items(trainer: Any, batch_samples: Any, device: Any) -> Any:
        if not trainer.args.average_tokens_across_devices or not batch_samples or script.is_apart or not script.is_training_now:
            return original(trainer, batch_samples, device)
        trainer.args.average_tokens_across_devices = False
        try:
            own = original(trainer, batch_samples, device)
        finally:
            trainer.args.average_tokens_across_devices = True
        return None if own is None else script.run.share_of_items(own)

    return items


def _unless_apart(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments, **named: None if script.is_apart else original(*arguments, **named)


# --- Progress

class _Progress:
    """What of a Trainer is equal on all workers. `begin`: the epochs that a checkpoint of Trainer had behind it, with which it goes
    on; the part of an epoch in it shifts all later ones against those of the run."""

    def __init__(self, trainer: Any, begin: float) -> None:
        self._trainer, self.begin = trainer, begin
        self.epoch = 0

    def state_dict(self) -> Dict[str, Any]:
        state = {name: getattr(self._trainer.state, name) for name in REPLICATED}
        return {"trainer": state, "callbacks": [callback.state()["attributes"] for callback in self._stateful()],
                "epoch": self.epoch, "begin": self.begin, "first_step": getattr(self._trainer, FIRST_STEP, 0)}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        for name, value in state["trainer"].items():
            setattr(self._trainer.state, name, value)
        for callback, values in zip(self._stateful(), state["callbacks"]):
            vars(callback).update(values)
        self.epoch, self.begin = state["epoch"], state["begin"]
        setattr(self._trainer, FIRST_STEP, state["first_step"])

    def end_step(self) -> None:
        run, trainer = script.run, self._trainer
        if run is None or not run.is_started:
            return
        used, batch = self._used(), run.samples_of_step
        trainer.state.epoch = used / self._size
        trainer.control.should_epoch_stop |= self._is_shifted and not self.is_in_epoch()
        if trainer.args.max_steps > 0:
            return
        left = math.ceil(trainer.args.num_train_epochs * self._size) - used
        if batch or left <= 0:  # there is no batch in the rest of a step with which a run resumes
            least = int(float(trainer.args.num_train_epochs).is_integer() and not self._is_shifted)  # the end of the data follows
            self._expect(trainer.state.global_step + max(least, math.ceil(left / max(1, batch))))
        self._advance_schedule(used)

    @property
    def _size(self) -> int:
        """Of an epoch. In a replica of several processes what counts as a sample is one of each of them."""
        layout = script.run.layout if script.run is not None else None
        return len(self._trainer.train_dataset) // (1 if layout is None else layout.data_size)

    @property
    def _is_shifted(self) -> bool:
        return not float(self.begin).is_integer()

    def _used(self) -> int:
        """Samples, of all epochs."""
        run = script.run
        assert run is not None
        return round(self.begin * self._size) + run.samples_used

    def is_in_epoch(self) -> bool:
        """Whether the present epoch goes on in the run's next one."""
        return self._is_shifted and self._used() < (self.epoch + 1) * self._size

    def end_epoch(self) -> None:
        """There is no batch any more. What Trainer does at its last step, which it cannot know beforehand, is done now."""
        trainer, control = self._trainer, self._trainer.control
        control.should_epoch_stop = True
        trainer.state.epoch = float(self.epoch + 1)
        if self.epoch + 1 < trainer.args.num_train_epochs or trainer.args.max_steps > 0:
            return
        self._expect(trainer.state.global_step)
        control.should_training_stop = True
        control.should_save |= str(trainer.args.save_strategy.value) == "steps"
        control.should_evaluate |= str(trainer.args.eval_strategy.value) == "steps"

    def _expect(self, steps: int) -> None:
        """In all; progress bars show it."""
        self._trainer.state.max_steps = steps
        for callback in self._trainer.callback_handler.callbacks:
            bar = getattr(callback, "training_bar", None)
            if hasattr(bar, "total"):
                bar.total = steps

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
