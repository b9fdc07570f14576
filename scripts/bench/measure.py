"""What drivers share: step logs and journals of runs, changes of size, losses, other programs, and rounds in turn.

Idle time of a change: by how much the longest gap between committed steps exceeds the median step of its size, from the request
until a few steps after the first one at the new size. The time of a step is when the first worker has committed it: gaps between
the records of different workers would be shorter by their skew, and flatter us. The steady gap is the same figure for as many
later steps, in which nothing changes: what the machine adds by itself. Idle time of a loss: the longest gap from the fault until
some steps after the recovery, minus a median step; the first step at the old size, when the replacement has joined, is in it.
"""

import collections
import contextlib
import json
import os
import signal
import subprocess
import time
import unittest
from statistics import median

import rows
from harness import Run, members, pids
from lab import Lab
from rows import Unavailable, below, shown, spread

SETTLE_STEPS = 8
STATUS_INTERVAL_S = 0.25  # a status command takes several ms of a core from the workers that are measured
BASE_WINDOW_S = 6  # before an event: what a step took
SETTLE_S = 1  # after a gap
TICKS = os.sysconf("SC_CLK_TCK")
ENDLESS = {"max_crashes": 1000, "max_hangs": 1000, "max_fruitless": 1000}  # losses, in the section [failures]

# All in seconds. `idle` is what the longest step from the request on took longer, `at_swap` the one in which the membership
# changed, `steady` the longest of as many later ones.
Change = collections.namedtuple("Change", "idle at_swap step latency steady")
Fault = collections.namedtuple("Fault", "idle step")


# --- Programs, rounds, runs

def program(*parts):
    """Of tests/bench."""
    path = os.path.join(rows.BUILD, "tests", "bench", *parts)
    if not os.access(path, os.X_OK):
        raise Unavailable(f"{os.path.relpath(path, rows.ROOT)} is not built")
    return path


def lines_of(*argv, timeout=600, **options):
    done = subprocess.run(list(map(str, argv)), stdout=subprocess.PIPE, text=True, timeout=timeout, check=True, **options)
    return done.stdout.splitlines()


def json_lines(*argv, **options):
    """What a program printed, an object a line."""
    return [json.loads(line) for line in lines_of(*argv, **options) if line.startswith("{")]


def in_turn(rounds, ways, measure=None):
    """{way: what each round gave}, interleaved, each second round backwards. `measure` takes a way; without it {way: function}."""
    found = {way: [] for way in ways}
    for number in range(rounds):
        for way in list(ways)[::-1 if number % 2 else 1]:
            found[way].append(measure(way) if measure else ways[way]())
    return found


def ratios(ours, theirs, scale=1):
    """Of each round."""
    return [scale * own / other for own, other in zip(ours, theirs)]


def figure(text, name="steps_per_s"):
    """The number behind NAME= in what a program printed."""
    for word in text.split():
        if word.startswith(name + "="):
            return float(word.partition("=")[2])
    raise Unavailable(f"no {name}= was printed: {text[-300:]}")


class Cleanups(contextlib.ExitStack):
    """For what expects a test case."""

    addCleanup = contextlib.ExitStack.callback

    def assertEqual(self, value, expected, what):
        if value != expected:
            raise RuntimeError(what)


@contextlib.contextmanager
def hosts(count, **options):
    """Namespaces with an sshd each. A laboratory that skips a test is not possible here."""
    try:
        with Lab(hosts=count, **options) as lab:
            yield lab
    except unittest.SkipTest as reason:
        raise Unavailable(str(reason)) from None


def stop(run, timeout=60):
    run.do("stop", run.name, timeout=timeout)
    return run.wait(timeout)


@contextlib.contextmanager
def training(config, size, wait_s=60, **options):
    """A run that trains with so many workers, and is stopped at the end of the block."""
    with Run(config, **options) as run:
        run.wait_size(size, wait_s)
        yield run
        stop(run)


