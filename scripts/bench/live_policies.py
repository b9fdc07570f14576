"""Policies on real runs. Workers sleep along a known curve: a step takes the computation (64 ms with a batch of 16) and an exchange
that takes longer with more workers, so that what a policy settles on can be compared with what is best. Batches, accuracies and the
ends of jobs are those of real training."""

import concurrent.futures
import contextlib
import math
import os
import random
import re
import shutil
import tempfile
import threading
import time
from statistics import median

import rows
from harness import Failed, Run, job, members, synthetic, wait_until
from measure import hosts, json_lines, program, stop
from overhead import optdigits
from rows import Unavailable, Value, below, row, shown, spread

BATCH = 16
COMPUTE_MS = 64
MOST_WORKERS = 8
SIZES = range(1, MOST_WORKERS + 1)
HOST_SLOTS = 4  # of the two hosts of the curve with a border

# Milliseconds of an exchange by number of workers.
CURVES = {
    "linear": lambda n: 0,
    "saturating": lambda n: 12 * (n - 1),
    "optimum-inside": lambda n: 3 * (n - 1) ** 2,
    "host-border": lambda n: 4 * n if n <= HOST_SLOTS else 60 + 4 * n,
    "changing": lambda n: 12 * (n - 1),
    "dip": lambda n: 2 * (n - 1) + (100 if 3 <= n <= 5 else 0),
    "plateau": lambda n: 2 * (n - 1) if n <= 4 else 17.5 * n - COMPUTE_MS,
    "noisy": lambda n: 12 * (n - 1),
    "heavy-tailed": lambda n: 12 * (n - 1),
}
NOISE = {"noisy": 0.3}  # standard deviation of the logarithm of a step's time
OUTLIERS = {"heavy-tailed": (0.03, 8)}  # share of steps, and how many times as long they take
REDRAWN_S = 0.05  # less than a step, so that steps are independent
CHANGED_FACTOR = 4  # of the exchange, once a run on the curve `changing` has settled


def rate(curve, workers, factor=1.0):
    return workers * BATCH / (COMPUTE_MS + factor * CURVES[curve](workers)) * 1e3


def trainer(curve, **changes):
    return synthetic(compute_us_per_sample=1000 * COMPUTE_MS // BATCH, parameter_bytes=4_000, buckets=1,
                     exchange_us=[f"{n}:{round(1000 * CURVES[curve](n))}" for n in SIZES], **changes)


