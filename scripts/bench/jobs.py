"""Many jobs on a live cluster: the real cluster process with real runs, whose compute sleeps or whose programs sleep while they start
and in place of computing."""

import concurrent.futures
import csv
import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from statistics import mean, median

import rows
from cluster_lab import Cluster, Contention
from harness import BINARY, MARK, Run, members, read_steps, synthetic, toml, wait_until
from measure import Cleanups, gaps, hosts, ordered, step_times
from rows import at_least, below, row, shown, spread

STEP_S = 0.25
PART = "many jobs, live"


def sleeping(low, high, seconds=3600, **sections):
    """A job that takes so many seconds on one worker."""
    trainer = synthetic(compute_us_per_sample=int(STEP_S * 1e6 / 8), samples=int(8 * seconds / STEP_S), epochs=1, gradient="constant")
    return {"workers": {"min": low, "start": low, "max": high}, "batch": {"per_worker": 8}, "trainer": trainer,
            "audit": {"every_steps": 0}, **sections}


def to_monotonic():
    """What turns a time of a journal into one of the step logs."""
    return time.monotonic() - time.time()


class Jobs:
    """Real jobs of one cluster, each with its own log of steps."""

    def __init__(self, case, slots, environment=None, **settings):
        self.cluster = Cluster(case, slots=slots, **settings)
        self.cluster.environment.update(environment or {})
        self.cluster.start()
        self.logs = {}

    def submit(self, name, config, words=(), **variables):
        steps = self.logs[name] = tempfile.mkdtemp(prefix="steps-", dir=self.cluster.directory)
        path = self.cluster.write(name + ".toml", toml(config))
        environment = {**self.cluster.environment, "ELASTICTRAIN_STEP_LOG": steps, **variables}
        subprocess.run([BINARY, "submit", path, "--name", name, *self.cluster.of_workers(environment), *words], check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment)

    def submit_each(self, arrivals, config_of):
        """job-0 and so on, each at its second from now on."""
        began = time.monotonic()
        for number, arrival in enumerate(arrivals):
            time.sleep(max(0.0, began + arrival - time.monotonic()))
            self.submit(f"job-{number}", config_of(number))

    def wait_ended(self, interval=1):
        wait_until(lambda: len(self.cluster.journal("ended")) == len(self.logs), 900, "the end of all jobs", interval)

    def wait_first_steps(self):
        wait_until(lambda: all(self.times(name) for name in self.logs), 120, "the first steps of all jobs")

    def times(self, name):
        return step_times(read_steps(self.logs[name]))

    def ordered(self, name):
        return ordered(read_steps(self.logs[name]))

    def steps_in(self, names, seconds):
        """Steps that these jobs make together within so many seconds from now on."""
        began = time.monotonic()
        time.sleep(seconds)
        ended = time.monotonic()
        return sum(began < t <= ended for name in names for t in self.ordered(name))

    def idle_ms(self, name):
        with open(os.path.join(self.cluster.state, name, "journal.jsonl")) as file:
            return [record["idle_ms"] for record in map(json.loads, file) if record["event"] == "idle"]


# --- Beside the simulator

@row("live-predicted", PART, "the jobs of two live clusters, every policy, and what the simulator predicts from their journals",
     "two loads of 7 jobs on 4 and 5 slots of a live cluster, 10 policies each, and what `simulate --journal` predicts from the "
     "cluster's own journal: each job's completion time within 10 %, every job given the same sizes in the same order")
def live_predicted(repetitions):
    for name, load in PREDICTED.items():
        for policy, results in under_each_policy(load, replay, repetitions).items():
            worst = max((one[0] for one in results), key=abs)
            equal, of = (sum(one[place] for one in results) for place in (1, 2))
            label = f"live-predicted/{name}/{policy}"
            yield below(label, abs(worst), "%", 10, f"{worst:+.1f} % is the largest difference of a job")
            yield at_least(f"{label}-sizes", 100 * equal / of, "%", 100, f"{equal} of {of} changes of a job's size as live")


