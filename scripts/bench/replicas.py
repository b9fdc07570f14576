"""Replicas of two processes that hold a small GPT together: steps a second beside torchrun, idle time, exactly-once."""

import os
import random
import signal
import subprocess
import tempfile
import time

from harness import BINARY, Run, environ_of, pids, wait_until
from measure import after_fault, changes_of, figure, hosts, idle_values, idles_ms, in_turn, killed_workers, ratios, step_ms, stop, training
from peers import environment, python_with_torch
from pytorch import MEASURED_S, rate, steps_per_s, torch_job
from rows import PROGRAMS, at_least, below, row, shown, spread

GPT = os.path.join(PROGRAMS, "replica.py")
LARGE_S = 80  # of steps of the large one: some 20


def gpt_job(workers, audit_every=0):
    return torch_job(workers, [GPT, "elastic"], batch={"per_worker": 1}, audit={"every_steps": audit_every}, failures={"max_crashes": 1000})


@row("replica-steps", "PyTorch", "replicas of two processes: steps a second, beside torchrun with FSDP2 on the same mesh",
     "GPT of 8.9 million parameters, one and two replicas of two processes: ≥ 0.98 times torchrun with FSDP2 over Gloo, on as many")
def replica_steps(repetitions):
    python = python_with_torch()
    for replicas in (1, 2):
        torchrun = [python, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={2 * replicas}", GPT, "static"]
        ways = {"torchrun": torchrun, "replicas": [BINARY, "run", "-n", str(replicas), "--", python, GPT, "elastic"]}
        found = in_turn(repetitions, ways, lambda name: steps_per_s(ways[name]))
        yield shown(f"replica-steps/{replicas}-torchrun", found["torchrun"], "steps/s", f"{2 * replicas} processes")
        yield at_least(f"replica-steps/{replicas}", ratios(found["replicas"], found["torchrun"]), "times", 0.98,
                       f"{replicas} of two processes, {spread(found['replicas'])} steps/s")


@row("replica-grow", "PyTorch", "replicas of two processes, 107 MB of state: idle time of grow, replace and shrink",
     "idle time of grow, replace and shrink ≤ 1 step + 50 ms")
def replica_grow(repetitions):
    with Run(gpt_job((1, 2, 3)), environment=environment()) as run:
        found = changes_of(run, repetitions)
    yield from idle_values("replica-grow", found, lambda kind, step: step + 50)


@row("replica-kill", "PyTorch", "replicas of two processes, 107 MB of state: kill -9 of the first process of one of 3",
     "kill -9 in one of 3 replicas: ≤ 1 step + 50 ms, no pass repeated")
def replica_kill(repetitions):
    faults, wasted, _ = killed_workers(gpt_job((1, 3, 3)), repetitions, environment())
    yield below("replica-kill/idle", idles_ms(faults), "ms", round(step_ms(faults) + 50, 1),
                f"kill -9 in one of 3 replicas, median step {step_ms(faults):.0f} ms")
    yield below("replica-kill/passes-repeated", wasted, "passes", 0)


@row("replica-audit", "PyTorch", "replicas of two processes: 2, 3, 2, 1 and 3 replicas, and 10 kills for each repetition, in one run",
     "2 → 3 → 2 → 1 → 3 replicas and 30 kills of first and other processes: 0 missing, 0 repeated, 0 unequal; one that was there "
     "from the start is never restarted")
def replica_audit(repetitions):
    choice = random.Random(1)
    with Run(gpt_job((1, 2, 3), audit_every=1), environment=environment()) as run:
        run.wait_size(2, 120)
        stays = pids(run.status())[0]
        for size in (3, 2, 1, 3):
            run.do("resize", run.name, size)
            run.wait_size(size, 120)
            run.wait_more_steps(3, 60)
        for number in range(10 * repetitions):
            first = choice.choice([pid for pid in pids(run.status()) if pid != stays])
            others = subprocess.run(["pgrep", "-P", str(first)], capture_output=True, text=True, check=True).stdout.split()
            os.kill(first if number % 2 else int(others[0]), signal.SIGKILL)
            run.wait_status(lambda s: s.get("world_size") == 3 and first not in pids(s), 120, "the replacement")
            run.wait_more_steps(choice.randrange(1, 6), 60)
        is_there = stays in pids(run.status())
        stop(run, 120)
        audit = run.audit()
    yield below("replica-audit", audit["missing"] + audit["repeated"] + audit["unequal_hashes"], "samples or hashes", 0,
                f"4 changes, {10 * repetitions} kills; {audit['samples']} units in {audit['steps']} steps: {audit['missing']} missing, "
                f"{audit['repeated']} repeated, {audit['unequal_hashes']} of {audit['hashes_compared']} unequal")
    yield below("replica-audit/restarted", 0 if is_there else 1, "replicas", 0, "that were there from the start")


def over_hosts(name, log):
    """The environment of processes on hosts of a lab."""
    return {**environment(), "GLOO_SOCKET_IFNAME": "eth0", name: log}


def words_of(variables):
    return [word for name, value in variables.items() for word in ("-x", f"{name}={value}")]


def torchrun_on(lab, nodes, log):
    python = python_with_torch()
    for number, node in enumerate(nodes):
        yield node.popen([python, "-m", "torch.distributed.run", f"--nnodes={len(nodes)}", "--nproc_per_node=1", f"--node_rank={number}",
                          f"--master_addr={nodes[0].address}", "--master_port=29500", GPT, "static"],
                         env={**os.environ, **over_hosts("RUN_DIR", log)}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)


def replicas_on(lab, nodes, log):
    variables = over_hosts("ELASTICTRAIN_STEP_LOG", log)
    yield lab.popen_on_head([BINARY, "run", "-n", str(len(nodes) // 2), "-H", ",".join(node.name for node in nodes), "--per-replica", "2",
                             "--hosts-per-replica", "2", *words_of(variables), "--", python_with_torch(), GPT, "elastic"],
                            env={"ELASTICTRAIN_STATE_DIR": log}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)


def speed_on(lab, way, count):
    """Steps a second of each worker, on so many hosts."""
    with tempfile.TemporaryDirectory(prefix="et-steps-") as log:
        started = list(way(lab, lab.hosts[:count], log))
        try:
            wait_until(lambda: rate(log) or any(process.poll() is not None for process in started), 120, "first steps", 0.5)
            time.sleep(MEASURED_S)
            return rate(log)
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait(60)
            lab.wait_remote_pids_gone()


@row("replica-hosts", "PyTorch", "replicas of two processes on two hosts each: steps a second beside torchrun on the same hosts and mesh; "
     "a process and a host are lost",
     "one and two replicas: ≥ 0.98 times torchrun with FSDP2 over Gloo; kill -9 of a process on another host than the first one ≤ 1 step + 50 ms, "
     "a host's link down ≤ 4 s")
def replica_hosts(repetitions):
    """Hosts are network namespaces with an sshd each."""
    with hosts(4) as lab:
        for replicas in (1, 2):
            ways = {"torchrun": torchrun_on, "replicas": replicas_on}
            found = in_turn(repetitions, ways, lambda name: speed_on(lab, ways[name], 2 * replicas))
            yield shown(f"replica-hosts/{replicas}-torchrun", found["torchrun"], "steps/s", f"{2 * replicas} hosts with one process each")
            yield at_least(f"replica-hosts/{replicas}", ratios(found["replicas"], found["torchrun"]), "times", 0.98,
                           f"{replicas} of two processes, {spread(found['replicas'])} steps/s")
    job = torch_job((1, 2, 2), [GPT, "elastic"], preload=False, batch={"per_worker": 1}, audit={"every_steps": 1},
                    failures={"max_crashes": 1000, "cool_down_ms": 1}, hosts={"list": [f"node{number}" for number in range(1, 6)]})
    job["workers"].update(per_replica=2, hosts_per_replica=2)
    killed, cut = [], []
    with hosts(5) as lab, training(job, 2, 120, lab=lab, arguments=words_of({**environment(), "GLOO_SOCKET_IFNAME": "eth0"})) as run:
        for _ in range(repetitions):
            _, name = run.status()["workers"][1]["host"].split("+")
            gone = {run.status()["workers"][1]["pid"]}
            part = next(pid for pid in lab.host(name).pids() if b"ELASTICTRAIN_REPLICA_HOST=1" in environ_of(pid))
            killed.append(after_fault(run, lambda: os.kill(part, signal.SIGKILL), 2, gone, 120))
        _, name = run.status()["workers"][1]["host"].split("+")
        gone = {run.status()["workers"][1]["pid"]}
        cut.append(after_fault(run, lambda: lab.host(name).set_link(False), 2, gone, 120))
        lab.host(name).set_link(True)
    yield below("replica-hosts/killed", idles_ms(killed), "ms", round(step_ms(killed) + 50, 1),
                f"kill -9 of a process on another host than the first one, median step {step_ms(killed):.0f} ms")
    yield below("replica-hosts/link", [max(0.0, one.idle) for one in cut], "s", 4, "the cable of one of the hosts pulled; a spare one takes its place")


@row("shard-checkpoint", "PyTorch", "replicas of two processes: a checkpoint of 1.07 GB every 10 steps, and what other numbers of "
     "processes read of it", "≥ 0.98 times the steps/s without checkpoints; every tensor equal to the file's, read by 1, 2 and 3 processes")
def shard_checkpoint(repetitions):
    python = python_with_torch()
    with tempfile.TemporaryDirectory(prefix="et-checkpoints-", dir="/var/tmp") as directory:
        def speed(checkpoints):
            settings = ["--set", f"checkpoint.directory={checkpoints()}", "--set", "checkpoint.interval_steps=10"] if checkpoints else []
            return steps_per_s([BINARY, "run", "-n", "1", *settings, "--", python, GPT, "large"], LARGE_S)

        def next_folder():
            folders.append(os.path.join(directory, str(len(folders))))
            return folders[-1]

        folders = []
        found = in_turn(repetitions, {"without": lambda: speed(None), "with": lambda: speed(next_folder)})
        yield at_least("shard-checkpoint", ratios(found["with"], found["without"]), "times", 0.98,
                       f"{spread(found['with'])} steps/s")
        unequal = 0
        for processes in (1, 2, 3):
            done = subprocess.run([python, "-W", "ignore", GPT, "read", folders[-1], str(processes)], env={**os.environ, **environment()},
                                  capture_output=True, text=True, check=True)
            unequal += int(figure(done.stdout, "of") - figure(done.stdout, "equal"))
        yield below("shard-checkpoint/unequal", unequal, "tensors", 0, "read by 1, 2 and 3 processes")
