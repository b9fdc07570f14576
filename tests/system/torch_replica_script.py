"""A script of somebody who knows torchrun: FSDP2 over copies by parts, evaluation, a log, checkpoints. ET_FAULT: what cannot be.
ET_ASKS: rank 0 asks for the length of its loader. ET_DATA: data of its own, in several forms; what each process has trained on is in the files seen-PID, in which elastictrain has no part.
"""

import functools
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import torch_device

KIND = torch_device.kind()
FAULT = os.environ.get("ET_FAULT", "")
FOLDER = os.environ.get("ET_FOLDER", ".")
OWN_DATA = os.environ.get("ET_DATA", "")
EPOCHS = int(os.environ.get("ET_EPOCHS", "3"))
SHARDS = int(os.environ.get("ET_SHARDS", "3" if FAULT == "mesh" else "2"))
PAUSE_S = float(os.environ.get("ET_PAUSE_S", "0"))


def make_model():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(20, 33), nn.Tanh(), nn.Linear(33, 31), nn.LayerNorm(31), nn.Tanh(), nn.Linear(31, 1)).to(KIND)
    if FAULT == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    if FAULT == "fsdp1":
        from torch.distributed.fsdp import FullyShardedDataParallel
        return FullyShardedDataParallel(model)
    mesh = init_device_mesh(KIND, (2, SHARDS), mesh_dim_names=("replicate", "shard"))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    if FAULT != "no root":
        fully_shard(model, mesh=mesh)
    return model


class Container(torch.optim.Optimizer):
    """Of an optimizer for each of some groups; its own have nothing but parameters."""

    def __init__(self, groups):
        self.optimizers = [torch.optim.AdamW([group], lr=0.01) for group in groups]
        super().__init__([one for group in groups for one in group["params"]], {})

    def step(self):
        for optimizer in self.optimizers:
            optimizer.step()


def backward_in_parts(model, x, y):
    """A loss that is computed in parts: passes of the last layer for each, and one of the others behind them."""
    *others, head = model
    model.forward = lambda value: functools.reduce(lambda held, layer: layer(held), others, value)
    hidden = model(x)
    del model.forward
    inputs = hidden.detach().requires_grad_()
    losses = []
    for number, part in enumerate(torch.arange(len(x)).chunk(2)):
        head.set_requires_gradient_sync(number == 1)
        losses.append((head(inputs[part]) - y[part]).square().sum() / len(x))
        losses[-1].backward()
    hidden.backward(inputs.grad)
    return sum(losses)


class Slow:
    """A part of a checkpoint that takes its time."""

    def __reduce__(self):
        time.sleep(0.3)
        return int, ()


def sum_of_all(value):
    if FAULT != "as torchtitan":
        dist.all_reduce(value)
        return value
    return functional.wait_tensor(functional.all_reduce(value, "sum", dist.group.WORLD))


def whole_of(tensor):
    return getattr(tensor, "full_tensor", tensor.clone)()


def passed_on(batches):
    """As a bar of progress does."""
    for batch in batches:
        yield batch


def own_batches(samples, targets):
    """Divided by rank and world size, or drawn by each process."""
    for number in range(20):
        place = number * dist.get_world_size() + dist.get_rank() if OWN_DATA != "drawn" else int.from_bytes(os.urandom(4), "big")
        chosen = range(4 * place % 297, 4 * place % 297 + 4)
        yield samples[chosen], targets[chosen]


class Stream(IterableDataset):
    def __init__(self, samples, targets):
        self.samples, self.targets, self.rank, self.world_size = samples, targets, dist.get_rank(), dist.get_world_size()

    def __iter__(self):
        for place in range(self.rank, 20 * self.world_size, self.world_size):
            yield self.samples[4 * place:4 * place + 4], self.targets[4 * place:4 * place + 4]


class Feed:
    """Asked for each batch."""

    def __init__(self, samples, targets):
        self.samples, self.targets, self.place, self.world_size = samples, targets, dist.get_rank(), dist.get_world_size()

    def batch(self):
        place = self.place
        self.place += self.world_size
        if place >= 20 * self.world_size:
            self.place = dist.get_rank()
            raise StopIteration
        return self.samples[4 * place:4 * place + 4], self.targets[4 * place:4 * place + 4]


