"""The data plane alone: all-reduce beside Gloo, Open MPI and MPICH; the session beside the bare communicator."""

import json
import os
import statistics
import subprocess
import sys

import rows
from harness import Run

def program(*parts):
    path = os.path.join(rows.BUILD, "tests", "bench", *parts)
    if not os.access(path, os.X_OK):
        raise rows.Unavailable(f"{os.path.relpath(path, rows.ROOT)} is not built")
    return path


PEERS = {"Gloo": "gloo_bench", "Open MPI": "openmpi_bench", "MPICH": "mpich_bench"}


def allreduce(repetitions):
    script = os.path.join(rows.ROOT, "tests", "bench", "allreduce", "run_all.py")
    folder = os.path.dirname(program("allreduce", "allreduce_bench"))
    argv = [sys.executable, script, "--build", folder, "--rounds", str(max(5, repetitions)), "--budget-s", "1500"]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=3000)
    if done.returncode not in (0, 1) or not done.stdout.endswith("]\n"):  # 1: a cell misses its target
        raise rows.Unavailable(f"run_all.py ended with {done.returncode}")
    for cell in json.loads(done.stdout):
        yield allreduce_row(cell)
    for peer, name in PEERS.items():
        if not os.path.exists(os.path.join(folder, name)):
            yield rows.Row(f"allreduce/{peer}", None, "", "", None,
                           "not measured: not built without its library and headers (scripts/setup.sh bench)")


def size_name(size):
    return f"{size >> 20}MiB" if size >= 1 << 20 else f"{size >> 10}KiB"


def allreduce_row(cell):
    """One cell of the table: our time beside the best of the peers that are installed."""
    name = f"allreduce/{cell['ranks']}-ranks-{cell['transport'].replace(' ', '-')}-{size_name(cell['bytes'])}"
    beside = ", ".join(f"{peer} {value:g}" for peer, value in cell["peers_us"].items() if value is not None)
    detail = (f"ours {number(cell['ours_us'])} us, {beside}; {number(cell['gb_s'])} GB/s, "
              f"{100 * (cell['share_of_memcpy'] or 0):.0f} % of memcpy; TCP congestion control: system "
              f"{cell['congestion_control']['system']}, ours {cell['congestion_control']['ours']}; {cell['rounds']} rounds")
    if cell["bare_exchange_us"]:
        detail += f"; the same bytes exchanged without a sum {number(cell['bare_exchange_us'])} us"
    if cell["failures"]:
        detail += "; failures: " + "; ".join(f"{peer}: {texts[0]}" for peer, texts in cell["failures"].items())
    if cell["best_peer"]:
        detail = f"best peer {cell['best_peer']}; {detail}"
    else:
        detail = f"no peer is installed (scripts/setup.sh bench); {detail}"
    return rows.Row(name, cell["times_faster"], "times", "> 1 times", cell["met"], detail)


TOPOLOGIES = ("auto", "star", "ring", "tree", "binary-tree", "binary-tree-star", "multi-star", "multi-binary-tree-star",
              "clique")
TOPOLOGY_SIZES = (4 << 10, 8 << 20)


def topologies(repetitions):
    """Every shape of the data plane on two hosts, in turn; each round's ratio to the automatic one in the same round."""
    bench = program("allreduce", "allreduce_bench")
    for ranks in (3, 8):
        rounds = [{name: topology_times(bench, ranks, name) for name in TOPOLOGIES} for _ in range(max(3, repetitions))]
        for size in TOPOLOGY_SIZES:
            for name in TOPOLOGIES[1:]:
                ratios = [figures[name][size] / figures["auto"][size] for figures in rounds]
                times = [figures[name][size] for figures in rounds]
                row = f"topologies/{ranks}-ranks-{size_name(size)}-{name}"
                yield rows.Row(row, statistics.median(ratios), "times auto", "-", None,
                               f"{rows.spread(times)} us, auto {rows.spread([f['auto'][size] for f in rounds])} us; "
                               f"ratio {rows.spread(ratios, 2)}; 2 hosts on loopback")


def topology_times(bench, ranks, name):
    """Bytes -> microseconds of one all-reduce."""
    argv = [bench, "--ranks", str(ranks), "--hosts", "2", "--topology", name, "--repetitions", "3",
            "--round-seconds", "0.05", "--sizes", ",".join(map(str, TOPOLOGY_SIZES))]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    cells = [json.loads(line) for line in done.stdout.splitlines()]
    return {cell["bytes"]: statistics.median(cell["us"]) for cell in cells}


ENCRYPTED_BYTES = 25 << 20
ENCRYPTION_TARGETS = {"integrity": 1.5, "full": 2.0}


