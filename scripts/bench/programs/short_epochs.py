#!/usr/bin/env python3
"""A plain DDP script of many short epochs: three steps of 40 ms each and 20 ms of its own code behind them, all asleep."""

import time

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

STEP_S, BEHIND_S, STEPS, BATCH = 0.04, 0.02, 3, 8


class Slow(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 1)

    def forward(self, inputs):
        time.sleep(STEP_S)
        return self.inner(inputs)


def main():
    distributed.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(Slow())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    # As many samples as two workers use in so many steps.
    data = TensorDataset(torch.randn(2 * STEPS * BATCH, 4), torch.randn(2 * STEPS * BATCH, 1))
    loader = DataLoader(data, batch_size=BATCH, shuffle=True)
    for _ in range(1 << 20):
        for inputs, targets in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
        time.sleep(BEHIND_S)


if __name__ == "__main__":
    main()
