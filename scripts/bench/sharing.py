"""Sharing policies on simulated clusters: published figures, real traces, loads that no constant of a policy was chosen on, and one
decision for a large cluster.

The traces lie outside of the repository: ELASTICTRAIN_TRACES names their folder, whose subfolders are those of the projects that
published them (OWNER+REPOSITORY). Generated clusters need nothing; their seed is the date, so each day has others; ELASTICTRAIN_SEED
gives one."""

import csv
import glob
import io
import math
import os
import random
import resource
import subprocess
import tempfile
from statistics import mean, median

from harness import BINARY
from measure import json_lines, program
from policies import seed
from rows import Unavailable, at_least, below, not_measured, row, shown

VCS = "6214e9,11cb48,6c71a0,b436b2,103959,ee9e8c,0e4a51,ed69ec,7f04ca,2869ce,e13805"
ALL = "fifo,srtf,srsf,max-min,max-min-fluid,drf,tiresias-l,tiresias-g,themis,optimus,afs-l,afs-p,gandiva,worth"
BEATEN = ("fifo", "srtf", "srsf", "max-min", "tiresias-l", "optimus")
TURN_S = 7200  # of AFS-P and max-min, in the time of the trace
SHORTEST_TURN_S = 60
PART = "many jobs, simulated"


def traces(*parts):
    folder = os.environ.get("ELASTICTRAIN_TRACES")
    if not folder:
        raise Unavailable("ELASTICTRAIN_TRACES does not name the folder of the traces (scripts/bench/README.md)")
    path = os.path.join(folder, *parts)
    if not os.path.exists(path):
        raise Unavailable(f"{path} is not there")
    return path


def simulate(files, *arguments):
    command = [BINARY, "simulate", *files, "--csv", *arguments]
    output = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return list(csv.DictReader(io.StringIO(output.stdout)))


def curves():
    return ("--curves", traces("pkusys+ElasticFlow", "ElasticFlow", "scheduler", "throughputs_A100"))


def philly_trace():
    return traces("petuum+adaptdl", "simulator", "traces", "philly.csv")


def philly(*arguments):
    return simulate([philly_trace()], "--vc", VCS, *curves(), *arguments)


def itp(*arguments):
    """The ten production clusters; jobs without models take six curves in turn."""
    return simulate([traces("microsoft+elasticflow-traces", "data", "raw-traces.tar.gz")], *curves(), *arguments)


def all_21(*arguments):
    return philly("--load", "0.9", *arguments) + itp("--load", "0.9", *arguments)


def by_trace(results, field="avg_jct_s"):
    """{trace: {policy: figure}}."""
    table = {}
    for result in results:
        table.setdefault((result["trace"], result["vc"]), {})[result["policy"]] = float(result[field])
    return table


def mean_log(values):
    return math.exp(mean(map(math.log, values)))


# --- Published figures

@row("sim-published", PART, "the 24 runs of Muri's simulator, beside their published figures",
     "72 figures of 24 runs of Muri's simulator within 0.5 %, 70 within 0.01 %")
def sim_published(_):
    metrics = {"avg_jct": "avg_jct_s", "makespan": "makespan_s", "p99_jct": "p99_jct_s"}
    with open(traces("published_results.csv"), newline="") as file:
        published = {(os.path.basename(line["trace"]).removesuffix(".csv"), line["policy"].lower(), metrics[line["metric"]]):
                     float(line["value"]) for line in csv.DictReader(file)
                     if line["trace"].startswith("Rivendile+Muri/simulator") and line["metric"] in metrics}
    folder, errors = traces("Rivendile+Muri", "simulator", "trace-data"), {}
    files = [os.path.join(folder, f"trace{n}{end}.csv") for n in (1, 2, 3, 4) for end in ("", "_pr")]
    for result in simulate(files, "--policy", "srtf,srsf,tiresias-l", "--gpus", "64", "--cost", "muri"):
        for metric in metrics.values():
            key = result["trace"], result["policy"], metric
            errors[key] = 100 * abs(float(result[metric]) / published[key] - 1)
    worst = max(errors, key=errors.get)
    yield below("sim-published/worst", errors[worst], "%", 0.5, f"of {len(errors)} figures: {' '.join(worst)}")
    beyond = [f"{' '.join(key)} {error:.3f} %" for key, error in errors.items() if error > 0.01]
    yield at_least("sim-published/within-0.01", len(errors) - len(beyond), "figures", 70, f"beyond: {'; '.join(beyond) or 'none'}")


