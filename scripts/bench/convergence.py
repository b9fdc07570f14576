"""How well the end of a job is foreseen from its loss (Optimus), on real runs of the built-in trainer: the estimate at a
quarter, half and three quarters of the way, beside where the job has converged; from the loss of every step, and from what
heartbeats say of small batches."""

import json
import os
import re
import subprocess
import tempfile

import rows
from communicator import program
from harness import Run, job

BATCH, SMALL_BATCH = 64, 16
HEARD_STEPS = 20  # of the small batch, between two heartbeats
MOST_S = 300
MOST_OFF = 25  # % of the true end
THRESHOLDS = (0.01, 0.005, 0.002)  # of the largest loss, in an epoch
WINDOWS = 3
TRAINED_CHARACTERS = 250_000


def digits(_):
    path = os.path.join(rows.DATA, "optdigits", "optdigits")
    return {"model": "mlp", "train": f"{path}.tra", "hidden": [128], "seed": 1, "epochs": 30}


def text(directory):
    with open(os.path.join(rows.DATA, "tinyshakespeare", "input.txt")) as file:
        part = file.read(TRAINED_CHARACTERS)
    path = os.path.join(directory, "text.txt")
    with open(path, "w") as file:
        file.write(part)
    return {"model": "char_lm", "train": path, "hidden": [64], "seed": 1, "epochs": 40}


def losses(trainer, batch):
    """Those of all steps, as (samples, loss), and the samples of an epoch."""
    config = job(workers=(1, 1, 1), trainer={**trainer, "log_every_steps": 1}, batch={"per_worker": batch})
    config.pop("audit")
    with Run(config) as run:
        run.wait(MOST_S)
        steps = [re.search(r"step (\d+): loss ([0-9.]+)", line) for line in run.text().splitlines()]
    found = [(batch * int(step[1]), float(step[2])) for step in steps if step]
    if not found:
        raise rows.Unavailable("the run did not end: " + run.text()[-500:])
    return found, found[-1][0] / trainer["epochs"]


def estimates(points, epoch, threshold, steps):
    argv = [program("convergence", "convergence_bench"), str(epoch), str(threshold), str(WINDOWS), str(steps)]
    done = subprocess.run(argv, input="".join(f"{samples} {loss}\n" for samples, loss in points), stdout=subprocess.PIPE,
                          text=True, timeout=60, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def rows_of(name, points, epoch, steps):
    for threshold in THRESHOLDS:
        end, *found = estimates(points, epoch, threshold, steps)
        label = f"convergence/{name}/{threshold:g}"
        if end["end"] is None:
            yield rows.Row(label, None, "", "", None, f"not converged within {points[-1][0] / epoch:.0f} epochs")
        for one in found:
            where = f"{label}/at-{100 * one['share']:.0f}%"
            if one["why_not"]:
                yield rows.Row(where, None, "", "", None, "no estimate: " + one["why_not"])
                continue
            off = 100 * abs(one["samples"] - end["end"]) / end["end"]
            yield rows.below(where, off, "% off", MOST_OFF,
                             f"epoch {one['samples'] / epoch:.1f} ± {one['error'] / epoch:.1f}; true: {end['end'] / epoch:.0f}")


def convergence(_):
    for name, trainer, batch, steps in (("optdigits", digits, BATCH, 1), ("char-lm", text, BATCH, 1),
                                        ("optdigits-small-batch", digits, SMALL_BATCH, HEARD_STEPS)):
        with tempfile.TemporaryDirectory() as directory:
            points, epoch = losses(trainer(directory), batch)
        yield from rows_of(name, points, epoch, steps)
