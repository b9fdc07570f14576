"""A member's progress at a step, for another worker that stands at the same place of the script at its first step."""

import collections
import concurrent.futures
import threading
import types
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch

from . import _first, _frames, _holders, _iterators, _pickling, _pools, _randomness, _search, _values
from ._first import Found
from ._search import Atom, Node, Path, Step

SETTABLE = frozenset(("frame", "namespace", "object", "dict", "function", "class", "generator", "module", "loader"))
WHOLE = frozenset(("list", "dict whole", "tensor", "array", "holder"))
UNSEEN = {"unknown iterator": "an iterator whose place cannot be read", "asynchronous": "asynchronous code"}
SMALL_TEXT = 200
SHARED = "shared"
FRAME_TENSOR_BYTES = 1 << 20  # larger tensors of a function are left to the worker: they are those of a batch
BARS = ("tqdm", "rich")  # packages
BATCH_DEPTH = 4  # of the containers around them


class IteratorAt(NamedTuple):
    """Where an iterator is, and what it iterates over where that is new: by the number of the operand."""
    place: _iterators.Place
    held_at: List[Path]
    operands: Dict[int, Any]


class Record(NamedTuple):
    step: int
    stack: List[_frames.Site]
    loops: List[Path]  # the marks of loops that run
    table: Dict[bytes, Tuple[bytes, bytes, bool]]
    is_none_first: Dict[bytes, bool]
    generators: Dict[Path, Tuple[str, Optional[int]]]  # of the script, that wait
    kinds: Dict[Path, str]
    problems: List[str]
    not_looked_into: List[str]
    body: bytes  # a Body


class Body(NamedTuple):
    """Values, in which things of the first step are their paths."""
    slots: Dict[Path, Tuple[bool, Any]]  # whether it changed since the first step; the value
    contents: Dict[Path, Any]
    orders: Dict[Path, List[Any]]
    gone: List[Path]
    iterators: Dict[Path, IteratorAt]
    placed: Dict[Path, Any]
    states: Dict[Path, Any]
    randoms: Dict[Path, Any]
    extra: Any


