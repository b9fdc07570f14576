"""A process group of torch.distributed whose members are the workers of a run: torch's own functions work on it.

torch calls it from Python and, for its functional collectives, from C++; both find the methods by the names of its class
ProcessGroup, of which newer versions have new ones for the same. Every collective is complete when its call returns.
Tensors on a device pass through the host's memory.
"""

from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import torch
from torch.distributed import ProcessGroup, ReduceOp
from torch.futures import Future

from ._exchange import Plane, bytes_of
from ._lists import write
from ..errors import ElasticError

try:
    from torch._C._distributed_c10d import _create_work_from_future
except ImportError:  # a torch without torch.distributed has no group either
    _create_work_from_future = None

NAME = "elastictrain"
SHOWN = "gloo"  # a name that scripts and libraries know: values may be on the CPU or a device
_OPERATIONS = {ReduceOp.SUM: "sum", ReduceOp.AVG: "mean", ReduceOp.MAX: "max", ReduceOp.MIN: "min",
               ReduceOp.PRODUCT: "product", ReduceOp.BAND: "and", ReduceOp.BOR: "or", ReduceOp.BXOR: "xor"}
Tensors = List[torch.Tensor]


class ElasticGroup(ProcessGroup):
    """`place()`: rank and world size at present. `plane_of(what)`: the workers that take part in a collective of this name
    (see _exchange.Plane). `note_gather(tensor)`: those of all workers are about to be gathered. Thread: the training
    thread, and those of torch's backward pass while it waits for them."""

    def __init__(self, place: Callable[[], Tuple[int, int]], plane_of: Callable[[str], Any],
                 note_gather: Callable[[torch.Tensor], None] = lambda tensor: None) -> None:
        super().__init__(*place())
        self._place, self.plane_of, self._note_gather = place, plane_of, note_gather
        self._label = self._about = ""
        self.is_registered = False
        self.lost: List[int] = []  # ranks without a part in what was gathered last

    # --- Its place: at present

    def rank(self) -> int:
        return self._place()[0]

    def size(self) -> int:
        return self._place()[1]

    def getRank(self) -> int:
        return self.rank()

    def getSize(self) -> int:
        return self.size()

    # --- Names

    def getBackendName(self) -> str:
        return NAME  # C++ looks for a compiled back end of any other

    name = getBackendName

    def getGroupName(self) -> str:
        return self._label

    def setGroupName(self, name: str) -> None:
        self._label = name

    def getGroupDesc(self) -> str:
        return self._about

    def setGroupDesc(self, about: str) -> None:
        self._about = about

    _set_group_name, _set_group_desc = setGroupName, setGroupDesc
    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)

    # --- What torch asks of a back end

    @property
    def _device_types(self) -> List[torch.device]:
        """None until it is registered: torch would look for compiled back ends."""
        return [torch.device(kind) for kind in ("cpu", "cuda")] if self.is_registered else []

    supports_splitting = False

    def _get_backend(self, device: Any) -> "ElasticGroup":
        return self

    get_backend = _get_backend

    def _has_hooks(self) -> bool:
        return False

    def _wait_for_pending_works(self) -> None:
        """All are complete."""

    _set_default_timeout = _add_ephemeral_timeout = set_timeout = lambda self, timeout: None
    _set_sequence_number_for_group = shutdown = abort = lambda self, *_: None

    def _get_sequence_number_for_group(self) -> int:
        return 0

    def _start_coalescing(self, device: Any) -> None:
        """What follows is complete call by call."""

    def _end_coalescing(self, device: Any) -> Any:
        return _done([])

    # --- Reductions

    def allreduce(self, tensors: Any, options: Any = None, *_: Any, **named: Any) -> Any:
        held, operation = _list(tensors), _operation(options, named, "all_reduce")
        plane = self.plane_of("all_reduce")
        for tensor in held:
            write(tensor, _reduced(plane, tensor, operation, in_place=True))
        return _done(held)

    def allreduce_coalesced(self, tensors: Tensors, options: Any = None) -> Any:
        return self.allreduce(tensors, options)

    def reduce(self, tensors: Any, options: Any = None, *rest: Any, **named: Any) -> Any:
        operation, plane = _operation(options, named, "reduce"), self.plane_of("reduce")
        for tensor in _list(tensors):
            total = _reduced(plane, tensor, operation)
            if plane.rank == _root(options, named):
                write(tensor, total)
        return _done(_list(tensors))

    def reduce_scatter(self, outputs: Any, inputs: Any, options: Any = None, *_: Any, **named: Any) -> Any:
        operation, plane = _operation(options, named, "reduce_scatter"), self.plane_of("reduce_scatter")
        lists = [inputs] if isinstance(outputs, torch.Tensor) else inputs
        for output, parts in zip(_list(outputs), lists):
            total = _reduced(plane, torch.cat([part.detach().reshape(-1) for part in parts]), operation)
            begin = sum(part.numel() for part in parts[:plane.rank])
            write(output, total[begin:begin + output.numel()])
        return _done(_list(outputs))

    def reduce_scatter_single(self, output: torch.Tensor, values: torch.Tensor, options: Any = None) -> Any:
        operation, plane = _operation(options, {}, "reduce_scatter_tensor"), self.plane_of("reduce_scatter_tensor")
        total = _reduced(plane, values, operation).reshape(-1)
        begin = plane.rank * output.numel()
        write(output, total[begin:begin + output.numel()])
        return _done([output])

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, options: Any = None) -> Any:
        for output, values in zip(outputs, inputs):
            self.reduce_scatter_single(output, values, options)
        return _done(outputs)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # --- Values of one worker for all

    def broadcast(self, tensors: Any, options: Any = None, *_: Any, **named: Any) -> Any:
        plane = self.plane_of("broadcast")
        for tensor in _list(tensors):
            held = _on_host(tensor)
            plane.broadcast(held, _root(options, named))
            write(tensor, held)
        return _done(_list(tensors))

    def scatter(self, outputs: Any, inputs: Any, options: Any = None, *_: Any, **named: Any) -> Any:
        plane, root, [output] = self.plane_of("scatter"), _root(options, named), _list(outputs)
        parts = (inputs[0] if isinstance(inputs[0], (list, tuple)) else inputs) if inputs else []
        if plane.rank == root:
            all_parts = torch.stack([_on_host(part).reshape(-1) for part in parts])
        else:
            all_parts = torch.zeros(plane.world_size, output.numel(), dtype=output.dtype)
        plane.broadcast(all_parts, root)
        write(output, all_parts[plane.rank])
        return _done([output])

    # --- Values of all workers

    def _rows(self, plane: Any, tensor: torch.Tensor) -> Tensors:
        """By rank. In the place of a lost worker's: zeros, and its rank is in `lost`."""
        self._note_gather(tensor)
        rows = plane.gather(_on_host(tensor))
        rows = plane.filled(rows) if isinstance(plane, Plane) else rows
        self.lost = [rank for rank, row in enumerate(rows) if row is None]
        return [torch.zeros_like(tensor, device="cpu") if row is None else row for row in rows]

    def allgather(self, outputs: Any, inputs: Any, *_: Any, **__: Any) -> Any:
        lists = [outputs] if isinstance(inputs, torch.Tensor) else outputs
        plane = self.plane_of("all_gather")
        for output, tensor in zip(lists, _list(inputs)):
            _write_each(output, self._rows(plane, tensor))
        return _done([tensor for output in lists for tensor in output])

    def allgather_coalesced(self, output_lists: List[Tensors], inputs: Tensors, *_: Any) -> Any:
        plane = self.plane_of("all_gather_coalesced")
        for number, tensor in enumerate(inputs):
            _write_each([output[number] for output in output_lists], self._rows(plane, tensor))
        return _done([tensor for output in output_lists for tensor in output])

    def all_gather_single(self, output: torch.Tensor, tensor: torch.Tensor, *_: Any) -> Any:
        _write_rows(output, self._rows(self.plane_of("all_gather_into_tensor"), tensor))
        return _done([output])

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, *_: Any) -> Any:
        for output, tensor in zip(outputs, inputs):
            self.all_gather_single(output, tensor)
        return _done(outputs)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def gather(self, outputs: Any, inputs: Any, options: Any = None, *_: Any, **named: Any) -> Any:
        [tensor], root = _list(inputs), _root(options, named)
        plane = self.plane_of("gather")
        rows = self._rows(plane, tensor)
        target = outputs if isinstance(inputs, torch.Tensor) else outputs[0] if outputs else []
        if plane.rank == root:
            _write_each(target, rows)
        return _done(target)

    def gather_single(self, output: torch.Tensor, tensor: torch.Tensor, options: Any = None) -> Any:
        plane = self.plane_of("gather_single")
        rows = self._rows(plane, tensor)
        if plane.rank == _root(options, {}):
            _write_rows(output, rows)
        return _done([output])

    gather_into_tensor = gather_single

    # --- A value of each worker for each

    def alltoall(self, outputs: Tensors, inputs: Tensors, *_: Any, **__: Any) -> Any:
        received = self._exchanged(self.plane_of("all_to_all"), "all_to_all", [bytes_of(_on_host(part)) for part in inputs])
        for output, part in zip(outputs, received):
            write(output, _from_bytes(part, output))
        return _done(outputs)

    def all_to_all_single(self, output: torch.Tensor, values: torch.Tensor, output_sizes: Optional[Sequence[int]] = None,
                          input_sizes: Optional[Sequence[int]] = None, *_: Any, **__: Any) -> Any:
        plane, held = self.plane_of("all_to_all_single"), _on_host(values)
        sizes = list(input_sizes or []) or [len(held) // plane.world_size] * plane.world_size
        received = self._exchanged(plane, "all_to_all_single", [bytes_of(part) for part in held.split(sizes)])
        write(output, _from_bytes(b"".join(received), output))
        return _done([output])

    alltoall_base = all_to_all_single

    def _exchanged(self, plane: Any, what: str, parts: List[bytes]) -> List[bytes]:
        """parts[k] goes to rank k; returns what came from each rank, zeros from a lost one."""
        if len(parts) != plane.world_size:
            raise ElasticError(f"torch.distributed.{what}() with {len(parts)} parts; there are {plane.world_size} workers")
        sizes = plane.gather(torch.tensor([len(part) for part in parts], dtype=torch.int64))
        longest = max(int(row.sum()) for row in sizes if row is not None)
        own = bytearray(b"".join(parts).ljust(longest, b"\0"))
        rows = plane.gather(torch.frombuffer(own, dtype=torch.uint8) if own else torch.empty(0, dtype=torch.uint8))
        received = []
        for size, row in zip(sizes, rows):
            begin = int(size[:plane.rank].sum()) if size is not None else 0
            count = int(size[plane.rank]) if size is not None else len(parts[plane.rank])
            received.append(bytes(count) if row is None else bytes_of(row[begin:begin + count]))
        return received

    # --- Waiting

    def barrier(self, *_: Any, **__: Any) -> Any:
        self.plane_of("barrier").barrier()
        return _done([])

    def monitored_barrier(self, *_: Any, **__: Any) -> None:
        self.plane_of("monitored_barrier").barrier()

    def send(self, *_: Any, **__: Any) -> Any:
        raise refusal("send", BETWEEN_TWO)

    def recv(self, *_: Any, **__: Any) -> Any:
        raise refusal("recv", BETWEEN_TWO)

    recv_anysource = recv


BETWEEN_TWO = "a message between two workers; the others could change meanwhile. Use a collective of all workers"


def refusal(name: str, why: str) -> ElasticError:
    return ElasticError(f"torch.distributed.{name}() cannot be elastic: {why}")


class LiveRanks(Mapping[int, int]):
    """Of a group of all workers: each global rank, as it is in the group. As many as there are at present."""

    def __init__(self, group: ElasticGroup) -> None:
        self._group = group

    def __getitem__(self, rank: int) -> int:
        if rank not in range(self._group.size()):
            raise KeyError(rank)
        return rank

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._group.size()))

    def __len__(self) -> int:
        return self._group.size()


