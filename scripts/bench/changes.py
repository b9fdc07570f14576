"""What a change of size and a failure cost, from the workers' step logs and the journal (measure.py says how). And what attackers do:
steps while they knock at a run's sockets, submissions while a second user floods a cluster that everyone may use, and what all their
lies leave behind."""

import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from statistics import median

import peers
import rows

sys.path.insert(0, os.path.join(rows.ROOT, "tests", "attack", "cluster"))

import intruder
import lies
import siege
import standin_cluster
from attack_test import listening_at, unix_sockets_of
from harness import Failed, Run, job, pids, signal_all, step_interval, synthetic, wait_until
from measure import (ENDLESS, SETTLE_STEPS, Cleanups, after_fault, change, gaps, hosts, idle_values, idles_ms, killed_workers, ordered,
                     ratios, signalled_workers, startup_time, steady_gap, step_ms, stop, swap_changes, training)
from rows import Unavailable, at_least, below, or_why_not, row, shown, spread

LARGE = {"parameter_bytes": 100_000_000, "compute_us_per_sample": 26_000, "gradient": "constant"}  # steps of about 240 ms
SMALL = {"parameter_bytes": 4_000_000, "compute_us_per_sample": 3_500}  # of about 30 ms


def steps_of(trainer, workers=(1, 2, 4), audit=0, **sections):
    return job(workers=workers, batch={"per_worker": 8}, audit={"every_steps": audit}, **sections,
               **({"trainer": synthetic(**trainer)} if "model" not in trainer else {"trainer": trainer}))


def real_steps(directory, **sections):
    """The model of programs/train.py (3072-4096-3000-10, batch 8) on the built-in trainer, on random images in the form of
    CIFAR-10: a label and 3,072 bytes."""
    images = os.path.join(directory, "images.bin")
    with open(images, "wb") as file:
        for number in range(1024):
            file.write(bytes([number % 10]) + os.urandom(3072))
    trainer = {"model": "mlp", "train": images, "format": "cifar10", "hidden": [4096, 3000], "epochs": 100_000,
               "eval_every_epochs": 0, "learning_rate": 0.0001}
    return steps_of(trainer, **sections)


def times_less(name, theirs, ours, limit, what="torchrun"):
    """Idle times below one millisecond cannot be told from noise, so none counts as less."""
    return at_least(name, median(theirs) / max(median(ours), 1.0), "times", limit,
                    f"{what} idle {spread(theirs)} ms, ours {median(ours):.1f} ms")


# --- Changes of size

@row("swap-large", "changes of size", "idle time of grow, shrink and replace; 100 MB of parameters, steps of 250 ms",
     "idle time, 100 MB of parameters, steps of 240 ms: shrink ≤ 20 ms; grow and replace ≤ 10 % of a step")
def swap_large(repetitions):
    return idle_values("swap-large", swap_changes(steps_of(LARGE), repetitions),
                       lambda kind, step: 20 if kind == "shrink" else 0.1 * step)


@row("swap-large-real", "changes of size", "the same with real compute, beside torchrun in the same run",
     "with real compute ≥ 50 times less than torchrun")
def swap_large_real(repetitions):
    with tempfile.TemporaryDirectory() as directory:
        found = swap_changes(real_steps(directory), repetitions)
    yield from idle_values("swap-large-real", found)
    yield from or_why_not("swap-large-real/torchrun", lambda: [
        times_less(f"swap-large-real/{kind}-ratio", theirs, idles_ms(found[kind]), 50)
        for kind, theirs in peers.grow_and_shrink(repetitions).items()])


@row("swap-small", "changes of size", "idle time of grow, shrink and replace; 4 MB of parameters, steps of 30 ms",
     "idle time, 4 MB, steps of 30 ms: ≤ 20 ms each")
def swap_small(repetitions):
    return idle_values("swap-small", swap_changes(steps_of(SMALL), repetitions), lambda kind, step: 20)


@row("swap-own-data", "changes of size", "the same with 600 MB of state and the program's own data at each step's begin",
     "600 MB of state, steps of 400 ms that begin with 4 KB of the program's own data: ≤ 20 ms")
def swap_own_data(repetitions):
    words = ["--state-bytes", "600000000", "--step-s", "0.4", "--own-bytes", "4096"]
    config = job(workers=(1, 2, 4), command=[sys.executable, os.path.join(rows.PROGRAMS, "sleeper.py"), *words], batch={"per_worker": 8}, audit={"every_steps": 0})
    return idle_values("swap-own-data", swap_changes(config, repetitions, {"PYTHONPATH": rows.PACKAGE}), lambda kind, step: 20)


