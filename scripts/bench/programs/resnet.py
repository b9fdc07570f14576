#!/usr/bin/env python3
"""The examples' ResNet-18 (11.2 million parameters, 45 MB) on random images: resnet.py ddp|alone|elastic

ddp: as torch's documentation shows it. Each completed step is a line of JSON in $RUN_DIR/steps-<pid>.jsonl, if that is set: {"t":
s on CLOCK_MONOTONIC, "step": N, "world": W, "pid": …}. alone: nothing is averaged, which is what the workers' own work allows at
most. elastic: elastictrain.torch, two lines in place of the process group, DDP and the sampler."""

import json
import os
import sys
import time

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../train/python/examples"))

from images import CLASSES, resnet18  # noqa: E402

SAMPLES, EPOCHS, BATCH = 50_000, 1000, 32


class RandomImages(Dataset):
    """Few different ones, so that loading them costs next to nothing."""

    def __init__(self, size=32, different=64):
        generator = torch.Generator().manual_seed(1)
        self.images = torch.randn(different, 3, size, size, generator=generator)
        self.labels = torch.randint(0, CLASSES, (different,), generator=generator)

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return self.images[index % len(self.images)], self.labels[index % len(self.images)]


def ddp(averages=True):
    distributed.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = RandomImages()
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=BATCH, sampler=sampler)
    model = DistributedDataParallel(resnet18()) if averages else resnet18()
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


def elastic():
    import elastictrain.torch

    torch.manual_seed(0)
    model = resnet18()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_of = nn.CrossEntropyLoss()
    run = elastictrain.torch.elastic(model, optimizer, RandomImages(), batch=BATCH, epochs=EPOCHS)
    for _ in run.epochs():
        for images, labels in run:
            optimizer.zero_grad()
            loss_of(model(images), labels).backward()
            optimizer.step()


if __name__ == "__main__":
    if sys.argv[1] == "elastic":
        elastic()
    else:
        ddp(averages=sys.argv[1] == "ddp")
