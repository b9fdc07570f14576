"""torchtitan's trainer. Its checkpointer keeps the model's state_dict, whose tensors are the model's or are made anew when it saves:
each process has its own, and nothing of it travels to new workers.
"""

from typing import Any

from ._imports import after_import

WRAPPERS = ("torchtitan.components.checkpointer.base", "torchtitan.components.checkpoint")  # where versions have it


def install() -> None:
    for path in WRAPPERS:
        after_import(path, _leave_state_dicts)


def _leave_state_dicts(module: Any) -> None:
    wrapper = getattr(module, "ModelWrapper", None)
    if wrapper is not None:
        wrapper.progress_place, wrapper.set_progress_place = lambda _: None, lambda _, place: None
