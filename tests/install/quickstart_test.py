"""Which binary the quick start takes, in a tree whose build is a stand-in, as are all binaries: a script that says its version,
and trains without doing anything."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = """#!/bin/sh
case "$1" in
--version) echo "elastictrain {version}" ;;
run) echo "trains: {name}"; sleep 0.2 ;;
status) echo '{{"step": 100, "world_size": 4}}' ;;
esac
"""
TOO_NEW = "#!/bin/sh\necho \"$0: libc.so.6: version 'GLIBC_2.99' not found\" >&2\nexit 1\n"
VERSION = "1.2.3"


def write_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(0o755)
    return path


def binary(name, version=VERSION):
    return BINARY.format(name=name, version=version)


class Choice(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="etquick-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.tree = self.folder / "tree"
        self.files = self.tree / "build/release-files"
        write_program(self.tree / "scripts/quickstart.sh", (ROOT / "scripts/quickstart.sh").read_text())
        write_program(self.tree / "scripts/setup.sh", "#!/bin/sh\necho set-up of $*\n")
        write_program(self.tree / "build-stand-in", binary("what was built"))
        write_program(self.tree / "scripts/build.sh",
                      "#!/bin/sh\nmkdir -p build/release/cli\ncp build-stand-in build/release/cli/elastictrain\n")
        (self.tree / "CMakeLists.txt").write_text(f"project(elastictrain VERSION {VERSION} LANGUAGES CXX C)\n")

    def quickstart(self, *arguments, status=0, **variables):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ELASTICTRAIN_")}
        # A binary that this machine has is none of the test's.
        path = [one for one in environment["PATH"].split(":") if not os.path.exists(os.path.join(one, "elastictrain"))]
        path = [variables.pop("first_of_path", self.folder / "nothing"), *path]
        done = subprocess.run([self.tree / "scripts/quickstart.sh", *arguments], capture_output=True, text=True, timeout=60,
                              env={**environment, "LC_ALL": "C", "PATH": ":".join(map(str, path)), **variables})
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def install(self, version=VERSION):
        return write_program(self.folder / "bin/elastictrain", binary("what is installed", version)).parent

    def add_wheel(self, text=None, version=VERSION):
        self.files.mkdir(parents=True, exist_ok=True)
        path = self.files / f"elastictrain-{version}-py3-none-manylinux_2_36_x86_64.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr("elastictrain/bin/elastictrain", binary("what the wheel has") if text is None else text)
        return path

    def add_package(self):
        if not shutil.which("dpkg-deb"):
            self.skipTest("there is no dpkg-deb")
        root = self.folder / "package"
        write_program(root / "usr/bin/elastictrain", binary("what the package has"))
        (root / "DEBIAN").mkdir()
        (root / "DEBIAN/control").write_text(
            f"Package: elastictrain\nVersion: {VERSION}\nArchitecture: all\nMaintainer: x <x@localhost>\nDescription: x\n")
        self.files.mkdir(parents=True, exist_ok=True)
        path = self.files / f"elastictrain_{VERSION}_all.deb"
        subprocess.run(["dpkg-deb", "--build", "--root-owner-group", root, path], check=True, stdout=subprocess.DEVNULL)
        return path

    def write_sums(self, *paths):
        (self.files / "SHA256SUMS").write_text(
            "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in paths))

    def test_a_fresh_clone_is_built(self):
        said = self.quickstart()
        self.assertIn("this tree is built", said)
        self.assertIn("== 1 of 3: packages\nset-up of build\n== 2 of 3: build", said)
        self.assertIn("== 3 of 3: training", said)
        self.assertIn("trains: what was built", said)

    def test_an_installed_binary_of_this_version_is_taken(self):
        said = self.quickstart(first_of_path=self.install())
        self.assertIn(f"== 1 of 2: nothing is built: {self.folder}/bin/elastictrain, of the PATH has this tree's version", said)
        self.assertIn("== 2 of 2: training", said)
        self.assertIn("trains: what is installed", said)
        self.assertNotIn("set-up", said)

    def test_one_of_another_version_is_named_and_the_tree_is_built(self):
        said = self.quickstart(first_of_path=self.install("1.2.2"))
        self.assertIn("it is elastictrain 1.2.2, this tree is elastictrain 1.2.3", said)
        self.assertIn("trains: what was built", said)

    def test_a_build_of_this_tree_in_the_path_is_made_again(self):
        old = write_program(self.tree / "build/release/cli/elastictrain", binary("an old build"))
        self.assertIn("trains: what was built", self.quickstart(first_of_path=old.parent))

    def test_the_variable_comes_first(self):
        named = write_program(self.folder / "named", binary("what the variable names"))
        said = self.quickstart(first_of_path=self.install(), ELASTICTRAIN_BINARY=str(named))
        self.assertIn("trains: what the variable names", said)

    def test_a_binary_that_does_not_run_here_is_named_and_the_next_is_tried(self):
        for text, reason in ((TOO_NEW, "GLIBC_2.99"), (b"\x7fELF\x02\x01\x01" + bytes(60), "Exec format error"),
                             (b"\x7fELF", "not taken")):
            named = write_program(self.folder / "named", text)
            said = self.quickstart(first_of_path=self.install(), ELASTICTRAIN_BINARY=str(named))
            self.assertIn(f"not taken: ELASTICTRAIN_BINARY, {named}: it does not run here", said)
            self.assertIn(reason, said)
            self.assertIn("trains: what is installed", said)
        said = self.quickstart(ELASTICTRAIN_BINARY=str(self.folder / "gone"))
        self.assertIn("it does not run here", said)
        self.assertIn("trains: what was built", said)

    def test_a_wheel_is_taken_if_its_sum_is_listed(self):
        wheel = self.add_wheel()
        said = self.quickstart()
        self.assertIn("SHA256SUMS lists it", said)
        self.assertIn("trains: what was built", said)
        self.write_sums(wheel)
        said = self.quickstart()
        self.assertIn("nothing is built: the binary of build/release-files/elastictrain-1.2.3-py3", said)
        self.assertIn("trains: what the wheel has", said)

    def test_a_package_is_taken_where_the_wheel_does_not_run(self):
        package, wheel = self.add_package(), self.add_wheel(TOO_NEW)
        self.write_sums(package, wheel)
        said = self.quickstart()
        self.assertIn("GLIBC_2.99", said)
        self.assertIn("trains: what the package has", said)

    def test_a_file_with_another_sum_ends_it(self):
        wheel = self.add_wheel()
        self.write_sums(wheel)
        self.add_wheel("#!/bin/sh\ntouch harm\n")
        said = self.quickstart(status=65)
        self.assertIn("is not the file that build/release-files/SHA256SUMS lists", said)
        self.assertFalse((self.tree / "harm").exists())
        self.assertIn("trains: what was built", self.quickstart("--build"))

    def test_files_of_other_versions_and_damaged_ones_are_named(self):
        self.write_sums(self.add_wheel(version="1.2.30"), self.add_wheel(version="1.2.3+dirty"), self.add_wheel(b"no program"))
        for path in self.files.glob("elastictrain-1.2.3-*.whl"):
            path.write_bytes(b"no archive")
            self.write_sums(path)
        said = self.quickstart()
        self.assertEqual(said.count("of another version than this tree"), 2)
        self.assertIn("could not be unpacked", said)
        self.assertIn("trains: what was built", said)

    def test_build_builds_whatever_is_there(self):
        said = self.quickstart("--build", first_of_path=self.install())
        self.assertIn("trains: what was built", said)
        self.assertNotIn("this tree is built", said)

    def test_help_and_an_unknown_argument(self):
        self.assertIn("Usage: scripts/quickstart.sh [--build]", self.quickstart("--help"))
        self.assertIn("unknown argument --nosuch", self.quickstart("--nosuch", status=64))


if __name__ == "__main__":
    unittest.main(verbosity=2)