class Slowness:
    """The files that make a run's workers slow."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="et-slow-")

    def set(self, name, number):
        path = os.path.join(self.directory, name)
        if number is None:
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
            return
        with open(path + ".new", "w") as file:
            file.write(f"{number}\n")
        os.replace(path + ".new", path)

    def draw(self, curve, rng):
        """Makes the whole of the next steps longer or shorter by one factor, with mean 1 where they are noisy."""
        deviation = NOISE.get(curve, 0)
        share, times = OUTLIERS.get(curve, (0, 1))
        factor = math.exp(rng.gauss(0, deviation) - deviation ** 2 / 2) * (times if rng.random() < share else 1)
        self.set("slow-all", factor)
        self.set("exchange", factor)


@contextlib.contextmanager
def rough_steps(slow, curve, seed):
    """Draws a factor for each step while the context lasts, if steps of the curve differ."""
    over, rng = threading.Event(), random.Random(seed)

    def draw():
        while not over.wait(REDRAWN_S):
            slow.draw(curve, rng)

    thread = threading.Thread(target=draw, daemon=True)
    if curve in NOISE or curve in OUTLIERS:
        thread.start()
    try:
        yield
    finally:
        over.set()
        if thread.is_alive():
            thread.join()


@contextlib.contextmanager
def live_run(config, lab=None):
    """A run and its Slowness; the run is stopped at the end of the block."""
    slow = Slowness()
    try:
        with Run(config, lab=lab, arguments=["-x", f"ELASTICTRAIN_SLOW_DIR={slow.directory}"]) as run:
            yield run, slow
            stop(run)
    finally:
        shutil.rmtree(slow.directory, ignore_errors=True)


def beside_each_other(parallel, cases, measure):
    """The values of all cases in their order, so many at a time. `cases`: name -> arguments; a run that fails is a value."""
    with concurrent.futures.ThreadPoolExecutor(parallel) as pool:
        for name, future in [(name, pool.submit(measure, *arguments)) for name, arguments in cases]:
            try:
                yield from future.result()
            except Failed as failure:
                yield Value(name, None, met=False, detail=str(failure)[:200])


# --- The size

QUIET_S = 12  # without a change: the policy has settled
ROUGH_QUIET_S = 40  # where sizes are measured for longer
MOST_S = 120
MOST_REGRET = 3
GOOD = 0.02  # regret of sizes between which it does not matter
MOST_CHANGES = 6
MOST_SETTLE_S = 20
ROUGH = {"noisy": 3, "heavy-tailed": 3}  # times as long, because each size is measured for longer
STARTS = 3  # start-ups that settling may take besides


# What a policy wants little of, of a curve, a size and the factor of its exchange.
def half_efficiency(curve, n, factor):
    """Time^0.5 x worker-seconds^0.5."""
    return n ** 0.5 / rate(curve, n, factor)


def cost(curve, n, factor):
    return (0.004 + 0.001 * n) / rate(curve, n, factor)


def time_of(curve, n, factor):
    return 1 / rate(curve, n, factor)


# Settings, and the loss; None: what counts is the size of the policy's rule.
POLICIES = {
    "efficiency": ({}, half_efficiency),
    "cost": ({"utility": "linear:40,10000", "price_per_worker_hour": 3.6}, cost),
    "scavenger": ({"goal": "fastest", "steps_per_point": 20, "reconsider_s": 10}, time_of),
    # Published: it takes sizes in steps of 2, and does not look between them.
    "or": ({"increment": 2, "efficiency": 0.5, "decide_every_steps": 15, "min_batches_for_staying": 30}, half_efficiency),
    "provisioning": ({"every_steps": 25}, None),
    "goodput": ({"adapt_batch": False, "refit_s": 2, "min_s": 2, "settle_steps": 15}, None),
}


def provisioning_size(curve, start, factor, alpha=1 / 3):
    """At which the rule stops that adds one worker as long as it pays."""
    size = start
    while size < MOST_WORKERS and rate(curve, size + 1, factor) >= (1 + alpha / (size + 1)) * rate(curve, size, factor):
        size += 1
    return size


def goodput_distance(curve, n, factor, low=0.35, high=0.65):
    """By how much the speed of a worker, relative to one alone, lies outside of Pollux's band; 0 at the end of the sizes."""
    utility = rate(curve, n, factor) / n / rate(curve, 1, factor)
    if utility > high and n < MOST_WORKERS:
        return utility - high
    return low - utility if utility < low and n > 1 else 0.0


class Timeline:
    """The sizes of a run, as (seconds since its first generation, size), from its journal."""

    def __init__(self, run, since=0.0):
        self.records = run.journal()
        generations = [r for r in self.records if r.get("event") == "generation"]
        self.since = max(since, generations[0]["up"] if generations else 0.0)
        before = [r for r in generations if r["up"] <= self.since]
        self.sizes = ([(self.since, before[-1]["world_size"])] if before else []) + [
            (r["up"], r["world_size"]) for r in generations if r["up"] > self.since]

    def changes(self):
        return [(t, b) for (_, a), (t, b) in zip(self.sizes, self.sizes[1:]) if a != b]

    def settled_s(self, is_good):
        """Until the last change to or from a size that is not good, as in heuristics/simulate/figures.h."""
        changed = [b[0] for a, b in zip(self.sizes, self.sizes[1:]) if not (is_good(a[1]) and is_good(b[1]))]
        return (changed[-1] if changed else self.since) - self.since

    def text(self):
        return "→".join(str(size) for _, size in self.sizes[:1] + self.changes())


def start_s(run):
    """From `spawn` to `ready`, the longest of the run."""
    spawned = {r["worker"]: r["up"] for r in run.events("spawned")}
    return max((r["up"] - spawned[r["worker"]] for r in run.events("ready") if r["worker"] in spawned), default=0.0)


