#!/usr/bin/env python3
"""Records the time of each step of real workers before the collective.

  record.py WORKERS STEPS PASSES OUT.csv [PREFIX…]      ($ELASTICTRAIN_BINARY, $ELASTICTRAIN_BUILD)

PREFIX is put before the worker's command: `chrt -r 1` gives workers priority on a machine that is shared.
Writes one row per step: milliseconds since the first step, then each worker's compute time in microseconds.
"""

import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "tests", "system"))

from harness import Run

BUILD = os.environ.get("ELASTICTRAIN_BUILD", os.path.join(ROOT, "build", "release"))


def rows_of(path):
    with open(path) as file:
        return [[int(field) for field in line.split(",")] for line in file]


def record(workers, steps, passes, out, prefix):
    program = os.path.join(BUILD, "tests", "bench", "straggler", "step_recorder")
    with tempfile.TemporaryDirectory(prefix="etrecord-") as folder:
        with Run(arguments=["-n", workers, "--", *prefix, program, steps, passes, folder]) as run:
            if run.wait(3000) != 0:
                sys.exit(f"the run failed: {run.text()[-1000:]}")
        ranks = [rows_of(os.path.join(folder, f"rank-{rank}.csv")) for rank in range(int(workers))]
    with open(out, "w") as file:
        file.write("ms," + ",".join(f"worker_{rank}_us" for rank in range(len(ranks))) + "\n")
        for step in zip(*ranks):
            file.write(f"{step[0][2] // 1000}," + ",".join(str(row[1]) for row in step) + "\n")


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__.strip())
    record(*sys.argv[1:5], sys.argv[5:])
