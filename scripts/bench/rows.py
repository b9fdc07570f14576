"""The table of benchmarks. Each row is declared by @row next to the function that measures it: its name, the part of the page
that it fills, what it measures, and its targets. What such a function hands back, and where it finds things."""

import dataclasses
import os
import subprocess
import sys
import traceback
from statistics import median

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("ELASTICTRAIN_BUILD", os.path.join(ROOT, "build", "release"))
DATA = os.path.join(ROOT, "tests", "data")
PACKAGE = os.path.join(ROOT, "train", "python")
PROGRAMS = os.path.join(ROOT, "scripts", "bench", "programs")
LIBRARY = os.path.join(BUILD, "train", "libelastictrain.so")
os.environ.setdefault("ELASTICTRAIN_BINARY", os.path.join(BUILD, "cli", "elastictrain"))
sys.path.insert(0, os.path.join(ROOT, "tests", "system"))

# The parts of the page, in its order. `scripts/bench/README.md` has a mark for the table of each.
SECTIONS = ("changes of size", "failures", "overhead and correctness", "PyTorch", "communication", "policies",
            "many jobs, simulated", "many jobs, runs", "many jobs, live", "operation", "launching and scale", "GPUs")
TABLE = {}


class Unavailable(Exception):
    """The benchmark is not possible on this machine; the text says why."""


@dataclasses.dataclass
class Row:
    name: str
    about: str
    lines: dict  # of the page: name, which is the row's or begins with it -> (section, target)
    function: object  # repetitions -> Values

    def section(self):
        return next(iter(self.lines.values()))[0]

    def line_of(self, value):
        """The line of the page to which a value belongs: the longest name with which its own begins."""
        return max((line for line in self.lines if value.name.startswith(line)), key=len, default=next(iter(self.lines)))


def row(name, section, about, target):
    """Declares the function below it as a row. `target`: for people, as it stands on the page; where a row has several lines
    there, {end of the line's name: target, or (section, target)}."""
    targets = target if isinstance(target, dict) else {"": target}
    lines = {name + end: one if isinstance(one, tuple) else (section, one) for end, one in targets.items()}
    for place, _ in lines.values():
        if place not in SECTIONS:
            raise ValueError(f"{name}: the page has no part '{place}'; there are {', '.join(SECTIONS)}")

    def declared(function):
        if name in TABLE:
            raise ValueError(f"two rows are called {name}")
        TABLE[name] = Row(name, about, lines, function)
        return function

    return declared


@dataclasses.dataclass
class Value:
    name: str
    value: float | None
    unit: str = ""
    target: str = ""
    met: bool | None = None  # None: there is nothing to compare with here
    detail: str = ""
    every: tuple = ()  # of which `value` is the median

    def fields(self):
        return {**dataclasses.asdict(self), "value": None if self.value is None else round(self.value, 4),
                "every": [round(one, 4) for one in self.every]}

    def text(self):
        return "-" if self.value is None else f"{self.value:.4g} {self.unit}".rstrip()

    def range(self):
        return f"{range_of(self.every)}, {len(self.every)} times" if self.every else ""

    def told(self):
        """Range and detail."""
        return "; ".join(text for text in (self.range(), self.detail) if text)


def of(name, value, unit, target, is_met, detail):
    """Several stand for their median."""
    every = tuple(value) if isinstance(value, (list, tuple)) else ()
    value = median(every) if every else value
    return Value(name, value, unit, target, None if is_met is None else bool(is_met(value)), detail, every)


def below(name, value, unit, limit, detail=""):
    return of(name, value, unit, f"<= {limit:g} {unit}".rstrip(), lambda found: found <= limit, detail)


def at_least(name, value, unit, limit, detail=""):
    return of(name, value, unit, f">= {limit:g} {unit}".rstrip(), lambda found: found >= limit, detail)


def shown(name, value, unit="", detail="", target=""):
    """Without a target that it could meet."""
    return of(name, value, unit, target, None, detail)


def not_measured(name, reason):
    return Value(name, None, detail=f"not measured: {reason}")


def or_why_not(name, values):
    """What `values()` gives, up to the first that is not possible here; the reason is a value as well."""
    try:
        yield from values()
    except Unavailable as reason:
        yield not_measured(name, reason)


def measure(name, repetitions):
    """The values of a row; one that is not possible or breaks is a value as well."""
    try:
        return list(TABLE[name].function(repetitions))
    except Unavailable as reason:
        return [not_measured(name, reason)]
    except Exception as error:
        traceback.print_exc()
        return [Value(name, None, met=False, detail=f"failed: {error}")]


def digits_of(values):
    """Behind the point, so that three digits of the median count."""
    return 0 if all(isinstance(value, int) for value in values) else sum(abs(median(values)) < limit for limit in (1, 10, 100))


def range_of(values):
    digits = digits_of(values)
    return f"[{min(values):.{digits}f}–{max(values):.{digits}f}]"


def spread(values):
    """Median with its range, for a detail."""
    return f"{median(values):.{digits_of(values)}f} {range_of(values)}"


def gpus():
    """Name and driver of each."""
    try:
        asked = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True,
                               text=True, timeout=30)
        return asked.stdout.strip().splitlines()
    except (OSError, subprocess.TimeoutExpired):
        return []


def machine():
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "unknown CPU")
    with open("/proc/sys/net/ipv4/tcp_congestion_control") as file:
        congestion_control = file.read().strip()
    whole = f"{os.cpu_count()} cores, {model}, Linux {os.uname().release}, TCP congestion control {congestion_control}"
    return "; ".join([whole, *gpus()])
