"""Peers on the same machine in the same run: torchrun and torchft, with the same size of model, the same events, the same count
of idle time. Both are optional: where no Python has them, a value says so.

Each node is one torchrun agent with one worker (programs/train.py), tuned so that it reacts as fast as it can: the agent looks
after its worker every 0.1 s and waits 1 s for a last node to join. With torchft each node is one process beside one lighthouse.
How long that waits for a worker that is late, and so for a lost one until its heartbeats are missed for 5 s, is its flag
--join_timeout_ms: JOIN_TIMEOUTS_MS has a short one, a careful one and its default.
"""

import collections
import functools
import glob
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import rows
from harness import environ_of, signal_all
from measure import idle_ms
from rows import PROGRAMS, Unavailable

TORCH_ENVIRONMENT = os.path.join(rows.ROOT, "build", "torch-venv", "bin", "python")
TRAIN = os.path.join(PROGRAMS, "train.py")
TUNED = ["--monitor_interval=0.1", "--rdzv_conf=last_call_timeout=1", "--max_restarts=100"]
TUNED_TORCHFT = ["--min_replicas", "1", "--quorum_tick_ms", "50"]
JOIN_TIMEOUTS_MS = (300, 3_000, 60_000)
MAX_NODES = 4
SETTLED_STEPS = 20
SCENARIO_LIMIT_S = 280
BUSY_SHARE = 0.12  # of the machine; above it nothing is measured
QUIET_LIMIT_S = 60


class Stalled(Unavailable):
    """torchrun did not go on."""


def grow_and_shrink(repetitions, options=(), kind=None):
    """Idle time in ms of 2 to 3 nodes and back: {"grow": […], "shrink": […]}. `options`: more of programs/train.py;
    `kind`: another Launch."""
    return dict(zip(("grow", "shrink"), zip(*repeated(repetitions, lambda: grow_then_shrink(kind or Launch, options)))))


def killed_worker(repetitions, options=(), kind=None):
    """Idle time in ms after kill -9 of one of 3 workers."""
    return repeated(repetitions, lambda: after_signal(signal.SIGKILL, nodes=3, options=options, kind=kind))


def hung_worker(collective_timeout_s):
    """Idle time in ms after SIGSTOP of one of 2 workers."""
    return after_signal(signal.SIGSTOP, nodes=2, collective_timeout_s=collective_timeout_s)


def repeated(repetitions, measure):
    """What the repetitions gave in which torchrun went on; Stalled if it did in none."""
    found, stalled = [], None
    for _ in range(repetitions):
        try:
            found.append(measure())
        except Stalled as reason:
            stalled = reason
    if not found:
        raise stalled
    return found


def grow_then_shrink(kind, options=()):
    with kind(options=options) as launch:
        launch.start(2)
        grow = time.monotonic()
        launch.add_node()
        launch.wait_steps(grow, 3)
        launch.train_on()
        shrink = time.monotonic()
        launch.agents["n2"].terminate()
        launch.wait_steps(shrink, 2)
        launch.wait_new_steps(shrink)
        end = time.monotonic()
        return idle_ms(launch.steps(), grow, shrink), idle_ms(launch.steps(), shrink, end)


def after_signal(number, nodes, collective_timeout_s=0, options=(), kind=None):
    with (kind or Launch)(collective_timeout_s, options) as launch:
        launch.start(nodes)
        event = time.monotonic()
        os.kill(launch.worker_of("n1"), number)
        launch.wait_steps(event + 1, nodes if launch.replaces_workers else nodes - 1)
        launch.wait_new_steps(event)
        return idle_ms(launch.steps(), event, time.monotonic())


@functools.cache
def python_with_torch():
    """Debian's torch belongs to the system's Python; one of pip may belong to another."""
    for python in (os.environ.get("ELASTICTRAIN_TORCH_PYTHON"), TORCH_ENVIRONMENT, sys.executable, "/usr/bin/python3"):
        if python and os.path.exists(python) and imports(python, "torch.distributed.run") is None:
            return python
    raise Unavailable("no Python has torch (scripts/setup.sh torch installs PyPI's, scripts/setup.sh bench Debian's; "
                           "ELASTICTRAIN_TORCH_PYTHON names another Python)")


def imports(python, module):
    """None, or why it does not."""
    done = subprocess.run([python, "-c", f"import {module}"], capture_output=True, text=True)
    return (done.stderr.strip().splitlines() or ["no reason"])[-1] if done.returncode != 0 else None


def environment():
    """Of PyTorch programs."""
    return {"PYTHONPATH": os.pathsep.join([rows.PACKAGE, PROGRAMS]), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
            "PYTHONWARNINGS": "ignore"}


def busy_share():
    """Of all cores, within a second."""
    def read():
        with open("/proc/stat") as file:
            ticks = [int(field) for field in file.readline().split()[1:9]]
        return sum(ticks) - ticks[3] - ticks[4], sum(ticks)
    before = read()
    time.sleep(1)
    after = read()
    return (after[0] - before[0]) / max(1, after[1] - before[1])


