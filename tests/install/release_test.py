"""Release files: the same bytes when the same build is packed twice, what they hold, and what is said where they cannot be made.
Two builds are compared by `scripts/release.sh --check`, which takes too long for a test. Usage: release_test.py BUILD [TEST…]"""

import base64
import hashlib
import importlib.util
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = None
sys.path.insert(0, str(ROOT / "scripts/release"))
import wheel_file  # noqa: E402

EPOCH = 1700000000


def clean_environment(**variables):
    kept = {key: value for key, value in os.environ.items() if key not in ("SOURCE_DATE_EPOCH", "TMPDIR", "TZ")}
    return {**kept, **{key: str(value) for key, value in variables.items()}}


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="etrel-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()

    def run_script(self, name, *arguments, status=0, **variables):
        done = subprocess.run([ROOT / "scripts" / name, *arguments], capture_output=True, text=True, timeout=240,
                              env=clean_environment(**variables))
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr


class Wheel(Folder):
    MEMBERS = {
        "elastictrain/__init__.py": b"x = 1\n",
        "elastictrain/bin/elastictrain": b"program" * 1000,
        "elastictrain-0.1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: elastictrain\nVersion: 0.1.0\n\nText\n",
        "elastictrain-0.1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-linux_x86_64\nRoot-Is-Purelib: false\n",
        "elastictrain-0.1.0.dist-info/RECORD": b"whatever,,\n",
    }

    def write_wheel(self, name, order, mode, year):
        path = self.folder / name / "elastictrain-0.1.0-py3-none-linux_x86_64.whl"
        path.parent.mkdir()
        with zipfile.ZipFile(path, "w") as wheel:
            for member in order:
                info = zipfile.ZipInfo(member, (year, 1, 2, 3, 4, 6))
                info.external_attr = (mode | (0o100 if "/bin/" in member else 0)) << 16
                wheel.writestr(info, self.MEMBERS[member])
        return path

    def rewritten(self, wheel, version="0.1.0"):
        return wheel_file.rewrite(wheel, wheel.parent, version, "manylinux_2_36_x86_64", EPOCH)

    def test_the_same_content_is_the_same_bytes(self):
        one = self.rewritten(self.write_wheel("one", list(self.MEMBERS), 0o100664, 2020))
        other = self.rewritten(self.write_wheel("other", list(reversed(self.MEMBERS)), 0o100600, 2024))
        self.assertEqual(one.name, "elastictrain-0.1.0-py3-none-manylinux_2_36_x86_64.whl")
        self.assertEqual(one.read_bytes(), other.read_bytes())

    def test_its_members(self):
        path = self.rewritten(self.write_wheel("one", list(self.MEMBERS), 0o100600, 2020), "0.1.0+dirty")
        self.assertEqual(path.name, "elastictrain-0.1.0+dirty-py3-none-manylinux_2_36_x86_64.whl")
        with zipfile.ZipFile(path) as wheel:
            self.assertIsNone(wheel.testzip())
            modes = {info.filename: info.external_attr >> 16 for info in wheel.infolist()}
            content = {name: wheel.read(name) for name in modes}
        self.assertEqual(modes["elastictrain/bin/elastictrain"], 0o100755)
        self.assertEqual(modes["elastictrain/__init__.py"], 0o100644)
        info = "elastictrain-0.1.0+dirty.dist-info"
        self.assertIn(b"Tag: py3-none-manylinux_2_36_x86_64\n", content[f"{info}/WHEEL"])
        self.assertIn(b"Version: 0.1.0+dirty\n", content[f"{info}/METADATA"])
        listed = [line.split(",") for line in content[f"{info}/RECORD"].decode().splitlines()]
        self.assertEqual(sorted(name for name, _, _ in listed), sorted(content))
        for name, digest, size in listed[:-1]:
            expected = base64.urlsafe_b64encode(hashlib.sha256(content[name]).digest()).rstrip(b"=").decode()
            self.assertEqual((digest, int(size)), (f"sha256={expected}", len(content[name])))


