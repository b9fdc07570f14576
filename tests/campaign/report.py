"""The table at the end of a campaign."""

import statistics


def show(state):
    """Prints the table. Returns the exit status: 0 if nothing was lost, repeated, hung or left behind."""
    kinds = sorted({fault["kind"] for fault in state["faults"]})
    print(f"\nseed {state['seed']}, {state['hosts']} hosts, {len(state['faults'])} faults in {len(state['runs'])} runs")
    print(f"{'fault':<26}{'times':>6}{'trained':>9}{'idle ms: median':>17}{'most':>8}{'s to recover':>15}")
    for kind in kinds:
        own = [fault for fault in state["faults"] if fault["kind"] == kind]
        idle = [fault["idle_ms"] for fault in own if "idle_ms" in fault] or [0]
        seconds = [fault["seconds"] for fault in own if "seconds" in fault] or [0]
        good = sum(fault["ok"] for fault in own)
        print(f"{kind:<26}{len(own):>6}{good:>9}{statistics.median(idle):>17.0f}{max(idle):>8}"
              f"{statistics.median(seconds):>15.1f}")
    audits = [run["audit"] for run in state["runs"] if run.get("audit")]
    totals = {key: sum(int(audit.get(key) or 0) for audit in audits)
              for key in ("steps", "missing", "repeated", "unequal_hashes")}
    hung = sum(any("Failed" in problem for problem in run["problems"]) for run in state["runs"])
    orphans = sum(bool(run.get("orphans")) for run in state["runs"])
    restarted = sum(fault.get("restarted", 0) for fault in state["faults"])
    disturbed = sum(bool(fault.get("disturbed")) for fault in state["faults"])
    print(f"\ncommitted steps {totals['steps']}, missing {totals['missing']}, repeated {totals['repeated']}, "
          f"unequal hashes {totals['unequal_hashes']}")
    print(f"hung runs {hung}, runs that left processes {orphans}, healthy workers restarted {restarted}, "
          f"faults that should have changed nothing and did {disturbed}")
    accuracies = [run["accuracy"] for run in state["runs"] if run.get("accuracy")]
    if accuracies:
        print(f"final accuracy with faults {', '.join(map(str, accuracies))}; without {state.get('reference_accuracy')}")
    problems = [(index + 1, problem) for index, run in enumerate(state["runs"]) for problem in run["problems"]]
    for index, problem in problems:
        print(f"run {index}: {problem}")
    bad = [fault for fault in state["faults"] if not fault["ok"]]
    return 1 if problems or bad or orphans or restarted or disturbed else 0
