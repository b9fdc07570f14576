"""Policies in a closed loop with models of jobs on throughput curves of real systems, and on simulated workers with the noise of real
ones (tests/unit/heuristics/straggler/data): what finding a size costs and brings, how soon stragglers are named, what a plan of size
and batch rests on."""

import datetime
import os
from statistics import fmean, mean

import rows
from measure import json_lines, lines_of, program
from rows import at_least, below, row, shown

CURVES = os.path.join(rows.DATA, "curves")
NOISE = os.path.join(rows.ROOT, "tests", "unit", "heuristics", "straggler", "data")


def seed():
    return os.environ.get("ELASTICTRAIN_SEED") or datetime.date.today().isoformat()


def of(found, **fields):
    """Those with these fields."""
    return [one for one in found if all(str(one.get(key)) == str(value) for key, value in fields.items())]


# --- Stragglers

DETECTORS = ("robust", "ewma", "nvidia", "dlrover")  # ours, and those of others
MOST_STEPS = 20


def straggler_cases(name, source, *arguments):
    if source in ("own_cores", "half_cores", "shared_cores"):
        source = os.path.join(NOISE, f"{source}.csv")
    return [dict(field.split("=") for field in line.split()) for line in lines_of(program("straggler", name), source, *arguments)]


def others(values):
    return ", ".join(f"{name} {value}" for name, value in values.items() if name != "robust")


@row("straggler-detect", "policies", "steps until a straggler is named, false alarms; simulated, recorded noise",
     "from 20 % slower, 1 of 4 and 1 of 64: named within 20 steps; no false alarm in 10,000 steps")
def straggler_detect(_):
    """One value for each slow-down and for false alarms; the detectors of others stand in its detail."""
    for noise in ("own_cores", "half_cores"):
        found = straggler_cases("straggler_detect", noise)
        for workers in (4, 64):
            for percent in (10, 20, 50, 100):
                yield delay(noise, found, workers, percent)
        quiet = [case for case in found if "false_alarms" in case]
        alarms = {name: sum(int(case["false_alarms"]) for case in of(quiet, detector=name)) for name in DETECTORS}
        steps = max(int(case["steps"]) for case in found if "steps" in case)
        yield below(f"straggler-detect/{noise}/false-alarms", alarms["robust"], "", 0,
                    f"4 and 64 workers and those recorded, {steps} steps each; {others(alarms)}")
    for noise in ("heavy-tailed", "shared_cores"):
        alarms = {name: int(of(straggler_cases("straggler_detect", noise, name), detector=name, as_recorded=1)[0]["false_alarms"])
                  for name in DETECTORS}
        yield shown(f"straggler-detect/{noise}/false-alarms", alarms["robust"], "", others(alarms))


def delay(noise, found, workers, percent):
    case = {name: of(found, detector=name, workers=workers, slower_percent=percent)[0] for name in DETECTORS}
    name, ours = f"straggler-detect/{noise}/{workers}-workers-{percent}%", case["robust"]
    detail = (f"median {ours['median_steps']}, worst of {ours['trials']}; "
              + others({key: f"{value['worst_steps']} ({value['missed']} missed)" for key, value in case.items()}))
    worst = float(ours["worst_steps"])
    return shown(name, worst, "steps", detail) if percent < 20 else below(name, worst, "steps", MOST_STEPS, detail)


@row("straggler-recover", "policies", "throughput after replace and after rebalance; simulated, recorded noise",
     "replace ≥ 98 %; rebalance ≥ the optimum - 3 %")
def straggler_recover(_):
    """In percent of before; after `rebalance` against what is possible with the slow worker."""
    for noise in ("own_cores", "half_cores"):
        for case in straggler_cases("straggler_recover", noise):
            name = f"straggler-recover/{noise}/{case['action']}-{case['workers']}-workers-{case['slower_percent']}%"
            limit = 98 if case["action"] == "replace" else round(float(case["best_percent"]) - 3, 1)
            yield at_least(name, float(case["after_percent_of_before"]), "% of before", limit,
                           f"possible {case['best_percent']} %; simulated workers")


