#!/usr/bin/env python3
"""Checks rules of the tree that a compiler does not: which folder may include which, that no folders
include each other at any depth, that no types of a pure folder hold or take each other, where clocks and threads are
forbidden, how long files and functions may be, how many parameters a function may have. Prints one line per offence and exits 1. Runs as a test (ctest -R tidy).

  tidy.py [ROOT]
  tidy.py --format [ROOT]    whether clang-format 14 would change a file; 77 without that program
  tidy.py --alone BUILD      whether each header of the product compiles by itself, with the flags of a configured build
                             directory; ten minutes on two cores
"""
import ast
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

FORMATS, ALONE = "--format" in sys.argv, "--alone" in sys.argv
ARGUMENTS = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
ROOT = pathlib.Path(ARGUMENTS[0] if ARGUMENTS and not ALONE else pathlib.Path(__file__).parent.parent).resolve()

# folder -> our folders and headers that it may include (its own is implied). The longest matching prefix of a path
# decides.
ARROWS = {
    "heuristics": [],
    "supervisor/protocol": [],
    "supervisor/core": ["supervisor/protocol", "heuristics"],
    "supervisor/transport": ["supervisor/protocol"],
    "supervisor/cluster/core": ["supervisor/protocol", "heuristics"],
    "supervisor/cluster/replay": ["supervisor/cluster/core", "supervisor/protocol", "heuristics"],
    "supervisor/cluster": ["supervisor/control", "supervisor/core", "supervisor/policy", "supervisor/protocol",
                           "supervisor/transport", "heuristics",
                           "launcher/host_source.h", "launcher/process"],
    "supervisor/control": ["supervisor/core", "supervisor/protocol", "supervisor/transport"],
    "supervisor/policy": ["supervisor/core", "supervisor/protocol", "heuristics", "launcher/process", "elastictrain"],
    "supervisor": ["supervisor", "heuristics", "launcher/launcher.h", "launcher/host_source.h", "launcher/process"],
    "launcher": ["launcher/process", "supervisor/protocol", "supervisor/transport"],
    "launcher/process": ["supervisor/protocol"],
    "launcher/batch": ["launcher", "supervisor/protocol"],
    "launcher/mpi": ["launcher", "supervisor/protocol"],
    "launcher/rendezvous": ["launcher", "supervisor/protocol", "supervisor/transport"],
    "launcher/agent": ["launcher", "supervisor/protocol", "supervisor/transport"],
    "train/include": ["elastictrain"],
    "train/comm": ["supervisor/protocol", "train/peers/shapes"],
    "train/comm/mpi": ["supervisor/protocol", "train/comm"],
    "train/comm/nccl": ["supervisor/protocol", "train/comm", "train/device"],
    "train/device": ["supervisor/protocol", "train/state"],
    "train/state": ["supervisor/protocol"],
    "train/checkpoint": ["supervisor/protocol", "train/state"],
    "train/builtin": ["supervisor/protocol", "elastictrain"],
    "train/builtin/cuda": ["supervisor/protocol", "elastictrain", "train/builtin", "train/device"],
    "train/builtin/loop": ["supervisor/protocol", "elastictrain", "train/builtin"],
    "train/c_api": ["elastictrain"],
    "train/peers": ["supervisor/protocol", "elastictrain", "train/comm", "train/session"],
    "train/peers/shapes": ["supervisor/protocol"],
    "train/session": ["supervisor/protocol", "elastictrain", "train/checkpoint", "train/comm", "train/device",
                      "train/state"],
    "cli/config": ["supervisor/protocol", "heuristics", "launcher", "train/builtin"],
    "cli/traces": ["cli/config", "supervisor/protocol", "supervisor/cluster", "heuristics"],
    "cli/output": ["cli/config", "supervisor", "heuristics"],
    "cli/chart": ["cli/output", "heuristics", "supervisor/protocol"],
    "cli/metrics": ["cli/config", "cli/output", "supervisor", "heuristics"],
    "cli/top": ["cli/output", "supervisor/protocol"],
    "cli/report": ["cli/chart", "cli/output", "supervisor", "heuristics"],
    "cli": ["supervisor", "launcher", "heuristics", "train", "elastictrain"],
    "tests": ["tests", "cli", "supervisor", "launcher", "heuristics", "train", "elastictrain"],
}
# Public headers are included without the folders that they are in.
PUBLIC_HEADERS = {"elastictrain/": ("train/include/", "supervisor/policy/include/")}
OURS = ("cli/", "supervisor/", "launcher/", "heuristics/", "train/", "tests/", "elastictrain/")
PURE = ("supervisor/core/", "supervisor/cluster/core/", "supervisor/cluster/replay/", "heuristics/", "supervisor/protocol/")
FORBIDDEN_IN_PURE = [
    (re.compile(r"(system_clock|steady_clock|high_resolution_clock)::now"), "reads a clock"),
    (re.compile(r"\bstd::(thread|mutex|condition_variable|random_device)\b"), "uses threads or unseeded randomness"),
    (re.compile(r"#include *[<\"](asio|spdlog|thread|mutex)"), "includes the edge's libraries"),
]
# The worker library stays free of it, and its headers are compiled once.
ONLY_USER_OF_SPDLOG = "cli/output/log_file.cc"
FORBIDDEN_ANYWHERE = [
    (re.compile(r"\b(TODO|FIXME|XXX|HACK)\b"), "unfinished mark"),
    (re.compile(r"\b(system|popen)\s*\("), "runs a shell"),
]
FOLDERS = ("cli", "supervisor", "launcher", "heuristics", "train", "tests", "scripts")
MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 60
MAX_TEST_FUNCTION_LINES = 70
MAX_PARAMETERS = 8


