"""torchrun on the same machine in the same run, by the harness beside this checkout (../shared/bench)."""

import json
import os
import shutil
import subprocess
import tempfile
import time

import rows


def chain(model, repetitions):
    """Idle time of grow 2->3 and shrink 3->2, minus a median step, in ms: {"grow": […], "shrink": […]}."""
    found = {"grow": [], "shrink": []}
    for events in scenarios("chain", model, repetitions):
        for kind, what in (("grow", "up"), ("shrink", "term")):
            found[kind] += [idle_ms(event) for event in events if event["what"] == what and "idle_s" in event]
    if not all(found.values()):
        raise rows.Unavailable("torchrun ended no chain of grow and shrink on this machine")
    return found


def failures(scenario, model, repetitions, options=()):
    """Idle time after the fault of one scenario of the harness ("wkill", "hang"), minus a median step, in ms."""
    found = [idle_ms(event) for events in scenarios(scenario, model, repetitions, options)
             for event in events if event["what"] == scenario and "idle_s" in event]
    if not found:
        raise rows.Unavailable(f"torchrun did not go on after {scenario} on this machine")
    return found


def scenarios(name, model, repetitions, options=()):
    """The events of each repetition."""
    harness = rows.shared("bench")
    if subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True).returncode != 0:
        raise rows.Unavailable("no torch for /usr/bin/python3 (scripts/setup.sh bench)")
    directory = tempfile.mkdtemp(prefix="et-torchrun-")
    try:
        copy = os.path.join(directory, "bench")
        shutil.copytree(harness, copy)
        subprocess.run(["chmod", "-R", "u+w", copy], check=True)
        return [one_run(copy, [name, "--model", model, *options], os.path.join(directory, f"run-{number}"))
                for number in range(repetitions)]
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def idle_ms(event):
    return event["idle_s"] * 1000 - (event.get("after_ms") or event["base_ms"])


def one_run(copy, words, out, attempts=6):
    """The harness refuses a busy machine with status 3; it is asked again for a minute."""
    argv = ["/usr/bin/python3", os.path.join(copy, "bench.py"), *words, "--launcher", "tr-tuned", "--out", out]
    for _ in range(attempts):
        done = subprocess.run(argv, capture_output=True, text=True, timeout=400)
        result = os.path.join(out, "result.json")
        if os.path.exists(result):
            with open(result) as file:
                return json.load(file)["events"]
        if done.returncode != 3:
            raise rows.Unavailable(f"torchrun's harness failed: {done.stderr.strip().splitlines()[-1:]}")
        time.sleep(10)
    raise rows.Unavailable("the machine is too busy for torchrun's harness")
