"""torch calls activate() at the end of `import torch` (its entry point "torch.backends")."""

import os
import sys
from typing import List, Optional, Tuple

OPTIONS_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


def activate() -> bool:
    """Makes the script of a worker elastic where ELASTICTRAIN_TORCH=1 asks for it; otherwise imports nothing. Returns whether it
    did.

    A script that has begun without the package's runner begins again with it, in the same process: its loops have to be
    compiled in another way before it runs. What it did before it imported torch is done twice."""
    if os.environ.get("ELASTICTRAIN_TORCH") != "1" or "ELASTICTRAIN_SOCKET" not in os.environ:
        return False
    if "elastictrain.torch" not in sys.modules and os.environ.get("ELASTICTRAIN_REWRITE") != "0":
        _begin_with_runner()
    from .torch import _patches
    from .torch._script import script
    _patches.install()
    script.finishes_at_exit = True
    return True


def _begin_with_runner() -> None:
    parts = split_command(_command())
    if parts is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(sys.executable, [sys.executable, *parts[0], "-m", "elastictrain.torch", *parts[1]])


def _command() -> List[str]:
    if hasattr(sys, "orig_argv"):
        return list(sys.orig_argv)
    with open("/proc/self/cmdline", "rb") as file:
        return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]


def split_command(words: List[str]) -> Optional[Tuple[List[str], List[str]]]:
    """(options of the interpreter, the program's words, perhaps with -m) of a command of Python; None for one without a file or a
    module, as with -c."""
    place = 1
    while place < len(words):
        word = words[place]
        if word in OPTIONS_WITH_VALUE:
            place += 2
        elif word == "-m" or not word.startswith("-"):
            return words[1:place], words[place:]
        elif word == "-" or word == "-c" or (not word.startswith("--") and word[1:2] not in "WX" and "c" in word[1:]):
            return None
        elif not word.startswith("--") and word.endswith("m") and word[1:2] not in "WX":  # as in -um MODULE
            return [*words[1:place], word[:-1]], ["-m", *words[place + 1:]]
        else:
            place += 1
    return None