def folder_of(path):
    best = max((f for f in ARROWS if path.startswith(f + "/")), key=len, default=None)
    return best


def allowed(folder, target):
    return any(target == a or target.startswith(a + "/") for a in [folder] + ARROWS[folder])


def check_includes(path, text, offences):
    folder = folder_of(path)
    if folder is None:
        return
    for number, line in enumerate(text.splitlines(), 1):
        m = re.match(r'\s*#include *[<"]([^>"]+)[>"]', line)
        if m and m.group(1).startswith(OURS) and not allowed(folder, m.group(1)):
            offences.append(f"{path}:{number}: {folder}/ may not include {m.group(1)}")


def header_path(target):
    for prefix, places in PUBLIC_HEADERS.items():
        if target.startswith(prefix):
            return next((place + target for place in places if (ROOT / place / target).exists()), target)
    return target


def note_arrows(path, text, arrows):
    """Adds (folder, included folder) -> the first include that makes this arrow, for product code."""
    if path.startswith("tests/"):
        return
    folder = path.rsplit("/", 1)[0]
    for number, line in enumerate(text.splitlines(), 1):
        m = re.match(r'\s*#include *[<"]([^>"]+)[>"]', line)
        if m and m.group(1).startswith(OURS):
            target = header_path(m.group(1)).rsplit("/", 1)[0]
            if target != folder:
                arrows.setdefault((folder, target), f"{path}:{number}: includes {m.group(1)}")


def way_back(folder, arrows):
    """The shortest cycle of arrows through the folder, as a list of arrows; empty: none."""
    ways = [[arrow] for arrow in arrows if arrow[0] == folder]
    seen = set()
    for way in ways:  # grows while it is read: breadth first
        last = way[-1][1]
        if last == folder:
            return way
        if last not in seen:
            seen.add(last)
            ways += [way + [arrow] for arrow in arrows if arrow[0] == last]
    return []


def check_cycles(arrows, offences):
    reported = set()
    for folder in sorted({arrow[0] for arrow in arrows}):
        way = way_back(folder, arrows)
        if way and folder not in reported:
            reported.update(arrow[0] for arrow in way)
            names = " -> ".join([arrow[0] for arrow in way] + [folder])
            offences.append(f"folders include each other: {names}")
            offences += [f"  {arrows[arrow]}" for arrow in way]


TYPE = re.compile(r"\b(?:class|struct)\s+([A-Z]\w*(?:::[A-Z]\w*)*)\s*(?:final\s*)?(?::[^;{]*)?\{")
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'', re.S)


def closing_brace(text, at):
    depth = 0
    for i in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i
    return len(text)


def declarations(body):
    """Of a type: without the bodies of its functions, with those of the types in it."""
    kept, i = [], 0
    while i < len(body):
        if body[i] != "{":
            kept.append(body[i])
            i += 1
            continue
        end = closing_brace(body, i)
        before = re.split(r"[;}]", body[:i])[-1]
        if re.search(r"\b(struct|class|union)\b", before) and "(" not in before:
            kept.append(body[i:end + 1])
        i = end + 1
    return "".join(kept)


def note_types(path, text, types):
    """Adds (folder, type) -> the names of types among its members and the parameters of its functions."""
    if not path.startswith(PURE):
        return
    text = COMMENT_OR_TEXT.sub(" ", text)
    for found in TYPE.finditer(text):
        body = text[found.end():closing_brace(text, found.end() - 1)]
        key = (path.rsplit("/", 1)[0], found.group(1))
        types.setdefault(key, (path, set()))[1].update(re.findall(r"\b[A-Z]\w*", declarations(body)))


def check_type_circles(types, offences):
    uses = {key: [(key[0], name) for name in sorted(names) if (key[0], name) in types and name != key[1]]
            for key, (_, names) in types.items()}
    arrows = [(user, used) for user in uses for used in uses[user]]
    reported = set()
    for key in sorted(uses):
        way = way_back(key, arrows) if key not in reported else []
        reported.update(arrow[0] for arrow in way)
        if way:
            names = " -> ".join([arrow[0][1] for arrow in way] + [key[1]])
            offences.append(f"{types[key][0]}: types that hold or take each other: {names}")


