#!/usr/bin/env python3
"""Measures our all-reduce against Gloo, Open MPI and MPICH, interleaved, and prints one JSON list of cells.

    run_all.py --build BUILD_DIR/tests/bench/allreduce [--rounds 5] [--ranks 2,4] [--transports shm,tcp] [--sizes ...]

A column is a number of ranks and a transport. Each round starts every program of a column once, in turn, so that a
disturbance of the machine hits all of them. A program's figure for a cell is the median over the rounds of its median
repetition; the ratio to the best peer is the median of the rounds' ratios. Each cell is printed as soon as its column is
done; progress goes to stderr. A program that fails or hangs is marked in its cells. To save time, a peer is not measured
again if it is much slower than the best one, and when the budget runs short a column gets fewer rounds, but at least
three. A cell contains the number of its rounds.
Where two ranks use TCP, `exchange_bench` says what no all-reduce can be faster than: the same bytes sent and received,
without a sum.
A cell meets the target (faster than the best peer) when both the medians and the ratio say so.
Exit status 1 when a cell misses the target, 2 when nothing could be measured.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import time

SIZES = [4 << 10, 1 << 20, 25 << 20, 100 << 20]
LIMIT_S = 30  # of one start of one program
LEAST_ROUNDS = 3
HOPELESS = 3  # times slower than the best peer so far; checked only if one all-reduce is slow
SLOW_S = 0.05
BARE = "bare_exchange"
PATIENCE = 2  # failures after which a program is not started again


def programs(build, ranks, tcp_only):
    """Name -> argv (without the sizes) of everything that can run in this column of the table."""
    transport = "tcp" if tcp_only else "auto"
    found = {"ours": [build / "allreduce_bench", "--ranks", str(ranks), "--transport", transport]}
    for algorithm in ("ring", "bcube"):
        found["gloo_" + algorithm] = [build / "gloo_bench", "--ranks", str(ranks), "--algorithm", algorithm]
    if tcp_only and ranks == 2:
        found[BARE] = [build / "exchange_bench"]
    openmpi = ["mpirun.openmpi", "--oversubscribe", "--allow-run-as-root", "--mca", "mpi_yield_when_idle", "1"]
    if tcp_only:
        openmpi += ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]
    found["openmpi"] = openmpi + ["-np", str(ranks), build / "openmpi_bench"]
    found["mpich"] = ["mpirun.mpich", "-np", str(ranks), build / "mpich_bench"]
    return {name: argv for name, argv in found.items() if program_of(argv, build).exists() and shutil.which(argv[0])}


def program_of(argv, build):
    return next(part for part in argv if str(part).startswith(str(build)))


def environment(tcp_only):
    env = dict(os.environ)
    env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    if tcp_only:
        # MPICH of Debian speaks through UCX; other builds through libfabric.
        env.update(UCX_TLS="tcp,self", MPIR_CVAR_NOLOCAL="1", FI_PROVIDER="tcp")
    return env


def stop(process):
    """TERM first: a launcher then ends its ranks, which may be in process groups of their own."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            pass
        try:
            return process.communicate(timeout=3)
        except subprocess.TimeoutExpired:
            pass
    return None


def run(argv, sizes, env):
    """Bytes -> median seconds of one all-reduce, and the problem (None: none)."""
    command = [str(part) for part in argv] + ["--sizes", ",".join(map(str, sizes)), "--repetitions", "3"]
    process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=LIMIT_S)
        problem = f"exit status {process.returncode}" if process.returncode else None
    except subprocess.TimeoutExpired:
        output, problem = (stop(process) or ("", ""))[0], f"not done after {LIMIT_S} s"
    except BaseException:
        stop(process)
        raise
    return figures_in(output), problem


def figures_in(output):
    figures = {}
    for line in output.splitlines():
        try:
            row = json.loads(line)
            figures[row["bytes"]] = statistics.median(row["us"]) / 1e6
        except (ValueError, TypeError, KeyError):
            continue
    return figures


