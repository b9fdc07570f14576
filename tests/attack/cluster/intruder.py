"""The second user of a cluster's socket: says what it is told, or floods. Runs as that user, with nothing but Python.

    intruder.py SOCKET                      says each list of lines on standard input over a connection of its own, and what it heard
    intruder.py SOCKET flood KIND [SEED]    until it is told to end; prints what it did
"""

import json
import os
import random
import signal
import socket
import sys
import time

PATIENCE_S = 10
PAUSE_S = 0.0005  # the cores of this machine are not what is fought for


def connect(path, patience_s=PATIENCE_S):
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(patience_s)
    one.connect(path)
    return one


def exchange(path, lines):
    """What is answered until the other side closes, and whether it does so in time."""
    try:
        with connect(path) as one:
            heard = b""
            try:
                one.sendall(b"".join(line.encode("latin-1") + b"\n" for line in lines))
                one.shutdown(socket.SHUT_WR)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it did not want to hear all
            try:
                while block := one.recv(1 << 16):
                    heard += block
            except ConnectionResetError:
                pass
    except TimeoutError:
        return None
    return [json.loads(line) for line in heard.decode(errors="replace").splitlines()]


def say(path):
    for line in sys.stdin:
        print(json.dumps(exchange(path, json.loads(line))), flush=True)


# --- Floods. Each counts what it did.


def join_of(name, **changes):
    return {"command": "join", "protocol": 1, "job": None, "run": name, "directory": "/home/" + name, "pid": os.getpid(),
            "min": 1, "max": 1, "start": 1, "lease": 0, "holds": [], "samples_total": None, "suspend": [],
            "wishes": {"one_host": False, "most_hosts": 0, "hosts": []}, **changes}


def line_of(message):
    return json.dumps(message).encode() + b"\n"


def nonblocking(path):
    one = connect(path)
    one.setblocking(False)
    return one


def keep_saying(path, text, count, connections):
    """As many connections that say the same again and again and never read; what is closed is opened again."""
    held = []
    while True:
        while len(held) < connections:
            try:
                held.append(nonblocking(path))
            except OSError:
                break
            count[0] += 1
        for one in list(held):
            try:
                one.send(text)
            except BlockingIOError:
                continue
            except OSError:
                held.remove(one)
                one.close()
        time.sleep(0.01)


def never_read(path, count, seed):
    keep_saying(path, line_of({"command": "queue"}) * 200, count, 60)


def half_requests(path, count, seed):
    keep_saying(path, b'{"command":"queue","filling":"' + b"x" * 3000, count, 100)


def thousands(path, count, seed):
    held = []
    while True:
        try:
            held.append(nonblocking(path))
        except OSError:
            pass
        count[0] += 1
        del held[:-4000]
        time.sleep(PAUSE_S)


def reports(path, count, seed):
    """A run that says a speed of other sizes in each report."""
    made = random.Random(seed)
    with connect(path) as one:
        one.sendall(line_of(join_of("reports")))
        while True:
            rates = [{"workers": made.randrange(1, 100_000), "hosts": 1, "samples_per_s": 1.0, "views": 3} for _ in range(1000)]
            one.settimeout(None)
            one.sendall(line_of({"report": {"lease": 0, "holds": [], "phase": "waiting", "workers": 0, "step": 0, "samples": 0,
                                            "samples_total": None, "rates": rates, "memory_bytes": 0, "wants": None,
                                            "lost_hosts": []}}))
            count[0] += 1


def come_and_go(path, count, seed):
    """Runs that join with new names, of which nothing is heard again."""
    while True:
        try:
            with connect(path) as one:
                one.sendall(line_of(join_of(f"phantom-{seed}-{count[0] % 100}", directory="/" + "x" * 4000)))
                one.recv(1 << 16)
        except OSError:
            pass
        count[0] += 1
        time.sleep(PAUSE_S)


def submissions(path, count, seed):
    """A user who submits as fast as it is answered: another user's cluster starts nothing, and knows nothing of it."""
    job = {"name": "theirs", "min": 1, "max": 1, "start": 1}
    with connect(path) as one, one.makefile("rb") as answers:
        one.settimeout(None)
        while True:
            one.sendall(line_of({"command": "submit", "job": job}))
            answers.readline()
            count[0] += 1


def hoard(path, count, seed):
    """A long queue of runs that have ended, for which many ask at once and nobody reads it."""
    for number in range(1200):
        with connect(path, None) as one:
            one.sendall(line_of(join_of(f"hoard-{seed}-{number}", directory="/" + "x" * 4000)) + line_of({"ended": {"status": 0}}))
            one.shutdown(socket.SHUT_WR)
            while one.recv(1 << 16):
                pass
        count[0] += 1
    while True:
        held = [nonblocking(path) for _ in range(200)]
        time.sleep(1)  # all are listened to
        for one in held:
            one.send(line_of({"command": "queue"}))
        time.sleep(5)


FLOODS = {flood.__name__: flood for flood in (reports, submissions, come_and_go, never_read, half_requests, thousands)}
ALONE = {**FLOODS, "hoard": hoard}  # takes long


class Count(list):
    """A number that says when it is not 0 any more."""

    def __setitem__(self, place, value):
        is_first = self[0] == 0
        super().__setitem__(place, value)
        if is_first:
            os.write(1, b"begun\n")


def flood(path, kind, seed=0):
    count = Count([0])

    def end(*unused):
        os.write(1, b"%d\n" % count[0])
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    while True:
        try:
            ALONE[kind](path, count, int(seed))
        except OSError:
            count[0] += 1
            time.sleep(0.01)  # no place at present


def main(place, mode="say", *words):
    {"say": say, "flood": flood}[mode](place, *words)


if __name__ == "__main__":
    main(*sys.argv[1:])
