"""Sharing policies on simulated clusters: published figures, real traces, and one decision for a large cluster.

The traces lie outside of the repository: ELASTICTRAIN_TRACES names their folder, whose subfolders are those of the
projects that published them (OWNER+REPOSITORY)."""

import csv
import io
import json
import math
import os
import resource
import statistics
import subprocess

import rows
from communicator import program

VCS = "6214e9,11cb48,6c71a0,b436b2,103959,ee9e8c,0e4a51,ed69ec,7f04ca,2869ce,e13805"
ALL = "fifo,srtf,srsf,max-min,max-min-fluid,drf,tiresias-l,tiresias-g,themis,optimus,afs-l,afs-p,gandiva,worth"
BEATEN = ("fifo", "srtf", "srsf", "max-min", "tiresias-l", "optimus")
SLICE_S = "7200"
BINARY = os.environ.get("ELASTICTRAIN_BINARY", os.path.join(rows.BUILD, "cli", "elastictrain"))


def traces(*parts):
    folder = os.environ.get("ELASTICTRAIN_TRACES")
    if not folder:
        raise rows.Unavailable("ELASTICTRAIN_TRACES does not name the folder of the traces (scripts/bench/README.md)")
    path = os.path.join(folder, *parts)
    if not os.path.exists(path):
        raise rows.Unavailable(f"{path} is not there")
    return path


def simulate(files, *arguments):
    command = [BINARY, "simulate", *files, "--csv", *arguments]
    output = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return list(csv.DictReader(io.StringIO(output.stdout)))


def curves():
    return ("--curves", traces("pkusys+ElasticFlow", "ElasticFlow", "scheduler", "throughputs_A100"))


def philly(*arguments):
    return simulate([traces("petuum+adaptdl", "simulator", "traces", "philly.csv")], "--vc", VCS, *curves(), *arguments)


def itp(*arguments):
    """The ten production clusters; jobs without models take six curves in turn."""
    return simulate([traces("microsoft+elasticflow-traces", "data", "raw-traces.tar.gz")], *curves(), *arguments)


def by_trace(results, field="avg_jct_s"):
    table = {}
    for result in results:
        table.setdefault((result["trace"], result["vc"]), {})[result["policy"]] = float(result[field])
    return table


def mean_log(ratios):
    return math.exp(statistics.mean(map(math.log, ratios)))


# --- sim-published


def published():
    """(trace, policy, metric) to the published value, of Muri's simulator."""
    metrics = {"avg_jct": "avg_jct_s", "makespan": "makespan_s", "p99_jct": "p99_jct_s"}
    values = {}
    with open(traces("published_results.csv"), newline="") as file:
        for line in csv.DictReader(file):
            if line["trace"].startswith("Rivendile+Muri/simulator") and line["metric"] in metrics:
                name = os.path.basename(line["trace"]).removesuffix(".csv")
                values[name, line["policy"].lower(), metrics[line["metric"]]] = float(line["value"])
    return values


def sim_published(repetitions):
    folder = traces("Rivendile+Muri", "simulator", "trace-data")
    files = [os.path.join(folder, f"trace{n}{end}.csv") for n in (1, 2, 3, 4) for end in ("", "_pr")]
    expected, errors = published(), {}
    for result in simulate(files, "--policy", "srtf,srsf,tiresias-l", "--gpus", "64", "--cost", "muri"):
        for metric in ("avg_jct_s", "makespan_s", "p99_jct_s"):
            key = result["trace"], result["policy"], metric
            errors[key] = 100 * abs(float(result[metric]) / expected[key] - 1)
    worst = max(errors, key=errors.get)
    yield rows.below("sim-published/worst", errors[worst], "%", 0.5, f"of {len(errors)} figures: {' '.join(worst)}")
    close = sum(error <= 0.01 for error in errors.values())
    beyond = "; ".join(f"{' '.join(key)} {error:.3f} %" for key, error in errors.items() if error > 0.01)
    yield rows.at_least("sim-published/within-0.01", close, "figures", 70, f"beyond: {beyond or 'none'}")


# --- sim-pollux

