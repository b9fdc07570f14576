"""W&B and MLflow in a script that changes nothing: one run in them for the whole training, written by the first worker, whichever
it is now.

Every worker may begin the run. It is made, or continued, by a worker that first writes as the first one.
"""

import functools
import os
from typing import Any, Callable, Dict, Optional

from ._imports import after_import
from ._script import script
from ._side_effects import is_silent

TAG = "elastictrain_run"  # of the run in MLflow
MLFLOW_WRITES = ("log_metric", "log_metrics", "log_param", "log_params", "log_artifact", "log_artifacts", "log_dict", "log_text",
                 "log_figure", "log_image", "log_table", "set_tag", "set_tags", "delete_tag")
WANDB_WRITES = ("log", "save", "alert", "log_artifact", "log_code", "define_metric", "watch", "unwatch", "mark_preempting")


def install() -> None:
    after_import("wandb", _change_wandb)
    after_import("mlflow", _change_mlflow)


def _is_first() -> bool:
    return script.rank == 0 and not is_silent()


# --- W&B

def _change_wandb(module: Any) -> None:
    begin = module.init

    @functools.wraps(begin)
    def init(*arguments: Any, **named: Any) -> "WandbRun":
        name = os.environ.get("ELASTICTRAIN_JOB_ID")
        options = {"id": name, "resume": "allow", **named} if name else named
        run = WandbRun(lambda: begin(*arguments, **options), dict(named.get("config") or {}))
        _put(module, run)
        run.on_made = lambda: _put(module, run)  # W&B puts its own functions into the module
        return run

    module.init = init


def _put(module: Any, run: "WandbRun") -> None:
    module.run, module.config, module.summary, module.finish = run, run.config, run.summary, run.finish
    for name in WANDB_WRITES:
        setattr(module, name, functools.partial(run.write, name))


class Values(Dict[str, Any]):
    """`config` and `summary`: values by key or attribute, on all workers; the first one's go into the run."""

    def __init__(self, values: Dict[str, Any], target: Callable[[], Any]) -> None:
        super().__init__(values)
        self.__dict__["_target"] = target

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        if _is_first():
            self.__dict__["_target"]()[key] = value

    def __getattr__(self, key: str) -> Any:
        try:
            return self[key]
        except KeyError:
            raise AttributeError(key) from None

    __setattr__ = __setitem__

    def update(self, *arguments: Any, **named: Any) -> None:
        named.pop("allow_val_change", None)
        for key, value in dict(*arguments, **named).items():
            self[key] = value


class WandbRun:
    """In place of a run of W&B. `begin` makes or continues the real one."""

    def __init__(self, begin: Callable[[], Any], config: Dict[str, Any]) -> None:
        self._begin = begin
        self._own: Any = None
        self.on_made: Callable[[], None] = lambda: None
        self.config = Values(config, lambda: self._made().config)
        self.summary = Values({}, lambda: self._made().summary)

    def write(self, name: str, *arguments: Any, **named: Any) -> Any:
        return getattr(self._made(), name)(*arguments, **named) if _is_first() else None

    def finish(self, *arguments: Any, **named: Any) -> None:
        if self._own is not None:
            self._own.finish(*arguments, **named)
            self._own = None

    def __enter__(self) -> "WandbRun":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.finish(exit_code=0 if kind is None else 1)

    def __getattr__(self, name: str) -> Any:
        """What W&B itself asks of its present run, too."""
        if name in WANDB_WRITES:
            return functools.partial(self.write, name)
        if self.__dict__.get("_own") is not None:
            return getattr(self._own, name)
        raise AttributeError(f"a run of W&B that each worker begins and the first one writes has no '{name}' here")

    def _made(self) -> Any:
        if self._own is None:
            self._own = self._begin()
            self.on_made()
        return self._own


# --- MLflow

def _change_mlflow(module: Any) -> None:
    state = MlflowRun(module)
    module.start_run, module.end_run = state.start, state.end
    for name in MLFLOW_WRITES:
        if hasattr(module, name):
            setattr(module, name, state.writing(getattr(module, name)))


class MlflowRun:
    """The present run, which a worker makes or continues as soon as it writes as the first one."""

    def __init__(self, module: Any) -> None:
        self._module, self._start, self._end = module, module.start_run, module.end_run
        self._named: Dict[str, Any] = {}
        self._own: Any = None

    def start(self, run_id: Optional[str] = None, **named: Any) -> "MlflowRun":
        self._named = {**named, **({"run_id": run_id} if run_id else {})}
        return self

    def end(self, *arguments: Any, **named: Any) -> None:
        if self._own is not None:
            self._end(*arguments, **named)
            self._own = None

    def writing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def write(*arguments: Any, **named: Any) -> Any:
            if not _is_first():
                return None
            self._own = self._own or self._made()
            return original(*arguments, **named)

        return write

    def __enter__(self) -> "MlflowRun":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.end("FINISHED" if kind is None else "FAILED")

    def __getattr__(self, name: str) -> Any:
        """`info` and `data` of the run, in the first worker."""
        if name.startswith("_") or self._own is None:
            raise AttributeError(f"a run of MLflow that each worker begins and the first one writes has no '{name}' here")
        return getattr(self._own, name)

    def _made(self) -> Any:
        name = os.environ.get("ELASTICTRAIN_JOB_ID")
        if not name or "run_id" in self._named:
            return self._start(**self._named)
        found = self._module.search_runs(filter_string=f"tags.{TAG} = '{name}'", output_format="list", max_results=1)
        if found:
            return self._start(run_id=found[0].info.run_id)
        return self._start(**{**self._named, "tags": {**(self._named.get("tags") or {}), TAG: name}})
