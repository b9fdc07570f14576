"""A script that knows nothing of elastictrain and whose epochs have one step each: whoever joins does so at an epoch's end.
After each epoch all workers compare its number and those of its batches, until the run is stopped."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset


def main():
    dist.init_process_group("gloo")
    model = DDP(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.randn(32, 4), torch.randn(32, 1)), batch_size=32, shuffle=True)
    for epoch in range(1 << 20):
        numbers = []
        for number, (x, y) in enumerate(loader):
            numbers.append(number)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        seen = [None] * dist.get_world_size()
        dist.all_gather_object(seen, (epoch, numbers))
        assert all(where in ((epoch, [0]), (epoch, [])) for where in seen), f"the workers had {seen}"


if __name__ == "__main__":
    main()
