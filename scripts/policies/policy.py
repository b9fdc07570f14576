#!/usr/bin/env python3
"""A policy as a program: grows the run while each worker keeps a share of the throughput it had at the first size.

  [policy]
  program = ["python3", "scripts/policies/policy.py", "0.8"]    # the share; default 0.8
  interval_ms = 5000

Reads one view per line, writes one decision per line (supervisor/policy/README.md). Lines on standard error appear
in the run's output.
"""
import json
import sys

share = float(sys.argv[1]) if len(sys.argv) > 1 else 0.8
first = None  # samples per second and worker at the first measured size
settled = False


def decide(job):
    global first, settled
    measured = [i for i in job.get("intervals", []) if not i["warm_up"] and i["workers"] == job["workers"]]
    seconds = sum(i["end_s"] - i["begin_s"] for i in measured)
    if seconds <= 0:
        return {"reason": {"code": "measuring", "text": f"measuring {job['workers']} workers"}}
    each = sum(i["samples"] for i in measured) / seconds / job["workers"]
    first = first or each
    reason = {"numbers": {"samples_per_s_each": each, "share": each / first}}
    figures = f"{each:.0f} samples/s per worker, {each / first:.2f} of what the first size gave"
    if settled:
        return {"reason": {**reason, "code": "settled", "text": figures}}
    if each < share * first:
        settled = True
        return {"workers": job["workers"] - 1, "reason": {**reason, "code": "pays_no_more", "text": figures}}
    if job["workers"] < min(job["max_workers"], job["reachable"]):
        return {"workers": job["workers"] + 1, "reason": {**reason, "code": "grow", "text": figures}}
    return {"reason": {**reason, "code": "at_limit", "text": figures}}


for line in sys.stdin:
    print(json.dumps({"jobs": [decide(json.loads(line)["jobs"][0])]}), flush=True)
