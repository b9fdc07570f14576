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
import socket
import subprocess
import sys
import tempfile
import time
import typing
from statistics import median

import gpu
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
    return "; ".join(rows.gpus()) or "no nvidia-smi"


def ranks_share_a_gpu():
    """Their kernels take turns then, so that speeds say nothing."""
    return len(rows.gpus()) < 2


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
    environment = {**os.environ, **gpu.ON_ONE_GPU, "TEST_WORKER_DEVICE": "1", "ELASTICTRAIN_BACKEND": "nccl",
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


# --- What NCCL itself does when ranks are killed, stopped or late: each question finds its own processes (tests/gpu/nccl_rank.cc), several
# ranks on one GPU by distinct NCCL_HOSTIDs, and gives lines for people

IN_PROGRESS = 7
NAMES = {0: "success", 1: "CUDA error", 2: "system error", 3: "internal error", 4: "invalid argument",
         5: "invalid usage", 6: "remote error", IN_PROGRESS: "in progress", -1: "not asked", -2: "stuck", -3: "absent"}
FLOATS = 1 << 20
QUIET_S = 5  # in which a survivor that is told of a loss learns it


def each(members, *words, timeout=30):
    """All at once; returns their answers."""
    for member in members:
        member.say(*words)
    return [member.answer(timeout) for member in members]


def build(members, name, timeout=90):
    """All of them at once; returns their answers."""
    with gpu.unique_id() as text:
        for rank, member in enumerate(members):
            member.say("init", name, text, len(members), rank)
        return [member.answer(timeout) for member in members]


def spread(values):
    values = sorted(values)
    return f"{median(values):.0f} ms [{values[0]:.0f} to {values[-1]:.0f}]" if values else "none"


def names_of(answers):
    return ", ".join(NAMES.get(answer["code"], str(answer["code"])) for answer in answers)


def built_or_stuck(members, name, what):
    built = build(members, name)
    if any(answer["code"] != 0 for answer in built):
        raise gpu.Stuck(f"{what}: {built}")
    return built


def busy(members, name="a"):
    built_or_stuck(members, name, "no communicator to begin with")
    for member in members:
        member.ask("loop", name, FLOATS)
    until = time.monotonic() + 60
    while members[0].ask("stats", name)["sums"] < 10:
        if time.monotonic() > until:
            raise gpu.Stuck("no ten sums within 60 s")
        time.sleep(0.01)


def from_to(before, after):
    return ", ".join(f"{name} {before[name]} to {after[name]}" for name in before)


def connecting():
    """Two ranks by host id: what init costs and what the first sums of two sizes cost, connected early and late."""
    for late in ("1", "0"):
        with gpu.ranks(2, NCCL_RUNTIME_CONNECT=late) as members:
            before = members[0].ask("resources")
            built = built_or_stuck(members, "a", f"NCCL_RUNTIME_CONNECT={late}: no communicator")
            sums = [each(members, "sum", "a", floats) for floats in (1000, 1000, FLOATS, FLOATS)]
            after = members[0].ask("resources")
        failed = [answer for answers in sums for answer in answers if answer["code"] != 0]
        if failed:
            raise gpu.Stuck(f"NCCL_RUNTIME_CONNECT={late}: sums ended with {names_of(failed)}")
        took = ", ".join(f"{max(answer['ms'] for answer in answers):.1f}" for answers in sums)
        yield (f"NCCL_RUNTIME_CONNECT={late}: init {max(a['ms'] for a in built):.0f} ms, first and second sum of 4 KB and of "
               f"{4 * FLOATS >> 20} MB {took} ms, {(after['gpu_bytes'] - before['gpu_bytes']) / 1e6:.0f} MB of the GPU")


def abort_behind_work(seconds):
    """Whether an abort waits for other work of the device: kernels that are queued in another stream."""
    lines = []
    for wanted in seconds:
        with gpu.ranks(2) as members:
            busy(members)
            queued = members[0].ask("busy", 1000 * wanted)["ms"]
            answer = members[0].ask("abort", "a", 20_000, timeout=60)
            lines.append(f"{queued / 1000:.1f} s queued: {answer['ms']:.0f} ms" + (" and not done" if answer["code"] == -2 else ""))
    yield "; ".join(lines)


def lonely_builds(count):
    """Builds whose peer never comes, aborted: what they leave behind."""
    with gpu.ranks(1) as (only,):
        before, times = only.ask("resources"), []
        for number in range(count):
            with gpu.unique_id() as text:
                only.ask("init", f"l{number}", text, 2, 0, 100)
                answer = only.ask("abort", f"l{number}", 20_000, timeout=60)
            if answer["code"] == -2:
                raise gpu.Stuck(f"the abort of build {number + 1} takes longer than 20 s")
            times.append(answer["ms"])
        yield f"{count} builds: {from_to(before, only.ask('resources'))}; abort {spread(times)}"


def kernels(floats):
    with gpu.ranks(1) as (only,):
        speeds = only.ask("kernels", floats)
    yield (f"prepare {speeds['prepare_gb_per_s']:.0f} GB/s, square sum {speeds['square_sum_gb_per_s']:.0f} GB/s, of "
           f"{4 * floats / 1e6:.0f} MB")


def kill_in_mid_collective():
    """(a) What survivors learn of a peer that was killed, and whether Shrink works then."""
    with gpu.ranks() as members:
        busy(members)
        *survivors, victim = members
        victim.end()
        killed, news = time.monotonic(), {}
        while len(news) < 2 and time.monotonic() < killed + QUIET_S:
            for number, rank in enumerate(survivors):
                code = rank.ask("error", "a")["code"]
                if number not in news and code not in (0, IN_PROGRESS):
                    news[number] = (NAMES.get(code, code), (time.monotonic() - killed) * 1000)
            time.sleep(0.01)
        for number in range(2):
            name, after = news.get(number, (f"nothing in {QUIET_S} s", 0))
            yield f"survivor {number}: async error: {name}, after {after:.0f} ms"
        for rank in survivors:
            rank.say("shrink", "a", "b", 1, 2)
        answers = []
        for rank in survivors:
            with contextlib.suppress(gpu.Stuck):
                answers.append(rank.answer(15))
        yield ("Shrink with ABORT: " + ", ".join(f"{NAMES.get(a['code'], a['code'])} ({a.get('ms', 0):.0f} ms)" for a in answers)
               + " (trap 1 where it is the error above)")


def side_builds(count, loading):
    """(b) Builds beside a communicator in use: how long they take, and the longest pause of the other one."""
    times, pauses, stuck = [], [], 0
    with gpu.ranks(CUDA_MODULE_LOADING=loading) as members:
        busy(members)
        each(members, "stats", "a")
        for number in range(count):
            try:
                built = build(members, f"b{number}", timeout=30)
            except gpu.Stuck:
                stuck += 1
                break
            times += [answer["ms"] for answer in built]
            each(members, "abort", f"b{number}", 5000)
            pauses += [member.ask("stats", "a")["longest_ms"] for member in members]
    yield (f"{loading}: {len(times) // 3} builds of {count}, {spread(times)}; longest pause of the other {spread(pauses)}; "
           f"deadlocks {stuck}")


def abort_latency(count, stop):
    """(c) How long ncclCommAbort takes for those that wait for a peer that was killed or is stopped."""
    answers = []
    for _ in range(count):
        with gpu.ranks() as members:
            busy(members)
            members[2].signal(signal.SIGSTOP if stop else signal.SIGKILL)
            time.sleep(0.3)
            answers += each(members[:2], "abort", "a", 5000)
    stuck = sum(answer["code"] == -2 for answer in answers)
    yield (f"{'stopped' if stop else 'killed'} peer: {spread([answer['ms'] for answer in answers])}, {stuck} of {len(answers)} longer "
           "than 5 s")


def leaks(count):
    """(d) Descriptors, threads and GPU memory over many generations."""
    with gpu.ranks() as members:
        seen = []
        for number in range(count):
            build(members, "g")
            each(members, "abort", "g", 5000)
            if number in (count // 10, count - 1):
                seen.append(members[0].ask("resources"))
    yield f"from generation {count // 10 + 1} to {count}: {from_to(*seen)}"


def fresh_after_loss(revoke):
    """(e) From a kill to a communicator of the survivors, with and without Revoke before it."""
    with gpu.ranks() as members:
        busy(members)
        members[2].end()
        begin = time.monotonic()
        answers = each(members[:2], *(["revoke", "a"] if revoke else ["abort", "a", 5000]))
        answers += build(members[:2], "b")
        took = (time.monotonic() - begin) * 1000
    yield f"{'Revoke' if revoke else 'Abort'}, then a fresh one: {took:.0f} ms ({names_of(answers)})"


def shrink_or_fresh(count):
    """(g) A communicator for two of three ranks, nobody lost: shrunk from that of the three, and afresh."""
    times = {"shrink": [], "init": []}
    with gpu.ranks() as members:
        stay = members[:2]
        for number in range(count):
            build(members, "parent")
            shrunk = each(stay, "shrink", "parent", "child", 0, 2)
            for verb, answers in (("shrink", shrunk), ("init", build(stay, "fresh"))):
                if any(answer["code"] != 0 for answer in answers):
                    yield f"{verb} {number + 1}: {names_of(answers)}"
                    return
                times[verb].append(max(answer["ms"] for answer in answers))
            for name, owners in (("child", stay), ("fresh", stay), ("parent", members)):
                each(owners, "abort", name, 5000)
    yield f"Shrink {spread(times['shrink'])}, a fresh one {spread(times['init'])}, of {count} each"


def ras_while_hung():
    """(f) What the RAS service says of a rank that is stopped."""
    with gpu.ranks(NCCL_RAS_ENABLE="1", NCCL_RAS_ADDR="127.0.0.1:28328") as members:
        busy(members)
        members[2].signal(signal.SIGSTOP)
        time.sleep(2)
        answer = b""
        try:
            with socket.create_connection(("127.0.0.1", 28328), timeout=10) as link:
                link.settimeout(15)
                link.sendall(b"SET FORMAT json\nVERBOSE STATUS\n")
                with contextlib.suppress(TimeoutError):
                    while piece := link.recv(65536):
                        answer += piece
        except OSError as error:
            yield f"no answer: {error}"
            return
    yield f"{len(answer)} bytes; begins: {' '.join(answer.decode(errors='replace').split())[:200]}"


def answers(question):
    """Of NCCL: there is no right one."""
    def lines():
        try:
            for line in question():
                yield True, line
        except gpu.Stuck as problem:
            yield False, f"stuck: {problem}"
    return lines


def row(name, repetitions):
    def lines():
        for found in rows.measure(name, repetitions):
            met = {True: "met", False: "**not met**", None: "-"}[found.met]
            yield found.met is not False and found.value is not None, (
                f"{found.name}: {found.text()}; must {found.target or '-'}: {met}; {found.told()}")
    return lines


def parts(quick, story_filter, logs=None):
    repetitions = 2 if quick else 5
    times = 2 if quick else 10
    floats = gpu.PARAMETER_BYTES // 4
    queued = (0, 1) if quick else (0, 1, 5)
    return [
        Part("connect", "two ranks: init and first sums", 30, answers(connecting)),
        Part("first-stories", "five changes and losses", 60, lambda: stories(story_filter or FIRST_STORIES, logs)),
        Part("kill", "kill -9 in mid-collective", 40, answers(kill_in_mid_collective)),
        Part("abort", "Abort, then a fresh communicator", 15, answers(lambda: fresh_after_loss(False))),
        Part("revoke", "the same with Revoke", 15, answers(lambda: fresh_after_loss(True))),
        Part("queued", "Abort behind queued kernels", 40, answers(lambda: abort_behind_work(queued))),
        Part("lonely", "builds whose peer never comes", 40,
             answers(lambda: lonely_builds(10 if quick else 50))),
        Part("kernels", "memory bandwidth of the kernels", 10, answers(lambda: kernels(floats))),
        Part("gpu-kill", "one of three killed", 40, row("gpu-kill", repetitions)),
        Part("gpu-swap", "changes of size", 80 if quick else 190, row("gpu-swap", repetitions)),
        Part("trainer", "a data set on CPUs and GPUs", 60, lambda: gpu.trainer_lines(quick)),
        Part("torch", "PyTorch programs", 140 if quick else 230, lambda: gpu.torch_lines(quick)),
        Part("stories", "all changes and losses", 600, lambda: stories(story_filter, logs)),
        Part("beside", "builds beside a busy communicator", 60,
             answers(lambda: side_builds(10 if quick else 50, "LAZY"))),
        Part("stopped", "abort, stopped peer", 40, answers(lambda: abort_latency(times, True))),
        Part("killed", "abort, killed peer", 40, answers(lambda: abort_latency(times, False))),
        Part("ras", "RAS while hung", 20, answers(ras_while_hung)),
        Part("shrink", "two of three, nobody lost", 40, answers(lambda: shrink_or_fresh(3 if quick else 10))),
        Part("leaks", "many generations", 60, answers(lambda: leaks(20 if quick else 100))),
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
