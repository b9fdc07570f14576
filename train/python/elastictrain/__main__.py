"""`python -m elastictrain …` and the command `elastictrain` of the wheel: the binary, in this process."""

import os
import sys

from . import _paths


def main() -> None:
    """Replaces this process by the binary, which is never a shell's or a script's name in PATH."""
    path = _paths.binary()
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
