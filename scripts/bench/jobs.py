"""Many jobs on a live cluster: the real cluster process, with real runs whose compute sleeps, or with stand-ins of runs
where only the cluster is measured."""

import csv
import json
import os
import random
import selectors
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time

import rows
import swap
from cluster_lab import Cluster, Contention
from harness import BINARY, members, read_steps, synthetic, toml, wait_until
from lab import Lab
from leases import Cleanups, cpu_s

STEP_S = 0.25
GATHERING_MS = 50  # what happens within it is decided together


class Case(Cleanups):
    def assertEqual(self, value, expected, what):
        if value != expected:
            raise RuntimeError(what)


class Runs:
    """Stand-ins of many runs on one thread: each holds what it is leased, and reports as often as a real run does."""

    PERIOD_S = 1.0

    def __init__(self, case, path):
        self.path = path
        self.selector = selectors.DefaultSelector()
        self.runs = {}
        case.addCleanup(self.close)

    def join(self, name):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self.path)
        self.runs[name] = {"socket": connection, "rest": b"", "lease": 0, "slots": [], "due": time.monotonic(), "leased_at": 0}
        self.selector.register(connection, selectors.EVENT_READ, name)
        self._send(name, {"command": "join", "protocol": 1, "job": None, "run": name, "directory": f"/nowhere/{name}",
                          "pid": os.getpid(), "min": 1, "max": 4, "start": 1, "lease": 0, "holds": [],
                          "samples_total": 10_000_000, "suspend": [],
                          "wishes": {"one_host": False, "most_hosts": 0, "hosts": []}})

    def end(self, name):
        self._send(name, {"ended": {"status": 0}})

    def serve(self, until, timeout_s):
        """Answers the cluster until the condition holds. Returns how long that took."""
        began = time.monotonic()
        while not until():
            if time.monotonic() - began > timeout_s:
                raise RuntimeError("the cluster did not do in time what was waited for")
            for key, _ in self.selector.select(0.001):
                self._read(key.data)
            for name, run in self.runs.items():
                if time.monotonic() >= run["due"]:
                    self._report(name)
        return time.monotonic() - began

    def close(self):
        for run in self.runs.values():
            run["socket"].close()
        self.selector.close()

    def _send(self, name, message):
        self.runs[name]["socket"].sendall(json.dumps(message).encode() + b"\n")

    def _read(self, name):
        run = self.runs[name]
        received = run["socket"].recv(1 << 16)
        if not received:
            self.selector.unregister(run["socket"])
            run["due"] = float("inf")
            return
        *lines, run["rest"] = (run["rest"] + received).split(b"\n")
        for message in map(json.loads, lines):
            if "lease" in message:
                run["lease"] = message["lease"]["version"]
                run["slots"] = [slot for host in message["lease"]["slots"] for slot in host["slots"]]
                run["leased_at"] = time.monotonic()
                self._report(name)

    def _report(self, name):
        run = self.runs[name]
        run["due"] = time.monotonic() + self.PERIOD_S
        workers = len(run["slots"])
        rates = [{"workers": workers, "hosts": 1, "samples_per_s": 100.0 * workers, "views": 5}] if workers else []
        holds = [{"host": "localhost", "slots": run["slots"]}] if workers else []
        self._send(name, {"report": {"lease": run["lease"], "holds": holds, "phase": "training" if workers else "waiting",
                                     "workers": workers, "step": 1, "samples": 1, "samples_total": None, "rates": rates,
                                     "memory_bytes": 0, "wants": None, "lost_hosts": []}})


def submit_many(path, count):
    """Jobs that wait in the queue, each as `submit` would send it."""
    for number in range(count):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            job = {"name": f"queued-{number}", "arguments": ["-n", "1", "--", "true"], "working_directory": "/",
                   "environment": [], "min": 1, "max": 4, "start": 1, "priority": 0, "samples_total": None,
                   "suspends": False, "one_host": False, "most_hosts": 0, "hosts": []}
            client.sendall(json.dumps({"command": "submit", "job": job}).encode() + b"\n")
            answer = client.makefile().readline()
            if not json.loads(answer)["ok"]:
                raise RuntimeError(answer)


