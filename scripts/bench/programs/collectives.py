"""The time of 8 MiB in each collective of torch.distributed: of a script that torchrun starts, with Gloo, and of the same script
under elastictrain. ET_PLACE: "step" (before a step's backward pass) or "update" (behind the update, where scripts log)."""

import os
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

STEPS, WARM = 14, 4
COUNT = (8 << 20) // 4  # float32


def calls(values):
    world = dist.get_world_size()
    parts, flat = [torch.empty_like(values) for _ in range(world)], torch.empty(world * len(values))
    shares = torch.empty(len(values) // world)
    return {
        "all_reduce": lambda: dist.all_reduce(values),
        "all_gather": lambda: dist.all_gather(parts, values),
        "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(flat, values),
        "broadcast": lambda: dist.broadcast(values, 0),
        "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(shares, values),
        "barrier": lambda: dist.barrier(),
        "all_gather_object": lambda: dist.all_gather_object([None] * world, {"loss": 1.0}),
    }


def measure(known, took):
    for name, call in known.items():
        dist.barrier()
        begin = time.perf_counter()
        try:
            call()
        except RuntimeError:  # what Gloo does not have
            continue
        took.setdefault(name, []).append(1000 * (time.perf_counter() - begin))


def main():
    dist.init_process_group("gloo")
    place, took = os.environ.get("ET_PLACE", "update"), {}
    known = calls(torch.ones(COUNT))
    model = DDP(torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(16 * STEPS * dist.get_world_size(), 8))
    for (x,) in DataLoader(data, batch_size=16, sampler=DistributedSampler(data)):
        if place == "step":
            measure(known, took)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        if place == "update":
            measure(known, took)
    if dist.get_rank() == 0:
        for name, times in took.items():
            print(f"took {name} {statistics.median(times[WARM:]):.4f} ms", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
