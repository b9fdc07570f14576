"""Lightning's Trainer in a script that changes nothing: its strategy is that of a run, on the device of this worker.

In a replica of several processes it is ModelParallelStrategy, also that of Fabric, whose world is the replica.
"""

import functools
from typing import Any, Callable

import torch

from ._imports import after_import
from ._script import script
from ..errors import ElasticError

WITH_MODEL_PARALLEL = ("In replicas of several processes ModelParallelStrategy does, with fully_shard() or parallelize_module() in "
                       "configure_model() of a Trainer's module, or in parallelize_fn of Fabric")
FSDP1 = "Lightning's {} is that of torch's FullyShardedDataParallel (FSDP1), which does not become elastic. " + WITH_MODEL_PARALLEL
NOT_DIVIDED = "Lightning's strategy {} does not divide the model among the processes of a replica. " + WITH_MODEL_PARALLEL
ON_CPUS = ("Lightning's accelerator {} is not possible in replicas of several processes, which train on CPUs only, so far; with "
           "accelerator=\"cpu\" the script is elastic")
DDP = ("auto", "ddp", "ddp_find_unused_parameters_true", "ddp_find_unused_parameters_false")


def install() -> None:
    after_import("lightning.pytorch.trainer.connectors.accelerator_connector", _change_connector)
    after_import("pytorch_lightning.trainer.connectors.accelerator_connector", _refuse_other_name)


def install_in_replica() -> None:
    after_import("lightning.pytorch.trainer.connectors.accelerator_connector", _divide_by("_AcceleratorConnector"))
    after_import("lightning.fabric.connector", _divide_by("_Connector"))
    after_import("lightning.fabric.wrappers", _note_optimizers)
    after_import("lightning.pytorch.trainer.trainer", lambda module: _print_in_first_replica(module.Trainer))
    after_import("lightning.fabric.fabric", lambda module: _print_in_first_replica(module.Fabric))
    after_import("pytorch_lightning.trainer.connectors.accelerator_connector", _refuse_other_name)
    after_import("lightning_fabric.connector", _refuse_other_fabric)


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


def _refuse_other_fabric(module: Any) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise ElasticError("lightning_fabric does not become elastic in replicas of several processes; import lightning.fabric in its "
                           "place (pip install lightning), which has the same classes")

    module._Connector.__init__ = refuse


# --- In a replica of several processes

def _divide_by(name: str) -> Callable[[Any], None]:
    """`name`: of the class that makes the strategy of a Trainer, or of Fabric, which name its arguments."""
    def change(module: Any) -> None:
        connector = getattr(module, name)
        construct = connector.__init__

        @functools.wraps(construct)
        def constructed(self: Any, *arguments: Any, **named: Any) -> None:
            from ..lightning import _replica as _strategies

            strategy = _require_division(named.get("strategy", "auto"), module)
            _require_cpu(named.get("accelerator", "auto"))
            named.update(strategy=_strategies.in_replica(strategy), accelerator="cpu", devices=_strategies.place().size, num_nodes=1)
            construct(self, *arguments, **named)

        connector.__init__ = constructed
        connector._choose_and_init_cluster_environment = lambda self: _environment()
    return change


def _environment() -> Any:
    from ..lightning._replica import ReplicaEnvironment

    return ReplicaEnvironment()


def _require_division(strategy: Any, module: Any) -> Any:
    """The strategy, which may be registered by a name."""
    name = strategy.lower() if isinstance(strategy, str) else type(strategy).__name__
    registry = getattr(module, "StrategyRegistry", None) or module.STRATEGY_REGISTRY
    kind = dict.get(registry, name, {}).get("strategy") if isinstance(strategy, str) else type(strategy)
    if isinstance(kind, type) and issubclass(kind, module.ModelParallelStrategy):
        return registry.get(name) if isinstance(strategy, str) else strategy
    is_fsdp = kind is not None and issubclass(kind, module.FSDPStrategy)
    raise ElasticError((FSDP1 if is_fsdp else NOT_DIVIDED).format(name))


def _require_cpu(accelerator: Any) -> None:
    name = accelerator if isinstance(accelerator, str) else type(accelerator).__name__
    if name not in ("cpu", "CPUAccelerator") and (name != "auto" or torch.cuda.is_available()):
        raise ElasticError(ON_CPUS.format(name))


def _note_optimizers(module: Any) -> None:
    """What Fabric puts around an optimizer has its state, which a new replica gets with the model's."""
    construct = module._FabricOptimizer.__init__

    @functools.wraps(construct)
    def constructed(self: Any, *arguments: Any, **named: Any) -> None:
        construct(self, *arguments, **named)
        script.found["wrapper"].append(self)

    module._FabricOptimizer.__init__ = constructed


def _print_in_first_replica(kind: Any) -> None:
    """The first process of each replica has rank 0."""
    from . import _replica_script

    original = kind.print

    @functools.wraps(original)
    def print_once(self: Any, *arguments: Any, **named: Any) -> None:
        if not _replica_script.is_quiet():
            original(self, *arguments, **named)

    kind.print = print_once
