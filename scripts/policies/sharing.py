#!/usr/bin/env python3
"""A sharing policy as a program: equal shares, the job with the fewest slots first, as the built-in max-min.

  # in cluster.toml
  [policy]
  program = ["python3", "scripts/policies/sharing.py"]

  elastictrain simulate jobs/ --policy max-min,"python3 scripts/policies/sharing.py" --gpus 64

Reads one view per line, writes one decision per line (supervisor/policy/SHARING.md). Lines on standard error appear
in the cluster's output.
"""
import json
import sys


def share(view):
    jobs = view["jobs"]
    most = [min(len(job["throughput"]), view["slots"]) for job in jobs]  # beyond it a job is not faster
    slots = [0] * len(jobs)
    left = view["slots"]
    while left > 0:
        hungry = [place for place in range(len(jobs)) if slots[place] < most[place]]
        if not hungry:
            break
        fewest = min(slots[place] for place in hungry)
        for place in [place for place in hungry if slots[place] == fewest][:left]:
            slots[place] += 1
            left -= 1
    return slots


for line in sys.stdin:
    view = json.loads(line)
    shares = share(view)
    jobs = [
        {"id": job["id"], "slots": slots, "reason": f"an equal share of {view['slots']} slots"}
        for job, slots in zip(view["jobs"], shares)
    ]
    print(json.dumps({"jobs": jobs}), flush=True)
