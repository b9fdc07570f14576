"""Policies on real runs whose workers sleep along a known curve: which size they settle on, when, and in how many changes.

The figures are those of `live_curves`: the size on which a policy settles is compared with the best one of the curve, by
the policy's own loss. `or`, `provisioning` and `goodput` follow a rule; what counts for them is the rule's size.
"""

import concurrent.futures
import time
import unittest

import live_curves
import rows
from harness import Failed
from lab import Lab
from live_curves import CHANGED_FACTOR, MOST_WORKERS, config_of, live_run

PARALLEL = 6
QUIET_S = 12  # without a change: the policy has settled
ROUGH_QUIET_S = 40  # where sizes are measured for longer
MOST_S = 120
MOST_REGRET = 3
GOOD = 0.02  # regret of sizes between which it does not matter
MOST_CHANGES = 6
MOST_SETTLE_S = 20
ROUGH = {"noisy": 3, "heavy-tailed": 3}  # times as long, because each size is measured for longer
STARTS = 3  # start-ups that settling may take besides
HALF = live_curves.efficiency_loss(0.5)
COST = live_curves.cost_loss(0.004, 0.001)

POLICIES = {
    "efficiency": ({}, HALF),
    "cost": ({"utility": "linear:40,10000", "price_per_worker_hour": 3.6}, COST),
    "scavenger": ({"goal": "fastest", "steps_per_point": 20, "reconsider_s": 10}, live_curves.time_loss),
    # Published: it takes sizes in steps of 2, and does not look between them.
    "or": ({"increment": 2, "efficiency": 0.5, "decide_every_steps": 15, "min_batches_for_staying": 30}, HALF),
    "provisioning": ({"every_steps": 25}, None),
    "goodput": ({"adapt_batch": False, "refit_s": 2, "min_s": 2, "settle_steps": 15}, None),
}


class Timeline:
    """The sizes of a run, as (seconds since its first generation, size), from its journal."""

    def __init__(self, run, since=0.0):
        self.records = run.journal()
        generations = [r for r in self.records if r.get("event") == "generation"]
        self.began = generations[0]["up"] if generations else 0.0
        since = max(since, self.began)
        before = [r for r in generations if r["up"] <= since]
        self.since = since
        self.sizes = ([(since, before[-1]["world_size"])] if before else []) + [
            (r["up"], r["world_size"]) for r in generations if r["up"] > since]

    def changes(self):
        return [(t, b) for (_, a), (t, b) in zip(self.sizes, self.sizes[1:]) if a != b]

    def final(self):
        return self.sizes[-1][1]

    def settled_s(self, is_good):
        """Until the last change to or from a size that is not good, as in heuristics/simulate/figures.h."""
        changed = [b[0] for a, b in zip(self.sizes, self.sizes[1:]) if not (is_good(a[1]) and is_good(b[1]))]
        return (changed[-1] if changed else self.since) - self.since

    def text(self):
        return "→".join(str(size) for _, size in self.sizes[:1] + self.changes())

    def now(self):
        return self.records[-1]["up"]


def start_s(run):
    """From `spawn` to `ready`, the longest of the run."""
    records = run.journal()
    spawned = {r["worker"]: r["up"] for r in records if r.get("event") == "spawned"}
    return max((r["up"] - spawned[r["worker"]] for r in records if r.get("event") == "ready" and r["worker"] in spawned),
               default=0.0)


def wait_settled(run, curve, since=0.0):
    """No change for QUIET_S, or for ROUGH_QUIET_S where steps differ; after MOST_S it is what it is."""
    quiet_s = ROUGH_QUIET_S if curve in ROUGH else QUIET_S
    deadline = time.monotonic() + MOST_S * ROUGH.get(curve, 1)
    while True:
        if run.process.poll() is not None:
            raise Failed(f"the run ended with {run.process.returncode}")
        status = run.status()
        timeline = Timeline(run, since)
        last = timeline.changes()[-1][0] if timeline.sizes and timeline.changes() else timeline.since
        if timeline.sizes and status.get("phase") == "running" and status["uptime_s"] - last > quiet_s:
            return timeline
        if time.monotonic() > deadline:
            return timeline
        time.sleep(0.5)