# Average completion time in s on workloads 1 to 8 and on workload 6 (results-jobload of the artifact): 60 s rounds, restarts
# of 30 s, placement on 16 nodes; Pollux adapts batches and learns its models on the way; the others run tuned jobs, Tiresias
# in two queues, Optimus with an oracle.
POLLUX = {"pollux": (2751.1, 2446.13), "tiresias-l": (4038.2, 3469.69), "optimus": (5681.9, 5301.88)}


@row("sim-pollux", PART, "Pollux's fitness on its eight workloads, beside the published figures",
     "shown: Pollux's eight workloads on 64 GPUs, restarts of 30 s, beside the published averages: Pollux 2,751 s (workload 6: "
     "2,446), Tiresias 4,038 (3,470), Optimus 5,682 (5,302)")
def sim_pollux(_):
    folder = traces("petuum+adaptdl", "simulator")
    files = [os.path.join(folder, "workloads", f"workload-{number}.csv") for number in range(1, 9)]
    policies = ("pollux", "tiresias-l", "optimus", "afs-l", "worth")
    table = by_trace(simulate(files, "--curves", os.path.join(folder, "traces"), "--gpus", "64", "--cost", "restart:30", "--policy",
                              ",".join(policies)))
    for policy in policies:
        published = "; published {:g} and {:g} s".format(*POLLUX[policy]) if policy in POLLUX else ""
        yield shown(f"sim-pollux/{policy}", mean(jct[policy] for jct in table.values()), "s", "average completion time of 8 workloads; "
                    f"workload-6 {table['workload-6', ''][policy]:.0f} s{published}")
    best = [trace for trace, jct in table.items() if all(jct["pollux"] <= jct[other] for other in ("tiresias-l", "optimus"))]
    yield at_least("sim-pollux/least", len(best), "workloads", len(table), "below Tiresias-L and Optimus")


# --- The published policies on real traces

def leads(name, table):
    best = [trace for trace, jct in table.items() if all(jct["afs-l"] <= jct[other] for other in BEATEN)]
    yield at_least(f"{name}/afs-l-least", len(best), "traces", len(table), "average completion time, of " + " ".join(BEATEN))
    for other in ("srtf", "tiresias-l"):
        found = {trace: jct[other] / jct["afs-l"] for trace, jct in table.items()}
        at = max(found, key=found.get)
        yield shown(f"{name}/lead-over-{other}", found[at], "times", f"the largest, {' '.join(at)}; median {median(found.values()):.2f}")
    yield shown(f"{name}/themis-over-afs-p", max(jct["themis"] / jct["afs-p"] for jct in table.values()), "times",
                "the largest; Themis in its centralised form, which knows lengths", "2.2 (published)")


@row("sim-policies", PART, "all sharing policies on 11 Philly and 10 ITP clusters",
     "AFS-L least on all 21 of `fifo srtf srsf max-min tiresias-l optimus`; leads ≥ 2.67 over SRTF and ≥ 3.11 over Tiresias-L")
def sim_policies(_):
    tables = {"philly-64": by_trace(philly("--policy", ALL, "--gpus", "64")),
              "itp-0.9": by_trace(itp("--policy", ALL, "--load", "0.9"))}
    for name, table in tables.items():
        yield from leads(f"sim-policies/{name}", table)
    both = [jct for table in tables.values() for jct in table.values()]
    for other, target in (("srtf", 2.67), ("tiresias-l", 3.11)):
        yield at_least(f"sim-policies/lead-over-{other}", max(jct[other] / jct["afs-l"] for jct in both), "times", target,
                       "the largest of 21 traces")
    for policy in ALL.split(","):
        yield shown(f"sim-policies/{policy}", mean_log(jct[policy] / jct["afs-l"] for jct in both), "x afs-l",
                    "average completion time, geometric mean of 21")