def wait_until_quiet():
    deadline = time.monotonic() + QUIET_LIMIT_S
    while busy_share() > BUSY_SHARE:
        if time.monotonic() > deadline:
            raise Unavailable("other programs kept the machine too busy to measure torchrun")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Launch:
    """One elastic job of torchrun on loopback. Everything that it started is ended and removed at the end."""

    replaces_workers = True  # those that are lost

    def __init__(self, collective_timeout_s=0, options=()):
        self.python = python_with_torch()
        wait_until_quiet()
        self.directory = tempfile.mkdtemp(prefix="et-torchrun-")
        self.port = free_port()
        self.train = [TRAIN, "--collective-timeout-s", str(collective_timeout_s), *options]
        self.agents = {}
        self.deadline = time.monotonic() + SCENARIO_LIMIT_S

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        signal_all(self.pids(), signal.SIGKILL)
        for agent in self.agents.values():
            agent.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def start(self, nodes):
        begun = time.monotonic()
        for _ in range(nodes):
            self.add_node()
        self.wait_steps(begun, nodes)
        self.train_on()

    def add_node(self):
        node = f"n{len(self.agents)}"
        argv = [self.python, TRAIN, "--launch", f"--nnodes=1:{MAX_NODES}", "--nproc_per_node=1", *TUNED,
                f"--rdzv_id=bench{self.port}", "--rdzv_backend=c10d", f"--rdzv_endpoint=127.0.0.1:{self.port}", *self.train]
        # torch 2.15: without it rank 0 keeps its old address and a new node waits a minute in vain.
        self.agents[node] = self.launched(argv, node, TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")

    def launched(self, argv, node, **variables):
        environment = {**os.environ, "NODE": node, "RUN_DIR": self.directory, "OMP_NUM_THREADS": "1",
                       "GLOO_SOCKET_IFNAME": "lo", **variables}
        with open(os.path.join(self.directory, f"agent-{node}.log"), "w") as log:
            return subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def pids(self):
        """The agents, and all processes that have this run's directory in their environment: the workers."""
        mark = f"RUN_DIR={self.directory}".encode()
        return {agent.pid for agent in self.agents.values() if agent.poll() is None} | {
            pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if mark in environ_of(pid).split(b"\0")}

    def steps(self):
        """All complete records of all workers; a worker that was killed may leave part of a line."""
        records = []
        for path in glob.glob(os.path.join(self.directory, "steps-*.jsonl")):
            with open(path) as file:
                records += [json.loads(line) for line in file if line.endswith("\n")]
        return records

    def worker_of(self, node):
        return max((record for record in self.steps() if record["node"] == node), key=lambda record: record["t"])["pid"]

    def train_on(self):
        """Long enough for a median step; of random length, so that events fall anywhere between two checkpoints."""
        time.sleep(8 + 2 * random.random())

    def wait_steps(self, since, world):
        """Until one worker has completed SETTLED_STEPS at this size since then."""
        def done():
            counts = collections.Counter(record["pid"] for record in self.steps()
                                         if record["t"] > since and record["world"] == world)
            return max(counts.values(), default=0) >= SETTLED_STEPS
        self.wait(done, f"steps with {world} workers")

    def wait_new_steps(self, since):
        """Until steps are completed that no worker had completed before: what was lost is computed again."""
        reached = max(record["step"] for record in self.steps() if record["t"] <= since)
        self.wait(lambda: max(record["step"] for record in self.steps() if record["t"] > since) > reached + 5, "new steps")

    def wait(self, condition, what):
        while not condition():
            if all(agent.poll() is not None for agent in self.agents.values()):
                raise Stalled(f"all of torchrun's agents ended before {what}: {self.last_line()}")
            if time.monotonic() > self.deadline:
                raise Stalled(f"torchrun came to no {what} within {SCENARIO_LIMIT_S} s")
            time.sleep(0.1)

    def last_line(self):
        with open(os.path.join(self.directory, "agent-n0.log"), errors="replace") as file:
            return (file.read().strip().splitlines() or ["no output"])[-1]


class TorchftLaunch(Launch):
    """One job of torchft on loopback. Its options are none."""

    replaces_workers = False  # its launchers do
    join_timeout_ms = 3_000

    def __init__(self, *unused, **others):
        python = python_with_torch()
        if reason := imports(python, "torchft"):
            raise Unavailable(f"{python} has no torchft ({reason}); pip install torchft-nightly")
        super().__init__()
        self.lighthouse = None

    def __exit__(self, *unused):
        if self.lighthouse is not None:
            self.lighthouse.kill()
            self.lighthouse.wait()
        super().__exit__(*unused)

    def add_node(self):
        if self.lighthouse is None:
            program = os.path.join(os.path.dirname(self.python), "torchft_lighthouse")
            self.lighthouse = self.launched([program, *TUNED_TORCHFT, "--join_timeout_ms", str(self.join_timeout_ms),
                                             "--bind", f"[::]:{self.port}"], "lighthouse")
        node = f"n{len(self.agents)}"
        self.agents[node] = self.launched([self.python, TRAIN, "--torchft"], node, TORCHFT_LIGHTHOUSE=f"http://127.0.0.1:{self.port}")


def torchft_with(timeout_ms):
    """The kind of job whose lighthouse has this --join_timeout_ms."""
    return type("TorchftLaunch", (TorchftLaunch,), {"join_timeout_ms": timeout_ms})
