#!/usr/bin/env python3
"""ResNet-18 on images, with torch's DistributedDataParallel.

  torchrun --nproc_per_node 2 resnet_ddp.py [EPOCHS]
"""

import sys

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from images import EPOCHS, Images, resnet18, score


def main():
    distributed.init_process_group("gloo")
    epochs = int(sys.argv[1]) if len(sys.argv) > 1 else EPOCHS
    torch.manual_seed(0)
    images = Images()
    sampler = DistributedSampler(images)
    loader = DataLoader(images, batch_size=32, sampler=sampler, num_workers=1)
    model = DistributedDataParallel(resnet18())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for pictures, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(pictures), labels).backward()
            optimizer.step()
        if distributed.get_rank() == 0:
            print(f"epoch {epoch}: accuracy {score(model.module):.3f}", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
