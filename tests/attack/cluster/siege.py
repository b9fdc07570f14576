"""A cluster that a second user attacks: the real cluster process, its owner who goes on working, and the intruder."""

import json
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "system")]

import harness  # noqa: E402
import intruder  # noqa: E402
import lies  # noqa: E402
from cluster_lab import Cluster  # noqa: E402
from harness import wait_until  # noqa: E402

INTRUDER = 65534
DEADLINE_S = 10  # for an answer to the owner, whatever others do
SLOTS = 4
GRACE_MS = 1000


def resident_mib(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


class Siege:
    def __init__(self, case):
        self.case = case
        self.cluster = Cluster(case, slots=SLOTS, access="everyone", directory="shared", orphan_grace_ms=GRACE_MS)
        self.directory = self.cluster.directory
        os.chmod(self.directory, 0o755)
        self.program = shutil.copy(os.path.join(HERE, "intruder.py"), self.directory)
        self.cluster.start()
        self.answers_s = []  # how long the owner waited
        # A job of the owner that has two of the slots and keeps them; what others say must not touch it.
        self.keeper = self.cluster.stand_in(run="keeper", directory="/nowhere/keeper", min=2, max=2, start=2).join()
        version, self.kept = self.keeper.wait_lease(2)
        self.keeper.report(version, self.kept)
        self.before_mib = self.most_mib = resident_mib(self.cluster.process.pid)
        self.watched = threading.Event()
        self.watch = threading.Thread(target=self._watch, daemon=True)
        self.watch.start()
        case.addCleanup(self.stop_watching)

    def _watch(self):
        while not self.watched.wait(0.05):
            try:
                self.most_mib = max(self.most_mib, resident_mib(self.cluster.process.pid))
            except OSError:
                return

    def stop_watching(self):
        self.watched.set()
        self.watch.join(10)

    def growth_mib(self):
        return self.most_mib - self.before_mib

    # --- The owner

    def ask(self, request):
        """The answer to the owner, within the deadline."""
        begin = time.monotonic()
        with socket.socket(socket.AF_UNIX) as one:
            one.settimeout(DEADLINE_S)
            one.connect(self.cluster.socket_path())
            one.sendall(json.dumps(request).encode() + b"\n")
            with one.makefile("rb") as answers:
                answer = json.loads(answers.readline())
        self.answers_s.append(time.monotonic() - begin)
        return answer

    def jobs(self):
        return self.ask({"command": "queue"})["cluster"]["jobs"]

    def owner_job(self):
        """What the intruder knows of the keeper."""
        job = next(job for job in self.jobs() if job["name"] == "keeper" and job["user"] == "root")
        return {"id": job["id"], "name": job["name"], "directory": job["directory"], "slots": self.kept,
                "free": [slot for slot in range(SLOTS) if slot not in self.kept]}

    def keeper_now(self):
        """Phase, priority, whether it is paused, and slots, as the cluster and as the keeper see them."""
        job = next(job for job in self.jobs() if job["name"] == "keeper" and job["user"] == "root")
        held = [slot for host in job["leased"] for slot in host["slots"]]
        return job["phase"], job["priority"], job["paused"], held, self.keeper.leased()[1]

    def keeper_unharmed(self):
        return "joined", 0, False, self.kept, self.kept

    def submit(self, name):
        """Of the owner; it does not start, since it needs slots that the keeper has."""
        return self.ask({"command": "submit", "job": {"name": name, "min": SLOTS, "max": SLOTS, "start": SLOTS,
                                                      "arguments": ["--", "true"], "working_directory": "/", "environment": []}})

    def cancel_waiting(self):
        for job in self.jobs():
            if job["phase"] == "queued":
                self.ask({"command": "cancel", "job": job["id"]})

    def submit_many(self, count, prefix):
        """Submissions a second, each on a connection of its own."""
        begin = time.monotonic()
        for number in range(count):
            answer = self.submit(f"{prefix}-{number}")
            if not answer["ok"]:
                raise harness.Failed(f"the submission {prefix}-{number} was refused: {answer}")
        return count / (time.monotonic() - begin)

    def phantom_slots(self):
        """Slots that the owner cannot have, although nobody has them any more."""
        self.cancel_waiting()
        self.keeper.send({"ended": {"status": 0}})
        whole = self.cluster.stand_in(run="whole", directory="/nowhere/whole", min=1, max=SLOTS, start=SLOTS).join()
        try:
            whole.wait_lease(SLOTS)
        except harness.Failed:
            pass
        return SLOTS - len(whole.leased()[1])

    # --- The intruder

    def start_intruder(self, *words):
        process = subprocess.Popen(["/usr/bin/python3", self.program, *map(str, words)], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True, user=INTRUDER, group=INTRUDER, extra_groups=[],
                                   cwd="/")
        self.case.addCleanup(self._end, process)
        return process

    @staticmethod
    def _end(process):
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()

    def intruder(self):
        return self.start_intruder(self.cluster.socket_path())

    @staticmethod
    def exchange(process, lines):
        """What the intruder hears until the connection is closed; nothing: it was not closed in time."""
        process.stdin.write(json.dumps(lines) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    def lie(self, process, owner, places):
        """(what was said, what was heard, what must come of it) of each lie."""
        for name, lines, what in lies.all_lies(places, owner):
            yield name, self.exchange(process, lines), what

    @staticmethod
    def is_as_it_must_be(heard, what):
        """Something was heard, and it is a refusal where one is due, and nowhere else."""
        return heard is not None and any(answer.get("ok") is False for answer in heard) == (what == lies.REFUSED)

    def floods(self, seed):
        return [self.flood(kind, seed) for kind in intruder.FLOODS]

    def flood(self, kind, seed):
        return kind, self.start_intruder(self.cluster.socket_path(), "flood", kind, seed)

    @staticmethod
    def signal_floods(floods, number):
        for _, process in floods:
            process.send_signal(number)

    def end_floods(self, floods):
        """How often each has done what it does."""
        self.signal_floods(floods, signal.SIGTERM)
        return {kind: int((process.stdout.read().split() or [0])[-1]) for kind, process in floods}

    def wait_begun(self, floods):
        for kind, process in floods:
            if not select.select([process.stdout], [], [], DEADLINE_S)[0] or process.stdout.readline() != "begun\n":
                raise harness.Failed(f"the flood {kind} does not begin")

    def traps(self):
        home = os.path.join(self.directory, "home")
        os.mkdir(home)
        os.chown(home, INTRUDER, INTRUDER)
        return lies.traps(home, INTRUDER)

    def live_of_intruder(self):
        return [job for job in self.jobs() if job["user"] != "root" and job["phase"] != "ended"]

    def wait_until_gone(self):
        """The intruder's jobs have no connection any more and end after their grace."""
        wait_until(lambda: not self.live_of_intruder(), 60, "the end of the intruder's jobs", interval=0.1)


class Door:
    """The control socket in a directory of the intruder: who connects there was led astray."""

    def __init__(self, case, directory):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(os.path.join(directory, "control.sock"))
        os.chmod(os.path.join(directory, "control.sock"), 0o666)
        self.listener.listen()
        self.listener.setblocking(False)
        case.addCleanup(self.listener.close)

    def was_opened(self):
        try:
            self.listener.accept()[0].close()
        except BlockingIOError:
            return False
        return True
