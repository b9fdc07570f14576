"""What a failure costs: idle time, steps repeated, workers restarted, samples lost. From step logs and journals.

Idle time: the longest gap between committed steps, from the fault until some steps after the recovery, minus a median
step. The gap that ends with the first step at the old size, when the replacement has joined, is in the window too.
"""

import collections
import os
import signal
import statistics
import subprocess
import time

import rows
import swap
from harness import BINARY, Run, job, members, pids, synthetic, wait_until
from lab import Lab

import torchrun

SETTLE_STEPS = 8

Fault = collections.namedtuple("Fault", "idle step")  # in seconds


def large_steps(**changes):
    """25 million parameters, steps of about 240 ms whose compute sleeps."""
    trainer = synthetic(parameter_bytes=100_000_000, compute_us_per_sample=26_000, gradient="constant", **changes)
    return job(workers=(1, 3, 3), trainer=trainer, batch={"per_worker": 8}, audit={"every_steps": 10},
               failures={"max_crashes": 1000, "max_hangs": 1000, "max_fruitless": 1000})


def after_fault(run, fault, size, gone, timeout=60):
    """Carries out `fault`, waits until the run has its size again without the lost processes: a Fault."""
    run.wait_more_steps(SETTLE_STEPS)
    at = time.monotonic()
    fault()
    run.wait_status(lambda s: s.get("world_size") == size and s["phase"] == "running" and len(members(s)) == size
                    and not gone & set(pids(s)) and all(w["step"] > 0 for w in members(s)), timeout, "the recovery")
    run.wait_more_steps(3 * SETTLE_STEPS, timeout)
    times = swap.step_times([record for record in run.steps() if record["t"] > at - 10])
    ordered = [times[step] for step in sorted(times)]
    start = max((t for t in ordered if t <= at), default=ordered[0])
    median = statistics.median(swap.gaps(ordered[-2 * SETTLE_STEPS:]))
    return Fault(max(swap.gaps([t for t in ordered if t >= start])) - median, median)


def killed_workers(config, repetitions, environment=None):
    """kill -9 of rank 1, again and again: the faults, and how many passes of healthy workers came to nothing."""
    faults = []
    with Run(config, environment=environment) as run:
        run.wait_size(3, 120)
        for _ in range(repetitions):
            victim = pids(run.status())[1]
            faults.append(after_fault(run, lambda: os.kill(victim, signal.SIGKILL), 3, {victim}))
        run.do("stop", run.name)
        run.wait(60)
        return faults, wasted_passes(run.journal()), run.audit()


def wasted_passes(journal):
    """Members of the generation before that a recovery took in as joiners: each gave up the pass it was in."""
    wasted, current = 0, set()
    for record in journal:
        if record["event"] == "generation":
            current = set(record["members"])
        if record["event"] == "prepare" and record["kind"] == "recover" and record["donors"]:
            wasted += len((current & set(record["members"])) - set(record["donors"]))
    return wasted


def idles_ms(faults):
    return [1000 * max(0.0, fault.idle) for fault in faults]


def kill_worker(repetitions):
    faults, wasted, audit = killed_workers(large_steps(), max(5, repetitions))
    step = 1000 * statistics.median(fault.step for fault in faults)
    yield rows.below("kill-worker/idle", statistics.median(idles_ms(faults)), "ms", round(step + 100, 1),
                     f"{rows.spread(idles_ms(faults))} ms; 3 workers, 100 MB, median step {step:.0f} ms")
    yield rows.below("kill-worker/passes-repeated", wasted, "passes", 0,
                     f"audit: {audit['missing']} missing, {audit['repeated']} repeated, "
                     f"{audit['unequal_hashes']} of {audit['hashes_compared']} hashes unequal")
    yield from kill_worker_beside_torchrun(repetitions)


