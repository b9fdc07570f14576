"""A program that evaluates in each step, before its pass: all workers must see one model, a new one in its first step too,
except for a buffer that is each worker's own. A run that resumes has that of each rank again. Says with how many samples it
begins, and how it ends."""

import atexit
import os
import time

import torch
from torch import nn
from torch.utils.data import TensorDataset

import elastictrain.torch

torch.manual_seed(int(os.environ["ELASTICTRAIN_WORKER_ID"]))  # every worker another model; the first worker's counts
model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
own = torch.tensor([float(os.environ["ELASTICTRAIN_WORKER_ID"])])
model.register_buffer("own", own.clone())
model.register_buffer("ballast", torch.zeros(8 << 20))  # so that a new worker's state takes a while to arrive
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
data = TensorDataset(torch.randn(640, 6, generator=torch.Generator().manual_seed(3)))
run = elastictrain.torch.elastic(model, optimizer, data, batch=16, epochs=100000,
                                 state=elastictrain.torch.State(local=["ow?"]))


class Unloaded:
    """What the end of the interpreter frees."""

    def __del__(self, write=os.write):
        write(1, b"unloaded\n")


def evaluate():
    """A number that says which model this worker has."""
    return sum(value.double().sum() for name, value in model.state_dict().items() if name != "own")


atexit.register(print, "the program's own end", flush=True)
unloaded = Unloaded()
begins = True
for _ in run.epochs():
    for x, in run:
        if begins and os.environ.get("ELASTICTRAIN_RESUME") == "1":
            print(f"the own buffer of rank {run.rank} begins with {float(model.own):.0f} after step {run.step - 1}", flush=True)
            own.copy_(model.own)
        print(f"begins with {len(x)} samples", flush=True) if begins else None
        begins = False
        with run.evaluation():
            seen = evaluate()
            low, high = run.reduce(seen.clone(), "min"), run.reduce(seen.clone(), "max")
            if low != high:
                print(f"evaluations differ in step {run.step}: {float(low)} to {float(high)}", flush=True)
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
        if not torch.equal(model.own, own):
            print(f"the own buffer differs in step {run.step}", flush=True)
        model.own.add_(1)
        own.add_(1)
        time.sleep(0.02)
