"""`python -m elastictrain.torch [-m] SCRIPT …`: runs a script with DistributedDataParallel, unchanged and elastic."""

import os
import runpy
import sys

from . import _patches
from ._script import script


_GLOBALS = {"enumerate": script.enumerate}


def main() -> None:
    arguments = sys.argv[1:]
    is_module = arguments[:1] == ["-m"]
    arguments = arguments[1:] if is_module else arguments
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        sys.exit(0 if arguments else 64)
    sys.argv = arguments
    _patches.install()
    try:
        _run(arguments[0], is_module)
    except SystemExit as end:
        if end.code in (None, 0):
            script.finish()
        raise
    script.finish()


def _run(name: str, is_module: bool) -> None:
    if is_module:
        runpy.run_module(name, _GLOBALS, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(name))
        runpy.run_path(name, _GLOBALS, run_name="__main__")


if __name__ == "__main__":
    main()