class Column:
    """The results of all programs with one number of ranks over one transport."""

    def __init__(self, build, ranks, tcp_only, sizes):
        self.ranks, self.tcp_only, self.sizes = ranks, tcp_only, sizes
        self.programs = programs(build, ranks, tcp_only)
        self.rounds = []  # name -> bytes -> seconds, one for each round
        self.problems = {}  # name -> problems, one per failure

    def measure(self, rounds, end):
        for number in range(rounds):
            start = time.monotonic()
            self.rounds.append(self.one_round())
            took = time.monotonic() - start
            log(f"{self.ranks} ranks {self.transport()}: round {number + 1} of {rounds}, {took:.1f} s")
            if number + 1 >= LEAST_ROUNDS and time.monotonic() + took > end:
                break

    def one_round(self):
        figures = {}
        for name, argv in self.programs.items():
            problems = self.problems.setdefault(name, [])
            sizes = [size for size in self.sizes if self.has_a_chance(name, size)]
            if len(problems) >= PATIENCE or not sizes:
                continue
            figures[name], problem = run(argv, sizes, environment(self.tcp_only))
            if problem:
                problems.append(problem)
                log(f"{name}: {problem}")
        return figures

    def has_a_chance(self, name, size):
        bests = {peer: min(found) for peer in self.programs if peer not in ("ours", BARE) and (found := self.seconds(peer, size))}
        return name not in bests or bests[name] <= max(SLOW_S, HOPELESS * min(bests.values()))

    def transport(self):
        return "tcp" if self.tcp_only else "one host"

    def seconds(self, name, size):
        """The figures of all rounds that have one."""
        return [figures[name][size] for figures in self.rounds if size in figures.get(name, {})]

    def cell(self, size, memory_gb_s):
        medians = {name: statistics.median(found) for name in self.programs if (found := self.seconds(name, size))}
        ours, bare = medians.pop("ours", None), medians.pop(BARE, None)
        best = min(medians, key=medians.get) if medians else None
        times_faster = self.times_faster(best, size) if best and ours else None
        gb_s = size / ours / 1e9 if ours else None
        return {
            "ranks": self.ranks,
            "transport": self.transport(),
            "bytes": size,
            "ours_us": rounded(ours, 1e6),
            "peers_us": {name: rounded(medians.get(name), 1e6) for name in self.programs if name not in ("ours", BARE)},
            "bare_exchange_us": rounded(bare, 1e6),
            "best_peer": best,
            "times_faster": times_faster and round(times_faster, 3),
            "met": self.met(ours, medians.get(best), times_faster),
            "gb_s": rounded(gb_s),
            "share_of_memcpy": gb_s and round(gb_s / memory_gb_s, 3),
            "rounds": len(self.rounds),
            "failures": {name: problems for name, problems in self.problems.items() if problems},
            "congestion_control": CONGESTION_CONTROL,
        }

    @staticmethod
    def met(ours, best, times_faster):
        """On a disturbed machine the medians and the ratios may disagree; then the result is undecided."""
        if ours is None:
            return False
        return None if best is None else times_faster is not None and times_faster > 1 and ours < best

    def times_faster(self, peer, size):
        pairs = [(figures["ours"][size], figures[peer][size]) for figures in self.rounds
                 if size in figures.get("ours", {}) and size in figures.get(peer, {})]
        return statistics.median(theirs / ours for ours, theirs in pairs) if pairs else None


def rounded(value, factor=1.0):
    return None if value is None else round(value * factor, 2)


def log(text):
    print(text, file=sys.stderr, flush=True)


def congestion_control(build):
    """The system's default (used by the peers) and the setting of our connections over loopback."""
    default = pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    done = subprocess.run([build / "loopback_options"], stdout=subprocess.PIPE, timeout=LIMIT_S, check=True)
    return {"system": default, "ours": json.loads(done.stdout)["congestion_control"]}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", "--repetitions", type=int, default=5)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--transports", default="shm,tcp")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--budget-s", type=float, default=330)
    return parser.parse_args()


def main():
    global CONGESTION_CONTROL
    options = parse_arguments()
    build = options.build.resolve()
    sizes = [int(size) for size in options.sizes.split(",")]
    start = time.monotonic()
    memory = json.loads(subprocess.run([build / "memory_bench"], stdout=subprocess.PIPE, check=True).stdout)
    CONGESTION_CONTROL = congestion_control(build)
    columns = [(int(ranks), transport == "tcp") for ranks in options.ranks.split(",")
               for transport in options.transports.split(",")]
    cells = []
    print("[", end="")
    for index, (ranks, tcp_only) in enumerate(columns):
        column = Column(build, ranks, tcp_only, sizes)
        column.measure(options.rounds, start + options.budget_s * (index + 1) / len(columns))
        for size in sizes:
            cells.append(column.cell(size, memory["memcpy_gb_s"]))
            print(("," if len(cells) > 1 else "") + "\n " + json.dumps(cells[-1]), end="", flush=True)
    print("\n]", flush=True)
    if not any(cell["ours_us"] for cell in cells):
        return 2
    return 0 if all(cell["met"] for cell in cells) else 1


if __name__ == "__main__":
    sys.exit(main())
