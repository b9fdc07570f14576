"""A script in which the first rank prepares and the others wait, before the training: a file, a name for the run, a split of the
data. It ends when a file named ET_SAVED and ".stop" appears. ET_USES names a collective that only one rank makes."""

import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

SAVED = os.environ["ET_SAVED"]


def prepare():
    rank = dist.get_rank()
    if rank == 0:
        time.sleep(2)
        with open(f"{SAVED}.prepared", "x") as file:
            file.write("prepared")
    if os.environ.get("ET_USES") != "one-waits" or rank == 0:
        dist.barrier()
    with open(f"{SAVED}.prepared") as file:
        text = file.read()
    name = [f"run of process {os.getpid()}" if rank == 0 else None]
    dist.broadcast_object_list(name, src=0)
    starters = [None] * dist.get_world_size()
    dist.all_gather_object(starters, os.getpid())
    total = torch.ones(1)
    dist.all_reduce(total)
    return f"{text}; {name[0]}; began with {starters[0]}; {int(total)} workers"


def main():
    dist.init_process_group("gloo")
    print(f"found: {prepare()}", flush=True)
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(256, 4), torch.randn(256, 1))
    model = DDP(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    is_over = torch.zeros(1)
    while not is_over:
        for x, y in DataLoader(data, batch_size=16, sampler=DistributedSampler(data)):
            optimizer.zero_grad()
            ((model(x) - y) ** 2).mean().backward()
            optimizer.step()
        is_over.fill_(os.path.exists(f"{SAVED}.stop"))
        dist.all_reduce(is_over, op=dist.ReduceOp.MAX)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
