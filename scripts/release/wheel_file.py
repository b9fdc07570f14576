"""Writes a wheel anew in one form, so that the same content is the same bytes: members in order, with the time of
SOURCE_DATE_EPOCH, mode 755 or 644 and no owner. Its version and platform tag become the given ones. Prints the new wheel.

  wheel_file.py WHEEL DIRECTORY VERSION PLATFORM
"""
import base64
import hashlib
import os
import pathlib
import re
import sys
import time
import zipfile

FIRST_TIME = 315532800  # of 1980, before which zip has no times


def read_members(path):
    """name -> (content, whether it can be executed), without folders, bytecode and the list of members itself."""
    members = {}
    with zipfile.ZipFile(path) as wheel:
        for info in wheel.infolist():
            if not info.is_dir() and "__pycache__/" not in info.filename and not info.filename.endswith(".dist-info/RECORD"):
                members[info.filename] = wheel.read(info), bool(info.external_attr >> 16 & 0o111)
    return members


def set_line(text, key, value):
    """The text with one line of this key, in place of the first one."""
    lines, seen = [], False
    for line in text.split("\n"):
        if line.startswith(key + ": "):
            if seen:
                continue
            line, seen = f"{key}: {value}", True
        lines.append(line)
    if not seen:
        raise ValueError(f"the wheel names no {key}")
    return "\n".join(lines)


def set_names(members, version, platform):
    """(members, name of the wheel without .whl), with this version and platform instead of those that it was built with."""
    old_info = next(name.split("/")[0] for name in members if name.endswith(".dist-info/WHEEL"))
    distribution = old_info.split("-")[0]
    new_info = f"{distribution}-{version}.dist-info"
    named = {re.sub("^" + re.escape(old_info) + "/", new_info + "/", name): member for name, member in members.items()}

    def edit(name, key, value):
        content, executable = named[f"{new_info}/{name}"]
        named[f"{new_info}/{name}"] = set_line(content.decode(), key, value).encode(), executable

    wheel_text = named[f"{new_info}/WHEEL"][0].decode()
    python, abi, _ = re.search(r"^Tag: (.*)$", wheel_text, re.M)[1].split("-")
    tag = f"{python}-{abi}-{platform}"
    edit("WHEEL", "Tag", tag)
    edit("METADATA", "Version", version)
    return named, new_info, f"{distribution}-{version}-{tag}"


def record_of(members, info_folder):
    lines = []
    for name, (content, _) in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}")
    return "\n".join([*lines, f"{info_folder}/RECORD,,"]) + "\n"


def write(path, members, when):
    stamp = time.gmtime(max(when, FIRST_TIME))[:6]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, (content, executable) in members.items():
            info = zipfile.ZipInfo(name, stamp)
            info.create_system = 3  # Unix, whose modes follow
            info.external_attr = (0o100755 if executable else 0o100644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(info, content, compresslevel=9)


def rewrite(source, folder, version, platform, when):
    """The path of the new wheel."""
    members, info_folder, name = set_names(read_members(source), version, platform)
    # The description of the wheel last, as installers that read a part of the file expect it.
    ordered = dict(sorted(members.items(), key=lambda member: (member[0].startswith(info_folder), member[0])))
    ordered[f"{info_folder}/RECORD"] = record_of(ordered, info_folder).encode(), False
    path = pathlib.Path(folder, name + ".whl")
    write(path, ordered, when)
    return path


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    print(rewrite(*sys.argv[1:], int(os.environ["SOURCE_DATE_EPOCH"])))
