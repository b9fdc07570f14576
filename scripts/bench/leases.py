"""Slots that pass from one run to another, and runs that are suspended: a stand-in of tests/system speaks for the cluster, so that only
the runs are measured. And the cluster alone, with stand-ins of runs."""

import json
import os
import socket
import tempfile
import time
from statistics import median

from changes import LARGE, SMALL
from cluster_lab import Cluster
from harness import Run, members, newest_checkpoint, pids, synthetic, wait_until
from measure import Cleanups, cpu_s, gaps, ordered, startup_time
from rows import below, row, shown, spread
from standin_cluster import StandinCluster, job

GATHERING_MS = 50  # what happens within it is decided together


def leased_job(cluster, workers, trainer, **sections):
    """Steps of about 210 ms whose compute sleeps."""
    return job(cluster, workers=workers, trainer=synthetic(**{**LARGE, **trainer}), batch={"per_worker": 8}, audit={"every_steps": 0},
               **sections)


def when(condition, timeout, what):
    wait_until(condition, timeout, what, 0.002)
    return time.monotonic()


def step_s(run):
    return median(gaps(ordered(run.steps())[-20:]))


def idle_s(run, since):
    """By how much the longest gap between steps since then exceeds a median step."""
    times = [t for t in ordered(run.steps()) if t > since - 5]
    found = gaps(times)
    return max(0.0, max(gap for gap, end in zip(found, times[1:]) if end > since) - median(found))


def next_step_s(run, since):
    return next(record["t"] for record in run.steps() if record["t"] > since) - since


def measured(run, cluster):
    """Ends a run by its cluster."""
    cluster.send({"end": {"why": "measured"}})
    run.wait(60)


def in_ms(seconds):
    return [1000 * value for value in seconds]


@row("hand-over", "many jobs, runs", "a slot recalled from one run until another's worker is ready on it; idle time of both",
     "a slot recalled from a run until another run's joiner is ready on it: ≤ 1 step + 0.3 s + the joiner's own start; both idle ≤ "
     "1 step")
def hand_over(repetitions):
    """A slot goes from one run to another and back: recalled, given back, granted, first step on it."""
    recalls, joined, firsts, starts, idles, steps = [], [], [], [], [], []
    small = {"parameter_bytes": SMALL["parameter_bytes"]}
    with Cleanups() as case:
        one, other = StandinCluster(case).start(), StandinCluster(case).start()
        with Run(leased_job(one, (1, 2, 4), small)) as giver, Run(leased_job(other, (1, 2, 4), small)) as taker:
            one.wait_join(), other.wait_join()
            one.lease(0, 1, 2), other.lease(3)
            giver.wait_size(3, 120), taker.wait_size(1, 120)
            for _ in range(max(3, repetitions)):
                giver.wait_more_steps(20, 60), taker.wait_more_steps(20, 60)
                asked = time.monotonic()
                one.lease(0, 1)
                free = when(lambda: one.held() == [0, 1], 60, "the slot given back")
                other.lease(2, 3)
                ready = when(lambda: len(taker.events("ready")) > len(starts) + 1, 60, "the joiner")
                taker.wait_size(2, 60)
                taker.wait_more_steps(20, 60), giver.wait_more_steps(20, 60)
                recalls.append(free - asked)
                joined.append(ready - asked)
                firsts.append(next(r["t"] for r in taker.steps() if r["t"] > free and r["world"] == 2) - asked)
                starts.append(startup_time(taker))
                steps.append(step_s(giver))
                idles.append(max(idle_s(giver, asked), idle_s(taker, asked)))
                other.lease(3)
                when(lambda: other.held() == [3], 60, "the slot given back")
                one.lease(0, 1, 2)
                giver.wait_size(3, 60)
            measured(giver, one), measured(taker, other)
    step_ms = 1000 * median(steps)
    yield below("hand-over/joiner-ready", [1000 * (at - start - step) for at, start, step in zip(joined, starts, steps)], "ms", 300,
                f"from the recall, without one step of {step_ms:.0f} ms and the joiner's own start of {1000 * median(starts):.0f} ms; given "
                f"back after {spread(in_ms(recalls))} ms, first step after {spread(in_ms(firsts))} ms")
    yield below("hand-over/idle", in_ms(idles), "ms", round(step_ms, 1), "the longer of both runs")


