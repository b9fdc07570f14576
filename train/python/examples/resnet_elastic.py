#!/usr/bin/env python3
"""The program of resnet_ddp.py, elastic.

  elastictrain run -n 1:4 --start 2 -- python3 resnet_elastic.py [EPOCHS]
"""

import sys

import torch
from torch import nn

import elastictrain.torch
from images import EPOCHS, Images, resnet18, score


def main():
    epochs = int(sys.argv[1]) if len(sys.argv) > 1 else EPOCHS
    torch.manual_seed(0)
    model = resnet18()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    run = elastictrain.torch.elastic(model, optimizer, Images(), batch=32, epochs=epochs, num_workers=1)
    for epoch in run.epochs():
        for pictures, labels in run:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(pictures), labels)
            loss.backward()
            optimizer.step()
            run.report(loss)
        if run.is_first:
            print(f"epoch {epoch}: accuracy {score(model):.3f}", flush=True)


if __name__ == "__main__":
    main()
