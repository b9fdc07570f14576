"""What of a model is trained, and where it is."""

from typing import List, Sequence, Tuple

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer


def refuse_lazy(model: nn.Module) -> None:
    """Raises TypeError for a parameter or buffer that gets its shape in the first pass."""
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if is_lazy(tensor):
            raise TypeError(f"'{name}' has no shape yet; make a pass with one batch before elastic() and the optimizer")


def device_of(model: nn.Module) -> torch.device:
    devices = {parameter.device for parameter in model.parameters()}
    if len(devices) > 1:
        raise TypeError(f"the model is on {len(devices)} devices; a worker trains on one")
    return devices.pop() if devices else torch.device("cpu")


def trained(model: nn.Module, optimizers: Sequence[Optimizer]) -> List[Tuple[str, torch.Tensor]]:
    """The parameters that get a gradient, by name. Raises TypeError for one of an optimizer that is not the model's."""
    named: List[Tuple[str, torch.Tensor]] = [
        (name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    known = {id(parameter) for _, parameter in model.named_parameters()}
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            if any(id(parameter) not in known for parameter in group["params"]):
                raise TypeError("the optimizer trains a parameter that is not the model's; pass one module that holds all")
    if not named:
        raise TypeError("no parameter of the model requires a gradient")
    return named
