"""A script with DistributedDataParallel that changes nothing: what it makes is found by the constructors it calls.

`install()` replaces DistributedDataParallel, the functions of torch.distributed and the iteration over a DataLoader before
the script starts. Its training loader is the first one that it iterates over once it has a model and an optimizer.
"""

import atexit
import contextlib
import itertools
import os
import sys
from typing import Any, Dict, Iterator, List, Optional

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, IterableDataset

from . import _loader, _run
from ..errors import ElasticError

MANY_EPOCHS = 1 << 40  # the script ends by itself
_iterate = DataLoader.__iter__


class Script:
    """Thread: the training thread."""

    def __init__(self) -> None:
        self.is_initialized = False
        self.model: Optional["ElasticModel"] = None
        self.found: Dict[str, List[Any]] = {"optimizer": [], "scheduler": [], "scaler": [], "average": []}
        self.run: Optional[_run.ElasticRun] = None
        self.is_forwarding = False  # through epochs that were over before this worker joined
        self.finishes_at_exit = False  # nobody else calls finish()
        self._loader: Optional[DataLoader] = None
        self._epoch = -1  # the script's, counted by its passes over the training loader

    # --- Figures

    @property
    def rank(self) -> int:
        if self.run is None or not self.run.is_started:
            return int(os.environ.get("RANK", "0"))
        return max(1, self.run.rank) if self.is_forwarding else self.run.rank

    @property
    def world_size(self) -> int:
        is_started = self.run is not None and self.run.is_started
        return self.run.world_size if self.run is not None and is_started else int(os.environ.get("WORLD_SIZE", "1"))

    # --- Loaders

    def batches(self, loader: DataLoader) -> Iterator[Any]:
        """In place of DataLoader.__iter__()."""
        if isinstance(loader.batch_sampler, _loader.Requests):
            return _iterate(loader)
        if self._is_training(loader):
            return self._train(loader)
        own = _iterate(loader)
        return itertools.islice(own, 1) if self.is_forwarding else own

    def _is_training(self, loader: DataLoader) -> bool:
        if self._loader is not None:
            return loader is self._loader or loader.dataset is self._loader.dataset
        ready = self.is_initialized and self.model is not None and bool(self._optimizers())
        return ready and torch.is_grad_enabled() and self.model is not None and self.model.training

    def _train(self, loader: DataLoader) -> Iterator[Any]:
        if self.run is None:
            self._loader, self.run = loader, self._make_run(loader)
        self._epoch += 1
        entered = self.run.enter_epoch()
        present = entered.epoch
        if self._epoch > present:
            raise ElasticError(f"the script began its epoch {self._epoch + 1} before all samples of epoch {present + 1} were "
                               "used; a script that ends an epoch early cannot be made elastic without changes")
        self.is_forwarding = self._epoch < present
        if self.is_forwarding:
            yield self.run.stand_in()
            return
        entered.catch_up()
        yield from entered.batches()

    # --- What was found

    def _optimizers(self) -> List[Optimizer]:
        """Those that train the model."""
        if self.model is None:
            return []
        own = {id(parameter) for parameter in self.model.parameters()}
        return [optimizer for optimizer in self.found["optimizer"]
                if any(id(parameter) in own for group in optimizer.param_groups for parameter in group["params"])]

    def _make_run(self, loader: DataLoader) -> "_run.ElasticRun":
        if isinstance(loader.dataset, IterableDataset) or loader.batch_size is None:
            raise ElasticError("this script's training data have no indices (an IterableDataset or an own batch sampler); "
                               "elastictrain.torch counts samples by their index")
        assert self.model is not None
        optimizers = self._optimizers()
        state = {f"{kind}{number}": thing for kind in ("scheduler", "scaler", "average")
                 for number, thing in enumerate(self.found[kind])}
        run = _run.elastic(self.model.module, optimizers, loader, epochs=MANY_EPOCHS, state=state)
        if self.finishes_at_exit:
            atexit.register(self._finish_at_exit)  # before the session's own end, which is registered already
        if self.rank == 0:
            data: Any = loader.dataset
            names = [type(thing).__name__ for thing in [*optimizers, *state.values()]]
            print(f"elastictrain: made elastic: {type(self.model.module).__name__}, {', '.join(names)}, a loader of "
                  f"{len(data)} samples in batches of {loader.batch_size} per worker", flush=True)
        return run

    def finish(self) -> None:
        """The script is at its end: so are the data, for all workers."""
        run, self.is_initialized = self.run, False
        if run is not None and run.is_started:
            run.stop()

    def _finish_at_exit(self) -> None:
        if getattr(sys, "last_value", None) is None:
            self.finish()


class ElasticModel(nn.Module):
    """In place of DistributedDataParallel. `module` is the script's own model; gradients are averaged by its hooks."""

    def __init__(self, module: nn.Module, *_: Any, process_group: Any = None, **__: Any) -> None:
        super().__init__()
        if script.model is not None:
            raise ElasticError("this script has two DistributedDataParallel models; one can be made elastic")
        if process_group is not None:
            raise ElasticError("this script gives DistributedDataParallel a process group of its own; only all workers "
                               "together can be made elastic")
        self.module = module
        self._known: Dict[Any, Any] = {}
        script.model = self

    def forward(self, *inputs: Any, **named: Any) -> Any:
        if script.is_forwarding:
            return self._known_output(inputs, named)
        return self.module(*inputs, **named)

    def _known_output(self, inputs: Any, named: Any) -> Any:
        """Of an earlier pass with inputs of the same shapes; nothing is learned from it."""
        key = tuple(tuple(value.shape) for value in [*inputs, *named.values()] if isinstance(value, torch.Tensor))
        if key not in self._known:
            with torch.no_grad():
                self._known[key] = self.module(*inputs, **named)
        return _leaves(self._known[key])

    def no_sync(self) -> Any:
        return script.run.no_sync() if script.run is not None else contextlib.nullcontext()

    def register_comm_hook(self, *_: Any, **__: Any) -> None:
        raise ElasticError("this script registers a communication hook; elastictrain averages gradients itself")


def _leaves(output: Any) -> Any:
    if isinstance(output, torch.Tensor):
        return output.detach().requires_grad_(output.is_floating_point() and torch.is_grad_enabled())
    if isinstance(output, dict):
        return type(output)({key: _leaves(value) for key, value in output.items()})
    if isinstance(output, (list, tuple)):
        return type(output)(_leaves(value) for value in output)
    return output


script = Script()
