"""The model of a script that changes nothing: what takes the place of DistributedDataParallel."""

import contextlib
from typing import Any, Dict, Iterator

import torch
from torch import nn

from ._communication_hooks import accepted
from ._group import ElasticGroup
from ._script import ACCUMULATES, script
from ..errors import ElasticError


class ElasticModel(nn.Module):
    """In place of DistributedDataParallel. `module` is the script's own model; gradients are averaged by its hooks."""

    def __init__(self, module: nn.Module, *_: Any, process_group: Any = None, **__: Any) -> None:
        super().__init__()
        if script.model is not None:
            raise ElasticError("this script has two DistributedDataParallel models; one can be made elastic")
        if process_group is not None and not isinstance(process_group, ElasticGroup):
            raise ElasticError("this script gives DistributedDataParallel a process group of its own; only all workers "
                               "together can be made elastic")
        self.module = module
        self.begins_in_evaluation_mode = not module.training
        self.require_backward_grad_sync = True  # as in torch's: whether the gradients of the next pass are to be averaged
        self._known: Dict[Any, Any] = {}
        script.model = self
        self.watches = [parameter.register_post_accumulate_grad_hook(lambda _: script.check_backward())
                        for parameter in module.parameters() if parameter.requires_grad]  # until there is a run

    def forward(self, *inputs: Any, **named: Any) -> Any:
        if script.is_forwarding:
            return self._known_output(inputs, named)
        script.before_pass()
        return self.module(*inputs, **named)

    def _known_output(self, inputs: Any, named: Any) -> Any:
        """Of an earlier pass with inputs of the same shapes; nothing is learned from it."""
        key = tuple(tuple(value.shape) for value in [*inputs, *named.values()] if isinstance(value, torch.Tensor))
        if key not in self._known:
            with torch.no_grad():
                self._known[key] = self.module(*inputs, **named)
        return _leaves(self._known[key])

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """The passes of a step are counted where its samples are, so that nothing needs to be switched off then."""
        if script.counts_samples and script.run is not None and script.run.accumulation == 1 and not script.is_forwarding:
            raise ElasticError(ACCUMULATES)
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def join(self, *_: Any, **__: Any) -> Any:
        """Nothing to do: every sample counts once, and each worker takes part in each step."""
        return contextlib.nullcontext()

    def register_comm_hook(self, state: object, hook: Any) -> None:
        for sentence in accepted(hook):
            if script.rank == 0 and not script.is_apart:
                print(f"elastictrain: {sentence}", flush=True)

    def _register_builtin_comm_hook(self, kind: Any) -> None:
        self.register_comm_hook(None, kind)


def _leaves(output: Any) -> Any:
    if isinstance(output, torch.Tensor):
        # No leaf, as an output is none: it may be written.
        return output.detach().requires_grad_(output.is_floating_point() and torch.is_grad_enabled()).clone()
    if isinstance(output, dict):
        return type(output)({key: _leaves(value) for key, value in output.items()})
    if isinstance(output, (list, tuple)):
        return type(output)(_leaves(value) for value in output)
    return output
