#!/usr/bin/env python3
"""The program of gpt_ddp.py, elastic.

  elastictrain run -n 1:4 --start 2 -- python3 gpt_elastic.py tests/data/tinyshakespeare/input.txt [STEPS]
"""

import sys

import torch

import elastictrain.torch
from gpt import GPT, Text, loss_of


def main():
    text, steps = Text(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 500
    model = GPT(len(text.characters))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    run = elastictrain.torch.elastic(model, optimizer, text, batch=16, max_steps=steps)
    for codes, following in run:
        optimizer.zero_grad()
        loss = loss_of(model, codes, following)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        run.report(loss)
        if run.step % 50 == 0 and run.is_first:
            print(f"step {run.step}: loss {run.session.last_step().loss:.3f}", flush=True)


if __name__ == "__main__":
    main()
