"""The Python that has torch: ELASTICTRAIN_TORCH_PYTHON, that of `scripts/setup.sh torch`, or the present one."""

import functools
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGE = os.path.join(ROOT, "train", "python")
OLDEST = (2, 5)


@functools.lru_cache(None)
def find():
    """(path, "") or (None, why there is none)."""
    tried = []
    for python in (os.environ.get("ELASTICTRAIN_TORCH_PYTHON"), os.path.join(ROOT, "build", "torch-venv", "bin", "python"),
                   sys.executable, "/usr/bin/python3"):
        if python and os.path.exists(python) and python not in tried:
            tried.append(python)
            if version_of(python) >= OLDEST:
                return python, ""
    oldest = ".".join(map(str, OLDEST))
    return None, f"no Python has torch {oldest} or newer (tried {', '.join(tried)}); scripts/test.sh --torch installs it: 1.1 GB, as PyPI's has CUDA"


def version_of(python):
    code = "import torch; print(*torch.__version__.split('.')[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return tuple(int(part) for part in done.stdout.split()) if done.returncode == 0 else (0,)


def run_this_test_there():
    """Replaces this process by the same test under the Python that has torch; ends it with 77 where there is none."""
    python, why = find()
    if python is None:
        print(f"SKIPPED: {why}", flush=True)
        sys.exit(77)
    if os.path.realpath(python) != os.path.realpath(sys.executable) or sys.prefix != prefix_of(python):
        if os.environ.get("ET_UNDER_TORCH") != "1":
            os.execve(python, [python, *sys.argv], {**os.environ, "ET_UNDER_TORCH": "1"})


def prefix_of(python):
    return subprocess.run([python, "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True).stdout.strip()
