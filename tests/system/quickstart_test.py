"""The quick start does what its first lines describe."""

import os
import subprocess
import tempfile

import harness
import sanitizer
from harness import BINARY, Case

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class QuickStart(Case):
    def test_it_grows_replaces_and_ends_with_a_summary(self):
        with tempfile.TemporaryDirectory(prefix="etrun-") as state:
            done = subprocess.run([os.path.join(ROOT, "scripts", "quickstart.sh")], capture_output=True, text=True,
                                  timeout=240 * sanitizer.SLOWDOWN, stdin=subprocess.DEVNULL,
                                  env={**os.environ, "ELASTICTRAIN_BINARY": BINARY, "ELASTICTRAIN_STATE_DIR": state})
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, said[-3000:])
        for part in ("resize", "replace", "accuracy", "samples/s", "idle"):
            self.assertIn(part, said)
        self.assertIn(f"The binary is {BINARY}", said)
        self.assertNotIn("quickstart.sh:", said, "nothing was refused or late")


if __name__ == "__main__":
    harness.main()
