"""PyTorch programs on CUDA devices, for scripts/gpu_check.sh: the same training by one worker and by two, through changes
and a loss, in each precision that users train in. It runs where torch sees a CUDA device."""

import glob
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile

import gpu_experiments
import rows
import torchrun
from harness import BINARY, Run, job, pids, wait_until

PROGRAM = os.path.join(rows.ROOT, "tests", "gpu", "torch_program.py")
PACKAGE = os.path.join(rows.ROOT, "train", "python")
STEP = os.path.join(torchrun.PEER, "gpu_step.py")
LIBRARY = os.path.join(rows.BUILD, "train", "libelastictrain.so")
STEPS = 60
# How far two workers' loss may be from one's on the same global batches: sums have another order, and in 16 bits another
# rounding.
MODES = {"float32": 1e-3, "stream": 1e-3, "amp": 0.05, "bfloat16": 0.1}
# Options of torch_peer/gpu_step.py, and how many pairs at most.
SPEEDS = {"resnet50": (["--model", "resnet50"], 3), "gpt": (["--model", "gpt"], 3),
          "gpt-bfloat16": (["--model", "gpt", "--bfloat16"], 1), "gpt-compiled": (["--model", "gpt", "--compile", "default"], 1)}
TRIED_ON_CPU = ["--device", "cpu", "--small", "--batch", "4", "--steps", "10"]


def device():
    """GPU_CHECK_TORCH_DEVICE=cpu tries this module on a machine without a GPU."""
    return os.environ.get("GPU_CHECK_TORCH_DEVICE", "cuda")


def python_on_device():
    """Raises rows.Unavailable with what is missing."""
    python = torchrun.python_with_torch()
    if device() == "cpu":
        return python
    asked = subprocess.run([python, "-c", "import torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available())"],
                           capture_output=True, text=True, timeout=120)
    if asked.returncode != 0 or not asked.stdout.strip().endswith("True"):
        raise rows.Unavailable(f"torch of {python} sees no CUDA device ({asked.stdout.strip() or asked.stderr.strip()[-200:]})")
    return python


def libraries_of(python):
    """Folders of the libraries in that Python's nvidia packages, which its torch loads by path."""
    asked = subprocess.run([python, "-c", "import site; print(*site.getsitepackages(), sep='\\n')"], capture_output=True,
                           text=True, timeout=60)
    return [folder for place in asked.stdout.splitlines() for folder in glob.glob(os.path.join(place, "nvidia", "*", "lib"))]


def environment(python, mode):
    paths = [path for path in (os.environ.get("LD_LIBRARY_PATH"), *libraries_of(python)) if path]
    return {**gpu_experiments.ON_ONE_GPU, "PYTHONPATH": PACKAGE, "ELASTICTRAIN_LIBRARY": LIBRARY, "LD_LIBRARY_PATH": ":".join(paths), "ET_MODE": mode,
            "ET_DEVICE": device(), "PYTHONWARNINGS": "ignore"}


def wrong_with(run):
    found = run.audit()
    if not found or any(int(found[key]) for key in ("missing", "repeated", "unequal_hashes")):
        return f"audit: {found}"
    notes = [event for event in run.events("note") if event.get("key") == "nccl"]
    return f"NCCL was not used: {notes[0]}" if notes else ""


