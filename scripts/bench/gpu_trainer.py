"""The built-in trainer on a GPU, for scripts/gpu_check.sh: a data set is learnt as well as on CPUs, by one worker and by
two over NCCL."""

import os

import gpu_experiments
import rows
from harness import Run, job

DATA = os.path.join(rows.ROOT, "tests", "data", "optdigits")
EPOCHS = 15
MOST_APART = 0.01


def accuracy_of(device, workers):
    trainer = {"model": "mlp", "train": os.path.join(DATA, "optdigits.tra"), "test": os.path.join(DATA, "optdigits.tes"),
               "epochs": EPOCHS, "device": device, "eval_every_epochs": 0}
    config = job(workers=(workers, workers, workers), trainer=trainer, batch={"per_worker": 32 // workers})
    with Run(config, environment=gpu_experiments.ON_ONE_GPU) as run:
        status = run.wait(120)
        notes = run.events("note", key="accuracy")
        if status != 0 or not notes:
            raise RuntimeError(f"{device}, {workers} workers: status {status}: {run.text()[-300:]}")
        audit = run.audit()
        if not audit or any(int(audit[key]) for key in ("missing", "repeated", "unequal_hashes")):
            raise RuntimeError(f"{device}, {workers} workers: audit: {audit}")
        return float(notes[-1]["value"])


def lines(quick):
    host = accuracy_of("cpu", 1)
    for workers in (2,) if quick else (1, 2):
        found = accuracy_of("cuda", workers)
        yield abs(found - host) <= MOST_APART, (f"optdigits, {EPOCHS} epochs, {workers} on the GPU: {100 * found:.2f} % of the test "
                                                f"set right, {100 * host:.2f} % on a CPU")
