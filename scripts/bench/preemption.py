"""What a preemption costs: a run is told to go in every way there is, with and without processes that load its data, and is
resumed at another size. Its weights count how often each sample was part of an update, which does not depend on the audit."""

import collections
import itertools
import os
import random
import re
import signal
import tempfile
import time

import rows
import torchrun
from harness import Run, command_of, job, newest_checkpoint, process_parent, signal_all

ROOT = rows.ROOT
PROGRAM = os.path.join(ROOT, "tests", "system", "torch_loading.py")
START_S = 300  # until workers with torch take part, beside other work
TRAINED_S = 20  # of a run with a time limit
STEP_S = 0.1  # of the others: the program must not finish before both hosts have gone
EPOCHS = 2

# What loads the data: nothing, processes of the run's own loader, and one of a loader that the program keeps.
LOADERS = ({}, {"ET_LOADERS": "2"}, {"ET_LOADERS": "1", "ET_START": "spawn", "ET_OWN_LOADER": "spawn"},
           {"ET_LOADERS": "1", "ET_START": "forkserver", "ET_OWN_LOADER": "forkserver"})

Left = collections.namedtuple("Left", "status lost saved counted resumed")  # lost: steps; counted: least and most of a sample


def preemption_job(directory, python):
    return job(workers=(1, 2, 3), command=[python, PROGRAM], hosts={"list": ["localhost:1", "127.0.0.1:2"]},
               audit={"every_steps": 1}, checkpoint={"directory": directory}, batch={"per_worker": 8},
               timeouts={"ready_ms": 1000 * START_S, "start_ms": 1000 * START_S})


def agents_of(run):
    return [pid for pid in run.processes() if command_of(pid).split()[1:2] == ["agent"] and process_parent(pid) == run.process.pid]


def notice(run, _):
    run.signal(signal.SIGTERM)


def term_to_all(run, seed):
    processes = [run.process.pid, *run.processes()]
    random.Random(seed).shuffle(processes)
    signal_all(processes, signal.SIGTERM)


def time_limit(run, _):
    """Is set when the run starts."""


def host_by_host(run, seed):
    agents = agents_of(run)
    random.Random(seed).shuffle(agents)
    signal_all(agents[:1], signal.SIGTERM)
    run.wait_text("is free: it has no workers left", START_S)
    signal_all(agents[1:], signal.SIGTERM)


def all_hosts(run, _):
    signal_all(agents_of(run), signal.SIGTERM)


WAYS = (notice, term_to_all, time_limit, host_by_host, all_hosts)


def preempted(way, loaders, seed, python, start_s):
    """One run that is told to go and is resumed with 1 or 3 workers instead of 2: a Left. `start_s`: how long others took until
    they trained; its own is added."""
    environment = {"PYTHONPATH": os.path.join(ROOT, "train", "python"), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore",
                   "ET_EPOCHS": str(EPOCHS), "ET_STEP_S": str(STEP_S), **loaders}
    limit_s = round(TRAINED_S + 2 * max(start_s))
    limited = ("--time-limit", limit_s) if way is time_limit else ()
    if limited:
        environment["ET_STEP_S"] = str(limit_s / 40)  # three times the limit for all steps
    with tempfile.TemporaryDirectory() as directory:
        with Run(preemption_job(directory, python), map(str, limited), environment=environment) as run:
            if not limited:
                run.wait_size(2, START_S)
                start_s.append(time.monotonic() - run.started)
                run.wait_more_steps(10, START_S)
            way(run, seed)
            status = run.wait(START_S)
            run.wait_no_processes()
            saved = newest_checkpoint(directory)
            lost = run.last_step() - saved
            run.environment.pop("ET_STEP_S", None)
            run.resume("--start", 1 if seed % 2 else 3)
            resumed = run.wait(START_S)
            counted = re.search(r"counted (\d+) to (\d+) after", run.text())
            return Left(status, lost, saved, tuple(map(int, counted.groups())) if counted else (0, 0), resumed)


def preempt(repetitions):
    python = torchrun.python_with_torch()
    choices = list(itertools.islice(itertools.cycle(itertools.product(LOADERS, WAYS)), repetitions))
    start_s = [10.0]
    found = [preempted(way, loaders, seed, python, start_s) for seed, (loaders, way) in enumerate(choices)]
    bad = [f"{way.__name__} with {loaders or 'no loaders'}: {left}" for (loaders, way), left in zip(choices, found)
           if left.status != 75 or left.resumed != 0]
    wrong = sum(left.counted != (EPOCHS, EPOCHS) for left in found)
    what = f"{len(found)} runs of 2 workers on 2 hosts, {len(WAYS)} ways, {len(LOADERS)} kinds of loaders, resumed with 1 or 3"
    yield rows.at_least("preempt/saved", sum(left.status == 75 and left.saved > 0 for left in found), "runs", len(found), what)
    yield rows.below("preempt/steps-lost", max(left.lost for left in found), "steps", 2,
                     f"{rows.spread([left.lost for left in found], 0)} steps committed behind the checkpoint")
    yield rows.below("preempt/samples", wrong, "runs", 0, "runs in which a sample was learned from less or more often than "
                     f"{EPOCHS} times in {EPOCHS} epochs" + "".join(f"; {text}" for text in bad))
