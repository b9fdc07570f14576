"""torch_checkpoint.py FILE DIRECTORY: the accuracy of the model of torch_program.py from a checkpoint, one line for each way to
load it: the package's own, torch.distributed.checkpoint after the conversion, and safetensors, where that is installed."""

import os
import sys

import torch
import torch.distributed.checkpoint

os.environ.setdefault("ELASTICTRAIN_WORKER_ID", "9")

from elastictrain.torch import checkpoint  # noqa: E402
from torch_program import Digits, make_model  # noqa: E402


def by_package(path, _):
    return checkpoint.model_of(checkpoint.load(path))


def by_torch(path, directory):
    checkpoint.main([path, directory])
    held = {"model": make_model().state_dict()}
    torch.distributed.checkpoint.load(held, checkpoint_id=directory)
    return held["model"]


def by_safetensors(path, _):
    try:
        from safetensors.torch import load_file
    except ImportError:
        return None
    return load_file(path)


def accuracy(state, test):
    model = make_model()
    missing, _ = model.load_state_dict(state, strict=False)
    assert not missing, missing
    model.eval()
    with torch.no_grad():
        return (model(test.images).argmax(1) == test.labels).float().mean().item()


if __name__ == "__main__":
    images = Digits("tes")
    for load in (by_package, by_torch, by_safetensors):
        found = load(*sys.argv[1:])
        if found is not None:
            print(accuracy(found, images))