def kill_worker_beside_torchrun(repetitions):
    """The model of torch_peer/train.py on the built-in trainer, then on torchrun."""
    probe = Run()
    images = os.path.join(probe.directory, "images.bin")
    try:
        swap.random_images(images)
        trainer = {"model": "mlp", "train": images, "format": "cifar10", "hidden": [4096, 3000], "epochs": 100_000,
                   "eval_every_epochs": 0, "learning_rate": 0.0001}
        config = job(workers=(1, 3, 3), trainer=trainer, batch={"per_worker": 8}, audit={"every_steps": 0},
                     failures={"max_crashes": 1000})
        faults, _, _ = killed_workers(config, repetitions)
    finally:
        probe.kill()
    ours = statistics.median(idles_ms(faults))
    yield rows.Row("kill-worker-real/idle", ours, "ms", "", None,
                   f"{rows.spread(idles_ms(faults))} ms, median step {1000 * faults[0].step:.0f} ms")
    try:
        theirs = torchrun.killed_worker(repetitions)
    except rows.Unavailable as reason:
        yield rows.Row("kill-worker-real/torchrun", None, "", "", None, f"not measured: {reason}")
        return
    yield rows.at_least("kill-worker-real/ratio", statistics.median(theirs) / max(ours, 1.0), "times", 30,
                        f"torchrun idle {rows.spread(theirs)} ms, ours {ours:.1f} ms")


def host_job():
    trainer = synthetic(parameter_bytes=4_000_000, compute_us_per_sample=3_500)
    return job(workers=(1, 3, 3), trainer=trainer, batch={"per_worker": 8}, audit={"every_steps": 10},
               hosts={"list": ["node1", "node2", "node3"]}, failures={"cool_down_ms": 1})


