#!/usr/bin/env python3
"""ResNet-18 with plain DDP, as torch's documentation shows it. Each completed step is a line of JSON in
$RUN_DIR/steps-<pid>.jsonl, if that is set: {"t": s on CLOCK_MONOTONIC, "step": N, "world": W, "pid": …}. With ET_ALONE
nothing is averaged: what the workers' own work allows at most."""

import json
import os
import time

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from resnet import RandomImages, resnet18

EPOCHS = 1000


def main():
    distributed.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = RandomImages()
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=32, sampler=sampler)
    model = resnet18() if "ET_ALONE" in os.environ else DistributedDataParallel(resnet18())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_of = nn.CrossEntropyLoss()
    log = open(os.path.join(os.environ["RUN_DIR"], f"steps-{os.getpid()}.jsonl"), "a", buffering=1) \
        if "RUN_DIR" in os.environ else None
    step = 0
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            loss_of(model(images), labels).backward()
            optimizer.step()
            step += 1
            if log is not None:
                log.write(json.dumps({"t": time.monotonic(), "step": step, "world": distributed.get_world_size(),
                                      "pid": os.getpid()}) + "\n")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