def cluster_200(repetitions):
    """200 running jobs (stand-ins) and 2,000 in the queue."""
    running, queued = 200, 2000
    decisions, looks = [], []
    with Case() as case:
        cluster = Cluster(case, slots=running, limits={"queued": 5000}).start()
        runs = Runs(case, cluster.socket_path())
        for number in range(running):
            runs.join(f"run-{number}")
        runs.serve(lambda: all(len(run["slots"]) == 1 for run in runs.runs.values()), 60)
        submit_many(cluster.socket_path(), queued)
        first = [f"first-{turn}" for turn in range(max(3, repetitions))]
        for name in first:
            runs.join(name)
        settled = time.monotonic() + 3
        runs.serve(lambda: time.monotonic() > settled, 60)
        for name in first:
            cluster.do("priority", name, "5")
        before, seconds = cpu_s([cluster.process.pid]), 20
        end = time.monotonic() + seconds
        runs.serve(lambda: time.monotonic() > end, 60)
        used = (cpu_s([cluster.process.pid]) - before) / seconds
        for turn, name in enumerate(first):
            runs.end(f"run-{turn}")
            decisions.append(1000 * runs.serve(lambda: any(runs.runs[one]["slots"] for one in first[turn:]), 30))
            first.sort(key=lambda one: -len(runs.runs[one]["slots"]))
            asked = time.monotonic()
            cluster.do("queue")
            looks.append(1000 * (time.monotonic() - asked))
        own = [decision - GATHERING_MS for decision in decisions]
    yield rows.below("cluster-200/cpu", 100 * used, "% of a core", 5, f"{running} runs that report each second, {queued} queued")
    yield rows.below("cluster-200/decision", statistics.median(own), "ms", 100,
                     f"{rows.spread(own)} ms from a run's end until another has its slot, without the {GATHERING_MS} ms in "
                     "which events are gathered")
    yield rows.below("cluster-200/queue", statistics.median(looks), "ms", 100, f"{rows.spread(looks)} ms, the command included")


class Jobs:
    """Real jobs of one cluster, each with its own log of steps."""

    def __init__(self, case, slots, environment=None, **settings):
        self.cluster = Cluster(case, slots=slots, **settings)
        self.cluster.environment.update(environment or {})
        self.cluster.start()
        self.logs = {}

    def submit(self, name, low, high, epochs_s=3600, **sections):
        steps = self.logs[name] = tempfile.mkdtemp(prefix="steps-", dir=self.cluster.directory)
        samples = int(8 * epochs_s / STEP_S)
        trainer = synthetic(compute_us_per_sample=int(STEP_S * 1e6 / 8), samples=samples, epochs=1, gradient="constant")
        config = {"workers": {"min": low, "start": low, "max": high}, "batch": {"per_worker": 8}, "trainer": trainer,
                  "audit": {"every_steps": 0}, **sections}
        path = self.cluster.write(name + ".toml", toml(config))
        environment = {**self.cluster.environment, "ELASTICTRAIN_STEP_LOG": steps}
        subprocess.run([BINARY, "submit", path, "--name", name, *self.cluster.of_workers(environment)], check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment)

    def times(self, name):
        return swap.step_times(read_steps(self.logs[name]))

    def idle_ms(self, name):
        path = os.path.join(self.cluster.state, name, "journal.jsonl")
        with open(path) as file:
            return [record["idle_ms"] for record in map(json.loads, file) if record["event"] == "idle"]


