"""How soon stragglers are named, how often somebody is named who is none, and what reactions bring. Simulated workers with
the noise of real ones (tests/unit/heuristics/straggler/data)."""

import os
import subprocess

import rows
from communicator import program

DATA = os.path.join(rows.ROOT, "tests", "unit", "heuristics", "straggler", "data")
MOST_STEPS = 20


def cases(name, source, *arguments):
    """The lines of a benchmark program as dictionaries."""
    argv = [program("straggler", name), source, *arguments]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=600, check=True)
    return [dict(field.split("=") for field in line.split()) for line in done.stdout.splitlines()]


def recorded(name):
    return os.path.join(DATA, f"{name}.csv")


def of(found, detector, **fields):
    return [case for case in found if case["detector"] == detector
            and all(case.get(key) == str(value) for key, value in fields.items())]


def detect(repetitions):
    """One row for each slow-down and for false alarms; the detectors of others stand in its detail."""
    for noise in ("own_cores", "half_cores"):
        found = cases("straggler_detect", recorded(noise))
        for workers in (4, 64):
            for percent in (10, 20, 50, 100):
                yield delay_row(noise, found, workers, percent)
        alarms = {name: sum(int(case["false_alarms"]) for case in of(found, name) if "false_alarms" in case)
                  for name in ("robust", "ewma", "nvidia", "dlrover")}
        steps = max(int(case["steps"]) for case in found if "steps" in case)
        yield rows.below(f"straggler-detect/{noise}/false-alarms", alarms["robust"], "", 0,
                         f"4 and 64 workers and those recorded, {steps} steps each; " + others(alarms))
    for noise in ("heavy-tailed", recorded("shared_cores")):
        alarms = {name: int(of(cases("straggler_detect", noise, name), name, as_recorded=1)[0]["false_alarms"])
                  for name in ("robust", "ewma", "nvidia", "dlrover")}
        yield rows.Row(f"straggler-detect/{os.path.basename(noise).removesuffix('.csv')}/false-alarms", alarms["robust"], "",
                       "", None, others(alarms))


def delay_row(noise, found, workers, percent):
    case = {name: of(found, name, workers=workers, slower_percent=percent)[0]
            for name in ("robust", "ewma", "nvidia", "dlrover")}
    name = f"straggler-detect/{noise}/{workers}-workers-{percent}%"
    ours = case["robust"]
    detail = (f"median {ours['median_steps']}, worst of {ours['trials']}; " +
              others({key: f"{value['worst_steps']} ({value['missed']} missed)" for key, value in case.items()}))
    if percent < 20:
        return rows.Row(name, float(ours["worst_steps"]), "steps", "", None, detail)
    return rows.below(name, float(ours["worst_steps"]), "steps", MOST_STEPS, detail)


def others(values):
    return ", ".join(f"{name} {value}" for name, value in values.items() if name != "robust")


def recover(repetitions):
    """Simulated: throughput in percent of before; after `rebalance` against what is possible with the slow worker."""
    for noise in ("own_cores", "half_cores"):
        for case in cases("straggler_recover", recorded(noise)):
            name = f"straggler-recover/{noise}/{case['action']}-{case['workers']}-workers-{case['slower_percent']}%"
            limit = 98 if case["action"] == "replace" else round(float(case["best_percent"]) - 3, 1)
            yield rows.at_least(name, float(case["after_percent_of_before"]), "% of before", limit,
                                f"possible {case['best_percent']} %; simulated workers")