# --- The size

# Or et al.: averages over starting sizes. No size of the curves brings both of a pair.
PUBLISHED_SAVINGS = {"cifar-10-like": "8.2 and 58.6 %", "imagenet-like": "19.4 % and a little"}
LEAST_OF_BEST = 95  # % of what the best fixed size saves
# Regret in percent: the job is as long as the published one, or 18 times as long.
MOST_END_REGRET = {"cifar-10-like": 1.0, "imagenet-like-5-epochs": 2.5, "imagenet-like-90-epochs": 0.5}


def autoscale(*arguments):
    return json_lines(program("autoscale", "autoscale_bench"), CURVES, *arguments, timeout=3600)


def pairs(found):
    """Ours and the published engine's on each set-up."""
    return [(ours, of(found, policy="or", set_up=ours["set_up"])[0]) for ours in of(found, policy="efficiency")]


@row("autoscale-regret", "policies", "against the best fixed size, known beforehand, on real curves with 10 % noise",
     "≤ 5 % on each of 65 real curves, mean ≤ 1 %, 10 % noise; ≤ 1 change an hour once settled")
def regret(repetitions):
    found = autoscale("regret", max(1, min(repetitions, 3)))
    for rule in sorted({result["rule"] for result in found}):
        of_rule = of(found, rule=rule)
        means = sorted((result["mean"], result["curve"]) for result in of_rule)
        over = [f"{curve} {100 * mean:.1f} %" for mean, curve in means if mean > 0.05]
        worst = max(of_rule, key=lambda result: result["worst"])
        yield below(f"autoscale-regret/{rule}/mean", 100 * fmean(mean for mean, _ in means), "%", 5,
                    f"{len(means)} real curves, 10 % noise, all starting sizes, jobs of 4 h")
        yield below(f"autoscale-regret/{rule}/worst-curve", 100 * means[-1][0], "%", 5,
                    f"{means[-1][1]}; above 5 %: {', '.join(over) or 'none'}; worst single run: {worst['curve']} from "
                    f"{worst['worst_start']} workers, {100 * worst['worst']:.1f} %")
        yield below(f"autoscale-regret/{rule}/changes", max(result["changes_per_hour"] for result in of_rule), "an hour", 1,
                    "after the policy said that it has settled; with the search's comparisons of sizes within 2 % of the best "
                    f"{max(result['comparisons_per_hour'] for result in of_rule):.2f}")


@row("autoscale-rough", "policies", "simulated: random curves with dips, teeth and borders; noise that lasts, and outliers",
     "random curves of 8 workers, 100 of a kind, on which no constant was chosen (the seed is the date): `power` (k^0.1 to k), "
     "`two-dips`, `sawtooth` (odd sizes slow), `host-border`; and `power` with noise of 10 to 40 %, with noise that lasts (5 to 20 "
     "%, correlation 0.5 to 0.9), and with 1 to 6 % of steps 4 to 20 times as long; efficiency and cost, from 1, 2 and 8 workers, "
     "half of the jobs without a known end: regret ≤ 3 % on the mean of each kind, ≤ 6 changes in each run")
def rough(_):
    """On random curves without a smooth law, and with rough steps; no constant was chosen on that day's."""
    found = autoscale("rough", seed().replace("-", ""))
    for kind in dict.fromkeys(result["kind"] for result in found):
        of_kind = of(found, kind=kind)
        runs, off, moved = (sum(result[key] for result in of_kind) for key in ("runs", "off", "moved"))
        yield below(f"autoscale-rough/{kind}/regret", 100 * max(result["mean"] for result in of_kind), "%", 3,
                    f"seed {seed()}; {runs} runs, from 1, 2 and 8 workers; {off} end more than 3 % off, the worst "
                    f"{100 * max(result['worst'] for result in of_kind):.0f} %")
        yield below(f"autoscale-rough/{kind}/changes", max(result["most_changes"] for result in of_kind), "", 6,
                    f"{moved} of {runs} runs have more")


