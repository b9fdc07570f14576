"""An unmodified script in which every worker makes a SummaryWriter and writes each epoch's number to it."""

import os

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter

from torch_script import make_model, read

EPOCHS = int(os.environ.get("ET_EPOCHS", "4"))


def main():
    torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = DataLoader(read("tra"), batch_size=32, shuffle=True)
    writer = SummaryWriter(os.environ["ET_SAVED"])
    for epoch in range(EPOCHS):
        for images, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
        writer.add_scalar("epoch", epoch, epoch)
        writer.add_scalars("both", {"epoch": epoch, "twice": 2 * epoch}, epoch)
        writer.flush()
    writer.close()


if __name__ == "__main__":
    main()
