"""Whether a batch that follows the gradient noise shortens the time to an accuracy, where steps are dear: two hosts
(namespaces) on a slow link, so that the exchange takes most of a small step. The fixed batch beside it in the same run of
the benchmark, with the same seeds."""

import os
import statistics
import tempfile

import rows
from harness import Run, job, wait_until
from lab import Lab

LINK = "50mbit"
FIRST_BATCH = 8  # of each of two workers
LEAST_SEEDS = 5
MOST_S = 300
MOST_RATIO = 0.8
TRAINED_CHARACTERS, HELD_OUT_CHARACTERS = 250_000, 60_000

# The first steps tell little, and the job is short: few measured steps suffice, and changes may be large.
NOISE_BATCH = {"efficiency": 0.5, "horizon_steps": 50, "max_error": 0.3, "min_steps": 50, "growth": 4, "max_per_worker": 256}


def digits(seed, _):
    path = os.path.join(rows.DATA, "optdigits", "optdigits")
    return {"model": "mlp", "train": f"{path}.tra", "test": f"{path}.tes", "learning_rate": 0.01, "seed": seed, "epochs": 1000}


def text(seed, directory):
    """A part of the text, so that epochs end often: accuracy is measured at their ends."""
    with open(os.path.join(rows.DATA, "tinyshakespeare", "input.txt")) as file:
        whole = file.read()
    paths = [os.path.join(directory, name) for name in ("train.txt", "test.txt")]
    for path, part in zip(paths, (whole[:TRAINED_CHARACTERS], whole[-HELD_OUT_CHARACTERS:])):
        with open(path, "w") as file:
            file.write(part)
    return {"model": "char_lm", "train": paths[0], "test": paths[1], "hidden": [64], "seed": seed, "epochs": 1000}


# What trains, the accuracy to reach, and how the learning rate follows the batch: with SGD, and with Adam.
JOBS = {"optdigits": (digits, 0.96, "adascale"), "char-lm": (text, 0.405, "sqrt")}


def config_of(lab, trainer, rule, follows_noise):
    sections = {"batch": {"per_worker": FIRST_BATCH}, "hosts": {"list": [f"{host.name}:1" for host in lab.hosts]}}
    if follows_noise:
        sections.update({"policy": {"name": "noise-batch", "interval_ms": 100}, "policy.noise-batch": NOISE_BATCH,
                         "learning_rate": {"rule": rule}})
    config = job(workers=(2, 2, 2), trainer=trainer, **sections)
    config.pop("audit")
    return config


def seconds_to(run, accuracy):
    """From the first generation on."""
    def reached():
        return next((record["up"] for record in run.events("note", key="accuracy") if float(record["value"]) >= accuracy), None)

    at = wait_until(reached, MOST_S, f"an accuracy of {accuracy}")
    return at - run.events("prepare")[0]["up"]


def measure(lab, name, seed, follows_noise):
    """Seconds, and the last batch of a worker."""
    made, accuracy, rule = JOBS[name]
    with tempfile.TemporaryDirectory() as directory:
        with Run(config_of(lab, made(seed, directory), rule, follows_noise), lab=lab) as run:
            took = seconds_to(run, accuracy)
            batch = run.events("prepare")[-1]["shares"][0]
            run.do("stop", run.name)
            run.wait(60)
    return took, batch


def time_to_accuracy(repetitions):
    seeds = range(1, max(LEAST_SEEDS, repetitions) + 1)
    with Lab(hosts=2, rate=LINK) as lab:
        for name, (_, accuracy, _) in JOBS.items():
            pairs = [(measure(lab, name, seed, False)[0], *measure(lab, name, seed, True)) for seed in seeds]
            ratios = [following / fixed for fixed, following, _ in pairs]
            detail = (f"ratios {rows.spread(ratios, 2)}; to {100 * accuracy:g} %: {rows.spread([p[1] for p in pairs])} s, fixed "
                      f"{rows.spread([p[0] for p in pairs])} s; last batches {', '.join(str(p[2]) for p in pairs)} a worker, "
                      f"at first {FIRST_BATCH}; 2 hosts, {LINK}")
            yield rows.below(f"time-to-accuracy/{name}", statistics.median(ratios), "times", MOST_RATIO, detail)
