"""Lightning's Trainer in a script that changes nothing: its strategy is that of a run, on the device of this worker."""

import functools
from typing import Any

from ._imports import after_import
from ..errors import ElasticError

DDP = ("auto", "ddp", "ddp_find_unused_parameters_true", "ddp_find_unused_parameters_false")


def install() -> None:
    after_import("lightning.pytorch.trainer.connectors.accelerator_connector", _change_connector)
    after_import("pytorch_lightning.trainer.connectors.accelerator_connector", _refuse_other_name)


def _change_connector(module: Any) -> None:
    connector = module._AcceleratorConnector
    construct = connector.__init__

    @functools.wraps(construct)
    def constructed(self: Any, *arguments: Any, **named: Any) -> None:
        """The Trainer names them all."""
        from ..lightning import ElasticStrategy

        strategy = named.get("strategy", "auto")
        if not isinstance(strategy, ElasticStrategy):
            _require_ddp(strategy, module.DDPStrategy)
            if named.get("sync_batchnorm"):
                raise ElasticError("Lightning's sync_batchnorm=True waits for all workers in each forward pass; without it "
                                   "elastictrain averages the running statistics over the samples of a step")
            named.update(strategy=ElasticStrategy(), devices=1, num_nodes=1)
        construct(self, *arguments, **named)

    connector.__init__ = constructed


def _require_ddp(strategy: Any, ddp: type) -> None:
    """Every worker has the whole model and the script no way of its own to average."""
    name = strategy.lower() if isinstance(strategy, str) else type(strategy).__name__
    if name not in DDP and type(strategy) is not ddp:
        raise ElasticError(f"Lightning's strategy {name} divides the model, or starts or averages in a way of its own; with "
                           "strategy=\"ddp\" the script is elastic")
    if getattr(strategy, "_ddp_comm_hook", None) is not None or getattr(strategy, "_model_averager", None) is not None:
        raise ElasticError("Lightning's DDPStrategy with a communication hook or a model averager averages in a way of its own; "
                           "with strategy=\"ddp\" the script is elastic")


def _refuse_other_name(module: Any) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise ElasticError("the Trainer of pytorch_lightning does not become elastic; import lightning.pytorch in its place "
                           "(pip install lightning), which has the same classes")

    module._AcceleratorConnector.__init__ = refuse