def replay(jobs, _):
    """Of the jobs, the largest difference in percent; the changes of sizes that are as they were, and all."""
    out = subprocess.run([BINARY, "simulate", "--journal", jobs.cluster.place, "--json"], check=True, capture_output=True,
                         stdin=subprocess.DEVNULL, text=True).stdout
    result = json.loads(out)[0]
    differences = [100 * (job["predicted_s"] / job["live_s"] - 1) for job in result["jobs"]]
    return max(differences, key=abs), result["sizes_as_live"], result["sizes"]


@row("live-as-trace", PART, "20 jobs in ten minutes on 16 slots of a live cluster, and what the simulator says of them",
     "20 jobs in ten minutes on 16 slots, AFS-L, and the same jobs in the simulator, from the cluster's journal: average "
     "completion within 5 %, each within 10 %, as many changes")
def live_as_trace(_):
    policy, slots = "afs-l", 16
    plan = work_for_ten_minutes()
    with Cleanups() as case:
        jobs = Jobs(case, slots, policy=policy)
        jobs.submit_each([arrival for arrival, _, _ in plan], lambda number: sleeping(1, plan[number][2], plan[number][1]))
        jobs.wait_ended()
        swap_s = start_s(jobs)
        real, foretold = lived(jobs), simulated(jobs, policy, slots, swap_s)
    off = [100 * abs(foretold[job][0] / real[job][0] - 1) for job in real]
    mean_real, mean_foretold = (mean(jct for jct, _ in side.values()) for side in (real, foretold))
    changes = [sum(count for _, count in side.values()) for side in (real, foretold)]
    yield below("live-as-trace/average", 100 * abs(mean_foretold / mean_real - 1), "%", 5,
                f"{policy}: {mean_real:.1f} s live, {mean_foretold:.1f} s simulated with --cost swap:{swap_s:.2f} (measured)")
    yield below("live-as-trace/each", max(off), "%", 10, f"median {median(off):.1f} %")
    yield below("live-as-trace/changes", abs(changes[0] - changes[1]), "changes", 0,
                f"{changes[0]} live and {changes[1]} simulated, of {len(real)} jobs")


def work_for_ten_minutes(jobs=20, slots=16, busy=0.8, seconds=500):
    """(arrival in s, seconds of work on one slot, largest size) of each job: arrivals at random, sizes of 4, 8 and 16."""
    choice = random.Random(1)
    arrivals = sorted(choice.uniform(0, seconds) for _ in range(jobs))
    weights = [choice.uniform(0.3, 1.7) for _ in range(jobs)]
    scale = busy * slots * seconds / sum(weights)
    return [(arrival, weight * scale, choice.choice((4, 8, 16))) for arrival, weight in zip(arrivals, weights)]


def start_s(jobs):
    """From the first lease until the first step began, in the median."""
    leased = {}
    for record in jobs.cluster.journal("leased"):
        if record["slots"]:
            leased.setdefault(record["job"], record["t"] + to_monotonic())
    names = {record["job"]: record["name"] for record in jobs.cluster.journal("submitted")}
    return median(jobs.ordered(names[job])[0] - STEP_S - at for job, at in leased.items())


def simulated(jobs, policy, slots, swap_s):
    """The same jobs in the simulator: completion times and changes by job."""
    directory = tempfile.mkdtemp(prefix="simulated-", dir=jobs.cluster.directory)
    jobs.cluster.do("simulate", jobs.cluster.place, "--policy", policy, "--gpus", slots, "--cost", f"swap:{swap_s:.3f}",
                    "--jobs", directory)
    with open(os.path.join(directory, f"test-{policy}-{slots}.csv")) as file:
        return {line["job_id"]: (float(line["jct_s"]), int(line["changes"])) for line in csv.DictReader(file)}


def completion_s(cluster):
    """By job."""
    arrivals = {record["job"]: record["unix_s"] for record in cluster.journal("submitted")}
    return {record["job"]: record["t"] - arrivals[record["job"]] for record in cluster.journal("ended")}


