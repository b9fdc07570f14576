"""torch calls activate() at the end of `import torch` (its entry point "torch.backends")."""

import os
import sys


def activate() -> None:
    """Makes the script of a worker elastic where ELASTICTRAIN_TORCH=1 asks for it; otherwise imports nothing."""
    if os.environ.get("ELASTICTRAIN_TORCH") != "1" or "ELASTICTRAIN_SOCKET" not in os.environ:
        return
    from .torch import _patches
    from .torch._script import script
    _patches.install()
    script.finishes_at_exit = True
    setattr(sys.modules["__main__"], "enumerate", script.enumerate)
