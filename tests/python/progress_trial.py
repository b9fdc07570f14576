"""Small training programs, run without interruption and joined in the middle, each in a forked process."""

import os
import signal
import sys
import tempfile
import time
import traceback

import torch

from elastictrain.torch import check
from elastictrain.torch.progress import _trial

LIMIT_S = 120
torch.optim.SGD([torch.zeros(1)], lr=1.0)  # the first one imports some 900 modules


def forked(folder, mode, at, steps, words):
    """In place of check.run_process(): torch is imported already."""
    output = os.path.join(folder, "output")
    process = os.fork()
    if process == 0:
        _become(output, [folder, mode, str(at), str(steps), *words])
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            with open(output, errors="replace") as file:
                return f"status {status}: {file.read()[-3000:]}" if status else check.lack(folder, mode, at)
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return f"not at its end after {LIMIT_S} s"


def _become(output, words):
    try:
        file = os.open(output, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        sys.argv = ["trial", *words]
        _trial.main()
        sys.stdout.flush()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def tried(program, at, steps, files=()):
    """What check says of a program's text. `files`: (name, text) beside it."""
    folder = tempfile.mkdtemp(prefix="et-progress-")
    before = os.getcwd()
    try:
        os.chdir(folder)
        for name, text in [("program.py", program), *files]:
            with open(os.path.join(folder, name), "w") as file:
                file.write(text)
        return check.tried([os.path.join(folder, "program.py")], at, steps, forked)
    finally:
        os.chdir(before)
