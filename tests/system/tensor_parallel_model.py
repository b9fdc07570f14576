"""The model of torch_tensor_parallel.py and torch_tensor_parallel_script.py, its samples, and how it is divided."""

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module

generator = torch.Generator().manual_seed(3)
samples, targets = torch.randn(301, 6, 20, generator=generator), torch.randn(301, 6, 2, generator=generator)


class Model(nn.Module):
    """A layer and a norm of each kind: whole, by columns, by rows, of a sequence's parts."""

    def __init__(self):
        super().__init__()
        self.outer, self.norm = nn.Linear(20, 20), nn.LayerNorm(20)
        self.columns, self.rows = nn.Linear(20, 32), nn.Linear(32, 24)
        self.norm_of_parts, self.head = nn.LayerNorm(24), nn.Linear(24, 2)
        self.register_buffer("turns", torch.polar(torch.ones(10), torch.arange(10.0)), persistent=False)

    def forward(self, x):
        x = torch.view_as_real(torch.view_as_complex(self.outer(x).unflatten(-1, (10, 2))) * self.turns).flatten(-2)
        x = self.rows(torch.tanh(self.columns(self.norm(x))))
        return self.head(torch.tanh(self.norm_of_parts(x)))


def divide(model, mesh):
    """Over a mesh of the dimensions "data" and "tensor"."""
    parallelize_module(module=model, device_mesh=mesh["tensor"], parallelize_plan={
        "columns": ColwiseParallel(), "rows": RowwiseParallel(output_layouts=Shard(1)), "norm_of_parts": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())})
    if mesh["data"].size() > 1:
        for layer in (model.columns, model.rows):
            fully_shard(layer, mesh=mesh["data"])
        fully_shard(model, mesh=mesh["data"])


def clip(model):
    """Each layer by itself: those that are divided in different ways have no norm in common."""
    for layer in model.children():
        nn.utils.clip_grad_norm_(layer.parameters(), 0.2)
