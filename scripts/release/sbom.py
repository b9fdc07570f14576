"""Prints what release files are made of, as SPDX 2.3 in JSON: for each program in them the archives and the libraries that are
linked, by the linker's map and the program's own list, and the packages whose headers are compiled in, by the build's record
of every file that the compiler has read. Versions and licences are those of Debian's packages. For a build by ninja and
GNU ld, on the Debian system that it was made on.

  sbom.py --version VERSION [--commit COMMIT] --build BUILD [--wheel-build BUILD] FILE…

FILE… are the Debian packages, of BUILD, and the wheel, of the other one. SOURCE_DATE_EPOCH is the time of creation.
"""
import argparse
import collections
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse
import uuid

# Words of Debian's copyright files that mean one licence of SPDX and no other.
LICENCES = {"Apache-2.0": "Apache-2.0", "Boost": "BSL-1.0", "Boost-1": "BSL-1.0", "BSL-1.0": "BSL-1.0", "Expat": "MIT",
            "BSD-2-clause": "BSD-2-Clause", "BSD-3-clause": "BSD-3-Clause", "MPL-2": "MPL-2.0", "MPL-2.0": "MPL-2.0",
            "Zlib": "Zlib", "CC0-1.0": "CC0-1.0", "ISC": "ISC"}
# How a package is in a program, from the closest to the loosest: the relation of SPDX, and what a comment says.
ARCHIVE, HEADERS, SHARED = "STATIC_LINK", "CONTAINS", "DYNAMIC_LINK"
WORDS = {ARCHIVE: "linked in from an archive", HEADERS: "its headers are compiled in", SHARED: "loaded as a shared library"}


class SbomError(Exception):
    """What keeps the bill from being made, as a sentence."""


Component = collections.namedtuple("Component", "package architecture version source")


def output_of(*command, accepted=(0,)):
    try:
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
    except FileNotFoundError:
        raise SbomError(f"there is no {command[0]}") from None
    if done.returncode not in accepted:
        raise SbomError(f"{' '.join(map(str, command[:4]))} failed: {done.stderr.strip()[-300:]}")
    return done.stdout


class Packages:
    """Which package of Debian has a file."""

    def __init__(self):
        self.owners, self.components = {}, {}

    def look_up(self, paths):
        """Asks for all of them at once; a file may be known by the name that a link of / or /usr gives it."""
        names = {}
        for path in {str(path) for path in paths} - self.owners.keys():
            plain = os.path.normpath(path)
            for name in {plain, os.path.realpath(plain), plain.removeprefix("/usr"), "/usr" + plain}:
                names.setdefault(name, []).append(path)
        wanted = sorted(names)
        for begin in range(0, len(wanted), 1000):
            for line in output_of("dpkg-query", "-S", *wanted[begin:begin + 1000], accepted=(0, 1)).splitlines():
                owner, _, name = line.partition(": ")
                for path in names.get(name, []):
                    self.owners[path] = owner.split(",")[0].strip()

    def of(self, paths):
        paths = [str(path) for path in paths]
        self.look_up(paths)
        unknown = sorted(path for path in paths if path not in self.owners)
        if unknown:
            raise SbomError(f"no package has {unknown[0]}" + (f" and {len(unknown) - 1} others" if unknown[1:] else ""))
        return {self.component(self.owners[path]) for path in paths}

    def component(self, owner):
        if owner not in self.components:
            form = "${Package}\t${Architecture}\t${Version}\t${source:Package} ${source:Version}"
            self.components[owner] = Component(*output_of("dpkg-query", "-W", "-f", form, owner).split("\t"))
        return self.components[owner]


def files_of_map(text):
    """The files outside of the build that the linker took something from: archives by the members that it included, and
    objects such as those of the C library's start."""
    head, found, tail = text.partition("\nMemory Configuration\n")
    if not found or "Archive member included" not in head:
        raise SbomError("the link map is not one of GNU ld")
    archives = set(re.findall(r"^(/\S+\.a)\(", head, re.M))
    objects = set(re.findall(r"^LOAD (/\S+\.o)$", tail, re.M))
    return archives | objects


def headers_of(build, target):
    """What the target's objects were compiled with, but for files that are named from the build's folder."""
    inputs = output_of("ninja", "-C", str(build), "-t", "inputs", target).splitlines()
    objects = [name for name in inputs if name.endswith(".o") and not name.startswith("/")]
    known = output_of("ninja", "-C", str(build), "-t", "deps", *objects)
    if known.count("#deps ") < len(objects):
        raise SbomError(f"{build} has no record of what {target} was compiled with; scripts/build.sh release makes one")
    return {line.strip() for line in known.splitlines() if line.startswith("    /")}


def shared_libraries_of(program):
    needed = re.findall(r"^ +NEEDED +(\S+)$", output_of("objdump", "-p", str(program)), re.M)
    places = dict(re.findall(r"^\s*(\S+)(?: => (\S+))? \(0x", output_of("ldd", str(program)), re.M))
    return [places.get(name) or next((place for place in places if place.endswith("/" + name)), name) for name in needed]


def parts_of(build, program, packages):
    """component -> how it is in the program, the closest of the relations that hold."""
    relations = {}
    own = (cache_value(build, "CMAKE_HOME_DIRECTORY"), cache_value(build, "CMAKE_CACHEFILE_DIR"))
    outside = {path for path in headers_of(build, program) if not any(pathlib.Path(path).is_relative_to(one) for one in own)}
    map_path = pathlib.Path(build, program + ".map")
    if not map_path.exists():
        raise SbomError(f"there is no {map_path}; scripts/build.sh release makes it")
    for relation, files in ((SHARED, shared_libraries_of(pathlib.Path(build, program))), (HEADERS, outside),
                            (ARCHIVE, files_of_map(map_path.read_text(errors="replace")))):
        for component in packages.of(files):
            relations[component] = relation
    return relations


