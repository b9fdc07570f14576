"""The data plane alone: all-reduce beside Gloo, Open MPI and MPICH; the session beside the bare communicator."""

import json
import os
import statistics
import subprocess
import sys

import rows
from harness import Run

PEERS = ("gloo", "openmpi", "mpich")


def program(*parts):
    path = os.path.join(rows.BUILD, "tests", "bench", *parts)
    if not os.access(path, os.X_OK):
        raise rows.Unavailable(f"{os.path.relpath(path, rows.ROOT)} is not built")
    return path


def allreduce(repetitions):
    script = os.path.join(rows.ROOT, "tests", "bench", "allreduce", "run_all.py")
    if not os.path.exists(script):
        raise rows.Unavailable("tests/bench/allreduce/run_all.py is not there")
    argv = [sys.executable, script, "--json", "--build", os.path.join(rows.BUILD, "tests", "bench", "allreduce")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=3000)
    if done.returncode != 0:
        raise rows.Unavailable(f"run_all.py: {done.stderr.strip()[-300:]}")
    for cell in json.loads(done.stdout):
        yield allreduce_row(cell)


def allreduce_row(cell):
    """One cell of the table: our time beside the best of the peers that are installed."""
    name = f"allreduce/{cell['ranks']}-{cell['transport']}-{cell['size']}"
    peers = {peer: cell[peer] for peer in PEERS if cell.get(peer)}
    if not peers:
        return rows.Row(name, cell["ours"], "us", "", None, "no peer is installed (scripts/setup.sh bench)")
    best = min(peers, key=peers.get)
    beside = ", ".join(f"{peer} {value:.1f} us" for peer, value in peers.items())
    detail = f"ours {cell['ours']:.1f} us, {beside}; {cell['gb_per_s']:.2f} GB/s, {100 * cell['memory_share']:.0f} % of memory bandwidth"
    return rows.Row(name, peers[best] / cell["ours"], f"times {best}", "> 1", peers[best] > cell["ours"], detail)


def session_overhead(repetitions):
    """The same loop, both ways in turn; ratio of steps a second of each pair, median of the pairs."""
    bench = program("session_overhead", "session_overhead")
    pairs = []
    for _ in range(max(5, repetitions)):
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


def figure(text):
    """The number behind `steps_per_s=` in what the program printed."""
    for line in text.splitlines():
        if "steps_per_s=" in line:
            return float(line.split("steps_per_s=")[1].split()[0])
    raise rows.Unavailable(f"session_overhead printed no result: {text[-300:]}")
