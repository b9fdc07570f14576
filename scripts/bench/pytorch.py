"""PyTorch programs: steps a second, idle time of changes and losses, collectives, exactly-once, what takes long, accuracy.
ResNet-18 with 45 MB of gradients and 134 MB of state on CPUs, in `programs/`; torchrun with DDP over Gloo in the same run."""

import collections
import glob
import json
import os
import random
import re
import signal
import subprocess
import tempfile
import time
from statistics import mean, median

import peers
import rows
from changes import times_less
from harness import BINARY, Run, job, pids, wait_until
from measure import change, changes_of, explain, idle_values, idles_ms, in_turn, killed_workers, ratios, step_ms, stop
from overhead import GLOBAL_BATCH, change_at_random, two_standard_errors
from peers import environment, python_with_torch
from rows import PROGRAMS, Unavailable, at_least, below, not_measured, row, shown, spread

DIGITS = os.path.join(rows.ROOT, "tests", "system", "torch_program.py")
RESNET, SHORT_EPOCHS, ELASTIC, COLLECTIVES, GROUP_TESTS = (os.path.join(PROGRAMS, f"{name}.py") for name in (
    "resnet", "short_epochs", "elastic", "collectives", "group_tests"))
MEASURED_S = 15
WARM_STEPS = 10
MODEL = ["--model", "resnet18"]  # of the peers


def torch_job(workers, command, preload=True, **sections):
    config = job(workers=workers, command=[python_with_torch(), *command], **sections)
    if preload:
        config["workers"]["preload"] = ["torch"]
    return config


def resnet_job(workers):
    return torch_job(workers, [RESNET, "elastic"], batch={"per_worker": 32}, audit={"every_steps": 0}, failures={"max_crashes": 1000})


# --- Steps a second

@row("torch-steps", "PyTorch", "PyTorch, ResNet-18: steps a second with two changed lines and with none, beside torchrun",
     "2 workers of 32 samples: ≥ 1.4 times torchrun with DDP over Gloo; a script without a change ≥ 0.95 of two lines")