def cpu_s(processes):
    """Time on processors of all threads."""
    total = 0
    for pid in processes:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


# --- Steps

def step_times(records):
    """Step number -> when the first worker had committed it."""
    times = {}
    for record in records:
        times.setdefault(record["step"], record["t"])
    return times


def ordered(records):
    """When each step had been committed."""
    return [t for _, t in sorted(step_times(records).items())]


def gaps(times):
    return [b - a for a, b in zip(times, times[1:])]


def steps_between(times, begin, end):
    """How long each step after `begin` up to `end` took."""
    return gaps([times[step] for step in range(begin, end + 1) if step in times])


def steady_gap(run, steps):
    """How much longer than the median the longest gap is where nothing changes: the noise of the machine, in s."""
    start = run.last_step()
    run.wait_step(start + steps, 60)
    own = gaps([t for step, t in sorted(step_times(run.steps()).items()) if step > start])
    return max(own) - median(own)


def idle_ms(records, event, end):
    """Of any launcher, whose workers may start again from a checkpoint: records have `t` (s on CLOCK_MONOTONIC) and `pid`, one
    for each step that a worker has completed. The longest gap between two steps of any workers in the window from the last step
    before `event` to `end`, minus a median step (after the gap, else before the event). None where fewer than two steps were
    completed in the window."""
    times = sorted(record["t"] for record in records if record["t"] <= end)
    window = [t for t in times if t <= event][-1:] + [t for t in times if t > event]
    if len(window) < 2:
        return None
    length, resumed = max((b - a, b) for a, b in zip(window, window[1:]))
    step = median_step(records, resumed + SETTLE_S, end) or median_step(records, event - BASE_WINDOW_S, event) or 0
    return 1000 * (length - step)


def median_step(records, begin, end):
    """Median time in s between two steps of the same worker; None where no worker completed two."""
    by_worker = collections.defaultdict(list)
    for record in sorted(records, key=lambda record: record["t"]):
        if begin <= record["t"] <= end:
            by_worker[record["pid"]].append(record["t"])
    own = [gap for times in by_worker.values() for gap in gaps(times)]
    return median(own) if own else None


# --- Changes of size

def changed(status, size, gone):
    """All of the new size are members and have committed a step, and the replaced process is not among them."""
    ranks = members(status)
    return (status["phase"] == "running" and len(ranks) == size and gone not in {w["pid"] for w in ranks}
            and all(w["step"] > 0 for w in ranks))


def change(run, words, size, gone=None):
    """Carries out one change and waits until it has settled: a Change."""
    before = {record["pid"] for record in run.steps()[-200:]}
    asked = time.monotonic()
    run.do(*words)
    run.wait_status(lambda s: changed(s, size, gone), 60, f"{' '.join(map(str, words))}", STATUS_INTERVAL_S)
    run.wait_more_steps(4 * SETTLE_STEPS, 60)
    records = run.steps()
    # After a replacement the first step of the new generation is the first of a process that is new.
    first = next((record for record in records if record["t"] > asked and record["world"] == size
                  and (gone is None or record["pid"] not in before)), None)
    if first is None:
        raise AssertionError(f"no step at size {size} after the change")
    return change_in(step_times(records), asked, first)


def change_in(times, asked, first):
    """The Change that was asked for at a time and came with a record."""
    swap = first["step"]
    start = max(step for step, t in times.items() if t <= asked)
    settled = swap + SETTLE_STEPS
    until = min(max(times), settled + swap - start + SETTLE_STEPS)
    old = median(steps_between(times, max(min(times), start - 2 * SETTLE_STEPS), start))
    new = median(steps_between(times, swap, max(times)))
    at_swap = times[swap] - times[swap - 1] - new
    idle = max([step - old for step in steps_between(times, start, swap - 1)] + [at_swap] +
               [step - new for step in steps_between(times, swap, settled)])
    return Change(idle, at_swap, new, first["t"] - asked, max(steps_between(times, settled, until)) - new)