@row("sim-itp", PART, "69,351 jobs on 2,000 GPUs under AFS-L: time, memory, changes a job",
     "69,351 jobs on 2,000 GPUs under AFS-L: ≤ 20 s, ≤ 256 MiB")
def sim_itp(_):
    mine, srtf = (itp("--merge", "--policy", policy, "--gpus", "2000")[0] for policy in ("afs-l", "srtf"))
    yield below("sim-itp/time", float(mine["wall_s"]), "s", 20, f"{mine['jobs']} jobs, {mine['decisions']} decisions")
    yield below("sim-itp/memory", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024, "MiB", 256)
    ours, theirs = (int(result["changes"]) / int(result["jobs"]) for result in (mine, srtf))
    yield shown("sim-itp/changes", ours, "per job", f"SRTF {theirs:.2f}; "
                "CoDDL reports 6.3 times (up to 22) the changes of non-elastic sharing")


# --- Our own policy on the traces that its constants were chosen on, and what changes cost

def compare(name, mine, others, limits, traces_better):
    """`others`: the policies of which the best by average counts."""
    averages, tails, changes = by_trace(mine), by_trace(mine, "p99_jct_s"), by_trace(mine, "changes")
    best = {trace: min(others, key=lambda policy: jct[policy]) for trace, jct in averages.items()}
    found = [jct["worth"] / jct[best[trace]] for trace, jct in averages.items()]
    most_mean, worst, tail = limits
    yield below(f"{name}/mean", mean_log(found), "x", most_mean, f"geometric mean of {len(found)}, best of {' '.join(others)}")
    yield at_least(f"{name}/better", sum(ratio < 1 for ratio in found), "traces", traces_better)
    yield below(f"{name}/worst", max(found), "x", worst)
    yield below(f"{name}/p99", median(p99["worth"] / p99[best[trace]] for trace, p99 in tails.items()), "x", tail, "median trace")
    yield below(f"{name}/changes", median(count["worth"] / max(1, count[others[0]]) for count in changes.values()), f"x {others[0]}", 1,
                "median trace")


@row("sim-ours", PART, "our own sharing policy against AFS-L, and against the best without lengths",
     {"/known": "lengths known, against AFS-L: better on ≥ 16, nowhere 1.5 % worse, mean ≤ 0.985, p99 ≤ 1.05, fewer changes",
      "/unknown": "not known, against the best of AFS-P, Tiresias-L and max-min by turns of 2 h: ≥ 17, nowhere 2 % worse, mean ≤ "
                  "0.92, p99 ≤ 1, fewer changes than AFS-P",
      "/wrong": "shown: lengths wrong by exp(N(0, 0.5)) and exp(N(0, 1)), over AFS-L with right ones"})
def sim_ours(_):
    swap = ("--cost", "swap")
    yield from compare("sim-ours/known", all_21("--policy", "worth,afs-l", *swap), ("afs-l",), (0.985, 1.015, 1.05), 16)
    unknown = (*swap, "--lengths", "unknown", "--slice", str(TURN_S))
    yield from compare("sim-ours/unknown", all_21("--policy", "worth,afs-p,tiresias-l,max-min", *unknown),
                       ("afs-p", "tiresias-l", "max-min"), (0.92, 1.02, 1), 17)
    right = by_trace(all_21("--policy", "afs-l", *swap))
    for error in ("0.5", "1"):
        wrong = by_trace(all_21("--policy", "worth,afs-l", *swap, "--length-error", error))
        ours, theirs = (mean_log(jct[policy] / right[trace]["afs-l"] for trace, jct in wrong.items()) for policy in ("worth", "afs-l"))
        yield shown(f"sim-ours/wrong-by-{error}", ours, "x", f"lengths wrong by exp(N(0, {error})), over AFS-L with right ones; AFS-L with "
                    f"wrong ones {theirs:.3f}")


@row("sim-restart-price", PART, "what changes cost by swap and by restart, jobs of hours and minutes",
     "swap over none ≤ 0.5 %, and ≤ 10 % with jobs of minutes, where restarts add 5 times that")
