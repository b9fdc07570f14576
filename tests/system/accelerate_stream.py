"""A script with accelerate whose processes divide a stream among themselves. Each says which values it got."""

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.arange(64.0).split(1))


def main():
    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=False))
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.0001)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(Stream(), batch_size=4))
    got = []
    for values in loader:
        optimizer.zero_grad()
        accelerator.backward(model(values).mean())
        optimizer.step()
        got += values.flatten().tolist()
    print("got", *map(int, got), flush=True)


if __name__ == "__main__":
    main()