def wait_settled(run, curve, since=0.0):
    """No change for QUIET_S, or for ROUGH_QUIET_S where steps differ; after MOST_S it is what it is."""
    quiet_s = ROUGH_QUIET_S if curve in ROUGH else QUIET_S
    deadline = time.monotonic() + MOST_S * ROUGH.get(curve, 1)
    while True:
        if run.process.poll() is not None:
            raise Failed(f"the run ended with {run.process.returncode}")
        status = run.status()
        timeline = Timeline(run, since)
        last = timeline.changes()[-1][0] if timeline.sizes and timeline.changes() else timeline.since
        if timeline.sizes and status.get("phase") == "running" and status["uptime_s"] - last > quiet_s:
            return timeline
        if time.monotonic() > deadline:
            return timeline
        time.sleep(0.5)


def outcome(name, policy, curve, start, factor, timeline, run):
    """What the policy settled on, beside what is best."""
    loss, size, own_start_s = POLICIES[policy][1], timeline.sizes[-1][1], start_s(run)
    candidates = SIZES if policy != "or" else sorted({1, MOST_WORKERS, *(n for n in SIZES if (n - start) % 2 == 0)})
    detail = f"{timeline.text()}; {run.status().get('policy_reason', '')[:110]}"
    if loss:
        best = min(candidates, key=lambda n: loss(curve, n, factor))
        regret = lambda n: loss(curve, n, factor) / loss(curve, best, factor) - 1
        yield below(f"{name}/regret", 100 * regret(size), "%", MOST_REGRET, f"best {best}; {detail}")
    elif policy == "provisioning":
        best = provisioning_size(curve, start, factor)
        yield below(f"{name}/off", abs(size - best), "workers", 0, f"the rule's size {best}; {detail}")
    else:
        yield below(f"{name}/off", goodput_distance(curve, size, factor), "of utility", 0.03, f"band 0.35 to 0.65; {detail}")
    settled_s = timeline.settled_s(lambda n: regret(n) <= GOOD if loss else n == size)
    yield below(f"{name}/settled", settled_s, "s", round(MOST_SETTLE_S * ROUGH.get(curve, 1) + STARTS * own_start_s, 1),
                f"a start-up takes {own_start_s:.1f} s")
    # A rule that adds one worker at a time needs as many changes.
    most = max(MOST_CHANGES, MOST_WORKERS) if policy == "provisioning" else MOST_CHANGES
    yield below(f"{name}/changes", len(timeline.changes()), "", most)


def settle_on_a_size(name, policy, curve, start, lab):
    """The outcome of one run, or two if the job changes after it has settled."""
    is_border = curve == "host-border"
    config = job(workers=(1, start, MOST_WORKERS), trainer=trainer(curve), batch={"per_worker": BATCH},
                 hosts={"list": ["node1:4", "node2:4"] if is_border else [f"localhost:{MOST_WORKERS}"]},
                 policy={"name": policy, "interval_ms": 500}, **{f"policy.{policy}": POLICIES[policy][0]})
    with live_run(config, lab if is_border else None) as (run, slow), rough_steps(slow, curve, seed=start):
        run.wait_status(lambda s: s.get("phase") == "running" and s["step"] > 0, 60, "the first steps")
        found = list(outcome(name, policy, curve, start, 1, wait_settled(run, curve), run))
        if curve == "changing" and policy != "provisioning":  # which stays, as published
            changed_at = run.journal()[-1]["up"]
            slow.set("exchange", CHANGED_FACTOR)
            time.sleep(15)  # and longer, as steps are now
            found += outcome(f"{name}/changed", policy, curve, start, CHANGED_FACTOR, wait_settled(run, curve, changed_at), run)
    return found


@row("policies-live", "policies", "each policy on real runs along known curves: regret, settling, changes",
     "6 policies on 9 curves (linear, saturating, optimum inside, a step at the host border, changing; a dip, a plateau, noisy and "
     "heavy-tailed steps), from 1, 2 and 8 workers (`noisy` and `heavy-tailed`: settled within 60 s): regret ≤ 3 % by their own "
     "loss, settled within 20 s, ≤ 6 changes (`provisioning`: 8)")
