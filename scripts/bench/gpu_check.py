#!/usr/bin/env python3
"""The body of scripts/gpu_check.sh: stories of changes and losses, the rows, and the questions about NCCL; a verdict."""

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import time

import bench
import gpu
import gpu_experiments
import rows

# The same as the test gpu's stand-in runs: models are averaged and variances measured in host memory only.
WITHOUT = ["--test-case-exclude=*averag*,*variance*,*traffic*,*replica*,*model*",
           "--source-file-exclude=*synchronization_test*"]
STORIES = os.path.join(rows.BUILD, "tests", "unit", "train_session", "unit_train_session")
ID_HELPER = os.path.join(rows.BUILD, "tests", "standin", "et_nccl_id")


def driver():
    try:
        asked = subprocess.run(["nvidia-smi", "--query-gpu=driver_version,name", "--format=csv,noheader"],
                               capture_output=True, text=True, timeout=30)
        return "; ".join(asked.stdout.strip().splitlines()) or "unknown"
    except (OSError, subprocess.TimeoutExpired):
        return "no nvidia-smi"


def stories(limit_s):
    """Changes, losses and recoveries of real processes, bit-identical states checked: (passed, words)."""
    environment = {**os.environ, **gpu_experiments.ON_ONE_GPU, "TEST_WORKER_DEVICE": "1", "ELASTICTRAIN_BACKEND": "nccl",
                   "ELASTICTRAIN_BINARY": ID_HELPER, "NCCL_RAS_ENABLE": "0"}
    begin = time.monotonic()
    try:
        done = subprocess.run([STORIES, *WITHOUT], env=environment, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired as expired:
        last = (expired.stdout or b"").decode(errors="replace").splitlines()[-3:]
        return False, f"not done after {limit_s} s; last: {' / '.join(last)}"
    counts = re.search(r"test cases:\s*(\d+) \|\s*(\d+) passed \|\s*(\d+) failed", done.stdout)
    words = f"{counts[2]} of {counts[1]} passed" if counts else f"ended with status {done.returncode}"
    failed = [line[12:] for line in done.stdout.splitlines() if line.startswith("TEST CASE:")]
    if done.returncode != 0:
        words += "; " + "; ".join(failed[:5])
    return done.returncode == 0, f"{words}, {time.monotonic() - begin:.0f} s"


def say(text=""):
    print(text, flush=True)


def main():
    parser = argparse.ArgumentParser(prog="scripts/gpu_check.sh")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no-speed", action="store_true", help="no comparison of speeds, which stand-ins cannot show")
    options = parser.parse_args()
    quick = options.quick
    try:
        facts = json.loads(gpu.facts())
    except rows.Unavailable as reason:
        say(f"SKIPPED: {reason}")
        return 0
    say(f"# GPU check, {datetime.date.today()}: {facts['gpu']}, driver {driver()}, CUDA {facts['cuda'] / 1000:.1f}, "
        f"NCCL {facts['nccl']}\n")
    begin = time.monotonic()
    passed, words = stories(90 if quick else 200)
    say(f"Changes and losses on the GPU: {'passed' if passed else 'FAILED'}: {words}\n")
    bad = [] if passed else ["changes and losses"]

    say("| row | value | must | | |\n|---|---|---|---|---|")
    speed = () if options.no_speed else ("gpu-overhead", "gpu-monitors")
    for name in ("gpu-swap", "gpu-builds", "gpu-kill", *speed):
        for row in bench.measure(name, 2 if quick else 5):
            value = "-" if row.value is None else f"{row.value:.4g} {row.unit}"
            met = {True: "met", False: "**not met**", None: "-"}[row.met]
            say(f"| {row.name} | {value} | {row.target} | {met} | {row.detail} |")
            bad += [row.name] if row.met is False or row.value is None else []

    say("\n| what NCCL does | |\n|---|---|")
    for title, lines in gpu_experiments.all_of_them(gpu.RANK, quick):
        say(f"| {title} | {'; '.join(lines)} |")
    say(f"\nverdict: {'PASSED' if not bad else 'FAILED: ' + ', '.join(bad)} ({time.monotonic() - begin:.0f} s)")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
