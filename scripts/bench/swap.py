"""What a change of size costs: idle time, latency, cold start. All from the workers' step logs.

Idle time: the longest gap between two steps committed by anybody, from the request until a few steps after the first
one at the new size, minus the median step at that size.
"""

import collections
import glob
import json
import os
import statistics
import time

import rows
from harness import Run, job, members, step_interval, synthetic

import torchrun

SETTLE_STEPS = 8


def changed(status, size, gone):
    """All of the new size are members and have committed a step, and the replaced process is not among them."""
    ranks = members(status)
    return (status["phase"] == "running" and len(ranks) == size and gone not in {w["pid"] for w in ranks}
            and all(w["step"] > 0 for w in ranks))


def change(run, words, size, gone=None):
    """Carries out one change; (time of the request, idle time, median step at the new size, first step at it), in s."""
    before = {record["pid"] for record in run.steps()[-200:]}
    asked = time.monotonic()
    run.do(*words)
    run.wait_status(lambda s: changed(s, size, gone), 60, f"{' '.join(map(str, words))}")
    run.wait_more_steps(3 * SETTLE_STEPS, 60)
    records = [r for r in run.steps() if r["t"] > asked - 10]
    first = first_step_after(records, asked, size, before, gone is not None)
    new_size = [r for r in records if r["t"] >= first["t"]]
    step = step_interval([r for r in new_size if r["step"] > first["step"] + 1])
    return asked, idle_time(records, asked, new_size) - step, step, first


def first_step_after(records, asked, size, before, replaced):
    """The first step of the new generation; after a replacement that is the first of a process that is new."""
    for record in records:
        if record["t"] > asked and record["world"] == size and (not replaced or record["pid"] not in before):
            return record
    raise AssertionError(f"no step at size {size} after the change")


def idle_time(records, asked, new_size):
    """The longest gap around the change, in s."""
    last = sorted({r["step"] for r in new_size})[:SETTLE_STEPS][-1]
    window = [r["t"] for r in records if r["step"] <= last]
    window = [t for t in window if t <= asked][-1:] + [t for t in window if t > asked]
    return max(b - a for a, b in zip(window, window[1:]))


def steady_gap(run, seconds):
    """How much longer than the median the longest gap is where nothing changes: the noise of the machine, in s."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.2)
    records = [r for r in run.steps() if r["t"] > until - seconds]
    times = [r["t"] for r in records]
    return max(b - a for a, b in zip(times, times[1:])) - step_interval(records)


def swap_idle(config, repetitions):
    """{"grow"|"replace"|"shrink": [(idle, step), …]} in ms, and the longest steady gap in ms."""
    found = collections.defaultdict(list)
    with Run(config) as run:
        run.wait_size(2, 60)
        run.wait_more_steps(SETTLE_STEPS)
        noise = steady_gap(run, 3) * 1000
        for _ in range(repetitions):
            found["grow"].append(change(run, ("resize", run.name, 3), 3))
            victim = members(run.status())[1]["pid"]
            found["replace"].append(change(run, ("replace", run.name, 1), 3, gone=victim))
            found["shrink"].append(change(run, ("resize", run.name, 2), 2))
        run.do("stop", run.name)
        run.wait(60)
    return {kind: [(max(0.0, idle) * 1000, step * 1000) for _, idle, step, _ in changes]
            for kind, changes in found.items()}, noise


def idle_rows(name, config, repetitions, limit_of):
    found, noise = swap_idle(config, repetitions)
    for kind, pairs in found.items():
        idles = [idle for idle, _ in pairs]
        step = statistics.median(step for _, step in pairs)
        detail = f"idle {spread_ms(idles)}; median step {step:.0f} ms; without a change the longest gap is {noise:.1f} ms over"
        yield rows.below(f"{name}/{kind}", statistics.median(idles), "ms", round(limit_of(kind, step), 1), detail)


def spread_ms(values):
    return rows.spread(values) + " ms"


def swap_large(repetitions):
    trainer = synthetic(parameter_bytes=100_000_000, compute_us_per_sample=20_000, gradient="constant")
    config = job(workers=(1, 2, 4), trainer=trainer, batch={"per_worker": 8}, audit={"every_steps": 0})
    return idle_rows("swap-large", config, repetitions, lambda kind, step: 20 if kind == "shrink" else 0.1 * step)


def swap_small(repetitions):
    trainer = synthetic(parameter_bytes=4_000_000, compute_us_per_sample=3_000)
    config = job(workers=(1, 2, 4), trainer=trainer, batch={"per_worker": 8}, audit={"every_steps": 0})
    return idle_rows("swap-small", config, repetitions, lambda kind, step: 20)


def random_images(path, count=1024):
    """Rows in the form of CIFAR-10: a label and 3,072 bytes."""
    with open(path, "wb") as file:
        for number in range(count):
            file.write(bytes([number % 10]) + os.urandom(3072))


def swap_large_real(repetitions):
    """The torchrun harness's own large model (3072-4096-3000-10, batch 8) on the built-in trainer, then on torchrun."""
    probe = Run()
    images = os.path.join(probe.directory, "images.bin")
    try:
        random_images(images)
        trainer = {"model": "mlp", "train": images, "format": "cifar10", "hidden": [4096, 3000], "epochs": 100_000,
                   "eval_every_epochs": 0, "learning_rate": 0.0001}
        config = job(workers=(1, 2, 4), trainer=trainer, batch={"per_worker": 8}, audit={"every_steps": 0})
        found, _ = swap_idle(config, repetitions)
    finally:
        probe.kill()
    ours = {kind: statistics.median(idle for idle, _ in pairs) for kind, pairs in found.items()}
    for kind, pairs in found.items():
        yield rows.Row(f"swap-large-real/{kind}", ours[kind], "ms", "", None,
                       f"idle {spread_ms([i for i, _ in pairs])}; median step {statistics.median(s for _, s in pairs):.0f} ms")
    try:
        theirs = torchrun.chain("large", repetitions)
    except rows.Unavailable as reason:
        yield rows.Row("swap-large-real/torchrun", None, "", "", None, f"not measured: {reason}")
        return
    for kind, values in theirs.items():
        # Idle times below one millisecond cannot be told from noise, so none counts as less.
        ratio = statistics.median(values) / max(ours[kind], 1.0)
        yield rows.at_least(f"swap-large-real/{kind}-ratio", ratio, "times", 50,
                            f"torchrun idle {spread_ms(values)}, ours {ours[kind]:.1f} ms")