def policies_live(repetitions):
    """The quick form, --repetitions 1: each policy on one curve and `efficiency` on all; else everything, from 1, 2 and 8 workers."""
    wanted = [("efficiency", curve, 2) for curve in CURVES]
    wanted += [(policy, "saturating", 2) for policy in POLICIES if policy != "efficiency"]
    if repetitions > 1:
        wanted = [(policy, curve, start) for policy in POLICIES for curve in CURVES for start in (1, 2, MOST_WORKERS)
                  if policy != "provisioning" or start == 2]
    named = [(f"policies-live/{policy}/{curve}/from-{start}", policy, curve, start) for policy, curve, start in wanted]
    with hosts(2) as lab:
        yield from beside_each_other(6, [(case[0], (*case, lab)) for case in named], settle_on_a_size)


# --- The batch, where the noise scale and the time of a step are known. The synthetic model's gradient of a sample is u p + 0.1 q
# with u uniform in (-1, 1) and parameters q = s p, which a tiny learning rate keeps. So the noise scale is (1/3) / (0.1 s)^2
# samples, and s^2 follows from the loss, the mean square of the parameters. A step takes 0.3 ms for each sample of a worker, and a
# time that does not depend on them.

FIRST_BATCH = 16
STEP_MS = {"noise-batch": 10, "goodput": 50, "scavenger": 50}  # the first only needs many of them
SAMPLE_MS = 0.3
BATCH_QUIET_S = 20  # without a change: the batch has settled
BATCH_LEAST_S, BATCH_MOST_S = 150, 240  # the noise scale is known well after the first
VALUE = 0.25  # of a sample, at the batch that noise-batch is asked for

BATCH_POLICIES = {
    "noise-batch": {"efficiency": VALUE, "min_steps": 60, "max_per_worker": 256, "growth": 4, "hysteresis": 1.1},
    "goodput": {"adapt_size": False, "refit_s": 3, "min_s": 3, "settle_steps": 20, "min_per_worker": 8, "max_per_worker": 256},
    "scavenger": {"goal": "fastest", "vary_batch": True, "min_per_worker": 8, "max_per_worker": 256, "steps_per_point": 30,
                  "reconsider_s": 10, "tolerance": 0.02},
}

# Of the synthetic model's pattern; it has 1,000 parameters.
MEAN_SQUARE = sum((((i * 2654435761) % 2**32 >> 8) / 2**24 - 0.5) ** 2 for i in range(1000)) / 1000


def batches_of(run):
    """(seconds, batch of a worker) of each plan that changed it."""
    found = []
    for record in run.events("prepare"):
        if not found or found[-1][1] != record["shares"][0]:
            found.append((record["up"], record["shares"][0]))
    return found


def settle_on_a_batch(policy):
    synthetic_trainer = synthetic(compute_us_per_sample=round(1000 * SAMPLE_MS), exchange_us=[f"1:{1000 * STEP_MS[policy]}"],
                                  parameter_bytes=4_000, buckets=1, learning_rate=1e-7)
    config = job(workers=(2, 2, 2), trainer=synthetic_trainer, batch={"per_worker": FIRST_BATCH},
                 policy={"name": policy, "interval_ms": 500}, **{f"policy.{policy}": BATCH_POLICIES[policy]})
    with live_run(config) as (run, _):
        run.wait_size(2, timeout=60)
        deadline = time.monotonic() + BATCH_MOST_S
        while time.monotonic() < deadline:
            status, batches = run.status(), batches_of(run)
            if len(batches) > 1 and status.get("phase") == "running" and \
                    status["uptime_s"] > max(BATCH_LEAST_S, batches[-1][0] + BATCH_QUIET_S):
                break
            time.sleep(1)
        batches, status = batches_of(run), run.status()
    scale = (1 / 3) / (0.01 * status["loss"] / MEAN_SQUARE)
    progress = lambda batch: 2 * batch / (STEP_MS[policy] + SAMPLE_MS * batch) / (1 + 2 * batch / scale)  # samples of a small batch
    best = scale * (1 - VALUE) / VALUE / 2 if policy == "noise-batch" else max(range(8, 257), key=progress)
    last = batches[-1][1]
    detail = (f"{'→'.join(str(batch) for _, batch in batches)} a worker, the last after {batches[-1][0]:.0f} s; "
              f"best {best:.0f} at a noise scale of {scale:.0f}; {status.get('policy_reason', '')[:90]}")
    off = ("off", abs(last / best - 1), 25) if policy == "noise-batch" else ("regret", 1 - progress(last) / progress(best), MOST_REGRET)
    # Changes of a search for a model are no changes of mind.
    return [below(f"batch-live/{policy}/{off[0]}", 100 * off[1], "%", off[2], detail),
            below(f"batch-live/{policy}/changes", len(batches) - 1, "", 5)]


