"""How a model is divided among the processes of a replica.

Processes among which fully_shard() divides it have each a batch of their own, and average their gradients. Processes among which
parallelize_module() divides its layers compute one batch together: each has that batch, and all of what is not divided.
"""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from . import _exchange
from ._likeness import SMALLEST, TOLERANCE, flat, sums
from ._replica import is_divided
from .checkpoint import Part, covers, part_of
from .progress._values import fingerprint_of
from .. import _replica
from ..errors import ElasticError

RARELY = 128  # passes between two checks of a long run
OTHER_BATCH = ("process {} of this replica trains on another batch than process {}, with which it computes the same layers in parts "
               "(tensor parallelism): both need the same. Let what draws or divides the data, and random numbers in it, be equal in them")
SAME_BATCH = ("processes {} and {} of this replica train on the same batch, though fully_shard() averages their gradients: each needs its own. "
              "Divide the data by the rank and size of the mesh's dimension that was given to fully_shard()")
OTHER_COPY = ("{} of parameter '{}', which processes {} and {} of this replica both hold in all, differs between them. A layer that is not "
              "divided needs equal values, whole inputs and equal random numbers in processes that compute a batch together, or "
              "SequenceParallel where its inputs are parts")


class Division(NamedTuple):
    """Of the model, as one process sees it, by the indices of processes."""
    data: Tuple[int, ...]  # over which its gradients are averaged, itself included
    tensor: Tuple[int, ...]  # with which it shares its batch, itself included
    parts: Dict[str, Optional[Part]]  # of each parameter; None: the whole


class Layout:
    """Thread: the training thread, or that of the backward pass."""

    def __init__(self, session: Any, here: _replica.Replica, divisions: Sequence[Division]) -> None:
        self._session, self._here = session, here
        _refuse_different(divisions)
        own = divisions[here.index]
        self._batch_of = [division.data.index(number) for number, division in enumerate(divisions)]
        self.data_size, self.data_index = len(own.data), self._batch_of[here.index]
        self.is_first_of_batch = own.tensor[0] == here.index
        self.has_tensor_groups = len(own.tensor) > 1
        self._copies = {name for name, part in own.parts.items() if all(divisions[other].parts.get(name) == part for other in own.tensor)}
        self._batches = self._steps = 0

    def check_batch(self, batch: Any, is_drawn_by_script: bool) -> None:
        """Now and then, of each pass alike in all processes. Raises ElasticError where processes have not the batches that they need:
        what a loader's stand-in for no samples has may be equal everywhere, but not what a script draws."""
        self._batches += 1
        if not self.has_tensor_groups or not _is_due(self._batches):
            return
        found = self._session.gathered(fingerprint_of([tensor for tensor in tensors_of(batch) if not is_divided(tensor)]))
        for one, other in _pairs(len(found)):
            if self._batch_of[one] == self._batch_of[other] and found[one] != found[other]:
                raise ElasticError(OTHER_BATCH.format(other, one))
            if is_drawn_by_script and self._batch_of[one] != self._batch_of[other] and found[one] == found[other]:
                raise ElasticError(SAME_BATCH.format(one, other))

    def check_copies(self, named: Callable[[], Sequence[Tuple[str, torch.Tensor, torch.Tensor]]]) -> None:
        """Now and then, in a step whose sums are there. `named()`: the parameters and their gradients, as far as this process holds
        them. Raises ElasticError where what several processes hold in all is not equal in them."""
        self._steps += 1
        if not self.has_tensor_groups or not _is_due(self._steps):
            return
        own = {name: [float(value) for value in (*sums(flat(parameter)), *sums(flat(gradient)))]
               for name, parameter, gradient in named() if name in self._copies and parameter.numel()}
        found = self._session.gathered(own)
        alike = [(one, other) for one, other in _pairs(len(found)) if self._batch_of[one] == self._batch_of[other]]
        for what, place in (("the value", 0), ("the gradient", 2)):
            for one, other in alike:
                for name, values in found[one].items():
                    if not _is_like(values[place:place + 2], found[other][name][place:place + 2]):
                        raise ElasticError(OTHER_COPY.format(what, name, one, other))

    def refuse_other_divisions_of_data(self, division: Any) -> None:
        """Of a script's own sampler, as this process has it. Raises ElasticError where processes that need the same batch have others."""
        found = self._session.gathered(division)
        for one, other in _pairs(len(found)):
            if self._batch_of[one] == self._batch_of[other] and found[one] != found[other]:
                raise ElasticError("this script's sampler divides its data among processes that compute one batch together (tensor "
                                   "parallelism). Divide by the rank and size of the mesh's dimension that is given to fully_shard(), "
                                   "or not at all where there is none")

    def reduce(self, values: torch.Tensor, operation: str) -> None:
        """In place, over the processes of all replicas; of those that have the same batch one counts."""
        inside = "sum" if operation == "mean" else operation
        if inside not in _OPERATIONS:
            raise ValueError(f"values can be reduced by mean, {', '.join(_OPERATIONS)}, not by {operation!r}")
        self.reduce_in_replica(values, inside)
        if self._here.is_first:
            _exchange.reduce(self._session, values, operation)
        dist.broadcast(values, 0)
        if operation == "mean":
            values.copy_(values / self.data_size if values.is_floating_point() else
                         torch.div(values, self.data_size, rounding_mode="trunc"))

    def reduce_in_replica(self, values: torch.Tensor, operation: str) -> None:
        """The same over those of this replica, by sum, max, min or product."""
        if not self.is_first_of_batch and operation in _NEUTRAL:
            values.fill_(_NEUTRAL[operation])
        dist.all_reduce(values, _OPERATIONS[operation])