def torch_steps(repetitions):
    python = python_with_torch()
    launcher = [BINARY, "run", "-n", "2", "--", python]
    torchrun = [python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", RESNET]
    ways = {"torchrun": [*torchrun, "ddp"], "no-exchange": [*torchrun, "alone"], "two-lines": [*launcher, RESNET, "elastic"],
            "unmodified": [*launcher, "-m", "elastictrain.torch", RESNET, "ddp"]}
    found = in_turn(repetitions, ways, lambda name: steps_per_s(ways[name]))
    steps = {name: f"{spread(rates)} steps/s" for name, rates in found.items()}
    yield shown("torch-steps/torchrun", found["torchrun"], "steps/s", "DDP over Gloo")
    yield shown("torch-steps/no-exchange", ratios(found["no-exchange"], found["torchrun"]), "times",
                f"{steps['no-exchange']}; the same program that averages nothing: more is not possible")
    yield at_least("torch-steps/two-lines", ratios(found["two-lines"], found["torchrun"]), "times", 1.4,
                   f"{steps['two-lines']}; 2 workers of 32 samples, AdamW")
    yield at_least("torch-steps/unmodified", ratios(found["unmodified"], found["two-lines"]), "times", 0.95,
                   f"of two lines; {steps['unmodified']}")


def steps_per_s(argv, seconds=MEASURED_S):
    """Of each worker, after its first steps; the mean of the workers. torchrun's workers note their own steps."""
    peers.wait_until_quiet()
    with tempfile.TemporaryDirectory(prefix="et-steps-") as directory:
        log = "ELASTICTRAIN_STEP_LOG" if argv[0] == BINARY else "RUN_DIR"
        with open(os.path.join(directory, "output"), "w") as output:
            started = subprocess.Popen(argv, env={**os.environ, **environment(), log: directory}, stdout=output, stderr=output,
                                       stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            wait_until(lambda: rate(directory) or started.poll() is not None, 120, "first steps", 0.5)
            time.sleep(seconds)
            return rate(directory)
        finally:
            end(started)


def rate(directory):
    times = collections.defaultdict(list)
    for path in glob.glob(os.path.join(directory, "*.jsonl")):
        with open(path) as file:
            for record in (json.loads(line) for line in file if line.endswith("\n")):
                if record.get("ev", "step") == "step":
                    times[record["pid"]].append(record["t"])
    spans = [own[WARM_STEPS:] for own in times.values() if len(own) > WARM_STEPS + 1]
    return mean((len(span) - 1) / (span[-1] - span[0]) for span in spans) if spans else 0


def end(started):
    started.send_signal(signal.SIGTERM)
    try:
        started.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()


@row("torch-overhead", "PyTorch", "PyTorch: the package against the bare calls, steps of about 20 ms",
     "the package against the bare calls, 2 workers, steps of about 20 ms: ≤ 2 % of a step")
def torch_overhead(repetitions):
    argv = [BINARY, "run", "-n", "2", "--", python_with_torch(), ELASTIC, "overhead"]
    found = in_turn(min(3, repetitions), ("bare", "package"), lambda name: steps_per_s([*argv, name]))
    yield below("torch-overhead", [ratio - 100 for ratio in ratios(found["bare"], found["package"], 100)], "% of a step", 2,
                f"of each pair; bare calls {spread([1000 / rate for rate in found['bare']])} ms a step, 2 workers")


# --- Changes of size and losses

@row("torch-grow", "PyTorch", "PyTorch, ResNet-18: idle time of grow, replace and shrink, beside torchrun",
     "idle time of grow, replace and shrink ≤ 50 ms; ≥ 100 times less than torchrun")
def torch_grow(repetitions):
    with Run(resnet_job((1, 2, 4)), environment=environment()) as run:
        found = changes_of(run, repetitions)
    yield from idle_values("torch-grow", found, lambda kind, step: 50)
    for kind, theirs in peers.grow_and_shrink(max(1, repetitions // 2), MODEL).items():
        yield times_less(f"torch-grow/{kind}-ratio", theirs, idles_ms(found[kind]), 100)
    yield from beside_torchft("torch-grow", lambda kind: peers.grow_and_shrink(max(1, repetitions // 2), kind=kind))


@row("torch-kill", "PyTorch", "PyTorch, ResNet-18: kill -9 of one of 3 workers, beside torchrun",
     "kill -9 of one of 3 workers: ≤ 1 step + 50 ms, no pass repeated, ≥ 50 times less than torchrun")
def torch_kill(repetitions):
    faults, wasted, _ = killed_workers(resnet_job((1, 3, 3)), repetitions, environment())
    ours, fewer = idles_ms(faults), max(1, repetitions // 2)
    yield below("torch-kill/idle", ours, "ms", round(step_ms(faults) + 50, 1),
                f"kill -9 of one of 3 workers, median step {step_ms(faults):.0f} ms")
    yield below("torch-kill/passes-repeated", wasted, "passes", 0)
    yield times_less("torch-kill/ratio", peers.killed_worker(fewer, MODEL), ours, 50)
    yield from beside_torchft("torch-kill", lambda kind: {"kill": peers.killed_worker(fewer, kind=kind)})


def beside_torchft(name, idle_of):
    """torchft's idle times at each of its time-outs: `idle_of` gives those of each event with a kind of job."""
    for timeout_ms in peers.JOIN_TIMEOUTS_MS:
        try:
            found = idle_of(peers.torchft_with(timeout_ms))
        except Unavailable as reason:
            yield not_measured(f"{name}/torchft", reason)
            return
        for event, values in found.items():
            yield shown(f"{name}/{event}-torchft-{timeout_ms}", values, "ms", f"torchft with --join_timeout_ms {timeout_ms} idle")


@row("torch-past-epochs", "PyTorch", "PyTorch: idle time of a grow after 200 epochs of a script that changes nothing",
     "a script that changes nothing grows from 2 workers after 200 short epochs: idle time ≤ 50 ms")
def torch_past_epochs(repetitions):
    """A run each: the 200 epochs must be over when a worker joins."""
    changes = []
    for _ in range(min(3, repetitions)):
        config = torch_job((1, 2, 3), ["-m", "elastictrain.torch", SHORT_EPOCHS], preload=False, audit={"every_steps": 0})
        with Run(config, environment=environment()) as run:
            run.wait_size(2, 120)
            run.wait_step(600, 120)
            changes.append(change(run, ("resize", run.name, 3), 3))
            stop(run)
    yield below("torch-past-epochs", idles_ms(changes), "ms", 50,
                f"{explain(changes)}; an unmodified script grows from 2 workers in its epoch 200 and later, epochs of three steps of "
                "40 ms and 20 ms of the script's own code")


# --- Collectives of a script, with torch's own functions on the process group of a run

JUDGED = ("all_reduce", "all_gather", "broadcast")  # of 8 MiB
SHARE = 0.8  # of Gloo's speed


@row("torch-collectives", "PyTorch", "8 MiB in each collective of a script, beside Gloo: 2 and 4 workers",
     "8 MiB in the collectives of a script, behind an update: ≥ 0.8 of Gloo's speed")
def torch_collectives(repetitions):
    python = [python_with_torch(), "-W", "ignore", "-m"]
    for workers in (2, 4):
        theirs = [*python, "torch.distributed.run", "--standalone", f"--nproc_per_node={workers}", COLLECTIVES]
        ours = [BINARY, "run", "-n", str(workers), "-H", f"localhost:{workers}", "--", *python, "elastictrain.torch", COLLECTIVES]
        rounds = in_turn(max(3, repetitions), {"theirs": lambda: times_of(theirs), "ours": lambda: times_of(ours)})
        for name in rounds["ours"][0]:
            times = [found[name] for found in rounds["ours"]]
            label, detail = f"torch-collectives/{workers}/{name}", f"{workers} workers, {spread(times)} ms"
            if name not in rounds["theirs"][0]:
                yield shown(label, times, "ms", f"{detail}; not with Gloo")
                continue
            gloo = [found[name] for found in rounds["theirs"]]
            share, detail = median(gloo) / median(times), f"{detail}; Gloo {spread(gloo)} ms"
            yield at_least(label, share, "times", SHARE, detail) if name in JUDGED else shown(label, share, "times", detail)


def times_of(command):
    """Milliseconds of each function, in one run."""
    peers.wait_until_quiet()
    done = subprocess.run(command, env={**os.environ, **environment()}, capture_output=True, text=True, timeout=300)
    times = {name: float(took) for name, took in re.findall(r"took (\w+) ([\d.]+) ms", done.stdout)}
    if done.returncode != 0 or not times:
        raise AssertionError(f"{' '.join(command)} failed: {(done.stdout + done.stderr)[-800:]}")
    return times


# --- PyTorch's own tests: which pass, which are refused by name, which fail. They are those of the installed torch
# (torch.testing), or of a checkout whose folder ET_TESTS names.

GROUP_WORKERS = 3
TEST_LIMIT_S = 40  # without a word of any rank
START_LIMIT_S = 180
MOST_RUNS = 25  # a test at which a worker ends costs one


@row("torch-pg", "PyTorch", "PyTorch's own tests of torch.distributed on the process group of a run",
     "PyTorch's own tests of c10d without a GPU on the process group of a run; needs `expecttest` in that Python")
def torch_pg(_):
    results = {}
    left = names_of_tests()
    for _ in range(MOST_RUNS):
        results.update(run_tests(left) if left else {})
        left = [name for name in left if name not in results]
    results.update({name: ("fail", f"not reached in {MOST_RUNS} runs") for name in left})
    counts = collections.Counter(result for result, _ in results.values())
    for name, (result, why) in sorted(results.items(), key=lambda item: (item[1][0], item[0])):
        print(f"  {result:8} {name}{': ' + why.splitlines()[0] if why else ''}", flush=True)
    for result in ("pass", "refused", "fail", "hang", "skip"):
        yield shown(f"torch-pg/{result}", counts[result], "tests", f"of {len(results)}, {GROUP_WORKERS} workers")


def names_of_tests():
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([python_with_torch(), "-W", "ignore", GROUP_TESTS, folder, "--list"], capture_output=True, text=True,
                              env={**os.environ, **environment()}, timeout=START_LIMIT_S)
    if done.returncode != 0:
        raise Unavailable(f"torch's tests cannot be imported: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout.strip().splitlines()[-1].split(",")


def run_tests(left):
    """{name: (result, why)} of the first ones, up to one at which the run ended."""
    with tempfile.TemporaryDirectory() as folder:
        command = [BINARY, "run", "-n", str(GROUP_WORKERS), "-H", f"localhost:{GROUP_WORKERS}", "--set", "failures.max_crashes=0", "--",
                   python_with_torch(), "-W", "ignore", GROUP_TESTS, folder, ",".join(left)]
        with open(os.path.join(folder, "output"), "w+") as output:
            process = subprocess.Popen(command, env={**os.environ, **environment()}, stdout=output, stderr=output)
            hangs = watch(process, folder)
            output.seek(0)
            tail = output.read()[-600:]
        lines = [told_by(os.path.join(folder, f"{rank}.jsonl")) for rank in range(GROUP_WORKERS)]
    if not lines[0]:
        raise AssertionError(f"the tests did not start: {tail}")
    return judged(lines, "hang" if hangs else "fail", tail)


def watch(process, folder):
    """Waits for its end. True: it had to be ended, because nothing was heard of a test any more."""
    heard, said = time.monotonic() + START_LIMIT_S - TEST_LIMIT_S, 0
    while process.poll() is None:
        size = sum(os.path.getsize(path) for path in glob.glob(os.path.join(folder, "*.jsonl")))
        if size != said:
            heard, said = time.monotonic(), size
        if time.monotonic() - heard > TEST_LIMIT_S:
            process.terminate()
            process.wait()
            return True
        time.sleep(0.2)
    return False


def told_by(path):
    if not os.path.exists(path):
        return {}
    with open(path) as file:
        return {entry["name"]: (entry.get("result", "begun"), entry.get("why", "")) for entry in map(json.loads, file)}


def judged(lines, unfinished, tail):
    """What the ranks together say. One that began on some rank and did not end on all is `unfinished`; `tail`: the last words."""
    results = {}
    for name in dict.fromkeys(name for found in lines for name in found):
        told = [found.get(name, ("begun", "")) for found in lines]
        worst = next(kind for kind in ("fail", "refused", "begun", "pass", "skip") if any(one == kind for one, _ in told))
        why = next((text for one, text in told if one == worst), "")
        results[name] = (unfinished, why or f"did not end on all ranks: {tail[-200:]!r}") if worst == "begun" else (worst, why)
    return results


# --- Exactly once

@row("torch-audit", "PyTorch", "PyTorch: 20 random changes and 2 kills for each repetition, in one run with loader processes",
     "100 random changes and 10 kills, 4 loader processes in each worker: 0 missing, 0 repeated, 0 unequal; ≥ 98 % of the batches "
     "were requested before they were needed")
def torch_audit(repetitions):
    changes, choice, done, kills = 20 * repetitions, random.Random(1), 0, 0
    config = torch_job((1, 2, 4), [DIGITS], preload=False, batch={"per_worker": 32}, audit={"every_steps": 1},
                       failures={"max_crashes": 1000})
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
                victim = choice.choice(pids(run.status()))
                os.kill(victim, signal.SIGKILL)
                run.wait_status(lambda s: s.get("world_size") == size and victim not in pids(s), 120, "the replacement")
                kills += 1
        stop(run, 120)
        audit = run.audit()
        ahead = [100 * float(note["value"]) for note in run.events("note", key="ahead")]
    yield at_least("torch-audit/ahead", ahead[-1], "% of batches", 98, "requested from the loader processes before they were needed, "
                   f"by the first rank at the end; over the run {spread(ahead)} %")
    yield below("torch-audit", audit["missing"] + audit["repeated"] + audit["unequal_hashes"], "samples or hashes", 0,
                f"{done} changes, {kills} kills; {audit['samples']} samples in {audit['steps']} steps: {audit['missing']} "
                f"missing, {audit['repeated']} repeated, {audit['unequal_hashes']} of {audit['hashes_compared']} unequal")


# --- What takes long

STALL_S = 60


@row("torch-stalls", "PyTorch", "PyTorch: compilation, a loader and an evaluation that take a minute each",
     "a compilation in a new worker's first step, a loader asleep, an evaluation on the first worker, 60 s each: 0 verdicts")
def torch_stalls(_):
    """Three stalls of a minute in one run."""
    config = torch_job((1, 1, 2), [ELASTIC, "stalls"], preload=False, batch={"per_worker": 8}, audit={"every_steps": 10})
    with Run(config, environment={**environment(), "STALL_S": str(STALL_S)}) as run:
        run.wait_size(1, 120)
        run.do("resize", run.name, 2)
        for seen in ("compile and loader are over", "all are over"):
            wait_until(lambda: is_noted(run, seen), 2 * STALL_S + 60, seen, 0.5)
        stop(run, 120)
        wrong = [r["event"] for r in run.journal() if r["event"] in ("hang", "agent_lost", "abort", "worker_lost")]
    yield below("torch-stalls", len(wrong), "verdicts", 0, "compilation in a new worker's first step, a loader asleep, evaluation on the "
                f"first worker: {STALL_S} s each, while the other worker waited")


def is_noted(run, text):
    if run.process.poll() is not None:
        raise AssertionError(f"the run ended: {run.text()[-500:]}")
    return bool(run.events("note", key="stall", value=text))


# --- Accuracy

CHANGES = 3


@row("torch-accuracy", "PyTorch", "PyTorch, digits: fixed size against random changes, a seed each",
     "digits on 64 samples a step, 2 workers against random changes, a seed each: difference within two standard errors")
def torch_accuracy(repetitions):
    return accuracies("torch-accuracy/digits", ["digits", os.path.join(rows.DATA, "optdigits")], "%", repetitions)


@row("torch-accuracy-gpt", "PyTorch", "PyTorch, a small GPT: the same, by the loss of held-out text",
     "a small GPT, the same by the loss of held-out text: difference within two standard errors")
def torch_accuracy_gpt(repetitions):
    text = os.path.join(rows.DATA, "tinyshakespeare", "input.txt")
    return accuracies("torch-accuracy-gpt", ["gpt", text], "loss", repetitions)


def accuracies(name, words, unit, repetitions):
    """A fixed size of 2 against random changes, the same seeds."""
    seeds = range(1, max(2, repetitions) + 1)
    fixed = [result_of(words, seed, 0)[0] for seed in seeds]
    elastic, done = zip(*(result_of(words, seed, CHANGES) for seed in seeds))
    yield below(name, abs(mean(elastic) - mean(fixed)), unit, round(two_standard_errors(fixed, elastic), 4),
                f"limit: two standard errors over {len(fixed)} seeds; fixed {spread(fixed)}, with {min(done)} to {max(done)} changes "
                f"{spread(elastic)} {unit}")


def result_of(words, seed, changes):
    """(the program's result, how many changes took place). torch is preloaded, so that more do before the end."""
    batch = {"per_worker": GLOBAL_BATCH, "max_global": GLOBAL_BATCH, "at_limit": "split"}
    config = torch_job((1, 2, 3), [ELASTIC, "accuracy", *words], batch=batch)
    with Run(config, environment={**environment(), "ET_SEED": str(seed)}) as run:
        done = change_at_random(run, (1, 2, 3), changes, random.Random(seed), 120)
        if run.wait(280) != 0:
            raise AssertionError(f"the run failed: {run.text()[-500:]}")
        return float(run.events("note", key="result")[-1]["value"]), done
