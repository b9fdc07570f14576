"""A program of two lines whose weights count how often each sample was part of an update, with processes that load its data
(ET_LOADERS) and a loader of its own, whose process lives as long as the program (ET_OWN_LOADER: how it starts)."""

import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import elastictrain.torch

SAMPLES = 960
EPOCHS = int(os.environ.get("ET_EPOCHS", "2"))
LOADERS = int(os.environ.get("ET_LOADERS", "0"))
STEP_S = float(os.environ.get("ET_STEP_S", "0.03"))
START = os.environ.get("ET_START") if LOADERS else None  # of the processes: fork, spawn, forkserver


class Counts(nn.Module):
    """Its mean over a batch has the gradient -1/n for each of the n samples."""

    def __init__(self):
        super().__init__()
        self.counts = nn.Parameter(torch.zeros(SAMPLES))

    def forward(self, samples):
        return -self.counts[samples].sum() / len(samples)


def update(model, optimizer):
    """Adds one for each sample of the step, whatever their number."""
    gradient = model.counts.grad
    if gradient is not None and gradient.any():
        gradient.div_(gradient.abs()[gradient != 0].min()).round_()
    optimizer.step()


def own_loader():
    start = os.environ.get("ET_OWN_LOADER")
    if start is None:
        return None
    return DataLoader(TensorDataset(torch.arange(8)), batch_size=4, num_workers=1, persistent_workers=True,
                      multiprocessing_context=start)


def main():
    model = Counts()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    loader = DataLoader(TensorDataset(torch.arange(SAMPLES)), batch_size=8, shuffle=True, num_workers=LOADERS,
                        multiprocessing_context=START)
    run = elastictrain.torch.elastic(model, optimizer, loader, epochs=EPOCHS)
    validation = own_loader()
    for _ in run.epochs():
        for samples, in run:
            optimizer.zero_grad()
            model(samples).backward()
            update(model, optimizer)
            time.sleep(STEP_S)
            if validation is not None and run.step % 5 == 0:
                assert sum(len(values) for values, in validation) == 8
    counts = model.counts.detach()
    print(f"counted {int(counts.min())} to {int(counts.max())} after {EPOCHS} epochs", flush=True)


if __name__ == "__main__":
    main()
