"""Watches a training script from outside: Python imports this module at its start where the folder is in PYTHONPATH.

After every step of an optimizer a line goes to PUBLIC_WATCH/PID.jsonl: time, rank, learning rates, loss, a hash of the
parameters. The file `pace` beside it holds the seconds to sleep after a step. PUBLIC_SEED shifts all seeds of torch, and
PUBLIC_NO_GPU=1 lets scripts that insist on CUDA run on the CPU (no_gpu.py).
"""

import atexit
import importlib.util
import json
import os
import sys
import time
import zlib


class AfterTorch:
    """Calls install() once torch is imported."""

    is_looking = False

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or self.is_looking:
            return None
        self.is_looking = True
        spec = importlib.util.find_spec("torch")
        self.is_looking = False
        execute = spec.loader.exec_module

        def executing(module):
            execute(module)
            install(module)

        spec.loader.exec_module = executing
        return spec


class Watch:
    """The steps of this process; a fork of a process with torch in memory begins anew."""

    def __init__(self, torch, folder):
        self.torch, self.folder = torch, folder
        self.pid, self.file, self.steps, self.loss = 0, None, 0, None

    def on_step(self, optimizer, *_):
        if self.pid != os.getpid():
            self.pid, self.steps = os.getpid(), 0
            self.file = open(os.path.join(self.folder, f"{self.pid}.jsonl"), "a", buffering=1)
            self.write({"begin": True, "rank": int(os.environ.get("RANK", "0"))})
            atexit.register(self.write, {"end": True})
        parameters = [one for group in optimizer.param_groups for one in group["params"]]
        rank, size = self.place()
        self.write({"n": self.steps, "rank": rank, "size": size, "loss": self.loss,
                    "rates": [float(group["lr"]) for group in optimizer.param_groups][:8],
                    "hash": self.hash(parameters), "probe": self.hash([max(parameters, key=lambda one: one.numel())])})
        self.steps += 1
        self.sleep()

    def write(self, record):
        record["t"] = time.time()
        self.file.write(json.dumps(record) + "\n")

    def hash(self, tensors):
        crc = 0
        for tensor in tensors:
            crc = zlib.crc32(tensor.detach().contiguous().view(-1).view(self.torch.uint8).numpy(), crc)
        return crc

    def place(self):
        distributed = self.torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
        return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))

    def sleep(self):
        try:
            with open(os.path.join(self.folder, "pace")) as file:
                time.sleep(float(file.read() or 0))
        except (OSError, ValueError):
            pass


def note_losses(torch, watch):
    backward = torch.Tensor.backward

    def noting(self, *arguments, **named):
        if self.numel() == 1:
            watch.loss = float(self.detach())
        return backward(self, *arguments, **named)

    torch.Tensor.backward = noting


def shift_seeds(torch, shift):
    seed = torch.manual_seed
    torch.manual_seed = torch.random.manual_seed = lambda value: seed(int(value) + shift)
    seed(shift + 17 * int(os.environ.get("RANK", "0")))


def install(torch):
    from torch.optim.optimizer import register_optimizer_step_post_hook
    watch = Watch(torch, os.environ["PUBLIC_WATCH"])
    register_optimizer_step_post_hook(watch.on_step)
    note_losses(torch, watch)
    if os.environ.get("PUBLIC_SEED", "0") != "0":
        shift_seeds(torch, 1000003 * int(os.environ["PUBLIC_SEED"]))
    if os.environ.get("PUBLIC_NO_GPU") == "1":
        import no_gpu
        no_gpu.install(torch)


if "PUBLIC_WATCH" in os.environ:
    sys.meta_path.insert(0, AfterTorch())
