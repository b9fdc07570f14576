"""`python -m elastictrain.torch [-m] SCRIPT …`: runs a script with DistributedDataParallel, unchanged and elastic."""

import sys

from . import _patches, progress
from ._script import script


def main() -> None:
    arguments = sys.argv[1:]
    is_module = arguments[:1] == ["-m"]
    arguments = arguments[1:] if is_module else arguments
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        sys.exit(0 if arguments else 64)
    _patches.install()
    try:
        progress.run_main(arguments[0], arguments[1:], is_module)
    except SystemExit as end:
        if end.code in (None, 0):
            script.finish_or_exit()
        raise
    except Exception as error:
        script.decline(error)
        raise
    script.finish_or_exit()


if __name__ == "__main__":
    main()