# Average completion time in s on workloads 1 to 8 and on workload 6 (results-jobload of the artifact): 60 s rounds, restarts
# of 30 s, placement on 16 nodes; Pollux adapts batches and learns its models on the way; the others run tuned jobs, Tiresias
# in two queues, Optimus with an oracle.
POLLUX = {"pollux": (2751.1, 2446.13), "tiresias-l": (4038.2, 3469.69), "optimus": (5681.9, 5301.88)}


def sim_pollux(repetitions):
    folder = traces("petuum+adaptdl", "simulator")
    files = [os.path.join(folder, "workloads", f"workload-{number}.csv") for number in range(1, 9)]
    results = simulate(files, "--curves", os.path.join(folder, "traces"), "--gpus", "64", "--cost", "restart:30",
                       "--policy", "pollux,tiresias-l,optimus,afs-l,worth")
    table = by_trace(results)
    for policy in ("pollux", "tiresias-l", "optimus", "afs-l", "worth"):
        mean = statistics.mean(jct[policy] for jct in table.values())
        sixth = table["workload-6", ""][policy]
        text = "; published {:g} and {:g} s".format(*POLLUX[policy]) if policy in POLLUX else ""
        yield rows.Row(f"sim-pollux/{policy}", mean, "s", "", None, f"average completion time of 8 workloads; workload-6 {sixth:.0f} s{text}")
    best = [trace for trace, jct in table.items() if all(jct["pollux"] <= jct[other] for other in ("tiresias-l", "optimus"))]
    yield rows.at_least("sim-pollux/least", len(best), "workloads", len(table), "below Tiresias-L and Optimus")


# --- sim-policies, sim-itp


def leads(name, table):
    best = [trace for trace, jct in table.items() if all(jct["afs-l"] <= jct[other] for other in BEATEN)]
    yield rows.at_least(f"{name}/afs-l-least", len(best), "traces", len(table), "average completion time, of "
                        + " ".join(BEATEN))
    for other in ("srtf", "tiresias-l"):
        ratios = {trace: jct[other] / jct["afs-l"] for trace, jct in table.items()}
        at = max(ratios, key=ratios.get)
        detail = f"the largest, {' '.join(at)}; median {statistics.median(ratios.values()):.2f}"
        yield rows.Row(f"{name}/lead-over-{other}", ratios[at], "times", "", None, detail)
    ratio = max(jct["themis"] / jct["afs-p"] for jct in table.values())
    yield rows.Row(f"{name}/themis-over-afs-p", ratio, "times", "2.2 (published)", None,
                   "the largest; Themis in its centralised form, which knows lengths")


def sim_policies(repetitions):
    tables = {"philly-64": by_trace(philly("--policy", ALL, "--gpus", "64")),
              "itp-0.9": by_trace(itp("--policy", ALL, "--load", "0.9"))}
    for name, table in tables.items():
        yield from leads(f"sim-policies/{name}", table)
    both = [jct for table in tables.values() for jct in table.values()]
    for other, target in (("srtf", 2.67), ("tiresias-l", 3.11)):
        ratio = max(jct[other] / jct["afs-l"] for jct in both)
        yield rows.at_least(f"sim-policies/lead-over-{other}", ratio, "times", target, "the largest of 21 traces")
    for policy in ALL.split(","):
        ratio = mean_log(jct[policy] / jct["afs-l"] for jct in both)
        yield rows.Row(f"sim-policies/{policy}", ratio, "x afs-l", "", None, "average completion time, geometric mean of 21")


def sim_itp(repetitions):
    results = {}
    for policy in ("afs-l", "srtf"):
        results[policy] = itp("--merge", "--policy", policy, "--gpus", "2000")[0]
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    mine = results["afs-l"]
    yield rows.below("sim-itp/time", float(mine["wall_s"]), "s", 20, f"{mine['jobs']} jobs, {mine['decisions']} decisions")
    yield rows.below("sim-itp/memory", peak, "MiB", 256)
    changes = {policy: int(result["changes"]) / int(result["jobs"]) for policy, result in results.items()}
    yield rows.Row("sim-itp/changes", changes["afs-l"], "per job", "", None,
                   f"SRTF {changes['srtf']:.2f}; CoDDL reports 6.3 times (up to 22) the changes of non-elastic sharing")


# --- sim-ours, sim-restart-price


