#!/usr/bin/env python3
"""Programs of runs with elastictrain.torch: elastic.py NAME

accuracy digits|gpt DATA   one of the examples' networks on a global batch of fixed size. ET_SEED chooses the order of the samples
                           and the first values; steps of the digits are stretched, so that changes take place. The result is a
                           note of the run: accuracy in %, or the loss of a part held out
overhead package|bare      steps of about 20 ms of one network, with the package or by the bare calls
stalls                     short steps in which one worker at a time does something that takes STALL_S, while the others wait for
                           it: a new worker's first pass compiles, its loader sleeps, the first worker evaluates. Each end is a
                           note of the run
"""

import os
import sys
import time

import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../train/python/examples"))

import digits  # noqa: E402
import elastictrain.torch  # noqa: E402
import gpt  # noqa: E402


# --- accuracy

EPOCHS, GPT_STEPS, BATCH = 8, 150, 64
STRETCH_S = 0.04  # of a step of about 0.01 s


def started_anew(model, seed):
    """The examples make one model; each seed gets another."""
    torch.manual_seed(seed)
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    return model


def train_digits(data, seed):
    train, test = digits.read(data)
    model = started_anew(digits.make_model(), seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    run = elastictrain.torch.elastic(model, optimizer, train, batch=BATCH, epochs=EPOCHS, seed=seed,
                                     state={"scheduler": scheduler})
    for _ in run.epochs():
        for images, labels in run:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            time.sleep(STRETCH_S)
        scheduler.step()
    return run, 100 * digits.score(model, test)


def train_gpt(data, seed):
    text = gpt.Text(data)
    held_out = torch.utils.data.default_collate([text[index] for index in range(len(text) - 200, len(text))])
    model = started_anew(gpt.GPT(len(text.characters)), seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    part = torch.utils.data.Subset(text, range(len(text) - 200))
    run = elastictrain.torch.elastic(model, optimizer, part, batch=BATCH, max_steps=GPT_STEPS, seed=seed)
    for codes, following in run:
        optimizer.zero_grad()
        gpt.loss_of(model, codes, following).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return run, float(gpt.loss_of(model, *held_out))


def accuracy(model, data):
    ended, result = {"digits": train_digits, "gpt": train_gpt}[model](data, int(os.environ["ET_SEED"]))
    ended.note("result", result)


# --- overhead

WIDTH, LAYERS, SMALL_BATCH = 512, 8, 32


class Numbers(torch.utils.data.Dataset):
    def __init__(self, width):
        self.inputs = torch.randn(64, width, generator=torch.Generator().manual_seed(1))
        self.stalls_at, self.stall_s = float("inf"), 0.0

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        if time.monotonic() > self.stalls_at:
            self.stalls_at = float("inf")
            time.sleep(self.stall_s)
        return self.inputs[index % 64]


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(*(layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())))


def bare(model, optimizer, data):
    """One buffer holds all gradients, and nothing but parameters is shared."""
    parameters = list(model.parameters())
    gradient = torch.zeros(sum(parameter.numel() for parameter in parameters))
    for parameter, part in zip(parameters, gradient.split([parameter.numel() for parameter in parameters])):
        parameter.grad = part.view(parameter.shape)
    session = elastictrain.Session()
    for number, parameter in enumerate(parameters):
        session.share_state(str(number), parameter.detach())
    session.set_data(sample_count=len(data), batch=SMALL_BATCH)
    go = session.start()
    while go and (batch := session.next_batch()) is not None:
        gradient.zero_()
        model(torch.stack([data[index] for index in batch.samples or range(SMALL_BATCH)])).square().mean().backward()
        session.all_reduce(gradient)
        optimizer.step()
        session.commit_step()


def package(model, optimizer, data):
    run = elastictrain.torch.elastic(model, optimizer, data, batch=SMALL_BATCH)
    for inputs in run:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()


def overhead(side):
    model = make_model()
    {"package": package, "bare": bare}[side](model, torch.optim.SGD(model.parameters(), lr=1e-3), Numbers(WIDTH))


# --- stalls

AFTER_STEPS = 30  # between two of them


def compile_something(stall_s):
    """As a compiler does: computes, and lets nobody else in this process compute."""
    until = time.monotonic() + stall_s
    while time.monotonic() < until:
        sum(range(1000))


def stalls():
    torch.manual_seed(0)
    model, data = nn.Linear(8, 8), Numbers(8)
    data.stall_s = stall_s = float(os.environ["STALL_S"])
    is_new = os.environ["ELASTICTRAIN_GENERATION"] != "0"
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = elastictrain.torch.elastic(model, optimizer, data, batch=8)
    steps = together = 0
    for inputs in run:
        if is_new and steps == 0:
            compile_something(stall_s)
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
        time.sleep(0.02)
        steps += 1
        together += run.world_size > 1
        if is_new and together == AFTER_STEPS:
            data.stalls_at = 0.0
        if together == 2 * AFTER_STEPS:
            with run.evaluation():
                time.sleep(stall_s if run.is_first else 0)
        if together == AFTER_STEPS + 5:
            run.note("stall", "compile and loader are over")
        if together == 2 * AFTER_STEPS + 10:
            run.note("stall", "all are over")


if __name__ == "__main__":
    {"accuracy": accuracy, "overhead": overhead, "stalls": stalls}[sys.argv[1]](*sys.argv[2:])
