#!/usr/bin/env python3
"""Data-parallel training with PyTorch (DDP over Gloo) on CPUs: the peer that torchrun starts.

The model has 24.9 million parameters, 100 MB. Every worker loads the newest checkpoint at its start, and rank 0 writes one
every 20 steps, as torchrun's documentation asks of a training program. Each completed step is one JSON line in
$RUN_DIR/steps-<node>-<pid>.jsonl: {"t": s on CLOCK_MONOTONIC, "step": N, "world": W, "node": …, "pid": …}.
Usage: train.py [--collective-timeout-s SECONDS] [--model resnet18]      (0, the default: torch's own, 30 minutes)
With resnet18 the model is ResNet-18 (45 MB, with AdamW's state 134 MB), and the batch 32 images.
"""

import argparse
import datetime
import json
import os
import time

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from resnet import resnet18

BATCH = 8
SAMPLES = 1024
CHECKPOINT_EVERY = 20  # steps


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--collective-timeout-s", type=float, default=0)
    parser.add_argument("--model", choices=["mlp", "resnet18"], default="mlp")
    return parser.parse_args()


def join(timeout_s):
    options = {"timeout": datetime.timedelta(seconds=timeout_s)} if timeout_s > 0 else {}
    distributed.init_process_group("gloo", **options)
    return distributed.get_rank(), distributed.get_world_size()


def make_model(name):
    torch.manual_seed(0)
    return resnet18() if name == "resnet18" else make_mlp()


def make_mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(3072, 4096), nn.ReLU(), nn.Linear(4096, 3000), nn.ReLU(),
                         nn.Linear(3000, 10))


class Checkpoint:
    def __init__(self, path):
        self.path = path

    def load(self, model):
        """Step and state of the optimizer; (0, None) where there is no checkpoint yet."""
        if not os.path.exists(self.path):
            return 0, None
        saved = torch.load(self.path, map_location="cpu")
        model.load_state_dict(saved["model"])
        return saved["step"], saved["optimizer"]

    def save(self, model, optimizer, step):
        part = f"{self.path}.{os.getpid()}"
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, part)
        os.replace(part, self.path)


class StepLog:
    def __init__(self, directory, node, world):
        self.fields = {"world": world, "node": node, "pid": os.getpid()}
        self.file = open(os.path.join(directory, f"steps-{node}-{os.getpid()}.jsonl"), "a", buffering=1)

    def add(self, step):
        self.file.write(json.dumps({"t": time.monotonic(), "step": step, **self.fields}) + "\n")


def main():
    options = parse()
    torch.set_num_threads(1)
    directory = os.environ["RUN_DIR"]
    rank, world = join(options.collective_timeout_s)
    checkpoint = Checkpoint(os.path.join(directory, "checkpoint.pt"))
    model = make_model(options.model)
    batch = 32 if options.model == "resnet18" else BATCH
    step, optimizer_state = checkpoint.load(model)
    parallel = DistributedDataParallel(model)
    optimizer = (torch.optim.AdamW(parallel.parameters(), lr=0.001) if options.model == "resnet18" else
                 torch.optim.SGD(parallel.parameters(), lr=0.01, momentum=0.9))
    if optimizer_state is not None:
        optimizer.load_state_dict(optimizer_state)
    loss_of = nn.CrossEntropyLoss()
    random = torch.Generator().manual_seed(1234 + rank)
    images = torch.randn(SAMPLES, 3, 32, 32, generator=random)
    labels = torch.randint(0, 10, (SAMPLES,), generator=random)
    log = StepLog(directory, os.environ["NODE"], world)
    while True:
        first = (step * batch) % (SAMPLES - batch + 1)
        optimizer.zero_grad()
        loss_of(parallel(images[first:first + batch]), labels[first:first + batch]).backward()
        optimizer.step()
        step += 1
        log.add(step)
        if rank == 0 and step % CHECKPOINT_EVERY == 0:
            checkpoint.save(model, optimizer, step)


if __name__ == "__main__":
    main()
