"""What a change of size costs: idle time, latency, cold start. All from the workers' step logs.

Idle time: by how much the longest gap between committed steps exceeds the median step of its size, from the request
until a few steps after the first one at the new size. The time of a step is when the first worker has committed it: gaps
between the records of different workers would be shorter by their skew, and flatter us.

The steady gap is the same figure for as many later steps, in which nothing changes: what the machine adds by itself.
"""

import collections
import os
import statistics
import sys
import time

import rows
from harness import Run, job, members, synthetic

import torchrun

SETTLE_STEPS = 8
STATUS_INTERVAL_S = 0.25  # a status command takes several ms of a core from the workers that are measured


def changed(status, size, gone):
    """All of the new size are members and have committed a step, and the replaced process is not among them."""
    ranks = members(status)
    return (status["phase"] == "running" and len(ranks) == size and gone not in {w["pid"] for w in ranks}
            and all(w["step"] > 0 for w in ranks))


def change(run, words, size, gone=None):
    """Carries out one change and waits until it has settled: a Change, in seconds."""
    before = {record["pid"] for record in run.steps()[-200:]}
    asked = time.monotonic()
    run.do(*words)
    run.wait_status(lambda s: changed(s, size, gone), 60, f"{' '.join(map(str, words))}", STATUS_INTERVAL_S)
    run.wait_more_steps(4 * SETTLE_STEPS, 60)
    records = run.steps()
    first = first_step_after(records, asked, size, before, gone is not None)
    return change_in(step_times(records), asked, first)


def change_in(times, asked, first):
    """The Change that was asked for at a time and came with a record."""
    swap = first["step"]
    start = max(step for step, t in times.items() if t <= asked)
    settled = swap + SETTLE_STEPS
    until = min(max(times), settled + swap - start + SETTLE_STEPS)
    old = statistics.median(steps_between(times, max(min(times), start - 2 * SETTLE_STEPS), start))
    new = statistics.median(steps_between(times, swap, max(times)))
    at_swap = times[swap] - times[swap - 1] - new
    idle = max([step - old for step in steps_between(times, start, swap - 1)] + [at_swap] +
               [step - new for step in steps_between(times, swap, settled)])
    steady = max(steps_between(times, settled, until)) - new
    return Change(idle, at_swap, new, first["t"] - asked, steady)


# All in seconds. `idle` is what the longest step from the request on took longer, `at_swap` the one in which the membership
# changed, `steady` the longest of as many later ones.
Change = collections.namedtuple("Change", "idle at_swap step latency steady")


def step_times(records):
    """Step number -> when the first worker had committed it."""
    times = {}
    for record in records:
        times.setdefault(record["step"], record["t"])
    return times


def steps_between(times, begin, end):
    """How long each step after `begin` up to `end` took."""
    return gaps([times[step] for step in range(begin, end + 1) if step in times])


def gaps(times):
    return [b - a for a, b in zip(times, times[1:])]


def first_step_after(records, asked, size, before, replaced):
    """The first step of the new generation; after a replacement that is the first of a process that is new."""
    for record in records:
        if record["t"] > asked and record["world"] == size and (not replaced or record["pid"] not in before):
            return record
    raise AssertionError(f"no step at size {size} after the change")


def steady_gap(run, steps):
    """How much longer than the median the longest gap is where nothing changes: the noise of the machine, in s."""
    start = run.last_step()
    run.wait_step(start + steps, 60)
    own = gaps([t for step, t in sorted(step_times(run.steps()).items()) if step > start])
    return max(own) - statistics.median(own)


def swap_changes(config, repetitions):
    with Run(config) as run:
        return changes_of(run, repetitions)


def changes_of(run, repetitions):
    """{"grow"|"replace"|"shrink": [Change, …]} of a run of 2 workers, which is stopped at the end."""
    found = collections.defaultdict(list)
    run.wait_size(2, 120)
    run.wait_more_steps(3 * SETTLE_STEPS, 60)
    for _ in range(repetitions):
        found["grow"].append(change(run, ("resize", run.name, 3), 3))
        victim = members(run.status())[1]["pid"]
        found["replace"].append(change(run, ("replace", run.name, 1), 3, gone=victim))
        found["shrink"].append(change(run, ("resize", run.name, 2), 2))
    run.do("stop", run.name)
    run.wait(60)
    return found


def idles_ms(changes):
    return [1000 * max(0.0, change.idle) for change in changes]


def explain(changes):
    at_swap = 1000 * statistics.median(max(0.0, change.at_swap) for change in changes)
    step = 1000 * statistics.median(change.step for change in changes)
    steady = rows.spread([1000 * change.steady for change in changes])
    return (f"{spread_ms(idles_ms(changes))}, at the swap itself {at_swap:.1f} ms; median step {step:.0f} ms; where nothing "
            f"changes, the longest of as many steps is {steady} ms longer")


def idle_rows(name, config, repetitions, limit_of):
    for kind, changes in swap_changes(config, repetitions).items():
        limit = limit_of(kind, 1000 * statistics.median(change.step for change in changes))
        yield rows.below(f"{name}/{kind}", statistics.median(idles_ms(changes)), "ms", round(limit, 1),
                         explain(changes))


def spread_ms(values):
    return rows.spread(values) + " ms"


def swap_large(repetitions):
    trainer = synthetic(parameter_bytes=100_000_000, compute_us_per_sample=26_000, gradient="constant")
    config = job(workers=(1, 2, 4), trainer=trainer, batch={"per_worker": 8}, audit={"every_steps": 0})
    return idle_rows("swap-large", config, repetitions, lambda kind, step: 20 if kind == "shrink" else 0.1 * step)