@row("batch-live", "policies", "policies that choose the batch, on real runs with a known noise scale",
     "`noise-batch` within 25 % of the analytic batch, `goodput` and `scavenger` ≤ 3 % regret; ≤ 5 changes")
def batch_live(repetitions):
    times = 1 if repetitions == 1 else 3
    cases = [(f"batch-live/{policy}", (policy,)) for policy in BATCH_POLICIES for _ in range(times)]
    return beside_each_other(len(BATCH_POLICIES), cases, settle_on_a_batch)


# --- Whether a batch that follows the gradient noise shortens the time to an accuracy, where steps are dear: two hosts on a slow
# link, so that the exchange takes most of a small step

LINK = "50mbit"
SMALL_BATCH = 8  # of each of two workers, at first
TRAINED_CHARACTERS, HELD_OUT_CHARACTERS = 250_000, 60_000

# The first steps tell little, and the job is short: few measured steps suffice, and changes may be large.
NOISE_BATCH = {"efficiency": 0.5, "horizon_steps": 50, "max_error": 0.3, "min_steps": 50, "growth": 4, "max_per_worker": 256}


def text(seed, directory, **changes):
    """A part of the text, so that epochs end often: accuracy is measured at their ends."""
    with open(os.path.join(rows.DATA, "tinyshakespeare", "input.txt")) as file:
        whole = file.read()
    paths = [os.path.join(directory, name) for name in ("train.txt", "test.txt")]
    for path, part in zip(paths, (whole[:TRAINED_CHARACTERS], whole[-HELD_OUT_CHARACTERS:])):
        with open(path, "w") as file:
            file.write(part)
    return {"model": "char_lm", "train": paths[0], "test": paths[1], "hidden": [64], "seed": seed, **changes}


# What trains, the accuracy to reach, and how the learning rate follows the batch: with SGD, and with Adam.
LEARNERS = {"optdigits": (lambda seed, _: optdigits(seed, learning_rate=0.01, epochs=1000), 0.96, "adascale"),
            "char-lm": (lambda seed, directory: text(seed, directory, epochs=1000), 0.405, "sqrt")}


def seconds_to_accuracy(lab, name, seed, follows_noise):
    """From the first generation on; and the last batch of a worker."""
    made, accuracy, rule = LEARNERS[name]
    sections = {"policy": {"name": "noise-batch", "interval_ms": 100}, "policy.noise-batch": NOISE_BATCH,
                "learning_rate": {"rule": rule}} if follows_noise else {}
    with tempfile.TemporaryDirectory() as directory:
        config = job(workers=(2, 2, 2), trainer=made(seed, directory), batch={"per_worker": SMALL_BATCH},
                     hosts={"list": [f"{host.name}:1" for host in lab.hosts]}, **sections)
        config.pop("audit")
        with Run(config, lab=lab) as run:
            at = wait_until(lambda: next((note["up"] for note in run.events("note", key="accuracy") if float(note["value"]) >= accuracy),
                                         None), 300, f"an accuracy of {accuracy}")
            plans = run.events("prepare")
            stop(run)
    return at - plans[0]["up"], plans[-1]["shares"][0]


@row("time-to-accuracy", "policies", "a batch that follows the noise against a fixed one, on a slow link",
     "a batch that follows the noise (`noise-batch`, from 8 a worker) ≤ 0.8 times the fixed batch's time; 2 hosts on a link of 50 "
     "Mbit/s, 5 seeds in pairs")