def check_spdlog(path, text, offences):
    if path != ONLY_USER_OF_SPDLOG and re.search(r"#include *[<\"]spdlog", text):
        offences.append(f"{path}: includes spdlog; only {ONLY_USER_OF_SPDLOG} may")


def check_words(path, text, offences):
    rules = FORBIDDEN_ANYWHERE + (FORBIDDEN_IN_PURE if path.startswith(PURE) else [])
    for number, line in enumerate(text.splitlines(), 1):
        code = line.split("//")[0]
        for pattern, why in rules:
            if pattern.search(line if why == "unfinished mark" else code):
                offences.append(f"{path}:{number}: {why}: {line.strip()}")


def check_lengths(path, text, offences):
    lines = text.splitlines()
    most = MAX_TEST_FUNCTION_LINES if path.startswith("tests/") else MAX_FUNCTION_LINES
    if len(lines) > MAX_FILE_LINES:
        offences.append(f"{path}: {len(lines)} lines (at most {MAX_FILE_LINES})")
    start = None
    for number, line in enumerate(lines, 1):
        # With our formatting a function at namespace or class scope opens with a line that ends in "{" and closes with
        # a brace at the same indentation.
        if start is None and re.match(r"^(  )?[A-Za-z~].*\)( const| noexcept| override| final)* ?\{$", line) and \
                not re.match(r"^\s*(if|for|while|switch|TEST_CASE|SUBCASE|extern|namespace)\b", line):
            start = (number, len(line) - len(line.lstrip()))
        elif start and re.match(r"^ {%d}\}" % start[1], line):
            if number - start[0] + 1 > most:
                offences.append(f"{path}:{start[0]}: function of {number - start[0] + 1} lines (at most {most})")
            start = None


def check_parameters(path, text, offences):
    """Of functions in Python; more belong into a class of their own."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            given = node.args
            names = [one.arg for one in [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg] if one]
            number = len(names) - (names[:1] in (["self"], ["cls"]))
            if number > MAX_PARAMETERS:
                offences.append(f"{path}:{node.lineno}: {node.name} has {number} parameters (at most {MAX_PARAMETERS})")


def files_of(*suffixes):
    return sorted(p for d in FOLDERS for p in (ROOT / d).rglob("*") if p.suffix in suffixes)


def sources():
    return [p for p in files_of(".h", ".hpp", ".cc", ".c", ".cu") if not p.is_relative_to(ROOT / "scripts")]


def flags_of(build):
    """The options of all sources, without those that say what is generated."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        given = " ".join(words[1:words.index("-o")])
        found.update(dict.fromkeys(re.findall(r"-std=\S+|-[DI]\S+|-isystem \S+", given)))
    return [word for option in found for word in option.split(" ")]


def check_alone(build):
    """A unit hides what a header of it does not include itself."""
    flags = flags_of(build)

    def failure_of(path):
        run = subprocess.run(["c++", "-xc++", *flags, "-fsyntax-only", "-w", str(path)], capture_output=True, text=True, cwd=build)
        return next((line for line in run.stderr.splitlines() if "error" in line), "") if run.returncode else ""

    headers = [path for path in files_of(".h", ".hpp") if not path.is_relative_to(ROOT / "tests")]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        failures = [text for text in threads.map(failure_of, headers) if text]
    print("\n".join([*failures, f"tidy: {len(headers)} headers, {len(failures)} do not compile alone"]))
    return 1 if failures else 0


def check_format():
    """Other versions break lines in other places."""
    program = shutil.which("clang-format-14") or shutil.which("clang-format")
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout if program else ""
    if " version 14." not in version:
        print("tidy: the format is not checked: no clang-format 14 (Debian's package clang-format)")
        return 77
    files, changed = sorted(str(file) for file in sources()), 0
    for first in range(0, len(files), 100):
        run = subprocess.run([program, "--dry-run", "-Werror", *files[first:first + 100]], capture_output=True, text=True)
        for line in run.stderr.splitlines():
            if "code should be clang-formatted" in line:
                changed += 1
                print(line)
    print(f"tidy: {len(files)} files, {changed} places to format")
    return 1 if changed else 0


def main():
    if ALONE:
        return check_alone(pathlib.Path(ARGUMENTS[0]).resolve())
    if FORMATS:
        return check_format()
    offences = []
    arrows, types = {}, {}
    files = sources()
    for file in sorted(files):
        path = file.relative_to(ROOT).as_posix()
        text = file.read_text()
        check_includes(path, text, offences)
        note_arrows(path, text, arrows)
        note_types(path, text, types)
        check_words(path, text, offences)
        check_spdlog(path, text, offences)
        check_lengths(path, text, offences)
    scripts = files_of(".py")
    for file in scripts:
        check_parameters(file.relative_to(ROOT).as_posix(), file.read_text(), offences)
    check_cycles(arrows, offences)
    check_type_circles(types, offences)
    for o in offences:
        print(o)
    print(f"tidy: {len(files) + len(scripts)} files, {len(offences)} offences")
    return 1 if offences else 0


sys.exit(main())
