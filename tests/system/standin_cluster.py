"""A scripted cluster for tests of a run's side: it says what a test tells it to say, also what no cluster should, and
keeps all that runs tell it. One Unix socket, JSON lines (supervisor/cluster/lease_protocol.h)."""

import json
import os
import shutil
import socket
import tempfile
import threading

import harness
from harness import wait_until


class StandinCluster:
    def __init__(self, case, host="localhost", of=4):
        self.directory = tempfile.mkdtemp(prefix="et-cluster-")
        self.path = os.path.join(self.directory, "cluster.sock")
        self.host, self.of = host, of
        self.lock = threading.RLock()
        self.said = []  # (number of the connection, message), in the order of arrival
        self.connections = []
        self.listener = None
        self.version = 0
        self.answer = {"ok": True, "job": "job-7"}  # None: no answer
        self.on_report = lambda report: None
        case.addCleanup(shutil.rmtree, self.directory, True)
        case.addCleanup(self.stop)

    # --- Life

    def start(self):
        self.listener = socket.socket(socket.AF_UNIX)
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.listener.bind(self.path)
        self.listener.listen()
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()
        return self

    def stop(self):
        """As after kill -9: the socket file stays, and nobody listens."""
        with self.lock:
            doomed, self.connections = self.connections, []
        for each in [self.listener, *doomed]:
            if each is not None:
                try:
                    each.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
                each.close()
        self.listener = None

    def _accept(self, listener):
        number = 0
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            number += 1
            threading.Thread(target=self._read, args=(connection, number), daemon=True).start()

    def _read(self, connection, number):
        with connection.makefile("rb") as lines:
            try:
                for line in lines:
                    self._take(connection, number, json.loads(line))
            except (OSError, ValueError):
                pass

    def _take(self, connection, number, message):
        with self.lock:
            self.said.append((number, message))
            if message.get("command") == "join":
                if self.answer is not None:
                    connection.sendall(json.dumps(self.answer).encode() + b"\n")
                self.connections.append(connection)
            if "report" in message:
                self.on_report(message["report"])

    # --- What it says

    def send_bytes(self, data):
        with self.lock:
            connection = self.connections[-1]
        connection.sendall(data)

    def send(self, message):
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def lease(self, *slots, version=None, reason="the test says so", **fields):
        """Gives these slots of the one host; without any: none."""
        self.version = version if version is not None else self.version + 1
        hosts = [{"host": self.host, "slots": list(slots), "of": self.of}] if slots else []
        self.send({"lease": {"version": self.version, "slots": hosts, "reason": reason, **fields}})
        return self.version

    # --- What it has heard

    def messages(self, kind):
        with self.lock:
            return [message for _, message in self.said if kind in message or message.get("command") == kind]

    def joins(self):
        return self.messages("join")

    def reports(self):
        return [message["report"] for message in self.messages("report")]

    def wait_join(self, count=1, timeout=30):
        def joined():
            joins = self.joins()
            return joins[count - 1] if len(joins) >= count and self.connections else None

        return wait_until(joined, timeout, f"join number {count}")

    def wait_report(self, condition, timeout=60, what="a report that tells it"):
        def look():
            reports = self.reports()
            return reports[-1] if reports and condition(reports[-1]) else None

        return wait_until(look, timeout, what)

    def held(self, report=None):
        """Numbers of the slots in a report, by default in the newest."""
        report = report or (self.reports() or [{"holds": []}])[-1]
        return sorted(slot for host in report["holds"] for slot in host["slots"])


def job(cluster, workers=(1, 2, 4), **sections):
    """A run's configuration: its slots come from the cluster."""
    return {"cluster": cluster.path, **harness.job(workers=workers, hosts={}, **sections)}
