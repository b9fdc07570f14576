"""Patterns of PyTorch's own DDP examples, none of which knows of elastictrain. ET_PATTERN names one, ET_EPOCHS is its length;
with ET_SAVED it also ends after the epoch in which a file of that name and ".stop" appears."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, WeightedRandomSampler
from torch.utils.data.distributed import DistributedSampler

from torch_script import make_model, read

PATTERN = os.environ["ET_PATTERN"]
EPOCHS = int(os.environ.get("ET_EPOCHS", "3"))
SAVED = os.environ.get("ET_SAVED", "")
OPTIONS = {"unused": {"find_unused_parameters": True}, "static": {"static_graph": True}}


class Parts(nn.Module):
    """Only one of its heads is used in a step."""

    def __init__(self):
        super().__init__()
        self.body, self.heads, self.passes = nn.Linear(64, 32), nn.ModuleList([nn.Linear(32, 10), nn.Linear(32, 10)]), 0

    def forward(self, images):
        head = self.heads[0 if len(images) % 2 == 0 else 1]
        return head(torch.relu(self.body(images.flatten(1))))


class Stream(IterableDataset):
    def __iter__(self):
        return iter(read("tra"))


def make_loader(data):
    if PATTERN == "stream":
        return DataLoader(Stream(), batch_size=32)
    if PATTERN == "weighted":
        return DataLoader(data, batch_size=32, sampler=WeightedRandomSampler([1.0] * len(data), len(data)))
    return DataLoader(data, batch_size=32 if PATTERN != "accumulation" else 16, sampler=DistributedSampler(data))


def sharded(model):
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:  # before torch 2.6
        from torch.distributed._composable.fsdp import fully_shard
    return fully_shard(model)


def wrapped(model):
    if PATTERN == "fsdp":
        from torch.distributed.fsdp import FullyShardedDataParallel
        return FullyShardedDataParallel(model)
    if PATTERN == "fully-shard":
        return sharded(model)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model) if PATTERN == "sync-batchnorm" else model
    if PATTERN == "evaluation-mode":  # as models are that come from a hub
        model.eval()
    model = DDP(model, **OPTIONS.get(PATTERN, {}))
    if PATTERN == "hook":
        model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    return model


def update_by_closure(model, optimizer, images, labels):
    def closure():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        if PATTERN != "early":
            loss.backward()
        return loss

    optimizer.step(closure)


def update(model, optimizer, scaler, images, labels, number):
    if PATTERN in ("closure", "early"):
        return update_by_closure(model, optimizer, images, labels)
    if PATTERN == "accumulation" and number % 2 == 0:
        with model.no_sync():
            (nn.functional.cross_entropy(model(images), labels) / 2).backward()
        return
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=PATTERN == "mixed"):
        loss = nn.functional.cross_entropy(model(images).float(), labels) / (2 if PATTERN == "accumulation" else 1)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    if PATTERN == "logged" and number % 5 == 0:
        dist.all_reduce(loss.detach(), op=dist.ReduceOp.AVG)


def train(model, optimizer, scaler, loader):
    if PATTERN != "evaluation-mode":
        model.train()
    for number, (images, labels) in enumerate(loader):
        update(model, optimizer, scaler, images, labels, number)


def train_joined(model, optimizer, scaler, loader):
    if PATTERN == "join-class":
        from torch.distributed.algorithms.join import Join
        with Join([model]):
            return train(model, optimizer, scaler, loader)
    with model.join():
        return train(model, optimizer, scaler, loader)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = read("tra")
    model = wrapped(Parts() if PATTERN in ("unused", "static") else make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", enabled=PATTERN == "mixed")
    loader = make_loader(data)
    other = DataLoader(TensorDataset(*data[:640]), batch_size=32)
    for epoch in range(EPOCHS):
        if isinstance(loader.sampler, DistributedSampler):
            loader.sampler.set_epoch(epoch)
        if PATTERN == "zipped":
            train(model, optimizer, scaler, (batch for batch, _ in zip(loader, other)))
        (train_joined if PATTERN.startswith("join") else train)(model, optimizer, scaler, loader)
        if PATTERN == "alternating":
            train(model, optimizer, scaler, other)
        if SAVED and dist.get_rank() == 0:
            torch.save(model.module.state_dict(), f"{SAVED}.part")
            os.replace(f"{SAVED}.part", SAVED)
        dist.barrier()
        if SAVED:
            torch.load(SAVED)
            is_over = torch.tensor(os.path.exists(SAVED + ".stop"), dtype=torch.int32)
            dist.all_reduce(is_over, op=dist.ReduceOp.MAX)
            if is_over:
                break
    print(f"done {PATTERN} {dist.get_world_size()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
