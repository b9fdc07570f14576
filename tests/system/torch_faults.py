"""A small program that does what ET_USES says from step 10 on, on the worker with id 1 where it concerns one: "drift" writes
a parameter, "nan" has a loss that is no number, "branch" uses other parameters than the other workers do."""

import os

import torch
from torch import nn
from torch.utils.data import TensorDataset

import elastictrain.torch

USES = os.environ["ET_USES"]
IS_ODD = os.environ.get("ELASTICTRAIN_WORKER_ID") == "1"


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.never = nn.Linear(4, 3), nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x):
        uses_second = USES == "branch" and IS_ODD
        return self.second(x) if uses_second else self.first(x)


torch.manual_seed(0)
model = Branches()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = TensorDataset(torch.randn(640, 4), torch.randint(0, 3, (640,)))
run = elastictrain.torch.elastic(model, optimizer, data, batch=8, epochs=2)
for _ in run.epochs():
    for x, y in run:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        if run.step >= 10 and USES == "nan" and IS_ODD:
            loss = loss * float("nan")
        loss.backward()
        optimizer.step()
        if run.step == 10 and USES == "drift" and IS_ODD:
            with torch.no_grad():
                model.second.weight.add_(torch.randn(3, 4))
        run.report(loss)
print("result", bool(torch.isnan(model.first.weight).any()), model.second.weight.grad is not None,
      model.never.weight.grad is not None, flush=True)