@row("resize-latency", "changes of size", "from `resize` to the first step at the new size: warm spare, cold start",
     "`resize` to the first step at the new size: warm spare ≤ 3 steps; cold start dominated by the worker's own start")
def resize_latency(repetitions):
    warm, _ = latencies(repetitions, spares=1)
    yield below("resize-latency/warm-spare", [change.latency / change.step for change in warm], "steps", 3,
                f"{spread([1000 * change.latency for change in warm])} ms after `resize`")
    cold, startup = latencies(repetitions, spares=0)
    yield at_least("resize-latency/cold-start", [100 * own / change.latency for own, change in zip(startup, cold)], "% the worker's", 50,
                   f"{spread([1000 * change.latency for change in cold])} ms after `resize`, of which the worker's own start takes "
                   f"{1000 * median(startup):.0f} ms")


def latencies(repetitions, spares):
    """Growing from 2 to 3 again and again: the changes, and how long each new worker took to be ready by itself. Half a second
    of start-up stands for a program that loads its libraries and data; import torch takes longer."""
    config = steps_of({**SMALL, "compute_us_per_sample": 6_000, "startup_delay_ms": 500}, (1, 2, 3), hosts={"list": ["localhost:4"]})
    config["workers"]["spares"] = spares
    changes, startup = [], []
    with training(config, 2) as run:
        for _ in range(repetitions):
            if spares:
                run.wait_status(lambda s: any(w["phase"] == "spare" and w["pid"] for w in s["workers"]), 30, "a spare")
            run.wait_more_steps(SETTLE_STEPS)
            changes.append(change(run, ("resize", run.name, 3), 3))
            startup.append(0.0 if spares else startup_time(run))
            change(run, ("resize", run.name, 2), 2)
    return changes, startup


# --- Failures

@row("kill-worker", "failures", "kill -9 of one of 3 workers, 100 MB of parameters; beside torchrun",
     "idle time after kill -9 of one of 3 workers, 100 MB, steps of 250 ms: ≤ 1 step + 100 ms; no pass repeated; ≥ 30 times less "
     "than torchrun")
def kill_worker(repetitions):
    faults, wasted, audit = killed_workers(steps_of(LARGE, (1, 3, 3), 10, failures=ENDLESS), max(5, repetitions))
    yield below("kill-worker/idle", idles_ms(faults), "ms", round(step_ms(faults) + 100, 1),
                f"3 workers, 100 MB, median step {step_ms(faults):.0f} ms")
    yield below("kill-worker/passes-repeated", wasted, "passes", 0,
                f"audit: {audit['missing']} missing, {audit['repeated']} repeated, "
                f"{audit['unequal_hashes']} of {audit['hashes_compared']} hashes unequal")
    with tempfile.TemporaryDirectory() as directory:
        faults, _, _ = killed_workers(real_steps(directory, workers=(1, 3, 3), failures={"max_crashes": 1000}), repetitions)
    ours = idles_ms(faults)
    yield shown("kill-worker-real/idle", ours, "ms", f"median step {step_ms(faults):.0f} ms")
    yield from or_why_not("kill-worker-real/torchrun", lambda: [
        times_less("kill-worker-real/ratio", peers.killed_worker(repetitions), ours, 30)])


@row("kill-host", "failures", "a host of 3 lost: its processes killed; its link down",
     "a host of 3 lost: its processes killed ≤ 0.5 s, its link down ≤ 4 s")
