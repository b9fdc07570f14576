"""What it costs to look at a run: the page of a long journal, metrics that are scraped, the full screen."""

import json
import os
import re
import resource
import shutil
import socket
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request

import rows
from harness import BINARY, Run, job, read_steps, step_interval, synthetic

EVENTS = 100_000
WORKERS = 8
SCRAPES_S = 0.2
PHASES = 6
TOP_WORKERS = 1000
TOP_S = 20


def view(step):
    members = [{"id": n + 1, "rank": n, "host": n // 4, "share": 32, "steps": 10, "step_s": 0.1, "data_wait_s": 0.002,
                "compute_s": 0.06 + 0.03 * (n == 5), "communicate_s": 0.03, "update_s": 0.004, "sent_bytes": 1e6,
                "received_bytes": 1e6, "round_trip_s": 1e-4} for n in range(WORKERS)]
    hosts = [{"name": f"node{n}", "slots": 4, "free_slots": 0} for n in range(WORKERS // 4)]
    return {"now_s": step / 10, "hosts": hosts, "jobs": [{
        "name": "long", "workers": WORKERS, "target": WORKERS, "steps_done": step, "samples_done": 256.0 * step,
        "loss": 1 / (1 + step / 1e4), "has_loss": True, "members": members, "worker_seconds": step * 0.8, "cost": step / 1e4,
        "intervals": [{"begin_s": step / 10 - 1, "end_s": step / 10, "workers": WORKERS, "steps": 10, "samples": 2560,
                       "global_batch": 256}]}]}


def write_journal(path):
    """Of a week: a view in every fourth record, and changes and losses between them."""
    kinds = [
        lambda n: {"event": "observed", "view": view(10 * n)},
        lambda n: {"event": "prepare", "generation": n, "previous": n - 1, "kind": "recover", "reason": "rank 1 was lost",
                   "members": list(range(1, WORKERS + 1)), "leavers": [], "shares": [32] * WORKERS, "donors": [1],
                   "learning_rate_factor": 1.0},
        lambda n: {"event": "loss", "class": "crash", "count": 1, "what": "rank 1 (w2 on node0) was killed by signal 9"},
        lambda n: {"event": "generation", "generation": n, "kind": "recover", "first_step": 10 * n, "world_size": WORKERS,
                   "members": list(range(1, WORKERS + 1))},
    ]
    with open(path, "w") as file:
        first = {"event": "run_opened", "schema": 3, "run": "long", "version": "0", "command": ["./train"],
                 "max_workers": WORKERS}
        for n in range(EVENTS):
            record = first if n == 0 else kinds[n % len(kinds)](n)
            file.write(json.dumps({"seq": n + 1, "t": 1.7e9 + n * 6, "up": n * 6.0, **record}, separators=(",", ":")) + "\n")


def report(repetitions):
    times = []
    with tempfile.TemporaryDirectory(prefix="et-report-") as state:
        os.mkdir(os.path.join(state, "long"))
        journal = os.path.join(state, "long", "journal.jsonl")
        write_journal(journal)
        page = os.path.join(state, "long.html")
        environment = {**os.environ, "ELASTICTRAIN_STATE_DIR": state}
        for _ in range(max(5, repetitions)):
            begin = time.monotonic()
            subprocess.run([BINARY, "report", "long", "-o", page], env=environment, check=True, capture_output=True)
            times.append(time.monotonic() - begin)
        megabytes = os.path.getsize(journal) / 1e6
        yield rows.below("report/time", statistics.median(times), "s", 1,
                         rows.spread(times, 2) + f"; {EVENTS} events, {megabytes:.0f} MB")
        yield rows.below("report/size", os.path.getsize(page) / 1e6, "MB", 2)


def processor_s(pid):
    """Time on processors of all threads of a process."""
    tasks = f"/proc/{pid}/task"
    return sum(int(open(f"{tasks}/{task}/schedstat").read().split()[0]) for task in os.listdir(tasks)) / 1e9


def metrics_overhead(repetitions):
    """Steps with and without five scrapes a second, in turn, in one run; and what the supervisor computes for them."""
    with Run(job(metrics={"listen": "0"}, trainer=synthetic(compute_us_per_sample=2000))) as run:
        run.wait_size(2)
        run.wait_text("metrics: http://")
        url = re.search(r"metrics: (http://\S+)", run.text("stderr"))[1]
        rounds = {True: [], False: []}
        busy = {True: [], False: []}
        supervisor = run.process.pid
        for phase in range(2 * max(PHASES, repetitions)):
            begin, before_s = time.monotonic(), processor_s(supervisor)
            scrapes = phase % 2 == 1
            while time.monotonic() < begin + 5:
                if scrapes:
                    urllib.request.urlopen(url, timeout=30).read()
                time.sleep(SCRAPES_S)
            end = time.monotonic()
            busy[scrapes].append(100 * (processor_s(supervisor) - before_s) / (end - begin))
            records = [record for record in read_steps(run.steps_directory) if begin < record["t"] < end]
            rounds[scrapes].append(step_interval(records))
        times = [after / before for before, after in zip(rounds[False], rounds[True])]
        cost = 100 * (statistics.median(times) - 1)
        yield rows.below("metrics-overhead", cost, "%", 0.1,
                         f"steps with five scrapes a second against none, in turn: {rows.spread(times, 4)}; "
                         f"steps of {1e3 * statistics.median(rounds[False]):.1f} ms")
        yield rows.Row("metrics-overhead/supervisor", statistics.median(busy[True]) - statistics.median(busy[False]),
                       "% of a core", "-", None, f"with {rows.spread(busy[True], 3)}, without {rows.spread(busy[False], 3)}")
        run.do("stop", run.name)
        run.wait()


class Answering(threading.Thread):
    """A run's control socket that answers each request with the status of so many workers."""

    def __init__(self, path, status):
        super().__init__(daemon=True)
        self.answer = (json.dumps({"ok": True, "status": status}) + "\n").encode()
        self.asked = 0
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(path)
        self.server.listen(16)

    def run(self):
        while True:
            peer, _ = self.server.accept()
            with peer, peer.makefile("rb") as lines:
                for _ in lines:
                    self.asked += 1
                    peer.sendall(self.answer)


def status_of(workers):
    return {"name": "large", "phase": "running", "world_size": workers, "target_size": workers, "generation": 3,
            "uptime_s": 100.0, "step": 1000, "loss": 0.5, "samples_per_s": 1e5, "size_reason": "as asked",
            "hosts": [{"host": f"node{n}", "phase": "up", "workers": 8, "slots": 8, "quiet_ms": 5} for n in range(workers // 8)],
            "workers": [{"id": n + 1, "rank": n, "host": f"node{n // 8}", "slot": n % 8, "phase": "member",
                         "program_phase": "", "program_phase_ms": 0, "generation": 3, "step": 1000, "step_ms": 100.0,
                         "compute_ms": 50 + n % 17, "data_wait_ms": 2.0, "communicate_ms": 40.0, "update_ms": 3.0,
                         "sent_bytes": 1e6, "received_bytes": 1e6, "share": 32, "quiet_ms": 5, "pid": 1000 + n}
                        for n in range(workers)]}


def top(repetitions):
    """Processor time of `top` at two looks a second, with a stand-in for the run: nothing else is measured."""
    if shutil.which("script") is None:
        raise rows.Unavailable("script is not installed (util-linux)")
    with tempfile.TemporaryDirectory(prefix="et-top-") as state:
        directory = os.path.join(state, "large")
        os.mkdir(directory, 0o700)
        run = Answering(os.path.join(directory, "control.sock"), status_of(TOP_WORKERS))
        run.start()
        environment = {**os.environ, "ELASTICTRAIN_STATE_DIR": state, "TERM": "xterm", "LC_ALL": "C.UTF-8"}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = f"stty rows 60 cols 200; exec {BINARY} top large"
        screen = subprocess.Popen(["script", "-qec", command, "/dev/null"], env=environment, stdin=subprocess.PIPE,
                                  stdout=subprocess.DEVNULL)
        time.sleep(TOP_S)
        screen.stdin.write(b"q")
        screen.stdin.close()
        screen.wait(60)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        yield rows.below("top", 100 * used / TOP_S, "% of a core", 5,
                         f"{TOP_WORKERS} workers, 200x60, {run.asked / TOP_S:.1f} looks a second for {TOP_S} s")
