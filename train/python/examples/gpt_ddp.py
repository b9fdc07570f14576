#!/usr/bin/env python3
"""A small GPT on a text, with torch's DistributedDataParallel.

  torchrun --nproc_per_node 2 gpt_ddp.py tests/data/tinyshakespeare/input.txt [STEPS]
"""

import sys

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from gpt import GPT, Text, loss_of


def main():
    distributed.init_process_group("gloo")
    text, steps = Text(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 500
    loader = DataLoader(text, batch_size=16, sampler=DistributedSampler(text))
    model = DistributedDataParallel(GPT(len(text.characters)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step, (codes, following) in zip(range(1, steps + 1), loader):
        optimizer.zero_grad()
        loss = loss_of(model, codes, following)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0 and distributed.get_rank() == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
