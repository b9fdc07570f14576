"""A loss over the batches of all workers, as published contrastive ones are: rank and number of workers are written down at the start.
ET_GATHER: "list" (an own tensor in a list that was gathered), "gradient" (torch's all_gather that has one) or "counts" (of each of 60
classes, for a log; the loss is over the own batch). ET_MARK: a file; where
it is not there, the worker of rank 1 makes it and is killed, in step 12 between the two exchanges of the pass."""

import os
import signal

import torch
import torch.distributed as dist
from torch.distributed.nn.functional import all_gather
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Both(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.images, self.texts = torch.nn.Linear(8, 4), torch.nn.Linear(6, 4)

    def forward(self, x, y):
        return self.images(x), self.texts(y)


class Loss:
    def __init__(self):
        self.rank, self.world, self.steps = dist.get_rank(), dist.get_world_size(), 0

    def gathered(self, own):
        if os.environ["ET_GATHER"] == "gradient":
            return torch.cat(all_gather(own))
        rows = [torch.zeros_like(own) for _ in range(self.world)]
        dist.all_gather(rows, own)
        rows[self.rank] = own
        return torch.cat(rows)

    def __call__(self, images, texts):
        self.steps += 1
        if os.environ["ET_GATHER"] == "counts":
            rows = [torch.zeros(60) for _ in range(dist.get_world_size())]
            dist.all_gather(rows, torch.ones(60))
            assert float(torch.stack(rows).sum()) == 60 * len(rows)
            return (images @ texts.T).square().mean()
        images = self.gathered(images)
        if self.steps == 12 and self.rank == 1:
            end_once()
        texts = self.gathered(texts)
        logits, labels = images @ texts.T, torch.arange(len(images))
        return cross_entropy(logits, labels) + cross_entropy(logits.T, labels)


def end_once():
    try:
        os.close(os.open(os.environ["ET_MARK"], os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(512, 8), torch.randn(512, 6))
    model, loss_of = DDP(Both()), Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    sampler = DistributedSampler(data)
    for epoch in range(1000):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, batch_size=4, sampler=sampler):
            optimizer.zero_grad()
            loss = loss_of(*model(x, y))
            loss.backward()
            optimizer.step()
            assert torch.isfinite(loss)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
