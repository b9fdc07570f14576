"""A script with DistributedDataParallel that does much behind its update: averages of the model, a scaler, a rate, sums of losses.
ET_CASE names what is special about it. Its last line says what became of all of that."""

import copy
import hashlib
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

CASE = os.environ.get("ET_CASE", "")
EPOCHS = 4


class Adding(torch.optim.SGD):
    """Keeps the sum of all gradients in its groups, and makes its momentum from it."""

    def step(self, closure=None):
        for group in self.param_groups:
            gradients = [parameter.grad for parameter in group["params"] if parameter.grad is not None]
            group["sum"] = group.get("sum", 0.0) + sum(float(gradient.abs().sum()) for gradient in gradients)
            group["momentum"] = 0.5 + 0.4 * group["sum"] / (10 + group["sum"])
        super().step(closure)


def make_optimizers(model):
    first, second = list(model[0].parameters()), [one for part in model[1:] for one in part.parameters()]
    if CASE == "two-optimizers":
        return [torch.optim.AdamW(first, lr=0.01), torch.optim.SGD(second, lr=0.05, momentum=0.9)]
    if CASE == "adding":
        return [Adding(first + second, lr=0.05)]
    return [torch.optim.AdamW(first + second, lr=0.01)]


def update(loss, optimizers, scaler):
    if scaler is None:
        loss.backward()
        optimizers[0].step()
        if len(optimizers) > 1:
            optimizers[1].step()
    else:
        scaler.scale(loss).backward()
        scaler.step(optimizers[0])
        scaler.update()


def blend(target, source):
    with torch.no_grad():
        for own, new in zip(target.parameters(), source.parameters()):
            own.lerp_(new, 0.1)


def digest_of(tensors):
    hashed = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        hashed.update(tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return hashed.hexdigest()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.rand(256, 8), torch.rand(256, 1))
    loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data))
    plain = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, 1))
    model = DDP(plain)
    optimizers = make_optimizers(plain)
    schedulers = [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99) for optimizer in optimizers]
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=3) if len(optimizers) == 1 else None
    average = AveragedModel(plain, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    own, total, updates = copy.deepcopy(plain), 0.0, 0
    for _ in range(EPOCHS):
        for x, y in loader:
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            update(loss, optimizers, scaler)
            if CASE == "exchange":
                dist.all_reduce(loss.detach().clone())
            average.update_parameters(plain)
            blend(own, plain)
            for scheduler in schedulers:
                scheduler.step()
            total, updates = total + float(loss.detach()), updates + 1
            time.sleep(0.05)
    rates = [group["lr"] for optimizer in optimizers for group in optimizer.param_groups]
    print(f"ends with {digest_of(plain.state_dict().values())}, averages {digest_of(average.parameters())} of "
          f"{int(average.n_averaged)} and {digest_of(own.parameters())}, rates {rates}, scaler "
          f"{scaler and scaler.state_dict()}, sum {total} of {updates}", flush=True)


if __name__ == "__main__":
    main()
