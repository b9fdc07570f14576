#!/usr/bin/env python3
"""A rule of one's own for `elastictrain sweep`: a trial is stopped once its last reports brought nothing better, while another
trial is ahead of it.

  # in sweep.toml
  [stop]
  program = ["python3", "scripts/policies/sweep.py", "3"]      # reports without anything better

Reads the sweep as one line of JSON whenever a trial has reported, writes its answer as one line
(supervisor/cluster/README.md). Lines on standard error appear among those of the sweep.
"""
import json
import sys

PATIENCE = int(sys.argv[1]) if len(sys.argv) > 1 else 3


def judge(sweep):
    sign = 1 if sweep["goal"] == "max" else -1
    best = {}
    for trial in sweep["trials"]:
        values = [sign * value for value in trial["reports"] if value is not None]
        if values:
            best[trial["name"]] = max(values)
    leader = max(best, key=best.get, default=None)
    stop, go_on = {}, {}
    for trial in sweep["trials"]:
        name, values = trial["name"], [sign * value for value in trial["reports"] if value is not None]
        if name == leader:
            go_on[name] = "the best so far"
        elif len(values) > PATIENCE and max(values[:-PATIENCE]) >= max(values[-PATIENCE:]):
            stop[name] = f"nothing better in {PATIENCE} reports, and {leader} is ahead"
    return {"stop": stop, "continue": go_on}


for line in sys.stdin:
    print(json.dumps(judge(json.loads(line))), flush=True)
