"""Builds with a sanitizer: the directory of their processes' reports, and the factor by which they are slower.

$ELASTICTRAIN_SANITIZE names the sanitizers of the binary under test (ctest sets it from the build). Every process of a
test, on every host of the lab, writes its reports into one directory, and the harness fails the case in which one
appears. A report of ThreadSanitizer does not end the process, so that one case shows all of them; the others do.
"""

import atexit
import glob
import os
import shutil
import tempfile
import unittest
import unittest.mock

SANITIZERS = os.environ.get("ELASTICTRAIN_SANITIZE", "")

# Factor of a test's deadlines.
SLOWDOWN = {"": 1, "thread": 5}.get(SANITIZERS, 3)

OPTIONS = ("TSAN_OPTIONS", "ASAN_OPTIONS", "UBSAN_OPTIONS")

_MOST_CHARACTERS = 20_000
_SUPPRESSIONS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tsan.supp")
_directory = None


def collect_reports():
    """Enables reports, from now on, in every process that inherits this one's environment."""
    global _directory
    if not SANITIZERS:
        return
    _directory = tempfile.mkdtemp(prefix="etrun-reports-")
    atexit.register(shutil.rmtree, _directory, ignore_errors=True)
    os.chmod(_directory, 0o1777)  # a test's process may belong to another user
    target = f"log_path={_directory}/report:log_exe_name=1"
    os.environ.update({
        "TSAN_OPTIONS": f"{target}:exitcode=0:second_deadlock_stack=1:history_size=4:suppressions=\"{_SUPPRESSIONS}\"",
        # With AddressSanitizer, GCC's UBSan writes only to standard error: it aborts, and the abort is reported with the stack.
        "ASAN_OPTIONS": f"{target}:detect_leaks=1:handle_abort=1:detect_stack_use_after_return=1",
        "UBSAN_OPTIONS": f"{target}:halt_on_error=1:abort_on_error=1:print_stacktrace=1"})


def without_leaks(environment):
    """The same without the search for leaks: MPI leaks, also in modules that it has unloaded, which no suppression can name,
    and the search needs a thread."""
    options = environment.get("ASAN_OPTIONS")
    return {**environment, "ASAN_OPTIONS": options.replace("detect_leaks=1", "detect_leaks=0")} if options else dict(environment)


def ignore_leaks():
    """Of all processes that this one starts until it calls what is returned."""
    patch = unittest.mock.patch.dict(os.environ, without_leaks(os.environ))
    patch.start()
    return patch.stop


def skip_under_threads(library):
    """ThreadSanitizer crashes where a library takes a lock in a thread that ends and that it has given up."""
    if SANITIZERS == "thread":
        raise unittest.SkipTest(f"ThreadSanitizer crashes in threads of {library} that end")


def take_reports():
    """The text of the reports since the last call."""
    texts = []
    for path in sorted(glob.glob(os.path.join(_directory, "*"))) if _directory else []:
        with open(path, errors="replace") as file:
            texts.append(f"{os.path.basename(path)}\n{file.read()[:_MOST_CHARACTERS]}")
        os.remove(path)
    return texts
