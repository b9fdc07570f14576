"""NVRTC and NCCL of the packages that PyTorch's wheels depend on, where the loader does not search."""

import os
import sys
from pathlib import Path

_PATTERNS = {"ELASTICTRAIN_NVRTC_LIBRARY": "nvidia/*/lib/libnvrtc.so.[0-9]*",
             "ELASTICTRAIN_NCCL_LIBRARY": "nvidia/nccl/lib/libnccl.so.[0-9]*"}


def name_installed() -> None:
    """Names them to the session, unless the variables are set. Call it before a device is used."""
    for variable, pattern in _PATTERNS.items():
        if os.environ.get(variable):
            continue
        found = next((file for place in sys.path if place for file in sorted(Path(place).glob(pattern))), None)
        if found is not None:
            os.environ[variable] = str(found)
