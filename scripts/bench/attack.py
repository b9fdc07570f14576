"""What attackers at a run's sockets cost it: steps while they knock, against steps in peace."""

import multiprocessing
import os
import socket
import statistics
import time

import rows
from attack_test import listening_at, unix_sockets_of
from harness import Run, job, pids, read_steps, step_interval

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


def attack_rate(repetitions):
    """Steps with and without an attacker at all sockets, in turn, in one run. The workers' compute sleeps."""
    with Run(job()) as run:
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
                steps = [record for record in read_steps(run.steps_directory) if begin < record["t"] < end]
                intervals[phase % 2 == 1].append(step_interval(steps))
        finally:
            attacker.kill()
            attacker.join()
        rates = [100 * peace / attacked for peace, attacked in zip(intervals[False], intervals[True])]
        per_s = count.value / (PHASE_S * len(rates))
        yield rows.at_least("attack-rate", statistics.median(rates), "%", 95,
                            f"{rows.spread(rates)}; {per_s:.0f} connections a second at {len(doors)} sockets, steps of "
                            f"{1e3 * statistics.median(intervals[False]):.1f} ms")
        members = run.status()["world_size"]
        losses = len(run.events("loss"))
        yield rows.below("attack-losses", losses, "", 0, f"{members} of 2 workers train at the end")
        run.do("stop", run.name)