def evaluate(model, samples, targets):
    model.eval()
    with torch.no_grad():
        error = (model(samples.to(KIND)) - targets.to(KIND)).square().mean()
    model.train()
    dist.all_reduce(error)
    return error.item() / dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch_device.use(rank)
    model = make_model()
    parts = [[one for one in model.parameters() if (one.dim() > 1) is is_matrix] for is_matrix in (True, False)]
    optimizer = (Container if FAULT == "as torchtitan" else functools.partial(torch.optim.AdamW, lr=0.01))([{"params": part} for part in parts])
    if FAULT == "assigned":
        model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()}, assign=True)
    generator = torch.Generator().manual_seed(3)
    samples, targets = torch.randn(301, 20, generator=generator), torch.randn(301, 1, generator=generator)
    dataset = TensorDataset(samples, targets)
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=4, sampler=sampler)
    log = open(os.path.join(FOLDER, f"log-{rank}.txt"), "w", buffering=1)
    norms = loss = 0
    seen = os.open(os.path.join(FOLDER, f"seen-{os.getpid()}"), os.O_CREAT | os.O_WRONLY) if OWN_DATA else None
    feed = Feed(samples, targets)
    grad_accum_steps, batches = int(os.environ.get("ET_ACCUMULATION", "1")), 0
    evaluate(model, samples, targets)

    def train(epoch, x, y):
        nonlocal norms, loss, batches
        batches += 1
        number = int((samples == x[0]).all(1).nonzero()[0]) // 4
        x, y = x.to(KIND), y.to(KIND)
        is_last = batches % grad_accum_steps == 0 and FAULT != "accumulation"
        if FAULT == "accumulation" or os.environ.get("ET_NO_SYNC"):
            model.set_requires_gradient_sync(is_last)
        if FAULT == "as torchtitan":
            count = sum_of_all(torch.tensor(len(x)))  # between the batch and its pass
            assert count == len(x) * dist.get_world_size(), count
            loss = backward_in_parts(model, x, y)
        else:
            loss = (model(x) - y).square().mean()
            (loss / grad_accum_steps).backward()
        if not is_last:
            return
        if FAULT == "counts":
            count = 100 + (1000 * y[0, 0]).long() % 50
            dist.all_reduce(count)
            for parameter in model.parameters():
                parameter.grad.mul_(200 / count)
        clip = functools.partial(nn.utils.clip_grad_norm_, model.parameters(), 0.5)
        norms = norms + (whole_of(clip()) if FAULT == "whole norms" else clip())
        for group in [group for one in getattr(optimizer, "optimizers", [optimizer]) for group in one.param_groups]:
            group["lr"] = 0.01 / (1 + epoch // 3)  # by what a newcomer does not know before this step's update
        optimizer.step()
        optimizer.zero_grad()
        if seen is not None:
            os.write(seen, f"{epoch} {number}\n".encode())
        time.sleep(PAUSE_S)

    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        if rank == 0 and "ET_ASKS" in os.environ:
            len(loader)
        if OWN_DATA in ("next", "called"):
            one_by_one = own_batches(samples, targets)
            while True:
                try:
                    x, y = next(one_by_one) if OWN_DATA == "next" else feed.batch()
                except StopIteration:
                    break
                train(epoch, x, y)
        else:
            streamed = DataLoader(Stream(samples, targets), batch_size=None)
            for x, y in passed_on(loader) if OWN_DATA == "" else streamed if OWN_DATA == "streamed" else own_batches(samples, targets):
                train(epoch, x, y)
        shown = sum_of_all(loss.detach().clone())
        error = evaluate(model, samples, targets)
        whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
        dcp.save({"model": get_model_state_dict(model)}, checkpoint_id=os.path.join(FOLDER, "parts"))
        log.write(f"epoch {epoch}\n")
        with pathlib.Path(FOLDER, f"appended-{rank}.txt").open("a") as appended:
            appended.write(f"epoch {epoch}\n")
        if rank == 0:
            print(f"epoch {epoch}: error {error:.6f}, norms {float(whole_of(norms)):.6f}", flush=True)
            print(f"epoch {epoch}: loss {shown.item() / dist.get_world_size():.6f}", flush=True)
            torch.save({name: value.cpu() for name, value in whole.items()}, os.path.join(FOLDER, "whole.pt"))
        if rank == 0 and FAULT == "looks at what it saved":
            torch.save(Slow(), os.path.join(FOLDER, f"slow-{epoch}.pt"))
            print(f"saved {os.path.getsize(os.path.join(FOLDER, f'slow-{epoch}.pt'))} bytes")
    dist.destroy_process_group()
    print(f"rank {rank} is done", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
