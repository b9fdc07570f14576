#!/usr/bin/env python3
"""Steps of ResNet-50 or GPT-2 in mixed precision on data that is on the device, with DDP or with elastictrain.torch, and where
their time goes. A launcher (torchrun, `elastictrain run`) starts one side; a process alone measures several in turn.

  gpu_step.py SIDE[,SIDE…] [--package NAME=FOLDER]…      SIDE: ddp, elastictrain, or another version of the package by NAME

A line for each side and round: steps_per_s, samples (of this worker in a step), and in ms, medians of the device's clock: step,
pass (forward and backward), serial (to the return of backward(): what is left of the sums), update, idle (to the next step).
With --trace the last steps, which are not measured, are in FOLDER/SIDE-MODEL.json.gz, for a browser's chrome://tracing.
"""

import argparse
import contextlib
import importlib
import itertools
import os
import statistics
import sys
import tempfile
import time
import traceback

import torch
from torch import distributed, nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

TRACED_STEPS = 3


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sides", type=lambda text: text.split(","))
    parser.add_argument("--package", action="append", default=[], type=lambda text: text.split("=", 1), metavar="NAME=FOLDER")
    parser.add_argument("--model", choices=["resnet50", "gpt"], default="resnet50")
    parser.add_argument("--batch", type=int, help="samples of each worker in a step (64 images, 8 texts)")
    parser.add_argument("--bfloat16", action="store_true", help="parameters and gradients of 16 bits")
    parser.add_argument("--compile", default="", metavar="MODE", help="of torch.compile()")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--warm", type=int, default=15)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--trace", metavar="FOLDER")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--small", action="store_true", help="tries the program on a CPU")
    options = parser.parse_args()
    options.batch = options.batch or {"resnet50": 64, "gpt": 8}[options.model]
    options.all_steps = options.warm + options.steps + (TRACED_STEPS if options.trace else 0)
    return options


# --- Models

class Bottleneck(nn.Module):
    def __init__(self, inputs, middle, stride):
        super().__init__()
        outputs = 4 * middle
        self.own = nn.Sequential(
            nn.Conv2d(inputs, middle, 1, bias=False), nn.BatchNorm2d(middle), nn.ReLU(inplace=True),
            nn.Conv2d(middle, middle, 3, stride, 1, bias=False), nn.BatchNorm2d(middle), nn.ReLU(inplace=True),
            nn.Conv2d(middle, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.short = nn.Identity() if inputs == outputs and stride == 1 else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return torch.relu(self.own(x) + self.short(x))


def resnet50(small):
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for middle, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for number in range(1 if small else count):
            layers.append(Bottleneck(inputs, middle, stride if number == 0 else 1))
            inputs = 4 * middle
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        texts, length, width = x.shape
        shape = (texts, length, self.heads, width // self.heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.qkv(self.first(x)).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + self.out(mixed)
        return x + self.down(functional.gelu(self.up(self.second(x))))


class Gpt(nn.Module):
    """GPT-2 of 124 million parameters."""

    def __init__(self, words=50304, width=768, layers=12, length=1024):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width, 12) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.words(x) + self.places.weight[:x.shape[1]])))


# --- A step

class Numbers(Dataset):
    """Which sample of the device's it is, so that loading costs next to nothing."""

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return index


class Mark:
    """A point in the device's work; on a CPU of the clock."""

    def __init__(self, kind):
        self._event = torch.cuda.Event(enable_timing=True) if kind == "cuda" else None
        if self._event is not None:
            self._event.record()
        self._s = time.perf_counter()

    def ms_until(self, later):
        return self._event.elapsed_time(later._event) if self._event is not None else 1000 * (later._s - self._s)