class Restarted:
    """A job that ends with a checkpoint, and begins anew from it, where its size changes: what is done without elastictrain. Its
    hosts are this machine alone, and its program starts in some milliseconds."""

    def __init__(self, case):
        self.directory = tempfile.mkdtemp(prefix="restarted-")
        case.addCleanup(shutil.rmtree, self.directory)
        self.number, self.process = 0, None
        case.addCleanup(self.end)

    def start(self, size):
        self.number += 1
        trainer = synthetic(compute_us_per_sample=int(STEP_S * 1e6 / 8), gradient="constant")
        config = {"workers": {"min": size, "start": size, "max": size}, "batch": {"per_worker": 8}, "trainer": trainer,
                  "hosts": {"list": ["localhost:16"]}, "audit": {"every_steps": 0},
                  "checkpoint": {"directory": os.path.join(self.directory, "checkpoints"), "interval_steps": 1000}}
        path = os.path.join(self.directory, "config.toml")
        with open(path, "w") as file:
            file.write(toml(config))
        environment = {**os.environ, "ELASTICTRAIN_STATE_DIR": os.path.join(self.directory, "state"),
                       "ELASTICTRAIN_STEP_LOG": os.path.join(self.directory, f"steps-{self.number}")}
        os.mkdir(environment["ELASTICTRAIN_STEP_LOG"])
        self.process = subprocess.Popen([BINARY, "run", path, "--name", f"part-{self.number}"], env=environment,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self

    def end(self):
        self.process.terminate()
        self.process.wait(60)

    def times(self):
        logs = [os.path.join(self.directory, f"steps-{number + 1}") for number in range(self.number)]
        return sorted(t for log in logs for t in swap.step_times(read_steps(log)).values())


def restarted(sizes, seconds):
    """`sizes`: (s, size) as they changed. The part of the steps that were possible in %, and what each restart cost in ms."""
    with Case() as case:
        run = Restarted(case).start(sizes[0][1])
        wait_until(lambda: len(run.times()) > 3, 60, "its first steps")
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            due = [size for at, size in sizes if at <= time.monotonic() - began]
            if due and due[-1] != sizes[0][1]:
                sizes = [(0, due[-1]), *(one for one in sizes if one[0] > time.monotonic() - began)]
                run.end()
                run.start(due[-1])
            time.sleep(0.05)
        ended = time.monotonic()
        times = [t for t in run.times() if began < t < ended]
        lost = [1000 * (gap - STEP_S) for gap in swap.gaps(times) if gap > 1.2 * STEP_S]
        return 100 * len(times) * STEP_S / (ended - began), lost, run.number - 1


def live_burst(repetitions):
    """30 submissions in 10 s on 4 hosts of 4 slots: the first job gives its slots to the others, one after another. Beside it
    the first job's sizes once more, by restarts."""
    with Lab(hosts=4) as lab, Case() as case:
        jobs = Jobs(case, 4, policy="afs-p", limits={"queued": 100}, lab=lab)
        jobs.submit("job-0", 1, 16)
        jobs.cluster.wait_workers("job-0", 16, 120)
        began = time.monotonic()
        for number in range(1, 30):
            time.sleep(max(0.0, began + number / 3 - time.monotonic()))
            jobs.submit(f"job-{number}", 1, 16)
        time.sleep(10)
        ended = time.monotonic()
        times = jobs.times("job-0")
        made = sum(1 for t in times.values() if began < t < ended)
        alone = statistics.median(swap.gaps([times[step] for step in sorted(times)]))
        idle = [ms for number in range(30) if jobs.cluster.job(f"job-{number}")["slots"]
                for ms in jobs.idle_ms(f"job-{number}")]
        jobs.cluster.assert_slots_used_once()
        to_monotonic = time.monotonic() - time.time()
        sizes = [(0, 16)] + [(record["t"] + to_monotonic - began, share["after"]) for record in jobs.cluster.journal("decided")
                             for share in record["shares"] if share["job"] == 1 and record["t"] + to_monotonic > began]
    part, lost, restarts = restarted(sizes, ended - began)
    step_ms = 1000 * alone
    yield rows.below("live-burst/idle", statistics.median(idle), "ms", round(step_ms, 1),
                     f"median of {len(idle)} changes, most {max(idle):.0f} ms; steps of {step_ms:.0f} ms")
    yield rows.below("live-burst/longest-idle", max(idle), "ms", round(2 * step_ms, 1))
    yield rows.at_least("live-burst/steps", 100 * made * alone / (ended - began), "%", 95,
                        "of the steps that the first job can make in this time")
    yield rows.Row("live-burst/restarts", statistics.median(lost), "ms", "", None,
                     f"lost by each of {restarts} restarts of the first job alone, with a checkpoint, on one machine; its sizes "
                     f"changed {len(sizes) - 1} times; it makes {part:.0f} % of its steps")


def work_for_ten_minutes(seed=1, jobs=20, slots=16, busy=0.8, seconds=500):
    """(arrival in s, seconds of work on one slot, largest size) of each job: arrivals at random, sizes of 4, 8 and 16."""
    random_numbers = random.Random(seed)
    arrivals = sorted(random_numbers.uniform(0, seconds) for _ in range(jobs))
    weights = [random_numbers.uniform(0.3, 1.7) for _ in range(jobs)]
    scale = busy * slots * seconds / sum(weights)
    return [(arrival, weight * scale, random_numbers.choice((4, 8, 16))) for arrival, weight in zip(arrivals, weights)]


def start_s(jobs):
    """From the first lease until the first step began, in the median."""
    to_monotonic = time.monotonic() - time.time()
    leased = {}
    for record in jobs.cluster.journal("leased"):
        if record["slots"]:
            leased.setdefault(record["job"], record["t"] + to_monotonic)
    names = {record["job"]: record["name"] for record in jobs.cluster.journal("submitted")}
    return statistics.median(min(jobs.times(names[job]).values()) - STEP_S - at for job, at in leased.items())


def simulated(jobs, policy, slots, swap_s):
    """The same jobs in the simulator: completion times and changes by job."""
    directory = tempfile.mkdtemp(prefix="simulated-", dir=jobs.cluster.directory)
    jobs.cluster.do("simulate", jobs.cluster.place, "--policy", policy, "--gpus", slots, "--cost", f"swap:{swap_s:.3f}",
                    "--jobs", directory)
    with open(os.path.join(directory, f"test-{policy}-{slots}.csv")) as file:
        return {row["job_id"]: (float(row["jct_s"]), int(row["changes"])) for row in csv.DictReader(file)}


def lived(jobs):
    """Completion times and changes of shares by job, from the cluster's journal."""
    arrivals = {record["job"]: record["unix_s"] for record in jobs.cluster.journal("submitted")}
    changes = dict.fromkeys(arrivals, -1)  # the first share is none
    for record in jobs.cluster.journal("decided"):
        for share in record["shares"]:
            changes[share["job"]] += share["after"] > 0 or share["before"] > 0
    return {f"j{record['job']}": (record["t"] - arrivals[record["job"]], changes[record["job"]])
            for record in jobs.cluster.journal("ended")}


def live_as_trace(repetitions):
    """20 jobs in ten minutes on 16 slots, and the same jobs in the simulator, from the cluster's journal."""
    policy, slots = "afs-l", 16
    with Case() as case:
        jobs = Jobs(case, slots, policy=policy)
        began = time.monotonic()
        plan = work_for_ten_minutes()
        for number, (arrival, work_s, most) in enumerate(plan):
            time.sleep(max(0.0, began + arrival - time.monotonic()))
            jobs.submit(f"job-{number}", 1, most, work_s)
        wait_until(lambda: len(jobs.cluster.journal("ended")) == len(plan), 900, "the end of all jobs", 1)
        swap_s = start_s(jobs)
        real, foretold = lived(jobs), simulated(jobs, policy, slots, swap_s)
    off = {job: 100 * abs(foretold[job][0] / real[job][0] - 1) for job in real}
    mean_real = statistics.mean(jct for jct, _ in real.values())
    mean_foretold = statistics.mean(jct for jct, _ in foretold.values())
    changes = [sum(count for _, count in side.values()) for side in (real, foretold)]
    yield rows.below("live-as-trace/average", 100 * abs(mean_foretold / mean_real - 1), "%", 5,
                     f"{policy}: {mean_real:.1f} s live, {mean_foretold:.1f} s simulated with --cost swap:{swap_s:.2f} (measured)")
    yield rows.below("live-as-trace/each", max(off.values()), "%", 10, f"median {statistics.median(off.values()):.1f} %")
    yield rows.below("live-as-trace/changes", abs(changes[0] - changes[1]), "changes", 0,
                     f"{changes[0]} live and {changes[1]} simulated, of {len(real)} jobs")


def steps_in(jobs, names, seconds):
    """Steps that these jobs make together within so many seconds from now on."""
    began = time.monotonic()
    time.sleep(seconds)
    ended = time.monotonic()
    return sum(1 for name in names for t in jobs.times(name).values() if began < t <= ended)


def live_slices(repetitions):
    """4 jobs on 2 slots in turns of 5 s, beside 2 jobs that have the slots to themselves."""
    slice_s, seconds = 5, 60
    names = [f"job-{number}" for number in range(4)]
    shares = []
    for _ in range(max(1, repetitions)):
        with Case() as case:
            jobs = Jobs(case, 2, policy="gandiva", slice_ms=1000 * slice_s, suspended_per_slot=1)
            for name in names[:2]:
                jobs.submit(name, 1, 1)
                jobs.cluster.wait_workers(name, 1, 60)
            alone = steps_in(jobs, names[:2], seconds)
            for name in names[2:]:
                jobs.submit(name, 1, 1)
            wait_until(lambda: all(jobs.times(name) for name in names), 60, "the first steps of all jobs")
            together = steps_in(jobs, names, seconds)
            shares.append(100 * together / alone)
            jobs.cluster.assert_slots_used_once()
    yield rows.at_least("live-slices", statistics.median(shares), "%", 98,
                        f"of the steps of 2 jobs alone: {rows.spread(shares)}; turns of {slice_s} s in memory, steps of "
                        f"{1000 * STEP_S:.0f} ms, {seconds} s each")


SEEN_LATE_S = 0.3  # until the stand-in for contention has seen that a pair has parted


def pack(slots, verdict, seconds, factor=1):
    """Steps of two jobs within so many seconds: on one slot, once the pair has had its verdict (if it is undone, once it has
    parted, and both have ended the slow step in which they were then), or on two; the decisions about the pair; and the seconds
    until it had parted."""
    names, slice_s = ["job-0", "job-1"], 5
    contention = Contention(factor)
    with Case() as case:
        jobs = Jobs(case, slots, {"ELASTICTRAIN_SLOW_DIR": contention.directory}, policy="gandiva", slice_ms=1000 * slice_s,
                    suspended_per_slot=1, packing=True)
        contention.follow(jobs.cluster)
        try:
            for name in names:
                jobs.submit(name, 1, 1)
            wait_until(lambda: all(jobs.times(name) for name in names), 120, "the first steps of both jobs")
            about = lambda: [share["why"] for record in jobs.cluster.journal("decided") for share in record["shares"]
                             if "packing_" in share["why"] and share.get("before") is not None]
            wait_until(lambda: not verdict or any(verdict in why for why in about()), 240, f"a pair: {verdict}")
            decided = time.monotonic()
            if verdict == "packing_undone":
                wait_until(lambda: not any(job["beside"] for job in jobs.cluster.queue()["jobs"]), 60, "the pair to part", 0.05)
            parting_s = time.monotonic() - decided
            if verdict == "packing_undone":
                time.sleep(factor * STEP_S + SEEN_LATE_S)
            steps = steps_in(jobs, names, seconds)
            jobs.cluster.assert_slots_used_once()
            return steps, about(), parting_s
        finally:
            contention.stop()


def packing(repetitions):
    """A pair that gains (compute that sleeps) and one that loses (5 times slower together) on one slot."""
    seconds, gains, losses, looks, partings = 60, [], [], [], []
    for _ in range(max(1, repetitions)):
        both, _, _ = pack(2, "", seconds)
        kept, _, _ = pack(1, "packing_kept", seconds)
        undone, about, parting_s = pack(1, "packing_undone", seconds, 5)
        partings.append(parting_s)
        gains.append(100 * kept / both)
        losses.append(100 * undone / (both / 2))
        looks.append(int(next(why for why in about if "undone" in why).split("look ")[1].split()[0].strip(";,")))
    yield rows.at_least("packing/gains", statistics.median(gains), "%", 98,
                        f"of the steps of the same jobs on a slot each: {rows.spread(gains)}; kept, {seconds} s each")
    yield rows.below("packing/looks", max(looks), "looks", 3, "until the pair that loses is undone")
    yield rows.at_least("packing/loses", statistics.median(losses), "%", 98,
                        f"of the steps of one job alone: {rows.spread(losses)}; undone, turns of 5 s in memory, once the "
                        f"pair has parted ({rows.spread(partings)} s after the decision) and each has ended its slow step")


def migration(repetitions):
    """Two jobs of one slot on two hosts of two; a job that waits for two slots of one host makes one of them move."""
    firsts, idles, passed = [], [], []
    for _ in range(max(3, repetitions)):
        with Case() as case:
            jobs = Jobs(case, 0, policy="fifo", hosts={"list": ["localhost:2", "127.0.0.1:2"]})
            cluster = jobs.cluster
            for name in ("a", "b", "c", "d"):
                jobs.submit(name, 1, 1)
                cluster.wait_workers(name, 1, 60)
            for name in ("b", "d"):
                cluster.do("cancel", name)
                cluster.wait_job(name, lambda job: job["phase"] == "ended", "the end")
            time.sleep(5)
            jobs.submit("pair", 2, 2, job={"one_host": True})
            cluster.wait_workers("pair", 2, 60)
            to_monotonic = time.monotonic() - time.time()
            moving = cluster.journal("moving")[0]
            began = moving["t"] + to_monotonic
            name = {1: "a", 3: "c"}[moving["job"]]
            records = read_steps(jobs.logs[name])
            old = min(records, key=lambda record: record["t"])["pid"]
            firsts.append(min(record["t"] for record in records if record["pid"] != old) - began)
            leased = next(record for record in cluster.journal("leased") if record["job"] == 5)
            passed.append(leased["t"] + to_monotonic - began)
            times = [t for _, t in sorted(jobs.times(name).items())]
            idles.append((max(swap.gaps([t for t in times if t > began - 2])) - statistics.median(swap.gaps(times))) / STEP_S)
            cluster.assert_slots_used_once()
    yield rows.below("migration/first-step", statistics.median(firsts), "s", 2,
                     f"from the decision to the first step on the new slot: {rows.spread(firsts, 2)}; steps of {STEP_S} s")
    yield rows.below("migration/idle", statistics.median(idles), "steps", 1,
                     f"that the longest step meanwhile is longer than the median one: {rows.spread(idles, 3)}")
    yield rows.below("migration/passed", statistics.median(passed), "s", 2,
                     f"until the job that waited has the slots: {rows.spread(passed, 2)}")


def until_feedback_s(policy, count, slots, **settings):
    """Until the last of so many jobs of a minute has made 20 steps."""
    with Case() as case:
        jobs = Jobs(case, slots, policy=policy, limits={"queued": 100}, **settings)
        began = time.monotonic()
        for number in range(count):
            directory = tempfile.mkdtemp(prefix="checkpoints-", dir=jobs.cluster.directory)
            jobs.submit(f"job-{number}", 1, 1, 60, checkpoint={"directory": directory})
        names = list(jobs.logs)
        wait_until(lambda: all(20 in jobs.times(name) for name in names), 900, "20 steps of every job", 1)
        return max(jobs.times(name)[20] for name in names) - began


def early_feedback(repetitions):
    """24 jobs of a minute on 4 slots: in turns, and one after another."""
    turns = until_feedback_s("gandiva", 24, 4, slice_ms=8000)
    order = until_feedback_s("fifo", 24, 4)
    yield rows.at_least("early-feedback", order / turns, "times", 5,
                        f"sooner: {turns:.0f} s in turns of 8 s by checkpoint, {order:.0f} s with fifo, until each has made 20 steps")


def cluster_restart(repetitions):
    """kill -9 of the cluster in a burst, then of a job's supervisor."""
    taken_up, gaps, restarted = [], [], 0
    for _ in range(max(3, repetitions)):
        with Case() as case:
            jobs = Jobs(case, 8, policy="afs-p")
            cluster = jobs.cluster
            jobs.submit("job-0", 2, 8)
            before = cluster.wait_workers("job-0", 8, 120)
            began = time.monotonic()
            for number in (1, 2):
                jobs.submit(f"job-{number}", 2, 8)
            cluster.kill()
            cluster.start()
            for number in (3,):
                jobs.submit(f"job-{number}", 2, 8)
            after = cluster.wait_workers("job-0", 2, 120)
            supervisor = cluster.job("job-0")["pid"]
            killed = time.monotonic()
            os.kill(supervisor, signal.SIGKILL)
            cluster.wait_job("job-0", lambda job: job["phase"] == "joined" and job["pid"] != supervisor, "a new supervisor")
            taken_up.append(time.monotonic() - killed)
            wait_until(lambda: len(members(cluster.status("job-0"))) == 2, 60, "both workers")
            kept = cluster.wait_workers("job-0", 2, 60)
            time.sleep(1)
            restarted += len(set(after.items()) - set(before.items())) + len(set(kept.items()) - set(after.items()))
            times = jobs.times("job-0")
            steps = swap.gaps([times[step] for step in sorted(times) if times[step] > began])
            gaps.append(max(steps) - statistics.median(steps))
            cluster.assert_slots_used_once()
    yield rows.below("cluster-restart/restarted", restarted, "workers", 0, f"in {len(gaps)} tries; no slot leased twice")
    yield rows.below("cluster-restart/gap", 1000 * max(gaps), "ms", 1000 * STEP_S,
                     f"longest of {rows.spread([1000 * gap for gap in gaps])} ms beyond a step of {1000 * STEP_S:.0f} ms")
    yield rows.below("cluster-restart/taken-up", max(taken_up), "s", 2, f"{rows.spread(taken_up, 2)} s after the supervisor's loss")
