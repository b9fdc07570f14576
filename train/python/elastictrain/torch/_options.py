"""What `elastic()` is told about data and state, and what a run is made of."""

import dataclasses
import difflib
import inspect
import warnings
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from torch import nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

# Parameters of elastic() before State, and their fields there.
_EARLIER = {"first_state": "first", "first_state_every": "first_every", "local_state": "local"}
_OF_DATA_LOADER = frozenset(inspect.signature(DataLoader.__init__).parameters) - {
    "self", "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "drop_last"}


@dataclass
class Data:
    """How the samples of a dataset are divided into steps.

    batch: samples per worker and step; the run's --batch counts before it. The loss must be a mean over the samples.
    max_steps: the training ends after so many, if not after `epochs`; 0: after `epochs` only.
    min_batch: samples that a batch has at least; by default 2 for a model with BatchNorm, which cannot train on one.
    accumulation: batches, each with a backward pass, from which a step is made; gradients are those of all of them.
    loader: options of torch's DataLoader: num_workers, collate_fn, prefetch_factor, multiprocessing_context, …
    """
    batch: int = 32
    epochs: int = 1
    shuffle: bool = True
    seed: int = 0
    max_steps: int = 0
    drop_last: bool = False
    min_batch: Optional[int] = None
    accumulation: int = 1
    loader: Dict[str, Any] = field(default_factory=dict)


@dataclass
class State:
    """What a run has besides model and optimizer.

    shared: what else an update changes, by name: schedulers, a GradScaler, averaged models, tensors, dictionaries.
    first: what the first worker alone keeps up to date (`if run.is_first: …`), by name, with the same kinds of values: an
        average of the weights, a best score, a history. Its values as of the begin of a step reach all workers, so that the
        next first worker goes on with them, and checkpoints have them. Tensors must be on the CPU and contiguous.
    first_every: steps from one such sending to the next; a first worker that is lost takes with it what it wrote since.
    local: names of the model's buffers ("*" and "?" match) that are each worker's own: neither averaged, compared nor sent to
        new workers. Checkpoints have them, rank by rank, and a run that resumes gives them back.
    """
    shared: Dict[str, Any] = field(default_factory=dict)
    first: Dict[str, Any] = field(default_factory=dict)
    first_every: int = 1
    local: Sequence[str] = ()


@dataclass
class Plan:
    """What a run is made of. `data` and `state` are complete; `dataset` is None where the program's data are its own."""
    model: nn.Module
    optimizers: List[Optimizer]
    dataset: Any
    data: Data
    state: State
    warm_up: Optional[Callable[[Any], Any]] = None
    exits: bool = True
    order: Any = None  # of a sampler, from whose indices the session's are places
    batch_of_all: bool = False  # data.batch is that of all workers together, at any number of them

    @property
    def samples_of_batch(self) -> int:
        return self.data.accumulation * self.data.batch

    @property
    def min_local_samples(self) -> int:
        fewest = max(self.data.min_batch or 0, int(self.data.accumulation > 1))
        return self.data.accumulation * min(fewest, self.data.batch)


def read(data: Optional[Data], state: Any, options: Dict[str, Any]) -> Tuple[Data, State]:
    """From the arguments of elastic(): `options` are fields of Data by name, options of a DataLoader, and parameters of before.
    Raises TypeError for a name that is none of these."""
    data = dataclasses.replace(data or Data())
    state = dataclasses.replace(state) if isinstance(state, State) else State(dict(state or {}))
    data.loader = dict(data.loader)
    fields = {one.name for one in dataclasses.fields(Data)}
    for name, value in options.items():
        if name in fields:
            setattr(data, name, value)
        elif name in _EARLIER:
            warnings.warn(f"{name}= is state=State({_EARLIER[name]}=…) now, and will not be accepted in the next version",
                          DeprecationWarning, stacklevel=3)
            setattr(state, _EARLIER[name], value)
        elif name in _OF_DATA_LOADER:
            data.loader[name] = value
        else:
            raise TypeError(f"elastic() has no parameter '{name}'{_meant(name, [*fields, *_OF_DATA_LOADER])}")
    return data, state


def _meant(name: str, known: List[str]) -> str:
    similar = difflib.get_close_matches(name, known, 1)
    return f"; '{similar[0]}' is one" if similar else ""