@row("suspend-resume", "many jobs, runs", "4 workers with 100 MB stand still in memory and go on; leave with a checkpoint",
     '4 workers, 100 MB, by `"hold"`: suspended ≤ 1 step + 50 ms, no CPU, resumed ≤ 1 step + 100 ms')
def suspend_resume(repetitions):
    held, resumed, used, step = [], [], [], 0
    with Cleanups() as case:
        cluster = StandinCluster(case).start()
        with Run(leased_job(cluster, (1, 4, 4), {})) as run:
            cluster.wait_join()
            cluster.lease(0, 1, 2, 3)
            workers = pids(run.wait_size(4, 120))
            for _ in range(max(3, repetitions)):
                run.wait_more_steps(20, 60)
                step = step_s(run)
                asked = time.monotonic()
                cluster.lease(0, 1, 2, 3, hold=True)
                held.append(when(lambda: cluster.reports()[-1]["phase"] == "suspended", 60, "a suspended run") - asked)
                before = cpu_s(workers)
                time.sleep(3)
                used.append(100 * (cpu_s(workers) - before) / 3 / len(workers))
                asked = time.monotonic()
                cluster.lease(0, 1, 2, 3)
                run.wait_more_steps(5, 60)
                resumed.append(next_step_s(run, asked))
            assert pids(run.status()) == workers, "a worker was restarted"
            measured(run, cluster)
    yield below("suspend-resume/suspend", in_ms(held), "ms", round(1000 * step + 50, 1),
                f"until the last worker has halted; steps of {1000 * step:.0f} ms")
    yield below("suspend-resume/cpu", median(used), "% of a core", 1, "of each worker meanwhile")
    yield below("suspend-resume/resume", in_ms(resumed), "ms", round(1000 * step + 100, 1), "until the next step is committed")
    yield from suspend_to_file(repetitions, step)


def suspend_to_file(repetitions, step):
    """Leaves with a checkpoint, and comes back on other slots."""
    left, back, places = [], [], [(0, 1, 2, 3), (4, 5, 6, 7)]
    with Cleanups() as case:
        directory = case.enter_context(tempfile.TemporaryDirectory(prefix="et-bench-", ignore_cleanup_errors=True))
        cluster = StandinCluster(case, of=8).start()
        with Run(leased_job(cluster, (1, 4, 4), {}, checkpoint={"directory": directory})) as run:
            cluster.wait_join()
            cluster.lease(*places[0])
            run.wait_size(4, 120)
            for turn in range(max(3, repetitions)):
                run.wait_more_steps(10, 60)
                asked = time.monotonic()
                cluster.lease()
                empty = when(lambda: cluster.held() == [] and cluster.reports()[-1]["phase"] == "waiting", 120, "an empty run")
                left.append(empty - asked)
                reached = newest_checkpoint(os.path.join(directory, run.name))
                asked = time.monotonic()
                cluster.lease(*places[(turn + 1) % 2])
                run.wait_step(reached + 3, 120)
                back.append(next_step_s(run, asked))
                assert min(w["step"] for w in members(run.wait_size(4, 60))) > reached
            measured(run, cluster)
    yield shown("suspend-resume/file-leave", in_ms(left), "ms",
                f"until all processes have ended, 100 MB written; steps of {1000 * step:.0f} ms")
    yield shown("suspend-resume/file-return", in_ms(back), "ms", "from the lease to the first step on other slots")


# --- The cluster alone