def changes_of(run, repetitions, low=2, high=3, wait_s=120):
    """{"grow"|"replace"|"shrink": [Change, …]} of a run of `low` workers, which is stopped at the end."""
    found = collections.defaultdict(list)
    run.wait_size(low, wait_s)
    run.wait_more_steps(3 * SETTLE_STEPS, 60)
    for _ in range(repetitions):
        found["grow"].append(change(run, ("resize", run.name, high), high))
        victim = members(run.status())[1]["pid"]
        found["replace"].append(change(run, ("replace", run.name, 1), high, gone=victim))
        found["shrink"].append(change(run, ("resize", run.name, low), low))
    stop(run)
    return found


def swap_changes(config, repetitions, environment=None):
    with Run(config, environment=environment) as run:
        return changes_of(run, repetitions)


def idles_ms(found):
    """Of Changes or Faults."""
    return [1000 * max(0.0, one.idle) for one in found]


def step_ms(found):
    return 1000 * median(one.step for one in found)


def explain(changes):
    at_swap = 1000 * median(max(0.0, change.at_swap) for change in changes)
    steady = spread([1000 * change.steady for change in changes])
    return (f"at the swap itself {at_swap:.1f} ms; median step {step_ms(changes):.0f} ms; where nothing changes, the longest of as "
            f"many steps is {steady} ms longer")


def idle_values(name, found, limit_of=None):
    """`limit_of`: milliseconds of a kind of change and the median step in ms; None: the values are shown."""
    for kind, changes in found.items():
        idle = idles_ms(changes)
        yield (below(f"{name}/{kind}", idle, "ms", round(limit_of(kind, step_ms(changes)), 1), explain(changes)) if limit_of
               else shown(f"{name}/{kind}", idle, "ms", explain(changes)))


def startup_time(run):
    """From the start of the youngest process to its being ready, in s, as the journal has it."""
    spawned = run.events("spawned")[-1]
    return run.events("ready", worker=spawned["worker"])[0]["up"] - spawned["up"]


# --- Losses

def after_fault(run, fault, size, gone, timeout=60):
    """Carries out `fault`, waits until the run has its size again without the lost processes: a Fault."""
    run.wait_more_steps(SETTLE_STEPS)
    at = time.monotonic()
    fault()
    run.wait_status(lambda s: s.get("world_size") == size and s["phase"] == "running" and len(members(s)) == size
                    and not gone & set(pids(s)) and all(w["step"] > 0 for w in members(s)), timeout, "the recovery")
    run.wait_more_steps(3 * SETTLE_STEPS, timeout)
    times = ordered([record for record in run.steps() if record["t"] > at - 10])
    start = max((t for t in times if t <= at), default=times[0])
    step = median(gaps(times[-2 * SETTLE_STEPS:]))
    return Fault(max(gaps([t for t in times if t >= start])) - step, step)


def signalled_workers(config, number, repetitions, environment=None):
    """A signal to rank 1 of 3, again and again: the faults, and the journal."""
    faults = []
    with Run(config, environment=environment) as run:
        run.wait_size(3, 120)
        for _ in range(repetitions):
            victim = pids(run.status())[1]
            faults.append(after_fault(run, lambda: os.kill(victim, number), 3, {victim}))
        stop(run)
        return faults, run.journal(), run.audit()


def killed_workers(config, repetitions, environment=None):
    """kill -9 of rank 1: the faults, and how many passes of healthy workers came to nothing."""
    faults, journal, audit = signalled_workers(config, signal.SIGKILL, repetitions, environment)
    return faults, wasted_passes(journal), audit


def wasted_passes(journal):
    """Members of the generation before that a recovery took in as joiners: each gave up the pass it was in."""
    wasted, current = 0, set()
    for record in journal:
        if record["event"] == "generation":
            current = set(record["members"])
        if record["event"] == "prepare" and record["kind"] == "recover" and record["donors"]:
            wasted += len((current & set(record["members"])) - set(record["donors"]))
    return wasted
