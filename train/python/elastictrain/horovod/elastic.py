"""horovod.torch.elastic: the state of a training, its sampler and the function that trains."""

import functools
from typing import Any, Callable, Dict, List, Sequence

from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from ..errors import ElasticError
from ..torch._script import script

_PARTS = ("model", "optimizer", "sampler")


class ElasticSampler(DistributedSampler):
    """Marks the loader to train on. Its order is that of the run: each sample counts once in an epoch, through all changes."""

    def __init__(self, dataset: Any, shuffle: bool = True, seed: int = 0) -> None:
        super().__init__(dataset, shuffle=shuffle, seed=seed)

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Nothing to do: a committed step is recorded."""

    def record_indices(self, indices: Any) -> None:
        """As record_batch()."""


class TorchState:
    """Model, optimizer and small values that all workers have in common, such as `epoch`."""

    def __init__(self, model: Any = None, optimizer: Any = None, **values: Any) -> None:
        if model is None or optimizer is None:
            raise ElasticError("TorchState needs the model and the optimizer that are trained")
        self.model, self.optimizer = model, optimizer
        self._names = [name for name in values if name not in _PARTS]
        vars(self).update(values)
        self._on_reset: List[Callable[[], None]] = []
        script.model = _Held(model)
        script.state["state"] = self

    def commit(self) -> None:
        """Nothing to do: a step is committed when the next batch is asked for."""

    def check_host_updates(self) -> None:
        """As commit()."""

    def sync(self) -> None:
        """Nothing to do: a worker that joins gets the state."""

    def restore(self) -> None:
        """Nothing to do: no step is taken back."""

    def register_reset_callbacks(self, callbacks: Sequence[Callable[[], None]]) -> None:
        """Called after each change of the membership."""
        self._on_reset.extend(callbacks)

    def on_change(self, _: Any) -> None:
        for callback in self._on_reset:
            callback()

    def state_dict(self) -> Dict[str, Any]:
        return {name: getattr(self, name) for name in self._names}

    def load_state_dict(self, values: Dict[str, Any]) -> None:
        vars(self).update(values)


def run(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates the function that trains. Its first argument is the state; a worker that joins begins with the present
    epoch, in `state.epoch`."""
    @functools.wraps(function)
    def trained(state: TorchState, *arguments: Any, **named: Any) -> Any:
        state.epoch = script.enter(_training_loader())  # type: ignore[attr-defined]
        assert script.run is not None
        script.run.on_change(state.on_change)
        return function(state, *arguments, **named)

    return trained


def _training_loader() -> DataLoader:
    loaders = [loader for loader in script.found["loader"] if isinstance(loader.sampler, ElasticSampler)]
    if len(loaders) != 1:
        raise ElasticError(f"{len(loaders)} loaders have an elastictrain.horovod.elastic.ElasticSampler; the one to train on "
                           "needs it, and hvd.init() must come before it is made")
    return loaders[0]


class _Held:
    """A model that the program calls itself."""

    training = True

    def __init__(self, module: Any) -> None:
        self.module, self.parameters = module, module.parameters