def encryption_cost(repetitions):
    """Every level in turn, several times; each round's ratio to what it takes in clear in the same round."""
    bench = program("allreduce", "allreduce_bench")
    for ranks in (2, 4):
        rounds = [{level: encrypted_time(bench, ranks, level) for level in ("none", *ENCRYPTION_TARGETS)}
                  for _ in range(max(5, repetitions))]
        clear = [times["none"] for times in rounds]
        for level, most in ENCRYPTION_TARGETS.items():
            ratios = [times[level] / times["none"] for times in rounds]
            detail = (f"{rows.spread([times[level] for times in rounds])} us, in clear {rows.spread(clear)} us; ratio "
                      f"{rows.spread(ratios, 2)}; loopback, 25 MiB")
            yield rows.below(f"encryption-cost/{ranks}-ranks-{level}", statistics.median(ratios), "times", most, detail)


def encrypted_time(bench, ranks, level):
    """Microseconds of one all-reduce: the fastest, because whatever else runs on the machine only adds to it."""
    argv = [bench, "--ranks", str(ranks), "--transport", "tcp", "--encryption", level, "--repetitions", "5",
            "--round-seconds", "0.2", "--sizes", str(ENCRYPTED_BYTES)]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    return min(json.loads(done.stdout)["us"])


def number(value):
    return "-" if value is None else f"{value:g}"


def session_overhead(repetitions):
    """The same loop, both ways in turn: many short pairs, because one percent is less than the noise of one pair."""
    bench = program("session_overhead", "session_overhead")
    pairs = []
    for _ in range(3 * max(5, repetitions)):
        with Run(arguments=["-n", "2", "--", bench, "session"]) as run:
            if run.wait(120) != 0:
                raise rows.Unavailable(f"session_overhead failed: {run.text()[-300:]}")
            session = figure(run.text())
        bare = figure(subprocess.run([bench, "bare"], capture_output=True, text=True, timeout=120).stdout)
        pairs.append((session, bare))
    ratios = [100 * session / bare for session, bare in pairs]
    detail = (f"{rows.spread(ratios)} %; {statistics.median(s for s, _ in pairs):.0f} steps/s against "
              f"{statistics.median(b for _, b in pairs):.0f} bare")
    yield rows.at_least("session-overhead", statistics.median(ratios), "%", 99, detail)


NORM_EVERY = 16  # steps, as in the session
VARIANCE_EVERY = 50  # steps; each costs a second all-reduce
WARM_UP_STEPS = 20


def monitor_overhead(repetitions):
    """What a monitor costs in the steps that measure: those against the others of the same runs. Whole runs with and
    without it, one after the other, differ by more than it costs."""
    bench = program("session_overhead", "session_overhead")

    def step_times(every, first, monitors, *words):
        """In milliseconds, by whether it is a step that measures: `first`, and every `every` after it."""
        environment = ["-x", f"ELASTICTRAIN_MONITORS={monitors}"]
        with Run(arguments=["-n", "2", *environment, "--", bench, "session", *words]) as run:
            if run.wait(120) != 0:
                raise rows.Unavailable(f"session_overhead failed: {run.text()[-300:]}")
            steps = [record for record in run.steps() if record["rank"] == 0]
        times = {True: [], False: []}
        for before, after in zip(steps[WARM_UP_STEPS:], steps[WARM_UP_STEPS + 1:]):
            times[after["step"] % every == first].append(1e3 * (after["t"] - before["t"]))
        return times

    def slower(every, *arguments):
        """In % of all steps, and in words."""
        found = [step_times(every, *arguments) for _ in range(2 * max(5, repetitions))]
        measured = [time for times in found for time in times[True]]
        middle_ms = statistics.median(time for times in found for time in times[False])
        longer_ms = statistics.median(measured) - middle_ms
        return (100 * longer_ms / every / middle_ms,
                f"{len(measured)} steps, one of {every}, {1e3 * longer_ms:.0f} us longer than the median of {middle_ms:.2f} ms")

    norms, words = slower(NORM_EVERY, 1, 1)
    without, _ = slower(NORM_EVERY, 1, 0)
    yield rows.below("monitor-overhead", norms, "%", 0.5,
                     f"{words}; the same steps of runs without monitors: {without:.2f} %; KungFu's noise scale: 4.6 %")
    variance, words = slower(VARIANCE_EVERY, 0, 0, str(VARIANCE_EVERY))
    yield rows.Row("monitor-overhead/variance", variance, "%", "", None,
                   f"{words}; measured where a program asks for it; KungFu's: 20 %")


def figure(text):
    """The number behind `steps_per_s=` in what a program printed."""
    for line in text.splitlines():
        if "steps_per_s=" in line:
            return float(line.split("steps_per_s=")[1].split()[0])
    raise rows.Unavailable(f"no steps_per_s= was printed: {text[-300:]}")
