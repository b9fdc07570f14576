"""Collectives of a script: torch's own functions on the process group of a run, beside Gloo in the same rounds."""

import os
import re
import statistics
import subprocess

import pytorch
import rows
import torchrun
from harness import BINARY

PROGRAM = os.path.join(torchrun.PEER, "collectives.py")
LIMIT_S = 300
JUDGED = ("all_reduce", "all_gather", "broadcast")  # of 8 MiB
SHARE = 0.8  # of Gloo's speed


def torch_collectives(repetitions):
    python = torchrun.python_with_torch()
    for workers in (2, 4):
        theirs, ours = {}, {}
        for _ in range(max(3, repetitions)):
            torchrun.wait_until_quiet()
            collect(theirs, [python, "-W", "ignore", "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={workers}", PROGRAM])
            collect(ours, [BINARY, "run", "-n", str(workers), "-H", f"localhost:{workers}", "--", python, "-W", "ignore",
                           "-m", "elastictrain.torch", PROGRAM])
        yield from compared(workers, theirs, ours)


def collect(found, command):
    """Milliseconds of each function, in one run."""
    done = subprocess.run(command, env={**os.environ, **pytorch.environment()}, capture_output=True, text=True, timeout=LIMIT_S)
    times = re.findall(r"took (\w+) ([\d.]+) ms", done.stdout)
    if done.returncode != 0 or not times:
        raise AssertionError(f"{' '.join(command)} failed: {(done.stdout + done.stderr)[-800:]}")
    for name, took in times:
        found.setdefault(name, []).append(float(took))


def compared(workers, theirs, ours):
    for name, times in ours.items():
        detail = f"{workers} workers, {rows.spread(times, 2)} ms"
        if name not in theirs:
            yield rows.Row(f"torch-collectives/{workers}/{name}", statistics.median(times), "ms", "", None, f"{detail}; not with Gloo")
            continue
        share = statistics.median(theirs[name]) / statistics.median(times)
        detail += f"; Gloo {rows.spread(theirs[name], 2)} ms"
        if name in JUDGED:
            yield rows.at_least(f"torch-collectives/{workers}/{name}", share, "times", SHARE, detail)
        else:
            yield rows.Row(f"torch-collectives/{workers}/{name}", share, "times", "", None, detail)
