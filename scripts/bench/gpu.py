"""What only a GPU shows: changes, losses and sums of device memory over NCCL, PyTorch programs in each precision that users train in,
and the built-in trainer. Several workers share a GPU where there are more slots than GPUs; NCCL is told then that they are hosts of
their own (train/session), so they talk over loopback."""

import contextlib
import glob
import json
import os
import re
import select
import signal
import subprocess
import tempfile
import time
from statistics import median

import peers
import rows
from changes import steps_of
from harness import BINARY, Run, job, pids, wait_until
from measure import ENDLESS, figure, idle_values, idles_ms, in_turn, killed_workers, ratios, stop, swap_changes
from overhead import optdigits
from rows import Unavailable, at_least, below, row

RANK, OVERHEAD = (os.path.join(rows.BUILD, "tests", "gpu", name) for name in ("nccl_rank", "gpu_overhead"))
# Less where libraries that stand in for NVIDIA's compute on the CPU.
PARAMETER_BYTES = int(os.environ.get("GPU_CHECK_BYTES", 100_000_000))


# --- Ranks of NCCL by themselves

class Stuck(Exception):
    """A rank did not answer in time."""


# For several ranks on one GPU, each a host of its own: over loopback, with few blocks each.
ON_ONE_GPU = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_NVLS_ENABLE": "0", "NCCL_MAX_CTAS": "2"}


def environment_of(rank, **more):
    names = {"NCCL_HOSTID": f"check-{rank}", "CUDA_MODULE_LOADING": "LAZY", "NCCL_RAS_ENABLE": "0",
             "NCCL_RUNTIME_CONNECT": "0"}
    return {**os.environ, **ON_ONE_GPU, **names, **more}


class Rank:
    def __init__(self, rank, **more):
        self.process = subprocess.Popen([RANK], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=environment_of(rank, **more))
        self.buffer = b""

    def say(self, *words):
        self.process.stdin.write((" ".join(str(word) for word in words) + "\n").encode())
        self.process.stdin.flush()

    def answer(self, timeout=90):
        until = time.monotonic() + timeout
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, until - time.monotonic()))
            piece = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not piece:
                raise Stuck(f"no answer within {timeout} s" if not ready else "the process ended")
            self.buffer += piece
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def ask(self, *words, timeout=90):
        self.say(*words)
        return self.answer(timeout)

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@contextlib.contextmanager
def ranks(count=3, **more):
    started = [Rank(rank, **more) for rank in range(count)]
    try:
        yield started
    finally:
        for rank in started:
            rank.end()


@contextlib.contextmanager
def unique_id():
    """In a process that is thrown away with the threads that the id leaves behind."""
    helper = Rank("id")
    try:
        yield helper.ask("id")["id"]
    finally:
        helper.end()


def facts():
    """What there is, or why nothing of this can be measured here."""
    if not os.path.exists(RANK):
        raise Unavailable(f"{RANK} is not built")
    asked = subprocess.run([RANK], input="facts\nquit\n", capture_output=True, text=True, timeout=60,
                           env={**os.environ, **ON_ONE_GPU})
    if asked.returncode != 0:
        raise Unavailable(asked.stderr.strip().splitlines()[-1] if asked.stderr.strip() else "no GPU")
    return asked.stdout.strip()