def lived(jobs):
    """Completion times and changes of shares by job, from the cluster's journal."""
    times = completion_s(jobs.cluster)
    changes = dict.fromkeys(times, -1)  # the first share is none
    for record in jobs.cluster.journal("decided"):
        for share in record["shares"]:
            changes[share["job"]] += share["after"] > 0 or share["before"] > 0
    return {f"j{job}": (jct, changes[job]) for job, jct in times.items()}


# --- Small jobs whose workers start slowly, under every policy. The jobs are Python programs without PyTorch

SAMPLE_S, BATCH = 0.0625, 4
POLICIES = ("fifo", "srtf", "tiresias-l", "max-min", "themis", "optimus", "afs-l", "afs-p", "gandiva", "worth")
AT_ONCE = 2  # clusters beside each other; their jobs sleep


@dataclasses.dataclass
class Load:
    """Jobs of a cluster: when each arrives, how long it is on one slot, and the most slots that it can use."""

    jobs: tuple
    slots: int = 4
    start_s: float = 3.0
    slower: float = 0.0  # a step takes this part longer for each worker beside the first


def small(gap_s):
    return Load(tuple((number * gap_s, length_s, 4) for number, length_s in enumerate((12, 20, 8, 28, 10, 16, 24))))


PREDICTED = {
    "small": small(1.0),
    # Jobs of other lengths and bounds that arrive irregularly, start faster, and gain less from each slot.
    "mixed": Load(((0, 30, 3), (6, 12, 2), (8, 44, 4), (15, 20, 4), (16, 26, 1), (23, 14, 3), (24, 34, 2)),
                  slots=5, start_s=1.2, slower=0.15),
}


def under_each_policy(load, look, repetitions):
    """{policy: what `look` finds in each cluster whose jobs have ended under it}."""
    def run(policy):
        with Cleanups() as case:
            jobs = Jobs(case, load.slots, {"PYTHONPATH": rows.PACKAGE, "PYTHONDONTWRITEBYTECODE": "1"}, policy=policy)

            def config_of(number):
                _, length_s, most = load.jobs[number]
                program = [sys.executable, os.path.join(rows.PROGRAMS, "sleeper.py"), "--start-s", str(load.start_s), "--sample-s",
                           str(SAMPLE_S), "--slower", str(load.slower), "--samples", str(int(length_s / SAMPLE_S)), "--epochs", "1"]
                return {"workers": {"min": 1, "start": 1, "max": most}, "command": program, "batch": {"per_worker": BATCH},
                        "audit": {"every_steps": 0},
                        "checkpoint": {"directory": tempfile.mkdtemp(prefix="checkpoints-", dir=jobs.cluster.directory)}}

            jobs.submit_each([arrival_s for arrival_s, _, _ in load.jobs], config_of)
            jobs.wait_ended(0.5)
            failed = [record for record in jobs.cluster.journal("ended") if record["status"] != 0]
            if failed:
                raise RuntimeError(f"{policy}: jobs failed: {failed}")
            jobs.cluster.assert_slots_used_once()
            return look(jobs, load)

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        found = {policy: [pool.submit(run, policy) for _ in range(max(1, repetitions))] for policy in POLICIES}
        return {policy: [one.result() for one in futures] for policy, futures in found.items()}


def figures(jobs, load):
    """(mean completion time in s, % of the slots' time that trains, changes of shares)."""
    held_s = sum(record["slot_s"] for record in jobs.cluster.journal("ended"))
    changes = sum(len(record["shares"]) for record in jobs.cluster.journal("decided"))
    return mean(completion_s(jobs.cluster).values()), 100 * sum(length_s for _, length_s, _ in load.jobs) / held_s, changes


@row("live-small", PART, "7 small jobs that start slowly on 4 slots of a live cluster, every policy: slots that train",
     "7 Python programs that start in 3 s, of 8 to 28 s on one slot, one and two seconds apart, on 4 slots: of the slots' time ≥ "
     "75 % trains, `worth` ≤ 1.05 times the best mean completion time")