def time_to_accuracy(repetitions):
    seeds = range(1, max(5, repetitions) + 1)
    with hosts(2, rate=LINK) as lab:
        for name, (_, accuracy, _) in LEARNERS.items():
            pairs = [(seconds_to_accuracy(lab, name, seed, False), seconds_to_accuracy(lab, name, seed, True)) for seed in seeds]
            fixed, following = ([pair[side][0] for pair in pairs] for side in (0, 1))
            yield below(f"time-to-accuracy/{name}", [ours / theirs for theirs, ours in zip(fixed, following)], "times", 0.8,
                        f"to {100 * accuracy:g} %: {spread(following)} s, fixed {spread(fixed)} s; last batches "
                        f"{', '.join(str(pair[1][1]) for pair in pairs)} a worker, at first {SMALL_BATCH}; 2 hosts, {LINK}")


# --- Stragglers: how soon a slow worker is found, what happens to it, and who is left alone. The time of a finding is that of the
# record of the decision, from the moment in which the worker was told to be slow; it reads that every four steps.

WORKERS = 4
MISSED_S = 40  # until a straggler must have been found
WATCH_S = 10  # in which nothing must happen


def mark(run, ranks, slow, name, number):
    """Returns when."""
    for worker in members(run.status()):
        if worker["rank"] in ranks:
            slow.set(f"{name}-{worker['id']}", number)
    return time.time()


def decisions(run, since):
    return [r for r in run.events("decided") if r["t"] >= since]


def replaced_at(run, since):
    return next((r["t"] - since for r in decisions(run, since) if r.get("replace")), None)


def soon(condition, what, interval=0.02):
    """What it gives; MISSED_S if it gives nothing by then."""
    try:
        return wait_until(condition, MISSED_S, what, interval)
    except Failed:
        return MISSED_S


def slow_ranks(factor, ranks_of=lambda workers: {2}):
    """Until the decision to replace."""
    def attempt(run, slow):
        since = mark(run, ranks_of(members(run.status())), slow, "slow", factor)
        return soon(lambda: replaced_at(run, since), "a replacement")

    return attempt


def transient(run, slow):
    """Replacements of a worker that was slow for 1.5 s."""
    since = mark(run, {2}, slow, "slow", 1.5)
    time.sleep(1.5)
    mark(run, {2}, slow, "slow", None)
    time.sleep(WATCH_S)
    return sum(bool(r.get("replace")) for r in decisions(run, since))


def data_bound(run, slow):
    """Until the worker is reported; MISSED_S if it is not, or if it is replaced."""
    since = mark(run, {2}, slow, "data", 40)
    found_s = soon(lambda: next((r["t"] - since for r in decisions(run, since) if "data_bound" in r["code"]), None), "a report")
    time.sleep(WATCH_S / 2 if found_s < MISSED_S else 0)
    told = "waits for its data" in run.do("status", run.name)
    return found_s if told and replaced_at(run, since) is None else MISSED_S


def no_free_slot(run, slow):
    """Until the slow worker has a smaller share."""
    since = mark(run, {2}, slow, "slow", 2)
    worker = members(run.status())[2]["id"]

    def smaller():
        shares = {w["id"]: w["share"] for w in members(run.status())}
        return time.time() - since if worker in shares and shares[worker] < max(shares.values()) else None

    return soon(smaller, "a smaller share", 0.1)


# name: (hosts, attempt, unit, at most)
STRAGGLERS = {
    "1.5x": (["localhost:5"], slow_ranks(1.5), "s", 3),
    "1.12x": (["localhost:5"], slow_ranks(1.12), "s", 8),
    "whole-host": (["node1:2", "node2:2", "node3:2"],
                   slow_ranks(1.5, lambda workers: {w["rank"] for w in workers if w["host"] == workers[-1]["host"]}), "s", 3),
    "transient-1.5s": (["localhost:5"], transient, "replacements", 0),
    "data-bound": (["localhost:5"], data_bound, "s", 8),
    "no-free-slot": (["localhost:4"], no_free_slot, "s", 8),
}


