#!/usr/bin/env python3
"""Measures our all-reduce beside Gloo, Open MPI and MPICH, interleaved, and prints one JSON list of cells.

    run_all.py --build BUILD_DIR/tests/bench/allreduce [--repetitions 5] [--ranks 2,4] [--sizes 4096,...]

Every repetition starts every program once, in turn, so that a disturbance of the machine hits all of them. A cell's
figure is the median over the repetitions of each program's median round. A peer counts where its program was built.
Exit status 1 when a cell misses the target (faster than the best peer), 2 when nothing could be measured.
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys

SIZES = [4 << 10, 1 << 20, 25 << 20, 100 << 20]
LIMIT_S = 180


def programs(build, ranks, tcp_only):
    """Name -> argv (without the sizes) of everything that can run in this column of the table."""
    transport = "tcp" if tcp_only else "auto"
    found = {"ours": [build / "allreduce_bench", "--ranks", str(ranks), "--transport", transport]}
    for algorithm in ("ring", "bcube"):
        found["gloo_" + algorithm] = [build / "gloo_bench", "--ranks", str(ranks), "--algorithm", algorithm]
    openmpi = ["mpirun.openmpi", "--oversubscribe", "--allow-run-as-root", "--mca", "mpi_yield_when_idle", "1"]
    if tcp_only:
        openmpi += ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]
    found["openmpi"] = openmpi + ["-np", str(ranks), build / "openmpi_bench"]
    found["mpich"] = ["mpirun.mpich", "-np", str(ranks), build / "mpich_bench"]
    return {name: argv for name, argv in found.items() if pathlib.Path(program_of(argv, build)).exists()}


def program_of(argv, build):
    return next(part for part in argv if str(part).startswith(str(build)))


def environment(tcp_only):
    env = dict(os.environ)
    env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    if tcp_only:
        # MPICH of Debian speaks through UCX; other builds through libfabric.
        env.update(UCX_TLS="tcp,self", MPIR_CVAR_NOLOCAL="1", FI_PROVIDER="tcp")
    return env


def run(argv, sizes, env):
    """Bytes -> median seconds of one all-reduce; empty when the program fails or takes too long."""
    command = [str(part) for part in argv] + ["--sizes", ",".join(map(str, sizes)), "--repetitions", "3"]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               process_group=0)
    try:
        output, _ = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
    figures = {}
    for line in output.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            figures[row["bytes"]] = statistics.median(row["us"]) / 1e6
    return figures


def measure_column(build, ranks, tcp_only, sizes, repetitions):
    """Program -> bytes -> list of seconds."""
    figures = {}
    for _ in range(repetitions):
        for name, argv in programs(build, ranks, tcp_only).items():
            for size, seconds in run(argv, sizes, environment(tcp_only)).items():
                figures.setdefault(name, {}).setdefault(size, []).append(seconds)
    return figures


def make_cell(figures, size, ranks, tcp_only, memory_gb_s):
    seconds = {name: statistics.median(by_size[size]) for name, by_size in figures.items() if size in by_size}
    ours = seconds.pop("ours", None)
    if ours is None:
        return None
    best = min(seconds, key=seconds.get) if seconds else None
    gb_s = size / ours / 1e9
    return {
        "ranks": ranks,
        "transport": "tcp" if tcp_only else "one host",
        "bytes": size,
        "ours_us": round(ours * 1e6, 2),
        "peers_us": {name: round(value * 1e6, 2) for name, value in seconds.items()},
        "best_peer": best,
        "times_faster": round(seconds[best] / ours, 2) if best else None,
        "met": bool(best) and ours < seconds[best],
        "gb_s": round(gb_s, 2),
        "share_of_memcpy": round(gb_s / memory_gb_s, 3),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    options = parser.parse_args()
    build = options.build.resolve()
    sizes = [int(size) for size in options.sizes.split(",")]
    memory = json.loads(subprocess.run([build / "memory_bench"], stdout=subprocess.PIPE, check=True).stdout)
    cells = []
    for ranks in map(int, options.ranks.split(",")):
        for tcp_only in (False, True):
            figures = measure_column(build, ranks, tcp_only, sizes, options.repetitions)
            cells += [make_cell(figures, size, ranks, tcp_only, memory["memcpy_gb_s"]) for size in sizes]
    cells = [cell for cell in cells if cell]
    print(json.dumps(cells, indent=1))
    if not cells:
        return 2
    return 0 if all(cell["met"] for cell in cells) else 1


if __name__ == "__main__":
    sys.exit(main())