def live_small(repetitions):
    for gap_s in (1.0, 2.0):  # between arrivals: a third and two thirds of a worker's start
        found = under_each_policy(small(gap_s), figures, repetitions)
        times = {policy: median(one[0] for one in ones) for policy, ones in found.items()}
        best, name = min(times, key=times.get), f"live-small/{gap_s:g}s"
        for policy, ones in found.items():
            yield at_least(f"{name}/{policy}-trains", median(one[1] for one in ones), "%", 75,
                           f"of the slots' time; mean completion {times[policy]:.1f} s, {ones[0][2]} changes of shares")
        yield below(f"{name}/worth", times["worth"] / times[best], "times", 1.05, f"of the best, {best}: {times[best]:.1f} s")


# --- A burst

@row("live-burst", PART, "30 submissions in 10 s on 16 slots of a live cluster: idle time, steps of the first job",
     "30 submissions in 10 s on 16 slots of 4 hosts (namespaces with sshd), steps of 250 ms, AFS-P: idle ≤ 1 step a change in the "
     "median, ≤ 2 at most; the first job makes ≥ 95 % of its steps")
def live_burst(_):
    """The first job gives its slots to the others, one after another. Beside it the first job's sizes once more, by restarts."""
    with hosts(4) as lab, Cleanups() as case:
        jobs = Jobs(case, 4, policy="afs-p", limits={"queued": 100}, lab=lab)
        jobs.submit("job-0", sleeping(1, 16))
        jobs.cluster.wait_workers("job-0", 16, 120)
        began = time.monotonic()
        for number in range(1, 30):
            time.sleep(max(0.0, began + number / 3 - time.monotonic()))
            jobs.submit(f"job-{number}", sleeping(1, 16))
        time.sleep(10)
        ended = time.monotonic()
        times = jobs.ordered("job-0")
        made, alone = sum(began < t < ended for t in times), median(gaps(times))
        idle = [ms for name in jobs.logs if jobs.cluster.job(name)["slots"] for ms in jobs.idle_ms(name)]
        jobs.cluster.assert_slots_used_once()
        sizes = [(0, 16)] + [(record["t"] + to_monotonic() - began, share["after"]) for record in jobs.cluster.journal("decided")
                             for share in record["shares"] if share["job"] == 1 and record["t"] + to_monotonic() > began]
    part, lost, restarts = restarted(sizes, ended - began)
    step_ms = 1000 * alone
    yield below("live-burst/idle", median(idle), "ms", round(step_ms, 1),
                f"median of {len(idle)} changes, most {max(idle):.0f} ms; steps of {step_ms:.0f} ms")
    yield below("live-burst/longest-idle", max(idle), "ms", round(2 * step_ms, 1))
    yield at_least("live-burst/steps", 100 * made * alone / (ended - began), "%", 95,
                   "of the steps that the first job can make in this time")
    yield shown("live-burst/restarts", median(lost), "ms",
                f"lost by each of {restarts} restarts of the first job alone, with a checkpoint, on one machine; its sizes changed {len(sizes) - 1} times; it makes {part:.0f} % of its steps")


def restarted(sizes, seconds):
    """A job that ends with a checkpoint, and begins anew from it, where its size changes: what is done without elastictrain. Its hosts
    are this machine alone, and its program starts in some milliseconds. `sizes`: (s, size) as they changed. The part of the steps that
    were possible in %, what each restart cost in ms, and how many there were."""
    runs, size = [], 0
    with Cleanups() as case:
        directory = case.enter_context(tempfile.TemporaryDirectory(prefix="restarted-"))

        def times():
            return sorted(t for run in runs for t in ordered(run.steps()))

        began = None
        while began is None or time.monotonic() - began < seconds:
            due = [new for at, new in sizes if at <= (time.monotonic() - began if began else 0)]
            if due[-1] != size:
                size = due[-1]
                for run in runs[-1:]:
                    run.signal(signal.SIGTERM)
                    run.wait(60)
                runs.append(Run(sleeping(size, size, 36_000, hosts={"list": ["localhost:16"]},
                                         checkpoint={"directory": directory, "interval_steps": 1000, "adopt": True})).start())
                case.callback(runs[-1].kill)
            if began is None:
                wait_until(lambda: len(times()) > 3, 60, "its first steps")
                began = time.monotonic()
            time.sleep(0.05)
        ended = time.monotonic()
        made = [t for t in times() if began < t < ended]
    lost = [1000 * (gap - STEP_S) for gap in gaps(made) if gap > 1.2 * STEP_S]
    return 100 * len(made) * STEP_S / (ended - began), lost, len(runs) - 1