def all_21(*arguments):
    return philly("--load", "0.9", *arguments) + itp("--load", "0.9", *arguments)


def compare(name, mine, others, limits, traces_better):
    """`others`: the policies of which the best by average counts."""
    averages, tails, changes = by_trace(mine), by_trace(mine, "p99_jct_s"), by_trace(mine, "changes")
    ratios, tail_ratios, change_ratios = [], [], []
    for trace, jct in averages.items():
        best = min(others, key=lambda policy: jct[policy])
        ratios.append(jct["worth"] / jct[best])
        tail_ratios.append(tails[trace]["worth"] / tails[trace][best])
        change_ratios.append(changes[trace]["worth"] / max(1, changes[trace][others[0]]))
    mean, worst, tail = limits
    yield rows.below(f"{name}/mean", mean_log(ratios), "x", mean, f"geometric mean of {len(ratios)}, best of {' '.join(others)}")
    yield rows.at_least(f"{name}/better", sum(ratio < 1 for ratio in ratios), "traces", traces_better)
    yield rows.below(f"{name}/worst", max(ratios), "x", worst)
    yield rows.below(f"{name}/p99", statistics.median(tail_ratios), "x", tail, "median trace")
    yield rows.below(f"{name}/changes", statistics.median(change_ratios), f"x {others[0]}", 1, "median trace")


def sim_ours(repetitions):
    swap = ("--cost", "swap")
    yield from compare("sim-ours/known", all_21("--policy", "worth,afs-l", *swap), ("afs-l",), (0.985, 1.015, 1.05), 16)
    unknown = (*swap, "--lengths", "unknown", "--slice", SLICE_S)
    yield from compare("sim-ours/unknown", all_21("--policy", "worth,afs-p,tiresias-l,max-min", *unknown),
                       ("afs-p", "tiresias-l", "max-min"), (0.92, 1.02, 1), 17)
    right = by_trace(all_21("--policy", "afs-l", *swap))
    for error in ("0.5", "1"):
        wrong = by_trace(all_21("--policy", "worth,afs-l", *swap, "--length-error", error))
        ratios = {policy: mean_log(jct[policy] / right[trace]["afs-l"] for trace, jct in wrong.items())
                  for policy in ("worth", "afs-l")}
        yield rows.Row(f"sim-ours/wrong-by-{error}", ratios["worth"], "x", "", None,
                       f"lengths wrong by exp(N(0, {error})), over AFS-L with right ones; AFS-L with wrong ones {ratios['afs-l']:.3f}")


def sim_restart_price(repetitions):
    for policy in ("afs-l", "worth"):
        for name, scale, limit in (("hours", (), 0.5), ("minutes", ("--time-scale", "60"), 10)):
            jct = {cost: by_trace(all_21("--policy", policy, "--cost", cost, *scale)) for cost in ("none", "swap", "restart")}
            added = {cost: statistics.median(100 * (jct[cost][trace][policy] / jct["none"][trace][policy] - 1)
                                             for trace in jct["none"]) for cost in ("swap", "restart")}
            yield rows.below(f"sim-restart-price/{policy}-{name}", added["swap"], "%", limit,
                             f"swap over none, median of 21; restart {added['restart']:.2f} %")
            if name == "minutes":
                yield rows.at_least(f"sim-restart-price/{policy}-restart", added["restart"] / max(added["swap"], 1e-9),
                                    "x swap", 5, "what restarts add, jobs of minutes")


# --- round-16k


def round_16k(repetitions):
    output = subprocess.run([program("sharing", "sharing_bench")], stdout=subprocess.PIPE, text=True, check=True)
    for one in map(json.loads, output.stdout.splitlines()):
        name = f"round-16k/{one['policy']}"
        detail = f"{one['workers']} workers placed, {one['unplaced']} not; decision {one['first_policy_ms']:.1f} ms"
        yield rows.below(name, one["first_ms"], "ms", 50, detail)
        yield rows.below(f"{name}-arrival", one["next_ms"], "ms", 50,
                         f"moved though their size stays: {one['moved']}; {one['next_unplaced']} slots not placed")
        if one["moved"]:
            yield rows.Row(f"{name}-moved", one["moved"], "jobs", "0", False)