def cache_value(build, name):
    text = pathlib.Path(build, "CMakeCache.txt").read_text()
    return re.search(rf"^{name}:\w+=(.*)$", text, re.M)[1]


def licence_of(package):
    """(licence of SPDX, what Debian calls it); the stanza of all files counts, where the file has that form."""
    path = pathlib.Path("/usr/share/doc", package, "copyright")
    text = path.read_text(errors="replace") if path.exists() else ""
    if not text.startswith("Format:"):
        return "NOASSERTION", ""
    for stanza in text.split("\n\n"):
        if re.search(r"^Files:\s*\*\s*$", stanza, re.M):
            word = re.search(r"^License:[ \t]*(.*)$", stanza, re.M)
            word = word[1].strip() if word else ""
            return LICENCES.get(word, "NOASSERTION"), word
    return "NOASSERTION", ""


def described_component(component, distribution):
    licence, word = licence_of(component.package)
    version = urllib.parse.quote(component.version, safe="~.-")
    comment = f"Debian's copyright file says of all files: {word}. " if word else ""
    return {
        "SPDXID": component_id(component), "name": component.package, "versionInfo": component.version,
        "supplier": f"Organization: {distribution['ID'].capitalize()}", "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False, "sourceInfo": f"built from the source package {component.source}",
        "licenseConcluded": "NOASSERTION", "licenseDeclared": licence, "copyrightText": "NOASSERTION",
        "licenseComments": comment + f"See /usr/share/doc/{component.package}/copyright.",
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                          "referenceLocator": f"pkg:deb/{distribution['ID']}/{component.package}@{version}"
                                              f"?arch={component.architecture}&distro={distribution['VERSION_CODENAME']}"}]}


def component_id(component):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", component.package)


def described_file(path, version, number):
    return {"SPDXID": f"SPDXRef-file-{number}", "name": path.name, "versionInfo": version, "packageFileName": path.name,
            "supplier": "Organization: elastictrain", "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "checksums": [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(path.read_bytes()).hexdigest()}],
            "licenseConcluded": "NOASSERTION", "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION",
            "primaryPackagePurpose": "INSTALL"}


def programs_of(path, arguments, version):
    """(build, program) of each program in a release file."""
    binary, library = "cli/elastictrain", f"train/libelastictrain.so.{version.split('+')[0]}"
    if path.suffix == ".whl":
        if not arguments.wheel_build:
            raise SbomError("--wheel-build names the build that the wheel is made of")
        return [(arguments.wheel_build, binary), (arguments.wheel_build, library)]
    return {"elastictrain": [(arguments.build, binary)],
            "libelastictrain": [(arguments.build, library)]}.get(path.name.split("_")[0], [])


def relation(one, kind, other, comment=None):
    known = {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
    return {**known, "comment": comment} if comment else known


def document(arguments, distribution, when):
    packages, found, components = Packages(), {}, set()
    described, relations = [], []
    source = {"SPDXID": "SPDXRef-source", "name": "elastictrain", "versionInfo": arguments.version,
              "supplier": "Organization: elastictrain", "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
              "sourceInfo": f"commit {arguments.commit}" if arguments.commit else "not a checkout of git",
              "licenseConcluded": "NOASSERTION", "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION",
              "primaryPackagePurpose": "SOURCE"}
    for number, path in enumerate(sorted(arguments.files, key=lambda path: path.name), 1):
        entry = described_file(path, arguments.version, number)
        described.append(entry)
        relations.append(relation("SPDXRef-DOCUMENT", "DESCRIBES", entry["SPDXID"]))
        relations.append(relation(entry["SPDXID"], "GENERATED_FROM", "SPDXRef-source"))
        for build, program in programs_of(path, arguments, arguments.version):
            if (build, program) not in found:
                found[build, program] = parts_of(build, program, packages)
            components |= found[build, program].keys()
            for component, kind in sorted(found[build, program].items()):
                relations.append(relation(entry["SPDXID"], kind, component_id(component),
                                          f"{pathlib.Path(program).name}: {WORDS[kind]}"))
    content = json.dumps([described, sorted(components), relations])
    compiler = output_of(cache_value(arguments.build, "CMAKE_CXX_COMPILER"), "--version").splitlines()[0]
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"elastictrain-{arguments.version}",
        "documentNamespace": uuid.uuid5(uuid.NAMESPACE_OID, content).urn,
        "creationInfo": {"created": f"{datetime.datetime.fromtimestamp(when, datetime.timezone.utc):%Y-%m-%dT%H:%M:%SZ}",
                         "creators": ["Tool: elastictrain-sbom.py"],
                         "comment": f"compiled by {compiler} on {distribution['PRETTY_NAME']}"},
        "packages": [source, *described, *(described_component(one, distribution) for one in sorted(components))],
        "relationships": relations}


def read_distribution():
    pairs = (line.partition("=") for line in pathlib.Path("/etc/os-release").read_text().splitlines())
    known = {key: value.strip('"') for key, _, value in pairs}
    return {"ID": "debian", "VERSION_CODENAME": "", "PRETTY_NAME": known.get("ID", ""), **known}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", required=True)
    parser.add_argument("--commit", default="")
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--wheel-build", type=pathlib.Path)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    try:
        made = document(arguments, read_distribution(), int(os.environ.get("SOURCE_DATE_EPOCH", "0")))
    except (SbomError, OSError) as error:
        sys.exit(f"sbom.py: {error}")
    json.dump(made, sys.stdout, indent=1, sort_keys=True)
    print()


if __name__ == "__main__":
    main()