# --- Turns, pairs, moves

@row("live-slices", PART, "4 jobs on 2 slots of a live cluster in turns of 5 s: steps of all together",
     "4 jobs on 2 slots, turns of 5 s: steps of all together ≥ 98 % of those of 2 jobs alone")
def live_slices(repetitions):
    """Beside 2 jobs that have the slots to themselves."""
    slice_s, seconds, shares = 5, 60, []
    for _ in range(max(1, repetitions)):
        with Cleanups() as case:
            jobs = Jobs(case, 2, policy="gandiva", slice_ms=1000 * slice_s, suspended_per_slot=1)
            for name in ("job-0", "job-1"):
                jobs.submit(name, sleeping(1, 1))
                jobs.cluster.wait_workers(name, 1, 60)
            alone = jobs.steps_in(list(jobs.logs), seconds)
            for name in ("job-2", "job-3"):
                jobs.submit(name, sleeping(1, 1))
            jobs.wait_first_steps()
            shares.append(100 * jobs.steps_in(jobs.logs, seconds) / alone)
            jobs.cluster.assert_slots_used_once()
    yield at_least("live-slices", shares, "%", 98, f"of the steps of 2 jobs alone; turns of {slice_s} s in memory, steps of "
                   f"{1000 * STEP_S:.0f} ms, {seconds} s each")


SEEN_LATE_S = 0.3  # until the stand-in for contention has seen that a pair has parted


def pack(slots, verdict, seconds, factor=1):
    """Steps of two jobs within so many seconds: on one slot, once the pair has had its verdict (if it is undone, once it has
    parted, and both have ended the slow step in which they were then), or on two; the decisions about the pair; and the seconds
    until it had parted."""
    contention = Contention(factor)
    with Cleanups() as case:
        jobs = Jobs(case, slots, {"ELASTICTRAIN_SLOW_DIR": contention.directory}, policy="gandiva", slice_ms=5000,
                    suspended_per_slot=1, packing=True)
        contention.follow(jobs.cluster)
        case.callback(contention.stop)
        for name in ("job-0", "job-1"):
            jobs.submit(name, sleeping(1, 1))
        jobs.wait_first_steps()
        about = lambda: [share["why"] for record in jobs.cluster.journal("decided") for share in record["shares"]
                         if "packing_" in share["why"] and share.get("before") is not None]
        wait_until(lambda: not verdict or any(verdict in why for why in about()), 240, f"a pair: {verdict}")
        decided = time.monotonic()
        if verdict == "packing_undone":
            wait_until(lambda: not any(job["beside"] for job in jobs.cluster.queue()["jobs"]), 60, "the pair to part", 0.05)
        parting_s = time.monotonic() - decided
        if verdict == "packing_undone":
            time.sleep(factor * STEP_S + SEEN_LATE_S)
        steps = jobs.steps_in(jobs.logs, seconds)
        jobs.cluster.assert_slots_used_once()
        return steps, about(), parting_s


@row("packing", PART, "two jobs in one slot of a live cluster: a pair that gains is kept, one that loses is undone",
     "two jobs in one slot, with `packing`: a pair that gains is kept, one that loses (computes 5 times longer while both work) is "
     "undone within 3 looks; together ≥ 98 % of the better way")
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
    yield at_least("packing/gains", gains, "%", 98, f"of the steps of the same jobs on a slot each; kept, {seconds} s each")
    yield below("packing/looks", max(looks), "looks", 3, "until the pair that loses is undone")
    yield at_least("packing/loses", losses, "%", 98, "of the steps of one job alone; undone, turns of 5 s in memory, once the pair has "
                   f"parted ({spread(partings)} s after the decision) and each has ended its slow step")


