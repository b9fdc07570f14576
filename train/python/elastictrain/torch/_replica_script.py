"""A script that changes nothing and divides its model by fully_shard() or parallelize_module(): each process of a replica runs it, and
what it sees as the world is its replica. Across replicas gradients are averaged, and the replicas but one keep to themselves what the script
prints and saves.
"""

import builtins
import functools
import io
import os
import pathlib
import shutil
import sys
import threading
import time
import weakref
from typing import Any, Callable, List, Optional, Sequence, Set

import torch
from torch import distributed, nn
from torch.futures import Future

from . import _exchange, _layout, _replica
from ._group_board import own_rank
from ._imports import after_import
from ._script import ACCUMULATES, script
from ._turns import Turns
from .progress._hook import is_own_file
from .. import _replica as _processes
from ..errors import ElasticError
from ..session import RUNNING


def begin() -> None:
    """Makes this worker a replica of as many processes as the run asks for; before the script runs."""
    global _store
    size = _replica.size_of_run()
    if size is not None:
        _, _store = _replica.begin(size)
        script.opened = Turns(script)


_store: Any = None  # of the replica's processes


def is_on() -> bool:
    return _processes.current() is not None


# --- torch.distributed: the group of the replica

def install() -> None:
    """Once, before the script is run."""
    for function in (init_process_group, destroy_process_group, init_device_mesh):
        name = function.__name__
        for module in (distributed, distributed.distributed_c10d, distributed.device_mesh):
            if hasattr(module, name):
                setattr(module, name, functools.wraps(getattr(module, name))(function))
    setattr(distributed, "all_reduce", functools.wraps(_all_reduce)(all_reduce))
    after_import("torch.distributed._functional_collectives", _bring_functional_together)
    for name, modules in _DIVIDING.items():
        for module in modules:
            after_import(module, _note_dividing(name))
    after_import("torch.distributed.fsdp._fully_shard._fully_shard", _watch_accumulation)
    for module, name in _REFUSED.items():
        after_import(module, _refuse(name))
    setattr(nn.parallel.DistributedDataParallel, "__init__", _refusal(
        "this script has a DistributedDataParallel model, of which each process holds the whole. Start the run without "
        "--per-replica"))
    _keep_to_itself()


_init, _destroy, _all_reduce = distributed.init_process_group, distributed.destroy_process_group, distributed.all_reduce
_make_mesh = distributed.device_mesh.init_device_mesh


def init_process_group(backend: Any = None, init_method: Any = None, timeout: Any = None, *_: Any, **__: Any) -> None:
    """The script's world is its replica."""
    here = _processes.current()
    assert here is not None
    options = {} if timeout is None else {"timeout": timeout}
    _init(_replica.backends(), store=_store, rank=here.index, world_size=here.size, **options)
    script.is_initialized = True


def destroy_process_group(group: Any = None) -> None:
    if group is not None and group is not distributed.group.WORLD:
        return _destroy(group)
    script.finish()
    if distributed.is_initialized():
        _destroy()


def init_device_mesh(device_type: str, mesh_shape: Any, *arguments: Any, **named: Any) -> Any:
    """Copies of a model are other replicas: to the script there is one, as far as it may say how many there are."""
    here = _processes.current()
    assert here is not None
    inner = next((dim for dim in range(len(mesh_shape)) if _product(mesh_shape[dim:]) == here.size), None)
    if inner is None:
        size = _product(mesh_shape[1:] if len(mesh_shape) > 1 else mesh_shape)
        what_to_do = f"Start the run with --per-replica {size}" if size > 0 else "Its own settings are for another number of processes"
        raise ElasticError(f"this script divides its model over {size} processes, and its replica has {here.size}. {what_to_do}")
    mesh_shape = (*(1 for _ in mesh_shape[:inner]), *mesh_shape[inner:])
    return _make_mesh(device_type, mesh_shape, *arguments, **named)


