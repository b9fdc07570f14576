"""PyTorch's own tests of torch.distributed that need no GPU, on the process group of a run: which pass, which are refused by
name, which fail. The tests are those of the installed torch (torch.testing), or of a checkout whose folder ET_TESTS names."""

import collections
import json
import os
import subprocess
import tempfile
import time

import pytorch
import rows
import torchrun
from harness import BINARY

PROGRAM = os.path.join(torchrun.PEER, "group_tests.py")
WORKERS = 3
TEST_LIMIT_S = 40  # without a word of any rank
START_LIMIT_S = 180
MOST_RUNS = 25  # a test at which a worker ends costs one


def torch_pg(repetitions):
    python = torchrun.python_with_torch()
    results = {}
    left = names(python)
    for _ in range(MOST_RUNS):
        results.update(run(python, left) if left else {})
        left = [name for name in left if name not in results]
    results.update({name: ("fail", f"not reached in {MOST_RUNS} runs") for name in left})
    counts = collections.Counter(result for result, _ in results.values())
    for name, (result, why) in sorted(results.items(), key=lambda item: (item[1][0], item[0])):
        print(f"  {result:8} {name}{': ' + why.splitlines()[0] if why else ''}", flush=True)
    for result in ("pass", "refused", "fail", "hang", "skip"):
        yield rows.Row(f"torch-pg/{result}", counts[result], "tests", "", None, f"of {len(results)}, {WORKERS} workers")


def names(python):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([python, "-W", "ignore", PROGRAM, folder, "--list"], env={**os.environ, **pytorch.environment()},
                              capture_output=True, text=True, timeout=START_LIMIT_S)
    if done.returncode != 0:
        raise rows.Unavailable(f"torch's tests cannot be imported: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout.strip().splitlines()[-1].split(",")


def run(python, left):
    """{name: (result, why)} of the first ones, up to one at which the run ended."""
    with tempfile.TemporaryDirectory() as folder:
        command = [BINARY, "run", "-n", str(WORKERS), "-H", f"localhost:{WORKERS}", "--set", "failures.max_crashes=0", "--", python,
                   "-W", "ignore", PROGRAM, folder, ",".join(left)]
        with open(os.path.join(folder, "output"), "w") as output:
            process = subprocess.Popen(command, env={**os.environ, **pytorch.environment()}, stdout=output, stderr=output)
            hangs = watch(process, folder)
        lines = [read(os.path.join(folder, f"{rank}.jsonl")) for rank in range(WORKERS)]
        with open(os.path.join(folder, "output")) as output:
            tail = output.read()[-600:]
    if not lines[0]:
        raise AssertionError(f"the tests did not start: {tail}")
    return judged(lines, "hang" if hangs else "fail", tail)


def watch(process, folder):
    """Waits for its end. True: it had to be ended, because nothing was heard of a test any more."""
    heard, said = time.monotonic() + START_LIMIT_S - TEST_LIMIT_S, 0
    while process.poll() is None:
        size = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder) if name.endswith(".jsonl"))
        if size != said:
            heard, said = time.monotonic(), size
        if time.monotonic() - heard > TEST_LIMIT_S:
            process.terminate()
            process.wait()
            return True
        time.sleep(0.2)
    return False


def read(path):
    if not os.path.exists(path):
        return {}
    found = {}
    with open(path) as file:
        for line in file:
            entry = json.loads(line)
            found[entry["name"]] = (entry.get("result", "begun"), entry.get("why", ""))
    return found


def judged(lines, unfinished, tail):
    """What the ranks together say. One that began on some rank and did not end on all is `unfinished`; `tail`: the last words."""
    results = {}
    for name in dict.fromkeys(name for found in lines for name in found):
        told = [found.get(name, ("begun", "")) for found in lines]
        worst = next((kind for kind in ("fail", "refused", "begun", "pass", "skip") if any(one == kind for one, _ in told)))
        why = next((text for one, text in told if one == worst), "")
        results[name] = (unfinished, why or f"did not end on all ranks: {tail[-200:]!r}") if worst == "begun" else (worst, why)
    return results
