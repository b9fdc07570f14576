#!/usr/bin/env python3
"""ResNet-50 (ResNet-18 of the examples where torchvision is absent) in mixed precision on images that are on the device:
with DDP where torchrun starts it, with elastictrain.torch where a run does. The first rank prints steps_per_s=….

  ET_DEVICE   cuda, or cpu to try the program
  ET_BATCH    images of each worker in a step
"""

import contextlib
import itertools
import os
import time

import torch
from torch import distributed, nn
from torch.utils.data import Dataset

KIND = os.environ.get("ET_DEVICE", "cuda")
BATCH = int(os.environ.get("ET_BATCH", "64"))
WARM_STEPS, STEPS = 30, 100


class Numbers(Dataset):
    """Which image a sample is, so that loading costs next to nothing."""

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return index


def network():
    with contextlib.suppress(ImportError):
        from torchvision.models import resnet50
        return resnet50(), 224, 1000
    from resnet import CLASSES, resnet18
    return resnet18(), 32, CLASSES


def synchronize():
    if KIND == "cuda":
        torch.cuda.synchronize()


class Trainer:
    def __init__(self):
        torch.manual_seed(0)
        model, size, classes = network()
        self.model = model.to(KIND, memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.images = torch.randn(4 * BATCH, 3, size, size, device=KIND).to(memory_format=torch.channels_last)
        self.labels = torch.randint(0, classes, (4 * BATCH,), device=KIND)
        self.loss_of = nn.CrossEntropyLoss()
        self.done = 0

    def step(self, model, numbers):
        chosen = numbers.to(KIND) % len(self.labels)
        self.optimizer.zero_grad()
        with torch.autocast(KIND, dtype=torch.bfloat16):
            loss = self.loss_of(model(self.images[chosen]), self.labels[chosen])
        loss.backward()
        self.optimizer.step()
        self.done += 1
        if self.done == WARM_STEPS:
            synchronize()
            self.begin = time.monotonic()
        if self.done == WARM_STEPS + STEPS:
            synchronize()
            self.seconds = time.monotonic() - self.begin

    def report(self):
        print(f"steps_per_s={STEPS / self.seconds:.4f}", flush=True)


def with_ddp():
    rank = int(os.environ["RANK"])
    os.environ["NCCL_HOSTID"] = f"ddp-{rank}"  # both ranks have the same GPU, which NCCL refuses within one host
    if KIND == "cuda":
        torch.cuda.set_device(0)
    distributed.init_process_group("nccl" if KIND == "cuda" else "gloo")
    trainer = Trainer()
    model = nn.parallel.DistributedDataParallel(trainer.model, gradient_as_bucket_view=True)
    sampler = torch.utils.data.distributed.DistributedSampler(Numbers())
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=BATCH, sampler=sampler)
    for numbers in itertools.islice(loader, WARM_STEPS + STEPS):
        trainer.step(model, numbers)
    if rank == 0:
        trainer.report()
    distributed.destroy_process_group()


def with_elastictrain():
    import elastictrain.torch

    if KIND == "cuda":
        torch.cuda.set_device(0)
    trainer = Trainer()
    workers = int(os.environ.get("WORLD_SIZE", "2"))
    run = elastictrain.torch.elastic(trainer.model, trainer.optimizer, Numbers(), batch=workers * BATCH, epochs=1000,
                                     max_steps=WARM_STEPS + STEPS, leave="return")
    for _ in run.epochs():
        for numbers in run:
            trainer.step(trainer.model, numbers)
    if run.is_first:
        trainer.report()


if __name__ == "__main__":
    with_ddp() if "TORCHELASTIC_RUN_ID" in os.environ else with_elastictrain()
