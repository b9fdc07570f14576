"""A convolutional network on the digits, with elastictrain.torch. The tests of torch_test.py set what happens in it:

  ET_EPOCHS, ET_PAUSE_S     its length; time that each step takes longer
  ET_LOADERS, ET_START      processes that load, and how they start (fork, spawn, forkserver)
  ET_FAULT, ET_FAULT_STEP   worker 1 is killed there (data, forward, backward, wait, update, step, evaluation) or raises
                            (raise), or one of its loader processes is killed (loader)
  ET_EVERYWHERE             the fault is one of all workers
  ET_WIDER                  worker 1's model is wider than the others'
  ET_DETOUR                 its parameters are registered in another order than used, so that buckets get another layout
"""

import os
import signal
import sys
import threading
import time

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset

import elastictrain.torch
from elastictrain import Session
from elastictrain.torch import _gradients

DIGITS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "optdigits", "optdigits")
EPOCHS = int(os.environ.get("ET_EPOCHS", "8"))
PAUSE_S = float(os.environ.get("ET_PAUSE_S", "0.01"))
LOADERS = int(os.environ.get("ET_LOADERS", "0"))
FAULT = os.environ.get("ET_FAULT", "")
FAULT_STEP = int(os.environ.get("ET_FAULT_STEP", "20"))
LOADED_BEFORE_FAULT = 500
IS_VICTIM = os.environ.get("ELASTICTRAIN_WORKER_ID") == "1" or "ET_EVERYWHERE" in os.environ


class Digits(Dataset):
    def __init__(self, part):
        with open(f"{DIGITS}.{part}") as file:
            rows = torch.tensor([[float(v) for v in line.split(",")] for line in file if line[0].isdigit()])
        self.images, self.labels = rows[:, :64].reshape(-1, 1, 8, 8) / 16, rows[:, 64].long()
        self.loaded = 0  # by this process

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        self.loaded += 1
        if FAULT == "loader" and IS_VICTIM and self.loaded == LOADED_BEFORE_FAULT and torch.utils.data.get_worker_info():
            os.kill(os.getpid(), signal.SIGKILL)
        fail("data")
        return self.images[index], self.labels[index]


class Fault(torch.autograd.Function):
    """The identity; its backward pass is a place for a fault."""

    @staticmethod
    def forward(context, x):
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        fail("backward")
        return gradient


def fail(place):
    if place != FAULT or not IS_VICTIM or "run" not in globals() or run.step != FAULT_STEP:
        return
    if place == "raise":
        raise ArithmeticError("an error of the program")
    os.kill(os.getpid(), signal.SIGKILL)


def kill_in_wait():
    """The process is killed while it waits for the others."""
    wait = Session.wait_all_reduce

    def waiting(session):
        if IS_VICTIM and run.step == FAULT_STEP:
            threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
        elif run.step == FAULT_STEP:
            time.sleep(0.5)
        wait(session)

    Session.wait_all_reduce = waiting


class Detour(nn.Module):
    def __init__(self):
        super().__init__()
        _gradients.FIRST_BUCKET_BYTES = _gradients.BUCKET_BYTES = 1 << 12
        self.down, self.up, self.middle = (nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(2)])
                                           for _ in range(3))
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.up(self.middle(self.down(x.flatten(1)))))


def make_model():
    torch.manual_seed(int(os.environ["ELASTICTRAIN_WORKER_ID"]))  # every worker another one; the first worker's counts
    if "ET_DETOUR" in os.environ:
        return Detour()
    width = 40 if IS_VICTIM and "ET_WIDER" in os.environ else 32
    return nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Dropout(0.2), nn.Linear(16 * width, 10))


def train_step(images, labels):
    optimizer.zero_grad()
    fail("forward")
    fail("raise")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = functional.cross_entropy(Fault.apply(model(images)).float(), labels)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    fail("update")
    scaler.step(optimizer)
    scaler.update()
    average.update_parameters(model)
    run.report(loss)
    time.sleep(PAUSE_S)


def evaluate():
    """Each worker scores a part; all get the sum, without the part of a worker that is lost meanwhile."""
    model.eval()
    fail("evaluation")
    with torch.no_grad():
        images, labels = test.images[run.rank::run.world_size], test.labels[run.rank::run.world_size]
        hits = (model(images).argmax(1) == labels).sum()
    model.train()
    hits, seen = run.reduce(torch.tensor([float(hits), float(len(labels))])).tolist()
    assert seen == len(test.labels) or FAULT == "evaluation", f"{seen} images were scored"
    return hits / seen


if __name__ == "__main__":
    test = Digits("tes")
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=50)
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    start = {"multiprocessing_context": os.environ.get("ET_START", "fork")} if LOADERS else {}
    run = elastictrain.torch.elastic(model, optimizer, Digits("tra"), batch=32, epochs=EPOCHS, num_workers=LOADERS, **start,
                                     state={"scheduler": scheduler, "scaler": scaler, "average": average})
    kill_in_wait() if FAULT == "wait" else None
    optimizer.register_step_post_hook(lambda *_: fail("step"))
    for _ in run.epochs():
        for images, labels in run:
            train_step(images, labels)
        scheduler.step()
        if run.outcome == "running":
            run.note("accuracy", evaluate())
            run.note("ahead", run.share_ahead)
    if "ET_DETOUR" in os.environ:
        print("layout", *[slot.number for bucket in run._gradients._buckets for slot in bucket.slots], flush=True)
    print(f"trained to step {run.step}, rate {optimizer.param_groups[0]['lr']:.6f}", flush=True)
    sys.exit(0)
