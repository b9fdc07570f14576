#!/usr/bin/env python3
"""A program of short steps in which one worker at a time does something that takes STALL_S, while the others wait for it: a
new worker's first pass compiles, its loader sleeps, the first worker evaluates. Each end is a note of the run."""

import os
import time

import torch
from torch import nn

import elastictrain.torch

STALL_S = float(os.environ["STALL_S"])
IS_NEW = os.environ["ELASTICTRAIN_GENERATION"] != "0"
AFTER_STEPS = 30  # between two of them


class Numbers(torch.utils.data.Dataset):
    def __init__(self):
        self.stalls_at = None  # a call

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        if self.stalls_at is not None and time.monotonic() > self.stalls_at:
            self.stalls_at = None
            time.sleep(STALL_S)
        return torch.full((8,), float(index % 7))


def compile_something():
    """As a compiler does: computes, and lets nobody else in this process compute."""
    until = time.monotonic() + STALL_S
    while time.monotonic() < until:
        sum(range(1000))


def main():
    torch.manual_seed(0)
    model, data = nn.Linear(8, 8), Numbers()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = elastictrain.torch.elastic(model, optimizer, data, batch=8)
    steps = together = 0
    for inputs in run:
        if IS_NEW and steps == 0:
            compile_something()
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
        time.sleep(0.02)
        steps += 1
        together += run.world_size > 1
        if IS_NEW and together == AFTER_STEPS:
            data.stalls_at = 0.0
        if together == 2 * AFTER_STEPS:
            with run.evaluation():
                time.sleep(STALL_S if run.is_first else 0)
        if together == AFTER_STEPS + 5:
            run.note("stall", "compile and loader are over")
        if together == 2 * AFTER_STEPS + 10:
            run.note("stall", "all are over")


if __name__ == "__main__":
    main()
