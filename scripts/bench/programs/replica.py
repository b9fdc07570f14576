#!/usr/bin/env python3
"""A small GPT (8.9 million parameters, 107 MB with the optimizer) that FSDP2 divides among two processes:
replica.py static|elastic|large|read [DIRECTORY PROCESSES]

static: torchrun's processes, on a mesh of copies by two parts where there are more than two. Each completed step is a line of JSON
in $RUN_DIR, as of resnet.py. elastic: replicas of two processes. large: the same with 88.8 million parameters, 1.07 GB. read: the
newest checkpoint of that in the directory, by so many processes; prints how many tensors have the values that are in its file."""

import json
import os
import sys
import time

import elastictrain.torch

here = elastictrain.torch.replica(int(sys.argv[3]) if sys.argv[1] == "read" else 2) if sys.argv[1] != "static" else None

import torch  # noqa: E402
from torch import distributed, nn  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.nn.functional import cross_entropy, scaled_dot_product_attention  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402
from torch.utils.data.distributed import DistributedSampler  # noqa: E402

WIDTH, HEADS, LAYERS, LENGTH, WORDS, SAMPLES, BATCH, EPOCHS = 384, 6, 5, 16, 256, 8192, 2, 1000
if sys.argv[1] in ("large", "read"):
    WIDTH, HEADS, LAYERS = 1024, 8, 7


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.heads, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        batch, length, _ = x.shape
        parts = self.heads(self.before(x)).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        x = x + self.out(scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).reshape(x.shape))
        return x + self.wide(self.between(x))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.blocks = nn.Embedding(WORDS, WIDTH), nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, x):
        x = self.words(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def divided(mesh):
    torch.manual_seed(0)
    model = Gpt()
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def texts():
    words = torch.randint(0, WORDS, (SAMPLES, LENGTH + 1), generator=torch.Generator().manual_seed(1))
    return TensorDataset(words[:, :-1].contiguous(), words[:, 1:].contiguous())


def train(model, optimizer, x, y):
    optimizer.zero_grad()
    cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
    optimizer.step()


def static():
    distributed.init_process_group("gloo")
    size = distributed.get_world_size()
    mesh = (init_device_mesh("cpu", (2,)) if size == 2 else
            init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("replicate", "shard")))
    model, optimizer = divided(mesh)
    dataset = texts()
    loader = DataLoader(dataset, batch_size=BATCH, sampler=DistributedSampler(dataset))
    step = 0
    with open(os.path.join(os.environ["RUN_DIR"], f"steps-{os.getpid()}.jsonl"), "a", buffering=1) as log:
        for _ in range(EPOCHS):
            for x, y in loader:
                train(model, optimizer, x, y)
                step += 1
                log.write(json.dumps({"t": time.monotonic(), "step": step, "world": size, "pid": os.getpid()}) + "\n")


def elastic():
    model, optimizer = divided(init_device_mesh("cpu", (here.size,)))
    run = elastictrain.torch.elastic(model, optimizer, texts(), batch=BATCH, epochs=EPOCHS)
    for _ in run.epochs():
        for x, y in run:
            train(model, optimizer, x, y)


def read():
    from elastictrain.torch import checkpoint
    from elastictrain.torch._checkpoint_reader import newest
    from torch.distributed import checkpoint as torch_checkpoint
    model, _ = divided(init_device_mesh("cpu", (here.size,)))
    torch_checkpoint.load({"model": model.state_dict()}, storage_reader=checkpoint.Reader(sys.argv[2]))
    file = checkpoint.File(newest(sys.argv[2]))
    whole = {name: value.full_tensor() for name, value in model.state_dict().items()}
    if here.index == 0:
        print(f"equal={sum(torch.equal(value, file.whole(name)) for name, value in whole.items())} of={len(whole)}", flush=True)


if __name__ == "__main__":
    {"static": static, "elastic": elastic, "large": elastic, "read": read}[sys.argv[1]]()
