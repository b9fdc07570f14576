#!/usr/bin/env python3
"""A small GPT on a text, with Lightning. Two lines make it elastic; without them it is a plain program for one process.

  elastictrain run -n 1:4 -- python3 gpt_lightning.py tests/data/tinyshakespeare/input.txt [STEPS]
"""

import sys

import lightning
import torch
from torch.utils.data import DataLoader

import elastictrain.lightning  # the first line
from gpt import GPT, Text, loss_of


class Writer(lightning.LightningModule):
    def __init__(self, characters):
        super().__init__()
        self.model = GPT(characters)

    def training_step(self, batch, number):
        loss = loss_of(self.model, *batch)
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main():
    text, steps = Text(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 500
    strategy = elastictrain.lightning.ElasticStrategy()  # the second line
    trainer = lightning.Trainer(strategy=strategy, max_steps=steps, gradient_clip_val=1.0)
    trainer.fit(Writer(len(text.characters)), DataLoader(text, batch_size=16, shuffle=True))


if __name__ == "__main__":
    main()
