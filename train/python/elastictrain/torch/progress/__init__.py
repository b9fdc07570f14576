"""Progress of a script that changes nothing: read in one process, set in another that runs the same script."""

from ._hook import install, main_code, run_main

__all__ = ["Progress", "RecordError", "Report", "install", "main_code", "run_main"]


def __getattr__(name: str) -> object:
    """The rewriting needs no torch, the rest does."""
    if name in ("Progress", "Report", "RecordError"):
        from . import _pickling, _progress
        return {"Progress": _progress.Progress, "Report": _progress.Report, "RecordError": _pickling.RecordError}[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
