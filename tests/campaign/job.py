"""One training run of the campaign, its hosts and its observed state: members, and the times of committed steps."""

import collections
import glob
import json
import os
import shutil
import statistics
import subprocess
import time

from harness import Failed, Run, command_of, is_alive, members, pids, toml, wait_until

SLOTS = 2
MIN_WORKERS, START_WORKERS, MAX_WORKERS = 2, 4, 6


class Steps:
    """Committed steps of all workers, read incrementally."""

    def __init__(self, directory):
        self.directory = directory
        self.offsets = collections.defaultdict(int)
        self.times = []  # (time, step), as they were read
        self.last = 0

    def look(self):
        for path in glob.glob(os.path.join(self.directory, "w-*.jsonl")):
            with open(path) as file:
                file.seek(self.offsets[path])
                while line := file.readline():
                    if not line.endswith("\n"):
                        break
                    self.offsets[path] = file.tell()
                    self._take(line)
        return self.last

    def _take(self, line):
        try:
            record = json.loads(line)
        except ValueError:
            return
        if record.get("ev") == "step":
            self.times.append((record["t"], record["step"]))
            self.last = record["step"]

    def idle_between(self, begin, end):
        """The longest time without a committed step, minus a normal step time."""
        self.look()
        times = sorted(t for t, _ in self.times if begin - 2 <= t <= end)
        gaps = [(b - a, b) for a, b in zip(times, times[1:])]
        usual = statistics.median([gap for gap, until in gaps if until <= begin] or [0])
        return max(0.0, max((gap for gap, until in gaps if until > begin), default=end - begin) - usual)


