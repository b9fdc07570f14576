"""Progress of a script that changes nothing: read in one process, set in another that runs the same script."""

from ._hook import install, main_code, run_main

__all__ = ["install", "main_code", "run_main"]
