#!/usr/bin/env python3
"""The program of ddp_resnet.py with elastictrain.torch: two lines in place of the process group, DDP and the sampler."""

import torch
from torch import nn

import elastictrain.torch
from resnet import RandomImages, resnet18

EPOCHS = 1000


def main():
    torch.manual_seed(0)
    model = resnet18()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_of = nn.CrossEntropyLoss()
    run = elastictrain.torch.elastic(model, optimizer, RandomImages(), batch=32, epochs=EPOCHS)
    for _ in run.epochs():
        for images, labels in run:
            optimizer.zero_grad()
            loss_of(model(images), labels).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
