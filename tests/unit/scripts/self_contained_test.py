"""No file of the repository names a path outside it: what tests, benchmarks and configurations read is in tests/data."""

import os
import re
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
NOT_OURS = {".git", "build", "install", os.path.join("tests", "data")}

# A folder next to the checkout, in one path or by its parts; the parent of the checkout; a variable that names either.
OUTSIDE = re.compile(r"\.\./shared|[.]{2}\", *\"shared\"|ELASTICTRAIN_[S]HARED|dirname[(]ROOT[)]"
                     r"|(PROJECT|CMAKE)_SOURCE_DIR\}/[.]{2}/|/shared/(data|traces|bench)\b")


def offences(root):
    """Path, line and text of each line that names a path outside the repository."""
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders
                      if name != "__pycache__" and os.path.relpath(os.path.join(folder, name), root) not in NOT_OURS]
        for name in files:
            path = os.path.join(folder, name)
            with open(path, errors="replace") as file:
                found += [f"{os.path.relpath(path, root)}:{number}: {line.strip()}"
                          for number, line in enumerate(file, 1) if OUTSIDE.search(line)]
    return found


class SelfContained(unittest.TestCase):
    def test_no_file_names_a_path_outside_the_repository(self):
        self.assertEqual(offences(ROOT), [])

    def test_a_file_that_does_is_found(self):
        up = ".."
        beside = "shared"
        lines = [f'open("{up}/{beside}/data/x")', f'os.path.join(here, "{up}", "{beside}")', f"ELASTICTRAIN_{beside.upper()}=folder",
                 f"path = os.path.dirname{'(ROOT)'}", f"${{PROJECT_SOURCE_DIR}}/{up}/x", f"~/{beside}/traces"]
        for line in lines:
            with self.subTest(line), tempfile.TemporaryDirectory() as root:
                with open(os.path.join(root, "file"), "w") as file:
                    file.write(f"first\n{line}\n")
                self.assertEqual(offences(root), [f"file:2: {line}"])


if __name__ == "__main__":
    unittest.main()
