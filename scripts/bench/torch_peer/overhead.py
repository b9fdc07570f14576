#!/usr/bin/env python3
"""Steps of about 20 ms of one network, with the package or by the bare calls: overhead.py elastic|bare"""

import sys

import torch
from torch import nn

import elastictrain

SAMPLES, BATCH, WIDTH, LAYERS = 1_000_000, 32, 512, 8


class Numbers(torch.utils.data.Dataset):
    def __init__(self):
        self.inputs = torch.randn(64, WIDTH, generator=torch.Generator().manual_seed(1))

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return self.inputs[index % 64]


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(*(layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())))


def elastic(model, optimizer, data):
    run = elastictrain.torch.elastic(model, optimizer, data, batch=BATCH)
    for inputs in run:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()


def bare(model, optimizer, data):
    """One buffer holds all gradients, and nothing but parameters is shared."""
    parameters = list(model.parameters())
    gradient = torch.zeros(sum(parameter.numel() for parameter in parameters))
    for parameter, part in zip(parameters, gradient.split([parameter.numel() for parameter in parameters])):
        parameter.grad = part.view(parameter.shape)
    session = elastictrain.Session()
    for number, parameter in enumerate(parameters):
        session.share_state(str(number), parameter.detach())
    session.set_data(sample_count=len(data), batch=BATCH)
    go = session.start()
    while go and (batch := session.next_batch()) is not None:
        gradient.zero_()
        model(torch.stack([data[index] for index in batch.samples or range(BATCH)])).square().mean().backward()
        session.all_reduce(gradient)
        optimizer.step()
        session.commit_step()


def main():
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    {"elastic": elastic, "bare": bare}[sys.argv[1]](model, optimizer, Numbers())


if __name__ == "__main__":
    import elastictrain.torch  # in both, so that they start alike
    main()
