"""A script with DistributedDataParallel whose data are its own: random batches, a rate that it makes by hand. It ends behind the
step in which all workers see the file ET_SAVED and ".stop". ET_CASE names what is special about it.

Each worker says its rank and one in each step. The gradient of `word` is the mean of what was said, which says who was
averaged."""

import contextlib
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, TensorDataset

CASE = os.environ.get("ET_CASE", "")
STOP = os.environ["ET_SAVED"] + ".stop"


class Speaking(nn.Module):
    def __init__(self):
        super().__init__()
        self.line, self.word = nn.Linear(8, 1), nn.Parameter(torch.zeros(1))

    def forward(self, x, said):
        return self.line(x), self.word * said


def rate_of(iteration):
    return 0.1 / (1 + 0.01 * iteration)


class Numbers(IterableDataset):
    """A stream of one rank that knows its place, as an iterable, or with ET_CASE=carried-next as an iterator. It notes what was
    trained on, by the process."""

    def __init__(self, rank):
        self.name, self.count = rank, 0

    def __iter__(self):
        while True:
            yield self.draw()

    def draw(self):
        self.count += 1
        return torch.rand(16, 8)

    def note(self):
        with open(f"{STOP}-{os.getpid()}", "a", encoding="utf-8") as file:
            file.write(f"{self.name} {self.count}\n")

    def state_dict(self):
        return {"name": self.name, "count": self.count}

    def load_state_dict(self, state):
        self.name, self.count = state["name"], state["count"]


class NextNumbers(Numbers):
    def __iter__(self):
        return self

    def __next__(self):
        return self.draw()


def batches(numbers):
    """One after the other, without an end."""
    if CASE == "carried":
        yield from numbers
    if CASE == "carried-loader":
        yield from DataLoader(numbers, batch_size=None)
    if CASE == "carried-stateful":
        from torchdata.stateful_dataloader import StatefulDataLoader
        yield from StatefulDataLoader(numbers, batch_size=None)
    if CASE == "stateful":
        from torchdata.stateful_dataloader import StatefulDataLoader
        data = TensorDataset(torch.rand(512, 8))
        loader = StatefulDataLoader(data, batch_size=32, sampler=DistributedSampler(data))
        while True:
            for x, in loader:
                yield x
    while True:
        yield torch.rand(16, 8)


def learn(model, optimizer, x, numbers=None):
    """From two parts, of which the first is not averaged by itself, or from one."""
    parts = x.chunk(2) if CASE in ("no-sync", "flag") else [x]
    optimizer.zero_grad()
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        if CASE == "flag":
            model.require_backward_grad_sync = is_last
        with model.no_sync() if CASE == "no-sync" and not is_last else contextlib.nullcontext():
            output, word = model(part, dist.get_rank() + 1)
            ((nn.functional.mse_loss(output, part.sum(1, keepdim=True)) + word.sum()) / len(parts)).backward()
    if CASE.startswith("carried"):
        numbers.note()
    if CASE == "own-update":
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.01 * parameter.grad
    else:
        optimizer.step()


def is_over():
    seen = torch.tensor(float(os.path.exists(STOP)))
    dist.all_reduce(seen, op=dist.ReduceOp.MAX)
    return bool(seen)


class NoOptimizer:
    param_groups = ()

    def zero_grad(self):
        """There are no gradients before the first pass."""


def behave_oddly(optimizer):
    """What only a worker does that came later, in its fourth step. It counts them in a file, since a variable is taken over."""
    with open(f"{STOP}-{os.getpid()}", "a", encoding="utf-8") as file:
        file.write(".")
        if file.tell() != 4:
            return
    if CASE == "odd-rate":
        optimizer.param_groups[0]["weight_decay"] = 0.5
    elif CASE == "odd-call":
        dist.all_reduce(torch.zeros(3))


def train(model, optimizer):
    kind = NextNumbers if CASE == "carried-next" else Numbers
    numbers = kind(dist.get_rank()) if CASE.startswith("carried") else None
    iteration, unheard, last_world = 0, 0, dist.get_world_size()
    data = numbers if CASE == "carried-next" else batches(numbers)
    rounds = 0
    is_odd = os.environ.get("ELASTICTRAIN_WORKER_ID", "1") not in "12"
    while True:
        for group in optimizer.param_groups:
            group["lr"] = rate_of(iteration)
        learn(model, optimizer, next(data), numbers)
        heard, world = 2 * float(model.module.word.grad) - 1, dist.get_world_size()
        # A worker takes part in its first step without a word of its own.
        unheard += abs(heard - world) > 1e-4 and abs(heard - last_world) > 1e-4
        iteration, last_world = iteration + 1, world
        rounds += 2 if is_odd and CASE == "odd-count" else 1
        if is_odd and CASE.startswith("odd-"):
            behave_oddly(optimizer)
        time.sleep(0.02)
        if iteration % 5 == 0 and is_over():
            return iteration, unheard


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if CASE == "new-folder":
        os.mkdir(f"{STOP}-{rank}")
    torch.manual_seed(0)
    model = DDP(Speaking())
    optimizer = NoOptimizer() if CASE == "own-update" else torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    if CASE == "own-update":
        for x in (torch.rand(16, 8) for _ in range(5)):
            learn(model, optimizer, x)
        return
    if CASE == "own-gradients":
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        return
    if CASE == "branch" and os.environ.get("ELASTICTRAIN_WORKER_ID", "1") not in "12":
        iteration, unheard = train(model, optimizer)
    elif CASE == "comprehension":
        iteration, unheard = [train(model, optimizer) for _ in range(1)][0]
    else:
        iteration, unheard = train(model, optimizer)
    weights = " ".join(f"{float(value):.9f}" for value in model.module.line.weight.flatten())
    print(f"ends after {iteration} with {optimizer.param_groups[0]['lr']:.9f}, {unheard} unheard, {weights}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
