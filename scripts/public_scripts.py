#!/usr/bin/env python3
"""Trains public scripts, unmodified, under torchrun and under elastictrain, through changes, losses, stop and resume.

  public_scripts.py FOLDER [--only NAME,…] [--modes MODE,…] [--seeds N] [--work FOLDER [--reuse]] [--json FILE] [--list]

FOLDER holds checked-out repositories as OWNER/NAME; those that are missing are named. PyTorch is that of
$ELASTICTRAIN_TORCH_PYTHON (default: build/torch-venv), elastictrain $ELASTICTRAIN_BINARY (default: the release build).
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "public"))

import cases  # noqa: E402
import judge  # noqa: E402
import launch  # noqa: E402

MODES = ("torchrun", "elastictrain-torchrun", "torch", "resize", "kill", "resume")
EVENTS = {"resize": launch.resize_through, "kill": launch.kill_through, "resume": launch.stop_and_resume}
CHECKPOINTS = ("--set", "checkpoint.directory=checkpoints")


def commit_of(folder):
    """Of a checkout, or of a folder without git that says it in `.commit`."""
    try:
        with open(os.path.join(folder, ".commit")) as file:
            return file.read().strip()[:12]
    except OSError:
        done = subprocess.run(["git", "-C", folder, "rev-parse", "HEAD"], capture_output=True, text=True)
        return done.stdout.strip()[:12]


def started_before(tools, case, name, seed=0):
    if not os.path.isdir(os.path.join(tools.work, case.name, name)):
        return None
    start = launch.Start(tools, case, name, seed, is_earlier=True)
    return start if start.read_earlier() else None


def torchrun(tools, case, seeds, reuse):
    """(what torchrun shows over the seeds, its cell of the table)."""
    starts = []
    for seed in range(seeds):
        start = started_before(tools, case, f"torchrun{seed}", seed) if reuse else None
        if start is None or start.status != 0:
            start = launch.Start(tools, case, f"torchrun{seed}", seed)
            try:
                start.torchrun()
                start.wait()
            finally:
                start.close()
        starts.append(start)
        if start.status != 0:
            return None, (f"WRONG: ended with status {start.status}: {judge.sentence(start.text)}", {})
    reference = judge.Reference(starts)
    verdict = "WRONG: " + reference.problems[0] if reference.problems else f"ok: {reference.steps} steps"
    return reference, (verdict, reference.summary())


def one_mode(tools, case, mode, reference):
    start = launch.Start(tools, case, mode)
    try:
        if mode == "elastictrain-torchrun":
            start.elastictrain_torchrun()
        else:
            start.torch(*(CHECKPOINTS if mode == "resume" else ()))
        if mode in EVENTS:
            EVENTS[mode](start, reference.steps)
    except launch.Timeout as error:
        start.notes.append(str(error))
    finally:
        start.pace(0)
        start.wait()
        start.close()
    return start


def one_case(tools, case, modes, seeds, reuse, judges_again):
    cells, began = {}, time.monotonic()
    reference, cells["torchrun"] = torchrun(tools, case, seeds, reuse)
    show(case, "torchrun", cells["torchrun"][0], began)
    for mode in modes:
        if mode != "torchrun" and reference is not None:
            began = time.monotonic()
            start = started_before(tools, case, mode) if judges_again else one_mode(tools, case, mode, reference)
            cells[mode] = judge.judge(start, reference, mode) if start else ("", {})
            show(case, mode, cells[mode][0], began)
    return cells


def show(case, mode, verdict, began):
    print(f"{case.name:18} {mode:22} {time.monotonic() - began:5.0f} s  {verdict}", flush=True)


def table(results):
    lines = ["| script | commit | " + " | ".join(MODES) + " |", "|---" * (len(MODES) + 2) + "|"]
    for name, result in results.items():
        cells = [result["cells"].get(mode, {"verdict": ""})["verdict"].replace("|", "/") for mode in MODES]
        lines.append(f"| {name} | {result['repository']} {result['commit']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="repositories, each as OWNER/NAME")
    parser.add_argument("--only", default="", help="names of scripts, with commas between them")
    parser.add_argument("--modes", default=",".join(MODES), help="of " + ", ".join(MODES))
    parser.add_argument("--seeds", type=int, default=2, help="starts of torchrun, whose differences are the noise")
    parser.add_argument("--reuse", action="store_true", help="take torchrun's starts from --work where they are there")
    parser.add_argument("--judge-again", action="store_true", help="start nothing: judge what lies in --work")
    parser.add_argument("--work", help="folder for the runs; default: a temporary one")
    parser.add_argument("--json", help="file for the results, with all details; rewritten after each script")
    parser.add_argument("--list", action="store_true", help="only print the scripts that are known")
    return parser.parse_args()


def main():
    options = arguments()
    wanted = [one for one in options.only.split(",") if one]
    known = [case for case in cases.CASES if not wanted or case.name in wanted]
    if options.list:
        print("\n".join(f"{case.name:18} {case.repository} {case.folder}/{' '.join(case.script)}" for case in known))
        return 0
    if os.environ.get("ELASTICTRAIN_TORCH_PYTHON", sys.executable) != sys.executable:  # data are made with its packages
        os.execv(os.environ["ELASTICTRAIN_TORCH_PYTHON"], [os.environ["ELASTICTRAIN_TORCH_PYTHON"], *sys.argv])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends what was started
    folder = os.path.abspath(options.folder)
    tools = launch.Tools(folder, os.path.abspath(options.work or tempfile.mkdtemp(prefix="public-")))
    results = {}
    for case in known:
        repository = os.path.join(folder, case.repository)
        if not os.path.isdir(os.path.join(repository, case.folder)):
            print(f"{case.name:18} skipped: no {repository}", flush=True)
            continue
        with tools.alone_with(case):
            cells = one_case(tools, case, options.modes.split(","), options.seeds, options.reuse or options.judge_again,
                             options.judge_again)
        results[case.name] = {"repository": case.repository, "commit": commit_of(repository),
                              "cells": {mode: {"verdict": verdict, **details} for mode, (verdict, details) in cells.items()}}
        if options.json:
            with open(options.json, "w") as file:
                json.dump(results, file, indent=1)
    print(table(results))
    return 1 if any("WRONG" in cell["verdict"] for one in results.values() for cell in one["cells"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