_OPERATIONS = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN, "product": dist.ReduceOp.PRODUCT}
_NEUTRAL = {"sum": 0, "product": 1}


def of_model(named: Sequence[Tuple[str, Any]], model: Any, session: Any, here: _replica.Replica) -> Layout:
    """Raises ElasticError for a model whose gradients would not be those of all processes of the replica."""
    data = _data_of(named, model, here)
    return Layout(session, here, session.gathered(Division(data, _tensor_of(named, data, here), _parts_of(named))))


def _data_of(named: Sequence[Tuple[str, Any]], model: Any, here: _replica.Replica) -> Tuple[int, ...]:
    """The processes over which the gradients of all parameters are averaged."""
    averaged = {id(part.sharded_param): tuple(group.mesh_info.mesh.mesh.flatten().tolist())
                for group in _groups_of_fsdp(model) for part in group.fsdp_params}
    if not any(is_divided(parameter) for _, parameter in named) or (averaged and not any(kind.__name__ == "FSDPModule" for kind in type(model).__mro__)):
        raise ElasticError(f"a replica of {here.size} processes trains a model that fully_shard() or parallelize_module() has divided among "
                           f"them, fully_shard() all of it; this {type(model).__name__} is not divided")
    over = {averaged.get(id(parameter), (here.index,)): name for name, parameter in named}
    most = max(over, key=len)
    for name, parameter in named:
        own = averaged.get(id(parameter))
        if own is None and len(most) > 1 and not is_divided(parameter):
            raise ElasticError(f"parameter '{name}' is whole in each process of the replica, whose gradients would differ; let "
                               "fully_shard() divide it")
        if own is None and len(most) > 1:
            raise ElasticError(f"parameter '{name}' is divided, but not by fully_shard(), which averages the gradients of others over "
                               f"{len(most)} processes with different batches; let it divide all")
        if own is not None and own != most:
            raise ElasticError(f"fully_shard() averages the gradients of parameter '{name}' over processes {_listed(own)} and those of "
                               f"'{over[most]}' over {_listed(most)}; possible are the same for all")
    return most


def _tensor_of(named: Sequence[Tuple[str, Any]], data: Tuple[int, ...], here: _replica.Replica) -> Tuple[int, ...]:
    """The processes that compute this one's batch together."""
    found: Dict[Tuple[int, ...], str] = {}
    for name, parameter in named:
        mesh = getattr(parameter, "device_mesh", None)
        if mesh is not None and mesh.size() == here.size:
            found[_rest_of(mesh, data, here.index)] = name
        elif mesh is not None and set(mesh.mesh.flatten().tolist()) != set(data):
            raise ElasticError(f"parameter '{name}' is divided over a mesh of {_sizes(mesh)} processes; possible is one of all {here.size} "
                               f"of the replica{'' if len(data) == 1 else f', or of the {len(data)} that fully_shard() was given'}")
    if not found:
        raise ElasticError(f"no parameter is divided over all {here.size} processes of the replica; fully_shard() was given {len(data)} of "
                           "them, and the others would compute the same")
    if len(found) > 1:
        first, second = list(found.items())[:2]
        raise ElasticError(f"parameter '{first[1]}' is computed by processes {_listed(first[0])} together, and '{second[1]}' by "
                           f"{_listed(second[0])}; possible are the same for all")
    return next(iter(found))


