"""What it costs to look at a run: the page of a long journal, metrics that are scraped, the full screen. What starting costs, on one
machine, on many hosts, under Slurm; what hearing from many hosts costs; what a preemption costs; and what the binary and the library
ask of a machine."""

import collections
import itertools
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from statistics import median

import rows
from harness import (BINARY, Run, command_of, job, newest_checkpoint, process_parent, read_steps, signal_all, step_interval, synthetic,
                     toml, wait_until)
from lab import call, find_tool
from measure import hosts, json_lines, program, ratios, stop, training
from peers import python_with_torch
from rows import LIBRARY, ROOT, Unavailable, at_least, below, row, shown, spread
from slurm_lab import Slurm

# --- The page of a long journal

EVENTS = 100_000
WORKERS = 8


def view(step):
    members = [{"id": n + 1, "rank": n, "host": n // 4, "share": 32, "steps": 10, "step_s": 0.1, "data_wait_s": 0.002,
                "compute_s": 0.06 + 0.03 * (n == 5), "communicate_s": 0.03, "update_s": 0.004, "sent_bytes": 1e6,
                "received_bytes": 1e6, "round_trip_s": 1e-4} for n in range(WORKERS)]
    places = [{"name": f"node{n}", "slots": 4, "free_slots": 0} for n in range(WORKERS // 4)]
    return {"now_s": step / 10, "hosts": places, "jobs": [{
        "name": "long", "workers": WORKERS, "target": WORKERS, "steps_done": step, "samples_done": 256.0 * step,
        "loss": 1 / (1 + step / 1e4), "has_loss": True, "members": members, "worker_seconds": step * 0.8, "cost": step / 1e4,
        "intervals": [{"begin_s": step / 10 - 1, "end_s": step / 10, "workers": WORKERS, "steps": 10, "samples": 2560,
                       "global_batch": 256}]}]}


def write_journal(path):
    """Of a week: a view in every fourth record, and changes and losses between them."""
    ids = list(range(1, WORKERS + 1))
    kinds = [
        lambda n: {"event": "observed", "view": view(10 * n)},
        lambda n: {"event": "prepare", "generation": n, "previous": n - 1, "kind": "recover", "reason": "rank 1 was lost", "members": ids,
                   "leavers": [], "shares": [32] * WORKERS, "donors": [1], "learning_rate_factor": 1.0},
        lambda n: {"event": "loss", "class": "crash", "count": 1, "what": "rank 1 (w2 on node0) was killed by signal 9"},
        lambda n: {"event": "generation", "generation": n, "kind": "recover", "first_step": 10 * n, "world_size": WORKERS, "members": ids},
    ]
    first = {"event": "run_opened", "schema": 3, "run": "long", "version": "0", "command": ["./train"], "max_workers": WORKERS}
    with open(path, "w") as file:
        for n in range(EVENTS):
            record = first if n == 0 else kinds[n % len(kinds)](n)
            file.write(json.dumps({"seq": n + 1, "t": 1.7e9 + n * 6, "up": n * 6.0, **record}, separators=(",", ":")) + "\n")


@row("report", "operation", "the page of a journal of 100,000 events: time and size", "a journal of 100,000 events: ≤ 1 s, ≤ 2 MB")
def report(repetitions):
    times = []
    with tempfile.TemporaryDirectory(prefix="et-report-") as state:
        os.mkdir(os.path.join(state, "long"))
        journal, page = os.path.join(state, "long", "journal.jsonl"), os.path.join(state, "long.html")
        write_journal(journal)
        for _ in range(max(5, repetitions)):
            begin = time.monotonic()
            subprocess.run([BINARY, "report", "long", "-o", page], env={**os.environ, "ELASTICTRAIN_STATE_DIR": state}, check=True,
                           capture_output=True)
            times.append(time.monotonic() - begin)
        yield below("report/time", times, "s", 1, f"{EVENTS} events, {os.path.getsize(journal) / 1e6:.0f} MB")
        yield below("report/size", os.path.getsize(page) / 1e6, "MB", 2)


# --- The full screen

TOP_WORKERS = 1000
TOP_S = 20


class Answering(threading.Thread):
    """A run's control socket that answers each request with the status of so many workers."""

    def __init__(self, path, status):
        super().__init__(daemon=True)
        self.answer = (json.dumps({"ok": True, "status": status}) + "\n").encode()
        self.asked = 0
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(path)
        self.server.listen(16)

    def run(self):
        while True:
            peer, _ = self.server.accept()
            with peer, peer.makefile("rb") as lines:
                for _ in lines:
                    self.asked += 1
                    peer.sendall(self.answer)


def status_of(workers):
    return {"name": "large", "phase": "running", "world_size": workers, "target_size": workers, "generation": 3,
            "uptime_s": 100.0, "step": 1000, "loss": 0.5, "samples_per_s": 1e5, "size_reason": "as asked",
            "hosts": [{"host": f"node{n}", "phase": "up", "workers": 8, "slots": 8, "quiet_ms": 5} for n in range(workers // 8)],
            "workers": [{"id": n + 1, "rank": n, "host": f"node{n // 8}", "slot": n % 8, "phase": "member",
                         "program_phase": "", "program_phase_ms": 0, "generation": 3, "step": 1000, "step_ms": 100.0,
                         "compute_ms": 50 + n % 17, "data_wait_ms": 2.0, "communicate_ms": 40.0, "update_ms": 3.0,
                         "sent_bytes": 1e6, "received_bytes": 1e6, "share": 32, "quiet_ms": 5, "pid": 1000 + n}
                        for n in range(workers)]}


@row("top", "operation", "processor time of the full screen of a run of 1,000 workers, with a stand-in for the run",
     "1,000 workers at 2 looks a second: ≤ 5 % of a core")
def top(_):
    """With a stand-in for the run: nothing else is measured."""
    if shutil.which("script") is None:
        raise Unavailable("script is not installed (util-linux)")
    with tempfile.TemporaryDirectory(prefix="et-top-") as state:
        os.mkdir(os.path.join(state, "large"), 0o700)
        run = Answering(os.path.join(state, "large", "control.sock"), status_of(TOP_WORKERS))
        run.start()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        screen = subprocess.Popen(["script", "-qec", f"stty rows 60 cols 200; exec {BINARY} top large", "/dev/null"],
                                  env={**os.environ, "ELASTICTRAIN_STATE_DIR": state, "TERM": "xterm", "LC_ALL": "C.UTF-8"},
                                  stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        time.sleep(TOP_S)
        screen.stdin.write(b"q")
        screen.stdin.close()
        screen.wait(60)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        yield below("top", 100 * used / TOP_S, "% of a core", 5,
                    f"{TOP_WORKERS} workers, 200x60, {run.asked / TOP_S:.1f} looks a second for {TOP_S} s")


# --- Metrics

SCRAPES_S = 0.2
PHASES = 6


def processor_s(pid):
    """Time on processors of all threads of a process, in nanoseconds' precision."""
    tasks = f"/proc/{pid}/task"
    return sum(int(open(f"{tasks}/{task}/schedstat").read().split()[0]) for task in os.listdir(tasks)) / 1e9


@row("metrics-overhead", "operation", "steps while metrics are scraped five times a second, against none",
     "five scrapes a second: ≤ 0.1 % of a step")
def metrics_overhead(repetitions):
    """With and without, in turn, in one run; and what the supervisor computes for them."""
    with training(job(metrics={"listen": "0"}, trainer=synthetic(compute_us_per_sample=2000)), 2) as run:
        run.wait_text("metrics: http://")
        url = re.search(r"metrics: (http://\S+)", run.text("stderr"))[1]
        steps, busy = {True: [], False: []}, {True: [], False: []}
        for phase in range(2 * max(PHASES, repetitions)):
            begin, before_s = time.monotonic(), processor_s(run.process.pid)
            scrapes = phase % 2 == 1
            while time.monotonic() < begin + 5:
                if scrapes:
                    urllib.request.urlopen(url, timeout=30).read()
                time.sleep(SCRAPES_S)
            end = time.monotonic()
            busy[scrapes].append(100 * (processor_s(run.process.pid) - before_s) / (end - begin))
            steps[scrapes].append(step_interval([record for record in run.steps() if begin < record["t"] < end]))
        yield below("metrics-overhead", [ratio - 100 for ratio in ratios(steps[True], steps[False], 100)], "%", 0.1,
                    f"steps with five scrapes a second against none, in turn; steps of {1e3 * median(steps[False]):.1f} ms")
        yield shown("metrics-overhead/supervisor", median(busy[True]) - median(busy[False]), "% of a core",
                    f"with {spread(busy[True])}, without {spread(busy[False])}")


# --- Starting

@row("cold-start", "launching and scale", "from the command to the first committed step of 2 local workers",
     "≤ 0.5 s from the command to the first committed step")
def cold_start(repetitions):
    config = job(workers=(2, 2, 2), trainer={"model": "mlp", "epochs": 100_000, "eval_every_epochs": 0}, batch={"per_worker": 32},
                 audit={"every_steps": 0})
    times = []
    for _ in range(max(5, repetitions)):
        with Run(config) as run:
            run.wait_step(1)
            times.append(run.steps()[0]["t"] - run.started)
            stop(run)
    yield below("cold-start", times, "s", 0.5, "generated data, mlp")


# Runs the remote command here. Everything before the host is an option, `--` ends them.
FAKE_SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift 2
exec sh -c "$*"
"""


def ssh_own_time(ssh, count):
    """What the same number of ssh calls takes that only run `true`, all at once, in s."""
    started = time.monotonic()
    running = [subprocess.Popen([ssh, "--", f"host{number}", "true"], stdin=subprocess.DEVNULL) for number in range(count)]
    for process in running:
        process.wait()
    return time.monotonic() - started


def agents_up(count, ssh):
    """From the command until the last agent is connected, in s."""
    config = job(workers=(1, 1, count), trainer=synthetic(), hosts={"list": [f"host{number}:1" for number in range(count)]},
                 launcher={"kind": "ssh", "ssh_program": ssh, "parallelism": 64})
    with Run(config) as run:
        started = time.time()
        wait_until(lambda: len(run.events("agent_connected")) >= count, 60, f"{count} agents")
        took = run.events("agent_connected")[count - 1]["t"] - started
        stop(run)
    return took


@row("ssh-64", "launching and scale", "64 ssh hosts until all agents are up", "≤ 1 s plus ssh's own time")
def ssh_64(repetitions):
    with tempfile.TemporaryDirectory(prefix="et-ssh-") as directory:
        ssh = os.path.join(directory, "ssh")
        with open(ssh, "w") as file:
            file.write(FAKE_SSH)
        os.chmod(ssh, 0o755)
        took = {count: median(agents_up(count, ssh) for _ in range(repetitions)) for count in (1, 16, 32, 64)}
        own = median(ssh_own_time(ssh, 64) for _ in range(repetitions))
    series = ", ".join(f"{count}: {seconds:.2f} s" for count, seconds in took.items())
    yield below("ssh-64", took[64] - own, "s", 1, f"beyond ssh's own {own:.2f} s (a fake ssh that runs the command here); {series}; "
                f"{1000 * (took[64] - took[1]) / 63:.1f} ms a host")


MANY_HOSTS = 64
LATE_HOSTS = 5
LATE_S = 10


def start_late(lab, places, parallelism):
    """From the boot of the last of `places` until a worker of every host trains, in s; the same since the command; and how many
    of those that were there from the start had to be tried again."""
    late, booted = places[-LATE_HOSTS:], []

    def set_links(up):
        """As a host boots: nobody's caches are told."""
        for host in late:
            call(find_tool("ip"), "-n", lab.switch, "link", "set", host.link, "up" if up else "down")
        booted.append(time.time())

    set_links(False)
    config = job(workers=(1, len(places), len(places)), trainer=synthetic(parameter_bytes=4000),
                 hosts={"list": [f"{host.name}:1" for host in places]}, launcher={"parallelism": parallelism})
    timer = threading.Timer(LATE_S, set_links, (True,))
    try:
        with Run(config, lab=lab) as run:
            begun = time.time()
            timer.start()
            all_train = run.wait_event("generation", timeout=120, world_size=len(places))["t"]
            lost = {record["host"] for record in run.events("agent_lost")}
            stop(run)
    finally:
        timer.cancel()
        set_links(True)
    return all_train - booted[1], all_train - begun, len(lost - {host.name for host in late})


@row("start-many", "launching and scale", "64 hosts behind a jump host, sshd's default limits, five boot 10 s late: until all train",
     "64 hosts behind a jump host, all under sshd's default limits, five of which boot 10 s late: all train ≤ 3 s beyond the last "
     "boot")
def start_many(repetitions):
    """With as many connections at once as by default, and with all, some of which the jump host's sshd then drops."""
    with hosts(MANY_HOSTS + 1, jump="node1", sshd_limits=()) as lab:
        for parallelism, name in ((10, "start-many"), (MANY_HOSTS, "start-many/at-once")):
            beyond, whole, dropped = zip(*(start_late(lab, lab.hosts[1:], parallelism) for _ in range(min(repetitions, 3))))
            yield below(name, beyond, "s", 3, f"{MANY_HOSTS} hosts behind a jump host, both under sshd's default limits, {parallelism} at "
                        f"once; {LATE_HOSTS} boot {LATE_S} s late; all train, beyond the last boot; since the command "
                        f"{spread(whole)}; {max(dropped)} other hosts had to be tried again")


SLURM_HOSTS = 3
# Beside each other in one job: our start, and what srun takes for nothing at all on the same hosts.
SLURM_SCRIPT = """#!/bin/bash
now() {{ read -r uptime _ </proc/uptime; echo "$uptime" >>"{directory}/times"; }}
now
{binary} run {directory}/config.toml
now
srun --nodes={hosts} --ntasks={hosts} /bin/true
now
"""


def slurm_job(slurm):
    """Seconds from the job's start to the first committed step, and of srun for /bin/true."""
    with tempfile.TemporaryDirectory(prefix="etrun-", ignore_cleanup_errors=True) as directory:
        steps, script = os.path.join(directory, "steps"), os.path.join(directory, "job.sh")
        os.mkdir(steps)
        with open(os.path.join(directory, "config.toml"), "w") as file:
            file.write(toml({"workers": {"min": SLURM_HOSTS}, "log": {"step_directory": steps}, "trainer": synthetic(max_steps=5)}))
        with open(script, "w") as file:
            file.write(SLURM_SCRIPT.format(directory=directory, binary=BINARY, hosts=SLURM_HOSTS))
        submitted = slurm.submit([script], f"--nodes={SLURM_HOSTS}", "--ntasks-per-node=1", output=os.path.join(directory, "out"),
                                 environment={"ELASTICTRAIN_STATE_DIR": os.path.join(directory, "state")})
        slurm.wait_job(submitted, lambda state: state["JobState"] in ("COMPLETED", "FAILED"))
        slurm.wait_idle()
        with open(os.path.join(directory, "times")) as file:
            begin, before, after = map(float, file.read().split())
        return min(step["t"] for step in read_steps(steps)) - begin, after - before


@row("slurm-start", "launching and scale", "under a real Slurm: from the job's start to the first step, beyond srun's own time",
     "≤ 1 s from a batch job's start to the first committed step, beyond srun's own time")
def slurm_start(repetitions):
    with hosts(SLURM_HOSTS, sshd_hosts=()) as lab, Slurm(lab) as slurm:
        pairs = [slurm_job(slurm) for _ in range(repetitions)]
    ours, srun = zip(*pairs)
    yield below("slurm-start", median(start - own for start, own in pairs), "s", 1,
                f"{SLURM_HOSTS} hosts: to the first step {spread(ours)} s, srun /bin/true {spread(srun)} s")


@row("agents-1000", "launching and scale", "1,000 agents with 8 workers each: CPU of the supervisor, time of `status`",
     "1,000 agents with 8 workers each: ≤ 20 % of one core, `status` ≤ 100 ms")
def agents_1000(repetitions):
    found = [json_lines(program("agents", "agents_bench"), timeout=120)[-1] for _ in range(min(repetitions, 3))]
    yield below("agents-1000/cpu", [result["supervisor_cpu_percent"] for result in found], "% of a core", 20)
    yield below("agents-1000/status", [result["status_ms_median"] for result in found], "ms", 100)


# --- Preemption: a run is told to go in every way there is, with and without processes that load its data, and is resumed at another
# size. Its weights count how often each sample was part of an update, which does not depend on the audit.

START_S = 300  # until workers with torch take part, beside other work
TRAINED_S = 20  # of a run with a time limit
PAUSED_S = 0.1  # a step of the others: the program must not finish before both hosts have gone
EPOCHS = 2

# What loads the data: nothing, processes of the run's own loader, and one of a loader that the program keeps.
LOADERS = ({}, {"ET_LOADERS": "2"}, {"ET_LOADERS": "1", "ET_START": "spawn", "ET_OWN_LOADER": "spawn"},
           {"ET_LOADERS": "1", "ET_START": "forkserver", "ET_OWN_LOADER": "forkserver"})

Left = collections.namedtuple("Left", "status lost saved counted resumed")  # lost: steps; counted: least and most of a sample


def shuffled(values, seed):
    random.Random(seed).shuffle(values)
    return values


def agents_of(run):
    return [pid for pid in run.processes() if command_of(pid).split()[1:2] == ["agent"] and process_parent(pid) == run.process.pid]


def host_by_host(run, seed):
    agents = shuffled(agents_of(run), seed)
    signal_all(agents[:1], signal.SIGTERM)
    run.wait_text("is free: it has no workers left", START_S)
    signal_all(agents[1:], signal.SIGTERM)


WAYS = {"notice": lambda run, _: run.signal(signal.SIGTERM),
        "term to all": lambda run, seed: signal_all(shuffled([run.process.pid, *run.processes()], seed), signal.SIGTERM),
        "time limit": lambda run, _: None,  # is set when the run starts
        "host by host": host_by_host,
        "all hosts": lambda run, _: signal_all(agents_of(run), signal.SIGTERM)}


def preempted(way, loaders, seed, start_s):
    """One run that is told to go and is resumed with 1 or 3 workers instead of 2: a Left. `start_s`: how long others took until
    they trained; its own is added."""
    limit_s = round(TRAINED_S + 2 * max(start_s))
    limited = way == "time limit"
    environment = {"PYTHONPATH": rows.PACKAGE, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "ET_EPOCHS": str(EPOCHS), **loaders,
                   "ET_STEP_S": str(limit_s / 40 if limited else PAUSED_S)}  # three times the limit for all steps
    with tempfile.TemporaryDirectory() as directory:
        config = job(workers=(1, 2, 3), command=[python_with_torch(), os.path.join(ROOT, "tests", "system", "torch_loading.py")],
                     hosts={"list": ["localhost:1", "127.0.0.1:2"]}, audit={"every_steps": 1}, checkpoint={"directory": directory},
                     batch={"per_worker": 8}, timeouts={"ready_ms": 1000 * START_S, "start_ms": 1000 * START_S})
        with Run(config, ["--time-limit", str(limit_s)] if limited else [], environment=environment) as run:
            if not limited:
                run.wait_size(2, START_S)
                start_s.append(time.monotonic() - run.started)
                run.wait_more_steps(10, START_S)
            WAYS[way](run, seed)
            status = run.wait(START_S)
            run.wait_no_processes()
            saved = newest_checkpoint(directory)
            lost = run.last_step() - saved
            run.environment.pop("ET_STEP_S")
            run.resume("--start", 1 if seed % 2 else 3)
            resumed = run.wait(START_S)
            counted = re.search(r"counted (\d+) to (\d+) after", run.text())
            return Left(status, lost, saved, tuple(map(int, counted.groups())) if counted else (0, 0), resumed)


@row("preempt", "launching and scale", "runs told to go in every way, with loader processes; resumed at another size",
     "a run told to go in five ways (notice, TERM to all, time limit, host by host, all hosts), with four kinds of loaders, "
     "resumed with another number of workers: 20 of 20 saved, ≤ 2 steps lost, no sample lost or repeated")
def preempt(repetitions):
    choices = list(itertools.islice(itertools.cycle(itertools.product(LOADERS, WAYS)), repetitions))
    start_s = [10.0]
    found = [preempted(way, loaders, seed, start_s) for seed, (loaders, way) in enumerate(choices)]
    bad = [f"; {way} with {loaders or 'no loaders'}: {left}" for (loaders, way), left in zip(choices, found)
           if left.status != 75 or left.resumed != 0]
    yield at_least("preempt/saved", sum(left.status == 75 and left.saved > 0 for left in found), "runs", len(found),
                   f"{len(found)} runs of 2 workers on 2 hosts, {len(WAYS)} ways, {len(LOADERS)} kinds of loaders, resumed with 1 or 3")
    yield below("preempt/steps-lost", max(left.lost for left in found), "steps", 2,
                f"{spread([left.lost for left in found])} steps committed behind the checkpoint")
    yield below("preempt/samples", sum(left.counted != (EPOCHS, EPOCHS) for left in found), "runs", 0,
                f"runs in which a sample was learned from less or more often than {EPOCHS} times in {EPOCHS} epochs{''.join(bad)}")


# --- The binary and the library

def output_of(*argv):
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError as error:
        raise Unavailable(f"{argv[0]} is not installed") from error


@row("footprint", "launching and scale", "symbols, size, libraries, start; what check says without CUDA, NCCL and MPI",
     "listed; without CUDA, NCCL and MPI it starts, and `check` reports what is absent")
def footprint(repetitions):
    # A machine without vendor libraries: what the loader would find is overridden by files that are not there.
    bare = {**os.environ, "LD_LIBRARY_PATH": "",
            **{f"ELASTICTRAIN_{name}_LIBRARY": "/nonexistent" for name in ("CUDA", "NVRTC", "CUBLAS", "NCCL", "MPI")}}
    for name, path in (("library", LIBRARY), ("binary", BINARY)):
        if not os.path.exists(path):
            raise Unavailable(f"{path} is not built")
        needed = [line.split()[0] for line in output_of("ldd", path).splitlines() if "=>" in line]
        with tempfile.NamedTemporaryFile() as stripped:
            output_of("strip", "--strip-debug", "-o", stripped.name, path)
            yield shown(f"footprint/{name}-size", os.path.getsize(stripped.name) / 1e6, "MB",
                        f"without debug information; needs {len(needed)} libraries: {', '.join(needed)}")
    yield shown("footprint/exported-symbols", len(output_of("nm", "-D", "--defined-only", LIBRARY).splitlines()), "", "of the library")
    times = []
    for _ in range(max(20, repetitions)):
        begin = time.monotonic()
        subprocess.run([BINARY, "--version"], env=bare, check=True, stdout=subprocess.DEVNULL)
        times.append(1000 * (time.monotonic() - begin))
    yield shown("footprint/start", times, "ms", "--version")
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(toml(job(trainer=synthetic())))
        file.flush()
        done = subprocess.run([BINARY, "check", file.name], env=bare, capture_output=True, text=True, timeout=60)
    silent = [name for name in ("CUDA", "NCCL", "MPI") if name not in done.stdout + done.stderr]
    yield below("footprint/absent", len(silent), "libraries", 0, "of which `check` says nothing; it names "
                + (f"not {', '.join(silent)}" if silent else "each"))
    yield below("footprint/check-status", done.returncode, "", 0)
