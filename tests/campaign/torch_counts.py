"""What the scripts of torch_campaign.py have in common; it knows nothing of elastictrain. The model counts how often each
sample was part of an update, and is the same on all workers at the end of each epoch, or the script raises.

ET_PAUSE_S is the time that a step takes longer, ET_LOADERS the number of processes that load."""

import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SAMPLES, TEST_SAMPLES, FEATURES, BATCH = 112, 37, 6, 16
EPOCHS = 1 << 20
PAUSE_S = float(os.environ.get("ET_PAUSE_S", "0.02"))


class Counted(nn.Module):
    """The part of its output that counts has a mean over a batch with the gradient -1/n for each of the n samples."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
        self.counts = nn.Parameter(torch.zeros(SAMPLES))

    def forward(self, inputs, indices):
        return self.body(inputs), -self.counts[indices]


def make_data(samples):
    inputs = torch.randn(samples, FEATURES, generator=torch.Generator().manual_seed(5))
    return TensorDataset(inputs, torch.arange(samples) % 3, torch.arange(samples))


def make_loader(data, **options):
    return DataLoader(data, batch_size=BATCH, num_workers=int(os.environ.get("ET_LOADERS", "0")), **options)


def make_optimizer(model):
    return torch.optim.SGD([{"params": model.body.parameters(), "lr": 0.05, "momentum": 0.9},
                            {"params": [model.counts], "lr": 1.0}])


def loss_of(model, batch):
    inputs, labels, indices = batch
    scores, counts = model(inputs, indices)
    time.sleep(PAUSE_S)
    return nn.functional.cross_entropy(scores, labels) + counts.mean()


def count_each_sample_as_one(model):
    """Before the update, and whatever the number of the step's samples was."""
    gradient = model.counts.grad
    if gradient is not None and gradient.any():
        gradient.div_(gradient.abs()[gradient != 0].min()).round_()


def likeness(model, epoch):
    """Equal on all workers behind an epoch."""
    body = sum(value.double().sum().item() for value in model.body.state_dict().values())
    return epoch, model.counts.detach().sum().item(), body


def check_alike(seen):
    assert all(own == seen[0] for own in seen), f"the workers had {seen}"


def is_over(epoch):
    """Whether the campaign asks for the end with this epoch or an earlier one."""
    try:
        with open(os.environ["ET_STOP"]) as file:
            return torch.tensor(float(epoch >= int(file.read())))
    except FileNotFoundError:
        return torch.tensor(0.0)


def say_counted(model, epoch):
    counts = model.counts.detach()
    print(f"counted {int(counts.min())} to {int(counts.max())} in {epoch + 1} epochs", flush=True)