class Trainer:
    def __init__(self, options):
        torch.manual_seed(0)
        self.options, self.kind = options, options.device
        if options.model == "resnet50":
            self.model = resnet50(options.small).to(self.kind, memory_format=torch.channels_last)
            size = 32 if options.small else 224
            self.inputs = torch.randn(2 * options.batch, 3, size, size, device=self.kind).to(memory_format=torch.channels_last)
            self.labels = torch.randint(0, 1000, (2 * options.batch,), device=self.kind)
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        else:
            self.model = (Gpt(512, layers=2, length=64) if options.small else Gpt()).to(self.kind)
            length = 64 if options.small else 1024
            self.inputs = self.labels = torch.randint(0, 512, (2 * options.batch, length), device=self.kind)
            self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=self.kind == "cuda")
        if options.bfloat16:
            self.model.to(torch.bfloat16)
        self.marks = []  # of each step: its begin, the end of its pass, of backward(), of the update
        self.counts = set()  # samples in a step
        # The gradient that comes last is that of the parameter which is used first.
        next(self.model.parameters()).register_post_accumulate_grad_hook(self._pass_ends)
        self._pass_end = None

    def _pass_ends(self, _):
        self._pass_end = Mark(self.kind)

    def compiled(self, model):
        return torch.compile(model, mode=self.options.compile) if self.options.compile else model

    def loss(self, model, numbers):
        chosen = numbers.to(self.kind) % len(self.labels)
        with torch.autocast(self.kind, dtype=torch.bfloat16):
            return functional.cross_entropy(model(self.inputs[chosen]).flatten(0, -2), self.labels[chosen].flatten())

    def step(self, model, numbers):
        begin = Mark(self.kind)
        self.loss(model, numbers).backward()
        reduced = Mark(self.kind)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.marks.append((begin, self._pass_end, reduced, Mark(self.kind)))
        self.counts.add(len(numbers))

    def train(self, model, batches, side):
        """Through all of them."""
        with contextlib.ExitStack() as stack:
            for numbers in batches:
                if len(self.marks) == self.options.warm + self.options.steps:
                    stack.enter_context(self._traced(side))
                self.step(model, numbers)

    @contextlib.contextmanager
    def _traced(self, side):
        kinds = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (self.kind == "cuda")
        with profile(activities=kinds) as seen:
            yield
            self._synchronize()
        seen.export_chrome_trace(os.path.join(self.options.trace, f"{side}-{self.options.model}.json.gz"))

    def _synchronize(self):
        if self.kind == "cuda":
            torch.cuda.synchronize()

    def report(self, side, workers):
        self._synchronize()
        if self.counts != {self.options.batch}:
            raise RuntimeError(f"{side}: this worker had {sorted(self.counts)} samples in a step, not {self.options.batch}")
        measured = self.marks[self.options.warm:self.options.warm + self.options.steps]
        steps = list(zip(measured, measured[1:]))
        parts = {"step": [one[0].ms_until(two[0]) for one, two in steps],
                 "pass": [one[0].ms_until(one[1]) for one in measured],
                 "serial": [one[1].ms_until(one[2]) for one in measured],
                 "update": [one[2].ms_until(one[3]) for one in measured],
                 "idle": [one[3].ms_until(two[0]) for one, two in steps]}
        medians = " ".join(f"{name}_ms={statistics.median(values):.2f}" for name, values in parts.items())
        per_s = 1000 * len(steps) / sum(parts["step"])
        print(f"{side} {self.options.model}{' bfloat16' * self.options.bfloat16} compile={self.options.compile or 'no'} workers={workers} "
              f"samples={self.options.batch} steps_per_s={per_s:.4f} {medians}", flush=True)


# --- Sides

def with_ddp(options):
    join_group(options)
    trainer = Trainer(options)
    model = trainer.compiled(nn.parallel.DistributedDataParallel(trainer.model, gradient_as_bucket_view=True))
    loader = DataLoader(Numbers(), batch_size=options.batch, sampler=DistributedSampler(Numbers()))
    trainer.train(model, itertools.islice(loader, options.all_steps), "ddp")
    if distributed.get_rank() == 0:
        trainer.report("ddp", distributed.get_world_size())
    distributed.destroy_process_group()


def join_group(options):
    backend = "nccl" if options.device == "cuda" else "gloo"
    if "RANK" in os.environ:
        os.environ["NCCL_HOSTID"] = f"ddp-{os.environ['RANK']}"  # NCCL refuses two ranks of one host that share a GPU
        distributed.init_process_group(backend)
    else:
        store = distributed.FileStore(os.path.join(tempfile.mkdtemp(prefix="et-ddp-"), "store"), 1)
        distributed.init_process_group(backend, store=store, rank=0, world_size=1)


def with_elastictrain(options, side, folder=None):
    package = package_of(folder)
    trainer = Trainer(options)
    model = trainer.compiled(trainer.model)
    run = package.elastic(trainer.model, trainer.optimizer, Numbers(), batch=options.batch, epochs=1000, leave="return",
                          max_steps=options.all_steps,
                          warm_up=lambda numbers: trainer.loss(model, numbers).backward())
    sizes = []
    run.before_step(lambda: sizes.append(run.world_size))
    for _ in run.epochs():
        trainer.train(model, run, side)
    if run.is_first:
        trainer.report(side, sizes[-1])
    run.close()


def package_of(folder):
    """elastictrain.torch of the folder; None: as it is found."""
    for name in [name for name in sys.modules if name.split(".")[0] == "elastictrain"]:
        del sys.modules[name]
    sys.path[:0] = [folder] if folder else []
    try:
        importlib.invalidate_caches()
        return importlib.import_module("elastictrain.torch")
    finally:
        del sys.path[:1 if folder else 0]


def measure(options, side):
    packages = dict(options.package)
    if side == "ddp":
        with_ddp(options)
    else:
        with_elastictrain(options, side, packages.get(side))


def main():
    options = parse()
    if options.device == "cuda":
        torch.cuda.set_device(0)
    failed = 0
    for _ in range(options.rounds):
        for side in options.sides:
            try:
                measure(options, side)
            except Exception:  # the other sides are worth their time
                traceback.print_exc()
                failed = 1
            torch.compiler.reset()
            if options.device == "cuda":
                torch.cuda.empty_cache()
    return failed


if __name__ == "__main__":
    sys.exit(main())