@row("autoscale-settle", "policies", "search for a size on the papers' curves: time, worker-seconds wasted; beside policy or",
     "< 6 % of the run, 3 times less waste than policy `or`")
def settle(_):
    for ours, theirs in pairs(autoscale("settle")):
        name = f"autoscale-settle/{ours['set_up']}"
        if ours["set_up"] in PUBLISHED_SAVINGS:
            yield below(f"{name}/time", 100 * ours["settled_share"], "% of the run", 6,
                        f"{ours['settled_s']:.0f} s, at most {ours['settled_s_most']:.0f} s; policy or: {theirs['settled_s']:.0f} s; "
                        "published: 61 s (CIFAR-10), 264 s (ImageNet)")
        yield at_least(f"{name}/waste", theirs["wasted"] / ours["wasted"], "times less", 3,
                       f"{ours['wasted']:.0f} worker-seconds beside {theirs['wasted']:.0f} of policy or, run of {ours['job_s']:.0f} s; "
                       f"settled after {100 * ours['settled_share']:.1f} % of it")


@row("autoscale-savings", "policies", "job time and GPU time against static sizes, all starting sizes, as Or et al.",
     "≥ 95 % of what the best fixed size saves of job time and of GPU time (the published pairs, 8.2 and 58.6 %, 19.4 % and a "
     "little, are not on these curves at any size)")
def savings(_):
    """Beside what the best fixed size, known beforehand, saves."""
    for ours, theirs in pairs(autoscale("savings")):
        for what, key in (("job-time", "job_time"), ("gpu-time", "worker_seconds")):
            best = ours[f"best_{key}"]
            yield at_least(f"autoscale-savings/{ours['set_up']}/{what}", 100 * ours[key] / best, "% of the best", LEAST_OF_BEST,
                           f"{100 * ours[key]:.1f} % of {100 * best:.1f} %; at most {100 * ours[key + '_most']:.1f} %; policy or: "
                           f"{100 * theirs[key]:.1f} %; published (time, GPU time): {PUBLISHED_SAVINGS[ours['set_up']]}")


@row("autoscale-ends", "policies", "simulated: whether the search ends at the right size, jobs of 5 and of 90 epochs",
     "regret CIFAR-like ≤ 1.0 %, ImageNet-like ≤ 2.5 % at 5 epochs and ≤ 0.5 % at 90; no run ends more than 2 % off")
def ends(_):
    """All starting sizes, 6 seeds each."""
    for found in autoscale("ends"):
        name = f"autoscale-ends/{found['set_up']}"
        yield below(f"{name}/regret", 100 * found["regret"], "%", MOST_END_REGRET[found["set_up"]],
                    f"mean of {found['runs']} runs, policy efficiency")
        yield below(f"{name}/off", found["ends_off"], "runs", 0,
                    f"that end more than 2 % off, of {found['runs']}; the worst {100 * found['worst_end']:.1f} %")


@row("policy-change", "policies", "simulated: a job that changes after it has settled: changes of size, right size",
     "a job that changes 60 to 900 s after settling: ≤ 4 changes, right within a minute; none where all sizes slow down alike; 50 "
     "seeds each")
def policy_change(_):
    for found in autoscale("change"):
        name = f"policy-change/{found['job']}/{found['settled_for_s']}s"
        yield below(f"{name}/changes", found["most_changes"], "", 0 if found["alike"] else 4, f"worst of {found['runs']}")
        yield below(f"{name}/wrong", found["wrong"], "runs", 0, "more than 5 % off the best size after a minute")


@row("policy-call", "policies", "one call of each policy with 10,000 workers", "≤ 1 ms")
def policy_call(_):
    for result in autoscale("call"):
        yield below(f"policy-call/{result['policy']}", result["median_ms"], "ms", 1,
                    f"10,000 workers, median of {result['calls']}; longest {result['most_ms']:.2f} ms")


# --- Plans: predicted time and cost, and the noise of gradients

PLAN_LIMITS = {"full": 5, "partial": 10}  # percent
PAPERS = ("paper-per-worker", "paper-global")  # forms


