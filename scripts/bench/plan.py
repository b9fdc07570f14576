"""What a plan of size and batch rests on: predicted time and cost, and the noise of gradients."""

import json
import os
import statistics
import subprocess

import rows
from communicator import program

LIMITS = {"full": 5, "partial": 10}  # percent


def measurements(kind):
    bench = program("plan", "plan_bench")
    curves = os.path.join(rows.DATA, "curves")
    output = subprocess.run([bench, curves], stdout=subprocess.PIPE, text=True, timeout=600, check=True)
    return [m for m in map(json.loads, output.stdout.splitlines()) if m["kind"] == kind]


def plan_error(repetitions):
    """Six models on 1, 2 and 4 GPUs of up to 16 hosts; what a search does not measure is predicted."""
    cells = measurements("plan-error")
    for mode in ("full", "partial", "universal"):
        mine = [c for c in cells if c["mode"] == mode and c["form"] == "components"]
        error = statistics.mean(c["time_percent"] for c in mine)
        layouts = ", ".join(f"{c['workers_per_host']} a host: {c['time_percent']:.1f} (steps {c['steps_percent']:.1f})"
                            for c in mine)
        detail = f"mean of 18 tables; {layouts}"
        for form in ("paper-per-worker", "paper-global"):
            theirs = [c["time_percent"] for c in cells if c["mode"] == mode and c["form"] == form]
            if theirs:
                detail += f"; {form} {statistics.mean(theirs):.1f}"
        detail += f"; 1 a host: {mine[0]['models']}"
        name = f"plan-error/{mode}"
        if mode in LIMITS:
            yield rows.below(name, error, "%", LIMITS[mode], detail)
        else:
            yield rows.Row(name, error, "%", "", None, detail)


def plan_choice(repetitions):
    """What the point that a plan takes costs above the best one of the table."""
    cells = {(c["mode"], c["form"]): c for c in measurements("plan-choice")}
    for goal in ("fastest", "cheapest"):
        for mode in ("partial", "universal"):
            mine = cells[mode, "components"]
            detail = f"mean of {mine['tables']} tables, worst {mine[goal + '_worst_percent']:.0f} %"
            for form in ("paper-per-worker", "paper-global"):
                if (mode, form) in cells:
                    detail += f"; {form} {cells[mode, form][goal + '_percent']:.1f}"
            name, regret = f"plan-choice/{goal}-{mode}", mine[goal + "_percent"]
            yield (rows.below(name, regret, "%", 5, detail) if mode == "partial"
                   else rows.Row(name, regret, "%", "", None, detail))


def noise_scale(repetitions):
    """A quadratic with known noise: 2, 4 and 16 workers of 32 samples, noise scales 50, 500 and 2000."""
    for m in measurements("noise-scale"):
        detail = (f"{m['runs']} runs until our own stated error is 4 %, {m['steps']:.0f} steps on average; worst "
                  f"{m['worst_percent']:.1f} %; KungFu's estimator (sign left out) {m['kungfu_mean_percent']:.1f} %, worst "
                  f"{m['kungfu_worst_percent']:.0f} %, {m['kungfu_negative']} negative")
        yield rows.below("noise-scale/quadratic", m["mean_percent"], "%", 10, detail)
    yield noise_of_optdigits()


def noise_of_optdigits():
    """The built-in trainer's model at three points of its training; all gradients of all samples say what is right."""
    data = os.path.join(rows.DATA, "optdigits", "optdigits.tra")
    output = subprocess.run([program("noise", "noise_bench"), data], stdout=subprocess.PIPE, text=True, timeout=900,
                            check=True)
    cells = [json.loads(line) for line in output.stdout.splitlines()]
    errors = [100 * abs(c["ours"] / c["truth"] - 1) for c in cells]
    kungfu = [100 * abs(abs(c["kungfu"]) / c["truth"] - 1) for c in cells]
    points = sorted({(c["trained_steps"], c["truth"]) for c in cells})
    detail = (f"{len(cells)} cells of 2, 4 and 8 workers until our own stated error is 4 %, "
              f"{statistics.mean(c['steps'] for c in cells):.0f} steps on average; worst {max(errors):.1f} %; noise scale "
              + ", ".join(f"{truth:.0f} after {steps} steps" for steps, truth in points)
              + f"; KungFu's estimator (sign left out) {statistics.mean(kungfu):.0f} %, worst {max(kungfu):.0f} %, "
              f"{sum(c['kungfu'] <= 0 for c in cells)} negative")
    return rows.below("noise-scale/optdigits", statistics.mean(errors), "%", 10, detail)
