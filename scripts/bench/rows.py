"""What a benchmark hands back, and where it finds things."""

import dataclasses
import json
import os
import statistics
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("ELASTICTRAIN_BUILD", os.path.join(ROOT, "build", "release"))
DATA = os.path.join(ROOT, "tests", "data")
sys.path.insert(0, os.path.join(ROOT, "tests", "system"))


class Unavailable(Exception):
    """The benchmark is not possible on this machine; the text says why."""


@dataclasses.dataclass
class Row:
    name: str
    value: float | None
    unit: str
    target: str
    met: bool | None  # None: there is nothing to compare with here
    detail: str = ""

    def json(self):
        fields = dataclasses.asdict(self)
        if self.value is not None:
            fields["value"] = round(self.value, 4)
        return json.dumps(fields)


def below(name, value, unit, limit, detail=""):
    return Row(name, value, unit, f"<= {limit:g} {unit}".rstrip(), value <= limit, detail)


def at_least(name, value, unit, limit, detail=""):
    return Row(name, value, unit, f">= {limit:g} {unit}".rstrip(), value >= limit, detail)


def spread(values, digits=1):
    """Median with its range, for the detail of a row."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.{digits}f} [{low:.{digits}f}-{high:.{digits}f}] n={len(values)}"


def congestion_control():
    with open("/proc/sys/net/ipv4/tcp_congestion_control") as file:
        return file.read().strip()


def machine():
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "unknown CPU")
    return f"{os.cpu_count()} cores, {model}, Linux {os.uname().release}, TCP congestion control {congestion_control()}"