def loss_of(python, mode, workers):
    config = job(workers=(workers, workers, workers), command=[python, PROGRAM], batch={"per_worker": 64 // workers},
                 audit={"every_steps": 10})
    with Run(config, environment={**environment(python, mode), "ET_STEPS": str(STEPS)}) as run:
        status = run.wait(180)
        found = re.search(r"loss=(\S+)", run.text())
        if status != 0 or not found:
            raise RuntimeError(f"{mode}, {workers} workers: status {status}: {run.text()[-300:]}")
        if problem := wrong_with(run):
            raise RuntimeError(f"{mode}, {workers} workers: {problem}")
        return float(found[1])


def same_as_one(python, mode):
    one, two = loss_of(python, mode, 1), loss_of(python, mode, 2)
    return abs(two - one) <= MODES[mode] * one, (
        f"{mode}: loss after {STEPS} steps {one:.4f} with one worker, {two:.4f} with two on the same global batches "
        f"(at most {100 * MODES[mode]:g} % apart)")


def through_changes(python, mode):
    config = job(workers=(1, 1, 2), command=[python, PROGRAM], batch={"per_worker": 32}, audit={"every_steps": 10},
                 failures={"max_crashes": 10})
    more = {"ET_STEPS": "1000000", "ET_PAUSE_S": "0.01"}
    with Run(config, environment={**environment(python, mode), **more}) as run:
        run.wait_size(1, 120)
        run.wait_more_steps(10, 60)
        run.do("resize", run.name, 2)
        run.wait_size(2, 120)
        run.wait_more_steps(10, 60)
        lost = pids(run.status())[1]
        os.kill(lost, signal.SIGKILL)
        wait_until(lambda: lost not in pids(run.status()) and run.status()["world_size"] == 2, 120, "the killed one replaced")
        run.wait_more_steps(10, 60)
        run.do("resize", run.name, 1)
        run.wait_size(1, 60)
        run.do("stop", run.name)
        status = run.wait(60)
        problem = wrong_with(run)
        return status == 0 and not problem, (f"{mode}: 1 to 2 workers, one killed and replaced, back to 1: "
                                             f"{problem or f'status {status}, states equal'}")


def speeds(repetitions):
    """Steps a second of two workers, beside DDP in turn, with the same samples and the same settings of NCCL."""
    python = python_on_device()
    variables = {**os.environ, **environment(python, "amp")}
    for name, (options, most) in SPEEDS.items():
        words = [STEP, *options, *(TRIED_ON_CPU if device() == "cpu" else [])]
        own = [BINARY, "run", "-n", "2", "--", python, *words, "elastictrain"]
        ddp = [python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", *words, "ddp"]
        pairs = [(step_of(own, variables), step_of(ddp, variables)) for _ in range(min(most, repetitions))]
        ratios = [100 * float(ours["steps_per_s"]) / float(theirs["steps_per_s"]) for ours, theirs in pairs]
        yield rows.at_least(f"gpu-torch/{name}", statistics.median(ratios), "%", 98,
                            f"of DDP's steps a second, of each pair {rows.spread(ratios)} %; two workers in mixed precision; "
                            f"the last pair in ms: {in_words(pairs[-1][0])}; DDP {in_words(pairs[-1][1])}")


def in_words(step):
    return ", ".join(f"{name} {step[f'{name}_ms']}" for name in ("step", "pass", "serial", "update", "idle"))


def step_of(argv, variables):
    """What torch_peer/gpu_step.py found, by name. Raises rows.Unavailable where the workers' sums did not run over NCCL."""
    with tempfile.TemporaryDirectory(prefix="et-state-") as folder:
        own = {"ELASTICTRAIN_STATE_DIR": folder, "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT",
               "NCCL_DEBUG_FILE": os.path.join(folder, "nccl-%p.log")}
        done = subprocess.run(argv, env={**variables, **own}, capture_output=True, text=True, timeout=240)
        found = re.search(r"^.*\bsteps_per_s=.*$", done.stdout, re.MULTILINE)
        if done.returncode != 0 or not found:
            raise rows.Unavailable(f"{argv[0]} ended with {done.returncode}: {(done.stdout + done.stderr)[-300:]}")
        if device() == "cuda" and len(joined := ranks_in_nccl(folder)) != 2:
            raise rows.Unavailable(f"{argv[-1]}: {len(joined)} of 2 workers built a communicator of NCCL")
        return dict(re.findall(r"(\w+)=(\S+)", found[0]))


def ranks_in_nccl(folder):
    """Those that NCCL's own log names as members of a communicator of two."""
    texts = []
    for path in glob.glob(os.path.join(folder, "nccl-*.log")):
        with open(path, errors="replace") as file:
            texts.append(file.read())
    return set(re.findall(r"rank (\d+) nranks 2 .*Init COMPLETE", "\n".join(texts)))


def lines(quick):
    if os.environ.get("GPU_CHECK_STANDIN") and device() != "cpu":
        yield True, "SKIPPED: stand-ins cannot serve torch"
        return
    try:
        python = python_on_device()
    except rows.Unavailable as reason:
        yield True, f"SKIPPED: {reason}"
        return
    for mode in ("float32", "amp", "bfloat16") if quick else MODES:
        yield same_as_one(python, mode)
    for mode in ("amp", "bfloat16") if quick else ("float32", "amp", "bfloat16"):
        yield through_changes(python, mode)


if __name__ == "__main__":
    bad = 0
    for good, line in lines("--quick" in sys.argv):
        print(line if good else f"WRONG: {line}", flush=True)
        bad += not good
    sys.exit(bad)