# --- Arguments

def _list(tensors: Any) -> Tensors:
    """torch's methods take a tensor or a list of them."""
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _operation(options: Any, named: Dict[str, Any], what: str) -> str:
    chosen = getattr(options, "reduceOp", options)
    chosen = named.get("op", named.get("opts", chosen))
    chosen = getattr(chosen, "reduceOp", chosen)
    if chosen is None:
        return "sum"
    name = next((name for known, name in _OPERATIONS.items() if chosen == known), None)
    if name is None:
        raise refusal(what, f"{chosen} is not known; possible are {', '.join(str(known) for known in _OPERATIONS)}")
    return name


def _root(options: Any, named: Dict[str, Any]) -> int:
    options = named.get("opts", options)
    return int(named.get("root", getattr(options, "rootRank", options if isinstance(options, int) else 0)))


# --- Tensors

def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    """Its values on the CPU, contiguous; the same memory where it is."""
    return tensor.detach().cpu().contiguous()


def _reduced(plane: Any, tensor: torch.Tensor, operation: str, in_place: bool = False) -> torch.Tensor:
    if tensor.layout != torch.strided:
        raise refusal("all_reduce", f"values in the layout {tensor.layout}; pass tensor.to_dense()")
    held = _on_host(tensor)
    if not in_place and held.data_ptr() == tensor.data_ptr():
        held = held.clone()
    plane.reduce(torch.view_as_real(held) if held.is_complex() else held, operation)
    return held


def _write_each(outputs: Tensors, rows: Tensors) -> None:
    if len(outputs) != len(rows):
        raise ElasticError(f"a list of {len(outputs)} tensors for the values of {len(rows)} workers; make it as long as "
                           "torch.distributed.get_world_size() says at that moment")
    for output, row in zip(outputs, rows):
        write(output, row)


def _write_rows(output: torch.Tensor, rows: Tensors) -> None:
    target = output if output.is_contiguous() and output.device.type == "cpu" else torch.empty_like(output, device="cpu")
    with torch.no_grad():
        for part, row in zip(target.detach().reshape(-1).split(rows[0].numel() or 1), rows):
            part.copy_(row.reshape(-1))
    if target is not output:
        write(output, target)


def _from_bytes(content: bytes, like: torch.Tensor) -> torch.Tensor:
    if not content:
        return torch.empty(0, dtype=like.dtype)
    return torch.frombuffer(bytearray(content), dtype=like.dtype)


def _done(result: Tensors) -> Any:
    """The handle of a collective, which is complete."""
    devices = sorted({tensor.device for tensor in result if tensor.is_cuda}, key=str)
    future: Any = Future(devices=devices) if devices else Future()
    future.set_result(result)
    return _create_work_from_future(future)
