"""Finds the library and the binary: what the environment names, then beside this package, then in a build tree.

A wheel carries both. In a source tree they come from the newest build/<preset>.
"""

import os
import shutil
from pathlib import Path
from typing import Iterable, List

PACKAGE = Path(__file__).resolve().parent
LIBRARY_NAME = "libelastictrain.so"


def library() -> str:
    """Path of libelastictrain.so. Raises ImportError that names every place that was tried."""
    return _first("ELASTICTRAIN_LIBRARY", [PACKAGE / "lib" / LIBRARY_NAME, *_builds(f"train/{LIBRARY_NAME}")],
                  "the library libelastictrain.so")


def binary() -> str:
    """Path of the binary `elastictrain`. Raises ImportError that names every place that was tried.

    Inside of a run it is the binary that started this worker.
    """
    return _first("ELASTICTRAIN_BINARY", [PACKAGE / "bin" / "elastictrain", *_builds("cli/elastictrain")],
                  "the binary elastictrain")


def _builds(path: str) -> List[Path]:
    """In the build folders of a source tree that this package is part of, the newest first."""
    if len(PACKAGE.parents) < 3:
        return []
    found = [file for file in (PACKAGE.parents[2] / "build").glob(f"*/{path}") if file.exists()]
    return sorted(found, key=lambda file: file.stat().st_mtime, reverse=True)


def _first(variable: str, places: Iterable[Path], what: str) -> str:
    named = os.environ.get(variable)
    if named:
        found = named if os.path.exists(named) else shutil.which(named)
        if found:
            return found
        raise ImportError(f"{variable}={named}: there is no such file")
    tried = list(places)
    for place in tried:
        if place.exists():
            return str(place)
    listed = ", ".join(map(str, tried)) or "no place"
    raise ImportError(f"{what} was not found (tried {listed}). Install the wheel, or build the project and set {variable}")
