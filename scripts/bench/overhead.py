"""What the session, checkpoints and monitors cost a step, and whether changes of size cost anything in learning: accuracy and
exactly-once."""

import os
import random
import subprocess
import tempfile
from statistics import mean, median, variance

import rows
from changes import LARGE, steps_of
from harness import HostList, Run, job, members, synthetic, wait_until
from measure import Cleanups, figure, in_turn, program, ratios, step_times, stop
from rows import Unavailable, at_least, below, row, shown, spread

# --- The session and its monitors

NORM_EVERY = 16  # steps, as in the session
VARIANCE_EVERY = 50  # steps; each costs a second all-reduce
WARM_UP_STEPS = 20


def bench_session(*words, monitors=None):
    """The run of the bench, which has ended: its output, and the steps of the first rank."""
    environment = [] if monitors is None else ["-x", f"ELASTICTRAIN_MONITORS={monitors}"]
    with Run(arguments=["-n", "2", *environment, "--", program("session_overhead", "session_overhead"), "session", *words]) as run:
        if run.wait(120) != 0:
            raise Unavailable(f"session_overhead failed: {run.text()[-300:]}")
        return run.text(), [record for record in run.steps() if record["rank"] == 0]


@row("session-overhead", "overhead and correctness", "steps a second: session against the bare communicator",
     "≥ 99 % of the bare communicator's steps/s, with the copy of the gradients")
def session_overhead(repetitions):
    """The same loop, both ways in turn: many short pairs, because one percent is less than the noise of one pair."""
    bare = [program("session_overhead", "session_overhead"), "bare"]
    found = in_turn(3 * max(5, repetitions), {
        "session": lambda: figure(bench_session()[0]),
        "bare": lambda: figure(subprocess.run(bare, capture_output=True, text=True, timeout=120).stdout)})
    yield at_least("session-overhead", ratios(found["session"], found["bare"], 100), "%", 99,
                   f"{median(found['session']):.0f} steps/s against {median(found['bare']):.0f} bare")


@row("checkpoint-cost", "overhead and correctness", "100 MB every 10 steps, with and without in turn",
     "100 MB every 10 steps of 240 ms: ≤ 2 % slower")
def checkpoint_cost(repetitions):
    every, warm_up, measured = 10, 20, 60  # steps

    def step_s(compute, with_checkpoints):
        """Mean over whole intervals; 25 million parameters, 2 workers on 2 cores."""
        with tempfile.TemporaryDirectory(prefix="etcheckpoints-") as directory:
            sections = {"checkpoint": {"directory": directory, "interval_steps": every}} if with_checkpoints else {}
            with Run(steps_of({**LARGE, "compute": compute}, (1, 2, 2), **sections)) as run:
                run.wait_size(2, 60)
                run.wait_step(warm_up + measured + 1, 180)
                stop(run)
                notes = [note for note in run.events("note") if note.get("key", "").startswith("checkpoint_")]
                if notes:
                    raise AssertionError(f"not every checkpoint was written: {notes[0]}")
                times = step_times(run.steps())
            sizes.update(entry.stat().st_size for entry in os.scandir(directory))
            return (times[warm_up + measured] - times[warm_up]) / measured

    for compute, name in (("spin", "busy-cores"), ("sleep", "idle-cores")):
        sizes = set()
        found = in_turn(max(5, repetitions), (False, True), lambda writes: step_s(compute, writes))
        yield below(f"checkpoint-cost/{name}", [ratio - 100 for ratio in ratios(found[True], found[False], 100)], "%", 2,
                    f"slow-down; a checkpoint of {max(sizes) / 1e6:.0f} MB every {every} steps of "
                    f"{spread([1000 * time for time in found[False]])} ms, 2 workers")


@row("monitor-overhead", "overhead and correctness", "what steps that measure norms or the variance take longer", "≤ 0.5 % of a step")
def monitor_overhead(repetitions):
    """What a monitor costs in the steps that measure: those against the others of the same runs. Whole runs with and
    without it, one after the other, differ by more than it costs."""

    def times_of(every, first, monitors, *words):
        """In milliseconds, by whether it is a step that measures: `first`, and every `every` after it."""
        _, steps = bench_session(*words, monitors=monitors)
        times = {True: [], False: []}
        for before, after in zip(steps[WARM_UP_STEPS:], steps[WARM_UP_STEPS + 1:]):
            times[after["step"] % every == first].append(1e3 * (after["t"] - before["t"]))
        return times

    def slower(every, *arguments):
        """In % of all steps, and in words."""
        found = [times_of(every, *arguments) for _ in range(2 * max(5, repetitions))]
        measured = [time for times in found for time in times[True]]
        middle_ms = median(time for times in found for time in times[False])
        longer_ms = median(measured) - middle_ms
        return (100 * longer_ms / every / middle_ms,
                f"{len(measured)} steps, one of {every}, {1e3 * longer_ms:.0f} us longer than the median of {middle_ms:.2f} ms")

    norms, words = slower(NORM_EVERY, 1, 1)
    without, _ = slower(NORM_EVERY, 1, 0)
    yield below("monitor-overhead", norms, "%", 0.5,
                f"{words}; the same steps of runs without monitors: {without:.2f} %; KungFu's noise scale: 4.6 %")
    cost, words = slower(VARIANCE_EVERY, 0, 0, str(VARIANCE_EVERY))
    yield shown("monitor-overhead/variance", cost, "%", f"{words}; measured where a program asks for it; KungFu's: 20 %")


# --- Accuracy

