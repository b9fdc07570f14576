"""What the programs on the digits share: data, model and score."""

import os

import torch
from torch import nn
from torch.utils.data import TensorDataset

EPOCHS = 10


def read(directory):
    """(training set, test set) of 8x8 images, from tests/data/optdigits of this repository."""
    return tuple(read_part(os.path.join(directory, f"optdigits.{part}")) for part in ("tra", "tes"))


def read_part(path):
    with open(path) as file:
        rows = torch.tensor([[float(value) for value in line.split(",")] for line in file if line[0].isdigit()])
    return TensorDataset(rows[:, :64].reshape(-1, 1, 8, 8) / 16, rows[:, 64].long())


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
                         nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1024, 10))


def score(model, test):
    """The share of the test set that is recognized."""
    images, labels = test.tensors
    model.eval()
    with torch.no_grad():
        hits = (model(images).argmax(1) == labels).float().mean().item()
    model.train()
    return hits
