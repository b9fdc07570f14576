"""One version: that of the binary, the build and the newest entry of the list of changes."""

import os
import re
import subprocess

import harness
from harness import BINARY, Case, Run, job

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def found(path, pattern):
    with open(os.path.join(ROOT, path)) as file:
        return re.search(pattern, file.read(), re.MULTILINE).group(1)


def version():
    done = subprocess.run([BINARY, "--version"], capture_output=True, text=True, timeout=60, check=True)
    return re.fullmatch(r"elastictrain (\d+\.\d+\.\d+)\n", done.stdout).group(1)


class Version(Case):
    def test_the_binary_the_build_and_the_list_of_changes_agree(self):
        self.assertEqual(version(), found("CMakeLists.txt", r"^project\(elastictrain VERSION (\S+)"))
        self.assertEqual(version(), found(".github/CHANGELOG.md", r"^## (\S+)"))

    def test_builds_hosts_and_journal_carry_it(self):
        build = subprocess.run([BINARY, "--build-id"], capture_output=True, text=True, timeout=60, check=True)
        self.assertTrue(build.stdout.startswith(version() + "-"), build.stdout)
        with Run(job()) as run:
            run.wait_size(2)
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 0)
            stated = {record["version"] for record in run.journal() if "run" in record and "version" in record}
            self.assertEqual(stated, {version()})


if __name__ == "__main__":
    harness.main()
