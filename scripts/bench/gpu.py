"""What only a GPU shows: changes, losses and sums of device memory, over NCCL. Several workers share a GPU where there
are more slots than GPUs; NCCL is told then that they are hosts of their own (train/session), so they talk over loopback.
"""

import os
import re
import statistics
import subprocess

import communicator
import failures
import gpu_experiments
import rows
import swap
from harness import Run, job, synthetic

RANK = os.path.join(rows.BUILD, "tests", "gpu", "nccl_rank")
OVERHEAD = os.path.join(rows.BUILD, "tests", "gpu", "gpu_overhead")
# Less where libraries that stand in for NVIDIA's compute on the CPU.
PARAMETER_BYTES = int(os.environ.get("GPU_CHECK_BYTES", 100_000_000))


def facts():
    """What there is, or why nothing of this can be measured here."""
    if not os.path.exists(RANK):
        raise rows.Unavailable(f"{RANK} is not built")
    asked = subprocess.run([RANK], input="facts\nquit\n", capture_output=True, text=True, timeout=60,
                           env={**os.environ, **gpu_experiments.ON_ONE_GPU})
    if asked.returncode != 0:
        raise rows.Unavailable(asked.stderr.strip().splitlines()[-1] if asked.stderr.strip() else "no GPU")
    return asked.stdout.strip()


def environment():
    facts()
    for name, value in gpu_experiments.ON_ONE_GPU.items():
        os.environ.setdefault(name, value)
    os.environ["GPU_OVERHEAD_FLOATS"] = str(PARAMETER_BYTES // 4)


def gpu_job(workers, **more):
    trainer = synthetic(parameter_bytes=PARAMETER_BYTES, compute_us_per_sample=26_000, device="cuda")
    return job(workers=workers, trainer=trainer, batch={"per_worker": 8}, **more)


def gpu_swap(repetitions):
    environment()
    config = gpu_job((1, 2, 4), audit={"every_steps": 0})
    yield from swap.idle_rows("gpu-swap", config, repetitions, lambda kind, step: step)


def gpu_builds(repetitions):
    """The same changes with each way to build the next communicator: how long nobody commits a step."""
    environment()
    config = gpu_job((1, 2, 4), audit={"every_steps": 0})
    try:
        for build in ("background", "at-swap", "shrink"):
            os.environ["ELASTICTRAIN_NCCL_BUILD"] = build
            found = swap.swap_changes(config, repetitions)
            for kind, changes in found.items():
                yield rows.Row(f"gpu-builds/{build}/{kind}", statistics.median(swap.idles_ms(changes)), "ms", "", None,
                               swap.explain(changes))
    finally:
        os.environ.pop("ELASTICTRAIN_NCCL_BUILD", None)


def gpu_kill(repetitions):
    environment()
    config = gpu_job((1, 3, 3), audit={"every_steps": 10},
                     failures={"max_crashes": 1000, "max_hangs": 1000, "max_fruitless": 1000})
    faults, passes, audit = failures.killed_workers(config, repetitions)
    idle = [1000 * max(0.0, fault.idle) for fault in faults]
    yield rows.below("gpu-kill", statistics.median(idle), "ms", 1000,
                     f"{rows.spread(idle)} ms; {len(faults)} kills, {passes} passes repeated; audit: {audit}")


def through_session(ranks, monitors=1):
    words = ["-n", str(ranks), "-x", f"ELASTICTRAIN_MONITORS={monitors}", "--", OVERHEAD, "session"]
    with Run(arguments=words) as run:
        if run.wait(180) != 0:
            raise rows.Unavailable(f"gpu_overhead failed: {run.text()[-300:]}")
        return communicator.figure(run.text())


def bare(ranks):
    with gpu_experiments.unique_id(RANK) as text:
        started = [subprocess.Popen([OVERHEAD, "bare", str(ranks), str(rank), text], stdout=subprocess.PIPE, text=True,
                                    env=gpu_experiments.environment(rank)) for rank in range(ranks)]
        try:
            return communicator.figure(started[0].communicate(timeout=180)[0])
        finally:
            for process in started:
                process.kill()
                process.wait()


def gpu_overhead(repetitions):
    """The same loop both ways in turn."""
    environment()
    pairs = [(through_session(2), bare(2)) for _ in range(max(3, repetitions))]
    ratios = [100 * session / plain for session, plain in pairs]
    yield rows.at_least("gpu-overhead", statistics.median(ratios), "%", 99,
                        f"{rows.spread(ratios)} %; {statistics.median(s for s, _ in pairs):.1f} steps/s against "
                        f"{statistics.median(b for _, b in pairs):.1f} of bare NCCL")


def gpu_overlap(repetitions):
    """25 buckets: how much of their sums' time the backward pass hides. Of the last bucket it can hide nothing, so that is as
    large as the others, and a tenth of them."""
    environment()
    if os.environ.get("GPU_CHECK_STANDIN"):
        os.environ.update(ET_STANDIN_COPY_US="8000", ET_STANDIN_SUM_US="5000")
    try:
        for name, part in (("gpu-overlap", 1), ("gpu-overlap/small-last", 10)):
            found = [hidden_share(part) for _ in range(min(3, repetitions))]
            shares = [share for share, _ in found]
            yield rows.at_least(name, statistics.median(shares), "%", 90, f"{rows.spread(shares)} %; last: {found[-1][1]}")
    finally:
        for name in ("ET_STANDIN_COPY_US", "ET_STANDIN_SUM_US"):
            os.environ.pop(name, None)


def hidden_share(part_of_last):
    """In percent, and the times that it follows from."""
    with Run(arguments=["-n", "2", "--", OVERHEAD, "overlap", str(part_of_last)]) as run:
        if run.wait(120) != 0:
            raise rows.Unavailable(f"gpu_overhead failed: {run.text()[-300:]}")
        found = re.search(r"hidden_percent=(\S+) (.*)", run.text())
        if not found:
            raise rows.Unavailable(f"no hidden_percent= was printed: {run.text()[-300:]}")
        return float(found[1]), found[2]


def gpu_monitors(repetitions):
    environment()
    pairs = [(through_session(2, 1), through_session(2, 0)) for _ in range(max(3, repetitions))]
    slower = [100 * (without / measured - 1) for measured, without in pairs]
    yield rows.below("gpu-monitors", statistics.median(slower), "%", 0.5, f"{rows.spread(slower, 2)} % slower")
