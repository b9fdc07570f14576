"""A full pass before the worker joins: what is allocated, compiled or read for the first time costs the others nothing."""

import sys
import warnings
from typing import Any, Callable, Optional

import torch
from torch import nn


def make_pass(model: nn.Module, batch: Any, program: Optional[Callable[[Any], Any]]) -> bool:
    """Forward and backward, by the program's function or by a guess how the model is called. Parameters, gradients and
    random numbers are as before; buffers are not. Returns whether it was made."""
    with torch.random.fork_rng(enabled=True):
        try:
            if program is not None:
                program(batch)
            else:
                _guess(model, batch)
        except Exception as error:
            if program is not None:
                raise
            warnings.warn(f"elastic() could not make a trial pass ({type(error).__name__}: {error}). Training works without "
                          "one; pass warm_up= to make a new worker's first step as fast as the others'", stacklevel=6)
            return False
        finally:
            for parameter in model.parameters():
                parameter.grad = None
    return True


def has_compiled() -> bool:
    """Whether torch.compile() compiled something here, which another size of a batch would make it do again."""
    dynamo = sys.modules.get("torch._dynamo")
    return dynamo is not None and bool(dynamo.utils.counters["frames"])


def _guess(model: nn.Module, batch: Any) -> None:
    was_training = model.training
    model.train()
    try:
        outputs = model(**batch) if isinstance(batch, dict) else model(_first_tensor(batch))
        total = sum(tensor.float().mean() for tensor in _floating_tensors(outputs))
        if isinstance(total, torch.Tensor) and total.requires_grad:
            total.backward()
    finally:
        model.train(was_training)


def _first_tensor(batch: Any) -> torch.Tensor:
    while isinstance(batch, (list, tuple)) and batch:
        batch = batch[0]
    if not isinstance(batch, torch.Tensor):
        raise TypeError(f"a batch is a {type(batch).__name__}")
    return batch


def _floating_tensors(outputs: Any) -> list:
    if isinstance(outputs, torch.Tensor):
        return [outputs] if outputs.is_floating_point() else []
    if isinstance(outputs, dict):
        outputs = list(outputs.values())
    if isinstance(outputs, (list, tuple)):
        return [tensor for part in outputs for tensor in _floating_tensors(part)]
    return []
