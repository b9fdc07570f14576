"""What many hosts cost: starting them, and hearing from them."""

import json
import os
import statistics
import subprocess
import tempfile
import threading
import time

import rows
from communicator import program
from harness import Run, job, synthetic, wait_until
from lab import Lab, call, find_tool

# Runs the remote command here. Everything before the host is an option, `--` ends them.
FAKE_SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift 2
exec sh -c "$*"
"""


def fake_ssh(directory):
    path = os.path.join(directory, "ssh")
    with open(path, "w") as file:
        file.write(FAKE_SSH)
    os.chmod(path, 0o755)
    return path


def ssh_own_time(ssh, count, parallelism):
    """What the same number of ssh calls takes that only run `true`, in s."""
    started = time.monotonic()
    running = []
    for number in range(count):
        if len(running) >= parallelism:
            running.pop(0).wait()
        running.append(subprocess.Popen([ssh, "--", f"host{number}", "true"], stdin=subprocess.DEVNULL))
    for process in running:
        process.wait()
    return time.monotonic() - started


def agents_up(count, ssh):
    """From the command until the last agent is connected, in s."""
    hosts = [f"host{number}:1" for number in range(count)]
    config = job(workers=(1, 1, count), trainer=synthetic(), hosts={"list": hosts},
                 launcher={"kind": "ssh", "ssh_program": ssh, "parallelism": 64})
    with Run(config) as run:
        started = time.time()

        def all_up():
            connected = [r for r in run.journal() if r["event"] == "agent_connected"]
            return connected if len(connected) >= count else None

        connected = wait_until(all_up, 60, f"{count} agents")
        took = connected[count - 1]["t"] - started
        run.do("stop", run.name)
        run.wait(60)
    return took


def ssh_64(repetitions):
    with tempfile.TemporaryDirectory(prefix="et-ssh-") as directory:
        ssh = fake_ssh(directory)
        took = {count: [agents_up(count, ssh) for _ in range(repetitions)] for count in (1, 16, 32, 64)}
        own = statistics.median(ssh_own_time(ssh, 64, 64) for _ in range(repetitions))
    median = {count: statistics.median(times) for count, times in took.items()}
    per_host = 1000 * (median[64] - median[1]) / 63
    series = ", ".join(f"{count}: {seconds:.2f} s" for count, seconds in median.items())
    yield rows.below("ssh-64", median[64] - own, "s", 1,
                     f"beyond ssh's own {own:.2f} s (a fake ssh that runs the command here); {series}; {per_host:.1f} ms a host")


MANY_HOSTS = 64
LATE_HOSTS = 5
LATE_S = 10
MOST_S = 120


def set_link(lab, host, up):
    """As a host boots: nobody's caches are told."""
    call(find_tool("ip"), "-n", lab.switch, "link", "set", host.link, "up" if up else "down")


def start_late(lab, hosts, parallelism):
    """From the boot of the last of `hosts` until a worker of every host trains, in s; the same since the command; and how many
    of those that were there from the start had to be tried again."""
    late = hosts[-LATE_HOSTS:]
    booted = []

    def boot():
        for host in late:
            set_link(lab, host, True)
        booted.append(time.time())

    for host in late:
        set_link(lab, host, False)
    config = job(workers=(1, len(hosts), len(hosts)), trainer=synthetic(parameter_bytes=4000),
                 hosts={"list": [f"{host.name}:1" for host in hosts]}, launcher={"parallelism": parallelism})
    timer = threading.Timer(LATE_S, boot)
    try:
        with Run(config, lab=lab) as run:
            begun = time.time()
            timer.start()
            all_train = run.wait_event("generation", timeout=MOST_S, world_size=len(hosts))["t"]
            lost = {record["host"] for record in run.events("agent_lost")}
            run.do("stop", run.name)
            run.wait(60)
    finally:
        timer.cancel()
        for host in late:
            set_link(lab, host, True)
    return all_train - booted[0], all_train - begun, len(lost - {host.name for host in late})


def start_many(repetitions):
    """With as many connections at once as by default, and with all, some of which the jump host's sshd then drops."""
    with Lab(hosts=MANY_HOSTS + 1, jump="node1", sshd_limits=()) as lab:
        for parallelism, name in ((10, "start-many"), (MANY_HOSTS, "start-many/at-once")):
            found = [start_late(lab, lab.hosts[1:], parallelism) for _ in range(min(repetitions, 3))]
            beyond, whole, dropped = zip(*found)
            yield rows.below(name, statistics.median(beyond), "s", 3,
                             f"{MANY_HOSTS} hosts behind a jump host, both under sshd's default limits, {parallelism} at once; "
                             f"{LATE_HOSTS} boot {LATE_S} s late; all train, beyond the last boot {rows.spread(beyond, 2)}, since "
                             f"the command {rows.spread(whole, 2)}; {max(dropped)} other hosts had to be tried again")


def agents_1000(repetitions):
    bench = program("agents", "agents_bench")
    found = []
    for _ in range(min(repetitions, 3)):
        done = subprocess.run([bench], capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise rows.Unavailable(f"agents_bench failed: {done.stderr.strip()[-300:]}")
        found.append(json.loads(done.stdout.strip().splitlines()[-1]))
    cpu = [result["supervisor_cpu_percent"] for result in found]
    status = [result["status_ms_median"] for result in found]
    yield rows.below("agents-1000/cpu", statistics.median(cpu), "% of a core", 20, rows.spread(cpu))
    yield rows.below("agents-1000/status", statistics.median(status), "ms", 100, rows.spread(status) + " ms")