GLOBAL_BATCH = 64  # at every size


def optdigits(seed=1, **changes):
    """The built-in trainer's, and as whoever asks for it."""
    path = os.path.join(rows.DATA, "optdigits", "optdigits")
    return {"model": "mlp", "train": f"{path}.tra", "test": f"{path}.tes", "seed": seed, **changes}


def two_standard_errors(one, other):
    """Of the difference of two means, from the seeds' own spread."""
    return 2 * ((variance(one) + variance(other)) / len(one)) ** 0.5


def change_at_random(run, sizes, changes, choice, timeout=60):
    """How many changes from 2 workers took place before training ended."""
    done, size = 0, 2
    run.wait_size(2, 120)
    while done < changes and run.process.poll() is None:
        size = choice.choice([n for n in sizes if n != size])
        if run.command("resize", run.name, size).returncode != 0:
            break
        wait_until(lambda: run.process.poll() is not None or run.status().get("world_size") == size, timeout, "the change", 0.1)
        done += run.process.poll() is None
    return done


def accuracy_after(seed, changes):
    """In %, and how many changes took place."""
    config = job(workers=(1, 2, 4), trainer=optdigits(seed, epochs=500, eval_every_epochs=0),
                 batch={"per_worker": GLOBAL_BATCH, "max_global": GLOBAL_BATCH, "at_limit": "split"})
    with Run(config) as run:
        done = change_at_random(run, (1, 2, 3, 4), changes, random.Random(seed)) if changes else 0
        if run.wait(300) != 0:
            raise AssertionError(f"the run failed: {run.text()[-500:]}")
        return 100 * float(run.events("note", key="accuracy")[-1]["value"]), done


@row("accuracy-elastic", "overhead and correctness", "optdigits: fixed size against 20 random changes, 5 seeds each",
     "optdigits, fixed 2 workers and 20 random changes: both ≥ 96 %, difference within seed noise")
def accuracy_elastic(repetitions):
    seeds = range(1, max(5, repetitions) + 1)
    fixed = [accuracy_after(seed, 0)[0] for seed in seeds]
    elastic, changes = zip(*(accuracy_after(seed, 20) for seed in seeds))
    yield at_least("accuracy-elastic/fixed", mean(fixed), "%", 96, spread(fixed) + " %")
    yield at_least("accuracy-elastic/changing", mean(elastic), "%", 96, spread(elastic) + " %")
    yield below("accuracy-elastic/difference", abs(mean(elastic) - mean(fixed)), "points",
                round(two_standard_errors(fixed, elastic), 3), f"limit: two standard errors over {len(fixed)} seeds")
    yield at_least("accuracy-elastic/changes", min(changes), "changes", 20, "fewest changes of a run")


# --- Exactly once

NAMES = ("localhost:4", "127.0.0.1:4")  # of this machine, so that one can be drained and come back


@row("audit-100", "overhead and correctness", "100 random changes in one audited run", "0 missing, 0 repeated, equal hashes")
def audit_100(_):
    """Changes of every kind; one run, because each counts by itself."""
    choice = random.Random(1)
    trainer = synthetic(compute_us_per_sample=300, samples=5000, parameter_bytes=1_000_000)
    counts = {"grow": 0, "shrink": 0, "replace": 0, "drain": 0}
    with Cleanups() as case:
        offered = HostList(case, *NAMES)
        with Run(job(workers=(1, 2, 5), trainer=trainer, hosts=offered.section())) as run:
            run.wait_size(2, 60)
            for _ in range(100):
                counts[random_change(run, offered, choice)] += 1
                run.wait_more_steps(3)
            stop(run)
            audit = run.audit() or {}
    detail = (", ".join(f"{count} {kind}" for kind, count in counts.items())
              + f"; {audit.get('steps')} steps audited, {audit.get('hashes_compared')} hashes compared")
    for key in ("missing", "repeated", "unequal_hashes"):
        yield below(f"audit-100/{key}", float(audit.get(key, "nan")), "", 0, detail)


def resized(run, size):
    run.do("resize", run.name, size)
    return run.wait_size(size, 60)


def random_change(run, offered, choice):
    size = run.status()["world_size"]
    kind = choice.choice(["resize", "resize", "replace", "drain"])
    if kind == "replace":
        run.do("replace", run.name, choice.randrange(size))
        run.wait_size(size, 60)
        return "replace"
    if kind == "drain":
        drain_and_return(run, offered, choice, size)
        return "drain"
    target = choice.choice([n for n in (1, 2, 3, 4, 5) if n != size])
    resized(run, target)
    return "grow" if target > size else "shrink"


def drain_and_return(run, offered, choice, size):
    """Drains a host that has workers; its workers move; then the host vanishes and comes back as a new one."""
    if size > 4:  # what is left could not take them all
        size = 4
        resized(run, size)
    victim = choice.choice(sorted({w["host"] for w in members(run.status())}))
    run.do("drain", run.name, victim)
    run.wait_status(lambda s: s["phase"] == "running" and s["world_size"] == size
                    and victim not in {w["host"] for w in members(s)}, 60, f"{victim} drained")
    seen = len(run.events("host_vanished", host=victim))
    offered.offer(*(name for name in NAMES if not name.startswith(victim)))
    wait_until(lambda: len(run.events("host_vanished", host=victim)) > seen, 30, f"{victim} gone from the list")
    offered.offer(*NAMES)
    run.wait_status(lambda s: any(h["host"] == victim and h["phase"] == "up" for h in s["hosts"]), 30, "its return")
