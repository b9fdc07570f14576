#!/usr/bin/env python3
"""The body of scripts/gpu_check.sh: stories of changes and losses, questions about NCCL, and the rows; a verdict. The most
valuable parts come first, and what does not fit into the budget is said."""

import argparse
import contextlib
import dataclasses
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import typing

import gpu
import nccl
import rows

# The same as the test gpu's stand-in runs: models are averaged and variances measured in host memory only.
WITHOUT = ["--test-case-exclude=*averag*,*variance*,*traffic*,*replica*,*model*",
           "--source-file-exclude=*synchronization_test*,*own_data_test*"]
FIRST_STORIES = ("*worker that joins gets the state*,*workers that leave end*,rank 0 can be replaced,"
                 "*dies before the all-reduce*,two of four die at once")
STORIES = os.path.join(rows.BUILD, "tests", "unit", "train_session", "unit_train_session")
ID_HELPER = os.path.join(rows.BUILD, "tests", "standin", "et_nccl_id")
LEAST_S = 5  # what is not worth to begin with
MPS_CONTROL = "nvidia-cuda-mps-control"
HANGS = 3  # times what it needs: a part that takes longer is ended, for the others' sake


class TimeIsUp(BaseException):
    """Not an Exception: what measures a row catches those."""


@dataclasses.dataclass
class Part:
    name: str
    what: str
    seconds: float  # what it may need on a GPU
    lines: typing.Callable[[], typing.Iterable[tuple[bool, str]]]  # whether each is as it must be
    mps: str = "no"  # where ranks share a GPU: "needed", or it is left out, and "better"


def say(text=""):
    print(text, flush=True)


def driver():
    try:
        asked = subprocess.run(["nvidia-smi", "--query-gpu=driver_version,name", "--format=csv,noheader"],
                               capture_output=True, text=True, timeout=30)
        return "; ".join(asked.stdout.strip().splitlines()) or "unknown"
    except (OSError, subprocess.TimeoutExpired):
        return "no nvidia-smi"


def gpus():
    asked = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, timeout=30)
    return len(asked.stdout.strip().splitlines())


def ranks_share_a_gpu():
    """Their kernels take turns then, so that speeds say nothing."""
    try:
        return gpus() < 2
    except (OSError, subprocess.TimeoutExpired):
        return True


# --- NVIDIA's multi-process service: kernels of several processes run side by side on one GPU, where they would take turns otherwise, so
# that speeds of ranks that share one can be compared

def mps_is_there():
    return shutil.which(MPS_CONTROL) is not None


@contextlib.contextmanager
def mps_used():
    """By the programs that are started meanwhile. The service is one of its own: other programs go on without it."""
    folder = tempfile.mkdtemp(prefix="et-mps-")
    with gpu.variables(CUDA_MPS_PIPE_DIRECTORY=folder, CUDA_MPS_LOG_DIRECTORY=folder):
        try:
            subprocess.run([MPS_CONTROL, "-d"], check=True, timeout=30)
            yield
        finally:
            subprocess.run([MPS_CONTROL], input="quit\n", text=True, timeout=30, stdout=subprocess.DEVNULL)
            shutil.rmtree(folder, ignore_errors=True)  # the service may still write there


@contextlib.contextmanager
def written_to(name, logs):
    """A file, kept in the folder `logs` if there is one."""
    if not logs:
        with tempfile.TemporaryFile("w+", errors="replace") as file:
            yield file
    else:
        with open(os.path.join(logs, f"{time.time():.0f}-{name}"), "w+", errors="replace") as file:
            yield file


