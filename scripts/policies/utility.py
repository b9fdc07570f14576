#!/usr/bin/env python3
"""A utility as a program: the result is worth its full value until a deadline, and nothing an hour later.

  [policy]
  name = "cost"
  utility_program = ["python3", "scripts/policies/utility.py", "2027-01-31T09:00", "500"]    # the deadline, the value

Reads the state of the run, one line of JSON before each view of the policy, and writes one line with points of seconds
since the run's first start and value (supervisor/policy/README.md). Lines on standard error appear in the run's output.
"""
import datetime
import json
import sys

deadline = datetime.datetime.fromisoformat(sys.argv[1]).timestamp()
value = float(sys.argv[2]) if len(sys.argv) > 2 else 100.0

for line in sys.stdin:
    state = json.loads(line)
    started = datetime.datetime.now().timestamp() - state["now_s"]
    left = max(deadline - started, 0.0)
    print(json.dumps({"utility": [[left, value], [left + 3600, 0.0]]}), flush=True)