@row("migration", PART, "a job of one slot moves to another host to make room: until its first step there, and its idle steps",
     "a job of one slot moves to another host, to make room for one that asks for two slots of one host: first step there ≤ 2 s "
     "after the decision (Gandiva: 1–2 s), idle ≤ 1 step")
def migration(repetitions):
    """Two jobs of one slot on two hosts of two; a job that waits for two slots of one host makes one of them move."""
    firsts, idles, passed = [], [], []
    for _ in range(max(3, repetitions)):
        with Cleanups() as case:
            jobs = Jobs(case, 0, policy="fifo", hosts={"list": ["localhost:2", "127.0.0.1:2"]})
            cluster = jobs.cluster
            for name in ("a", "b", "c", "d"):
                jobs.submit(name, sleeping(1, 1))
                cluster.wait_workers(name, 1, 60)
            for name in ("b", "d"):
                cluster.do("cancel", name)
                cluster.wait_job(name, lambda job: job["phase"] == "ended", "the end")
            time.sleep(5)
            jobs.submit("pair", sleeping(2, 2, job={"one_host": True}))
            cluster.wait_workers("pair", 2, 60)
            moving = cluster.journal("moving")[0]
            began = moving["t"] + to_monotonic()
            records = read_steps(jobs.logs[{1: "a", 3: "c"}[moving["job"]]])
            firsts.append(min(record["t"] for record in records if record["pid"] != records[0]["pid"]) - began)
            leased = next(record for record in cluster.journal("leased") if record["job"] == 5)
            passed.append(leased["t"] - moving["t"])
            times = ordered(records)
            idles.append((max(gaps([t for t in times if t > began - 2])) - median(gaps(times))) / STEP_S)
            cluster.assert_slots_used_once()
    yield below("migration/first-step", firsts, "s", 2, f"from the decision to the first step on the new slot; steps of {STEP_S} s")
    yield below("migration/idle", idles, "steps", 1, "that the longest step meanwhile is longer than the median one")
    yield below("migration/passed", passed, "s", 2, "until the job that waited has the slots")


# --- Searches

RATES = (1.0, 0.00001, 0.03, 0.3, 0.0001, 0.1, 0.01, 0.001, 0.6)
BEST = "rates-7"


