#!/usr/bin/env python3
"""Draws a run over time as SVG: its world size, its samples per second, and the time between two committed steps.

  draw_run.py JOURNAL STEPS [-o FILE.svg] [--extract DIR]

JOURNAL is the journal.jsonl of a run. STEPS is its directory of step logs (ELASTICTRAIN_STEP_LOG), on the machine and
since the boot of the run, or an extract's steps.jsonl. Without arguments the picture of the front page is drawn.
"""
import argparse
import bisect
import dataclasses
import datetime
import math
import pathlib
import sys
from xml.sax.saxutils import escape

import run_record

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FRONT_PAGE_DATA = ROOT / "tests/docs/data"
FRONT_PAGE_PICTURE = ROOT / "scripts/docs/run.svg"

WIDTH_PX, LEFT_PX, RIGHT_PX = 800, 56, 24
RATE_WINDOW_S, RATE_INTERVAL_S = 0.4, 0.05
CHARACTER_PX = 6.6  # of the labels' font, for finding overlaps

STYLE = """
  .card { fill: #ffffff; stroke: #d0d7de }
  text { font: 12px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #57606a }
  .title, .change { fill: #24292f; font-weight: 600 }
  .grid { stroke: #d8dee4; stroke-width: 1 }
  .band { fill: #ddf4ff }
  .loss-band { fill: #ffebe9 }
  .mark { stroke: #0969da; stroke-width: 1; stroke-dasharray: 3 3 }
  .loss-mark { stroke: #cf222e; stroke-width: 1; stroke-dasharray: 3 3 }
  .size-area { fill: #0969da; fill-opacity: 0.15 }
  .size { fill: none; stroke: #0969da; stroke-width: 2 }
  .rate { fill: none; stroke: #1a7f37; stroke-width: 2; stroke-linejoin: round }
  .gap { fill: #8250df }
  @media (prefers-color-scheme: dark) {
    .card { fill: #0d1117; stroke: #30363d }
    text { fill: #8b949e }
    .title, .change { fill: #e6edf3 }
    .grid { stroke: #21262d }
    .band { fill: #12263f }
    .loss-band { fill: #3c1618 }
    .mark { stroke: #58a6ff }
    .loss-mark { stroke: #ff7b72 }
    .size-area { fill: #58a6ff }
    .size { stroke: #58a6ff }
    .rate { stroke: #3fb950 }
    .gap { fill: #bc8cff }
  }
"""


@dataclasses.dataclass
class Change:
    """One event that changed the membership: from its cause until the last generation that it brought."""
    label: str
    is_loss: bool
    begin_s: float
    end_s: float
    idle_ms: float


@dataclasses.dataclass(frozen=True)
class Axis:
    low: float
    high: float
    first_px: float
    last_px: float

    def px(self, value):
        return self.first_px + (value - self.low) / (self.high - self.low) * (self.last_px - self.first_px)


# --- From records to figures


def cause_label(record, last_signal):
    """What the label of a membership change says, or None for other records."""
    event = record["event"]
    if event == "resize_requested":
        return f"resize {record['target']}"
    if event == "replace_requested":
        return f"replace {record['rank']}" if "rank" in record else f"replace {record.get('host', '')}"
    if event == "drain_requested":
        return f"drain {record.get('host', '')}"
    if event == "loss":
        return f"kill -{last_signal}" if last_signal else "loss"
    return None


def changes_of(journal):
    changes, last_signal = [], 0
    for record in journal:
        event = record["event"]
        if event == "exited":
            last_signal = record.get("signal", 0)
        label = cause_label(record, last_signal)
        if label is not None:
            changes.append(Change(label, event == "loss", record["up"], record["up"], 0.0))
        elif changes and event == "generation" and record["members"]:  # the last one, of a run that stops, has none
            changes[-1].end_s = record["up"]
        elif changes and event == "idle":
            changes[-1].idle_ms += record["idle_ms"]
    return changes


