"""The strategy: one process on its device, whose gradients are averaged by the hooks of the run."""

import os
from typing import Any, Optional

import torch
from lightning.fabric.utilities import rank_zero as _fabric_rank_zero
from lightning.pytorch.overrides.distributed import UnrepeatedDistributedSampler
from lightning.pytorch.strategies import Strategy
from lightning.pytorch.trainer.states import TrainerFn
from lightning.pytorch.utilities import rank_zero as _rank_zero
from lightning.pytorch.utilities.data import _update_dataloader
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from . import _loop
from ..errors import ElasticError
from ..torch import _collectives, _patches
from ..torch._group_board import is_successor
from ..torch._script import script


class ElasticStrategy(Strategy):
    """Trains on all workers of an elastictrain run, whose number may change; alone without a launcher.

    `accumulate_grad_batches` is a part of a step. Refused are manual optimization, several training loaders and
    `limit_train_batches`. Thread: the training thread.
    """

    strategy_name = "elastic"
    is_distributed = True

    def __init__(self, accelerator: Any = None, checkpoint_io: Any = None, precision_plugin: Any = None) -> None:
        super().__init__(accelerator=accelerator, checkpoint_io=checkpoint_io, precision_plugin=precision_plugin)
        if not script.is_initialized:
            _patches.install()
            _collectives.init_process_group()
            script.finishes_at_exit = script.has_adapter = True
        self._trainer: Any = None
        if is_successor():  # it is the first one as any other that is so later: its loggers begin then, with what they know
            os.environ["RANK"] = "1"
        self._follow(script.rank)

    # --- Its place

    global_rank = property(lambda self: script.rank)
    world_size = property(lambda self: script.world_size)
    local_rank = property(lambda self: int(os.environ.get("LOCAL_RANK", "0")))
    is_global_zero = property(lambda self: script.rank == 0)

    @property
    def root_device(self) -> torch.device:
        if type(self.accelerator).__name__ == "CUDAAccelerator":
            return torch.device("cuda", self.local_rank)
        return torch.device("cpu")

    def model_to_device(self) -> None:
        assert self.model is not None
        self.model.to(self.root_device)

    # --- Set-up

    def setup_environment(self) -> None:
        super().setup_environment()
        self._trainer = self.lightning_module.trainer if self.lightning_module is not None else None
        if self._trainer is not None:
            self._trainer._accelerator_connector.use_distributed_sampler = False  # process_dataloader() does it
            _loop.name_versions(self._trainer.loggers)

    def setup(self, trainer: Any) -> None:
        if trainer.state.fn == TrainerFn.FITTING:
            _loop.prepare(trainer)
        super().setup(trainer)
        if trainer.state.fn == TrainerFn.FITTING:
            script.model = _Held(self.model)

    def joined(self, run: Any) -> None:
        """The run has begun for this worker."""
        self._follow(run.rank)
        run.on_change(lambda change: self._follow(change.rank))

    def _follow(self, rank: int) -> None:
        """What Lightning keeps of the rank: who writes, and who shows the progress."""
        _rank_zero.rank_zero_only.rank = _fabric_rank_zero.rank_zero_only.rank = rank  # type: ignore[attr-defined]
        if rank == 0 and self._trainer is not None:
            _loop.show_progress(self._trainer)

    def process_dataloader(self, dataloader: object) -> object:
        """Evaluations divide among the present workers."""
        if not isinstance(dataloader, DataLoader) or self._trainer.state.stage.value == "train":
            return dataloader
        if isinstance(dataloader.sampler, DistributedSampler):
            return dataloader
        if self._trainer.state.stage.value == "predict":
            self._divide_prediction(dataloader)
            return dataloader
        return _update_dataloader(dataloader, DistributedSampler(dataloader.dataset, shuffle=False))

    def _divide_prediction(self, dataloader: Any) -> None:
        """Each sample once, in batches around which Lightning keeps the indices."""
        batches = getattr(dataloader.batch_sampler, "_batch_sampler", None)
        if hasattr(batches, "sampler"):
            batches.sampler = UnrepeatedDistributedSampler(dataloader.dataset, num_replicas=self.world_size,
                                                           rank=self.global_rank, shuffle=False)

    # --- Collectives

    def _has_others(self) -> bool:
        return script.run is not None and script.run.is_started

    def barrier(self, *args: Any, **kwargs: Any) -> None:
        torch.distributed.barrier()

    def broadcast(self, obj: Any, src: int = 0) -> Any:
        held = [obj]
        torch.distributed.broadcast_object_list(held, src)
        return held[0]

    def reduce(self, tensor: Any, group: Optional[Any] = None, reduce_op: Any = "mean") -> Any:
        if not isinstance(tensor, torch.Tensor) or not self._has_others():
            return tensor
        name = str(reduce_op).lower().rsplit(".", 1)[-1]
        name = "mean" if name == "avg" else name
        values = tensor.double() if name == "mean" and not tensor.is_floating_point() else tensor.clone()
        torch.distributed.all_reduce(values, _collectives.operation_of(name))
        return values

    def all_gather(self, tensor: torch.Tensor, group: Optional[Any] = None, sync_grads: bool = False) -> torch.Tensor:
        if not self._has_others():
            return tensor.unsqueeze(0)
        parts = [torch.empty_like(tensor) for _ in range(self.world_size)]
        torch.distributed.all_gather(parts, tensor)
        return torch.stack(parts)

    def reduce_boolean_decision(self, decision: bool, all: bool = True) -> bool:
        count = self.reduce(torch.tensor(float(decision)), reduce_op="sum")
        return bool(count == (self.world_size if self._has_others() else 1)) if all else bool(count > 0)



class _Held:
    """A model that Lightning calls itself."""

    training, begins_in_evaluation_mode = True, False

    def __init__(self, module: Any) -> None:
        self.module, self.parameters = module, module.parameters
