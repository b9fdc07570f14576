"""Sharing policies on loads that no constant of a policy was chosen on.

Generated clusters of 64 slots need nothing; Pollux's workloads, Philly shuffled in time and Philly at a time-scale of 300 lie
outside of the repository (cluster.py). Their seed is the date, so each day has others; ELASTICTRAIN_SEED gives one."""

import csv
import datetime
import glob
import math
import os
import random
import tempfile

import cluster
import rows

SLOTS = 64
JOBS = 240
MEAN_LENGTH_S = 4 * 3600
LOADS = (0.5, 0.7, 0.9, 1.1, 1.3)
TIME_SCALES = (60, 300)
REQUESTS = (1, 1, 1, 2, 2, 4, 4, 8, 8, 16)
COMPARED = {"known": ("afs-l",), "unknown": ("afs-p", "tiresias-l", "max-min")}
LIMITS = {"known": (1.00, 0.97), "unknown": (1.01, 0.95)}  # of each set, of all
TAIL_LIMIT = 1.02
TURN_S = 7200  # of AFS-P and max-min, in the time of the trace
SHORTEST_TURN_S = 60


def lognormal(sigma):
    return lambda rng: rng.lognormvariate(-sigma * sigma / 2, sigma)


def pareto(alpha):
    return lambda rng: rng.paretovariate(alpha) * (alpha - 1) / alpha


LENGTHS = {"lognormal-0.5": lognormal(0.5), "lognormal-1.5": lognormal(1.5), "lognormal-2.5": lognormal(2.5),
           "pareto-1.5": pareto(1.5)}  # each of mean 1
