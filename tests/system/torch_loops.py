"""A script with DistributedDataParallel that goes through its training loader in an own way, named by ET_CASE. It ends behind the
epoch in which all workers see the file ET_SAVED and ".stop", and each worker tells then where it is.

The weights count how often each sample was part of an update."""

import contextlib
import copy
import itertools
import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, Sampler, TensorDataset

import torch_loop_module
from torch_counts import Counts

CASE = os.environ.get("ET_CASE", "")
STOP = os.environ["ET_SAVED"] + ".stop"
SAMPLES = 480
ACCUMULATION_STEPS = {"accumulate": 2, "accumulate-else": 4}.get(CASE, 1)


class Average(nn.Module):
    """As large as a model that is worth one."""

    def __init__(self, model):
        super().__init__()
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.register_buffer("large", torch.zeros(1 << 20))


class Descending(Sampler):
    def __init__(self, size):
        self.size = size

    def __iter__(self):
        return iter(range(self.size - 1, -1, -1))

    def __len__(self):
        return self.size


class Prefetcher:
    """Has the next batch when it gives one."""

    def __init__(self, loader):
        self.batches = iter(loader)
        self.preload()

    def preload(self):
        self.ahead = next(self.batches, None)

    def next(self):
        batch = self.ahead
        self.preload()
        return batch


