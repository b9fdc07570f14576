"""Runs in a process that the module multiprocessing has executed for a worker, by this file's path: before the process knows
the worker's sys.path, and before its signals are unblocked. `worker`: the process that it helps; `ignores`: notices;
`blocked`: signals that the program itself blocks."""

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    worker = 0
    ignores = True
    blocked = [0]

sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))
from elastictrain import _helpers  # noqa: E402

_helpers.begin_executed(worker, ignores, blocked)
