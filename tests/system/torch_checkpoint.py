"""torch_checkpoint.py FILE: loads the model of torch_program.py from a checkpoint and prints its accuracy."""

import json
import os
import sys

import torch

os.environ.setdefault("ELASTICTRAIN_WORKER_ID", "9")

from torch_program import Digits, make_model  # noqa: E402


def tensors(path):
    """The float32 and int64 tensors of a safetensors file, by name: what safetensors.torch.load_file() returns."""
    types = {"F32": torch.float32, "I64": torch.int64}
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        content = file.read()
    return {name: torch.frombuffer(bytearray(content[slice(*of["data_offsets"])]), dtype=types[of["dtype"]]).reshape(of["shape"])
            for name, of in header.items() if name != "__metadata__" and of["dtype"] in types}


if __name__ == "__main__":
    model = make_model()
    missing, _ = model.load_state_dict(tensors(sys.argv[1]), strict=False)
    assert not missing, missing
    test = Digits("tes")
    model.eval()
    with torch.no_grad():
        print((model(test.images).argmax(1) == test.labels).float().mean().item())
