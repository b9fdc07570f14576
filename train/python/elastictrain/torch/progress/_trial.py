"""One process of `elastictrain.torch.check`: runs the script, and notes what every step sees.

    python -m elastictrain.torch.progress._trial FOLDER donor|joiner STEP STEPS [-m] SCRIPT …

The donor puts its record at STEP into FOLDER and goes on to STEPS. The joiner takes the record over at its first step.
"""

import multiprocessing
import os
import pickle
import random
import sys
import time
from typing import Any, Dict, List, Optional

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from . import _hook, _loaders, _rewrite, _values
from ._progress import Progress

EPOCH_S = 1.7e9
STEP_S = 0.25


class Trial:
    def __init__(self, folder: str, is_joiner: bool, at: int, steps: int) -> None:
        self._folder, self._is_joiner, self._at, self._steps = folder, is_joiner, at, steps
        self._progress = Progress(limit_bytes=None)
        self._optimizer: Any = None
        self._step = self._clock_calls = 0
        self._trace: Dict[int, Dict[str, str]] = {}
        self.result: Dict[str, Any] = {"problems": [], "report": None, "ms": {}, "steps": 0}

    def on_step(self, optimizer: Any, *_: Any) -> None:
        """Before each update of any optimizer; the first one that steps counts."""
        self._optimizer = self._optimizer or optimizer
        if optimizer is not self._optimizer:
            return
        self._step += 1
        self._clock_calls = 0
        if self._step == 1:
            self._timed("first", self._progress.note_first)
            if self._is_joiner:
                self._take()
        if self._step == self._at and not self._is_joiner:
            self._give()
        self._note()
        if self._step == self._steps:
            self._leave()

    def _leave(self) -> None:
        """At once: nothing of the script's end is wanted."""
        self.end()
        for child in multiprocessing.active_children():
            child.terminate()
        os._exit(0)

    def _timed(self, name: str, call: Any) -> Any:
        began = _values._CLOCKS["perf_counter"]()
        made = call()
        self.result["ms"][name] = 1000 * (_values._CLOCKS["perf_counter"]() - began)
        return made

    def _give(self) -> None:
        gradients = [parameter.grad for parameter in self._parameters()]
        record = self._timed("record", lambda: self._progress.record(self._step, gradients))
        self.result["bytes"] = len(record)
        with open(os.path.join(self._folder, "record"), "wb") as file:
            file.write(record)

    def _take(self) -> None:
        with open(os.path.join(self._folder, "record"), "rb") as file:
            record = file.read()
        problems = self._timed("check", lambda: self._progress.check(record))
        self.result["problems"] = problems
        if problems:
            self._leave()
        report = self._timed("apply", lambda: self._progress.apply(record, before_values=self._set_gradients))
        self.result["report"] = tuple(report)
        self._step = self._at

    def _parameters(self) -> List[torch.nn.Parameter]:
        return [parameter for group in self._optimizer.param_groups for parameter in group["params"]]

    def _set_gradients(self, gradients: List[Optional[torch.Tensor]]) -> None:
        for parameter, gradient in zip(self._parameters(), gradients):
            parameter.grad = gradient

    def _note(self) -> None:
        seen = self._progress.values()
        seen["<weights>"] = repr([float(parameter.detach().double().sum()) for parameter in self._parameters()])
        seen["<gradients>"] = repr([None if parameter.grad is None else float(parameter.grad.double().sum())
                                    for parameter in self._parameters()])
        seen["<rates>"] = repr([group.get("lr") for group in self._optimizer.param_groups])
        self._trace[self._step] = seen

    def end(self) -> None:
        self.result.update(steps=self._step, left=dict(_rewrite.LEFT))
        with open(os.path.join(self._folder, "joiner" if self._is_joiner else "donor"), "wb") as file:
            pickle.dump((self.result, self._trace), file)
        sys.stdout.flush()
        sys.stderr.flush()

    def clock(self) -> float:
        """The same in all processes: it counts steps."""
        self._clock_calls += 1
        return EPOCH_S + STEP_S * (self._step + 1 - 1 / (1 + self._clock_calls * 0.01))


def _on_processors() -> None:
    """A script that asks for NCCL gets Gloo."""
    begin = torch.distributed.init_process_group

    def init_process_group(*arguments: Any, **named: Any) -> Any:
        named.pop("device_id", None)
        named["backend"] = "gloo"
        return begin(*arguments[1:], **named)

    torch.distributed.init_process_group = init_process_group
    torch.distributed.distributed_c10d.init_process_group = init_process_group


def main() -> None:
    folder, mode, at, steps, *words = sys.argv[1:]
    is_module = words[0] == "-m"
    words = words[1:] if is_module else words
    trial = Trial(folder, mode == "joiner", int(at), int(steps))
    register_optimizer_step_pre_hook(trial.on_step)
    _loaders.install()
    _on_processors()
    for name in ("time", "perf_counter", "monotonic"):
        setattr(time, name, trial.clock)
    torch.manual_seed(1)
    random.seed(1)
    if _values.numpy() is not None:
        _values.numpy().random.seed(1)
    try:
        _hook.run_main(words[0], words[1:], is_module)
    finally:
        trial.end()


if __name__ == "__main__":
    main()
