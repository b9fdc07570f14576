"""What scripts/setup.sh installs, leaves out and says, with fake package tools: only theirs are in its PATH."""

import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
TOOLS = ("bash", "env", "sed", "sort")

DPKG_QUERY = 'for last; do :; done; grep -qx "$last" "$FAKE/installed" && echo -n installed'
APT_CACHE = '[ "$1" != madison ] || ! grep -qx "$2" "$FAKE/lists" || echo "$2 | 1.0 | a mirror"'
APT_GET = """echo "$*" >>"$FAKE/calls"
case "$1" in
  update) cp "$FAKE/mirror" "$FAKE/lists" ;;
  install) exit "$(cat "$FAKE/install_status")" ;;
esac"""
ID = 'cat "$FAKE/uid"'
SUDO = '[ "$1" = -n ] && shift; exec "$@"'


def packages(group):
    with open(os.path.join(ROOT, "scripts", "setup.sh")) as file:
        text = file.read()
    return text.split(f"{group}_packages=(")[1].split(")")[0].split()


class Setup(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="et-setup-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = os.path.join(self.folder, "bin")
        os.mkdir(self.path)
        for tool in TOOLS:
            os.symlink(shutil.which(tool), os.path.join(self.path, tool))
        everything = sum(map(packages, ("build", "test", "fuzz", "peer")), [])
        for name, body in (("dpkg-query", DPKG_QUERY), ("apt-cache", APT_CACHE), ("apt-get", APT_GET), ("id", ID)):
            self.add_tool(name, body)
        self.write("installed", everything)
        self.write("lists", everything)
        self.write("mirror", everything)
        self.write("uid", ["0"])
        self.write("install_status", ["0"])

    def add_tool(self, name, body):
        path = os.path.join(self.path, name)
        with open(path, "w") as file:
            file.write(f"#!{shutil.which('bash')}\nPATH=$PATH:/usr/bin:/bin\n{body}\n")
        os.chmod(path, 0o755)

    def write(self, name, lines):
        with open(os.path.join(self.folder, name), "w") as file:
            file.writelines(f"{line}\n" for line in lines)

    def without(self, name, *missing):
        with open(os.path.join(self.folder, name)) as file:
            lines = file.read().split()
        self.write(name, [line for line in lines if line not in missing])

    def run_setup(self, *groups):
        return subprocess.run([os.path.join(ROOT, "scripts", "setup.sh"), *groups], capture_output=True, text=True,
                              env={"PATH": self.path, "FAKE": self.folder}, stdin=subprocess.DEVNULL)

    def calls(self):
        path = os.path.join(self.folder, "calls")
        if not os.path.exists(path):
            return []
        with open(path) as file:
            return file.read().splitlines()

    def installs(self):
        """The packages of the one call of apt-get that installs."""
        calls = [call for call in self.calls() if call.startswith("install")]
        self.assertEqual(len(calls), 1)
        return [word for word in calls[0].split()[1:] if not word.startswith("-")]

    def test_nothing_missing_needs_no_rights_and_no_apt(self):
        self.write("uid", ["1000"])
        done = self.run_setup("build", "test", "fuzz", "bench")
        self.assertEqual((done.returncode, self.calls()), (0, []), done.stderr)
        self.assertIn("all packages are installed", done.stdout)

    def test_root_installs_what_is_missing_and_nothing_else(self):
        self.without("installed", "ninja-build", "mpich")
        self.assertEqual(self.run_setup("build").returncode, 0)
        self.assertEqual(self.installs(), ["ninja-build"], "mpich is of another group")
        self.assertTrue(self.calls()[0].startswith("update"))

    def test_a_user_with_sudo_installs(self):
        self.write("uid", ["1000"])
        self.add_tool("sudo", SUDO)
        self.without("installed", "mpich")
        self.assertEqual(self.run_setup("test").returncode, 0)
        self.assertEqual(self.installs(), ["mpich"])

    def test_a_user_without_rights_is_told_the_command(self):
        self.write("uid", ["1000"])
        self.without("installed", "mpich", "munge")
        done = self.run_setup("test")
        self.assertEqual((done.returncode, self.calls()), (69, []))
        self.assertIn("apt-get install --no-install-recommends mpich munge", done.stderr)

    def test_a_peer_that_the_system_lacks_is_left_out_aloud(self):
        self.without("installed", "python3-torch", "libgloo-dev")
        self.without("lists", "python3-torch")
        self.without("mirror", "python3-torch")
        done = self.run_setup("bench")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(self.installs(), ["libgloo-dev"])
        self.assertEqual(done.stdout.count("no package python3-torch"), 1)

    def test_empty_package_lists_say_nothing_before_they_are_updated(self):
        self.without("installed", "python3-torch", "libgloo-dev")
        self.write("lists", [])
        self.without("mirror", "python3-torch")
        self.assertEqual(self.run_setup("bench").returncode, 0)
        self.assertEqual(self.installs(), ["libgloo-dev"])

    def test_a_user_without_rights_goes_on_where_only_such_a_peer_is_missing(self):
        self.write("uid", ["1000"])
        self.without("installed", "python3-torch")
        self.without("lists", "python3-torch")
        done = self.run_setup("bench")
        self.assertEqual((done.returncode, self.calls()), (0, []))
        self.assertIn("no package python3-torch", done.stdout)

    def test_a_package_that_is_needed_is_never_left_out(self):
        self.without("installed", "cmake")
        self.without("lists", "cmake")
        self.write("install_status", ["100"])
        done = self.run_setup()
        self.assertEqual(done.returncode, 69)
        self.assertEqual(self.installs(), ["cmake"])
        self.assertIn("could not install", done.stderr)

    def test_other_systems(self):
        os.remove(os.path.join(self.path, "apt-get"))
        self.without("installed", "cmake")
        done = self.run_setup()
        self.assertEqual(done.returncode, 69)
        self.assertIn("cmake", done.stderr)
        os.remove(os.path.join(self.path, "dpkg-query"))
        done = self.run_setup()
        self.assertEqual(done.returncode, 0)
        self.assertIn("no dpkg", done.stderr)

    def test_an_unknown_group(self):
        done = self.run_setup("build", "tests")
        self.assertEqual((done.returncode, self.calls()), (64, []))
        self.assertEqual(done.stderr.count("unknown group 'tests'"), 1)


if __name__ == "__main__":
    unittest.main()