CURVES = {"power-0.3": lambda slots: slots**0.3, "linear": float,
          "steps-of-8": lambda slots: max(1.0, slots // 8 * 8.0)}


def seed():
    return os.environ.get("ELASTICTRAIN_SEED") or datetime.date.today().isoformat()


# --- generated clusters


def jobs_of(rng, length, curve, load):
    """(arrival_s, work, requested): Poisson arrivals, of which the span makes the load exact."""
    requests = [rng.choice(REQUESTS) for _ in range(JOBS)]
    lengths_s = [MEAN_LENGTH_S * length(rng) for _ in range(JOBS)]
    gaps = [rng.expovariate(1) for _ in range(JOBS)]
    offered_slot_s = sum(request * length_s for request, length_s in zip(requests, lengths_s))
    gap_s = offered_slot_s / (SLOTS * load) / sum(gaps)
    arrival_s = 0.0
    for request, length_s, gap in zip(requests, lengths_s, gaps):
        yield arrival_s, length_s * curve(request), request
        arrival_s += gap * gap_s


def write_cluster(folder, rng, length, curve, load):
    os.makedirs(folder)
    with open(os.path.join(folder, "curves.csv"), "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("curve", "gpus", "iterations_per_s"))
        table.writerows(("curve", slots, curve(slots)) for slots in range(1, SLOTS + 1))
    with open(os.path.join(folder, "jobs.csv"), "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("job_id", "arrival_s", "work_iterations", "requested_gpus", "curve"))
        for number, (arrival_s, work, request) in enumerate(jobs_of(rng, length, curve, load)):
            table.writerow((number, arrival_s, work, request, "curve"))


def write_clusters(folder, lengths=None, curves=None, loads=LOADS, chosen=None):
    """Name of the set to its traces, one a load."""
    sets = {}
    for law, length in (lengths or LENGTHS).items():
        for shape, curve in (curves or CURVES).items():
            name = f"{law}-{shape}"
            for load in loads:
                path = os.path.join(folder, name, f"load-{load}")
                write_cluster(path, random.Random(f"{chosen or seed()} {name} {load}"), length, curve, load)
                sets.setdefault(name, []).append(path)
    return sets


# --- published traces, changed


def write_philly_shuffled(folder, chosen):
    """Philly's jobs at each other's times of arrival, within their virtual cluster."""
    with open(cluster.traces("petuum+adaptdl", "simulator", "traces", "philly.csv"), newline="") as file:
        lines = list(csv.DictReader(file))
    rng = random.Random(f"{seed()} philly {chosen}")
    by_vc = {}
    for line in lines:
        by_vc.setdefault(line["cluster"], []).append(line["timestamp"])
    for times in by_vc.values():
        rng.shuffle(times)
    for line in lines:
        line["timestamp"] = by_vc[line["cluster"]].pop()
    path = os.path.join(folder, f"philly-{chosen}.csv")
    with open(path, "w", newline="") as file:
        table = csv.DictWriter(file, lines[0])
        table.writeheader()
        table.writerows(lines)
    return path


# --- one set under one knowledge of lengths


def turn_s(time_scale):
    return max(SHORTEST_TURN_S, TURN_S / time_scale)


def ratios_of(files, lengths, arguments, time_scale=1):
    """For each trace: worth over the best of the compared, in the average completion time, and in its p99 over that one's."""
    others = COMPARED[lengths]
    results = cluster.simulate(files, "--cost", "swap", "--lengths", lengths, "--time-scale", str(time_scale), "--slice",
                               str(turn_s(time_scale)), "--policy", ",".join(("worth", *others)), *arguments)
    pairs = []
    for first in range(0, len(results), 1 + len(others)):
        one = {result["policy"]: result for result in results[first:first + 1 + len(others)]}
        best = min(others, key=lambda policy: float(one[policy]["avg_jct_s"]))
        pairs.append(tuple(float(one["worth"][field]) / float(one[best][field]) for field in ("avg_jct_s", "p99_jct_s")))
    return pairs


def generated_sets(lengths, folder):
    for name, files in write_clusters(folder).items():
        pairs = []
        for time_scale in TIME_SCALES:
            pairs += ratios_of(files, lengths, ("--gpus", str(SLOTS)), time_scale)
        yield name, pairs


def published_sets(lengths, folder):
    pollux = cluster.traces("petuum+adaptdl", "simulator")
    for name in ("workloads-0.5", "workloads", "workloads-1.5", "workloads-2.0", "workloads-realistic"):
        files = sorted(glob.glob(os.path.join(pollux, name, "*.csv")))
        yield f"pollux-{name}", ratios_of(files, lengths, ("--gpus", str(SLOTS), "--curves", os.path.join(pollux, "traces")))
    philly = ("--vc", cluster.VCS, "--load", "0.9", *cluster.curves())
    shuffled = [write_philly_shuffled(folder, chosen) for chosen in (1, 2, 3)]
    yield "philly-shuffled", ratios_of(shuffled, lengths, philly)
    as_it_is = [cluster.traces("petuum+adaptdl", "simulator", "traces", "philly.csv")]
    yield "philly-time-scale-300", ratios_of(as_it_is, lengths, philly, 300)


# --- sim-held-out


def rows_of(lengths, sets):
    each, of_all = LIMITS[lengths]
    others = " ".join(COMPARED[lengths])
    every = []
    for name, pairs in sets:
        every += pairs
        averages = [average for average, _ in pairs]
        text = f"{len(pairs)} traces, best of {others}; worst {max(averages):.3f}; p99 {cluster.mean_log(tail for _, tail in pairs):.3f}"
        yield rows.below(f"sim-held-out/{lengths}/{name}", cluster.mean_log(averages), "x", each, text)
    yield rows.below(f"sim-held-out/{lengths}/all", cluster.mean_log(average for average, _ in every), "x", of_all,
                     f"{len(every)} traces")
    yield rows.below(f"sim-held-out/{lengths}/all-p99", cluster.mean_log(tail for _, tail in every), "x", TAIL_LIMIT)


def sim_held_out(repetitions):
    yield rows.Row("sim-held-out/seed", None, "", "", None, f"ELASTICTRAIN_SEED={seed()}")
    for lengths in COMPARED:
        with tempfile.TemporaryDirectory() as folder:
            sets = list(generated_sets(lengths, folder))
            try:
                sets += published_sets(lengths, folder)
            except rows.Unavailable as reason:
                yield rows.Row(f"sim-held-out/{lengths}/published", None, "", "", None, f"not measured: {reason}")
            yield from rows_of(lengths, sets)
