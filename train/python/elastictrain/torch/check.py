"""Tries on CPUs, without a launcher, whether a worker could join a training script while it runs.

    python -m elastictrain.torch.check [--step STEP] [--steps STEPS] [-m] SCRIPT [ARGUMENTS]

The script runs to STEPS (20) without interruption and hands its progress over at STEP (half of that). A second process runs it
to its first step, takes over there, and goes on. Every value, weight and gradient of every step is compared. What the script
writes, it writes twice. The exit status is 0 if all is equal, 1 if something differs, 3 if the script cannot be joined, with
the reasons.
"""

import argparse
import functools
import os
import pickle
import socket
import subprocess
import sys
import tempfile
from typing import Any, Callable, Dict, List, NamedTuple, Set, Tuple

from .._words import number_of

SHOWN = 12
TIMEOUT_S = 600


class Outcome(NamedTuple):
    verdict: str  # "equal", "different", "refused" or "failed"
    lines: List[str]  # for people
    figures: Dict[str, Any]


Run = Callable[[str, str, int, int, List[str]], str]


def tried(words: List[str], at: int, steps: int, run: Run) -> Outcome:
    """Runs both processes. `words`: [-m] SCRIPT and its arguments. `run`: makes one process, in a folder for its results, as
    donor or joiner, and returns why it did not get as far as it should."""
    with tempfile.TemporaryDirectory(prefix="elastictrain-check-") as folder:
        for mode in ("donor", "joiner"):
            error = run(folder, mode, at, steps, words)
            if error:
                return Outcome("failed", [f"{mode}: {error}"], {})
        (donor, seen), (joiner, seen_after) = (_read(folder, mode) for mode in ("donor", "joiner"))
    figures = {"donor_ms": donor["ms"], "joiner_ms": joiner["ms"], "bytes": donor.get("bytes", 0)}
    if joiner["problems"]:
        return Outcome("refused", joiner["problems"], figures)
    taken, kept, unseen = joiner["report"]
    differences, count = _compared(seen, seen_after, {name.partition(" (")[0] for name in kept})
    figures.update(taken=len(taken), compared=count, steps=len(set(seen) & set(seen_after)))
    lines = [f"taken over: {_listed(taken)}", f"kept own: {_listed(kept)}", f"not looked into: {_listed(unseen)}"]
    lines += [f"not rewritten: {reason}" for reason in donor["left"].values()]
    return Outcome("different" if differences else "equal", lines + differences, figures)


def run_process(folder: str, mode: str, at: int, steps: int, words: List[str], quiet: bool = True) -> str:
    """A process of its own, in the present folder."""
    command = [sys.executable, "-m", "elastictrain.torch.progress._trial", folder, mode, str(at), str(steps), *words]
    environment = {"CUDA_VISIBLE_DEVICES": "", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1",
                   "GROUP_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), **os.environ}
    with open(os.path.join(folder, "output"), "w+", errors="replace") as output:  # a pipe would wait for all processes
        stream = output if quiet else None
        try:
            status = subprocess.run(command, env=environment, timeout=TIMEOUT_S, stdout=stream, stderr=stream).returncode
        except subprocess.TimeoutExpired:
            return f"not at its end after {TIMEOUT_S} s"
        output.seek(0)
        said = output.read().strip()[-2000:]
    return lack(folder, mode, at) if status == 0 else f"status {status}: {said}"


def lack(folder: str, mode: str, at: int) -> str:
    """What a process that ended well should have left and did not."""
    if not os.path.exists(os.path.join(folder, mode)):
        return "it left no result"
    if mode == "donor" and not os.path.exists(os.path.join(folder, "record")):
        return f"the script ended before its step {at}"
    return ""


def _free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def _read(folder: str, mode: str) -> Tuple[Dict[str, Any], Dict[int, Dict[str, str]]]:
    with open(os.path.join(folder, mode), "rb") as file:
        result, trace = pickle.load(file)
        return result, trace


def _compared(one: Dict[int, Dict[str, str]], other: Dict[int, Dict[str, str]], kept: Set[str]) -> Tuple[List[str], int]:
    """A line for each value that differs and was not `kept`, at the first step where it does; how many were compared."""
    found: Dict[str, str] = {}
    count = 0
    ends = max(one, default=0), max(other, default=0)
    if ends[0] != ends[1]:
        found["<end>"] = f"the last step is {ends[0]} without interruption and {ends[1]} after joining"
    for step in sorted(set(one) & set(other)):
        left, right = one[step], other[step]
        for name in sorted({*left, *right} - kept):
            count += 1
            if left.get(name) != right.get(name) and name not in found:
                found[name] = (f"step {step}: {name}: {left.get(name, 'nothing'):.100} without interruption, "
                               f"{right.get(name, 'nothing'):.100} after joining")
    return list(found.values()), count


def _listed(names: List[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return (", ".join(names[:SHOWN]) + more) or "nothing"


def main() -> None:
    parser = argparse.ArgumentParser(prog="elastictrain.torch.check", usage=__doc__, add_help=True)
    parser.add_argument("--step", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    arguments = parser.parse_args(_with_end_of_options(sys.argv[1:]))
    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    if not words:
        parser.error("no script")
    at = arguments.step or max(2, arguments.steps // 2)
    outcome = tried(words, at, arguments.steps, functools.partial(run_process, quiet=not arguments.verbose))
    for line in outcome.lines:
        print(f"  {line}")
    print(_verdict(outcome, at))
    sys.exit({"equal": 0, "different": 1, "refused": 3, "failed": 1}[outcome.verdict])


def _with_end_of_options(words: List[str]) -> List[str]:
    """`-m` and what follows the script are not for the parser."""
    for number, word in enumerate(words):
        is_value = number > 0 and words[number - 1] in ("--step", "--steps")
        if word == "--":
            return words
        if not is_value and (word == "-m" or not word.startswith("-")):
            return [*words[:number], "--", *words[number:]]
    return words


def _verdict(outcome: Outcome, at: int) -> str:
    figures = outcome.figures
    costs = ""
    if figures:
        times = {**{f"donor's {name}": ms for name, ms in figures["donor_ms"].items()},
                 **{f"joiner's {name}": ms for name, ms in figures["joiner_ms"].items()}}
        costs = f"; {figures['bytes'] / 1024:.0f} KiB; " + ", ".join(f"{name} {ms:.0f} ms" for name, ms in times.items())
    if outcome.verdict == "refused":
        return f"CANNOT BE JOINED: {number_of(len(outcome.lines), 'reason')}{costs}"
    if outcome.verdict == "failed":
        return "FAILED"
    text = "EQUAL" if outcome.verdict == "equal" else "DIFFERENT"
    compared = f"{number_of(figures['steps'], 'step')} and {number_of(figures['compared'], 'value')} compared"
    return f"{text}: joined at step {at}, {compared}{costs}"


if __name__ == "__main__":
    main()
