#!/usr/bin/env python3
"""One of the examples' networks on a global batch of fixed size: accuracy.py digits|gpt DATA. ET_SEED chooses the order of
the samples and the first values; steps of the digits are stretched, so that changes take place. The result is a note of the
run: accuracy in %, or the loss of a part held out."""

import os
import sys
import time

import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../train/python/examples"))

import digits  # noqa: E402
import elastictrain.torch  # noqa: E402
import gpt  # noqa: E402

SEED = int(os.environ["ET_SEED"])
EPOCHS, GPT_STEPS, BATCH = 8, 150, 64
STRETCH_S = 0.04  # of a step of about 0.01 s


def started_anew(model):
    """The examples make one model; each seed gets another."""
    torch.manual_seed(SEED)
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    return model


def train_digits():
    train, test = digits.read(sys.argv[2])
    model = started_anew(digits.make_model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    run = elastictrain.torch.elastic(model, optimizer, train, batch=BATCH, epochs=EPOCHS, seed=SEED,
                                     state={"scheduler": scheduler})
    for _ in run.epochs():
        for images, labels in run:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            time.sleep(STRETCH_S)
        scheduler.step()
    return run, 100 * digits.score(model, test)


def train_gpt():
    text = gpt.Text(sys.argv[2])
    held_out = torch.utils.data.default_collate([text[index] for index in range(len(text) - 200, len(text))])
    model = started_anew(gpt.GPT(len(text.characters)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.utils.data.Subset(text, range(len(text) - 200))
    run = elastictrain.torch.elastic(model, optimizer, data, batch=BATCH, max_steps=GPT_STEPS, seed=SEED)
    for codes, following in run:
        optimizer.zero_grad()
        gpt.loss_of(model, codes, following).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return run, float(gpt.loss_of(model, *held_out))


if __name__ == "__main__":
    ended, result = {"digits": train_digits, "gpt": train_gpt}[sys.argv[1]]()
    ended.note("result", result)
