"""A worker on several hosts, without torch: its parts connect to its first process, which has the session.

Its lines on stdout are JSON: what each process was given, and the part's view of the end.
"""

import array
import json
import os
import socket
import sys
import time

import elastictrain

HOST = int(os.environ["ELASTICTRAIN_REPLICA_HOST"])
HOSTS = int(os.environ["ELASTICTRAIN_REPLICA_HOSTS"])
PATIENCE_S = int(os.environ["ELASTICTRAIN_REPLICA_TIMEOUT_MS"]) / 1000
GIVEN = {name: value for name, value in os.environ.items() if name.startswith(("ELASTICTRAIN_REPLICA_", "ELASTICTRAIN_SLOT",
                                                                                "ELASTICTRAIN_PER_REPLICA", "RANK"))}


# Before anything imports it: only a process that was forked from one that has it knows it.
IMPORTED = os.environ.get("ET_IMPORTED", "sys") in sys.modules


def say(**words):
    print(json.dumps({"worker": int(os.environ["ELASTICTRAIN_WORKER_ID"]), "host": HOST, "pid": os.getpid(), **words}), flush=True)


def take_key():
    path = os.environ["ELASTICTRAIN_REPLICA_KEY_FILE"]
    modes = [oct(os.stat(place).st_mode & 0o777) for place in (path, os.path.dirname(path))]
    with open(path) as file:
        key = file.read()
    os.remove(path)
    return key, modes


def endpoint():
    address, _, port = os.environ["ELASTICTRAIN_REPLICA_ADDRESS"].rpartition(":")
    return address.strip("[]"), int(port)


def be_part(key):
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            line = socket.create_connection(endpoint())
            break
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)
    line.sendall(f"{key} {HOST}\n".encode())
    word = line.recv(3)
    if word == b"end":
        return 0
    print("the first process is gone", file=sys.stderr, flush=True)
    return 1


def gather_parts(key):
    listener = socket.create_server(endpoint(), reuse_port=True)
    listener.settimeout(PATIENCE_S)
    parts = {}
    while len(parts) < HOSTS - 1:
        line, _ = listener.accept()
        other, host = line.makefile().readline().split()
        if other == key:
            parts[int(host)] = line
    return parts


def watch(parts):
    """Ends the process when a part is gone, as an exchange with it would."""
    for host, line in parts.items():
        line.setblocking(False)
        try:
            gone = line.recv(1) == b""
        except BlockingIOError:
            gone = False
        except ConnectionError:
            gone = True
        if gone:
            print(f"the part on host {host} is gone", file=sys.stderr, flush=True)
            os._exit(3)


def train(session, parts):
    weights, gradient = array.array("f", [0.0] * 100), array.array("f", [0.0] * 100)
    session.share_model("weights", weights)
    session.set_data(sample_count=240, epochs=int(os.environ.get("ET_EPOCHS", "100000")), batch=8)
    if not session.start():
        return
    while (batch := session.next_batch()) is not None:
        watch(parts)
        session.all_reduce(gradient)
        weights[0] += batch.global_samples
        session.commit_step(loss=1.0)
        time.sleep(0.01)


def main():
    key, modes = take_key()
    say(given=GIVEN, key=key, modes=modes, imported=IMPORTED)
    if os.environ.get("ET_SESSION_IN_PART") and HOST > 0:
        elastictrain.Session()
    if HOST > 0:
        sys.exit(be_part(key))
    parts = gather_parts(key)
    with elastictrain.Session() as session:
        train(session, parts)
    for line in parts.values():
        line.sendall(b"end")


if __name__ == "__main__":
    main()
