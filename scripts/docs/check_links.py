#!/usr/bin/env python3
"""Checks the Markdown pages: every relative link and #anchor leads somewhere, README.md links every page, the files in its
commands are there, and it has at most 250 lines. Prints one line per offence and exits 1; run as a test (`ctest -R docs_links`).

  check_links.py [ROOT]
"""
import pathlib
import re
import sys
import urllib.parse

MAX_FRONT_PAGE_LINES = 250
FRONT_PAGE = "README.md"
SKIPPED_FOLDERS = {"build", "install", ".git", ".cache", "__pycache__"}

FENCE = re.compile(r"^ {0,3}(```|~~~)")
HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$")
CODE_SPAN = re.compile(r"`[^`]*`")
LINK = re.compile(r"!?\[[^\[\]]*\]\(\s*<?([^()\s<>]*(?:\([^()\s]*\))?[^()\s<>]*)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?(\S+?)>?(?:\s|$)")
COMMAND_FILE = re.compile(r"(?<![^\s\"'])(?:(?:\./)?[\w-]+(?:/[\w.-]*)+|\./[\w.-]+|[\w-]+\.(?:toml|py|sh|csv|txt)\b)")
MADE_FOLDER = "build/"  # by an earlier command
EXTERNAL = re.compile(r"^[a-z][a-z0-9+.-]*:|^//", re.IGNORECASE)


def pages_of(root):
    return sorted(path for path in root.rglob("*.md")
                  if not SKIPPED_FOLDERS.intersection(path.relative_to(root).parts[:-1]))


def text_lines(path):
    """(number, line) of a page without its code blocks: fenced ones, and those that are indented after a blank line."""
    fence, blank_before, lines = None, True, []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        mark = FENCE.match(line)
        if mark:
            fence = None if fence == mark[1] else fence or mark[1]
            continue
        is_code = fence is not None or (blank_before and line.startswith("    "))
        if not is_code:
            blank_before = not line.strip()
            lines.append((number, line))
    return lines


def links_of(path):
    """(line number, target) of every link of a page. A link's text may be broken over two lines."""
    lines = [(number, CODE_SPAN.sub(lambda span: "x" * len(span[0]), line)) for number, line in text_lines(path)]
    links = [(number, match[1]) for number, line in lines for match in [REFERENCE.match(line)] if match]
    text, starts = "", []
    for number, line in lines:
        starts.append((len(text), number))
        text += line + "\n"
    for match in LINK.finditer(text):
        links.append((next(number for start, number in reversed(starts) if start <= match.start(1)), match[1]))
    return sorted(links)


def anchor_of(heading):
    """GitHub's name of a heading."""
    visible = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    kept = re.sub(r"[^\w\- ]", "", visible.replace("`", "").lower())
    return kept.replace(" ", "-")


def anchors_of(path):
    anchors, count = set(), {}
    for _, line in text_lines(path):
        match = HEADING.match(line)
        if not match:
            continue
        name = anchor_of(match[1])
        anchors.add(f"{name}-{count[name]}" if name in count else name)
        count[name] = count.get(name, 0) + 1
    return anchors


def resolve(page, target):
    """(path, anchor) of a relative link."""
    name, _, anchor = target.partition("#")
    path = page.parent / urllib.parse.unquote(name) if name else page
    return path.resolve(), urllib.parse.unquote(anchor)


def check_link(root, page, number, target, offences):
    where = f"{page.relative_to(root)}:{number}"
    path, anchor = resolve(page, target)
    if not path.is_relative_to(root):
        offences.append(f"{where}: the link '{target}' leads out of the repository")
    elif not path.exists():
        offences.append(f"{where}: the link '{target}' leads nowhere: there is no {path.relative_to(root)}")
    elif anchor and (path.suffix != ".md" or anchor not in anchors_of(path)):
        offences.append(f"{where}: the link '{target}' leads nowhere: {path.relative_to(root)} has no heading #{anchor}")


def check_front_page(root, pages, linked, offences):
    front_page = root / FRONT_PAGE
    if front_page not in pages:
        offences.append(f"{FRONT_PAGE}: is missing")
        return
    lines = len(front_page.read_text(encoding="utf-8").splitlines())
    if lines > MAX_FRONT_PAGE_LINES:
        offences.append(f"{FRONT_PAGE}: has {lines} lines; at most {MAX_FRONT_PAGE_LINES} are allowed")
    for page in pages:
        folder = page.parent
        if page != front_page and page not in linked and not (page.name == "README.md" and folder in linked):
            offences.append(f"{FRONT_PAGE}: does not link {page.relative_to(root)}")


def check_commands(root, offences):
    """The front page's commands, in its indented blocks, name files that a newcomer has."""
    page = root / FRONT_PAGE
    text = {number for number, _ in text_lines(page)}
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if number in text or not line.startswith("    "):
            continue
        for name in COMMAND_FILE.findall(line.split("  #")[0]):
            if not name.startswith(MADE_FOLDER) and not (root / name).exists():
                offences.append(f"{FRONT_PAGE}:{number}: the command names {name}, which is not there")


def check(root):
    offences, linked = [], set()
    pages = pages_of(root)
    for page in pages:
        for number, target in links_of(page):
            if EXTERNAL.match(target):
                continue
            check_link(root, page, number, target, offences)
            if page == root / FRONT_PAGE:
                linked.add(resolve(page, target)[0])
    check_front_page(root, pages, linked, offences)
    if root / FRONT_PAGE in pages:
        check_commands(root, offences)
    return pages, offences


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent.parent).resolve()
    pages, offences = check(root)
    print("\n".join(offences) if offences else f"{len(pages)} pages: every link leads somewhere")
    sys.exit(1 if offences else 0)


if __name__ == "__main__":
    main()