@contextlib.contextmanager
def variables(**values):
    """Of everything that is started in the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def on_gpu(**values):
    facts()
    own = {name: os.environ.get(name, value) for name, value in ON_ONE_GPU.items()}
    return variables(**own, GPU_OVERHEAD_FLOATS=str(PARAMETER_BYTES // 4), **values)


def gpu_job(workers, audit=0, **more):
    return steps_of({"parameter_bytes": PARAMETER_BYTES, "compute_us_per_sample": 26_000, "device": "cuda"}, workers, audit, **more)


# --- Changes and losses

@row("gpu-swap", "GPUs", "idle time of grow, shrink and replace on GPUs, 100 MB of parameters over NCCL",
     "idle time of grow, shrink, replace ≤ 1 step, 100 MB over NCCL")
def gpu_swap(repetitions):
    with on_gpu():
        yield from idle_values("gpu-swap", swap_changes(gpu_job((1, 2, 4)), repetitions), lambda kind, step: step)


@row("gpu-builds", "GPUs", "the same with NCCL built in the background, at the swap, by Shrink where workers leave",
     "idle time of the same changes with each `ELASTICTRAIN_NCCL_BUILD`; no target")
def gpu_builds(repetitions):
    """How long nobody commits a step."""
    for build in ("background", "at-swap", "shrink"):
        with on_gpu(ELASTICTRAIN_NCCL_BUILD=build):
            yield from idle_values(f"gpu-builds/{build}", swap_changes(gpu_job((1, 2, 4)), repetitions))


@row("gpu-kill", "GPUs", "kill -9 of one of 3 workers that sum over NCCL", "≤ 1 s, no wedged survivor")
def gpu_kill(repetitions):
    with on_gpu():
        faults, passes, audit = killed_workers(gpu_job((1, 3, 3), 10, failures=ENDLESS), repetitions)
    yield below("gpu-kill", idles_ms(faults), "ms", 1000, f"{len(faults)} kills, {passes} passes repeated; audit: {audit}")


# --- What the session adds to sums

def overhead_text(*words):
    with Run(arguments=["-n", "2", *words]) as run:
        if run.wait(180) != 0:
            raise Unavailable(f"gpu_overhead failed: {run.text()[-300:]}")
        return run.text()


def through_session(monitors=1):
    return figure(overhead_text("-x", f"ELASTICTRAIN_MONITORS={monitors}", "--", OVERHEAD, "session"))


def bare(ranks=2):
    with unique_id() as text:
        started = [subprocess.Popen([OVERHEAD, "bare", str(ranks), str(rank), text], stdout=subprocess.PIPE, text=True,
                                    env=environment_of(rank)) for rank in range(ranks)]
        try:
            return figure(started[0].communicate(timeout=180)[0])
        finally:
            for process in started:
                process.kill()
                process.wait()


@row("gpu-overhead", "GPUs", "steps a second on a GPU: session against bare NCCL, in turn",
     "≥ 99 % of bare NCCL; over loopback a sum takes 30 ms, so this shows only that the session adds no wait to it")
def gpu_overhead(repetitions):
    with on_gpu():
        found = in_turn(max(3, repetitions), {"session": through_session, "bare": bare})
    yield at_least("gpu-overhead", ratios(found["session"], found["bare"], 100), "%", 99,
                   f"{median(found['session']):.1f} steps/s against {median(found['bare']):.1f} of bare NCCL")


@row("gpu-overlap", "GPUs", "share of the sums' time that a backward pass of 25 buckets hides",
     "25 buckets: ≥ 90 % of the sums' time hidden behind the backward pass")
def gpu_overlap(repetitions):
    """Of the last bucket it can hide nothing, so that is as large as the others, and a tenth of them."""
    standin = {"ET_STANDIN_COPY_US": "8000", "ET_STANDIN_SUM_US": "5000"} if os.environ.get("GPU_CHECK_STANDIN") else {}
    with on_gpu(**standin):
        for name, part_of_last in (("gpu-overlap", 1), ("gpu-overlap/small-last", 10)):
            found = [overhead_text("--", OVERHEAD, "overlap", str(part_of_last)) for _ in range(min(3, repetitions))]
            shares = [figure(text, "hidden_percent") for text in found]
            yield at_least(name, shares, "%", 90, "last: " + re.search(r"hidden_percent=\S+ (.*)", found[-1])[1])


@row("gpu-monitors", "GPUs", "steps a second on a GPU with monitors and without", "≤ 0.5 % slower")
def gpu_monitors(repetitions):
    with on_gpu():
        found = in_turn(max(3, repetitions), {"with": through_session, "without": lambda: through_session(0)})
    yield below("gpu-monitors", [ratio - 100 for ratio in ratios(found["without"], found["with"], 100)], "%", 0.5, "slower")


# --- The built-in trainer: a data set is learnt as well as on CPUs, by one worker and by two over NCCL

DIGITS_EPOCHS = 15
MOST_APART = 0.01


def wrong_with(run):
    found = run.audit()
    if not found or any(int(found[key]) for key in ("missing", "repeated", "unequal_hashes")):
        return f"audit: {found}"
    notes = run.events("note", key="nccl")
    return f"NCCL was not used: {notes[0]}" if notes else ""


def result_of(what, config, found_in, environment, timeout=180):
    """The last number that a run has said, which must end well."""
    with Run(config, environment=environment) as run:
        status, found = run.wait(timeout), found_in(run)
        problem = wrong_with(run) if status == 0 and found else f"status {status}: {run.text()[-300:]}"
        if problem:
            raise RuntimeError(f"{what}: {problem}")
        return float(found[-1])


def accuracy_of(device, workers):
    config = job(workers=(workers, workers, workers), batch={"per_worker": 32 // workers},
                 trainer=optdigits(epochs=DIGITS_EPOCHS, device=device, eval_every_epochs=0))
    return result_of(f"{device}, {workers} workers", config, lambda run: [note["value"] for note in run.events("note", key="accuracy")],
                     ON_ONE_GPU, 120)


def trainer_lines(quick):
    """For scripts/gpu_check.sh: whether each is as it must be, and what was found."""
    host = accuracy_of("cpu", 1)
    for workers in (2,) if quick else (1, 2):
        found = accuracy_of("cuda", workers)
        yield abs(found - host) <= MOST_APART, (f"optdigits, {DIGITS_EPOCHS} epochs, {workers} on the GPU: {100 * found:.2f} % of the test "
                                                f"set right, {100 * host:.2f} % on a CPU")


# --- PyTorch programs: the same training by one worker and by two, through changes and a loss, in each precision

PROGRAM = os.path.join(rows.ROOT, "tests", "gpu", "torch_program.py")
STEP = os.path.join(rows.PROGRAMS, "gpu_step.py")
STEPS = 60
# How far two workers' loss may be from one's on the same global batches: sums have another order, and in 16 bits another
# rounding.
MODES = {"float32": 1e-3, "stream": 1e-3, "amp": 0.05, "bfloat16": 0.1}
# Options of programs/gpu_step.py, and how many pairs at most.
SPEEDS = {"resnet50": (["--model", "resnet50"], 3), "gpt": (["--model", "gpt"], 3),
          "gpt-bfloat16": (["--model", "gpt", "--bfloat16"], 1), "gpt-compiled": (["--model", "gpt", "--compile", "default"], 1)}
TRIED_ON_CPU = ["--device", "cpu", "--small", "--batch", "4", "--steps", "10"]


def device():
    """GPU_CHECK_TORCH_DEVICE=cpu tries this on a machine without a GPU."""
    return os.environ.get("GPU_CHECK_TORCH_DEVICE", "cuda")


def python_on_device():
    """Raises Unavailable with what is missing."""
    python = peers.python_with_torch()
    if device() == "cpu":
        return python
    asked = subprocess.run([python, "-c", "import torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available())"],
                           capture_output=True, text=True, timeout=120)
    if asked.returncode != 0 or not asked.stdout.strip().endswith("True"):
        raise Unavailable(f"torch of {python} sees no CUDA device ({asked.stdout.strip() or asked.stderr.strip()[-200:]})")
    return python


def libraries_of(python):
    """Folders of the libraries in that Python's nvidia packages, which its torch loads by path."""
    asked = subprocess.run([python, "-c", "import site; print(*site.getsitepackages(), sep='\\n')"], capture_output=True,
                           text=True, timeout=60)
    return [folder for place in asked.stdout.splitlines() for folder in glob.glob(os.path.join(place, "nvidia", "*", "lib"))]


