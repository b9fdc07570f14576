"""Stragglers on real runs: how soon a slow worker is found, what happens to it, and who is left alone.

Steps compute for 64 ms. The time of a finding is that of the record of the decision, from the moment in which the worker
was told to be slow; it reads that every four steps.
"""

import statistics
import time

import rows
from harness import Failed, job, members, wait_until
from live_curves import live_run, trainer
from policies_live import two_hosts

WORKERS = 4
MOST_S = 40  # until a straggler must have been found; later it counts as missed
WATCH_S = 10  # in which nothing must happen
BEFORE_STEPS = 100  # of a healthy run


def config_of(hosts, **stragglers):
    return job(workers=(1, WORKERS, WORKERS), trainer=trainer("linear"), hosts={"list": hosts},
               policy={"interval_ms": 500}, stragglers={"action": "replace", **stragglers})


def marked(run, status, ranks, slow, name, number):
    for worker in members(status):
        if worker["rank"] in ranks:
            slow.set(f"{name}-{worker['id']}", number)
    return time.time()


def decisions(run, since):
    return [r for r in run.events("decided") if r["t"] >= since]


def replaced_at(run, since):
    return next((r["t"] - since for r in decisions(run, since) if r.get("replace")), None)


def found_s(run, since):
    """Until the decision to replace; MOST_S if there is none by then."""
    try:
        return wait_until(lambda: replaced_at(run, since), MOST_S, "a replacement")
    except Failed:
        return MOST_S


def one_slow(factor):
    def attempt(run, slow, status):
        since = marked(run, status, {2}, slow, "slow", factor)
        return found_s(run, since)

    return attempt


def whole_host(run, slow, status):
    host = members(status)[-1]["host"]
    ranks = {worker["rank"] for worker in members(status) if worker["host"] == host}
    return found_s(run, marked(run, status, ranks, slow, "slow", 1.5))


def transient(run, slow, status):
    """Replacements of a worker that was slow for 1.5 s."""
    since = marked(run, status, {2}, slow, "slow", 1.5)
    time.sleep(1.5)
    marked(run, status, {2}, slow, "slow", None)
    time.sleep(WATCH_S)
    return sum(bool(r.get("replace")) for r in decisions(run, since))


def data_bound(run, slow, status):
    """Until the worker is reported; MOST_S if it is not, or if it is replaced."""
    since = marked(run, status, {2}, slow, "data", 40)
    try:
        record = wait_until(lambda: [r for r in decisions(run, since) if "data_bound" in r["code"]], MOST_S, "a report")[0]
    except Failed:
        return MOST_S
    time.sleep(WATCH_S / 2)
    told = "waits for its data" in run.do("status", run.name)
    return record["t"] - since if told and replaced_at(run, since) is None else MOST_S


def no_free_slot(run, slow, status):
    """Until the slow worker has a smaller share."""
    since = marked(run, status, {2}, slow, "slow", 2)
    worker = members(status)[2]["id"]

    def smaller():
        shares = {w["id"]: w["share"] for w in members(run.status())}
        return shares.get(worker, 99) < max(shares.values()) if worker in shares else False

    try:
        wait_until(smaller, MOST_S, "a smaller share", 0.1)
    except Failed:
        return MOST_S
    return time.time() - since


# name: (hosts, attempt, unit, at most)
CASES = {
    "1.5x": (["localhost:5"], one_slow(1.5), "s", 3),
    "1.12x": (["localhost:5"], one_slow(1.12), "s", 8),
    "whole-host": (["node1:2", "node2:2", "node3:2"], whole_host, "s", 3),
    "transient-1.5s": (["localhost:5"], transient, "replacements", 0),
    "data-bound": (["localhost:5"], data_bound, "s", 8),
    "no-free-slot": (["localhost:4"], no_free_slot, "s", 8),
}


def measure(name, lab):
    hosts, attempt, _, _ = CASES[name]
    with live_run(config_of(hosts), lab if hosts[0].startswith("node") else None) as (run, slow):
        run.wait_size(WORKERS, timeout=60)
        run.wait_more_steps(BEFORE_STEPS, timeout=120)
        result = attempt(run, slow, run.status())
        run.do("stop", run.name)
        run.wait(60)
        return result


def straggler_live(repetitions):
    """Two attempts a repetition; one in the quick form, --repetitions 1."""
    attempts = 1 if repetitions == 1 else 2 * repetitions
    with two_hosts(3) as lab:
        for name, (_, _, unit, most) in CASES.items():
            found = [measure(name, lab) for _ in range(attempts)]
            yield rows.below(f"straggler-live/{name}", max(found), unit, most,
                             f"worst of {len(found)}, median {statistics.median(found):.1f}; {MOST_S} s: missed")