class Recorder:
    """Makes one record."""

    def __init__(self, found: Found, stack: Sequence[types.FrameType], excluded: Iterable[Any], inherited: Set[Path],
                 threads: Set[str], limit: Optional[int]) -> None:
        self.found, self.excluded, self.inherited = found, list(excluded), inherited
        self.stack = [_frames.site_of(frame) for frame in stack]
        self.problems = _frames.obstacles(stack)
        self._threads, self._limit = threads, limit
        self._body = Body({}, {}, {}, [], {}, {}, {}, {}, None)
        self._generators: Dict[Path, Tuple[str, Optional[int]]] = {}
        self._loops: List[Path] = []
        self._unseen: List[str] = []
        self._largest: Tuple[int, Path] = (0, ())  # of what travels
        self._shared = self._tensors_by_memory()
        self._skipped = _tensors_of_modules([*found.search.nodes], self.excluded)

    def made(self, step: int, extra: Any) -> bytes:
        for node in self.found.search.nodes:
            number = self.found.number_of(node)
            if number is not None and node.number not in self.found.constant:
                self._add(node, number)
        self._add_states()
        self._add_random()
        self._note_threads()
        self._drop_what_cannot_travel(self._limit)
        data = _pickling.pickled(tuple(self._body._replace(extra=extra)), self._path_of)
        search = self.found.search
        kinds = {self.found.path_of(node): node.kind for node in search.nodes
                 if self.found.number_of(node) is not None and node.number not in self.found.constant}
        unseen = self._unseen + [f"{_search.text_of(path, self.stack)} ({name})" for name, path in search.not_looked_into.items()]
        unseen += [] if search.is_complete else ["what lies deeper (the search has a limit)"]
        record = Record(step, self.stack, sorted(self._loops, key=repr), _first.table_of(self.found, self.inherited),
                        self._is_none_first(), self._generators, kinds, self.problems, unseen, data)
        try:
            return _pickling.sealed(tuple(record), self._limit)
        except _pickling.RecordError as error:
            raise _pickling.RecordError(f"{error}. The largest part is {_search.text_of(self._largest[1], self.stack)} "
                                        f"({self._largest[0] >> 10} KiB)") from None

    def _is_none_first(self) -> Dict[bytes, bool]:
        """Of what was None at the first step and is not now, or the other way round."""
        none = _values.digest_of(None)
        return {_first.key_of(path): slot.digest == none for path, slot in self.found.first.slots.items()
                if path in self._body.slots}

    def _path_of(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            shared = self._shared.get(_memory_of(value))
            if shared is not None and value.grad_fn is None:
                return shared
        node = self.found.search.node_of(value)
        if node is None or self.found.number_of(node) is None or node.value is not value:
            return None
        return self.found.path_of(node)

    def _tensors_by_memory(self) -> Dict[Any, Tuple[str, Path, str]]:
        """Of modules that all workers have: what shares memory with them, as a state_dict() does, is not sent."""
        found: Dict[Any, Tuple[str, Path, str]] = {}
        for node in self.found.search.nodes:
            if node.kind == "module" and self.found.number_of(node) is not None:
                named = [*node.value.named_parameters(recurse=False), *node.value.named_buffers(recurse=False)]
                for name, tensor in named:
                    found.setdefault(_memory_of(tensor), (SHARED, self.found.path_of(node), name))
        found.pop(None, None)
        return found

    # What each thing adds

    def _add(self, node: Node, number: int) -> None:
        path = self.found.path_of(node)
        if node.kind in SETTABLE:
            self._add_slots(node, number, path)
        elif node.kind in WHOLE:
            self._add_content(node, number, path)
        elif node.kind == "tuple":
            pass  # a new one is part of what holds it
        elif node.kind == "iterator":
            self._add_iterator(node, path)
        elif node.kind == "placed":
            self._body.placed[path] = _search.place_of(node.value)
        elif node.kind == "mark" and node.edges:
            self._loops.append(path)
        elif node.kind == "file" and self.found.first.nodes[number].content != _first.content_of(node, False):
            self._problem(path, f"the file {getattr(node.value, 'name', '')!r} is read by the script itself; its place is not "
                                "carried")
        elif node.kind in UNSEEN:
            self._problem(path, f"{UNSEEN[node.kind]} ({type(node.value).__name__})")
        if node.kind == "generator":
            self._add_generator(node, path)

    def _problem(self, path: Path, reason: str) -> None:
        place = next((f"{self.stack[name]}: " for kind, name in path[:1] if kind == "f" and name < len(self.stack)), "")
        self.problems.append(f"{place}{_search.text_of(path, self.stack)}: {reason}")

    def _add_slots(self, node: Node, number: int, path: Path) -> None:
        known = self.found.first.nodes[number]
        for step, child in node.edges.items():
            if step[0] in "iry" or node.kind in ("loader", "module") and isinstance(child, Node) and child.kind == "module":
                continue
            self._add_slot(node, path + (step,), child)
        if node.kind in ("frame", "namespace", "object", "dict"):
            self._body.gone.extend(path + (step,) for step in known.steps if step not in node.edges)
        if node.kind == "dict":
            self._add_order(node, known.steps, path)

    def _add_slot(self, parent: Node, path: Path, child: Any) -> None:
        number = self.found.number_of(child) if isinstance(child, Node) else None
        slot = self.found.first.slots.get(path)
        is_changed = not _first.is_same_slot(slot, child, number) or path in self.inherited
        if isinstance(child, Atom):
            if is_changed or _is_small(child.value):
                clock = _values.clock_of(child.value)
                self._body.slots[path] = (is_changed, child.value if clock is None else clock)
        elif is_changed and child.kind not in ("known", "loop") and id(child.value) not in self._skipped:
            if child.kind == "tensor" and _values.has_open_graph(child.value):
                self._unseen.append(f"{_search.text_of(path, self.stack)} (its gradients are not computed yet)")
            elif not self._is_of_batch(path, self._new_bytes(child, BATCH_DEPTH)):
                self._body.slots[path] = (True, child.value)

    def _is_of_batch(self, path: Path, new_bytes: int) -> bool:
        """Large tensors in variables of a function are left to the worker, and what was made around them. A dictionary may have the
        address of another one, of the first step."""
        return self._limit is not None and new_bytes > FRAME_TENSOR_BYTES and self._is_in_variable(path)

    def _is_in_variable(self, path: Path) -> bool:
        """Of a function, with nothing but containers between."""
        if len(path) < 2 or path[-1][0] in "lg":
            return len(path) == 2 or path[-1][0] == "g"
        holder = self.found.search.resolve(path[:-1])
        is_container = isinstance(holder, Node) and isinstance(holder.value, (dict, list, tuple, collections.UserDict))
        return is_container and self._is_in_variable(path[:-1])

    def _new_bytes(self, node: Any, depth: int) -> int:
        """Of the tensors in a thing that nobody had at the first step."""
        if isinstance(node, Atom) or depth == 0 or self.found.number_of(node) is not None:
            return 0
        if node.kind == "tensor":
            return int(node.value.numel() * node.value.element_size())
        return sum(self._new_bytes(child, depth - 1) for child in node.edges.values())

    def _add_order(self, node: Node, first: Sequence[Step], path: Path) -> None:
        now = list(node.edges)
        kept = [step for step in first if step in node.edges]
        if [*kept, *(step for step in now if step not in set(kept))] != now:
            self._body.orders[path] = [name for _, name in now]

    def _add_content(self, node: Node, number: int, path: Path) -> None:
        if id(node.value) in self._skipped or not (path in self.inherited or self._has_changed(node, number, path)):
            return
        if node.kind == "tensor" and _memory_of(node.value) in self._shared:  # such as of a state_dict() that is kept
            return
        if self._is_of_batch(path, sum(self._new_bytes(child, BATCH_DEPTH) for child in node.edges.values())):
            return
        value = node.value
        if node.kind in ("tensor", "array"):
            self._body.contents[path] = value.detach().clone() if node.kind == "tensor" else value.copy()
        elif node.kind == "holder":
            self._body.contents[path] = _holders.content_of(value)
        else:
            self._body.contents[path] = dict(value) if node.kind == "dict whole" else list(value)

    def _has_changed(self, node: Node, number: int, path: Path) -> bool:
        known = self.found.first.nodes[number]
        if node.content is not None or known.content is not None:
            return node.content != known.content
        if tuple(node.edges) != known.steps:
            return True
        return any(not _first.is_same_slot(self.found.first.slots.get(path + (step,)), child,
                                           self.found.number_of(child) if isinstance(child, Node) else None)
                   for step, child in node.edges.items())

    def _add_iterator(self, node: Node, path: Path) -> None:
        held_at = [self.found.path_of(parent) + (step,) for parent in self.found.search.nodes
                   for step, child in parent.edges.items() if child is node and self.found.number_of(parent) is not None]
        operands: Dict[int, Any] = {}
        for (_, number), child in node.edges.items():
            if isinstance(child, Node) and self._is_running(child) and not isinstance(node.value, _iterators.Passing):
                self._problem(path, "the training runs inside a generator that enumerate, zip or the like draws from")
            slot = self.found.first.slots.get(path + (("r", number),))
            is_known = isinstance(child, Node) and self.found.number_of(child) is not None
            if not is_known and (slot is None or slot.digest != child.digest):
                operands[number] = child.value
        self._body.iterators[path] = IteratorAt(_iterators.place_of(node.value), held_at, operands)

    @staticmethod
    def _is_running(node: Node) -> bool:
        return node.kind == "generator" and node.value.gi_running

    def _add_generator(self, node: Node, path: Path) -> None:
        if not node.value.gi_running:
            self._generators[path] = _frames.place_in(node.value)
            obstacle = _frames.generator_obstacle(node.value)
            if obstacle and not self._draws_from_placed(node):
                self._problem(path, f"{obstacle} waits in a loop, whose place cannot be set")

    @staticmethod
    def _draws_from_placed(node: Node) -> bool:
        return any(isinstance(child, Node) and child.kind == "placed" for child in node.edges.values())

    # What is taken as a whole

    def _add_states(self) -> None:
        tops = {node.number for node in _search.top_modules(self.found.search.nodes, self.excluded)}
        for node in self.found.search.nodes:
            number = self.found.number_of(node)
            if number is None:
                continue
            path = self.found.path_of(node)
            if node.number in tops:
                if path in self.inherited or _first.content_of(node, True) != self.found.first.nodes[number].content:
                    self._body.states[path] = _copied(node.value.state_dict())
            elif node.kind == "state":
                self._body.states[path] = node.value.state_dict()

    def _add_random(self) -> None:
        for name, generator in _randomness.own_generators().items():
            self._body.randoms[(("random", name),)] = _randomness.state_of(generator)
        for node in self.found.search.nodes:
            if node.kind == "random" and self.found.number_of(node) is not None:
                self._body.randoms[self.found.path_of(node)] = _randomness.state_of(node.value)

    def _note_threads(self) -> None:
        new = [thread for thread in threading.enumerate() if not thread.daemon and thread.name not in self._threads]
        at_work = sorted(_pools.threads_at_work(new))
        if at_work:
            self.problems.append(f"threads were started after the first step: {', '.join(at_work[:5])}")

    # What cannot travel

    def _drop_what_cannot_travel(self, limit: Optional[int]) -> None:
        for held in (self._body.slots, self._body.contents, self._body.iterators, self._body.states, self._body.placed):
            entries: Dict[Path, Any] = held  # type: ignore[assignment]
            for path, value in list(entries.items()):
                try:
                    size = len(_pickling.pickled(value, self._path_of))
                except Exception as error:
                    unknown = f"cannot be handed over ({type(error).__name__}: {str(error)[:100]})"
                    self._note_unsendable(path, unknown, _is_left_to_each)
                    del entries[path]
                    continue
                self._largest = max(self._largest, (size, path), key=lambda one: one[0])
                if limit is not None and size > limit // 2:
                    too_large = f"takes {size >> 10} KiB; at most {limit >> 11} KiB of one thing can be handed over"
                    self._note_unsendable(path, too_large, _is_of_threads)
                    del entries[path]

    def _note_unsendable(self, path: Path, reason: str, is_left_to_each: Callable[[Node], bool]) -> None:
        reached = self.found.search.resolve(path)
        if isinstance(reached, Node) and is_left_to_each(reached):
            self._unseen.append(f"{_search.text_of(path, self.stack)} ({type(reached.value).__name__})")
        else:
            self._problem(path, reason)


def _is_left_to_each(node: Node) -> bool:
    """A new worker keeps its own."""
    return node.kind == "opaque" or _only_shows(node.value) or _is_of_threads(node)


def _only_shows(value: Any) -> bool:
    """A bar of progress."""
    return any(kind.__module__.partition(".")[0] in BARS for kind in type(value).__mro__)


def _is_of_threads(node: Node) -> bool:
    """A thread that did something, such as a loader's for the next batch, or a result that a pool's thread has not got yet: those of a
    new worker are its own."""
    value = node.value
    return isinstance(value, threading.Thread) and not value.is_alive() or isinstance(value, concurrent.futures.Future)


def _copied(state: Dict[str, Any]) -> Dict[str, Any]:
    return {name: value.detach().clone() if isinstance(value, torch.Tensor) else value for name, value in state.items()}


def _memory_of(tensor: torch.Tensor) -> Any:
    """Equal for tensors that are the same part of the same memory."""
    tensor = _values.local(tensor)
    if tensor.layout is not torch.strided or not tensor.numel() or tensor.device.type == "meta":
        return None
    return tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride(), str(tensor.device)


def _is_small(value: Any) -> bool:
    """What is sent although it did not change here: it may have in another worker."""
    return type(value) in _values.SIMPLE and (not isinstance(value, (str, bytes)) or len(value) <= SMALL_TEXT)


def _tensors_of_modules(nodes: Sequence[Node], excluded: Iterable[Any]) -> Set[int]:
    modules = [*(thing for thing in excluded if isinstance(thing, torch.nn.Module)),
               *(node.value for node in nodes if node.kind == "module")]
    return {id(tensor) for module in modules for part in (module.parameters(), module.buffers()) for tensor in part}