def plans(kind):
    return of(json_lines(program("plan", "plan_bench"), CURVES), kind=kind)


@row("plan-error", "policies", "predicted time and cost where nothing was measured: full, partial, universal search",
     "≤ 5 % full, ≤ 10 % partial")
def plan_error(_):
    """Six models on 1, 2 and 4 GPUs of up to 16 hosts; what a search does not measure is predicted."""
    cells = plans("plan-error")
    for mode in ("full", "partial", "universal"):
        mine = of(cells, mode=mode, form="components")
        error = mean(cell["time_percent"] for cell in mine)
        detail = "mean of 18 tables; " + ", ".join(
            f"{cell['workers_per_host']} a host: {cell['time_percent']:.1f} (steps {cell['steps_percent']:.1f})" for cell in mine)
        for form in PAPERS:
            if theirs := of(cells, mode=mode, form=form):
                detail += f"; {form} {mean(cell['time_percent'] for cell in theirs):.1f}"
        detail += f"; 1 a host: {mine[0]['models']}"
        name = f"plan-error/{mode}"
        yield below(name, error, "%", PLAN_LIMITS[mode], detail) if mode in PLAN_LIMITS else shown(name, error, "%", detail)


@row("plan-choice", "policies", "how far above the fastest and the cheapest point a plan's choice is", "≤ 5 % partial")
def plan_choice(_):
    """What the point that a plan takes costs above the best one of the table."""
    cells = {(cell["mode"], cell["form"]): cell for cell in plans("plan-choice")}
    for goal in ("fastest", "cheapest"):
        for mode in ("partial", "universal"):
            mine = cells[mode, "components"]
            detail = f"mean of {mine['tables']} tables, worst {mine[goal + '_worst_percent']:.0f} %"
            for form in PAPERS:
                if (mode, form) in cells:
                    detail += f"; {form} {cells[mode, form][goal + '_percent']:.1f}"
            name, above = f"plan-choice/{goal}-{mode}", mine[goal + "_percent"]
            yield below(name, above, "%", 5, detail) if mode == "partial" else shown(name, above, "%", detail)


@row("noise-scale", "policies", "the gradient noise scale of a quadratic and of optdigits, both known; beside KungFu's",
     "within 10 % of the analytic value")
def noise_scale(_):
    """A quadratic with known noise: 2, 4 and 16 workers of 32 samples, noise scales 50, 500 and 2000. Then the built-in trainer's
    model at three points of its training; all gradients of all samples say what is right."""
    for m in plans("noise-scale"):
        yield below("noise-scale/quadratic", m["mean_percent"], "%", 10,
                    f"{m['runs']} runs until our own stated error is 4 %, {m['steps']:.0f} steps on average; worst "
                    f"{m['worst_percent']:.1f} %; KungFu's estimator (sign left out) {m['kungfu_mean_percent']:.1f} %, worst "
                    f"{m['kungfu_worst_percent']:.0f} %, {m['kungfu_negative']} negative")
    cells = json_lines(program("noise", "noise_bench"), os.path.join(rows.DATA, "optdigits", "optdigits.tra"), timeout=900)
    errors = [100 * abs(cell["ours"] / cell["truth"] - 1) for cell in cells]
    kungfu = [100 * abs(abs(cell["kungfu"]) / cell["truth"] - 1) for cell in cells]
    points = ", ".join(f"{truth:.0f} after {steps} steps" for steps, truth in sorted({(c["trained_steps"], c["truth"]) for c in cells}))
    yield below("noise-scale/optdigits", mean(errors), "%", 10,
                f"{len(cells)} cells of 2, 4 and 8 workers until our own stated error is 4 %, {mean(c['steps'] for c in cells):.0f} steps "
                f"on average; worst {max(errors):.1f} %; noise scale {points}; KungFu's estimator (sign left out) {mean(kungfu):.0f} %, "
                f"worst {max(kungfu):.0f} %, {sum(c['kungfu'] <= 0 for c in cells)} negative")
