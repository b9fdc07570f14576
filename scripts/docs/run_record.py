"""Reads what a run recorded about itself: its journal and its workers' step logs, on one time axis.

Times are seconds since the start of the run (`up` in the journal). Step logs use the machine's monotonic clock, so a
directory of step logs can be read only on the machine of the run and before its next boot. An extract
(`steps.jsonl`, written by write_extract) holds converted times and can be read anywhere.
"""

import dataclasses
import glob
import json
import os
import time

JOURNAL_EXTRACT = "journal.jsonl"
STEPS_EXTRACT = "steps.jsonl"
# The events that a drawing needs. `observed` records, which are the largest, are not among them.
DRAWN_EVENTS = {"run_opened", "agent_hello", "resize_requested", "replace_requested", "drain_requested", "prepare",
                "generation", "exited", "loss", "idle", "audit"}


class RecordError(ValueError):
    """A journal or a step log that cannot be used; the message names the file."""


@dataclasses.dataclass(frozen=True)
class Step:
    step: int
    up_s: float  # when the first worker committed it
    generation: int
    world_size: int


def read_json_lines(path):
    """The records of a file; a torn last line, as a killed writer leaves it, is left out."""
    records = []
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            records.append(json.loads(line))
        except ValueError:
            if number < len(lines):
                raise RecordError(f"{path}:{number}: not a JSON record") from None
    return records


def read_journal(path):
    records = read_json_lines(path)
    if not records or records[0].get("event") != "run_opened":
        raise RecordError(f"{path}: not the journal of a run: it does not begin with run_opened")
    return records


def read_step_logs(directory, journal):
    """The committed steps from a directory of step logs, each at the time of the first worker that committed it."""
    monotonic_to_up = time.time() - time.monotonic() - (journal[0]["t"] - journal[0]["up"])
    steps = {}
    for path in sorted(glob.glob(os.path.join(directory, "w-*.jsonl"))):
        for record in read_json_lines(path):
            if record.get("ev") != "step":
                continue
            step = Step(record["step"], record["t"] + monotonic_to_up, record["generation"], record["world"])
            if step.step not in steps or step.up_s < steps[step.step].up_s:
                steps[step.step] = step
    return [steps[number] for number in sorted(steps)]


def read_extract(path):
    return [Step(**record) for record in read_json_lines(path)]


def read_run(journal_path, steps_path):
    """Journal records and committed steps; `steps_path` is a directory of step logs or an extract."""
    journal = read_journal(journal_path)
    steps = read_step_logs(steps_path, journal) if os.path.isdir(steps_path) else read_extract(steps_path)
    if len(steps) < 2:
        raise RecordError(f"{steps_path}: fewer than two committed steps")
    return journal, steps


def write_extract(directory, journal, steps):
    """The small part of a run's records from which it can be drawn again."""
    os.makedirs(directory, exist_ok=True)
    write_json_lines(os.path.join(directory, JOURNAL_EXTRACT), (r for r in journal if r.get("event") in DRAWN_EVENTS))
    rounded = (dataclasses.replace(step, up_s=round(step.up_s, 6)) for step in steps)
    write_json_lines(os.path.join(directory, STEPS_EXTRACT), (dataclasses.asdict(step) for step in rounded))


def write_json_lines(path, records):
    with open(path, "w", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
