"""The training loop of torch_loops.py's case "module"."""

import torch.distributed as dist


def train(step, loader):
    """Returns the number of the last batch."""
    number = -1
    for number, batch in enumerate(loader):
        loss = step(batch)
        if number % 7 == 0:
            dist.all_reduce(loss)
    return number
