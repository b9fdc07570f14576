#!/usr/bin/env python3
"""A convolutional network on handwritten digits, with torch's DistributedDataParallel.

  torchrun --nproc_per_node 2 digits_ddp.py tests/data/optdigits [EPOCHS]
"""

import sys

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from digits import EPOCHS, make_model, read, score


def main():
    distributed.init_process_group("gloo")
    train, test = read(sys.argv[1])
    epochs = int(sys.argv[2]) if len(sys.argv) > 2 else EPOCHS
    sampler = DistributedSampler(train)
    loader = DataLoader(train, batch_size=32, sampler=sampler)
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
        scheduler.step()
        if distributed.get_rank() == 0:
            print(f"epoch {epoch}: accuracy {score(model.module, test):.4f}", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
