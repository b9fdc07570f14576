"""What the simulator predicts for a cluster from its own journal, against what happened: for each job its completion time,
and the sizes that it was given, under every sharing policy."""

import concurrent.futures
import json
import subprocess

import live_small
import rows
from harness import BINARY

LOADS = {
    "small": live_small.small(1.0),
    # Jobs of other lengths and bounds that arrive irregularly, start faster, and gain less from each slot.
    "mixed": live_small.Load(((0, 30, 3), (6, 12, 2), (8, 44, 4), (15, 20, 4), (16, 26, 1), (23, 14, 3), (24, 34, 2)),
                             slots=5, start_s=1.2, slower=0.15),
}
DIFFERENCE_PERCENT = 10


def replay(cluster):
    """Of the jobs, the largest difference in percent; the changes of sizes that are as they were, and all."""
    out = subprocess.run([BINARY, "simulate", "--journal", cluster.place, "--json"], check=True, capture_output=True,
                         stdin=subprocess.DEVNULL, text=True).stdout
    result = json.loads(out)[0]
    differences = [100 * (job["predicted_s"] / job["live_s"] - 1) for job in result["jobs"]]
    return max(differences, key=abs), result["sizes_as_live"], result["sizes"]


def live_predicted(repetitions):
    """Each job's predicted completion time, and its sizes, against what happened on a live cluster."""
    for name, load in LOADS.items():
        with concurrent.futures.ThreadPoolExecutor(live_small.AT_ONCE) as pool:
            found = {policy: [pool.submit(live_small.run, policy, load, replay) for _ in range(max(1, repetitions))]
                     for policy in live_small.POLICIES}
        for policy, futures in found.items():
            results = [future.result() for future in futures]
            worst = max((one[0] for one in results), key=abs)
            equal, of = (sum(one[place] for one in results) for place in (1, 2))
            row = f"live-predicted/{name}/{policy}"
            yield rows.below(row, abs(worst), "%", DIFFERENCE_PERCENT, f"{worst:+.1f} % is the largest difference of a job")
            yield rows.at_least(f"{row}-sizes", 100 * equal / of, "%", 100, f"{equal} of {of} changes of a job's size as live")