class Script:
    def __init__(self):
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.model = DDP(Counts(SAMPLES))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1.0)
        data = TensorDataset(torch.arange(SAMPLES))
        self.sampler = Descending(SAMPLES) if CASE == "descending" else DistributedSampler(data, shuffle=CASE != "ordered")
        self.loader = DataLoader(data, batch_size=32, sampler=self.sampler)
        self.epoch, self.last, self.seen = 0, 0, []
        self.average, self.total = Average(self.model.module) if CASE == "average" else None, 0.0

    def step(self, batch):
        """Adds one for each sample of the step, whatever their number."""
        samples, = batch
        if self.total:
            held = self.average.model.counts.double().sum()
            assert held == self.total, f"{held}, counted {self.total}"
        self.optimizer.zero_grad()
        everything = self.of_all(samples) if CASE == "contrast" else samples
        loss = self.model(samples).mean()
        loss.backward()
        gradient = self.model.module.counts.grad
        counted = gradient.nonzero().flatten()
        is_alone = len(counted) == len(samples) and dist.get_world_size() > 1  # in the pass before it is a member
        has_none = samples.equal(torch.arange(len(samples)))  # of the step: these are the first of the data, in order
        if CASE == "contrast" and not has_none and not is_alone:
            assert everything.unique().equal(counted), f"{everything} for a step of {counted}"
        if CASE == "skip-alone" and not is_alone:
            assert abs(float(gradient.sum()) + 1) < 1e-3, "the mean is that of the samples with which a pass was made"
        if gradient.any():
            gradient.div_(gradient.abs()[gradient != 0].min()).round_()
        if CASE in ("ordered", "descending"):
            self.seen.append((-gradient).nonzero().flatten().tolist())
        self.optimizer.step()
        if self.average is not None:
            self.follow()
        time.sleep(0.02)
        return loss.detach()

    def follow(self):
        """What the average holds and what the script counts go the same way."""
        counts = self.model.module.counts.detach()
        self.average.model.counts.add_(counts)
        self.total += float(counts.double().sum())
        held = self.average.model.counts.double().sum()
        assert held == self.total, f"{held} behind the update, counted {self.total}"

    def of_all(self, samples):
        """The batches of all workers, as a contrastive loss has them: with its own in the place of the rank that it wrote down."""
        own = torch.full((32, 1), -1)
        own[:len(samples), 0] = samples
        gathered = [torch.zeros_like(own) for _ in range(self.world_size)]
        dist.all_gather(gathered, own)
        gathered[self.rank] = own
        everything = torch.cat(gathered).flatten()
        return everything[everything >= 0]

    def train(self):
        """One epoch."""
        if CASE == "module":
            self.last = torch_loop_module.train(self.step, self.loader)
        elif CASE == "length":
            self.with_length()
        elif CASE == "announced":
            self.as_announced()
        elif CASE.startswith("accumulate"):
            self.accumulate()
        elif CASE == "prefetch":
            prefetcher = Prefetcher(self.loader)
            while (batch := prefetcher.next()) is not None:
                self.step(batch)
        else:
            for number, batch in enumerate(self.loader):
                if CASE.startswith("skip") and self.skips(number):
                    continue
                self.step(batch)
                if CASE == "break" and number == 2:
                    break

    def skips(self, number):
        """Whether the batch is left out: by all, as one of them wants it; or by one alone, once."""
        if CASE == "skip-alone":
            is_wanted = dist.get_rank() == 1 and self.epoch == 2 and number == 3 and not os.path.exists(STOP + "ped")
            if is_wanted:
                with open(STOP + "ped", "w"):
                    pass
            return is_wanted
        is_wanted = torch.tensor(float(number % 4 == 2 and dist.get_rank() == 0))
        dist.all_reduce(is_wanted, op=dist.ReduceOp.MAX)
        return bool(is_wanted)

    def with_length(self):
        last = len(self.loader) - 1
        for number, batch in enumerate(self.loader):
            loss = self.step(batch)
            if number == last:
                dist.all_reduce(loss)
            self.last = number
        print(f"epoch of {self.last + 1} batches has {len(self.loader)}", flush=True)

    def accumulate(self):
        for number, (samples,) in enumerate(self.loader):
            is_whole = number % 2 == 1
            with contextlib.nullcontext() if is_whole or CASE == "accumulate-unnamed" else self.model.no_sync():
                (self.model(samples).mean() / 2).backward()
            if is_whole:
                gradient = self.model.module.counts.grad
                gradient.div_(gradient.abs()[gradient != 0].min()).round_()
                self.optimizer.step()
                self.optimizer.zero_grad()
                time.sleep(0.02)
        self.last = number

    def as_announced(self):
        """Computes from the length at the begin of the epoch, as timm does."""
        batches = len(self.loader)
        parts = [1] * batches
        for number, batch in enumerate(self.loader):
            self.step(batch)
            self.last = parts[number]
        print(f"epoch of {batches} batches had {number + 1}", flush=True)

    @torch.no_grad()
    def accuracy(self):
        self.model.eval()
        seen = torch.tensor(float(sum(len(samples) for samples, in self.loader)))
        self.model.train()
        dist.all_reduce(seen)
        assert SAMPLES <= seen < SAMPLES + dist.get_world_size(), f"{seen} of {SAMPLES} samples"

    def between(self):
        if CASE == "accuracy":
            self.accuracy()
        if self.seen:
            samples = [sample for step in self.seen for sample in (step if CASE == "ordered" else step[::-1])]
            assert samples == list(range(SAMPLES))[::1 if CASE == "ordered" else -1], f"the order was {samples}"
            self.seen = []

    def is_over(self):
        seen = torch.tensor(float(os.path.exists(STOP)))
        dist.all_reduce(seen, op=dist.ReduceOp.MAX)
        return bool(seen)

    def run(self):
        if CASE == "peek":
            samples, = next(iter(self.loader))
            assert samples.shape == (32,)
        while True:
            if hasattr(self.sampler, "set_epoch"):
                self.sampler.set_epoch(self.epoch)
            self.train()
            self.between()
            self.epoch += 1
            if self.is_over():
                return

    def run_in_cycle(self):
        batches = itertools.cycle(self.loader)
        for number in itertools.count():
            self.step(next(batches))
            self.last = number
            if number % 10 == 9 and self.is_over():
                return


def worker(rank):
    print(f"worker {rank}", flush=True)


def main():
    if CASE == "spawn":
        torch.multiprocessing.spawn(worker, nprocs=2)
    dist.init_process_group("gloo")
    script = Script()
    (script.run_in_cycle if CASE == "cycle" else script.run)()
    counts = script.model.module.counts.detach()
    print(f"ends in epoch {script.epoch}, {script.last}, counted {int(counts.min())} to {int(counts.max())}, {int(counts.sum())} in all",
          flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