def samples_per_step(journal, steps):
    """The samples of each step. Joiners take part in the first step of a generation with an empty batch."""
    plans = {record["generation"]: record for record in journal if record["event"] == "prepare"}
    samples, seen = [], set()
    for step in steps:
        plan = plans[step.generation]
        before = plans.get(plan["previous"], plan)["members"]
        is_first = step.generation not in seen
        seen.add(step.generation)
        samples.append(sum(share for member, share in zip(plan["members"], plan["shares"])
                           if not is_first or member in before))
    return samples


def rates(steps, samples):
    """(time, samples per second) over a window that slides along; a step's samples spread over the time that it took."""
    times = [step.up_s for step in steps]
    total = [0]
    for count in samples[1:]:
        total.append(total[-1] + count)

    def samples_until(time_s):
        after = min(bisect.bisect_right(times, time_s), len(times) - 1)
        share = (time_s - times[after - 1]) / (times[after] - times[after - 1])
        return total[after - 1] + share * (total[after] - total[after - 1])

    points = []
    for index in range(math.floor((times[-1] - times[0]) / RATE_INTERVAL_S) + 1):
        middle = times[0] + index * RATE_INTERVAL_S
        begin, end = max(middle - RATE_WINDOW_S / 2, times[0]), min(middle + RATE_WINDOW_S / 2, times[-1])
        points.append((middle, (samples_until(end) - samples_until(begin)) / (end - begin)))
    return points


def gaps_ms(steps):
    return [(after.up_s, 1000 * (after.up_s - before.up_s)) for before, after in zip(steps, steps[1:])]


def round_scale(highest, parts):
    """A step of 1, 2 or 5 times a power of ten that takes `highest` within about `parts` steps."""
    power = 10 ** math.floor(math.log10(highest / parts))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power * parts >= highest)


# --- Drawing


class Panel:
    """One diagram: a title, a vertical scale from 0, and the x axis that all panels share."""

    def __init__(self, title, top_px, height_px, highest, parts, x):
        tick = max(round_scale(highest, parts), 1)
        high = tick * math.ceil(highest / tick)
        self.x, self.y = x, Axis(0, high, top_px + height_px, top_px)
        self.parts = [f'<text class="title" x="{LEFT_PX}" y="{top_px - 8}">{escape(title)}</text>']
        value = 0
        while value <= high:
            y = self.y.px(value)
            self.parts.append(f'<line class="grid" x1="{LEFT_PX}" x2="{WIDTH_PX - RIGHT_PX}" y1="{y:.1f}" y2="{y:.1f}"/>'
                              f'<text x="{LEFT_PX - 8}" y="{y + 4:.1f}" text-anchor="end">{value:,.0f}</text>')
            value += tick

    def line(self, points, style):
        path = " ".join(f"{self.x.px(x):.1f},{self.y.px(y):.1f}" for x, y in points)
        self.parts.append(f'<polyline class="{style}" points="{path}"/>')

    def area(self, points, style):
        first, last = points[0][0], points[-1][0]
        path = " ".join(f"{self.x.px(x):.1f},{self.y.px(y):.1f}" for x, y in [(first, 0), *points, (last, 0)])
        self.parts.append(f'<polygon class="{style}" points="{path}"/>')

    def dots(self, points, style):
        self.parts += [f'<circle class="{style}" cx="{self.x.px(x):.1f}" cy="{self.y.px(y):.1f}" r="1.8"/>'
                       for x, y in points]


def size_line(steps):
    points = [(steps[0].up_s, steps[0].world_size)]
    for before, after in zip(steps, steps[1:]):
        if after.world_size != before.world_size:
            points += [(before.up_s, before.world_size), (before.up_s, after.world_size)]
    return points + [(steps[-1].up_s, steps[-1].world_size)]


