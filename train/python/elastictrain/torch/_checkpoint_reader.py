"""Reads a run's checkpoint for torch.distributed.checkpoint, each process what it holds of it."""

import os
import re
from typing import Any, Dict, List, Tuple

import torch
from torch.distributed.checkpoint import StorageReader
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, Metadata, TensorProperties, TensorStorageMetadata
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner
from torch.futures import Future

from .checkpoint import File, is_of_model
from ..errors import ElasticError

_NAME = re.compile(r"step-(\d+)\.gen-(\d+)\.safetensors")
_OF_OPTIMIZER = re.compile(r"(optimizer\d*)/(.+)/([^/]+)")


class Reader(StorageReader):
    """`path`: a checkpoint's safetensors file, or a run's directory of checkpoints, whose newest one is read.

    The model's tensors are "model.NAME", as of {"model": model.state_dict()}; those of an optimizer are
    "optimizer.state.NAME.KEY", as of {"optimizer": get_optimizer_state_dict(model, optimizer)}, which has other values besides: pass
    planner=DefaultLoadPlanner(allow_partial_load=True). Raises as checkpoint.File does."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._names: Dict[str, str] = {}  # in the file, by the names that are asked for

    def reset(self, checkpoint_id: Any = None) -> None:
        if checkpoint_id:
            self._path = os.fspath(checkpoint_id)

    def read_metadata(self, *_: Any, **__: Any) -> Metadata:
        self._file = File(newest(self._path) if os.path.isdir(self._path) else self._path)
        self._names = {_asked(name): name for name in self._file.names()}
        return Metadata({asked: self._about(name) for asked, name in self._names.items()})

    def _about(self, name: str) -> TensorStorageMetadata:
        chunks = [ChunkStorageMetadata(torch.Size(offsets), torch.Size(shape)) for offsets, shape in self._file.pieces(name)]
        return TensorStorageMetadata(TensorProperties(self._file.dtype_of(name)), torch.Size(self._file.shape_of(name)), chunks)

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *_: Any, **__: Any) -> None:
        """Each process has read the metadata itself."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: List[LoadPlan]) -> List[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> "Future[None]":
        last: Tuple[Any, Any] = (None, None)  # several items may be of one part
        for item in sorted(plan.items, key=lambda item: (item.storage_index.fqn, tuple(item.storage_index.offset or ()))):
            if item.type == LoadItemType.BYTE_IO:
                raise ElasticError(f"'{item.storage_index.fqn}' is no tensor, and a run's checkpoint has only tensors")
            name, number = self._names[item.storage_index.fqn], self._number(item.storage_index)
            if last[0] != (name, number):
                last = (name, number), self._file.read(name, number)
            part = last[1]
            for dim, (begin, length) in enumerate(zip(item.storage_offsets, item.lengths)):
                part = part.narrow(dim, begin, length)
            target = planner.resolve_tensor(item).detach()
            target.copy_(part)
            planner.commit_tensor(item, target)
        done: "Future[None]" = Future()
        done.set_result(None)
        return done

    def _number(self, index: Any) -> int:
        """Of the part."""
        begins = [offsets for offsets, _ in self._file.pieces(self._names[index.fqn])]
        return begins.index(list(index.offset)) if index.offset is not None else index.index or 0

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return os.path.exists(checkpoint_id)


def newest(directory: str) -> str:
    """The file of the newest checkpoint: of the latest generation. Raises ElasticError where there is none."""
    found = [match for match in map(_NAME.fullmatch, os.listdir(directory)) if match]
    complete = [match for match in found if os.path.exists(os.path.join(directory, match[0].replace(".safetensors", ".json")))]
    if not complete:
        raise ElasticError(f"there is no checkpoint of a run in {directory}")
    latest = max(complete, key=lambda match: (int(match[2]), int(match[1])))
    return os.path.join(directory, latest[0])


def _asked(name: str) -> str:
    if is_of_model(name):
        return f"model.{name}"
    optimizer = _OF_OPTIMIZER.fullmatch(name)
    return name if optimizer is None else f"{optimizer[1]}.state.{optimizer[2]}.{optimizer[3]}"