def sim_restart_price(_):
    for policy in ("afs-l", "worth"):
        for name, scale, limit in (("hours", (), 0.5), ("minutes", ("--time-scale", "60"), 10)):
            jct = {cost: by_trace(all_21("--policy", policy, "--cost", cost, *scale)) for cost in ("none", "swap", "restart")}
            swap, restart = (median(100 * (jct[cost][trace][policy] / none[policy] - 1) for trace, none in jct["none"].items())
                             for cost in ("swap", "restart"))
            yield below(f"sim-restart-price/{policy}-{name}", swap, "%", limit, f"swap over none, median of 21; restart {restart:.2f} %")
            if name == "minutes":
                yield at_least(f"sim-restart-price/{policy}-restart", restart / max(swap, 1e-9), "x swap", 5,
                               "what restarts add, jobs of minutes")


# --- Loads that no constant was chosen on: generated clusters of 64 slots, Pollux's workloads, Philly shuffled in time, and Philly at a
# time-scale of 300

SLOTS = 64
JOBS = 240
MEAN_LENGTH_S = 4 * 3600
LOADS = (0.5, 0.7, 0.9, 1.1, 1.3)
TIME_SCALES = (60, 300)
REQUESTS = (1, 1, 1, 2, 2, 4, 4, 8, 8, 16)
COMPARED = {"known": ("afs-l",), "unknown": ("afs-p", "tiresias-l", "max-min")}
LIMITS = {"known": (1.00, 0.97), "unknown": (1.01, 0.95)}  # of each set, of all
TAIL_LIMIT = 1.02


def lognormal(sigma):
    return lambda rng: rng.lognormvariate(-sigma * sigma / 2, sigma)


LENGTHS = {"lognormal-0.5": lognormal(0.5), "lognormal-1.5": lognormal(1.5), "lognormal-2.5": lognormal(2.5),
           "pareto-1.5": lambda rng: rng.paretovariate(1.5) / 3}  # each of mean 1
