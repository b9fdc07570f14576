#!/usr/bin/env python3
"""Runs rows of the table and prints what they measure; keeps it in results.json, from which the tables of the page are written.

results.json has the machines, and for each line of the page what was measured (for people), whether it met its target, the date, the
machine, the command, the commit, and the values of which the line was made; `table`: cells of a table of its own. Lines of an
earlier date may lack what was not kept then."""

import argparse
import datetime
import difflib
import glob
import importlib
import json
import os
import re
import signal
import subprocess
import sys

import rows

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(HERE, "results.json")
PAGE = os.path.join(HERE, "README.md")
MARKED = re.compile(r"(<!-- results: (.+?) -->\n).*?(<!-- end -->)", re.S)
FEW = 6  # values of a line that are told one by one
USAGE = 64


# --- The page

def load(path=RESULTS):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def dumped(results):
    """JSON with a line for each machine and each line of the page."""
    parts = (f" {json.dumps(part)}: {{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry, ensure_ascii=False)}"
                                                       for name, entry in entries.items()) + "\n }" for part, entries in results.items())
    return "{\n" + ",\n".join(parts) + "\n}\n"


def cells(*texts):
    return "| " + " | ".join(text.replace("\n", " ").replace("|", "/") for text in texts) + " |\n"


def table(head, *lines):
    return cells(*head) + "|" + len(head) * "---|" + "\n" + "".join(cells(*line) for line in lines)


def row_of(line):
    return rows.TABLE[line.partition("/")[0]]


def lines_of(section, results):
    """Of the page: those that have been measured, in the order of the results."""
    for line, result in results["lines"].items():
        place, target = row_of(line).lines[line]
        if place == section and result.get("measured"):
            when = ", ".join(result[key] for key in ("date", "machine", "commit", "note") if result.get(key))
            yield f"`{row_of(line).name}`", target, result["measured"], when


def content(mark, results):
    """What belongs to a mark of the page: `machines`, `rows PART`, `table LINE`."""
    kind, _, name = mark.partition(" ")
    if kind == "machines":
        return table(("name", "machine"), *((key, machine["about"]) for key, machine in results["machines"].items()))
    if kind == "rows":
        return table(("benchmark", "target", "measured", "date, machine"), *lines_of(name, results))
    return table(*results["lines"][name]["table"])


def written(text, results):
    """The page with its tables from the results."""
    return MARKED.sub(lambda found: found[1] + content(found[2], results) + found[3], text)


def write_page():
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(written(text, load()))


# --- The results

def machine_key(results, description):
    """The machine of the page that this one is."""
    found = [key for key, machine in results["machines"].items()
             if all(re.search(rf"\b{re.escape(word)}\b", description) for word in machine["has"])]
    if len(found) != 1:
        sys.exit(f"bench.sh: this machine is {' and '.join(found) or 'none'} of the page's: {description}; scripts/bench/results.json, "
                 "\"machines\", says what each has")
    return found[0]


def told(line, values):
    """What was measured, in words."""
    def one(value, detail=""):
        label = value.name.removeprefix(line).strip("/-")
        return f"{label} {value.text()}".strip() + (f" {detail}" if detail else "") + (" (**not met**)" if value.met is False else "")

    if len(values) <= FEW:
        return "; ".join(one(value, value.told()) for value in values)
    judged = [value for value in values if value.met is not None]
    missed = "".join(f"; {one(value)}" for value in judged if not value.met)
    return f"{len(values)} values, {sum(value.met for value in judged)} of {len(judged)} targets met{missed}"


def commit():
    """Of the tree that was measured; with + if more than figures have changed in it."""
    def git(*words):
        return subprocess.run(["git", "-C", rows.ROOT, *words], capture_output=True, text=True).stdout.strip()

    figures = [f":!{os.path.relpath(path, rows.ROOT)}" for path in (RESULTS, PAGE)]
    changed = git("status", "--porcelain", "--untracked-files=no", ".", *figures)
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")


