"""PyTorch programs: steps a second, idle time of changes and losses, exactly-once. ResNet-18 with 45 MB of gradients and
134 MB of state on CPUs, in `torch_peer/`; torchrun with DDP over Gloo in the same run.
"""

import glob
import json
import os
import random
import signal
import statistics
import subprocess
import tempfile
import time

import failures
import rows
import swap
import torchft
import torchrun
from harness import BINARY, Run, job, pids, wait_until

PACKAGE = os.path.join(rows.ROOT, "train", "python")
DIGITS = os.path.join(rows.ROOT, "tests", "system", "torch_program.py")
MEASURED_S = 15
WARM_STEPS = 10
RESNET = ["--model", "resnet18"]


def environment():
    return {"PYTHONPATH": os.pathsep.join([PACKAGE, torchrun.PEER]), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
            "PYTHONWARNINGS": "ignore"}


def resnet_job(python, workers):
    config = job(workers=workers, command=[python, os.path.join(torchrun.PEER, "elastic_resnet.py")], batch={"per_worker": 32},
                 audit={"every_steps": 0}, failures={"max_crashes": 1000})
    config["workers"]["preload"] = ["torch"]
    return config


# --- Steps a second

def torch_steps(repetitions):
    python = torchrun.python_with_torch()
    launcher = [BINARY, "run", "-n", "2", "--"]
    plain = os.path.join(torchrun.PEER, "ddp_resnet.py")
    torchrun_line = [python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", plain]
    variants = {
        "torchrun": torchrun_line,
        "no-exchange": ["env", "ET_ALONE=1", *torchrun_line],
        "two-lines": [*launcher, python, os.path.join(torchrun.PEER, "elastic_resnet.py")],
        "unmodified": [*launcher, python, "-m", "elastictrain.torch", plain],
    }
    rates = {name: [] for name in variants}
    for _ in range(repetitions):
        for name, argv in variants.items():
            rates[name].append(steps_per_s(argv))
    theirs = statistics.median(rates["torchrun"])
    yield rows.Row("torch-steps/torchrun", theirs, "steps/s", "", None, f"{rows.spread(rates['torchrun'], 2)}, DDP over Gloo")
    ratios = [most / other for most, other in zip(rates["no-exchange"], rates["torchrun"])]
    yield rows.Row("torch-steps/no-exchange", statistics.median(ratios), "times", "", None,
                   f"ratio of each pair {rows.spread(ratios, 2)}; {rows.spread(rates['no-exchange'], 2)} steps/s; the same "
                   "program that averages nothing: more is not possible")
    ratios = [own / other for own, other in zip(rates["two-lines"], rates["torchrun"])]
    yield rows.at_least("torch-steps/two-lines", statistics.median(ratios), "times", 1.4,
                        f"ratio of each pair {rows.spread(ratios, 2)}; {rows.spread(rates['two-lines'], 2)} steps/s; 2 workers "
                        "of 32 samples, AdamW")
    ratios = [own / two for own, two in zip(rates["unmodified"], rates["two-lines"])]
    yield rows.at_least("torch-steps/unmodified", statistics.median(ratios), "times", 0.95,
                        f"of two lines, ratio of each pair {rows.spread(ratios, 2)}; {rows.spread(rates['unmodified'], 2)} steps/s")


def steps_per_s(argv):
    """Of each worker, after its first steps; the mean of the workers. torchrun's workers note their own steps."""
    torchrun.wait_until_quiet()
    with tempfile.TemporaryDirectory(prefix="et-steps-") as directory:
        log = "ELASTICTRAIN_STEP_LOG" if argv[0] == BINARY else "RUN_DIR"
        variables = {**os.environ, **environment(), log: directory}
        with open(os.path.join(directory, "output"), "w") as output:
            program = subprocess.Popen(argv, env=variables, stdout=output, stderr=output, stdin=subprocess.DEVNULL,
                                       start_new_session=True)
        try:
            wait_until(lambda: rate(directory, WARM_STEPS) or program.poll() is not None, 120, "first steps", 0.5)
            time.sleep(MEASURED_S)
            return rate(directory, WARM_STEPS)
        finally:
            end(program)


def rate(directory, warm):
    times = {}
    for path in glob.glob(os.path.join(directory, "*.jsonl")):
        with open(path) as file:
            for record in (json.loads(line) for line in file if line.endswith("\n")):
                if record.get("ev", "step") == "step":
                    times.setdefault(record["pid"], []).append(record["t"])
    spans = [own[warm:] for own in times.values() if len(own) > warm + 1]
    return statistics.mean((len(span) - 1) / (span[-1] - span[0]) for span in spans) if spans else 0


def end(program):
    program.send_signal(signal.SIGTERM)
    try:
        program.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()


# --- Changes of size and losses

def torch_grow(repetitions):
    python = torchrun.python_with_torch()
    with Run(resnet_job(python, (1, 2, 4)), environment=environment()) as run:
        found = swap.changes_of(run, repetitions)
    for kind, changes in found.items():
        ours = statistics.median(swap.idles_ms(changes))
        yield rows.below(f"torch-{kind}/idle", ours, "ms", 50, swap.explain(changes))
    theirs = torchrun.grow_and_shrink(max(1, repetitions // 2), RESNET)
    for kind, values in theirs.items():
        ours = statistics.median(swap.idles_ms(found[kind]))
        yield rows.at_least(f"torch-{kind}/ratio", statistics.median(values) / max(ours, 1.0), "times", 100,
                            f"torchrun idle {swap.spread_ms(values)}, ours {ours:.1f} ms")
    yield from beside_torchft(lambda launch: {f"torch-{kind}": values for kind, values in torchrun.grow_and_shrink(
        max(1, repetitions // 2), kind=launch).items()})


def torch_past_epochs(repetitions):
    """A run each: the 200 epochs must be over when a worker joins."""
    python = torchrun.python_with_torch()
    program = os.path.join(torchrun.PEER, "short_epochs.py")
    config = job(workers=(1, 2, 3), command=[python, "-m", "elastictrain.torch", program], audit={"every_steps": 0})
    changes = []
    for _ in range(min(3, repetitions)):
        with Run(config, environment=environment()) as run:
            run.wait_size(2, 120)
            run.wait_step(600, 120)
            changes.append(swap.change(run, ("resize", run.name, 3), 3))
            run.do("stop", run.name, timeout=60)
            run.wait(60)
    yield rows.below("torch-past-epochs", statistics.median(swap.idles_ms(changes)), "ms", 50,
                     f"{swap.explain(changes)}; an unmodified script grows from 2 workers in its epoch 200 and later, epochs of "
                     "three steps of 40 ms and 20 ms of the script's own code")


def beside_torchft(measure):
    """Rows of torchft's idle times at each of its time-outs: `measure` gives those of each name with a kind of job."""
    for timeout_ms in torchft.JOIN_TIMEOUTS_MS:
        try:
            found = measure(torchft.launch_with(timeout_ms))
        except rows.Unavailable as reason:
            yield rows.Row("torchft", None, "", "", None, f"not measured: {reason}")
            return
        for name, values in found.items():
            yield rows.Row(f"{name}/torchft-{timeout_ms}", statistics.median(values), "ms", "", None,
                           f"torchft with --join_timeout_ms {timeout_ms} idle {swap.spread_ms(values)}")


def torch_kill(repetitions):
    python = torchrun.python_with_torch()
    faults, wasted, _ = failures.killed_workers(resnet_job(python, (1, 3, 3)), repetitions, environment())
    ours = failures.idles_ms(faults)
    step = 1000 * statistics.median(fault.step for fault in faults)
    yield rows.below("torch-kill/idle", statistics.median(ours), "ms", round(step + 50, 1),
                     f"{rows.spread(ours)} ms; kill -9 of one of 3 workers, median step {step:.0f} ms")
    yield rows.below("torch-kill/passes-repeated", wasted, "passes", 0)
    theirs = torchrun.killed_worker(max(1, repetitions // 2), RESNET)
    yield rows.at_least("torch-kill/ratio", statistics.median(theirs) / max(statistics.median(ours), 1.0), "times", 50,
                        f"torchrun idle {rows.spread(theirs)} ms")
    yield from beside_torchft(
        lambda launch: {"torch-kill": torchrun.killed_worker(max(1, repetitions // 2), kind=launch)})


# --- Exactly once

def torch_audit(repetitions):
    """20 random changes and 2 kills for each repetition in one run with 4 loader processes in each worker."""
    changes = 20 * repetitions
    python = torchrun.python_with_torch()
    config = job(workers=(1, 2, 4), command=[python, DIGITS], batch={"per_worker": 32}, audit={"every_steps": 1},
                 failures={"max_crashes": 1000})
    choice, done, kills = random.Random(1), 0, 0
    with Run(config, environment={**environment(), "ET_EPOCHS": "100000", "ET_LOADERS": "4"}) as run:
        run.wait_size(2, 120)
        size = 2
        while done < changes:
            kills_next = done % 10 == 9  # not the only worker
            size = choice.choice([n for n in (1, 2, 3, 4) if n != size and not (n == 1 and kills_next)])
            run.do("resize", run.name, size)
            run.wait_size(size, 120)
            run.wait_more_steps(3, 60)
            done += 1
            if kills_next:
                kill_one(run, choice, size)
                kills += 1
        run.do("stop", run.name, timeout=60)
        run.wait(120)
        audit = run.audit()
        ahead = [100 * float(note["value"]) for note in run.events("note", key="ahead")]
    yield rows.at_least("torch-prefetch", ahead[-1], "% of batches", 98, "requested from the loader processes before they were "
                        f"needed, by the first rank at the end; over the run {rows.spread(ahead)} %")
    wrong = audit["missing"] + audit["repeated"] + audit["unequal_hashes"]
    yield rows.below("torch-audit", wrong, "samples or hashes", 0,
                     f"{done} changes, {kills} kills; {audit['samples']} samples in {audit['steps']} steps: {audit['missing']} "
                     f"missing, {audit['repeated']} repeated, {audit['unequal_hashes']} of {audit['hashes_compared']} unequal")


def kill_one(run, choice, size):
    """kill -9 of any worker; waits for the one that comes in its place."""
    victim = choice.choice(pids(run.status()))
    os.kill(victim, signal.SIGKILL)
    run.wait_status(lambda s: s.get("world_size") == size and victim not in pids(s), 120, "the replacement")