def swap_small(repetitions):
    trainer = synthetic(parameter_bytes=4_000_000, compute_us_per_sample=3_500)
    config = job(workers=(1, 2, 4), trainer=trainer, batch={"per_worker": 8}, audit={"every_steps": 0})
    return idle_rows("swap-small", config, repetitions, lambda kind, step: 20)


def swap_own_data(repetitions):
    program = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "own_data.py")]
    config = job(workers=(1, 2, 4), command=program, batch={"per_worker": 8}, audit={"every_steps": 0})
    with Run(config, environment={"PYTHONPATH": os.path.join(rows.ROOT, "train", "python")}) as run:
        found = changes_of(run, repetitions)
    for kind, changes in found.items():
        yield rows.below(f"swap-own-data/{kind}", statistics.median(idles_ms(changes)), "ms", 20, explain(changes))


def random_images(path, count=1024):
    """Rows in the form of CIFAR-10: a label and 3,072 bytes."""
    with open(path, "wb") as file:
        for number in range(count):
            file.write(bytes([number % 10]) + os.urandom(3072))


def swap_large_real(repetitions):
    """The model of torch_peer/train.py (3072-4096-3000-10, batch 8) on the built-in trainer, then on torchrun."""
    probe = Run()
    images = os.path.join(probe.directory, "images.bin")
    try:
        random_images(images)
        trainer = {"model": "mlp", "train": images, "format": "cifar10", "hidden": [4096, 3000], "epochs": 100_000,
                   "eval_every_epochs": 0, "learning_rate": 0.0001}
        config = job(workers=(1, 2, 4), trainer=trainer, batch={"per_worker": 8}, audit={"every_steps": 0})
        found = swap_changes(config, repetitions)
    finally:
        probe.kill()
    ours = {kind: statistics.median(idles_ms(changes)) for kind, changes in found.items()}
    for kind, changes in found.items():
        yield rows.Row(f"swap-large-real/{kind}", ours[kind], "ms", "", None, explain(changes))
    try:
        theirs = torchrun.grow_and_shrink(repetitions)
    except rows.Unavailable as reason:
        yield rows.Row("swap-large-real/torchrun", None, "", "", None, f"not measured: {reason}")
        return
    for kind, values in theirs.items():
        # Idle times below one millisecond cannot be told from noise, so none counts as less.
        ratio = statistics.median(values) / max(ours[kind], 1.0)
        yield rows.at_least(f"swap-large-real/{kind}-ratio", ratio, "times", 50,
                            f"torchrun idle {spread_ms(values)}, ours {ours[kind]:.1f} ms")


def resize_latency(repetitions):
    # Half a second of start-up stands for a program that loads its libraries and data; import torch takes longer.
    trainer = synthetic(parameter_bytes=4_000_000, compute_us_per_sample=6_000, startup_delay_ms=500)
    config = job(workers=(1, 2, 3), trainer=trainer, batch={"per_worker": 8}, audit={"every_steps": 0},
                 hosts={"list": ["localhost:4"]})
    config["workers"]["spares"] = 1
    warm, _ = latencies(config, repetitions)
    steps = [change.latency / change.step for change in warm]
    yield rows.below("resize-latency/warm-spare", statistics.median(steps), "steps", 3,
                     f"{spread_ms([change.latency * 1000 for change in warm])} after `resize`")
    config["workers"]["spares"] = 0
    cold, startup = latencies(config, repetitions)
    share = [100 * own / change.latency for own, change in zip(startup, cold)]
    yield rows.at_least("resize-latency/cold-start", statistics.median(share), "% the worker's", 50,
                        f"{spread_ms([change.latency * 1000 for change in cold])} after `resize`, of which the worker's own "
                        f"start takes {statistics.median(startup) * 1000:.0f} ms")


def latencies(config, repetitions):
    """Growing from 2 to 3 again and again: the changes, and how long each new worker took to be ready by itself."""
    changes, startup = [], []
    with Run(config) as run:
        run.wait_size(2, 60)
        for _ in range(repetitions):
            if config["workers"]["spares"]:
                run.wait_status(lambda s: any(w["phase"] == "spare" and w["pid"] for w in s["workers"]), 30, "a spare")
            run.wait_more_steps(SETTLE_STEPS)
            changes.append(change(run, ("resize", run.name, 3), 3))
            startup.append(0.0 if config["workers"]["spares"] else startup_time(run))
            change(run, ("resize", run.name, 2), 2)
        run.do("stop", run.name)
        run.wait(60)
    return changes, startup


def startup_time(run):
    """From the start of the youngest process to its being ready, in s, as the journal has it."""
    journal = run.journal()
    spawned = next(record for record in reversed(journal) if record["event"] == "spawned")
    ready = next(r for r in journal if r["event"] == "ready" and r["worker"] == spawned["worker"])
    return ready["up"] - spawned["up"]


def cold_start(repetitions):
    trainer = {"model": "mlp", "epochs": 100_000, "eval_every_epochs": 0}
    config = job(workers=(2, 2, 2), trainer=trainer, batch={"per_worker": 32}, audit={"every_steps": 0})
    times = []
    for _ in range(max(5, repetitions)):
        with Run(config) as run:
            run.wait_step(1)
            times.append(run.steps()[0]["t"] - run.started)
            run.do("stop", run.name)
            run.wait(60)
    yield rows.below("cold-start", statistics.median(times), "s", 0.5, rows.spread(times, 3) + " s, generated data, mlp")
