"""How long no worker completed a step because of an event, from the records of all workers' steps.

A record is a dictionary with `t` (s on CLOCK_MONOTONIC) and `pid`, one for each step that a worker has completed. A worker
that starts again from a checkpoint computes steps a second time; they count as steps here.
"""

import statistics

BASE_WINDOW_S = 6  # before the event: what a step took
SETTLE_S = 1  # after the gap


def idle_ms(records, event, end):
    """The longest gap between two steps of any workers in the window from the last step before `event` to `end`, minus a
    median step (after the gap, else before the event). None where fewer than two steps were completed in the window."""
    times = sorted(record["t"] for record in records if record["t"] <= end)
    before = [t for t in times if t <= event]
    window = before[-1:] + [t for t in times if t > event]
    if len(window) < 2:
        return None
    length, resumed = max((b - a, b) for a, b in zip(window, window[1:]))
    step = median_step(records, resumed + SETTLE_S, end) or median_step(records, event - BASE_WINDOW_S, event) or 0
    return 1000 * (length - step)


def median_step(records, begin, end):
    """Median time in s between two steps of the same worker; None where no worker completed two."""
    by_worker = {}
    for record in sorted(records, key=lambda record: record["t"]):
        if begin <= record["t"] <= end:
            by_worker.setdefault(record["pid"], []).append(record["t"])
    gaps = [b - a for times in by_worker.values() for a, b in zip(times, times[1:])]
    return statistics.median(gaps) if gaps else None
