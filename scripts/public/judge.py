"""What a start has shown: weights, rates, losses, counters and files, compared with torchrun's."""

import fnmatch
import json
import os
import re
import statistics
import subprocess

import launch

REFUSALS = re.compile(r"(?:ElasticError|SessionError|elastictrain)[^:]*: (?!made elastic)(.*)")


def _without_trials(rows, others):
    """Without the first steps whose weights no other worker had: a pass before the training. All, if nothing is equal."""
    known = {row["hash"] for row in others}
    return next((rows[at:] for at in range(min(3, len(rows))) if rows[at]["hash"] in known), rows)


TOGETHER_S = 1.5  # between the ends of one step on two workers


class Story:
    """The steps of a start, in the order of the run, from the records of its processes.

    `before`: the processes of a run that was stopped; the others continued it."""

    def __init__(self, records, before=None):
        self.steps = []  # one entry a step: hash, probe, rates, losses, ranks
        self.problems, self.strangers = [], []
        self.last = {}  # process -> its last step
        self.ended = {pid for pid, rows in records.items() if any("end" in row for row in rows)}
        members = {pid: [row for row in rows if "n" in row] for pid, rows in records.items()}
        ordered = sorted(((pid, rows) for pid, rows in members.items() if rows), key=lambda one: one[1][0]["t"])
        parts = [[one for one in ordered if before is None or one[0] in before],
                 [one for one in ordered if before is not None and one[0] not in before]]
        self._place(parts[0])
        self.steps_of_first_part = len(self.steps)
        self._place(parts[1])

    def _place(self, members):
        if len(members) > 1:
            members[0] = members[0][0], _without_trials(members[0][1], members[1][1])
        for number, (pid, rows) in enumerate(members):
            goes_on = number == 0 and self.steps
            begin = self._continuation(rows) if goes_on else self._beginning(rows, number == 0)
            begin = begin or ((0, len(self.steps)) if number == 0 else None)
            if begin is None:
                self.strangers.append((pid, rows))
                continue
            skipped, at = begin
            if number == 0:
                del self.steps[at:]  # a run that continues from before its end
            for row in rows[skipped:]:
                if at == len(self.steps):
                    self.steps.append({"hash": row["hash"], "probe": row["probe"], "rates": row["rates"], "losses": [],
                                       "sizes": set(), "t": row["t"]})
                step = self.steps[at]
                if step["hash"] != row["hash"]:
                    self.problems.append(f"weights of process {pid} (rank {row['rank']}) differ from step {at} on")
                    break
                if step["rates"] != row["rates"]:
                    self.problems.append(f"learning rates differ at step {at}: {step['rates'][0]:.6g}, {row['rates'][0]:.6g}")
                    break
                if row["loss"] is not None:
                    step["losses"].append(row["loss"])
                step["sizes"].add(row["size"])
                at += 1
            self.last[pid] = at

    def _beginning(self, rows, is_first):
        """(own records to skip, step of the first one that counts). A newcomer's first records may be of no step, or have the
        weights of the first one, whose rate is zero: those behind them must be of the next steps."""
        first = None
        for skipped in range(min(len(rows), 400)):
            row = rows[skipped]
            near = [at for at, step in enumerate(self.steps)
                    if step["hash"] == row["hash"] and (is_first or abs(step["t"] - row["t"]) < TOGETHER_S)]
            near.sort(key=lambda at: abs(self.steps[at]["t"] - row["t"]))
            if near and first is None:
                first = skipped, near[0]
            for at in near:
                if all(step["hash"] == next_row["hash"] for step, next_row in zip(self.steps[at:at + 3], rows[skipped:])):
                    return skipped, at
        return first

    def _continuation(self, rows):
        """As _beginning(), of a run that goes on: where it went furthest. The weights of a pass before the training may be those of
        a first step with a rate of zero."""
        found = [(skipped, at) for skipped, row in enumerate(rows[:3]) for at, step in enumerate(self.steps)
                 if step["hash"] == row["hash"]]
        return max(found, key=lambda one: one[1], default=None)

    def rates(self):
        return [step["rates"][0] for step in self.steps if step["rates"]]

    def last_loss(self):
        count = max(4, len(self.steps) // 5)
        losses = [statistics.mean(step["losses"]) for step in self.steps[-count:] if step["losses"]]
        return statistics.mean(losses) if losses else float("nan")

    def first_loss(self):
        losses = [statistics.mean(step["losses"]) for step in self.steps[:4] if step["losses"]]
        return statistics.mean(losses) if losses else float("nan")


def counters(case, text):
    return [int(number) for number in re.findall(case.counter, text, re.MULTILINE)] if case.counter else []


PROBE = """
import json, sys, zlib
import torch

def tensors(thing, depth=0):
    if isinstance(thing, torch.Tensor):
        yield thing
    elif isinstance(thing, dict) and depth < 8:
        for one in thing.values():
            yield from tensors(one, depth + 1)
    elif isinstance(thing, (list, tuple)) and depth < 8:
        for one in thing:
            yield from tensors(one, depth + 1)
    elif hasattr(thing, "__dict__") and depth < 8:
        yield from tensors(vars(thing), depth + 1)

found = {}
for path in sys.argv[1:]:
    try:
        if path.endswith(".safetensors"):
            import safetensors.torch
            thing = safetensors.torch.load_file(path)
        else:
            thing = torch.load(path, map_location="cpu", weights_only=False)
        found[path] = [zlib.crc32(one.detach().contiguous().view(-1).view(torch.uint8).numpy()) for one in tensors(thing)
                       if one.numel() > 0]
    except Exception as error:
        found[path] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""


def contents(start, paths):
    """path -> hashes of the tensors in it, or the error of loading it."""
    if not paths:
        return {}
    environment = {**start.environment, "PUBLIC_NO_GPU": "0"}
    environment.pop("PUBLIC_WATCH")
    try:
        done = subprocess.run([start.tools.python, "-c", PROBE, *paths], cwd=start.folder, env=environment,
                              capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return {path: "not read within 300 s" for path in paths}
    return json.loads(done.stdout.strip().split("\n")[-1]) if done.returncode == 0 else {"": done.stderr[-300:]}


def positions(start, story):
    """path -> the last step whose weights it holds; text: why that is not known."""
    steps = {step["probe"]: number for number, step in enumerate(story.steps)}
    found = {}
    for path, hashes in contents(start, start.files.paths()).items():
        if isinstance(hashes, str):
            found[path] = f"cannot be loaded ({hashes})"
        else:
            found[path] = max((steps[one] for one in hashes if one in steps), default="holds weights of no step of the run")
    return found


class Reference:
    """What torchrun shows at a fixed size, over several seeds."""

    def __init__(self, starts):
        self.stories = [Story(start.records()) for start in starts]
        self.steps = len(self.stories[0].steps)
        self.rates = self.stories[0].rates()
        self.counters = counters(starts[0].case, starts[0].text)
        self.last_losses = [story.last_loss() for story in self.stories]
        self.drop = abs(self.stories[0].first_loss() - self.last_losses[0])
        self.files = positions(starts[0], self.stories[0])
        self.problems = [problem for story in self.stories for problem in story.problems]

    def noise(self):
        spread = statistics.stdev(self.last_losses) if len(self.last_losses) > 1 else 0.0
        return max(3 * spread, 0.3 * self.drop, 0.02 * abs(self.last_losses[0]))

    def summary(self):
        return {"steps": self.steps, "last_losses": self.last_losses, "noise": self.noise(), "counters": self.counters,
                "files": self.files, "problems": self.problems}


def errors_of(text):
    """The last lines of tracebacks."""
    return [line for line in text.split("\n") if re.match(r"^(\[[^]]*\] )?[\w.]*(Error|Exception)\b", line)]


def sentence(text):
    """The last error, or what elastictrain said last."""
    lines = [found.group(1).strip() for found in REFUSALS.finditer(text)]
    said = [line for line in lines if not re.match(r"(worker|run|summary|started|in the worker)", line)]
    return (errors_of(text) or said or text.strip().split("\n"))[-1][:400]


def is_refusal(text):
    """Whether the last error, if there is one, is a sentence of elastictrain's."""
    return all("ElasticError" in line or "SessionError" in line for line in errors_of(text)[-1:])


def judge(start, reference, mode):
    """(verdict, details) of one start."""
    case, records = start.case, _without_passes_at_rate_zero(start.records(), reference.rates)
    story = Story(records, start.pids_before)
    problems, details = [], {"command": " ".join(start.command), "status": start.status, "steps": len(story.steps),
                             "notes": start.notes + start.size_notes, "last_loss": story.last_loss()}
    if start.status != 0 and len(story.steps) <= 1 and is_refusal(start.text):  # one pass before membership
        return f"refused before training: {sentence(start.text)}", details
    if start.status != 0:
        problems.append(f"ended with status {start.status}: {sentence(start.text)}")
    problems += _weights(story, start.finished is not None)
    problems += start.notes
    problems += _lengths(start, case, story, reference, mode)
    problems += _files(start, case, story, reference)
    problems += _losses_of_workers(start)
    details["files"] = positions(start, story)
    details["problems"] = problems
    details["rates_end"] = story.rates()[-1:]
    if problems:
        return "WRONG: " + "; ".join(problems), details
    fixed = start.refusals + launch.FIXED.findall(start.text)
    if fixed:
        return f"fixed size: {fixed[0][:300]}", details
    return "elastic" if mode in ("resize", "kill", "resume") else "ok", details


def _without_passes_at_rate_zero(records, expected):
    """elastictrain makes a pass of its own before a worker is a member, with every rate at zero."""
    def counts(row):
        return row.get("n") != 0 or any(row["rates"]) or not expected[0]

    return {pid: [row for row in rows if counts(row)] for pid, rows in records.items()}


def _weights(story, is_resumed):
    problems = list(story.problems)
    if not story.steps:
        problems.append("no optimizer has made a step")
    if not is_resumed:
        problems += [f"process {pid} (rank {rows[-1]['rank']}) made {len(rows)} steps with weights of its own"
                     for pid, rows in story.strangers if len(rows) > 3]
    return problems


def _lengths(start, case, story, reference, mode):
    problems = []
    is_undisturbed = mode in ("torchrun", "elastictrain-torchrun", "torch")
    if is_undisturbed or mode == "resume":
        if abs(len(story.steps) - reference.steps) > max(3, reference.steps // 50):
            problems.append(f"{len(story.steps)} steps, torchrun {reference.steps}")
    if is_undisturbed or mode == "resume" or case.rates == "steps":
        problems += _rates(story.rates(), reference.rates, 3 if not is_undisturbed else 0 if reference.rates[0] else 1)
    if case.counter:
        problems += _counters(counters(case, start.text), reference.counters, 1 if mode == "resume" else 0,
                              1 if mode == "kill" else 0)
    if case.loss_varies:
        loss, expected = story.last_loss(), reference.last_losses[0]
        allowed = reference.noise() * (1 if is_undisturbed else 2)
        if not abs(loss - expected) <= allowed:
            problems.append(f"loss {loss:.4f} at the end, torchrun {expected:.4f} (noise {allowed:.4f})")
    return problems


def _rates(own, expected, shift):
    """A step that is repeated or left out shifts those behind it."""
    for at, rate in enumerate(own):
        near = expected[max(0, at - shift):at + shift + 1]
        if near and not any(abs(rate - one) <= 1e-6 * max(abs(rate), abs(one)) for one in near):
            return [f"learning rate {rate:.6g} at step {at}, torchrun {expected[min(at, len(expected) - 1)]:.6g}"]
    return []


def _counters(own, expected, repeated, gaps):
    """`repeated`: numbers that may come twice. What follows the update in the step of a stop runs again after a resume.
    `gaps`: times at which nobody may print, between the loss of the first worker and its successor's first step as rank 0."""
    problems = []
    backward = [(a, b) for a, b in zip(own, own[1:]) if b < a]
    if backward:
        problems.append(f"a counter of the script goes from {backward[0][0]} to {backward[0][1]}")
    if len(own) - len(set(own)) > repeated and len(set(expected)) == len(expected):
        twice = sorted(one for one in set(own) if own.count(one) > 1)
        problems.append(f"the script prints {twice[:4]} more than once")
    missing = sorted(set(expected) - set(own))
    order = sorted(set(expected))
    places = [order.index(one) for one in missing]
    begun = sum(place - 1 not in places for place in places)
    if begun > gaps or missing and order[-1] == missing[-1]:
        problems.append(f"the script never prints {missing[:4]} ({len(missing)} numbers)")
    return problems


def _files(start, case, story, reference):
    problems = []
    where = positions(start, story)
    for path, at in where.items():
        if isinstance(at, str) and not (path in reference.files and isinstance(reference.files[path], str)):
            problems.append(f"{path} {at}")
    for pattern in [*case.rewritten, *case.once]:
        if any(fnmatch.fnmatch(path, pattern) for path in reference.files) and \
                not any(fnmatch.fnmatch(path, pattern) for path in where):
            problems.append(f"no file {pattern}")
    last = max((at for at in where.values() if isinstance(at, int)), default=None)
    last_of_reference = max((at for at in reference.files.values() if isinstance(at, int)), default=None)
    if last is not None and last_of_reference is not None:
        late = len(story.steps) - last
        if late > reference.steps - last_of_reference + 3:
            problems.append(f"the newest file holds step {last} of {len(story.steps)}")
    for path, times in start.files.writes.items():
        if any(fnmatch.fnmatch(path, pattern) for pattern in case.once):
            if len(times) > 1:
                problems.append(f"{path} was written {len(times)} times")
            elif path in (start.finished or {}) and times != start.finished[path]:
                problems.append(f"{path}, finished before the stop, was written again")
    return problems


def _losses_of_workers(start):
    """Workers that were lost without being killed by us, by the journal."""
    journal = os.path.join(start.folder, "state", start.name, "journal.jsonl")
    if not os.path.exists(journal):
        return []
    with open(journal) as file:
        losses = [record for record in map(json.loads, file) if record["event"] == "loss"]
    if len(losses) <= len(start.killed):
        return []
    return [f"{len(losses)} losses of workers, {len(start.killed)} of them asked for: " +
            "; ".join(str(loss["what"])[:160] for loss in losses[:3])]
