"""Runs whose workers sleep along a known curve, and what is best on it.

A step takes the computation (64 ms with a batch of 16) and an exchange that takes longer with more workers.
"""

import contextlib
import math
import os
import random
import shutil
import tempfile
import threading

from harness import Run, job, synthetic

BATCH = 16
COMPUTE_MS = 64
MOST_WORKERS = 8
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


def step_s(curve, workers, factor=1.0):
    return (COMPUTE_MS + factor * CURVES[curve](workers)) / 1e3


def rate(curve, workers, factor=1.0):
    return workers * BATCH / step_s(curve, workers, factor)


def sizes():
    return range(1, MOST_WORKERS + 1)


def efficiency_loss(target):
    """Time^(1 - target) x worker-seconds^target."""
    return lambda curve, n, factor: n ** target / rate(curve, n, factor)


def cost_loss(value_per_s, price_per_s):
    return lambda curve, n, factor: (value_per_s + price_per_s * n) / rate(curve, n, factor)


def time_loss(curve, n, factor):
    return 1 / rate(curve, n, factor)


def first_that_fails(pays, start):
    """The size at which a rule stops that adds one worker as long as it pays."""
    size = start
    while size < MOST_WORKERS and pays(size):
        size += 1
    return size


def provisioning_size(curve, start, factor, alpha=1 / 3):
    return first_that_fails(lambda n: rate(curve, n + 1, factor) >= (1 + alpha / (n + 1)) * rate(curve, n, factor), start)


def goodput_distance(curve, n, factor, low=0.35, high=0.65):
    """By how much the speed of a worker, relative to one alone, lies outside of Pollux's band; 0 at the end of the sizes."""
    utility = rate(curve, n, factor) / n / rate(curve, 1, factor)
    if utility > high and n < MOST_WORKERS:
        return utility - high
    return low - utility if utility < low and n > 1 else 0.0


def regret(loss, curve, size, factor=1.0, candidates=None):
    best = min(loss(curve, n, factor) for n in candidates or sizes())
    return loss(curve, size, factor) / best - 1


def best_size(loss, curve, factor=1.0, candidates=None):
    return min(candidates or sizes(), key=lambda n: loss(curve, n, factor))


def exchange_us(curve):
    return [f"{n}:{round(1000 * CURVES[curve](n))}" for n in sizes()]


def trainer(curve, **changes):
    return synthetic(compute_us_per_sample=1000 * COMPUTE_MS // BATCH, parameter_bytes=4_000, buckets=1,
                     exchange_us=exchange_us(curve), **changes)


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

    def close(self):
        shutil.rmtree(self.directory, ignore_errors=True)


@contextlib.contextmanager
def rough_steps(slow, curve, seed):
    """Draws a factor for each step while the context lasts, if steps of the curve differ."""
    if curve not in NOISE and curve not in OUTLIERS:
        yield
        return
    over = threading.Event()
    rng = random.Random(seed)

    def draw():
        while not over.wait(REDRAWN_S):
            slow.draw(curve, rng)

    thread = threading.Thread(target=draw, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def live_run(config, lab=None):
    """A run and its Slowness."""
    slow = Slowness()
    try:
        with Run(config, lab=lab, arguments=["-x", f"ELASTICTRAIN_SLOW_DIR={slow.directory}"]) as run:
            yield run, slow
    finally:
        slow.close()


def config_of(curve, policy, start, settings, hosts=None, **sections):
    return job(workers=(1, start, MOST_WORKERS), trainer=trainer(curve), batch={"per_worker": BATCH},
               hosts={"list": hosts or [f"localhost:{MOST_WORKERS}"]},
               policy={"name": policy, "interval_ms": 500}, **{f"policy.{policy}": settings}, **sections)
