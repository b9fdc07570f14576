"""Finds elastictrain.torch.progress, also where there is no torch: the packages above it are then without their code."""

import importlib.util
import os
import sys
import types

PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "train", "python")


def find_package():
    """Makes `import elastictrain.torch.progress` possible here."""
    sys.path.insert(0, PACKAGE)
    if importlib.util.find_spec("torch") is None:
        for name in ("elastictrain", "elastictrain.torch"):
            module = types.ModuleType(name)
            module.__path__ = [os.path.join(PACKAGE, *name.split("."))]
            sys.modules[name] = module
