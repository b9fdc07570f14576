"""A script that knows nothing of elastictrain: DistributedDataParallel, DistributedSampler, a scheduler, and an evaluation
whose sums go over torch.distributed. ET_EPOCHS is its length; ET_USES names one thing that cannot be made elastic."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

DIGITS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "optdigits", "optdigits")
EPOCHS = int(os.environ.get("ET_EPOCHS", "4"))
USES = os.environ.get("ET_USES", "")


def read(part):
    with open(f"{DIGITS}.{part}") as file:
        rows = torch.tensor([[float(v) for v in line.split(",")] for line in file if line[0].isdigit()])
    return TensorDataset(rows[:, :64].reshape(-1, 1, 8, 8) / 16, rows[:, 64].long())


def make_model():
    return nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(512, 10))


def train(model, loader, optimizer):
    model.train()
    total, batches = 0.0, 0
    for images, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        total, batches = total + loss.item(), batches + 1
    return total / batches


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    hits = torch.zeros(2, dtype=torch.int64)
    for images, labels in loader:
        hits += torch.tensor([int((model(images).argmax(1) == labels).sum()), len(labels)])
    dist.all_reduce(hits)
    return hits.tolist()


def unusual(model):
    if USES == "group":
        dist.new_group([1])
    if USES == "two-models":
        DDP(make_model())


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    data, test = read("tra"), read("tes")
    model = DDP(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.9)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=32, sampler=sampler)
    test_loader = DataLoader(test, batch_size=64, sampler=DistributedSampler(test, shuffle=False))
    unusual(model)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        loss = train(model, loader, optimizer)
        scheduler.step()
        hits, seen = evaluate(model, test_loader)
        if dist.get_rank() == 0:
            print(f"epoch {epoch} loss {loss:.3f} accuracy {hits / seen:.4f} of {seen} world {dist.get_world_size()}", flush=True)
    print(f"rate {optimizer.param_groups[0]['lr']:.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
