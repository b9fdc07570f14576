"""A program whose first worker counts the steps in which it was first: in a tensor, in small values and in an average of the
model that it alone keeps. Each worker tells at the end what it holds. It ends after the epoch in which the file ET_STOP
appears; with ET_LOCAL nobody sends anything."""

import os
import time

import torch
from torch import nn
from torch.utils.data import TensorDataset

import elastictrain.torch

torch.manual_seed(0)
model = nn.Linear(6, 3)
average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
counted, seen = torch.zeros(1), {"steps": 0, "history": []}
data = TensorDataset(torch.randn(640, 6, generator=torch.Generator().manual_seed(3)))
kept = {} if "ET_LOCAL" in os.environ else {"counted": counted, "seen": seen, "average": average}
run = elastictrain.torch.elastic(model, optimizer, data, batch=16, epochs=1 << 30,
                                 state=elastictrain.torch.State(first=kept, first_every=int(os.environ.get("ET_EVERY", "1"))))
for epoch in run.epochs():
    for x, in run:
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
        if run.is_first:
            counted += 1
            seen["steps"] += 1
            average.update_parameters(model)
        time.sleep(0.01)
    if run.is_first:
        seen["history"] = [*seen["history"][-9:], epoch]
    if run.reduce(torch.tensor(float(os.path.exists(os.environ["ET_STOP"]))), "max") > 0:
        break
steps = run.step
run.stop()
print(f"held {int(counted)} {seen['steps']} {int(average.n_averaged)} of {steps} steps, history {seen['history']}", flush=True)
