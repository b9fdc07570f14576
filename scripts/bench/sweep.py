"""A search over parameters on a live cluster: stopped early in turns, and the same search one trial after another."""

import os
import subprocess
import sys
import time

import rows
from cluster_lab import Cluster
from harness import BINARY, MARK, toml
from leases import Cleanups

RATES = (1.0, 0.00001, 0.03, 0.3, 0.0001, 0.1, 0.01, 0.001, 0.6)
EPOCHS, STEPS = 27, 60  # of 10 ms
BEST = "rates-7"


class Case(Cleanups):
    pass


def searched_s(rule, **settings):
    """Until the best setting is known: all others have been stopped or have ended. With the sweep's table."""
    with Case() as case:
        cluster = Cluster(case, slots=2, **settings)
        package = os.path.join(rows.ROOT, "train", "python")
        cluster.environment.update(PYTHONPATH=package, PYTHONDONTWRITEBYTECODE="1",
                                   ELASTICTRAIN_LIBRARY=os.path.join(rows.BUILD, "train", "libelastictrain.so"))
        cluster.start()
        program = [sys.executable, os.path.join(rows.ROOT, "tests", "system", "sweep_program.py"), "--rate={rate}",
                   f"--epochs={EPOCHS}", f"--steps={STEPS}"]
        path = cluster.write("sweep.toml", toml({
            "name": "rates", "arguments": ["-n", "1:2", "--start", "1", "-x", MARK, "--", *program], "goal": "max",
            "metric": "accuracy", "parameters": {"rate": list(RATES)}, "stop": {"rule": rule}}))
        began = time.monotonic()
        sweep = subprocess.Popen([BINARY, "sweep", path, "--cluster", cluster.place + "/"], env=cluster.environment,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        case.addCleanup(sweep.kill)
        left, known_s, text = set(range(1, len(RATES) + 1)), None, ""
        for line in sweep.stdout:
            text += line
            words = line.split()
            if len(words) > 1 and words[0].startswith("rates-") and (words[1:3] == ["is", "stopped:"] or words[1] == "ended"):
                left.discard(int(words[0].removeprefix("rates-")))
            if known_s is None and len(left) <= (1 if rule == "halving" else 0):
                known_s = time.monotonic() - began
        if sweep.wait() != 0 or f"best: {BEST} " not in text:
            raise RuntimeError(text)
        return known_s, time.monotonic() - began


def sweep(repetitions):
    """9 settings on 2 slots."""
    early, whole = searched_s("halving", policy="gandiva", slice_ms=1000, suspended_per_slot=5)
    order, _ = searched_s("none", policy="fifo")
    yield rows.at_least("sweep", order / early, "times", 3,
                        f"sooner: the best of {len(RATES)} settings is known after {early:.0f} s (and has trained to its end after "
                        f"{whole:.0f} s) with halving in turns of 1 s, after {order:.0f} s with fifo")