def resize_latency(repetitions):
    trainer = synthetic(parameter_bytes=4_000_000, compute_us_per_sample=6_000)
    config = job(workers=(1, 2, 3), trainer=trainer, batch={"per_worker": 8}, audit={"every_steps": 0},
                 hosts={"list": ["localhost:4"]})
    for kind, spares in (("warm-spare", 1), ("cold-start", 0)):
        config["workers"]["spares"] = spares
        yield latency_row(kind, config, repetitions)


def latency_row(kind, config, repetitions):
    seconds, steps, startup = [], [], []
    with Run(config) as run:
        run.wait_size(2, 60)
        for _ in range(repetitions):
            if kind == "warm-spare":
                run.wait_status(lambda s: any(w["phase"] == "spare" and w["pid"] for w in s["workers"]), 30, "a spare")
                run.wait_more_steps(SETTLE_STEPS)
            asked, _, step, first = change(run, ("resize", run.name, 3), 3)
            seconds.append(first["t"] - asked)
            steps.append((first["t"] - asked) / step)
            startup.append(startup_time(run, asked))
            change(run, ("resize", run.name, 2), 2)
        run.do("stop", run.name)
        run.wait(60)
    milliseconds = spread_ms([s * 1000 for s in seconds])
    if kind == "warm-spare":
        return rows.below(f"resize-latency/{kind}", statistics.median(steps), "steps", 3, f"{milliseconds} after `resize`")
    own = statistics.median(startup) / statistics.median(seconds)
    detail = f"{milliseconds} after `resize`, of which the worker's own start takes {statistics.median(startup) * 1000:.0f} ms"
    return rows.at_least(f"resize-latency/{kind}", 100 * own, "% worker's own", 50, detail)


def startup_time(run, asked):
    """From the first instruction of the youngest worker to the end of its set-up, in s."""
    youngest = 0.0
    for path in glob.glob(os.path.join(run.steps_directory, "w-*.jsonl")):
        with open(path) as file:
            times = {r["ev"]: r["t"] for r in map(json.loads, filter(lambda l: l.endswith("\n"), file)) if r["ev"] != "step"}
        if times.get("proc", 0) > asked and "ready" in times:
            youngest = max(youngest, times["ready"] - times["proc"])
    return youngest


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