def stories(only, logs):
    """Changes, losses and recoveries of real processes, bit-identical states checked."""
    environment = {**os.environ, **nccl.ON_ONE_GPU, "TEST_WORKER_DEVICE": "1", "ELASTICTRAIN_BACKEND": "nccl",
                   "ELASTICTRAIN_BINARY": ID_HELPER, "NCCL_RAS_ENABLE": "0"}
    begin = time.monotonic()
    words = [*WITHOUT, "--duration=true", *([f"--test-case={only}"] if only else [])]
    with written_to("stories.log", logs) as log:
        process = subprocess.Popen([STORIES, *words], env=environment, stdout=log, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.seek(0)
        output = log.read()
    counts = re.search(r"test cases:\s*(\d+) \|\s*(\d+) passed \|\s*(\d+) failed", output)
    words = f"{counts[2]} of {counts[1]} passed" if counts else f"ended with status {process.returncode}"
    failed = [line[12:] for line in output.splitlines() if line.startswith("TEST CASE:")]
    if process.returncode != 0:
        words += "; " + "; ".join(failed[:5])
    none = counts is not None and counts[1] == "0"
    yield process.returncode == 0 and not none, f"{words}, {time.monotonic() - begin:.0f} s"


def answers(question):
    """Of NCCL: there is no right one."""
    def lines():
        try:
            for line in question():
                yield True, line
        except nccl.Stuck as problem:
            yield False, f"stuck: {problem}"
    return lines


def row(name, repetitions):
    def lines():
        for found in rows.measure(name, repetitions):
            met = {True: "met", False: "**not met**", None: "-"}[found.met]
            yield found.met is not False and found.value is not None, (
                f"{found.name}: {found.text()}; must {found.target or '-'}: {met}; {found.detail}")
    return lines


def parts(quick, story_filter, logs=None):
    repetitions = 2 if quick else 5
    times = 2 if quick else 10
    rank = gpu.RANK
    floats = gpu.PARAMETER_BYTES // 4
    queued = (0, 1) if quick else (0, 1, 5)
    return [
        Part("connect", "two ranks: init and first sums", 30, answers(lambda: nccl.connecting(rank))),
        Part("first-stories", "five changes and losses", 60, lambda: stories(story_filter or FIRST_STORIES, logs)),
        Part("kill", "kill -9 in mid-collective", 40, answers(lambda: nccl.kill_in_mid_collective(rank))),
        Part("abort", "Abort, then a fresh communicator", 15, answers(lambda: nccl.fresh_after_loss(rank, False))),
        Part("revoke", "the same with Revoke", 15, answers(lambda: nccl.fresh_after_loss(rank, True))),
        Part("queued", "Abort behind queued kernels", 40, answers(lambda: nccl.abort_behind_work(rank, queued))),
        Part("lonely", "builds whose peer never comes", 40,
             answers(lambda: nccl.lonely_builds(rank, 10 if quick else 50))),
        Part("kernels", "memory bandwidth of the kernels", 10, answers(lambda: nccl.kernels(rank, floats))),
        Part("gpu-kill", "one of three killed", 40, row("gpu-kill", repetitions)),
        Part("gpu-swap", "changes of size", 80 if quick else 190, row("gpu-swap", repetitions)),
        Part("trainer", "a data set on CPUs and GPUs", 60, lambda: gpu.trainer_lines(quick)),
        Part("torch", "PyTorch programs", 140 if quick else 230, lambda: gpu.torch_lines(quick)),
        Part("stories", "all changes and losses", 600, lambda: stories(story_filter, logs)),
        Part("beside", "builds beside a busy communicator", 60,
             answers(lambda: nccl.side_builds(rank, 10 if quick else 50, "LAZY"))),
        Part("stopped", "abort, stopped peer", 40, answers(lambda: nccl.abort_latency(rank, times, True))),
        Part("killed", "abort, killed peer", 40, answers(lambda: nccl.abort_latency(rank, times, False))),
        Part("ras", "RAS while hung", 20, answers(lambda: nccl.ras_while_hung(rank))),
        Part("shrink", "two of three, nobody lost", 40, answers(lambda: nccl.shrink_or_fresh(rank, 3 if quick else 10))),
        Part("leaks", "many generations", 60, answers(lambda: nccl.leaks(rank, 20 if quick else 100))),
        Part("gpu-builds", "ways to build", 100, row("gpu-builds", 2)),
        Part("overlap", "sums beside the backward pass", 45, row("gpu-overlap", 1 if quick else 3), "better"),
        Part("gpu-torch", "ResNet-50 and GPT-2 beside DDP", 255 if quick else 465, row("gpu-torch", 1 if quick else 3), "needed"),
        Part("gpu-overhead", "against bare NCCL", 60, row("gpu-overhead", repetitions), "needed"),
        Part("gpu-monitors", "with monitors and without", 60, row("gpu-monitors", repetitions), "needed"),
    ]


@contextlib.contextmanager
def ended_after(seconds):
    def is_up(*_):
        raise TimeIsUp

    before = signal.signal(signal.SIGALRM, is_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def carry_out(part, seconds, left_out, through_mps=False):
    """Prints its lines; returns what is wrong, if anything. A part that the budget ends in the time that it needs is left
    out; one that takes much longer hangs."""
    bad = []
    try:
        with ended_after(seconds), mps_used() if through_mps else contextlib.nullcontext():
            for good, line in part.lines():
                say(f"| {part.name} | {part.what} | {line.replace('|', '/')} |")
                bad += [] if good else [part.name]
    except TimeIsUp:
        say(f"| {part.name} | {part.what} | not done after {seconds:.0f} s |")
        (bad if seconds > 2 * part.seconds else left_out).append(part.name)
    except Exception as error:  # the other parts are worth their time
        say(f"| {part.name} | {part.what} | {type(error).__name__}: {error} |")
        bad.append(part.name)
    return bad[:1]


def parse():
    parser = argparse.ArgumentParser(prog="scripts/gpu_check.sh")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="append", default=[], metavar="PART[,PART…]")
    parser.add_argument("--stories", default="", metavar="FILTER", help="as doctest's --test-case")
    parser.add_argument("--budget", type=float, default=540, metavar="SECONDS")
    parser.add_argument("--logs", metavar="FOLDER", help="keeps whole outputs there")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--standin", action="store_true", help="stand-ins cannot show speed")
    options = parser.parse_args()
    options.only = [name for names in options.only for name in names.split(",")]
    options.parts = parts(options.quick, options.stories, options.logs)
    unknown = set(options.only) - {part.name for part in options.parts}
    if unknown:
        parser.error(f"no part is called {', '.join(sorted(unknown))}; --list names them")
    return options


def chosen(options, shared):
    if options.only:
        return [part for part in options.parts if part.name in options.only]
    if options.standin or (shared and not mps_is_there()):
        return [part for part in options.parts if part.mps != "needed"]
    return options.parts


def main():
    options = parse()
    if options.list:
        for part in options.parts:
            print(f"{part.name:<14} {part.what}")
        return 0
    begin = time.monotonic()
    try:
        facts = json.loads(gpu.facts())
    except rows.Unavailable as reason:
        say(f"SKIPPED: {reason}")
        return 0
    say(f"# GPU check, {datetime.date.today()}: {facts['gpu']}, driver {driver()}, CUDA {facts['cuda'] / 1000:.1f}, "
        f"NCCL {facts['nccl']}\n")
    say("| part | | |\n|---|---|---|")
    bad, left_out = [], []
    shared = ranks_share_a_gpu()
    through_mps = shared and not options.standin and mps_is_there()
    to_do = chosen(options, shared)
    for part in to_do:
        left = options.budget - (time.monotonic() - begin)
        if left < (LEAST_S if options.only else min(part.seconds / 2, options.budget / 4)):
            left_out.append(part.name)
            continue
        bad += carry_out(part, min(left, HANGS * part.seconds), left_out, through_mps and part.mps != "no")
    if left_out:
        say(f"\nnot within {options.budget:.0f} s: {', '.join(left_out)}; --only {','.join(left_out)} runs them")
    slow = [part.name for part in options.parts if part.mps == "needed" and part not in to_do]
    if slow and not options.only:
        say(f"\nleft out, because ranks share a GPU and there is no MPS: {', '.join(slow)}")
    say(f"\nverdict: {'PASSED' if not bad else 'FAILED: ' + ', '.join(bad)} ({time.monotonic() - begin:.0f} s)")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
