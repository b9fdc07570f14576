"""What elastictrain.torch costs a program, what a program may do for long, and whether changes of size cost accuracy."""

import os
import random
import statistics

import pytorch
import rows
import torchrun
from harness import BINARY, Run, job, wait_until

STALL_S = 60
CHANGES = 3
GLOBAL_BATCH = 64  # at every size
ENDS_S = 280


# --- Overhead

def torch_overhead(repetitions):
    python = torchrun.python_with_torch()
    program = os.path.join(torchrun.PEER, "overhead.py")
    argv = {name: [BINARY, "run", "-n", "2", "--", python, program, name] for name in ("bare", "elastic")}
    rates = {name: [] for name in argv}
    for _ in range(min(3, repetitions)):
        for name in argv:
            rates[name].append(pytorch.steps_per_s(argv[name]))
    lost = [100 * (bare / own - 1) for bare, own in zip(rates["bare"], rates["elastic"])]
    yield rows.below("torch-overhead", statistics.median(lost), "% of a step", 2,
                     f"of each pair {rows.spread(lost)} %; bare calls {rows.spread([1000 / r for r in rates['bare']])} ms a step, "
                     "2 workers")


# --- What takes long

def torch_stalls(repetitions):
    """Three stalls of a minute in one run; repetitions do not count."""
    del repetitions
    python = torchrun.python_with_torch()
    config = job(workers=(1, 1, 2), command=[python, os.path.join(torchrun.PEER, "stalls.py")], batch={"per_worker": 8},
                 audit={"every_steps": 10})
    with Run(config, environment={**pytorch.environment(), "STALL_S": str(STALL_S)}) as run:
        run.wait_size(1, 120)
        run.do("resize", run.name, 2)
        for seen in ("compile and loader are over", "all are over"):
            wait_until(lambda: is_noted(run, seen), 2 * STALL_S + 60, seen, 0.5)
        run.do("stop", run.name, timeout=60)
        run.wait(120)
        wrong = [r["event"] for r in run.journal() if r["event"] in ("hang", "agent_lost", "abort", "worker_lost")]
    yield rows.below("torch-stalls", len(wrong), "verdicts", 0,
                     f"compilation in a new worker's first step, a loader asleep, evaluation on the first worker: {STALL_S} s "
                     "each, while the other worker waited")


def is_noted(run, text):
    if run.process.poll() is not None:
        raise AssertionError(f"the run ended: {run.text()[-500:]}")
    return any(note["value"] == text for note in run.events("note", key="stall"))


# --- Accuracy

def torch_accuracy(repetitions):
    digits = os.path.join(rows.DATA, "optdigits")
    yield from compared("digits", digits, "%", repetitions)


def torch_accuracy_gpt(repetitions):
    text = os.path.join(rows.DATA, "tinyshakespeare", "input.txt")
    yield from compared("gpt", text, "loss", repetitions)


def compared(model, data, unit, repetitions):
    """A fixed size of 2 against random changes, the same seeds."""
    seeds = range(1, max(2, repetitions) + 1)
    fixed = [result_of(model, data, seed, 0)[0] for seed in seeds]
    elastic, done = zip(*(result_of(model, data, seed, CHANGES) for seed in seeds))
    difference = abs(statistics.mean(elastic) - statistics.mean(fixed))
    # Two standard errors of the difference of two means, from the seeds' own spread.
    noise = 2 * ((statistics.variance(fixed) + statistics.variance(elastic)) / len(fixed)) ** 0.5
    yield rows.below(f"torch-accuracy/{model}", difference, unit, round(noise, 4),
                     f"limit: two standard errors over {len(fixed)} seeds; fixed {rows.spread(fixed, 3)}, with {min(done)} to "
                     f"{max(done)} changes {rows.spread(elastic, 3)} {unit}")


def result_of(model, data, seed, changes):
    """(the program's result, how many changes took place)"""
    python = torchrun.python_with_torch()
    program = [python, os.path.join(torchrun.PEER, "accuracy.py"), model, data]
    batch = {"per_worker": GLOBAL_BATCH, "max_global": GLOBAL_BATCH, "at_limit": "split"}
    config = job(workers=(1, 2, 3), command=program, batch=batch)
    config["workers"]["preload"] = ["torch"]  # more changes take place before the end
    choice, size, done = random.Random(seed), 2, 0
    with Run(config, environment={**pytorch.environment(), "ET_SEED": str(seed)}) as run:
        run.wait_size(2, 120)
        for _ in range(changes):
            size = choice.choice([n for n in (1, 2, 3) if n != size])
            done += is_changed(run, size)
        if run.wait(ENDS_S) != 0:
            raise AssertionError(f"the run failed: {run.text()[-500:]}")
        return float(run.events("note", key="result")[-1]["value"]), done


def is_changed(run, size):
    """Whether the run reached it before it ended."""
    if run.process.poll() is not None or run.command("resize", run.name, size).returncode != 0:
        return False
    wait_until(lambda: run.process.poll() is not None or run.status().get("world_size") == size, 120, "the change", 0.2)
    return run.process.poll() is None