def all_reduce(tensor: Any, op: Any = distributed.ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
    """What a script reduces over its world: the replicas' results are brought together, so that all have the same one. A sum is that of
    one replica in the mean, as the script knows the size of that."""
    work = _all_reduce(tensor, op, group, async_op)
    if _is_called_from_outside():
        if work is not None:
            work.wait()
        _bring_together(tensor, op, group)
    return work


def _bring_functional_together(module: Any) -> None:
    """torch's own form of it, which gives another tensor."""
    original = module.all_reduce

    @functools.wraps(original)
    def functional_all_reduce(tensor: Any, reduceOp: Any, group: Any, *arguments: Any, **named: Any) -> Any:
        reduced = original(tensor, reduceOp, group, *arguments, **named)
        if not torch.compiler.is_compiling() and not reduced.requires_grad and _is_called_from_outside():
            reduced = module.wait_tensor(reduced)
            own = distributed.distributed_c10d._resolve_process_group(module._resolve_group_name(group, *arguments, **named))
            _bring_together(reduced, reduceOp, own)
        return reduced

    module.all_reduce = functional_all_reduce


def _is_called_from_outside() -> bool:
    """Of torch, whose own sums are the replica's."""
    return not str(sys._getframe(2).f_globals.get("__name__")).startswith("torch.")


_ACROSS = {"SUM": "mean", "AVG": "mean", "MAX": "max", "MIN": "min"}


def _bring_together(tensor: torch.Tensor, of_replica: Any, group: Any) -> None:
    """Where the replicas train and this is the thread that does. Tensors of other sizes have no mean; those stay the replica's."""
    here, run = _processes.current(), script.run
    operation = _ACROSS.get(str(of_replica).rpartition(".")[2].upper())
    is_training = run is not None and run.is_started and run.outcome == RUNNING and not script.is_apart
    if here is None or run is None or not is_training or threading.get_ident() != script.thread or operation is None:
        return
    if distributed.get_world_size(group) != here.size or (operation == "mean" and tensor.dtype == torch.bool):
        return
    if group not in (None, distributed.group.WORLD) and run.layout is not None and run.layout.has_tensor_groups:
        return  # the processes that compute one batch together may be all of the replica
    if run.world_size == 1:
        return
    own = tensor.detach().cpu().contiguous()
    parts = [torch.frombuffer(bytearray(part), dtype=own.dtype) if part else own for part in run.gather(_exchange.bytes_of(own))]
    if all(part.numel() == own.numel() for part in parts):
        with torch.no_grad():
            tensor.copy_(_across(parts, operation).reshape(own.shape))


def _across(parts: Sequence[torch.Tensor], operation: str) -> torch.Tensor:
    """A mean of whole numbers is the next one away from 0: a count of tokens is right but for less than one, and what is not 0 in one
    replica is so in none."""
    if operation != "mean" or parts[0].is_floating_point() or parts[0].is_complex():
        return _exchange.fold(parts, operation)
    total = torch.stack(list(parts)).to(torch.int64).sum(0)
    return (total.abs() + len(parts) - 1).div(len(parts), rounding_mode="floor") * total.sign()


def _product(numbers: Any) -> int:
    return functools.reduce(lambda product, number: product * int(number), numbers, 1)


# --- The model

_DIVIDING = {
    "fully_shard": ("torch.distributed.fsdp._fully_shard._fully_shard", "torch.distributed.fsdp._fully_shard", "torch.distributed.fsdp",
                    "torch.distributed._composable.fsdp.fully_shard", "torch.distributed._composable.fsdp"),
    "parallelize_module": ("torch.distributed.tensor.parallel.api", "torch.distributed.tensor.parallel")}
_REFUSED = {
    "torch.distributed.fsdp.fully_sharded_data_parallel": "FullyShardedDataParallel",
    "torch.distributed.pipelining.schedules": "_PipelineSchedule"}


def _refuse(name: str) -> Callable[[Any], None]:
    def change(module: Any) -> None:
        thing = getattr(module, name)
        refuse = _refusal(f"{module.__name__.partition('.')[0]}'s {name.lstrip('_')} is not possible in replicas of several processes. What "
                          "divides its model by fully_shard() or parallelize_module() and trains in a loop of its own is")
        if isinstance(thing, type):
            thing.__init__ = refuse  # type: ignore[misc]
        else:
            setattr(module, name, refuse)
    return change


def _refusal(text: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise ElasticError(text)
    return refuse


class ShardedModel:
    """What the script trains, as _script_model.ElasticModel is."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.begins_in_evaluation_mode = not module.training
        self.require_backward_grad_sync = True
        self.hook = module.register_forward_pre_hook(lambda _, *inputs: self._before_pass(inputs), prepend=True, with_kwargs=True)
        self.watches: List[Any] = []
        self._watch()

    def _watch(self) -> None:
        """Until there is a run; its parameters may be replaced before, as load_state_dict(assign=True) does."""
        for hook in self.watches:
            hook.remove()
        self.watches = [parameter.register_post_accumulate_grad_hook(lambda _: script.check_backward())
                        for parameter in self.parameters() if parameter.requires_grad]

    training = property(lambda self: self.module.training)

    def train(self) -> None:
        self.module.train()

    def parameters(self) -> Any:
        return iter(_layout.divided_parameters(self.module))

    def prepare(self) -> None:
        """Before its parameters are looked at: an evaluation may have left them whole. Raises ElasticError where the script has
        several models that are divided each for itself."""
        if _divided != [self]:
            names = ", ".join(type(one.module).__name__ for one in _divided)
            raise ElasticError(f"this script divides several modules by fully_shard() or parallelize_module() ({names}) and none that "
                               "contains them; call it for the whole model, last")
        for part in self.module.modules():
            if hasattr(part, "reshard"):
                part.reshard()

    def _before_pass(self, inputs: Any) -> None:
        if script.model is not self:
            return
        if script.run is None and torch.is_grad_enabled():
            self._watch()
        if torch.is_grad_enabled() and len(_unsynchronized) and _has_one_batch_in_a_step():
            if any(part in _unsynchronized for part in self.module.modules()):
                raise ElasticError(ACCUMULATES)
        script.before_pass()
        run = script.run
        if run is not None and not script.counts_samples and torch.is_grad_enabled():
            run.see_inputs(_layout.tensors_of(inputs))
            if run.takeover is not None:
                script.opened.note_pass(run)

    def release(self) -> None:
        for hook in (self.hook, *self.watches):
            hook.remove()


_divided: List[ShardedModel] = []  # those that no other one contains
_unsynchronized: "weakref.WeakSet[nn.Module]" = weakref.WeakSet()  # whose gradients fully_shard() is not to average


def _note_dividing(name: str) -> Callable[[Any], None]:
    def change(module: Any) -> None:
        original = getattr(module, name, None)
        if not callable(original) or hasattr(original, "is_noting"):
            return

        @functools.wraps(original)
        def divide(*arguments: Any, **named: Any) -> Any:
            result = original(*arguments, **named)
            target = arguments[0] if arguments else named["module"]
            for part in target if isinstance(target, (list, tuple)) else [target]:
                _note(part)
            return result

        divide.is_noting = True  # type: ignore[attr-defined]
        setattr(module, name, divide)
    return change


def _watch_accumulation(module: Any) -> None:
    original = module.FSDPModule.set_requires_gradient_sync

    @functools.wraps(original)
    def set_requires_gradient_sync(self: Any, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        if not requires_gradient_sync and _has_one_batch_in_a_step() and script.run is not None and script.run.is_in_pass:
            raise ElasticError(ACCUMULATES)
        original(self, requires_gradient_sync, recurse=recurse)
        for part in self.modules() if recurse else [self]:
            _unsynchronized.discard(part) if requires_gradient_sync else _unsynchronized.add(part)

    module.FSDPModule.set_requires_gradient_sync = set_requires_gradient_sync


def _has_one_batch_in_a_step() -> bool:
    """So that a pass whose gradients are not averaged is none. (Behind one a script may say what is not so in the next one, as Lightning
    Fabric's no_backward_sync(enabled=False) does.)"""
    return script.run is not None and script.counts_samples and script.run.accumulation == 1


def _note(module: nn.Module) -> None:
    """A model is divided from the inside to the outside, and its root last; or by parallelize_module(), which may begin with the root.
    Its parameters are others then."""
    if script.run is not None:
        raise ElasticError("this script divides a model after its training has begun")
    within = {id(part) for part in module.modules()}
    root = next((other.module for other in _divided if any(part is module for part in other.module.modules())), module)
    for other in [other for other in _divided if other.module is root or id(other.module) in within]:
        _divided.remove(other)
        other.release()
    _divided.append(ShardedModel(root))
    script.model = _divided[-1]
    script.opened.name_function()


# --- What the script prints and saves

def is_quiet() -> bool:
    """Another replica's first process says and saves the same."""
    here, run = _processes.current(), script.run
    if here is None:
        return False
    return (run.rank if run is not None and run.is_started else own_rank()) != 0


def _keep_to_itself() -> None:
    _print_in_first_replica()
    _open_in_first_replica()
    _wait_for_what_the_first_writes()
    setattr(torch, "save", _unless_quiet(torch.save, writes=1))
    for name in ("remove", "unlink", "rmdir"):
        setattr(os, name, _unless_quiet(getattr(os, name), of_script_only=True))
    setattr(shutil, "rmtree", _unless_quiet(shutil.rmtree, of_script_only=True))
    for module, names in ((os, ("rename", "replace")), (shutil, ("move", "copyfile", "copy", "copy2", "copytree"))):
        for name in names:
            setattr(module, name, _unless_quiet(getattr(module, name), of_script_only=True, writes=1))
    for path in ("torch.distributed.checkpoint.state_dict_saver", "torch.distributed.checkpoint"):
        after_import(path, _save_in_first_replica)
    after_import("safetensors.torch", lambda module: setattr(module, "save_file", _unless_quiet(module.save_file, writes=1)))


def _unless_quiet(original: Callable[..., Any], of_script_only: bool = False, instead: Optional[Callable[[], Any]] = None,
                  writes: Optional[int] = None) -> Any:
    """`writes`: which argument is the path of what it makes; without it that of what it removes is the first one."""
    @functools.wraps(original)
    def call(*arguments: Any, **named: Any) -> Any:
        if is_quiet() and (not of_script_only or _is_called_by_script()):
            for number, path in enumerate(arguments[:2]):
                _leave_to_first(path, number == writes)
            return instead() if instead is not None else None
        return original(*arguments, **named)
    return call


def _is_called_by_script() -> bool:
    """Or by pathlib for it."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename == pathlib.__file__:
        frame = frame.f_back
    return frame is not None and is_own_file(frame.f_code.co_filename)


def _print_in_first_replica() -> None:
    """The first process of each replica has rank 0 to the script."""
    original = builtins.print

    @functools.wraps(original)
    def print_once(*arguments: Any, **named: Any) -> None:
        here = _processes.current()
        is_output = named.get("file") in (None, sys.stdout)
        if is_output and here is not None and here.is_first and is_quiet() and _is_called_by_script():
            return
        original(*arguments, **named)

    builtins.print = print_once


def _open_in_first_replica() -> None:
    original = builtins.open

    @functools.wraps(original)
    def open_file(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
        writes = isinstance(mode, str) and any(letter in mode for letter in "wax+")
        if writes and is_quiet() and _is_called_by_script():
            _leave_to_first(file, True)
            file, mode = os.devnull, mode.replace("x", "w")
        elif not writes:
            _await_file(file)
        return original(file, mode, *arguments, **named)

    builtins.open = io.open = open_file  # type: ignore[assignment]


_awaited: Set[str] = set()  # paths of what the first replica makes
WAIT_S = 60.0


def _leave_to_first(path: Any, is_made: bool) -> None:
    if not isinstance(path, (str, os.PathLike)):
        return
    full = os.path.abspath(os.fsdecode(path))
    if is_made:
        _awaited.add(full)
    else:
        _awaited.difference_update([held for held in _awaited if held == full or held.startswith(full + os.sep)])


def _wait_for_what_the_first_writes() -> None:
    """A script that looks at what it has saved, such as for its size, finds it: the first replica is at the same place."""
    original = os.stat

    @functools.wraps(original)
    def stat(path: Any, *arguments: Any, **named: Any) -> Any:
        _await_file(path)
        return original(path, *arguments, **named)

    os.stat = stat  # type: ignore[assignment]


def _await_file(path: Any) -> None:
    """Returns when it is there, once, or after WAIT_S."""
    if not _awaited or not isinstance(path, (str, os.PathLike)) or not is_quiet() or script.is_apart:
        return
    full, end = os.path.abspath(os.fsdecode(path)), time.monotonic() + WAIT_S
    if full not in _awaited:
        return
    _awaited.discard(full)
    while not os.path.exists(full):
        if time.monotonic() >= end:
            print(f"elastictrain: {full}, which the first replica was to write, is not there after {WAIT_S:.0f} s", file=sys.stderr, flush=True)
            return
        time.sleep(0.02)


def _save_in_first_replica(module: Any) -> None:
    """All processes of a replica take part in it, or none."""
    for name, instead in (("save", None), ("async_save", _done)):
        original = getattr(module, name, None)
        if original is not None and not hasattr(original, "is_of_first_replica"):
            changed = _unless_quiet(original, instead=instead)
            changed.is_of_first_replica = True
            setattr(module, name, changed)


def _done() -> Any:
    future: Future[None] = Future()
    future.set_result(None)
    return future