class Packages(Folder):
    """The build's packages, made once, and once more where nothing but the build is the same."""

    @classmethod
    def setUpClass(cls):
        missing = [tool for tool in ("dpkg-shlibdeps", "dpkg-deb", "file", "ninja") if not shutil.which(tool)]
        if missing:
            raise unittest.SkipTest(f"there is no {', '.join(missing)} (scripts/setup.sh test installs it)")
        cls.place = tempfile.TemporaryDirectory(prefix="etrel-")
        cls.addClassCleanup(cls.place.cleanup)
        cls.made = pathlib.Path(cls.place.name)
        cls.pack(cls.made / "one")

    @staticmethod
    def pack(folder, umask="022", **variables):
        done = subprocess.run(["sh", "-c", f'umask {umask}; exec scripts/package.sh "$0" "$1"', folder, BUILD], cwd=ROOT,
                              capture_output=True, text=True, timeout=500,
                              env=clean_environment(SOURCE_DATE_EPOCH=EPOCH, **variables))  # a commit meanwhile changes nothing
        assert done.returncode == 0, done.stdout + done.stderr
        return sorted(folder.glob("*.deb"))

    def packed(self):
        return sorted((self.made / "one").glob("*.deb"))

    def test_the_same_build_gives_the_same_bytes(self):
        other_disk = pathlib.Path("/dev/shm")
        place = other_disk if os.access(other_disk, os.W_OK) else self.folder
        with tempfile.TemporaryDirectory(dir=place, prefix="et-other-") as temporary:
            again = self.pack(self.folder / "two", "077", TMPDIR=temporary, TZ="Pacific/Kiritimati", LC_ALL="C")
        self.assertEqual([path.name for path in self.packed()], [path.name for path in again])
        self.assertEqual(len(again), 4)
        for one, other in zip(self.packed(), again):
            self.assertTrue(one.read_bytes() == other.read_bytes(), f"{one.name}: other bytes")

    def test_owners_modes_and_times_are_fixed(self):
        for path in self.packed():
            listed = subprocess.run(["dpkg-deb", "--fsys-tarfile", path], capture_output=True, check=True).stdout
            members = tarfile.open(fileobj=io.BytesIO(listed)).getmembers()
            self.assertEqual(len({member.mtime for member in members}), 1, path.name)
            for member in members:
                self.assertEqual((member.uid, member.gid), (0, 0), member.name)
                self.assertIn(member.mode & 0o7777, {"d": (0o755,), "l": (0o777,)}.get(
                    "d" if member.isdir() else "l" if member.issym() else "f", (0o644, 0o755)), f"{path.name}: {member.name}")

    def test_no_program_names_the_folder_of_the_build(self):
        for name in ("cli/elastictrain", "train/libelastictrain.so", "cli/elastictrain.debug"):
            path = pathlib.Path(BUILD, name)
            if path.exists():
                self.assertNotIn(str(ROOT).encode() + b"/", path.read_bytes(), f"{name} names {ROOT}")

    def bill(self, *arguments, status=0):
        done = subprocess.run([sys.executable, "-B", ROOT / "scripts/release/sbom.py", "--version", "0.1.0", *arguments],
                              capture_output=True, text=True, timeout=240, env=clean_environment(SOURCE_DATE_EPOCH=EPOCH))
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def test_the_bill_of_materials_names_what_is_in_the_programs(self):
        text = self.bill("--build", BUILD, "--commit", "abc", *self.packed())
        self.assertEqual(text, self.bill("--build", BUILD, "--commit", "abc", *reversed(self.packed())))
        bill = json.loads(text)
        named = {package["SPDXID"]: package for package in bill["packages"]}
        found = {}
        for relation in bill["relationships"]:
            one = named.get(relation["spdxElementId"], {}).get("name", "document").split("_")[0]
            self.assertIn(relation["relatedSpdxElement"], named)
            found.setdefault((one, relation["relationshipType"]), set()).add(named[relation["relatedSpdxElement"]]["name"])
        self.assertLessEqual({"libasio-dev", "libcli11-dev", "libtomlplusplus-dev", "libspdlog-dev", "libfmt-dev",
                              "nlohmann-json3-dev", "libmsgpack-cxx-dev", "libeigen3-dev", "libxxhash-dev"},
                             found["elastictrain", "CONTAINS"])
        self.assertLessEqual({"libncurses-dev", "zlib1g-dev"}, found["elastictrain", "STATIC_LINK"])
        self.assertTrue(any(name.startswith("libstdc++-") for name in found["elastictrain", "STATIC_LINK"]))
        self.assertNotIn("libssl-dev", found["elastictrain", "STATIC_LINK"])
        self.assertTrue(any(name.startswith("libssl3") for name in found["elastictrain", "DYNAMIC_LINK"]))
        self.assertIn("libssl-dev", found["libelastictrain", "STATIC_LINK"])
        self.assertNotIn("libncurses-dev", found["libelastictrain", "STATIC_LINK"])
        self.assertNotIn("doctest-dev", {package["name"] for package in bill["packages"]})
        by_name = {package["name"]: package for package in bill["packages"]}
        self.assertEqual(by_name["libasio-dev"]["licenseDeclared"], "BSL-1.0")
        self.assertRegex(by_name["libasio-dev"]["versionInfo"], r"^(\d+:)?1\.")
        deb = self.packed()[0]
        self.assertEqual(by_name[deb.name]["checksums"][0]["checksumValue"], hashlib.sha256(deb.read_bytes()).hexdigest())

    def test_the_bill_is_valid(self):
        tools = ROOT / "build/wheel-tools/bin/pyspdxtools"
        if importlib.util.find_spec("spdx_tools"):
            command = [sys.executable, "-m", "spdx_tools.spdx.clitools.pyspdxtools"]
        elif tools.exists():
            command = [tools]
        else:
            self.skipTest("there is no spdx-tools, PyPI's (scripts/release.sh installs it, and validates with it)")
        path = self.folder / "bill.spdx.json"
        path.write_text(self.bill("--build", BUILD, *self.packed()))
        done = subprocess.run([*command, "-i", path], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_what_keeps_the_bill_from_being_made_is_one_sentence(self):
        said = self.bill("--build", self.folder, *self.packed(), status=1)
        self.assertRegex(said, r"^sbom\.py: .*\n$")
        wheel = self.folder / "elastictrain-0.1.0-py3-none-any.whl"
        wheel.write_bytes(b"")
        self.assertIn("--wheel-build names", self.bill("--build", BUILD, wheel, status=1))


class Refusals(Folder):
    def test_missing_tools_are_named_with_their_packages(self):
        tools = self.folder / "tools"
        tools.mkdir()
        for name in ("bash", "env", "dirname", "sed", "git", "stat", "sort", "mkdir", "file", "python3"):
            (tools / name).symlink_to(shutil.which(name) or "/nowhere")
        for script, missing in (("package.sh", "dpkg-shlibdeps; please install dpkg-dev"), ("wheel.sh", "objdump; please install"),
                                ("release.sh", "dpkg-shlibdeps objdump ninja; please install dpkg-dev binutils ninja-build")):
            said = self.run_script(script, self.folder / "target", status=69, PATH=tools)
            self.assertIn(f"{script}: there is no {missing}", said)
        self.assertFalse((self.folder / "target").exists())

    def test_a_folder_that_takes_no_files(self):
        (self.folder / "file").write_text("")
        for script in ("package.sh", "wheel.sh", "release.sh"):
            if not all(map(shutil.which, ("dpkg-shlibdeps", "file", "objdump", "ninja"))):
                self.skipTest("there is no dpkg-dev, file, binutils or ninja-build")
            said = self.run_script(script, self.folder / "file/target", status=73)
            self.assertIn(f"{script}: no files can be written into {self.folder}/file/target", said)


class Tree(Folder):
    """scripts/release.sh in checkouts of its own, with stand-ins for what takes long: packages, wheel and bill."""

    PACK = "#!/bin/bash\n. scripts/release/tree.sh\n"
    STANDINS = {
        "scripts/package.sh": PACK + 'echo "$SOURCE_DATE_EPOCH" >"$1/elastictrain_${version}_all.deb"\n',
        "scripts/wheel.sh": PACK + 'mkdir -p build/wheel-tools/bin; cp tool build/wheel-tools/bin/pip\n'
                                   'cp tool build/wheel-tools/bin/pyspdxtools\necho x >"$1/elastictrain-$version-py3-none-any.whl"\n',
        "scripts/release/sbom.py": "import os, sys\nprint([os.path.basename(one) for one in sys.argv[1:]])\n",
        "tool": "#!/bin/sh\nexit 0\n",
        "CMakeLists.txt": "project(elastictrain VERSION 4.5.6 LANGUAGES CXX C)\n",
        ".gitignore": "/build/\n",
    }

    def setUp(self):
        super().setUp()
        if not all(map(shutil.which, ("git", "dpkg-shlibdeps", "file", "objdump", "ninja"))):
            self.skipTest("there is no git, dpkg-dev, file, binutils or ninja-build (scripts/setup.sh test installs them)")
        self.tree = self.folder / "tree"
        (self.tree / "scripts/release").mkdir(parents=True)
        for name in ("scripts/release.sh", "scripts/release/tree.sh"):
            shutil.copy(ROOT / name, self.tree / name)
        for name, text in self.STANDINS.items():
            self.write(name, text)
        self.files = self.tree / "build/release-files"

    def write(self, name, text):
        (self.tree / name).write_text(text)
        (self.tree / name).chmod(0o755)

    def commit(self):
        self.git("init", "-q")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "x")

    def git(self, *arguments):
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@localhost", *arguments], cwd=self.tree, check=True,
                       stdout=subprocess.DEVNULL, env=clean_environment(GIT_COMMITTER_DATE=f"{EPOCH} +0100"))

    def release(self, *arguments, status=0, **variables):
        done = subprocess.run(["scripts/release.sh", *arguments], cwd=self.tree, capture_output=True, text=True, timeout=60,
                              env=clean_environment(**variables))
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def names(self):
        return sorted(path.name for path in self.files.iterdir())

    def test_files_and_sums_of_a_commit(self):
        self.commit()
        machine = os.uname().machine
        self.release()
        expected = ["SHA256SUMS", "elastictrain-4.5.6-py3-none-any.whl", f"elastictrain-4.5.6-{machine}.spdx.json",
                    "elastictrain_4.5.6_all.deb"]
        self.assertEqual(self.names(), sorted(expected))
        self.assertEqual((self.files / "elastictrain_4.5.6_all.deb").read_text(), f"{EPOCH}\n")
        subprocess.run(["sha256sum", "--check", "--strict", "--status", "SHA256SUMS"], cwd=self.files, check=True)
        self.assertEqual(len((self.files / "SHA256SUMS").read_text().splitlines()), 3)

    def test_what_an_earlier_call_made_is_replaced_and_nothing_else(self):
        self.commit()
        self.release()
        (self.files / "notes").write_text("mine")
        (self.folder / "outside").write_text("mine")
        with open(self.files / "SHA256SUMS", "a") as sums:
            sums.write("0" * 64 + "  ../../../outside\n")
        self.write("CMakeLists.txt", "project(elastictrain VERSION 4.5.7 LANGUAGES CXX C)\n")
        said = self.release()
        self.assertIn("the files are of version 4.5.7+dirty", said)
        self.assertEqual([name for name in self.names() if "4.5.6" in name], [])
        self.assertIn("elastictrain_4.5.7+dirty_all.deb", self.names())
        self.assertIn("notes", self.names())
        self.assertTrue((self.folder / "outside").exists())

    def test_time_and_version_where_there_is_no_commit(self):
        os.utime(self.tree / "CMakeLists.txt", (5, 5))
        self.assertIn("this is no checkout of git", self.release())
        self.assertEqual((self.files / "elastictrain_4.5.6_all.deb").read_text(), "5\n")
        self.release(SOURCE_DATE_EPOCH=7)
        self.assertEqual((self.files / "elastictrain_4.5.6_all.deb").read_text(), "7\n")

    def test_the_check_compares_with_another_folder(self):
        self.commit()
        self.assertIn("two builds in two folders are the same bytes: 3 files", self.release("--check"))
        for difference in ("$PWD", "$TMPDIR$(stat -c %a tool)"):
            self.write("scripts/package.sh", f'{self.PACK}echo "{difference}" >"$1/elastictrain_${{version}}_all.deb"\n')
            self.git("commit", "-q", "-a", "-m", "y")
            said = self.release("--check", status=1, TMPDIR=self.folder)
            self.assertIn("elastictrain_4.5.6_all.deb differ", said)
            self.assertRegex(said, "two builds of [0-9a-f]{40} differ; .* is kept: " + str(self.folder))

    def test_the_check_needs_a_commit(self):
        self.assertIn("--check compares two builds of a commit", self.release("--check", status=65))
        self.commit()
        self.write("new", "")
        self.assertIn("--check compares two builds of a commit", self.release("--check", status=65))


if __name__ == "__main__":
    BUILD = sys.argv[1]
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
