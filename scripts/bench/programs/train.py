#!/usr/bin/env python3
"""Data-parallel training with PyTorch on CPUs, the peer: DDP over Gloo, which torchrun starts, or torchft.

The model has 24.9 million parameters, 100 MB. Every worker loads the newest checkpoint at its start, and rank 0 writes one
every 20 steps, as torchrun's documentation asks of a training program. Each completed step is one JSON line in
$RUN_DIR/steps-<node>-<pid>.jsonl: {"t": s on CLOCK_MONOTONIC, "step": N, "world": W, "node": …, "pid": …}.
Usage: train.py [--collective-timeout-s SECONDS] [--model resnet18] [--torchft]   (0, the default: torch's own, 30 minutes)
       train.py --launch ARGUMENTS…   torchrun
With resnet18 the model is ResNet-18 (45 MB, with AdamW's state 134 MB), and the batch 32 images. With --torchft it trains as one
replica group of one worker, which meets the others at the lighthouse that TORCHFT_LIGHTHOUSE names; a step that torchft discards
has no line.
"""

import argparse
import datetime
import json
import os
import sys
import time

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from resnet import resnet18

SAMPLES = 1024
CHECKPOINT_EVERY = 20  # steps


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--collective-timeout-s", type=float, default=0)
    parser.add_argument("--model", choices=["mlp", "resnet18"], default="mlp")
    parser.add_argument("--torchft", action="store_true")
    return parser.parse_args()


def launch():
    """torchrun, with a repair for torch 1.13 on Python 3.11 (Debian 12): iterating an IntFlag leaves its zero member out there, so
    that Std.from_str("0") returns None and every agent ends before it starts a worker. Later versions are not changed by it."""
    from torch.distributed.elastic.multiprocessing import api
    from torch.distributed.run import main as torchrun

    from_str = api.Std.from_str.__func__
    api.Std.from_str = classmethod(lambda cls, text: cls(int(text)) if text in ("0", "1", "2", "3") else from_str(cls, text))
    torchrun(sys.argv[2:])


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


def random_batches(seed, batch):
    """The batch of a step."""
    random = torch.Generator().manual_seed(seed)
    images = torch.randn(SAMPLES, 3, 32, 32, generator=random)
    labels = torch.randint(0, 10, (SAMPLES,), generator=random)

    def of(step):
        first = (step * batch) % (SAMPLES - batch + 1)
        return images[first:first + batch], labels[first:first + batch]

    return of


def with_ddp(options):
    directory = os.environ["RUN_DIR"]
    rank, world = join(options.collective_timeout_s)
    checkpoint = Checkpoint(os.path.join(directory, "checkpoint.pt"))
    model = make_model(options.model)
    step, optimizer_state = checkpoint.load(model)
    parallel = DistributedDataParallel(model)
    optimizer = (torch.optim.AdamW(parallel.parameters(), lr=0.001) if options.model == "resnet18" else
                 torch.optim.SGD(parallel.parameters(), lr=0.01, momentum=0.9))
    if optimizer_state is not None:
        optimizer.load_state_dict(optimizer_state)
    batch_of = random_batches(1234 + rank, 32 if options.model == "resnet18" else 8)
    log = StepLog(directory, os.environ["NODE"], world)
    while True:
        train(parallel, optimizer, *batch_of(step))
        step += 1
        log.add(step)
        if rank == 0 and step % CHECKPOINT_EVERY == 0:
            checkpoint.save(model, optimizer, step)


def with_torchft():
    import torchft

    node = os.environ["NODE"]
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    model = make_model("resnet18")
    own = torch.optim.AdamW(model.parameters(), lr=0.001)

    def load(state):
        model.load_state_dict(state["model"])
        own.load_state_dict(state["optimizer"])

    manager = torchft.Manager(pg=torchft.ProcessGroupGloo(), load_state_dict=load, min_replica_size=1,
                              state_dict=lambda: {"model": model.state_dict(), "optimizer": own.state_dict()},
                              rank=0, world_size=1, store_addr="127.0.0.1", store_port=store.port,
                              lighthouse_addr=os.environ["TORCHFT_LIGHTHOUSE"], replica_id=node)
    parallel = torchft.DistributedDataParallel(manager, model)
    optimizer = torchft.Optimizer(manager, own)
    batch_of = random_batches(int(node[1:]), 32)
    log = StepLog(os.environ["RUN_DIR"], node, 0)
    committed = 0
    while True:
        train(parallel, optimizer, *batch_of(committed))
        if manager.current_step() != committed:
            committed = manager.current_step()
            log.fields["world"] = manager.num_participants()
            log.add(committed)


def train(model, optimizer, images, labels):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()


def main():
    options = parse()
    torch.set_num_threads(1)
    with_torchft() if options.torchft else with_ddp(options)


if __name__ == "__main__":
    launch() if sys.argv[1:2] == ["--launch"] else main()
