#!/usr/bin/env python3
"""A convolutional network on handwritten digits, with Lightning. Two lines make it elastic; without them it is a plain
program for one process.

  elastictrain run -n 1:4 -- python3 digits_lightning.py tests/data/optdigits [EPOCHS]
"""

import sys

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader

import elastictrain.lightning  # the first line
from digits import EPOCHS, make_model, read


class Digits(lightning.LightningModule):
    def __init__(self, epochs):
        super().__init__()
        self.model, self.epochs = make_model(), epochs

    def training_step(self, batch, number):
        images, labels = batch
        return nn.functional.cross_entropy(self.model(images), labels)

    def validation_step(self, batch, number):
        images, labels = batch
        self.log("accuracy", (self.model(images).argmax(1) == labels).float().mean(), sync_dist=True, prog_bar=True)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.003)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.epochs)]


def main():
    train, test = read(sys.argv[1])
    epochs = int(sys.argv[2]) if len(sys.argv) > 2 else EPOCHS
    strategy = elastictrain.lightning.ElasticStrategy()  # the second line
    trainer = lightning.Trainer(strategy=strategy, max_epochs=epochs)
    trainer.fit(Digits(epochs), DataLoader(train, batch_size=32, shuffle=True), DataLoader(test, batch_size=256))


if __name__ == "__main__":
    main()
