"""A DDP script whose weights count how often each sample was part of an update, and which shares a loss behind each update.

ET_EPOCHS is its length. Worker 1 is killed at ET_FAULT_STEP, behind its update and before it takes part in the exchange."""

import os
import signal

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset

from torch_counts import Counts

SAMPLES = 640
EPOCHS = int(os.environ.get("ET_EPOCHS", "3"))
FAULT_STEP = int(os.environ.get("ET_FAULT_STEP", "0"))


def update(model, optimizer):
    """Adds one for each sample of the step, whatever their number."""
    gradient = model.module.counts.grad
    if gradient is not None and gradient.any():
        gradient.div_(gradient.abs()[gradient != 0].min()).round_()
    optimizer.step()


def main():
    dist.init_process_group("gloo")
    model = DDP(Counts(SAMPLES))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    loader = DataLoader(TensorDataset(torch.arange(SAMPLES)), batch_size=32, shuffle=True)
    steps = 0
    for _ in range(EPOCHS):
        for samples, in loader:
            optimizer.zero_grad()
            loss = model(samples).mean()
            loss.backward()
            update(model, optimizer)
            steps += 1
            if steps == FAULT_STEP and os.environ["ELASTICTRAIN_WORKER_ID"] == "1":
                os.kill(os.getpid(), signal.SIGKILL)
            dist.all_reduce(loss.detach())
    counts = model.module.counts.detach()
    print(f"counted {int(counts.min())} to {int(counts.max())} after {EPOCHS} epochs", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
