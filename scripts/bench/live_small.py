"""Small jobs whose workers start slowly, on a live cluster under every policy: how much of the slots' time trains, and when the
jobs are done. The jobs are Python programs without PyTorch that sleep while they start, and in place of computing."""

import concurrent.futures
import dataclasses
import os
import statistics
import subprocess
import sys
import tempfile
import time

import rows
from cluster_lab import Cluster
from harness import BINARY, toml, wait_until
from jobs import Case

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "slow_start.py")
SAMPLE_S, BATCH = 0.0625, 4
GAPS_S = (1.0, 2.0)  # between arrivals: a third and two thirds of a worker's start
POLICIES = ("fifo", "srtf", "tiresias-l", "max-min", "themis", "optimus", "afs-l", "afs-p", "gandiva", "worth")
AT_ONCE = 2  # clusters beside each other; their jobs sleep
OURS = "worth"


@dataclasses.dataclass
class Load:
    """Jobs of a cluster: when each arrives, how long it is on one slot, and the most slots that it can use."""

    jobs: tuple
    slots: int = 4
    start_s: float = 3.0
    slower: float = 0.0  # a step takes this part longer for each worker beside the first


def small(gap_s):
    return Load(tuple((number * gap_s, length_s, 4) for number, length_s in enumerate((12, 20, 8, 28, 10, 16, 24))))


def submit(cluster, name, load, length_s, most):
    config = {"workers": {"min": 1, "start": 1, "max": most}, "command": [sys.executable, PROGRAM],
              "batch": {"per_worker": BATCH}, "audit": {"every_steps": 0},
              "checkpoint": {"directory": tempfile.mkdtemp(prefix="checkpoints-", dir=cluster.directory)}}
    variables = {"PYTHONPATH": os.path.join(rows.ROOT, "train", "python"), "PYTHONDONTWRITEBYTECODE": "1",
                 "ET_START_S": str(load.start_s), "ET_SAMPLE_S": str(SAMPLE_S),
                 "ET_SAMPLES": str(int(length_s / SAMPLE_S)), "ET_SLOWER": str(load.slower)}
    path = cluster.write(name + ".toml", toml(config))
    words = [word for variable in variables for word in ("-x", variable)]
    subprocess.run([BINARY, "submit", path, "--name", name, *words], check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, env={**cluster.environment, **variables})


def run(policy, load, look):
    """What `look` finds in the cluster whose jobs have ended under one policy."""
    with Case() as case:
        cluster = Cluster(case, slots=load.slots, policy=policy).start()
        began = time.monotonic()
        for number, (arrival_s, length_s, most) in enumerate(load.jobs):
            time.sleep(max(0.0, began + arrival_s - time.monotonic()))
            submit(cluster, f"job-{number}", load, length_s, most)
        wait_until(lambda: len(cluster.journal("ended")) == len(load.jobs), 600, "the end of all jobs", 0.5)
        failed = [record for record in cluster.journal("ended") if record["status"] != 0]
        if failed:
            raise RuntimeError(f"{policy}: jobs failed: {failed}")
        cluster.assert_slots_used_once()
        return look(cluster)


def figures(cluster, load):
    """(mean completion time in s, % of the slots' time that trains, changes of shares)."""
    ended = cluster.journal("ended")
    arrivals = {record["job"]: record["unix_s"] for record in cluster.journal("submitted")}
    times = [record["t"] - arrivals[record["job"]] for record in ended]
    share = 100 * sum(length_s for _, length_s, _ in load.jobs) / sum(record["slot_s"] for record in ended)
    changes = sum(len(record["shares"]) for record in cluster.journal("decided"))
    return statistics.mean(times), share, changes


def live(policy, gap_s):
    load = small(gap_s)
    return run(policy, load, lambda cluster: figures(cluster, load))


def live_small(repetitions):
    """7 small jobs on 4 slots of a live cluster under each policy."""
    for gap_s in GAPS_S:
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            lives = {policy: [pool.submit(live, policy, gap_s) for _ in range(max(1, repetitions))] for policy in POLICIES}
            found = {policy: [one.result() for one in ones] for policy, ones in lives.items()}
        times = {policy: statistics.median(one[0] for one in ones) for policy, ones in found.items()}
        best = min(times, key=times.get)
        name = f"live-small/{gap_s:g}s"
        for policy, ones in found.items():
            share = statistics.median(one[1] for one in ones)
            yield rows.at_least(f"{name}/{policy}-trains", share, "%", 75,
                                f"of the slots' time; mean completion {times[policy]:.1f} s, {ones[0][2]} changes of shares")
        yield rows.below(f"{name}/{OURS}", times[OURS] / times[best], "times", 1.05, f"of the best, {best}: {times[best]:.1f} s")