def searched_s(rule, **settings):
    """Until the best setting is known: all others have been stopped or have ended. And until it has trained to its end."""
    with Cleanups() as case:
        cluster = Cluster(case, slots=2, **settings)
        cluster.environment.update(PYTHONPATH=rows.PACKAGE, PYTHONDONTWRITEBYTECODE="1", ELASTICTRAIN_LIBRARY=rows.LIBRARY)
        cluster.start()
        program = [sys.executable, os.path.join(rows.ROOT, "tests", "system", "sweep_program.py"), "--rate={rate}", "--epochs=27",
                   "--steps=60"]  # of 10 ms
        path = cluster.write("sweep.toml", toml({
            "name": "rates", "arguments": ["-n", "1:2", "--start", "1", "-x", MARK, "--", *program], "goal": "max",
            "metric": "accuracy", "parameters": {"rate": list(RATES)}, "stop": {"rule": rule}}))
        began = time.monotonic()
        search = subprocess.Popen([BINARY, "sweep", path, "--cluster", cluster.place + "/"], env=cluster.environment,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        case.callback(search.kill)
        left, known_s, text = set(range(1, len(RATES) + 1)), None, ""
        for line in search.stdout:
            text += line
            words = line.split()
            if len(words) > 1 and words[0].startswith("rates-") and (words[1:3] == ["is", "stopped:"] or words[1] == "ended"):
                left.discard(int(words[0].removeprefix("rates-")))
            if known_s is None and len(left) <= (1 if rule == "halving" else 0):
                known_s = time.monotonic() - began
        if search.wait() != 0 or f"best: {BEST} " not in text:
            raise RuntimeError(text)
        return known_s, time.monotonic() - began


@row("sweep", PART, "9 settings of a program on 2 slots until the best one is known: stopped early in turns, and by fifo",
     "9 settings of a program (17 s each on one worker) on 2 slots until the best one is known, halving in turns in memory: ≥ 3 "
     "times sooner than all of them with `fifo`")
def sweep(_):
    early, whole = searched_s("halving", policy="gandiva", slice_ms=1000, suspended_per_slot=5)
    order, _ = searched_s("none", policy="fifo")
    yield at_least("sweep", order / early, "times", 3, f"sooner: the best of {len(RATES)} settings is known after {early:.0f} s (and has "
                   f"trained to its end after {whole:.0f} s) with halving in turns of 1 s, after {order:.0f} s with fifo")


def until_feedback_s(policy, **settings):
    """Until the last of 24 jobs of a minute on 4 slots has made 20 steps."""
    with Cleanups() as case:
        jobs = Jobs(case, 4, policy=policy, limits={"queued": 100}, **settings)
        began = time.monotonic()
        for number in range(24):
            directory = tempfile.mkdtemp(prefix="checkpoints-", dir=jobs.cluster.directory)
            jobs.submit(f"job-{number}", sleeping(1, 1, 60, checkpoint={"directory": directory}))
        wait_until(lambda: all(20 in jobs.times(name) for name in jobs.logs), 900, "20 steps of every job", 1)
        return max(jobs.times(name)[20] for name in jobs.logs) - began


@row("early-feedback", PART, "24 jobs of a minute on 4 slots until each has made 20 steps: in turns and by fifo",
     "24 jobs of a minute on 4 slots until each has made 20 steps: ≥ 5 times sooner than `fifo`")
def early_feedback(_):
    turns, order = until_feedback_s("gandiva", slice_ms=8000), until_feedback_s("fifo")
    yield at_least("early-feedback", order / turns, "times", 5,
                   f"sooner: {turns:.0f} s in turns of 8 s by checkpoint, {order:.0f} s with fifo, until each has made 20 steps")


# --- Losses of the cluster

@row("cluster-restart", PART, "kill -9 of the cluster in a burst and of a job's supervisor",
     "kill -9 of the cluster in a burst, then of a job's supervisor: no worker restarted, no slot leased twice, no gap over 1 "
     "step; taken up ≤ 2 s")
def cluster_restart(repetitions):
    taken_up, longest, restarts = [], [], 0
    for _ in range(max(3, repetitions)):
        with Cleanups() as case:
            jobs = Jobs(case, 8, policy="afs-p")
            cluster = jobs.cluster
            jobs.submit("job-0", sleeping(2, 8))
            before = cluster.wait_workers("job-0", 8, 120)
            began = time.monotonic()
            for number in (1, 2):
                jobs.submit(f"job-{number}", sleeping(2, 8))
            cluster.kill()
            cluster.start()
            jobs.submit("job-3", sleeping(2, 8))
            after = cluster.wait_workers("job-0", 2, 120)
            supervisor = cluster.job("job-0")["pid"]
            killed = time.monotonic()
            os.kill(supervisor, signal.SIGKILL)
            cluster.wait_job("job-0", lambda job: job["phase"] == "joined" and job["pid"] != supervisor, "a new supervisor")
            taken_up.append(time.monotonic() - killed)
            wait_until(lambda: len(members(cluster.status("job-0"))) == 2, 60, "both workers")
            kept = cluster.wait_workers("job-0", 2, 60)
            time.sleep(1)
            restarts += len(set(after.items()) - set(before.items())) + len(set(kept.items()) - set(after.items()))
            steps = gaps([t for t in jobs.ordered("job-0") if t > began])
            longest.append(max(steps) - median(steps))
            cluster.assert_slots_used_once()
    yield below("cluster-restart/restarted", restarts, "workers", 0, f"in {len(longest)} tries; no slot leased twice")
    yield below("cluster-restart/gap", 1000 * max(longest), "ms", 1000 * STEP_S,
                f"longest of {spread([1000 * gap for gap in longest])} ms beyond a step of {1000 * STEP_S:.0f} ms")
    yield below("cluster-restart/taken-up", max(taken_up), "s", 2, f"{spread(taken_up)} s after the supervisor's loss")
