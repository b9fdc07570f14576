"""Builds with a sanitizer: where their processes report to, and how much slower they are.

$ELASTICTRAIN_SANITIZE names the sanitizers of the binary under test (ctest sets it from the build). Every process of a
test, on every host of the lab, writes its reports into one directory, and the harness fails the case in which one turns
up. A report of ThreadSanitizer ends no process, so that one case shows all of them; the others end theirs.
"""

import atexit
import glob
import os
import shutil
import tempfile

SANITIZERS = os.environ.get("ELASTICTRAIN_SANITIZE", "")

# What a deadline of a test is multiplied with.
SLOWDOWN = {"": 1, "thread": 5}.get(SANITIZERS, 3)

OPTIONS = ("TSAN_OPTIONS", "ASAN_OPTIONS", "UBSAN_OPTIONS")

_MOST_CHARACTERS = 20_000
_directory = None


def collect_reports():
    """From here on, for every process that inherits this one's environment."""
    global _directory
    if not SANITIZERS:
        return
    _directory = tempfile.mkdtemp(prefix="etrun-reports-")
    atexit.register(shutil.rmtree, _directory, ignore_errors=True)
    os.chmod(_directory, 0o1777)  # a test's process may be another user's
    target = f"log_path={_directory}/report:log_exe_name=1"
    os.environ.update({
        "TSAN_OPTIONS": f"{target}:exitcode=0:second_deadlock_stack=1:history_size=4",
        # Beside AddressSanitizer GCC's UBSan writes to standard error only: it aborts, and that is reported with the stack.
        "ASAN_OPTIONS": f"{target}:detect_leaks=1:handle_abort=1:detect_stack_use_after_return=1",
        "UBSAN_OPTIONS": f"{target}:halt_on_error=1:abort_on_error=1:print_stacktrace=1"})


def take_reports():
    """The text of the reports that came since the last call."""
    texts = []
    for path in sorted(glob.glob(os.path.join(_directory, "*"))) if _directory else []:
        with open(path, errors="replace") as file:
            texts.append(f"{os.path.basename(path)}\n{file.read()[:_MOST_CHARACTERS]}")
        os.remove(path)
    return texts
