"""What attackers at a run's sockets cost it: steps while they knock, against steps in peace. What a second user costs a
cluster that everyone may use: submissions while they flood it, against those in peace, and what all their lies leave behind."""

import multiprocessing
import os
import random
import signal
import socket
import sys
import time
from statistics import median

import rows
from rows import Unavailable, at_least, below, row

sys.path.insert(0, os.path.join(rows.ROOT, "tests", "attack", "cluster"))

import intruder
import lies
import siege
import standin_cluster
from attack_test import listening_at, unix_sockets_of
from harness import Failed, Run, job, pids, step_interval
from measure import Cleanups, ratios, stop, training

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


# --- attack-cluster

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