class Job:
    """Trains on all hosts of the lab. `workload`: synthetic (until it is stopped) or optdigits (to its end)."""

    def __init__(self, lab, work, workload, data, deadline_s):
        self.lab = lab
        self.work = work
        self.workload = workload
        self.deadline_s = deadline_s
        self.target = START_WORKERS
        for name in ("checkpoints", "state"):
            for entry in os.listdir(os.path.join(work, name)):
                path = os.path.join(work, name, entry)
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        for name in ("notices", "slow"):
            shutil.rmtree(os.path.join(work, name), ignore_errors=True)
            os.mkdir(os.path.join(work, name))
        self.withdrawn = set()
        self.offer()
        environment = {"ELASTICTRAIN_SLOW_DIR": os.path.join(work, "slow")}
        arguments = ["-x", f"ELASTICTRAIN_SLOW_DIR={environment['ELASTICTRAIN_SLOW_DIR']}"]
        if workload == "optdigits":
            self._slow_down(30)
        self.run = Run(toml(self.config(data)), arguments=arguments, lab=lab, environment=environment,
                       state=os.path.join(work, "state"))
        self.steps = Steps(self.run.steps_directory)

    def _slow_down(self, factor):
        for worker in range(1, 600):
            with open(os.path.join(self.work, "slow", f"slow-{worker}"), "w") as file:
                file.write(str(factor))

    def config(self, data):
        hosts = {"discover": f"cat {self.work}/hosts", "discover_interval_ms": 200}
        failures = {"max_crashes": "unlimited", "max_hangs": "unlimited", "max_infrastructure": "unlimited",
                    "cool_down_ms": 500, "cool_down_max_ms": 2000, "max_fruitless": 20}
        trainer = {"model": "synthetic", "compute_us_per_sample": 2000, "parameter_bytes": 2_000_000, "samples": 100_000,
                   "epochs": 1_000_000}
        batch = {"per_worker": 16}
        if self.workload == "optdigits":
            trainer = {"model": "mlp", "format": "csv", "train": f"{data}/optdigits.tra", "test": f"{data}/optdigits.tes",
                       "hidden": [128], "epochs": 30}
            batch = {"per_worker": 32, "max_global": 64, "at_limit": "split"}
        return {"workers": {"min": MIN_WORKERS, "start": START_WORKERS, "max": MAX_WORKERS}, "batch": batch,
                "trainer": trainer, "hosts": hosts, "failures": failures, "audit": {"every_steps": 10},
                "checkpoint": {"directory": os.path.join(self.work, "checkpoints"), "interval_steps": 50},
                "preemption": {"probe": f"test -e {self.work}/notices/$(hostname)", "probe_interval_ms": 200},
                "timeouts": {"orphan_grace_ms": 15_000, "grace_ms": 2000, "start_ms": 60_000, "ready_ms": 60_000}}

    # --- Hosts

    def offer(self):
        names = [f"{host.name}:{SLOTS}\n" for host in self.lab.hosts if host.name not in self.withdrawn]
        path = os.path.join(self.work, "hosts")
        with open(path + ".new", "w") as file:
            file.write("".join(names))
        os.replace(path + ".new", path)

    def withdraw(self, name):
        """Returns when the run has read the list: one that changes back before is the same list."""
        seen = self.times_vanished(name)
        self.withdrawn.add(name)
        self.offer()
        self.wait(lambda: self.times_vanished(name) > seen, f"the run to miss {name} on the list")

    def times_vanished(self, name):
        return sum(event["host"] == name for event in self.run.events("host_vanished"))

    def take_back(self, name):
        self.withdrawn.discard(name)
        self.offer()

    # --- Members and agents

    def members(self):
        return members(self.run.wait_status(lambda s: members(s), self.deadline_s, "members"))

    def agents(self):
        return [pid for pid in self.run.processes() if " agent" in command_of(pid)]

    def agent_pids_of(self, host):
        return [pid for pid in host.pids() if " agent" in command_of(pid)]

    def is_over(self):
        return self.run.process.poll() is not None

    # --- Waiting

    def status(self):
        """Of a run that trains: one that has ended has a number of workers in the place of a list."""
        status = self.run.status()
        if isinstance(status.get("workers"), list):
            return status
        raise RunEnded(self.run.wait(self.deadline_s))

    def wait(self, condition, what):
        def look():
            if self.is_over():
                raise RunEnded(self.run.process.returncode)
            return condition()

        return wait_until(look, self.deadline_s, what)

    def is_whole(self, status):
        """The run has its size, and every member's agent has reconnected after the loss of a supervisor."""
        return (status.get("phase") == "running" and status.get("world_size") == self.target
                and all(worker["pid"] for worker in members(status)))

    def wait_training(self, more_steps=10):
        """Waits until the desired number of workers has committed `more_steps` more steps. Returns the status."""
        begin = self.steps.look()
        deadline = time.monotonic() + self.deadline_s
        while True:
            if self.is_over():
                raise RunEnded(self.run.process.returncode)
            status = self.run.status()
            step = self.steps.look()
            if step < begin:  # the run restarted from a checkpoint
                begin = step
            if self.is_whole(status) and step >= begin + more_steps:
                return status
            if time.monotonic() > deadline:
                raise Failed(f"{self.deadline_s} s without {more_steps} steps of {self.target} workers; phase "
                             f"{status.get('phase')}, {status.get('world_size')} workers, step {step} after {begin}")
            time.sleep(0.1)

    def lose_everything(self):
        self.run.process.kill()
        self.run.process.wait()
        deadline = time.monotonic() + 10
        while left := self.run.processes() + [pid for own in self.lab.remote_pids().values() for pid in own]:
            if time.monotonic() > deadline:
                raise Failed(f"cannot kill {left}")
            for pid in left:
                kill(pid, 9)
            time.sleep(0.02)

    def close(self):
        for host in self.lab.hosts:
            host.heal()
            host.set_link(True)
        self.run.kill()
        left = self.lab.wait_remote_pids_gone(5)
        for own in left.values():
            for pid in own:
                kill(pid, 9)


class RunEnded(Exception):
    """The run ended while it was supposed to train."""

    def __init__(self, status):
        super().__init__(f"the run ended with {status}")
        self.status = status


def kill(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def mount_small_disk(path, megabytes):
    os.makedirs(path, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "none", path], check=True)


def survivors_kept(before, victims, status):
    """Healthy members that are no longer running: must be none."""
    now = set(pids(status))
    return [pid for pid in before if pid not in victims and pid not in now and not is_alive(pid)]