class Runs:
    """Stand-ins of many runs: each holds what it is leased, and reports as often as a real run does."""

    PERIOD_S = 1.0

    def __init__(self, cluster):
        self.cluster, self.runs, self.reported = cluster, {}, {}

    def join(self, name):
        self.runs[name] = self.cluster.stand_in(run=name, directory=f"/nowhere/{name}", samples_total=10_000_000).join()
        self.reported[name] = (0, time.monotonic())

    def slots(self, name):
        return self.runs[name].leased()[1]

    def end(self, name):
        self.runs.pop(name).send({"ended": {"status": 0}})

    def serve(self, until, timeout_s):
        """Answers the cluster until the condition holds. Returns how long that took."""
        began = time.monotonic()
        while not until():
            if time.monotonic() - began > timeout_s:
                raise RuntimeError("the cluster did not do in time what was waited for")
            for name, run in self.runs.items():
                version, due = self.reported[name]
                lease, slots = run.leased()
                if lease != version or time.monotonic() >= due:
                    workers = len(slots)
                    rates = [{"workers": workers, "hosts": 1, "samples_per_s": 100.0 * workers, "views": 5}] if workers else []
                    run.report(lease, slots, rates=rates)
                    self.reported[name] = (lease, time.monotonic() + self.PERIOD_S)
            time.sleep(0.001)
        return time.monotonic() - began

    def serve_for(self, seconds):
        end = time.monotonic() + seconds
        self.serve(lambda: time.monotonic() > end, seconds + 40)


def submit_many(path, count):
    """Jobs that wait in the queue, each as `submit` would send it."""
    for number in range(count):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            waiting = {"name": f"queued-{number}", "arguments": ["-n", "1", "--", "true"], "working_directory": "/",
                       "environment": [], "min": 1, "max": 4, "start": 1, "priority": 0, "samples_total": None,
                       "suspends": False, "one_host": False, "most_hosts": 0, "hosts": []}
            client.sendall(json.dumps({"command": "submit", "job": waiting}).encode() + b"\n")
            answer = client.makefile().readline()
            if not json.loads(answer)["ok"]:
                raise RuntimeError(answer)


@row("cluster-200", "many jobs, live", "200 runs (stand-ins) and 2,000 queued jobs: CPU of the cluster, a decision, queue",
     "200 runs (stand-ins) and 2,000 queued jobs: ≤ 5 % of a core, a decision ≤ 100 ms, `queue` ≤ 100 ms")
def cluster_200(repetitions):
    running, queued, seconds = 200, 2000, 20
    decisions, looks = [], []
    with Cleanups() as case:
        cluster = Cluster(case, slots=running, limits={"queued": 5000}).start()
        runs = Runs(cluster)
        for number in range(running):
            runs.join(f"run-{number}")
        runs.serve(lambda: all(len(runs.slots(name)) == 1 for name in runs.runs), 60)
        submit_many(cluster.socket_path(), queued)
        first = [f"first-{turn}" for turn in range(max(3, repetitions))]
        for name in first:
            runs.join(name)
        runs.serve_for(3)
        for name in first:
            cluster.do("priority", name, "5")
        before = cpu_s([cluster.process.pid])
        runs.serve_for(seconds)
        used = (cpu_s([cluster.process.pid]) - before) / seconds
        for turn in range(len(first)):
            runs.end(f"run-{turn}")
            decisions.append(1000 * runs.serve(lambda: any(runs.slots(one) for one in first[turn:]), 30) - GATHERING_MS)
            first.sort(key=lambda one: -len(runs.slots(one)))
            asked = time.monotonic()
            cluster.do("queue")
            looks.append(1000 * (time.monotonic() - asked))
    yield below("cluster-200/cpu", 100 * used, "% of a core", 5, f"{running} runs that report each second, {queued} queued")
    yield below("cluster-200/decision", decisions, "ms", 100,
                f"from a run's end until another has its slot, without the {GATHERING_MS} ms in which events are gathered")
    yield below("cluster-200/queue", looks, "ms", 100, "the command included")