@row("straggler-live", "policies", "stragglers of real runs: found, replaced, reported or left alone",
     "1 of 4 at 1.5 times: 3 s; at 1.12: 8 s; a whole host: 3 s; slow for 1.5 s: never replaced; data-bound: reported; no free "
     "slot: a smaller share")
def straggler_live(repetitions):
    """Two attempts a repetition; one in the quick form, --repetitions 1."""
    def found_by(attempt, places):
        config = job(workers=(1, WORKERS, WORKERS), trainer=trainer("linear"), hosts={"list": places}, policy={"interval_ms": 500},
                     stragglers={"action": "replace"})
        with live_run(config, lab if places[0].startswith("node") else None) as (run, slow):
            run.wait_size(WORKERS, timeout=60)
            run.wait_more_steps(100, timeout=120)
            return attempt(run, slow)

    with hosts(3) as lab:
        for name, (places, attempt, unit, most) in STRAGGLERS.items():
            found = [found_by(attempt, places) for _ in range(1 if repetitions == 1 else 2 * repetitions)]
            yield below(f"straggler-live/{name}", max(found), unit, most,
                        f"worst of {len(found)}, median {median(found):.1f}; {MISSED_S} s: missed")


# --- How well the end of a job is foreseen from its loss (Optimus): the estimate at a quarter, half and three quarters of the way,
# beside where the job has converged; from the loss of every step, and from what heartbeats say of small batches

MOST_OFF = 25  # % of the true end
THRESHOLDS = (0.01, 0.005, 0.002)  # of the largest loss, in an epoch
WINDOWS = 3


def losses(config_of, batch):
    """Those of all steps, as (samples, loss), and the samples of an epoch."""
    with tempfile.TemporaryDirectory() as directory:
        trained = {**config_of(directory), "log_every_steps": 1}
        trained.pop("test")
        config = job(workers=(1, 1, 1), trainer=trained, batch={"per_worker": batch})
        config.pop("audit")
        with Run(config) as run:
            run.wait(300)
            steps = re.findall(r"step (\d+): loss ([0-9.]+)", run.text())
    if not steps:
        raise Unavailable("the run did not end: " + run.text()[-500:])
    return [(batch * int(step), float(loss)) for step, loss in steps], batch * int(steps[-1][0]) / trained["epochs"]


@row("convergence", "policies", "the end that a loss foretells at 25, 50 and 75 % of the way: optdigits, char LM",
     "the end of a job by its loss at 25, 50 and 75 % of the way, thresholds of 1, 0.5 and 0.2 % of the largest loss in an epoch: "
     "≤ 25 % off; optdigits (converged after 6 to 9 epochs) and the char LM (8 to 17), from the loss of every step; optdigits with "
     "batches of 16 by what a heartbeat of 20 steps says")
def convergence(_):
    digits = lambda _: optdigits(hidden=[128], epochs=30)
    characters = lambda folder: text(1, folder, epochs=40)
    for name, config_of, batch, heard_steps in (("optdigits", digits, 64, 1), ("char-lm", characters, 64, 1),
                                                ("optdigits-small-batch", digits, 16, 20)):
        points, epoch = losses(config_of, batch)
        for threshold in THRESHOLDS:
            yield from foreseen(f"convergence/{name}/{threshold:g}", points, epoch, threshold, heard_steps)


def foreseen(label, points, epoch, threshold, heard_steps):
    end, *found = json_lines(program("convergence", "convergence_bench"), epoch, threshold, WINDOWS, heard_steps,
                             input="".join(f"{samples} {loss}\n" for samples, loss in points))
    if end["end"] is None:
        yield shown(label, None, "", f"not converged within {points[-1][0] / epoch:.0f} epochs")
    for one in found:
        where = f"{label}/at-{100 * one['share']:.0f}%"
        if one["why_not"]:
            yield shown(where, None, "", "no estimate: " + one["why_not"])
            continue
        yield below(where, 100 * abs(one["samples"] - end["end"]) / end["end"], "% off", MOST_OFF,
                    f"epoch {one['samples'] / epoch:.1f} ± {one['error'] / epoch:.1f}; true: {end['end'] / epoch:.0f}")