class Outcome:
    def __init__(self, policy, curve, start, factor, timeline, run):
        self.name = f"policies-live/{policy}/{curve}/from-{start}"
        self.policy, self.curve, self.start, self.factor = policy, curve, start, factor
        self.size = timeline.final()
        self.settled_s = timeline.settled_s(self.is_good)
        self.changes = len(timeline.changes())
        self.text = timeline.text()
        self.start_s = start_s(run)
        self.reason = run.status().get("policy_reason", "")

    def candidates(self):
        if self.policy != "or":
            return live_curves.sizes()
        return sorted({1, MOST_WORKERS, *(n for n in live_curves.sizes() if (n - self.start) % 2 == 0)})

    def is_good(self, size):
        loss = POLICIES[self.policy][1]
        if loss is not None:
            return live_curves.regret(loss, self.curve, size, self.factor, self.candidates()) <= GOOD
        return size == self.size

    def rows(self):
        loss = POLICIES[self.policy][1]
        detail = f"{self.text}; {self.reason[:110]}"
        if loss is not None:
            best = live_curves.best_size(loss, self.curve, self.factor, self.candidates())
            off = 100 * live_curves.regret(loss, self.curve, self.size, self.factor, self.candidates())
            yield rows.below(self.name + "/regret", off, "%", MOST_REGRET, f"best {best}; {detail}")
        elif self.policy == "provisioning":
            best = live_curves.provisioning_size(self.curve, self.start, self.factor)
            yield rows.below(self.name + "/off", abs(self.size - best), "workers", 0, f"the rule's size {best}; {detail}")
        else:
            off = live_curves.goodput_distance(self.curve, self.size, self.factor)
            yield rows.below(self.name + "/off", off, "of utility", 0.03, f"band 0.35 to 0.65; {detail}")
        yield rows.below(self.name + "/settled", self.settled_s, "s", round(MOST_SETTLE_S * ROUGH.get(self.curve, 1) + STARTS * self.start_s, 1),
                         f"a start-up takes {self.start_s:.1f} s")
        # A rule that adds one worker at a time needs as many changes.
        most = max(MOST_CHANGES, MOST_WORKERS) if self.policy == "provisioning" else MOST_CHANGES
        yield rows.below(self.name + "/changes", self.changes, "", most)


def hosts_of(curve):
    return ["node1:4", "node2:4"] if curve == "host-border" else None


def measure(policy, curve, start, lab):
    """The outcomes of one run: one, or two if the job changes after it has settled."""
    settings = POLICIES[policy][0]
    lab = lab if curve == "host-border" else None
    with live_run(config_of(curve, policy, start, settings, hosts_of(curve)), lab) as (run, slow), \
            live_curves.rough_steps(slow, curve, seed=start):
        run.wait_status(lambda s: s.get("phase") == "running" and s["step"] > 0, 60, "the first steps")
        outcomes = [Outcome(policy, curve, start, 1, wait_settled(run, curve), run)]
        if curve == "changing" and policy != "provisioning":  # which stays, as published
            changed_at = Timeline(run).now()
            slow.set("exchange", CHANGED_FACTOR)
            time.sleep(15)  # and longer, as steps are now
            later = Outcome(policy, curve, start, CHANGED_FACTOR, wait_settled(run, curve, changed_at), run)
            later.name += "/changed"
            outcomes.append(later)
        run.do("stop", run.name)
        run.wait(60)
        return outcomes


def cases(repetitions):
    """The quick form, --repetitions 1: each policy on one curve and `efficiency` on all; else everything, from 1, 2 and 8 workers."""
    if repetitions > 1:
        return [(policy, curve, start) for policy in POLICIES for curve in live_curves.CURVES for start in (1, 2, MOST_WORKERS)
                if policy != "provisioning" or start == 2]
    quick = [("efficiency", curve, 2) for curve in live_curves.CURVES]
    return quick + [(policy, "saturating", 2) for policy in POLICIES if policy != "efficiency"]


def two_hosts(hosts=2):
    try:
        return Lab(hosts=hosts)
    except unittest.SkipTest as reason:
        raise rows.Unavailable(str(reason)) from None


def policies_live(repetitions):
    wanted = cases(repetitions)
    with two_hosts() as lab, concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        running = [(case, pool.submit(measure, *case, lab)) for case in wanted]
        for (policy, curve, start), future in running:
            try:
                for outcome in future.result():
                    yield from outcome.rows()
            except Failed as failure:
                yield rows.Row(f"policies-live/{policy}/{curve}/from-{start}", None, "", "", False, str(failure)[:200])
