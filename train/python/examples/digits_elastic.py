#!/usr/bin/env python3
"""The program of digits_ddp.py, elastic.

  elastictrain run -n 1:4 --start 2 -- python3 digits_elastic.py tests/data/optdigits [EPOCHS]
"""

import sys

import torch
from torch import nn

import elastictrain.torch
from digits import EPOCHS, make_model, read, score


def main():
    train, test = read(sys.argv[1])
    epochs = int(sys.argv[2]) if len(sys.argv) > 2 else EPOCHS
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    run = elastictrain.torch.elastic(model, optimizer, train, batch=32, epochs=epochs, state={"scheduler": scheduler})
    for epoch in run.epochs():
        for images, labels in run:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
        scheduler.step()
        if run.is_first:
            print(f"epoch {epoch}: accuracy {score(model, test):.4f}", flush=True)


if __name__ == "__main__":
    main()
