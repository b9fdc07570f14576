"""Slots that pass from one run to another, and runs that are suspended. A stand-in of tests/system speaks for the
cluster, so that only the runs are measured: what a cluster decides, and when, is its own row."""

import os
import shutil
import statistics
import tempfile
import time

import rows
import swap
from harness import Run, members, newest_checkpoint, pids, synthetic, wait_until
from standin_cluster import StandinCluster, job

TICKS = os.sysconf("SC_CLK_TCK")


class Cleanups:
    """For what expects a test case."""

    def __init__(self):
        self.undo = []

    def addCleanup(self, function, *arguments):
        self.undo.append((function, arguments))

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for function, arguments in reversed(self.undo):
            function(*arguments)


def training(parameter_bytes):
    """Steps of about 210 ms whose compute sleeps."""
    return synthetic(parameter_bytes=parameter_bytes, compute_us_per_sample=26_000, gradient="constant")


def config(cluster, workers, parameter_bytes=4_000_000, **sections):
    return job(cluster, workers=workers, trainer=training(parameter_bytes), batch={"per_worker": 8},
               audit={"every_steps": 0}, **sections)


def when(condition, timeout, what):
    wait_until(condition, timeout, what, 0.002)
    return time.monotonic()


def idle_s(run, since):
    """By how much the longest gap between steps since then exceeds a median step."""
    times = [t for _, t in sorted(swap.step_times(run.steps()).items()) if t > since - 5]
    gaps = [b - a for a, b in zip(times, times[1:]) if b > since]
    return max(0.0, max(gaps) - statistics.median(gaps))


def hand_over(repetitions):
    """A slot goes from one run to another and back: recalled, given back, granted, first step on it."""
    recalls, joined, firsts, starts, idles, steps = [], [], [], [], [], []
    with Cleanups() as case:
        one, other = StandinCluster(case).start(), StandinCluster(case).start()
        with Run(config(one, (1, 2, 4))) as giver, Run(config(other, (1, 2, 4))) as taker:
            one.wait_join(), other.wait_join()
            one.lease(0, 1, 2), other.lease(3)
            giver.wait_size(3, 120), taker.wait_size(1, 120)
            for _ in range(max(3, repetitions)):
                giver.wait_more_steps(20, 60), taker.wait_more_steps(20, 60)
                asked = time.monotonic()
                one.lease(0, 1)
                free = when(lambda: one.held() == [0, 1], 60, "the slot given back")
                other.lease(2, 3)
                when(lambda: len(taker.events("ready")) > len(starts) + 1, 60, "the joiner")
                ready = time.monotonic()
                taker.wait_size(2, 60)
                taker.wait_more_steps(20, 60), giver.wait_more_steps(20, 60)
                first = next(r["t"] for r in taker.steps() if r["t"] > free and r["world"] == 2)
                start = swap.startup_time(taker)
                times = swap.step_times(giver.steps())
                step = statistics.median(swap.gaps([times[s] for s in sorted(times)][-20:]))
                recalls.append(free - asked)
                joined.append(ready - asked)
                firsts.append(first - asked)
                starts.append(start)
                steps.append(step)
                idles.append(max(idle_s(giver, asked), idle_s(taker, asked)))
                other.lease(3)
                when(lambda: other.held() == [3], 60, "the slot given back")
                one.lease(0, 1, 2)
                giver.wait_size(3, 60)
            for run, cluster in ((giver, one), (taker, other)):
                cluster.send({"end": {"why": "measured"}})
                run.wait(60)
    own = [1000 * (a - start - step) for a, start, step in zip(joined, starts, steps)]
    step = 1000 * statistics.median(steps)
    yield rows.below("hand-over/joiner-ready", statistics.median(own), "ms", 300,
                     f"{rows.spread(own)} ms from the recall, without one step of {step:.0f} ms and the joiner's own start of "
                     f"{1000 * statistics.median(starts):.0f} ms; given back after "
                     f"{rows.spread([1000 * r for r in recalls])} ms, first step after {rows.spread([1000 * f for f in firsts])} ms")
    yield rows.below("hand-over/idle", 1000 * statistics.median(idles), "ms", round(step, 1),
                     f"{rows.spread([1000 * i for i in idles])} ms, the longer of both runs")


