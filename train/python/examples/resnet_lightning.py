#!/usr/bin/env python3
"""ResNet-18 on images, with Lightning. Two lines make it elastic; without them it is a plain program for one process.

  elastictrain run -n 1:4 -- python3 resnet_lightning.py [EPOCHS]
"""

import sys

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader

import elastictrain.lightning  # the first line
from images import EPOCHS, Images, resnet18


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = resnet18()

    def training_step(self, batch, number):
        pictures, labels = batch
        return nn.functional.cross_entropy(self.model(pictures), labels)

    def validation_step(self, batch, number):
        pictures, labels = batch
        self.log("accuracy", (self.model(pictures).argmax(1) == labels).float().mean(), sync_dist=True, prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main():
    epochs = int(sys.argv[1]) if len(sys.argv) > 1 else EPOCHS
    torch.manual_seed(0)
    strategy = elastictrain.lightning.ElasticStrategy()  # the second line
    trainer = lightning.Trainer(strategy=strategy, max_epochs=epochs)
    trainer.fit(Classifier(), DataLoader(Images(), batch_size=32, shuffle=True, num_workers=1),
                DataLoader(Images(320, seed=2), batch_size=64))


if __name__ == "__main__":
    main()