CURVES = {"power-0.3": lambda slots: slots**0.3, "linear": float, "steps-of-8": lambda slots: max(1.0, slots // 8 * 8.0)}


def write_csv(path, lines):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(lines)
    return path


def jobs_of(rng, length, curve, load):
    """(arrival_s, work, requested): Poisson arrivals, of which the span makes the load exact."""
    requests = [rng.choice(REQUESTS) for _ in range(JOBS)]
    lengths_s = [MEAN_LENGTH_S * length(rng) for _ in range(JOBS)]
    gaps = [rng.expovariate(1) for _ in range(JOBS)]
    offered_slot_s = sum(request * length_s for request, length_s in zip(requests, lengths_s))
    gap_s = offered_slot_s / (SLOTS * load) / sum(gaps)
    arrival_s = 0.0
    for request, length_s, gap in zip(requests, lengths_s, gaps):
        yield arrival_s, length_s * curve(request), request
        arrival_s += gap * gap_s


def write_cluster(folder, rng, length, curve, load):
    os.makedirs(folder)
    write_csv(os.path.join(folder, "curves.csv"), [("curve", "gpus", "iterations_per_s"),
                                                   *(("curve", slots, curve(slots)) for slots in range(1, SLOTS + 1))])
    write_csv(os.path.join(folder, "jobs.csv"), [("job_id", "arrival_s", "work_iterations", "requested_gpus", "curve"),
                                                 *((number, *job, "curve") for number, job in enumerate(jobs_of(rng, length, curve, load)))])
    return folder


def write_philly_shuffled(folder, chosen):
    """Philly's jobs at each other's times of arrival, within their virtual cluster."""
    with open(philly_trace(), newline="") as file:
        lines = list(csv.DictReader(file))
    rng = random.Random(f"{seed()} philly {chosen}")
    by_vc = {}
    for line in lines:
        by_vc.setdefault(line["cluster"], []).append(line["timestamp"])
    for times in by_vc.values():
        rng.shuffle(times)
    for line in lines:
        line["timestamp"] = by_vc[line["cluster"]].pop()
    return write_csv(os.path.join(folder, f"philly-{chosen}.csv"), [list(lines[0]), *(line.values() for line in lines)])


def pairs_of(files, lengths, arguments, time_scale=1):
    """For each trace: worth over the best of the compared, in the average completion time, and in its p99 over that one's."""
    others = COMPARED[lengths]
    results = simulate(files, "--cost", "swap", "--lengths", lengths, "--time-scale", str(time_scale), "--slice",
                       str(max(SHORTEST_TURN_S, TURN_S / time_scale)), "--policy", ",".join(("worth", *others)), *arguments)
    pairs = []
    for first in range(0, len(results), 1 + len(others)):
        one = {result["policy"]: result for result in results[first:first + 1 + len(others)]}
        best = min(others, key=lambda policy: float(one[policy]["avg_jct_s"]))
        pairs.append(tuple(float(one["worth"][field]) / float(one[best][field]) for field in ("avg_jct_s", "p99_jct_s")))
    return pairs


def generated_sets(lengths, folder):
    for law, length in LENGTHS.items():
        for shape, curve in CURVES.items():
            name = f"{law}-{shape}"
            files = [write_cluster(os.path.join(folder, name, f"load-{load}"), random.Random(f"{seed()} {name} {load}"), length, curve,
                                   load) for load in LOADS]
            yield name, [pair for scale in TIME_SCALES for pair in pairs_of(files, lengths, ("--gpus", str(SLOTS)), scale)]


def published_sets(lengths, folder):
    pollux = traces("petuum+adaptdl", "simulator")
    for name in ("workloads-0.5", "workloads", "workloads-1.5", "workloads-2.0", "workloads-realistic"):
        files = sorted(glob.glob(os.path.join(pollux, name, "*.csv")))
        yield f"pollux-{name}", pairs_of(files, lengths, ("--gpus", str(SLOTS), "--curves", os.path.join(pollux, "traces")))
    arguments = ("--vc", VCS, "--load", "0.9", *curves())
    yield "philly-shuffled", pairs_of([write_philly_shuffled(folder, chosen) for chosen in (1, 2, 3)], lengths, arguments)
    yield "philly-time-scale-300", pairs_of([philly_trace()], lengths, arguments, 300)


@row("sim-held-out", PART, "our own sharing policy on loads that no constant was chosen on",
     "with lengths ≤ 1.00 of each set and ≤ 0.97 of all, without ≤ 1.01 and ≤ 0.95; p99 of all ≤ 1.02")
def sim_held_out(_):
    yield shown("sim-held-out/seed", None, "", f"ELASTICTRAIN_SEED={seed()}")
    for lengths, (each, of_all) in LIMITS.items():
        name, every = f"sim-held-out/{lengths}", []
        with tempfile.TemporaryDirectory() as folder:
            sets = list(generated_sets(lengths, folder))
            try:
                sets += published_sets(lengths, folder)
            except Unavailable as reason:
                yield not_measured(f"{name}/published", reason)
        for label, pairs in sets:
            every += pairs
            averages, tails = zip(*pairs)
            yield below(f"{name}/{label}", mean_log(averages), "x", each, f"{len(pairs)} traces, best of {' '.join(COMPARED[lengths])}; "
                        f"worst {max(averages):.3f}; p99 {mean_log(tails):.3f}")
        averages, tails = zip(*every)
        yield below(f"{name}/all", mean_log(averages), "x", of_all, f"{len(every)} traces")
        yield below(f"{name}/all-p99", mean_log(tails), "x", TAIL_LIMIT)


# --- One decision

@row("round-16k", PART, "one decision for 4,000 jobs with 100,000 workers on 16,000 hosts, placement included",
     "4,000 jobs, 100,000 workers, 16,000 hosts: ≤ 50 ms from nothing and after an arrival, nobody moves whose size stays")
def round_16k(_):
    for one in json_lines(program("sharing", "sharing_bench")):
        name = f"round-16k/{one['policy']}"
        yield below(name, one["first_ms"], "ms", 50,
                    f"{one['workers']} workers placed, {one['unplaced']} not; decision {one['first_policy_ms']:.1f} ms")
        yield below(f"{name}-arrival", one["next_ms"], "ms", 50,
                    f"moved though their size stays: {one['moved']}; {one['next_unplaced']} slots not placed")
        yield below(f"{name}-moved", one["moved"], "jobs", 0)