def cpu_s(processes):
    total = 0
    for pid in processes:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def suspend_resume(repetitions):
    """100 MB of parameters, 4 workers: standing still in memory, then leaving with a checkpoint."""
    held, resumed, used, step = [], [], [], 0
    with Cleanups() as case:
        cluster = StandinCluster(case).start()
        with Run(config(cluster, (1, 4, 4), 100_000_000)) as run:
            cluster.wait_join()
            cluster.lease(0, 1, 2, 3)
            workers = pids(run.wait_size(4, 120))
            for _ in range(max(3, repetitions)):
                run.wait_more_steps(20, 60)
                times = swap.step_times(run.steps())
                step = statistics.median(swap.gaps([times[s] for s in sorted(times)][-20:]))
                asked = time.monotonic()
                cluster.lease(0, 1, 2, 3, hold=True)
                held.append(when(lambda: cluster.reports()[-1]["phase"] == "suspended", 60, "a suspended run") - asked)
                before = cpu_s(workers)
                time.sleep(3)
                used.append((cpu_s(workers) - before) / 3 / len(workers))
                asked = time.monotonic()
                cluster.lease(0, 1, 2, 3)
                run.wait_more_steps(5, 60)
                resumed.append(next(r["t"] for r in run.steps() if r["t"] > asked) - asked)
            assert pids(run.status()) == workers, "a worker was restarted"
            cluster.send({"end": {"why": "measured"}})
            run.wait(60)
    step_ms = 1000 * step
    yield rows.below("suspend-resume/suspend", 1000 * statistics.median(held), "ms", round(step_ms + 50, 1),
                     f"{rows.spread([1000 * h for h in held])} ms until the last worker has halted; steps of {step_ms:.0f} ms")
    yield rows.below("suspend-resume/cpu", 100 * statistics.median(used), "% of a core", 1, "of each worker meanwhile")
    yield rows.below("suspend-resume/resume", 1000 * statistics.median(resumed), "ms", round(step_ms + 100, 1),
                     f"{rows.spread([1000 * r for r in resumed])} ms until the next step is committed")
    yield from suspend_to_file(repetitions, step)


def suspend_to_file(repetitions, step):
    """Leaves with a checkpoint, and comes back on other slots."""
    left, back = [], []
    directory = tempfile.mkdtemp(prefix="et-bench-")
    try:
        with Cleanups() as case:
            cluster = StandinCluster(case, of=8).start()
            with Run(config(cluster, (1, 4, 4), 100_000_000, checkpoint={"directory": directory})) as run:
                cluster.wait_join()
                places = [(0, 1, 2, 3), (4, 5, 6, 7)]
                cluster.lease(*places[0])
                run.wait_size(4, 120)
                for turn in range(max(3, repetitions)):
                    run.wait_more_steps(10, 60)
                    asked = time.monotonic()
                    cluster.lease()
                    left.append(when(lambda: cluster.held() == [] and cluster.reports()[-1]["phase"] == "waiting", 120,
                                     "an empty run") - asked)
                    reached = newest_checkpoint(os.path.join(directory, run.name))
                    asked = time.monotonic()
                    cluster.lease(*places[(turn + 1) % 2])
                    run.wait_step(reached + 3, 120)
                    back.append(next(r["t"] for r in run.steps() if r["t"] > asked) - asked)
                    assert min(w["step"] for w in members(run.wait_size(4, 60))) > reached
                cluster.send({"end": {"why": "measured"}})
                run.wait(60)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    yield rows.Row("suspend-resume/file-leave", 1000 * statistics.median(left), "ms", "", None,
                   f"{rows.spread([1000 * t for t in left])} ms until all processes have ended, 100 MB written; steps of "
                   f"{1000 * step:.0f} ms")
    yield rows.Row("suspend-resume/file-return", 1000 * statistics.median(back), "ms", "", None,
                   f"{rows.spread([1000 * t for t in back])} ms from the lease to the first step on other slots")
