"""A PyTorch program on a CUDA device, for scripts/bench/gpu.py: a small network on made-up data, in float32, with
autocast and a GradScaler, with parameters in bfloat16, or in a stream of its own.

  ET_MODE     float32, amp, bfloat16, stream
  ET_DEVICE   cuda, or cpu to try the program
  ET_STEPS    its length; ET_PAUSE_S: time that each step takes longer
"""

import contextlib
import os
import time

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import elastictrain.torch

MODE = os.environ["ET_MODE"]
KIND = os.environ.get("ET_DEVICE", "cuda")
PAUSE_S = float(os.environ.get("ET_PAUSE_S", "0"))


def device():
    """That of the worker's slot."""
    if KIND == "cpu":
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())


def data():
    generator = torch.Generator().manual_seed(7)
    images = torch.randn(4096, 64, generator=generator)
    labels = (images @ torch.randn(64, 10, generator=generator)).argmax(1)
    return TensorDataset(images.to(torch.bfloat16 if MODE == "bfloat16" else torch.float32), labels)


def main():
    torch.manual_seed(3)
    torch.backends.cuda.matmul.allow_tf32 = False
    place = device()
    if KIND == "cuda":
        torch.cuda.set_device(place)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)).to(place)
    if MODE == "bfloat16":
        model = model.to(torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scaler = torch.amp.GradScaler(KIND, enabled=MODE == "amp")
    own = MODE == "stream" and KIND == "cuda"
    with torch.cuda.stream(torch.cuda.Stream()) if own else contextlib.nullcontext():
        run = elastictrain.torch.elastic(model, optimizer, data(), batch=64, epochs=1000,
                                         max_steps=int(os.environ["ET_STEPS"]), state={"scaler": scaler}, leave="return")
        for _ in run.epochs():
            for images, labels in run:
                optimizer.zero_grad()
                images, labels = images.to(place), labels.to(place)
                with torch.autocast(KIND, dtype=torch.float16 if KIND == "cuda" else torch.bfloat16, enabled=MODE == "amp"):
                    loss = functional.cross_entropy(model(images).float(), labels)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                run.report(loss)
                time.sleep(PAUSE_S)
        if run.outcome == "finished" and run.is_first:
            with torch.no_grad():
                images, labels = data().tensors
                loss = functional.cross_entropy(model(images.to(place)).float().cpu(), labels)
                print(f"loss={loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main()