def torch_environment(python, mode):
    paths = [path for path in (os.environ.get("LD_LIBRARY_PATH"), *libraries_of(python)) if path]
    return {**ON_ONE_GPU, "PYTHONPATH": rows.PACKAGE, "ELASTICTRAIN_LIBRARY": rows.LIBRARY, "LD_LIBRARY_PATH": ":".join(paths),
            "ET_MODE": mode, "ET_DEVICE": device(), "PYTHONWARNINGS": "ignore"}


def same_as_one(python, mode):
    def loss_of(workers):
        config = job(workers=(workers, workers, workers), command=[python, PROGRAM], batch={"per_worker": 64 // workers},
                     audit={"every_steps": 10})
        return result_of(f"{mode}, {workers} workers", config, lambda run: re.findall(r"loss=(\S+)", run.text()),
                         {**torch_environment(python, mode), "ET_STEPS": str(STEPS)})

    one, two = loss_of(1), loss_of(2)
    return abs(two - one) <= MODES[mode] * one, (
        f"{mode}: loss after {STEPS} steps {one:.4f} with one worker, {two:.4f} with two on the same global batches "
        f"(at most {100 * MODES[mode]:g} % apart)")


def through_changes(python, mode):
    config = job(workers=(1, 1, 2), command=[python, PROGRAM], batch={"per_worker": 32}, audit={"every_steps": 10},
                 failures={"max_crashes": 10})
    more = {"ET_STEPS": "1000000", "ET_PAUSE_S": "0.01"}
    with Run(config, environment={**torch_environment(python, mode), **more}) as run:
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
        status = stop(run)
        problem = wrong_with(run)
        return status == 0 and not problem, (f"{mode}: 1 to 2 workers, one killed and replaced, back to 1: "
                                             f"{problem or f'status {status}, states equal'}")


def torch_lines(quick):
    """For scripts/gpu_check.sh: whether each is as it must be, and what was found."""
    if os.environ.get("GPU_CHECK_STANDIN") and device() != "cpu":
        yield True, "SKIPPED: stand-ins cannot serve torch"
        return
    try:
        python = python_on_device()
    except Unavailable as reason:
        yield True, f"SKIPPED: {reason}"
        return
    for mode in ("float32", "amp", "bfloat16") if quick else MODES:
        yield same_as_one(python, mode)
    for mode in ("amp", "bfloat16") if quick else ("float32", "amp", "bfloat16"):
        yield through_changes(python, mode)


@row("gpu-torch", "GPUs", "ResNet-50 and GPT-2 with elastictrain.torch beside DDP on a GPU, steps a second",
     "ResNet-50 and GPT-2 in mixed precision, GPT-2 compiled too, two workers: ≥ 98 % of DDP's steps a second with the same "
     "samples; both sides' sums run over NCCL, which its log shows")
def gpu_torch(repetitions):
    """Steps a second of two workers, beside DDP in turn, with the same samples and the same settings of NCCL."""
    python = python_on_device()
    for name, (options, most) in SPEEDS.items():
        words = [STEP, *options, *(TRIED_ON_CPU if device() == "cpu" else [])]
        own = [BINARY, "run", "-n", "2", "--", python, *words, "elastictrain"]
        ddp = [python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", *words, "ddp"]
        found = in_turn(min(most, repetitions), {"ours": lambda: step_of(python, own), "theirs": lambda: step_of(python, ddp)})
        speeds = {side: [float(step["steps_per_s"]) for step in steps] for side, steps in found.items()}
        yield at_least(f"gpu-torch/{name}", ratios(speeds["ours"], speeds["theirs"], 100), "%", 98,
                       "of DDP's steps a second; two workers in mixed precision; the last pair in ms: "
                       f"{in_words(found['ours'][-1])}; DDP {in_words(found['theirs'][-1])}")


def in_words(step):
    return ", ".join(f"{name} {step[f'{name}_ms']}" for name in ("step", "pass", "serial", "update", "idle"))


def step_of(python, argv):
    """What programs/gpu_step.py found, by name. Raises Unavailable where the workers' sums did not run over NCCL."""
    with tempfile.TemporaryDirectory(prefix="et-state-") as folder:
        own = {"ELASTICTRAIN_STATE_DIR": folder, "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT",
               "NCCL_DEBUG_FILE": os.path.join(folder, "nccl-%p.log")}
        done = subprocess.run(argv, env={**os.environ, **torch_environment(python, "amp"), **own}, capture_output=True, text=True,
                              timeout=240)
        found = re.search(r"^.*\bsteps_per_s=.*$", done.stdout, re.MULTILINE)
        if done.returncode != 0 or not found:
            raise Unavailable(f"{argv[0]} ended with {done.returncode}: {(done.stdout + done.stderr)[-300:]}")
        if device() == "cuda" and len(joined := ranks_in_nccl(folder)) != 2:
            raise Unavailable(f"{argv[-1]}: {len(joined)} of 2 workers built a communicator of NCCL")
        return dict(re.findall(r"(\w+)=(\S+)", found[0]))


def ranks_in_nccl(folder):
    """Those that NCCL's own log names as members of a communicator of two."""
    texts = []
    for path in glob.glob(os.path.join(folder, "nccl-*.log")):
        with open(path, errors="replace") as file:
            texts.append(file.read())
    return set(re.findall(r"rank (\d+) nranks 2 .*Init COMPLETE", "\n".join(texts)))