def kill_host(repetitions):
    """Hosts are network namespaces with an sshd each."""
    killed, cut = [], []
    for _ in range(max(2, repetitions // 2)):
        with Lab(hosts=3) as lab, Run(host_job(), lab=lab) as run:
            run.wait_size(3, 60)
            victim = lab.host("node3")
            killed.append(after_fault(run, lambda: kill_pids(victim.pids()), 3, set(victim.pids()), 90))
            victim = lab.host("node2")
            gone = set(victim.pids())
            cut.append(after_fault(run, lambda: victim.set_link(False), 2, set()))
            victim.set_link(True)
            run.wait_status(lambda s: s.get("world_size") == 3 and not gone & set(pids(s)), 90, "the host's return")
            run.do("stop", run.name)
            run.wait(60)
    yield rows.below("kill-host/processes", statistics.median(idles_ms(killed)) / 1000, "s", 0.5,
                     f"{rows.spread(idles_ms(killed))} ms; agent and worker of one of 3 hosts killed")
    yield rows.below("kill-host/link", statistics.median(idles_ms(cut)) / 1000, "s", 4,
                     f"{rows.spread(idles_ms(cut))} ms; the cable of one of 3 hosts pulled, default settings")


def kill_pids(victims):
    for pid in victims:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def hang(repetitions):
    faults = []
    with Run(large_steps()) as run:
        run.wait_size(3, 60)
        for _ in range(max(3, repetitions)):
            victim = pids(run.status())[1]
            faults.append(after_fault(run, lambda: os.kill(victim, signal.SIGSTOP), 3, {victim}))
        run.do("stop", run.name)
        run.wait(60)
        stacks = sum(record["event"] == "stacks" for record in run.journal())
    step = statistics.median(fault.step for fault in faults)
    yield rows.below("hang/idle", statistics.median(fault.idle for fault in faults), "s",
                     round(max(3 * step, 1.0) + 1.0, 2),
                     f"{rows.spread([fault.idle for fault in faults], 2)} s after SIGSTOP; median step "
                     f"{1000 * step:.0f} ms; stacks in the journal {stacks} of {len(faults)} times")
    try:
        idle = torchrun.hung_worker(collective_timeout_s=10)
    except rows.Unavailable as reason:
        yield rows.Row("hang/torchrun", None, "", "", None, f"not measured: {reason}")
        return
    yield rows.Row("hang/torchrun", idle / 1000, "s", "", None,
                   "torchrun with a collective time-out of 10 s (its default is 30 min)")


def false_verdicts(_):
    """ELASTICTRAIN_BENCH_MINUTES of training with eight busy processes beside it on two cores (60 by default)."""
    minutes = float(os.environ.get("ELASTICTRAIN_BENCH_MINUTES", "60"))
    busy = 4 * os.cpu_count() - 3
    trainer = {"model": "mlp", "epochs": 1_000_000, "eval_every_epochs": 5}
    config = job(workers=(1, 3, 3), trainer=trainer, batch={"per_worker": 32}, audit={"every_steps": 100})
    burners = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(busy)]
    try:
        with Run(config) as run:
            run.wait_size(3, 120)
            until = time.monotonic() + 60 * minutes
            wait_until(lambda: time.monotonic() > until or run.process.poll() is not None, 60 * minutes + 60, "the time")
            run.do("stop", run.name, timeout=120)
            run.wait(120)
            verdicts = [r for r in run.journal() if r["event"] in ("hang", "agent_lost", "abort", "agent_suspect")]
            steps = run.audit()["steps"]
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    wrong = [r["event"] for r in verdicts if r["event"] != "agent_suspect"]
    suspicions = sum(r["event"] == "agent_suspect" for r in verdicts)
    yield rows.below("false-verdicts", len(wrong), "verdicts", 0,
                     f"{minutes:g} minutes, {steps} steps, 3 workers beside {busy} busy processes on {os.cpu_count()} cores; "
                     f"{suspicions} suspicions that passed")


def supervisor_restart(repetitions):
    idles, restarted = [], 0
    trainer = synthetic(parameter_bytes=4_000_000, compute_us_per_sample=3_500)
    config = job(workers=(1, 3, 3), trainer=trainer, batch={"per_worker": 8})
    with Run(config) as run:
        run.wait_size(3, 60)
        for _ in range(max(3, repetitions)):
            before = set(pids(run.status()))
            run.wait_more_steps(SETTLE_STEPS)
            at = time.monotonic()
            run.process.kill()
            run.process.wait()
            run.wait_more_steps(20)
            run.process = resume(run)
            run.wait_size(3, 60)
            run.wait_more_steps(20)
            restarted += len(before - set(pids(run.status())))
            times = swap.step_times([record for record in run.steps() if record["t"] > at - 5])
            own = swap.gaps([times[step] for step in sorted(times)])
            idles.append(1000 * max(0.0, max(own) - statistics.median(own)))
        noise = 1000 * swap.steady_gap(run, 60)
        run.do("stop", run.name)
        run.process.wait(60)
        audit = run.audit()
    yield rows.below("supervisor-restart/idle", statistics.median(idles), "ms", round(noise + 10, 1),
                     f"longest gap between steps less a median one: {rows.spread(idles)} ms; where nothing happens it is "
                     f"{noise:.1f} ms; audit: {audit['missing']} missing, {audit['repeated']} repeated")
    yield rows.below("supervisor-restart/workers-restarted", restarted, "workers", 0, f"{len(idles)} restarts")


def resume(run):
    environment = {**os.environ, **run.environment}
    return subprocess.Popen([BINARY, "run", "--resume", run.name], env=environment, stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def total_loss(repetitions):
    missing = repeated = 0
    details = []
    for _ in range(max(3, repetitions)):
        probe = Run()
        try:
            trainer = synthetic(parameter_bytes=4_000_000, compute_us_per_sample=1_000, samples=20_000, epochs=2)
            config = job(workers=(1, 3, 3), trainer=trainer, batch={"per_worker": 16},
                         checkpoint={"directory": os.path.join(probe.directory, "checkpoints"), "interval_steps": 20})
            with Run(config) as run:
                run.wait_size(3, 60)
                run.wait_step(110)
                run.process.kill()
                run.process.wait()
                kill_pids(run.processes())
                lost_at = run.last_step()
                run.process = resume(run)
                status = run.process.wait(180)
                audit = run.audit()
                if status != 0:
                    raise AssertionError(f"the resumed run ended with {status}")
                missing += audit["missing"]
                repeated += audit["repeated"]
                details.append(f"step {lost_at}")
        finally:
            probe.kill()
    yield rows.below("total-loss", missing + repeated, "samples", 0,
                     f"missing {missing}, repeated {repeated} relative to the checkpoint; everything killed at "
                     f"{', '.join(details)}, a checkpoint every 20 steps")
