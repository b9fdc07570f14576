"""A script with DistributedDataParallel that saves behind each of its ET_EPOCHS epochs: with ET_CASE=per-epoch the worker of rank 0
saves each into a file of its own, otherwise that with LOCAL_RANK 0 all into the file ET_SAVED; with ET_CASE=environment that with
RANK 0, kept in a variable, which also keeps the best of its scores, and a log that it begins in a new folder.

The weights count how often each sample was part of an update."""

import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from torch_counts import Counts
from torch_loops import SAMPLES

CASE = os.environ["ET_CASE"]
SAVED = os.environ["ET_SAVED"]


class Best:
    """Of the scores that one worker sees."""

    def __init__(self):
        self.score, self.seen = 0, 0


class Log:
    """A table that it begins anew when it is made, in a folder that it makes."""

    def __init__(self):
        os.makedirs(f"{SAVED}.log")
        self.file = open(os.path.join(f"{SAVED}.log", "table.csv"), "w", buffering=1)
        self.file.write("epoch,best\n")

    def add(self, epoch, best):
        self.file.write(f"{epoch},{best}\n")


def train(model, optimizer, scheduler, loader):
    for samples, in loader:
        optimizer.zero_grad()
        model(samples).mean().backward()
        gradient = model.module.counts.grad
        if gradient.any():
            gradient.div_(gradient.abs()[gradient != 0].min()).round_()
        optimizer.step()
        scheduler.step()
        time.sleep(0.04)


def main():
    dist.init_process_group("gloo")
    local_rank, rank = int(os.environ["LOCAL_RANK"]), dist.get_rank()
    saves = {"per-epoch": rank, "environment": int(os.environ["RANK"])}.get(CASE, local_rank) == 0
    best, log = Best(), Log() if saves and CASE == "environment" else None
    if saves:
        print(f"process {os.getpid()} saves", flush=True)
    data = TensorDataset(torch.arange(SAMPLES))
    model = DDP(Counts(SAMPLES))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    loader = DataLoader(data, batch_size=32, sampler=DistributedSampler(data))
    for epoch in range(int(os.environ.get("ET_EPOCHS", "8"))):
        loader.sampler.set_epoch(epoch)
        train(model, optimizer, scheduler, loader)
        if saves:
            best.score, best.seen = max(best.score, 100 + epoch), best.seen + 1
            torch.save(model.module.state_dict(), f"{SAVED}-{epoch}.pt" if CASE == "per-epoch" else SAVED)
            counts = model.module.counts.detach()
            print(f"the rate has changed {scheduler.last_epoch} times in {epoch + 1} epochs", flush=True)
            if log is not None:
                log.add(epoch, best.score)
            print(f"the best of {best.seen} is {best.score}", flush=True)
            print(f"process {os.getpid()} saved epoch {epoch} with {int(counts.min())} to {int(counts.max())}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