def draw_changes(changes, x, top_px, bottom_px):
    """Bands behind all panels, and a label of two lines over each, one row higher where it would meet the one before."""
    parts, free_from_px, row = [], 0.0, 0
    for change in changes:
        begin, end = x.px(change.begin_s), x.px(change.end_s)
        kind = "loss-" if change.is_loss else ""
        idle = f"idle {change.idle_ms:.1f} ms"
        row = 1 - row if begin < free_from_px else 0
        y = top_px - 50 - 30 * row
        free_from_px = begin + 8 + CHARACTER_PX * max(len(change.label), len(idle))
        parts.append(f'<rect class="{kind}band" x="{begin:.1f}" width="{max(end - begin, 1):.1f}" y="{top_px}" '
                     f'height="{bottom_px - top_px}"/>'
                     f'<line class="{kind}mark" x1="{begin:.1f}" x2="{begin:.1f}" y1="{y - 10}" y2="{bottom_px}"/>'
                     f'<text class="change" x="{begin + 5:.1f}" y="{y}">{escape(change.label)}</text>'
                     f'<text x="{begin + 5:.1f}" y="{y + 15}">{idle}</text>')
    return parts


def draw_time_axis(x, bottom_px):
    tick = max(round_scale(x.high, 10), 1)
    parts = [f'<text x="{x.px(second):.1f}" y="{bottom_px + 18}" text-anchor="middle">{second:.0f} s</text>'
             for second in range(0, math.floor(x.high) + 1, int(tick))]
    return parts


def caption(journal):
    opened = journal[0]
    date = datetime.datetime.fromtimestamp(opened["t"], datetime.timezone.utc).strftime("%Y-%m-%d")
    agents = [record for record in journal if record["event"] == "agent_hello"]
    cores = sum(agent["cores"] for agent in agents)
    text = f"{date}, version {opened['version']}, {len(agents)} host(s), {cores} cores"
    audit = next((record for record in reversed(journal) if record["event"] == "audit"), None)
    if audit is not None:
        text += (f". Audit of {audit['samples']:,} samples: {audit['missing']} missing, {audit['repeated']} repeated, "
                 f"{audit['unequal_hashes']} unequal hashes")
    return text


def draw(journal, steps):
    """The text of the SVG."""
    changes = changes_of(journal)
    x = Axis(0, steps[-1].up_s, LEFT_PX, WIDTH_PX - RIGHT_PX)
    rate, gaps = rates(steps, samples_per_step(journal, steps)), gaps_ms(steps)
    top_px = 118
    size = Panel("world size", top_px, 80, max(step.world_size for step in steps), 4, x)
    speed = Panel("samples/s", 238, 110, max(value for _, value in rate), 4, x)
    gap = Panel("ms from step to step", 388, 80, max(value for _, value in gaps), 4, x)
    size.area(size_line(steps), "size-area")
    size.line(size_line(steps), "size")
    speed.line(rate, "rate")
    gap.dots(gaps, "gap")
    bottom_px, height_px = 468, 528
    body = [*draw_changes(changes, x, top_px, bottom_px), *size.parts, *speed.parts, *gap.parts,
            *draw_time_axis(x, bottom_px),
            f'<text x="{LEFT_PX}" y="30" class="title">{escape("One run that changes its size and loses a worker")}</text>',
            f'<text x="{WIDTH_PX - RIGHT_PX}" y="30" text-anchor="end">shaded: new workers start while the others train</text>',
            f'<text x="{LEFT_PX}" y="{bottom_px + 44}">{escape(caption(journal))}</text>']
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH_PX} {height_px}" width="{WIDTH_PX}" '
            f'height="{height_px}" role="img">\n<style>{STYLE}</style>\n'
            f'<rect class="card" x="0.5" y="0.5" width="{WIDTH_PX - 1}" height="{height_px - 1}" rx="6"/>\n'
            + "\n".join(body) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("journal", nargs="?", default=FRONT_PAGE_DATA / run_record.JOURNAL_EXTRACT)
    parser.add_argument("steps", nargs="?", default=FRONT_PAGE_DATA / run_record.STEPS_EXTRACT)
    parser.add_argument("-o", "--output", default=FRONT_PAGE_PICTURE, help="the SVG file")
    parser.add_argument("--extract", help="also write the records that were drawn into this directory")
    arguments = parser.parse_args()
    try:
        journal, steps = run_record.read_run(arguments.journal, arguments.steps)
        picture = draw(journal, steps)
    except (OSError, run_record.RecordError) as error:
        sys.exit(f"draw_run.py: {error}")
    if arguments.extract:
        run_record.write_extract(arguments.extract, journal, steps)
    pathlib.Path(arguments.output).write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