def _rest_of(mesh: Any, data: Tuple[int, ...], index: int) -> Tuple[int, ...]:
    """The processes that have this one's place along the dimensions of the mesh in which `data` lies."""
    ranks = mesh.mesh
    places = [(ranks == rank).nonzero()[0].tolist() for rank in data]
    own = (ranks == index).nonzero()[0].tolist()
    lies_in = [any(place[dim] != own[dim] for place in places) for dim in range(ranks.ndim)]
    found = ranks[tuple(own[dim] if lies_in[dim] else slice(None) for dim in range(ranks.ndim))]
    return tuple(sorted(found.flatten().tolist()))


def _parts_of(named: Sequence[Tuple[str, Any]]) -> Dict[str, Optional[Part]]:
    return {name: part_of(name, parameter) if is_divided(parameter) else None for name, parameter in named}


def _refuse_different(divisions: Sequence[Division]) -> None:
    """Raises ElasticError where the processes do not see the same division, or their parts are not the whole."""
    places = [division.data.index(number) for number, division in enumerate(divisions)]
    for number, division in enumerate(divisions):
        alike = [other for other, place in enumerate(places) if place == places[number]]
        if list(division.tensor) != alike or any(divisions[other].data != division.data for other in division.data):
            raise ElasticError(f"the processes of this replica divide its model in different ways: process {number} averages gradients over "
                               f"{_listed(division.data)} and computes its batch with {_listed(division.tensor)}")
    for name, part in divisions[0].parts.items():
        parts = [division.parts.get(name) for division in divisions]
        if part is not None and (None in parts or not covers(part.whole, parts)):  # type: ignore[arg-type]
            raise ElasticError(f"the processes of this replica do not hold all of parameter '{name}' together, each element in one part")


def _groups_of_fsdp(model: Any) -> List[Any]:
    states = [module._get_fsdp_state() for module in model.modules() if hasattr(module, "_get_fsdp_state")]
    groups = [group for state in states for group in getattr(state, "_fsdp_param_groups", None) or [state._fsdp_param_group]]
    return [group for group in groups if group is not None]


def divided_parameters(model: Any) -> List[Any]:
    """The parameters of a model that fully_shard() has divided, as its optimizer has them; model.parameters() are others while
    they are gathered, which an evaluation may leave them."""
    parts = [part for group in _groups_of_fsdp(model) for part in group.fsdp_params]
    gathered = {id(getattr(part, "_unsharded_param", None)) for part in parts}
    own = {id(part.sharded_param) for part in parts}
    others = [parameter for parameter in model.parameters() if id(parameter) not in gathered | own]
    return [*(part.sharded_param for part in parts), *others]


class Gathered:
    """The whole parameters that fully_shard() makes in the first passes of a model, and keeps."""

    def __init__(self, model: Any) -> None:
        self._waiting = [part for group in _groups_of_fsdp(model) for part in group.fsdp_params if part.sharded_param.requires_grad]

    def newly_made(self) -> List[torch.Tensor]:
        """Each once."""
        if not self._waiting:
            return []
        made = [part._unsharded_param for part in self._waiting if hasattr(part, "_unsharded_param")]
        self._waiting = [part for part in self._waiting if not hasattr(part, "_unsharded_param")]
        return made


def tensors_of(value: Any) -> List[torch.Tensor]:
    """In a batch, or in the inputs of a model."""
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for part in parts for tensor in tensors_of(part)]


def _is_due(count: int) -> bool:
    """Often in the first steps."""
    return count & (count - 1) == 0 or count % RARELY == 0


def _is_like(one: Sequence[float], other: Sequence[float]) -> bool:
    """(difference of the halves' sums, norm) of two tensors."""
    if any(value != value for value in (*one, *other)):
        return [value != value for value in one] == [value != value for value in other]
    return all(abs(mine - theirs) <= TOLERANCE * one[1] + SMALLEST for mine, theirs in zip(one, other))


def _pairs(count: int) -> List[Tuple[int, int]]:
    return [(one, other) for other in range(count) for one in range(other)]


def _listed(processes: Sequence[int]) -> str:
    return ", ".join(map(str, processes))


def _sizes(mesh: Any) -> str:
    return "x".join(map(str, mesh.shape))