def kill_host(repetitions):
    """Hosts are network namespaces with an sshd each."""
    killed, cut = [], []
    config = steps_of(SMALL, (1, 3, 3), 10, hosts={"list": ["node1", "node2", "node3"]}, failures={"cool_down_ms": 1})
    for _ in range(max(2, repetitions // 2)):
        with hosts(3) as lab, training(config, 3, lab=lab) as run:
            victim = lab.host("node3")
            killed.append(after_fault(run, lambda: signal_all(victim.pids(), signal.SIGKILL), 3, set(victim.pids()), 90))
            victim = lab.host("node2")
            gone = set(victim.pids())
            cut.append(after_fault(run, lambda: victim.set_link(False), 2, set()))
            victim.set_link(True)
            run.wait_status(lambda s: s.get("world_size") == 3 and not gone & set(pids(s)), 90, "the host's return")
    yield below("kill-host/processes", [max(0.0, one.idle) for one in killed], "s", 0.5, "agent and worker of one of 3 hosts killed")
    yield below("kill-host/link", [max(0.0, one.idle) for one in cut], "s", 4, "the cable of one of 3 hosts pulled, default settings")


@row("hang", "failures", "SIGSTOP of one of 3 workers; beside torchrun", "SIGSTOP of one of 3 workers, steps of 250 ms: ≤ 2 s")
def hang(repetitions):
    faults, journal, _ = signalled_workers(steps_of(LARGE, (1, 3, 3), 10, failures=ENDLESS), signal.SIGSTOP, max(3, repetitions))
    stacks = sum(record["event"] == "stacks" for record in journal)
    yield below("hang/idle", [fault.idle for fault in faults], "s", round(max(0.003 * step_ms(faults), 1.0) + 1.0, 2),
                f"after SIGSTOP; median step {step_ms(faults):.0f} ms; stacks in the journal {stacks} of {len(faults)} times")
    yield from or_why_not("hang/torchrun", lambda: [shown("hang/torchrun", peers.hung_worker(collective_timeout_s=10) / 1000, "s",
                                                          "with a collective time-out of 10 s (its default is 30 min)")])


@row("supervisor-restart", "failures", "kill -9 of the supervisor, then run --resume",
     "kill -9 of the supervisor, `run --resume`: no idle time, no worker restarted")
def supervisor_restart(repetitions):
    idles, restarted = [], 0
    with Run(steps_of(SMALL, (1, 3, 3), 10)) as run:
        run.wait_size(3, 60)
        for _ in range(max(3, repetitions)):
            before = set(pids(run.status()))
            run.wait_more_steps(SETTLE_STEPS)
            at = time.monotonic()
            run.lose_supervisor()
            run.wait_more_steps(20)
            run.resume()
            run.wait_size(3, 60)
            run.wait_more_steps(20)
            restarted += len(before - set(pids(run.status())))
            own = gaps(ordered([record for record in run.steps() if record["t"] > at - 5]))
            idles.append(1000 * max(0.0, max(own) - median(own)))
        noise = 1000 * steady_gap(run, 60)
        stop(run)
        audit = run.audit()
    yield below("supervisor-restart/idle", idles, "ms", round(noise + 10, 1),
                f"longest gap between steps less a median one; where nothing happens it is {noise:.1f} ms; audit: "
                f"{audit['missing']} missing, {audit['repeated']} repeated")
    yield below("supervisor-restart/workers-restarted", restarted, "workers", 0, f"{len(idles)} restarts")


@row("total-loss", "failures", "everything killed, then run --resume: samples lost or repeated",
     "everything killed, `run --resume`: 0 samples lost or repeated")
def total_loss(repetitions):
    missing = repeated = 0
    lost_at = []
    trainer = {**SMALL, "compute_us_per_sample": 1_000, "samples": 20_000, "epochs": 2}
    for _ in range(max(3, repetitions)):
        with tempfile.TemporaryDirectory() as directory:
            config = job(workers=(1, 3, 3), trainer=synthetic(**trainer), checkpoint={"directory": directory, "interval_steps": 20})
            with Run(config) as run:
                run.wait_size(3, 60)
                run.wait_step(110)
                run.lose_everything()
                lost_at.append(str(run.last_step()))
                if (status := run.resume().wait(180)) != 0:
                    raise AssertionError(f"the resumed run ended with {status}")
                missing += run.audit()["missing"]
                repeated += run.audit()["repeated"]
    yield below("total-loss", missing + repeated, "samples", 0,
                f"missing {missing}, repeated {repeated} relative to the checkpoint; everything killed at step {', '.join(lost_at)}, "
                "a checkpoint every 20 steps")


@row("false-verdicts", "failures", "an hour of training on cores that are four times oversubscribed",
     "an hour on cores four times oversubscribed: 0 verdicts")
def false_verdicts(_):
    """ELASTICTRAIN_BENCH_MINUTES of training with eight busy processes beside it on two cores (60 by default)."""
    minutes = float(os.environ.get("ELASTICTRAIN_BENCH_MINUTES", "60"))
    busy = 4 * os.cpu_count() - 3
    config = job(workers=(1, 3, 3), trainer={"model": "mlp", "epochs": 1_000_000, "eval_every_epochs": 5}, batch={"per_worker": 32},
                 audit={"every_steps": 100})
    burners = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(busy)]
    try:
        with Run(config) as run:
            run.wait_size(3, 120)
            until = time.monotonic() + 60 * minutes
            wait_until(lambda: time.monotonic() > until or run.process.poll() is not None, 60 * minutes + 60, "the time")
            stop(run, 120)
            events = [record["event"] for record in run.journal()]
            steps = run.audit()["steps"]
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    wrong = sum(event in ("hang", "agent_lost", "abort") for event in events)
    yield below("false-verdicts", wrong, "verdicts", 0,
                f"{minutes:g} minutes, {steps} steps, 3 workers beside {busy} busy processes on {os.cpu_count()} cores; "
                f"{events.count('agent_suspect')} suspicions that passed")


# --- Attackers at a run's sockets

PHASE_S = 6
PAIRS = 4
KNOCKS = (b"", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n", os.urandom(512))
PAUSE_S = 0.0005  # an attacker on another machine does not use this one's cores


def knock(doors, attacks, count):
    """Connects to each door in turn, says something wrong and goes, as long as the flag is set."""
    held = []
    while True:
        if not attacks.is_set():
            held.clear()
            attacks.wait()
        family, address = doors[count.value % len(doors)]
        door = socket.socket(family, socket.SOCK_STREAM)
        try:
            door.settimeout(1)
            door.connect(address)
            door.sendall(KNOCKS[count.value % len(KNOCKS)])
        except OSError:
            pass
        held.append(door)  # the last ones stay half open
        del held[:-100]
        count.value += 1
        time.sleep(PAUSE_S)


def doors_of(run):
    workers = pids(run.wait_size(2))
    found = [(socket.AF_INET, listening_at(pid)) for pid in [run.process.pid, *workers]]
    for pid in [run.process.pid, *run.processes(), *workers]:
        found += [(socket.AF_UNIX, name) for name in unix_sockets_of(pid)]
    return list(dict.fromkeys(found))


@row("attack-rate", "failures", "steps while an attacker knocks at all sockets of a run, against steps in peace",
     "steps while an attacker knocks at all sockets of a run: ≥ 95 % of those in peace; 0 losses")
def attack_rate(repetitions):
    """With and without, in turn, in one run. The workers' compute sleeps."""
    with training(job(), 2) as run:
        doors = doors_of(run)
        attacks, count = multiprocessing.Event(), multiprocessing.Value("L", 0)
        attacker = multiprocessing.Process(target=knock, args=(doors, attacks, count), daemon=True)
        attacker.start()
        try:
            intervals = {True: [], False: []}
            for phase in range(2 * max(PAIRS, repetitions)):
                (attacks.set if phase % 2 else attacks.clear)()
                time.sleep(0.5)
                begin = time.monotonic()
                time.sleep(PHASE_S)
                end = time.monotonic()
                intervals[phase % 2 == 1].append(step_interval([step for step in run.steps() if begin < step["t"] < end]))
        finally:
            attacker.kill()
            attacker.join()
        rates = ratios(intervals[False], intervals[True], 100)
        per_s = count.value / (PHASE_S * len(rates))
        yield at_least("attack-rate", rates, "%", 95, f"{per_s:.0f} connections a second at {len(doors)} sockets, steps of "
                       f"{1e3 * median(intervals[False]):.1f} ms")
        yield below("attack-losses", len(run.events("loss")), "", 0, f"{run.status()['world_size']} of 2 workers train at the end")


# --- A second user of a cluster

MUTATIONS = 400
LEASES = 200  # that have been changed
SUBMISSIONS = 10_000
FLOOD_S = 10
HOARD_S = 45
PAIRS_OF_BLOCKS = 100  # of submissions, in peace and under floods


def tell_lies(attacked, seed):
    """(lies, those that were not answered in time, those whose answer was wrong). Nothing else may have changed."""
    owner, places = attacked.owner_job(), attacked.traps()
    door = siege.Door(attacked.case, places["swapped"])
    stranger = attacked.intruder()
    heard = [(answer, attacked.is_as_it_must_be(answer, what)) for _, answer, what in attacked.lie(stranger, owner, places)]
    wrong = sum(not right for _, right in heard)
    changed = [attacked.exchange(stranger, lines) for lines in lies.mutations(seed, MUTATIONS, owner)]
    attacked.wait_until_gone()
    wrong += attacked.keeper_now() != attacked.keeper_unharmed()
    wrong += door.was_opened()
    return len(heard), sum(answer is None for answer in [answer for answer, _ in heard] + changed), wrong


def growth_by_flood(attacked, seed):
    """The most that the cluster's memory has grown so far, after lies, each flood, and all of them together."""
    growths = {"lies": attacked.growth_mib()}
    for kind in intruder.ALONE:
        floods = [attacked.flood(kind, seed)]
        time.sleep(HOARD_S if kind == "hoard" else FLOOD_S)
        attacked.end_floods(floods)
        growths[kind] = attacked.growth_mib()
    floods = attacked.floods(seed)
    time.sleep(FLOOD_S)
    attacked.end_floods(floods)
    attacked.wait_until_gone()
    return {**growths, "all": attacked.growth_mib()}


def rates_under_floods(attacked, seed):
    """Submissions a second in peace and under floods, in pairs, the first of the two in turn; and what the floods did. The
    blocks are short, so that what else the machine does falls upon both."""
    floods, pairs = attacked.floods(seed), []
    time.sleep(FLOOD_S)
    for pair in range(PAIRS_OF_BLOCKS):
        rates = {}
        for flooded in (False, True) if pair % 2 else (True, False):
            attacked.signal_floods(floods, signal.SIGCONT if flooded else signal.SIGSTOP)
            time.sleep(0.02)
            rates[flooded] = attacked.submit_many(SUBMISSIONS // PAIRS_OF_BLOCKS // 2, f"{pair}-{flooded}")
        pairs.append((rates[False], rates[True]))
        if pair % 10 == 9:
            attacked.cancel_waiting()
    attacked.signal_floods(floods, signal.SIGCONT)
    return pairs, attacked.end_floods(floods)


def hostile_leases(case, seed):
    """A run whose cluster says what has been changed from a lease: how many answers to `status` are missing then."""
    made = random.Random(seed)
    cluster = standin_cluster.StandinCluster(case).start()
    missing = 0
    with Run(standin_cluster.job(cluster)) as run:
        cluster.wait_join()
        cluster.lease(0, 1)
        run.wait_size(2)
        for number in range(LEASES):
            lease = {"lease": {"version": number + 2, "slots": [{"host": "localhost", "slots": [0, 1], "of": 4}], "reason": "r"}}
            try:
                cluster.send_bytes(lies.with_another_value(made, lease).encode() + b"\n")
            except OSError:
                cluster.wait_join(len(cluster.joins()))
            if number % 10 == 9:
                missing += run.command("status", run.name, "--json").returncode != 0
        cluster.lease(0, 1, version=LEASES + 10_000)
        run.wait_size(2)
        return missing + (stop(run) != 0)


@row("attack-cluster", "failures", "a second user lies to a cluster and floods it: hangs, slots, memory, submissions",
     "a second user lies to a cluster that everyone may use and floods it (root; 124 lies, 400 changed lines, 200 changed leases, "
     "seven floods): 0 hangs, 0 phantom slots, ≤ 64 MiB of growth, the owner's submissions ≥ 95 % of those in peace")
def attack_cluster(repetitions):
    """Two real users, one cluster. The owner's submissions are never started: another job of theirs has what they need."""
    if os.geteuid() != 0:
        raise Unavailable("it needs root, to be two users")
    with Cleanups() as case:
        attacked = siege.Siege(case)
        seed = int(time.time())
        hangs = 0
        try:
            told, hangs, wrong = tell_lies(attacked, seed)
            growths = growth_by_flood(attacked, seed)
            pairs, did = rates_under_floods(attacked, seed)
            attacked.wait_until_gone()
            phantoms = attacked.phantom_slots()
        except TimeoutError as error:
            raise Failed(f"the owner was not answered within {siege.DEADLINE_S} s") from error
        longest = 1e3 * max(attacked.answers_s)
    hangs += hostile_leases(case, seed)
    rates = [100 * flooded / peace for peace, flooded in pairs]
    peace = median(rate for rate, _ in pairs)
    yield below("attack-cluster/hangs", hangs, "", 0, f"{told} lies, {MUTATIONS} changed lines, {LEASES} changed leases, seed {seed}; "
                f"the owner waited {longest:.0f} ms at most")
    yield below("attack-cluster/wrong", wrong, "", 0, "lies that were believed, honest lines that were not, harm to the owner's job")
    yield below("attack-cluster/phantom-slots", phantoms, "", 0, f"of {siege.SLOTS}, when the second user has gone")
    yield below("attack-cluster/growth", max(growths.values()), "MiB", 64, "of resident memory at its most; after each: "
                + ", ".join(f"{kind} {mib:.0f}" for kind, mib in growths.items()))
    yield at_least("attack-cluster/rate", rates, "%", 95, f"{peace:.0f} submissions a second in peace, {SUBMISSIONS} in all; "
                   + ", ".join(f"{kind} {count}" for kind, count in did.items()))
