"""What finding a size costs and brings, in a closed loop with models of jobs on throughput curves of real systems."""

import datetime
import json
import os
import statistics
import subprocess

import rows
from communicator import program

# Or et al.: averages over starting sizes. No size of the curves brings both of a pair.
PUBLISHED_SAVINGS = {"cifar-10-like": "8.2 and 58.6 %", "imagenet-like": "19.4 % and a little"}
LEAST_OF_BEST = 95  # % of what the best fixed size saves
PAPERS = ("cifar-10-like", "imagenet-like")


def results(*arguments):
    """The lines of the benchmark program as dictionaries."""
    argv = [program("autoscale", "autoscale_bench"), os.path.join(rows.DATA, "curves"), *arguments]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=3600, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def pairs(found):
    """Ours and the published engine's on each set-up."""
    for ours in (result for result in found if result["policy"] == "efficiency"):
        yield ours, next(result for result in found if result["policy"] == "or" and result["set_up"] == ours["set_up"])


def settle(repetitions):
    found = results("settle")
    for ours, theirs in pairs(found):
        if ours["set_up"] in PAPERS:
            yield rows.below(f"autoscale-settle/{ours['set_up']}/time", 100 * ours["settled_share"], "% of the run", 6,
                             f"{ours['settled_s']:.0f} s, at most {ours['settled_s_most']:.0f} s; policy or: "
                             f"{theirs['settled_s']:.0f} s; published: 61 s (CIFAR-10), 264 s (ImageNet)")
        times = theirs["wasted"] / ours["wasted"]
        yield rows.at_least(f"autoscale-settle/{ours['set_up']}/waste", times, "times less", 3,
                            f"{ours['wasted']:.0f} worker-seconds beside {theirs['wasted']:.0f} of policy or, "
                            f"run of {ours['job_s']:.0f} s; settled after {100 * ours['settled_share']:.1f} % of it")


def regret(repetitions):
    found = results("regret", str(max(1, min(repetitions, 3))))
    for rule in sorted({result["rule"] for result in found}):
        of_rule = [result for result in found if result["rule"] == rule]
        means = sorted((result["mean"], result["curve"]) for result in of_rule)
        over = [f"{curve} {100 * mean:.1f} %" for mean, curve in means if mean > 0.05]
        worst = max(of_rule, key=lambda result: result["worst"])
        yield rows.below(f"autoscale-regret/{rule}/mean", 100 * statistics.fmean(mean for mean, _ in means), "%", 5,
                         f"{len(means)} real curves, 10 % noise, all starting sizes, jobs of 4 h")
        yield rows.below(f"autoscale-regret/{rule}/worst-curve", 100 * means[-1][0], "%", 5,
                         f"{means[-1][1]}; above 5 %: {', '.join(over) or 'none'}; worst single run: {worst['curve']} from "
                         f"{worst['worst_start']} workers, {100 * worst['worst']:.1f} %")
        yield rows.below(f"autoscale-regret/{rule}/changes", max(result["changes_per_hour"] for result in of_rule),
                         "an hour", 1, "after the policy said that it has settled; with the search's comparisons of sizes within "
                         f"2 % of the best {max(result['comparisons_per_hour'] for result in of_rule):.2f}")


# Regret in percent: the job is as long as the published one, or 18 times as long.
MOST_END_REGRET = {"cifar-10-like": 1.0, "imagenet-like-5-epochs": 2.5, "imagenet-like-90-epochs": 0.5}


def ends(repetitions):
    """Simulated: whether the search ends at the right size, all starting sizes, 6 seeds each."""
    for found in results("ends"):
        name = f"autoscale-ends/{found['set_up']}"
        yield rows.below(name + "/regret", 100 * found["regret"], "%", MOST_END_REGRET[found["set_up"]],
                         f"mean of {found['runs']} runs, policy efficiency")
        yield rows.below(name + "/off", found["ends_off"], "runs", 0,
                         f"that end more than 2 % off, of {found['runs']}; the worst {100 * found['worst_end']:.1f} %")


def rough(repetitions):
    """Simulated: on random curves without a smooth law, and with rough steps; no constant was chosen on that day's."""
    chosen = os.environ.get("ELASTICTRAIN_SEED") or datetime.date.today().isoformat()
    found = results("rough", chosen.replace("-", ""))
    for kind in dict.fromkeys(result["kind"] for result in found):
        of_kind = [result for result in found if result["kind"] == kind]
        runs = sum(result["runs"] for result in of_kind)
        yield rows.below(f"autoscale-rough/{kind}/regret", 100 * max(result["mean"] for result in of_kind), "%", 3,
                         f"seed {chosen}; {runs} runs, from 1, 2 and 8 workers; {sum(result['off'] for result in of_kind)} end "
                         f"more than 3 % off, the worst {100 * max(result['worst'] for result in of_kind):.0f} %")
        yield rows.below(f"autoscale-rough/{kind}/changes", max(result["most_changes"] for result in of_kind), "", 6,
                         f"{sum(result['moved'] for result in of_kind)} of {runs} runs have more")


def savings(repetitions):
    """Beside what the best fixed size, known beforehand, saves."""
    for ours, theirs in pairs(results("savings")):
        name = ours["set_up"]
        for what, key in (("job-time", "job_time"), ("gpu-time", "worker_seconds")):
            best = ours[f"best_{key}"]
            detail = (f"{100 * ours[key]:.1f} % of {100 * best:.1f} %; at most {100 * ours[key + '_most']:.1f} %; policy or: "
                      f"{100 * theirs[key]:.1f} %; published (time, GPU time): {PUBLISHED_SAVINGS[name]}")
            yield rows.at_least(f"autoscale-savings/{name}/{what}", 100 * ours[key] / best, "% of the best", LEAST_OF_BEST,
                                detail)


def policy_change(repetitions):
    """Simulated: a job that changes 60, 120, 300 or 900 s after it has settled, 50 seeds each."""
    for found in results("change"):
        name = f"policy-change/{found['job']}/{found['settled_for_s']}s"
        yield rows.below(name + "/changes", found["most_changes"], "", 0 if found["alike"] else 4, f"worst of {found['runs']}")
        yield rows.below(name + "/wrong", found["wrong"], "runs", 0, "more than 5 % off the best size after a minute")


def policy_call(repetitions):
    for result in results("call"):
        yield rows.below(f"policy-call/{result['policy']}", result["median_ms"], "ms", 1,
                         f"10,000 workers, median of {result['calls']}; longest {result['most_ms']:.2f} ms")
