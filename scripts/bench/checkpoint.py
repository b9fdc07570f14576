"""What checkpoints cost training: runs with and without them, in turn."""

import os
import statistics
import tempfile

import rows
import swap
from harness import Run, job, synthetic

EVERY = 10  # steps
WARM_UP = 2 * EVERY
MEASURED = 6 * EVERY


def config_of(compute, directory):
    """25 million parameters, 2 workers on 2 cores, steps of about 240 ms."""
    trainer = synthetic(parameter_bytes=100_000_000, compute_us_per_sample=26_000, gradient="constant", compute=compute)
    sections = {"checkpoint": {"directory": directory, "interval_steps": EVERY}} if directory else {}
    return job(workers=(1, 2, 2), trainer=trainer, batch={"per_worker": 8}, audit={"every_steps": 0}, **sections)


def step_time(compute, with_checkpoints):
    """Mean time of a step in s over whole intervals, and the size of a checkpoint in bytes."""
    with tempfile.TemporaryDirectory(prefix="etcheckpoints-") as directory:
        with Run(config_of(compute, directory if with_checkpoints else "")) as run:
            run.wait_size(2, 60)
            last = WARM_UP + MEASURED
            run.wait_step(last + 1, 180)
            run.do("stop", run.name)
            run.wait(60)
            notes = [r for r in run.journal() if r["event"] == "note" and r.get("key", "").startswith("checkpoint_")]
            if notes:
                raise AssertionError(f"not every checkpoint was written: {notes[0]}")
            times = swap.step_times(run.steps())
        size = max((entry.stat().st_size for entry in os.scandir(directory)), default=0)
        return (times[last] - times[WARM_UP]) / MEASURED, size


def slow_down(compute, repetitions):
    """Percent, one for each pair; step times in ms without; bytes of a checkpoint."""
    percents, without, size = [], [], 0
    for pair in range(repetitions):
        order = (False, True) if pair % 2 == 0 else (True, False)
        times = {}
        for with_checkpoints in order:
            times[with_checkpoints], written = step_time(compute, with_checkpoints)
            size = max(size, written)
        percents.append(100 * (times[True] / times[False] - 1))
        without.append(1000 * times[False])
    return percents, without, size


def checkpoint_cost(repetitions):
    for compute, name in (("spin", "busy-cores"), ("sleep", "idle-cores")):
        percents, without, size = slow_down(compute, max(5, repetitions))
        detail = (f"slow-down {rows.spread(percents, 2)} %; a checkpoint of {size / 1e6:.0f} MB every {EVERY} steps of "
                  f"{rows.spread(without)} ms, 2 workers")
        yield rows.below(f"checkpoint-cost/{name}", statistics.median(percents), "%", 2, detail)
