"""Policies that choose the batch, on real runs whose noise scale and step time are known.

The synthetic model's gradient of a sample is u p + 0.1 q with u uniform in (-1, 1) and parameters q = s p, which a tiny
learning rate keeps. So the noise scale is (1/3) / (0.1 s)^2 samples, and s^2 follows from the loss, the mean square of the
parameters. A step takes 0.3 ms for each sample of a worker, and a time that does not depend on them.
"""

import concurrent.futures
import time

import rows
from harness import Failed, job, synthetic
from live_curves import live_run

WORKERS = 2
FIRST_BATCH = 16
STEP_MS = {"noise-batch": 10, "goodput": 50, "scavenger": 50}  # the first only needs many of them
SAMPLE_MS = 0.3
MOST_CHANGES = 5
MOST_REGRET = 3
QUIET_S = 20  # without a change: the batch has settled
LEAST_S = 150  # until which the noise scale is known well
MOST_S = 240
VALUE = 0.25  # of a sample, at the batch that noise-batch is asked for
BATCHES = range(8, 257)

POLICIES = {
    "noise-batch": {"efficiency": VALUE, "min_steps": 60, "max_per_worker": 256, "growth": 4, "hysteresis": 1.1},
    "goodput": {"adapt_size": False, "refit_s": 3, "min_s": 3, "settle_steps": 20, "min_per_worker": 8, "max_per_worker": 256},
    "scavenger": {"goal": "fastest", "vary_batch": True, "min_per_worker": 8, "max_per_worker": 256, "steps_per_point": 30,
                  "reconsider_s": 10, "tolerance": 0.02},
}


def pattern(index):
    """That of the synthetic model."""
    return ((index * 2654435761) % 2**32 >> 8) / 2**24 - 0.5


MEAN_SQUARE = sum(pattern(i) ** 2 for i in range(1000)) / 1000  # the model has 1,000 parameters


def noise_scale(loss):
    return (1 / 3) / (0.01 * loss / MEAN_SQUARE)


def progress(policy, batch, scale):
    """Of a second, in samples of a very small batch."""
    return WORKERS * batch / (STEP_MS[policy] + SAMPLE_MS * batch) / (1 + WORKERS * batch / scale)


def analytic(policy, scale):
    if policy == "noise-batch":
        return scale * (1 - VALUE) / VALUE / WORKERS
    return max(BATCHES, key=lambda batch: progress(policy, batch, scale))


def config_of(policy):
    trainer = synthetic(compute_us_per_sample=round(1000 * SAMPLE_MS), exchange_us=[f"1:{1000 * STEP_MS[policy]}"],
                        parameter_bytes=4_000, buckets=1, learning_rate=1e-7)
    return job(workers=(WORKERS, WORKERS, WORKERS), trainer=trainer, batch={"per_worker": FIRST_BATCH},
               policy={"name": policy, "interval_ms": 500}, **{f"policy.{policy}": POLICIES[policy]})


def batches_of(run):
    """(seconds, batch of a worker) of each plan that changed it."""
    found = []
    for record in run.journal():
        if record.get("event") == "prepare" and (not found or found[-1][1] != record["shares"][0]):
            found.append((record["up"], record["shares"][0]))
    return found


def wait_settled(run):
    deadline = time.monotonic() + MOST_S
    while time.monotonic() < deadline:
        status = run.status()
        batches = batches_of(run)
        if len(batches) > 1 and status.get("phase") == "running" and status["uptime_s"] > max(LEAST_S, batches[-1][0] + QUIET_S):
            break
        time.sleep(1)
    return batches_of(run), run.status()


def measure(policy):
    with live_run(config_of(policy)) as (run, _):
        run.wait_size(WORKERS, timeout=60)
        batches, status = wait_settled(run)
        run.do("stop", run.name)
        run.wait(60)
    return list(outcome(policy, batches, status))


def outcome(policy, batches, status):
    scale = noise_scale(status["loss"])
    best, last = analytic(policy, scale), batches[-1][1]
    detail = (f"{'→'.join(str(batch) for _, batch in batches)} a worker, the last after {batches[-1][0]:.0f} s; "
              f"best {best:.0f} at a noise scale of {scale:.0f}; {status.get('policy_reason', '')[:90]}")
    if policy == "noise-batch":
        yield rows.below(f"batch-live/{policy}/off", 100 * abs(last / best - 1), "%", 25, detail)
    else:
        lost = 100 * (1 - progress(policy, last, scale) / progress(policy, best, scale))
        yield rows.below(f"batch-live/{policy}/regret", lost, "%", MOST_REGRET, detail)
    # Those of a search for a model are no changes of mind.
    changes = len(batches) - 1
    yield rows.below(f"batch-live/{policy}/changes", changes, "", MOST_CHANGES)


def batch_live(repetitions):
    with concurrent.futures.ThreadPoolExecutor(len(POLICIES)) as pool:
        running = [(policy, pool.submit(measure, policy)) for policy in POLICIES for _ in range(1 if repetitions == 1 else 3)]
        for policy, future in running:
            try:
                yield from future.result()
            except Failed as failure:
                yield rows.Row(f"batch-live/{policy}", None, "", "", False, str(failure)[:200])
