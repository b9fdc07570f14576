"""What tests and benchmarks of clusters need: the real cluster process with real runs, stand-ins of runs that lie or stall, and
one for a device that two runs want."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading

import harness
from harness import BINARY, is_alive, members, synthetic, toml, wait_until


class Contention:
    """Stands in for a device that both jobs of a pair want: each computes `factor` times longer while both work. Their runs
    have its directory as ELASTICTRAIN_SLOW_DIR."""

    def __init__(self, factor):
        self.factor = factor
        self.directory = tempfile.mkdtemp(prefix="slow-")
        self.stopped = threading.Event()
        self.thread = None

    def follow(self, cluster):
        self.thread = threading.Thread(target=self._follow, args=(cluster,), daemon=True)
        self.thread.start()

    def _follow(self, cluster):
        path = os.path.join(self.directory, "slow-all")
        while not self.stopped.wait(0.1):
            try:
                together = [job for job in cluster.queue()["jobs"] if job["beside"] and job["workers"]]
            except (harness.Failed, ValueError):  # the cluster is away
                continue
            with open(path + ".new", "w") as file:
                file.write(str(self.factor if len(together) == 2 else 1))
            os.replace(path + ".new", path)

    def stop(self):
        self.stopped.set()
        if self.thread is not None:
            self.thread.join(60)
        shutil.rmtree(self.directory, ignore_errors=True)


class StandInRun:
    """What a cluster sees of a run: a connection that says whatever the test wants."""

    def __init__(self, case, path, **join):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30)
        self.socket.connect(path)
        case.addCleanup(self.socket.close)
        self.lines = []
        self.closed = threading.Event()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.joining = {"command": "join", "protocol": 1, "job": None, "run": "stand-in", "directory": "/nowhere/stand-in",
                        "pid": os.getpid(), "min": 1, "max": 4, "start": 1, "lease": 0, "holds": [], "samples_total": None,
                        "suspend": [], "wishes": {"one_host": False, "most_hosts": 0, "hosts": []}, **join}

    def join(self):
        self.send(self.joining)
        return self

    def send(self, message):
        text = message if isinstance(message, str) else json.dumps(message)
        self.socket.sendall(text.encode() + b"\n")

    def report(self, lease, slots, **fields):
        holds = [{"host": "localhost", "slots": slots}] if slots else []
        self.send({"report": {"lease": lease, "holds": holds, "phase": "training" if slots else "waiting",
                              "workers": len(slots), "step": 1, "samples": 1, "samples_total": None, "rates": [],
                              "memory_bytes": 0, "wants": None, "lost_hosts": [], **fields}})

    def _read(self):
        try:
            with self.socket.makefile(errors="replace") as file:
                for line in file:
                    self.lines.append(json.loads(line))
        except OSError:
            pass
        self.closed.set()

    def said(self, key):
        return [line[key] for line in list(self.lines) if key in line]

    def leased(self):
        """(version, slots of localhost) of the newest lease."""
        leases = self.said("lease")
        if not leases:
            return 0, []
        return leases[-1]["version"], [slot for host in leases[-1]["slots"] for slot in host["slots"]]

    def wait_lease(self, count, timeout=30):
        wait_until(lambda: len(self.leased()[1]) == count, timeout, f"a lease of {count} slots, not {self.leased()}")
        return self.leased()


class Cluster:
    def __init__(self, case, slots=4, directory=None, prefix=(), lab=None, **settings):
        """`lab`: the hosts are its own, of so many slots each, and the cluster process is on its head."""
        self.case = case
        self.lab = lab
        self.prefix = lab.head.prefix() if lab else prefix  # of the command: another network
        self.directory = tempfile.mkdtemp(prefix="etcluster-")
        self.state = os.path.join(self.directory, "state")
        self.steps = os.path.join(self.directory, "steps")
        os.mkdir(self.steps)
        self.token = os.path.basename(self.directory)
        self.environment = {**os.environ, "ELASTICTRAIN_STATE_DIR": self.state, "ELASTICTRAIN_STEP_LOG": self.steps,
                            harness.MARK: self.token}
        self.environment.pop("ELASTICTRAIN_CLUSTER", None)
        if lab:
            self.environment.update(lab.environment())
            settings.setdefault("hosts", {"list": [f"{host.name}:{slots}" for host in lab.hosts]})
        self.place = os.path.join(self.directory, directory) if directory else os.path.join(self.state, "clusters", "test")
        if directory:
            settings["directory"] = self.place
            self.environment["ELASTICTRAIN_CLUSTER"] = self.place + "/"
        policy = "gandiva" if settings.get("packing") else "max-min"
        self.path = self.write("cluster.toml", toml({"name": "test", "policy": policy, "recall_timeout_ms": 60000,
                                                     "resume_timeout_ms": 20000,
                                                     "hosts": {"list": [f"localhost:{slots}"]}, **settings}))
        self.process = None
        case.addCleanup(self.clean)

    def write(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def start(self):
        self.log = open(os.path.join(self.directory, "log"), "a")
        self.process = subprocess.Popen([*self.prefix, BINARY, "cluster", self.path], env=self.environment, stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log, start_new_session=True)
        wait_until(lambda: self.command("queue").returncode == 0 or self.process.poll() is not None, 30, "the cluster")
        return self

    def kill(self):
        self.process.kill()
        self.process.wait()

    def socket_path(self):
        return os.path.join(self.place, "cluster.sock")

    def stand_in(self, **join):
        return StandInRun(self.case, self.socket_path(), **join)

    def command(self, *words):
        return subprocess.run([BINARY, *map(str, words)], env=self.environment, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=60, cwd=self.directory)

    def do(self, *words):
        done = self.command(*words)
        if done.returncode != 0:
            raise harness.Failed(f"{words}: {done.returncode}\n{done.stdout}{done.stderr}{self.text()}")
        return done.stdout

    def refused(self, status, part, *words):
        done = self.command(*words)
        self.case.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.case.assertIn(part, done.stderr)

    def text(self):
        with open(os.path.join(self.directory, "log")) as file:
            return file.read()

    def queue(self):
        return json.loads(self.do("queue", "--all", "--json"))

    def job(self, name):
        return next((job for job in self.queue()["jobs"] if job["name"] == name), {})

    def submit(self, name, low=1, high=4, start=None, *words, **sections):
        config = {"workers": {"min": low, "start": start or high, "max": high}, "batch": {"per_worker": 16},
                  "trainer": synthetic(), "audit": {"every_steps": 10}, **sections}
        path = self.write(name + ".toml", toml(config))
        return self.do("submit", path, "--name", name, *self.of_workers(), *words)

    def of_workers(self, environment=None):
        """Agents of other hosts do not inherit the environment."""
        variables = ("ELASTICTRAIN_STEP_LOG", harness.MARK) if self.lab else ()
        return [word for name in variables for word in ("-x", f"{name}={(environment or self.environment)[name]}")]

    def status(self, name):
        done = self.command("status", name, "--json")
        return json.loads(done.stdout) if done.returncode == 0 and done.stdout.strip() else {}

    def wait_workers(self, name, count, timeout=90):
        """The run trains with so many workers. Returns their processes by slot."""
        def look():
            status = self.status(name)
            ready = status.get("phase") == "running" and len(members(status)) == count
            return status if ready and all(w.get("step", 0) > 0 for w in members(status)) else None
        try:
            status = wait_until(look, timeout, f"{count} workers of {name}")
        except harness.Failed as failed:
            raise harness.Failed(f"{failed}\n{self.command('queue', '--all').stdout}\n{self.text()}") from None
        return {worker["slot"]: worker["pid"] for worker in members(status)}

    def wait_job(self, name, condition, what, timeout=90):
        def look():
            job = self.job(name)
            return job if job and condition(job) else None
        try:
            return wait_until(look, timeout, f"{what} of {name}")
        except harness.Failed as failed:
            raise harness.Failed(f"{failed}\n{self.job(name)}\n{self.text()}") from None

    def journal(self, event=None):
        path = os.path.join(self.place, "journal.jsonl")
        with open(path) as file:
            records = [json.loads(line) for line in file if line.strip()]
        return [record for record in records if event in (None, record["event"])]

    def run_journal(self, name, event):
        """Records of the run of a job."""
        with open(os.path.join(self.job(name)["directory"], "journal.jsonl")) as file:
            return [record for record in map(json.loads, file) if record["event"] == event]

    def processes(self):
        mark = f"{harness.MARK}={self.token}".encode()
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                if pid != os.getpid() and mark in harness.environ_of(pid) and is_alive(pid)]

    def clean(self):
        if self.process is not None and self.process.poll() is None:
            self.kill()
        harness.signal_all(self.processes(), signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)

    def assert_slots_used_once(self):
        """Replays the journal: a slot is never in two leases, but for those that say of each other that they share it."""
        leases, beside = {}, {}
        for record in self.journal():
            if record["event"] == "leased":
                leases[record["job"]] = {(host["host"], slot) for host in record["slots"] for slot in host["slots"]}
            elif record["event"] in ("stands", "ended"):
                leases.pop(record["job"], None)
            elif record["event"] == "returned":
                gone = {(host["host"], slot) for host in record["slots"] for slot in host["slots"]}
                leases[record["job"]] = leases.get(record["job"], set()) - gone
            if record["event"] == "leased":
                beside[record["job"]] = record.get("beside")
            holders = {}
            for job, slots in leases.items():
                for slot in slots:
                    holders.setdefault(slot, []).append(job)
            for slot, jobs in holders.items():
                packed = len(jobs) == 2 and (beside.get(jobs[0]) == jobs[1] or beside.get(jobs[1]) == jobs[0])
                self.case.assertEqual(len(jobs) < 2 or packed, True, f"slot {slot} is leased to {jobs} after {record}")