def record(results, name, values, command, machine):
    """Replaces the lines of a row that were measured. A line without a value keeps what it had; returns those lines."""
    row, left = rows.TABLE[name], []
    for line in row.lines:
        own = [value for value in values if row.line_of(value) == line]
        measured = [value for value in own if value.value is not None]
        if not measured:
            left.append(line)
            continue
        marks = [value.met for value in own if value.met is not None]
        result = {"measured": told(line, measured), "met": all(marks) if marks else None, "date": datetime.date.today().isoformat(),
                  "machine": machine, "command": command, "commit": commit(), "values": [value.fields() for value in own]}
        if "table" in results["lines"].get(line, {}):
            result["table"] = [["value", "measured", "target", "detail"], *([value.name, value.text(), value.target, value.told()]
                                                                            for value in own)]
        results["lines"][line] = result
    return left


def keep(name, values, command):
    results = load()
    for line in record(results, name, values, command, machine_key(results, rows.machine())):
        print(f"bench.sh: {line} was not measured; its figures stay as they were", file=sys.stderr)
    with open(RESULTS + ".new", "w", encoding="utf-8") as file:
        file.write(dumped(results))
    os.replace(RESULTS + ".new", RESULTS)
    write_page()


# --- The command

class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"{self.prog}: {message}\n")


def import_drivers():
    """Their rows are in the table then, in the order of the page's parts."""
    for path in sorted(glob.glob(os.path.join(HERE, "*.py"))):
        name = os.path.basename(path).removesuffix(".py")
        if name not in ("bench", "gpu_check"):
            importlib.import_module(name)
    ordered = sorted(rows.TABLE.items(), key=lambda item: rows.SECTIONS.index(item[1].section()))
    rows.TABLE.clear()
    rows.TABLE.update(ordered)


def parse():
    parser = Parser(prog="scripts/bench.sh", description="Benchmarks of the release build.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="see --list; 'all' for every one")
    parser.add_argument("--json", action="store_true", help="one JSON object a value")
    parser.add_argument("--list", action="store_true", help="the names, in the order of the page")
    parser.add_argument("--repetitions", type=int, default=5, metavar="N", help="medians of N (default 5)")
    parser.add_argument("--record", action="store_true",
                        help="keep what is measured: write scripts/bench/results.json, and from it the tables of README.md beside it")
    parser.add_argument("--page", action="store_true", help="write the tables of scripts/bench/README.md from results.json")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in rows.TABLE and name != "all"]
    if unknown:
        near = "".join(f"did you mean {name}? " for name in difflib.get_close_matches(unknown[0], rows.TABLE, 1, 0.75))
        parser.error(f"unknown benchmark {', '.join(unknown)}; {near}--list shows the names")
    if not options.names and not options.list and not options.page:
        parser.error("name a benchmark, or 'all'; --list shows the names")
    return options


def show(value, as_json):
    if as_json:
        print(json.dumps(value.fields()), flush=True)
        return
    met = {True: "met", False: "NOT MET", None: "-"}[value.met]
    print(f"{value.name:<34} {value.text():>16}  {value.target:<22} {met:<8} {value.told()}", flush=True)


def main():
    import_drivers()
    options = parse()
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit(143))  # so that a run in progress is ended as well
    if options.list:
        for name, row in rows.TABLE.items():
            print(f"{name:<18} {row.about}")
        return 0
    if options.page:
        write_page()
    names = list(rows.TABLE) if "all" in options.names else options.names
    if options.record:
        machine_key(load(), rows.machine())  # before hours are measured
    if names and not options.json:
        print(rows.machine())
    bad = False
    for name in names:
        values = rows.measure(name, options.repetitions)
        for value in values:
            show(value, options.json)
            bad |= value.met is False
        if options.record:
            repetitions = "" if options.repetitions == 5 else f" --repetitions {options.repetitions}"
            keep(name, values, f"scripts/bench.sh {name}{repetitions}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
