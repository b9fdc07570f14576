"""Random small training loops: one that is joined at a random step goes on as the uninterrupted one does."""

import os
import random
import sys
import unittest

import torch_python

torch_python.run_this_test_there()
sys.path.insert(0, torch_python.PACKAGE)

import progress_trial  # noqa: E402

BEGIN = '''
import collections, itertools, random, torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(3)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
data = TensorDataset(torch.randn(12, 2))
loader = DataLoader(data, batch_size=4, shuffle=True)
count, total, seen = 0, 0.0, {}
def train(value):
    global count, seen
    optimizer.zero_grad()
    loss = ((model(torch.full((1, 2), float(value) / 10)) - 1) ** 2).mean()
    loss.backward()
    optimizer.step()
    count += 1
    seen[count % 5] = seen.get(count % 5, 0) + value
    return loss.item()
class Meter:
    def __init__(self): self.n, self.sum, self.last = 0, 0.0, []
    def add(self, value): self.n += 1; self.sum += value; self.last = self.last[-3:] + [value]; return self.n
def numbers(n, offset=0):
    for number in range(n): yield number + offset
meter, recent, names, log = Meter(), collections.deque(maxlen=4), ["a", "b", "c"], []
'''


class Program:
    """One call of train(), below nested loops, functions and methods."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.number = 0

    def text(self):
        chain = self.random.randint(1, 3)
        parts, call = [], "train(value)"
        for number in range(chain):
            name = f"level{number}"
            parts.append(self.function(name, call))
            call = f"{name}(value)" if parts[-1].startswith("def") else f"{name.title()}().run(value)"
            if not parts[-1].startswith("def"):
                parts.append(f"{name}_object = {name.title()}()")
                call = f"{name}_object.run(value)"
        body = self.loops(call, self.random.randint(1, 2), "")
        return BEGIN + "\n".join([*parts, "value = 1", "inner = 0.0", *body]) + "\n"

    def function(self, name, call):
        body = self.loops(call, self.random.randint(0, 2), "    ")
        if self.random.random() < 0.3:
            lines = [f"class {name.title()}:", "    def __init__(self): self.total, self.calls, self.meter = 0.0, 0, Meter()",
                     "    def run(self, value):", "        inner = 0.0", *("    " + line for line in body),
                     "        self.total += inner; self.calls += 1", "        return self.total + self.meter.add(inner)"]
        elif self.random.random() < 0.4:
            lines = [f"def {name}_factory():", "    kept, calls = 0.0, 0", f"    def {name}(value):",
                     "        nonlocal kept, calls",
                     "        inner = 0.0", *("    " + line for line in body), "        kept += inner; calls += 1; return kept",
                     f"    return {name}", f"{name} = {name}_factory()"]
        else:
            lines = [f"def {name}(value):", "    global total", "    inner = 0.0", *body, "    total += inner",
                     "    return inner"]
        return "\n".join(lines)

    def loops(self, call, depth, indent):
        if depth == 0:
            return [indent + line for line in self.leaf(call)]
        self.number += 1
        n, i = self.random.randint(1, 4), self.number
        head, *rest = self.random.choice([
            [f"for i{i} in range({n}):"], [f"for i{i}, v{i} in enumerate([3, 1, 2, 5][:{n}]):"],
            [f"for i{i}, w{i} in zip(range({n}), itertools.count({n})):"], [f"for i{i} in numbers({n}, value):"],
            [f"for n{i}, i{i} in {{'x': 1, 'y': 2, 'z': 3}}.items():"], [f"for i{i} in reversed(range({n})):"],
            [f"for i{i}, [b{i}] in enumerate(loader):"], [f"for i{i} in (2 * j for j in range({n})):"],
            [f"for i{i} in map(abs, [-2, -1, 4][:{n}]):"], [f"i{i} = -1", f"while i{i} < {n} - 1:", f"    i{i} += 1"],
            [f"for i{i} in itertools.islice(itertools.cycle([1, 4, 2]), {n}):"], [f"for i{i}, s{i} in enumerate(names, 2):"],
            [f"for i{i} in sorted({{3, 1, 2}}):"], [f"for i{i}, [b{i}] in zip(numbers(5), loader):"]])
        turned = "start = count" if indent else "names = names[1:] + names[:1]"
        before = self.random.sample(["losses = []", "local = Meter()", "start = count", turned, "best = None"], 2)
        inside = [f"value = i{i} + 1", *(["if count % 7 == 5: value += 1"] if self.random.random() < 0.5 else [])]
        after = self.random.choice([["log.append(round(inner, 6))"], ["recent.append(inner)"], ["inner = inner * 0.5"], []])
        leave = [f"if i{i} == {n - 1}: break"] if self.random.random() < 0.3 else []
        may_skip = self.random.random() < 0.2 and not rest
        skip = [f"if i{i} == 1 and count % 2: continue"] if may_skip else []
        opening = [head, *rest]
        if rest:
            opening = [head, rest[0]]
        lines = [*before, *opening, *("    " + line for line in [*rest[1:2], *skip, *inside])]
        lines = [line.replace("        i", "    i", 1) if rest and line.startswith("        i") else line for line in lines]
        made = [indent + line for line in lines]
        made += self.loops(call, depth - 1, indent + "    ")
        return made + [indent + "    " + line for line in [*after, *leave]]

    def leaf(self, call):
        return self.random.choice([
            [f"inner += {call}"], [f"inner = inner + {call} * value"], [f"recent.append({call})", "inner += recent[-1]"],
            [f"inner += meter.add({call})"], [f"pair = (value, {call}, [inner])", "inner += pair[1]"],
            [f"seen['last'] = {call}", "inner = inner + seen['last']"], [f"if {call} > 0.5: inner += 1", "else: inner -= 0.25"],
            [f"inner += sum([inner, {call}, value])"], [f"log[len(log):] = [{call}]", "inner += log[-1]"],
            ["losses_here = []", f"losses_here.append({call})", "inner += sum(losses_here)"],
            [f"text = f'{{value}} {{inner:.3f}} {{{call}:.3f}}'", "inner += len(text)"],
            ["late = Meter()", f"late.add({call})", "inner += late.sum"]])


class RandomPrograms(unittest.TestCase):
    def test_a_joined_run_is_the_uninterrupted_one(self):
        first, count = int(os.environ.get("ET_FIRST_SEED", "0")), int(os.environ.get("ET_SEEDS", "25"))
        for seed in range(first, first + count):
            program = Program(seed).text()
            at = random.Random(seed).randint(2, 12)
            with self.subTest(seed=seed):
                outcome = progress_trial.tried(program, at, at + 12)
                if outcome.verdict == "failed" and f"ended before its step {at}" in outcome.lines[0]:
                    outcome = progress_trial.tried(program, 2, 14)  # a short one
                if outcome.verdict == "failed" and "ended before its step" in outcome.lines[0]:
                    continue
                self.assertEqual(outcome.verdict, "equal", "\n".join(outcome.lines[:30]) + program[len(BEGIN):])


if __name__ == "__main__":
    unittest.main()
