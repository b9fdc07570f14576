"""elastictrain: data-parallel training that changes its size while it runs.

`Session` is the training interface of any program. `elastictrain.torch` makes PyTorch programs elastic; this package
itself needs neither torch nor numpy.
"""

from .errors import ElasticError, Interrupted, SessionError
from .session import Batch, Change, Session, StepReport

__version__ = "0.1.0"
__all__ = ["Batch", "Change", "ElasticError", "Interrupted", "Session", "SessionError", "StepReport", "version"]


def version() -> str:
    """The library's version. Raises ImportError where there is no library."""
    from . import _interface
    return str(_interface.load().et_version().decode())
