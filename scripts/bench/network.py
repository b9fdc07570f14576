"""Training over limited links between hosts (namespaces): what each synchronization makes of them and of a slow worker,
and whether leaving a topology that somebody else's traffic disturbs pays."""

import itertools
import statistics
import time

import rows
from harness import Run, job, synthetic
from lab import Lab

MODEL_BYTES = 400_000
STRATEGIES = ("s-sgd", "averaging", "pair-averaging")
LINKS = ("100mbit", "20mbit")
WARM_UP_STEPS = 10
MEASURED_STEPS = 30


def job_of(lab, trainer=None, **sections):
    """One worker a host; 16 ms of compute a step, if nothing else is said."""
    size = len(lab.hosts)
    changes = {"parameter_bytes": MODEL_BYTES, "gradient": "constant", **(trainer or {})}
    return job(workers=(1, size, size), trainer=synthetic(**changes),
               hosts={"list": [f"{host.name}:1" for host in lab.hosts]}, **sections)


def first_rank_times(run):
    return [record["t"] for record in run.steps() if record["rank"] == 0]


def steps_per_s(times):
    if len(times) < 3:
        raise rows.Unavailable("too few steps to measure")
    return (len(times) - 1) / (times[-1] - times[0])


def rate_of(lab, strategy, trainer):
    """Steps a second of one run, after its first ones."""
    with Run(job_of(lab, trainer, synchronization={"strategy": strategy}), lab=lab) as run:
        run.wait_size(len(lab.hosts), 60)
        run.wait_step(WARM_UP_STEPS + MEASURED_STEPS, 120)
        return steps_per_s(first_rank_times(run)[WARM_UP_STEPS:])


def synchronization(repetitions):
    """Four hosts; the strategies in turn, pair averaging's steps a second over those of averaged gradients."""
    for link, slow in itertools.product(LINKS, (None, 4)):
        trainer = {"slow": f"2:{slow}"} if slow else {}
        with Lab(hosts=4, rate=link) as lab:
            found = [{strategy: rate_of(lab, strategy, trainer) for strategy in STRATEGIES} for _ in range(repetitions)]
        ratios = [rates["pair-averaging"] / rates["s-sgd"] for rates in found]
        words = ", ".join(f"{strategy} {rows.spread([rates[strategy] for rates in found], 2)}" for strategy in STRATEGIES)
        beside = f"one worker computes {slow} times as long" if slow else "equal workers"
        yield rows.Row(f"synchronization/{link}{'-slow-worker' if slow else ''}", statistics.median(ratios),
                       "times s-sgd", "-", None, f"steps/s: {words}; {beside}; 4 hosts, {MODEL_BYTES:,} bytes")


SLOW_WORKERS = 4
SLOW_FACTOR = 4
BATCH = 16
WINDOW_S = 12


def samples_per_s(strategy):
    """Of all workers of one run, one of which computes four times as long as the others: each logs its batches."""
    config = job(workers=(1, SLOW_WORKERS, SLOW_WORKERS), synchronization={"strategy": strategy},
                 trainer=synthetic(slow=f"2:{SLOW_FACTOR}", parameter_bytes=MODEL_BYTES))
    with Run(config) as run:
        run.wait_size(SLOW_WORKERS, 60)
        run.wait_step(WARM_UP_STEPS + MEASURED_STEPS, 60)
        begin = time.monotonic()
        time.sleep(WINDOW_S)
        return BATCH * sum(begin <= record["t"] < begin + WINDOW_S for record in run.steps()) / WINDOW_S


def pair_averaging(repetitions):
    """Four workers, one of them four times slower: the samples of pair averaging over those of averaged gradients."""
    found = [{strategy: samples_per_s(strategy) for strategy in ("s-sgd", "pair-averaging")} for _ in range(repetitions)]
    ratios = [rates["pair-averaging"] / rates["s-sgd"] for rates in found]
    words = ", ".join(f"{name} {rows.spread([rates[name] for rates in found], 1)}" for name in found[0])
    yield rows.at_least("pair-averaging", statistics.median(ratios), "times s-sgd", 2.5,
                        f"samples/s: {words}; {SLOW_WORKERS} workers, one computes {SLOW_FACTOR} times as long")


POLICY_INTERVAL_MS = 500
DISTURBED_VIEWS = 20
CROSS_TRAFFIC_BITS_PER_S = 10e6  # half of the link


def interference_rates(lab):
    """Steps a second: undisturbed; disturbed, until the policy goes over to a star; afterwards, still disturbed."""
    policy = {"policy": {"name": "interference", "interval_ms": POLICY_INTERVAL_MS},
              "policy.interference": {"views": DISTURBED_VIEWS}}
    first, _, last = lab.hosts
    with Run(job_of(lab, {"compute_us_per_sample": 100}, **policy), lab=lab) as run:
        run.wait_size(3, 60)
        run.wait_step(WARM_UP_STEPS + MEASURED_STEPS, 60)
        undisturbed = steps_per_s(first_rank_times(run)[WARM_UP_STEPS:])
        with first.sends_to(last, CROSS_TRAFFIC_BITS_PER_S):
            begin = time.monotonic() + 1
            status = run.wait_status(lambda s: s["topology"] == "1,1,1", timeout=120, what="the star at rank 1")
            disturbed = [at for at in first_rank_times(run) if at > begin]
            run.wait_more_steps(MEASURED_STEPS, 60)
            star = [record["t"] for record in run.steps()
                    if record["rank"] == 0 and record["generation"] >= status["generation"]]
        return undisturbed, steps_per_s(disturbed), steps_per_s(star[1:])


def interference(repetitions):
    """Three hosts; half of the way between two of them is taken, both sides of it belong to the ring."""
    with Lab(hosts=3, rate="20mbit") as lab:
        found = [interference_rates(lab) for _ in range(repetitions)]
    undisturbed, disturbed, star = ([rates[i] for rates in found] for i in range(3))
    ratios = [after / before for _, before, after in found]
    yield rows.at_least("interference", statistics.median(ratios), "times", 1,
                        f"steps/s: undisturbed {rows.spread(undisturbed, 2)}, disturbed {rows.spread(disturbed, 2)}, after "
                        f"the switch to a star {rows.spread(star, 2)}; 3 hosts, 20 Mbit/s, cross traffic 10 Mbit/s")
