"""What a script holds, by path: from the frames of its functions and the modules of its own, through attributes, items, cells
and the variables of generators, to small values and to things that have a state.

The search is bounded in nodes, depth and time. A path is a tuple of steps, each a kind and a name; it means the same in all
processes that run the script.
"""

import collections
import functools
import io
import random
import sys
import time
import types
from typing import Any, Callable, Deque, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from . import _frames, _holders, _hook, _iterators, _rewrite, _values
from ._loops import Loop, Mark

MAX_NODES = 50000
MAX_STEPS = 12
MAX_S = 10.0
MAX_ITEMS = 1000  # of a container whose items are looked at one by one
DICT_ITEMS = 256  # of a dictionary of small values whose items are values of their own

_now = time.perf_counter
Step = Tuple[str, Any]
Path = Tuple[Step, ...]

WALKED_STDLIB = ("argparse.Namespace", "types.SimpleNamespace", "functools.partial", "collections.UserDict", "collections.UserList",
                 "collections.UserString", "collections.ChainMap")
NAMED_STDLIB = frozenset(("sqlite3", "zipfile", "tarfile", "_hashlib", "mmap", "shelve", "dbm"))  # what it holds is not seen
NOT_WALKED = _hook.NEVER | frozenset(("google", "tensorboard", "datasets", "tokenizers", "hydra", "antlr4", "boto3", "fsspec",
                                      "matplotlib", "sklearn", "wandb", "mlflow", "tensorflow", "jax", "ray"))
COMPOSABLE = "__composable_api_state_key"  # what torch's fully_shard() and the like keep on a module
OF_MODULE = frozenset(vars(torch.nn.Module())) | {"_compiled_call_impl", "_is_full_backward_hook"}
OUTSIDE = ("threading.Thread", "queue.Queue", "_queue.SimpleQueue", "multiprocessing.process.BaseProcess",
           "multiprocessing.queues.Queue", "subprocess.Popen", "socket.socket", "concurrent.futures._base.Executor",
           "concurrent.futures._base.Future")
STATES = (torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler, torch.optim.lr_scheduler.ReduceLROnPlateau,
          torch.amp.GradScaler)
WRAPPERS = ("torch.nn.parallel", "elastictrain.")  # modules around a module; what else they hold is not the script's
NAMELESS = frozenset(("builtins", "typing", "weakref", "abc", "_weakref", "re", "logging", "_thread", "torch.distributed.device_mesh"))


class Atom(NamedTuple):
    """A value that cannot change."""
    value: Any
    digest: bytes


class Node:
    """A thing that can change. `content`: a digest where it holds small values alone."""
    __slots__ = ("value", "kind", "path", "edges", "content", "number")

    def __init__(self, value: Any, kind: str, path: Path, content: Optional[bytes]) -> None:
        self.value, self.kind, self.path, self.content = value, kind, path, content
        self.edges: Dict[Step, Union["Node", Atom]] = {}
        self.number = 0

    @property
    def digest(self) -> bytes:
        """Equal for what looks equal from outside."""
        kind = type(self.value)
        return self.content or _values.digest_of_text(f"{kind.__module__}.{kind.__qualname__}:{self.kind}")


Reached = Union[Node, Atom]


def text_of(path: Sequence[Step], stack: Sequence[_frames.Site] = ()) -> str:
    """A path for people."""
    parts: List[str] = []
    for kind, name in path:
        if str(name).startswith(_rewrite.LOOP_PREFIX):
            parts.append(f"{'.' if parts else ''}loop in line {name[len(_rewrite.LOOP_PREFIX):]}")
        elif kind == "f":
            parts.append(f"{stack[name].function}()" if name < len(stack) else f"frame {name}")
        elif kind == "m":
            parts.append("" if name == "__main__" else str(name))
        elif kind in "[":
            parts.append(f"[{name!r}]")
        elif kind == "i":
            parts.append("")
        elif kind in "rsy":
            parts.append(" (what it iterates over)")
        else:
            parts.append(f".{name}" if parts and parts[-1] else str(name))
    return "".join(parts)


class Search:
    """All that was found at one time. It holds what it found: it must not outlive the step."""

    def __init__(self, stack: Sequence[types.FrameType], excluded: Iterable[Any] = ()) -> None:
        self.nodes: List[Node] = []
        self.roots: Dict[Step, Node] = {}
        self.not_looked_into: Dict[str, Path] = {}  # a type and an example
        self.is_complete = True
        self._by_id: Dict[int, Node] = {}
        self._todo: Deque[Node] = collections.deque()
        self._excluded = _Excluded(excluded)
        self._end = _now() + MAX_S
        for number, frame in enumerate(stack):
            if not _frames.is_module(frame):
                self._add_root(("f", number), frame, "frame")
        for name, module in own_modules():
            self._add_root(("m", name), module, "namespace")
        while self._todo:
            self._visit(self._todo.popleft())

    def resolve(self, path: Path) -> Optional[Reached]:
        """What is at a path."""
        reached: Optional[Reached] = self.roots.get(path[0])
        for step in path[1:]:
            if not isinstance(reached, Node):
                return None
            reached = reached.edges.get(step)
        return reached

    def node_of(self, value: Any) -> Optional[Node]:
        return self._by_id.get(id(value))

    def _add_root(self, step: Step, value: Any, kind: str) -> None:
        node = Node(value, kind, (step,), None)
        node.number = len(self.nodes)
        self.roots[step] = self._by_id[id(value)] = node
        self.nodes.append(node)
        self._todo.append(node)

    def _visit(self, node: Node) -> None:
        if len(self.nodes) > MAX_NODES or len(node.path) > MAX_STEPS or _now() > self._end:
            self.is_complete = False
            return
        for step, value in children(node.value, node.kind):
            reached = self._reach(value, node.path + (step,))
            if reached is not None:
                node.edges[step] = reached

    def _reach(self, value: Any, path: Path) -> Optional[Reached]:
        known = self._by_id.get(id(value))
        if known is not None:
            return known
        if _values.is_atom(value):
            return Atom(value, _values.digest_of(value) or _values.ABSENT)
        kind, content = self._kind_of(value)
        if kind == "ignored":
            return None
        if kind == "atom":
            return Atom(value, content or _values.ABSENT)
        node = Node(value, kind, path, content)
        node.number = len(self.nodes)
        self._by_id[id(value)] = node
        self.nodes.append(node)
        if kind == "opaque":
            name = f"{type(value).__module__}.{type(value).__qualname__}"
            self.not_looked_into.setdefault(name, path)
        elif content is None or kind == "dict":
            self._todo.append(node)
        return node

    def _kind_of(self, value: Any) -> Tuple[str, Optional[bytes]]:
        if self._excluded.has(value):
            return ("module" if isinstance(value, torch.nn.Module) else "known"), None
        if isinstance(value, torch.Tensor) or _values.is_array(value):
            return self._kind_of_numbers(value)
        if isinstance(value, (list, tuple, set, frozenset, dict, collections.deque, bytearray)):
            return self._kind_of_container(value)
        content = _holders.content_of(value)
        return (kind_of(value), None) if content is None else ("holder", _holders.digest_of(content))

    def _kind_of_numbers(self, value: Any) -> Tuple[str, Optional[bytes]]:
        if isinstance(value, torch.nn.Parameter) and self._excluded.has_parameter(value):
            return "known", None
        digest = _values.digest_of(value)
        if digest is None and isinstance(value, torch.Tensor):
            is_known = type(_values.local(value)) in (torch.Tensor, torch.nn.Parameter)
            digest = _values.fingerprint_of([value]) if is_known else None
        return ("array" if _values.is_array(value) else "tensor"), digest or _values.digest_of_text(repr(type(value)))

    def _kind_of_container(self, value: Any) -> Tuple[str, Optional[bytes]]:
        is_fixed = isinstance(value, (tuple, frozenset))
        if isinstance(value, bytearray):
            return "list", _values.digest_of(bytes(value))
        if isinstance(value, dict) and len(value) <= DICT_ITEMS and all(_values.is_atom(key) for key in value):
            return "dict", None
        content = _values.digest_of(value)
        if content is not None:
            return ("atom" if is_fixed else "dict whole" if isinstance(value, dict) else "list"), content
        if len(value) > MAX_ITEMS or isinstance(value, (set, frozenset)):
            return "opaque", _values.digest_of_text(f"{type(value)}{len(value)}")
        if isinstance(value, dict):
            return ("dict" if all(_values.is_atom(key) for key in value) else "opaque"), None
        return ("tuple" if is_fixed else "list"), None


class _Excluded:
    """What the caller takes care of."""

    def __init__(self, things: Iterable[Any]) -> None:
        self._things = list(things)
        modules = [module for thing in self._things if isinstance(thing, torch.nn.Module) for module in thing.modules()]
        self._ids = {id(thing) for thing in (*self._things, *modules)}
        self._parameters = {id(parameter) for module in modules for parameter in module.parameters(recurse=False)}

    def has(self, value: Any) -> bool:
        return id(value) in self._ids

    def has_parameter(self, value: Any) -> bool:
        return id(value) in self._parameters


# --- What kinds there are

def own_modules() -> Iterator[Tuple[str, types.ModuleType]]:
    for name, module in sorted(sys.modules.items()):
        is_own = isinstance(module, types.ModuleType) and _is_own(getattr(module, "__file__", None))
        if name == "__main__" or is_own and not _hook.is_library_module(name):
            yield name, module


def _is_own(path: Optional[str]) -> bool:
    return isinstance(path, str) and _hook.is_own_file(path)


def _is_own_class(kind: type) -> bool:
    return kind.__module__ == "__main__" or _is_own(getattr(sys.modules.get(kind.__module__), "__file__", None))


def is_placed(value: Any) -> bool:
    """Whether it places itself."""
    is_ours = hasattr(type(value), "progress_place") and hasattr(type(value), "set_progress_place")
    return is_ours or _iterators.tells_place(value) and not _is_own_class(type(value))


def place_of(value: Any) -> Any:
    """Of a thing that places itself."""
    return value.progress_place() if hasattr(value, "progress_place") else value.get_state()


def place(value: Any, at: Any) -> None:
    """A thing that places itself."""
    (value.set_progress_place if hasattr(value, "set_progress_place") else value.set_state)(at)


def kind_of(value: Any) -> str:
    """Of anything but atoms, containers, and arrays."""
    for kind, test in _KINDS:
        if test(value):
            return kind
    return "object" if _is_walked(value) else "opaque" if _is_worth_naming(value) else "ignored"


def _is_walked(value: Any) -> bool:
    kind = type(value)
    if isinstance(value, (Dataset, Sampler)) or _is_own_class(kind) or f"{kind.__module__}.{kind.__qualname__}" in WALKED_STDLIB:
        return True
    top = kind.__module__.partition(".")[0]
    return top not in NOT_WALKED and not _is_stdlib(top) and hasattr(value, "__dict__")


@functools.lru_cache(maxsize=None)
def _is_stdlib(top: str) -> bool:
    module = sys.modules.get(top)
    file = getattr(module, "__file__", None)
    return module is not None and top != "__main__" and (file is None or _hook.is_library_file(file))


def _is_worth_naming(value: Any) -> bool:
    kind = type(value)
    top = kind.__module__.partition(".")[0]
    if isinstance(value, io.IOBase):
        return True
    if top == "elastictrain" or kind.__module__ in NAMELESS:
        return False
    return not _is_stdlib(top) or top in NAMED_STDLIB or _iterators.is_iterator(value)


def _is_open_for_reading(value: Any) -> bool:
    try:
        return isinstance(value, io.IOBase) and value.readable() and not value.isatty() and value.seekable()
    except ValueError:  # closed
        return False


def _is_random(value: Any) -> bool:
    numpy = _values.numpy()
    return isinstance(value, (random.Random, torch.Generator)) or numpy is not None and isinstance(
        value, (numpy.random.Generator, numpy.random.RandomState))


def _is_unknown_iterator(value: Any) -> bool:
    return _iterators.is_iterator(value) and not hasattr(value, "__dict__") and not _is_own_class(type(value))


def _is_outside(value: Any) -> bool:
    """Something that goes on by itself, or waits for others."""
    kind = type(value)
    return any(f"{base.__module__}.{base.__qualname__}" in OUTSIDE for base in kind.__mro__)


_KINDS: List[Tuple[str, Callable[[Any], bool]]] = [
    ("method", lambda value: isinstance(value, (types.MethodType, types.BuiltinMethodType)) and
     not isinstance(value.__self__, (types.ModuleType, type(None)))),
    ("ignored", lambda value: isinstance(value, (types.ModuleType, types.BuiltinFunctionType, property, classmethod, staticmethod,
                                                 types.CodeType, types.FrameType, types.TracebackType))),
    ("mark", lambda value: isinstance(value, Mark)),
    ("loop", lambda value: isinstance(value, Loop)),
    ("placed", is_placed),
    ("module", lambda value: isinstance(value, torch.nn.Module)),
    ("state", lambda value: isinstance(value, STATES)),
    ("loader", lambda value: isinstance(value, DataLoader)),
    ("random", _is_random),
    ("generator", lambda value: isinstance(value, types.GeneratorType) and value.gi_frame is not None),
    ("asynchronous", lambda value: isinstance(value, (types.CoroutineType, types.AsyncGeneratorType))),
    ("iterator", lambda value: _iterators.is_iterator(value) and _iterators.kind_of(value) is not None),
    ("outside", _is_outside),
    ("function", lambda value: isinstance(value, types.FunctionType)),
    ("class", lambda value: isinstance(value, type)),
    ("file", _is_open_for_reading),
    ("unknown iterator", _is_unknown_iterator),
]


# --- What is below a thing

def children(value: Any, kind: str) -> Iterable[Tuple[Step, Any]]:
    below = _CHILDREN.get(kind)
    return below(value) if below is not None else ()


def _of_frame(frame: types.FrameType) -> Iterator[Tuple[Step, Any]]:
    return ((("l", name), value) for name, value in _frames.locals_of(frame).items())


def _of_namespace(module: types.ModuleType) -> Iterator[Tuple[Step, Any]]:
    return (((".", name), value) for name, value in list(vars(module).items()) if not name.startswith("__"))


def _of_dict(value: Dict[Any, Any]) -> Iterator[Tuple[Step, Any]]:
    return ((("[", key), item) for key, item in list(value.items()))


def _of_sequence(value: Iterable[Any]) -> Iterator[Tuple[Step, Any]]:
    return ((("[", number), item) for number, item in enumerate(list(value)))


def _of_function(function: types.FunctionType) -> Iterator[Tuple[Step, Any]]:
    if not _hook.is_own_file(function.__code__.co_filename):
        wrapped = getattr(function, "__wrapped__", None)  # a library's decorator around a function of the script
        yield from [((".", "__wrapped__"), wrapped)] if isinstance(wrapped, types.FunctionType) else []
        return
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            yield ("c", name), cell.cell_contents
        except ValueError:  # empty
            continue
    yield from (((".", name), value) for name, value in list(vars(function).items()))


def _of_class(kind: type) -> Iterator[Tuple[Step, Any]]:
    if _is_own_class(kind):
        for name, value in list(vars(kind).items()):
            if not name.startswith("__") and not isinstance(value, types.FunctionType) and not hasattr(value, "__get__"):
                yield (".", name), value


def _of_generator(generator: types.GeneratorType) -> Iterator[Tuple[Step, Any]]:
    if generator.gi_running:
        return  # its frame is one of the stack
    if generator.gi_frame is not None:
        yield from ((("g", name), value) for name, value in _frames.locals_of(generator.gi_frame).items())
    if generator.gi_yieldfrom is not None:
        yield ("y", ""), generator.gi_yieldfrom


def _of_mark(mark: Mark) -> Iterator[Tuple[Step, Any]]:
    if mark.loop is not None:
        yield ("i", ""), mark.loop.it


def _of_loop(loop: Loop) -> Iterator[Tuple[Step, Any]]:
    yield ("i", ""), loop.it


def _of_iterator(it: Any) -> Iterator[Tuple[Step, Any]]:
    return ((("r", number), operand) for number, operand in enumerate(_iterators.operands_of(it)))


def _of_module(module: torch.nn.Module) -> Iterator[Tuple[Step, Any]]:
    if type(module).__module__.startswith(WRAPPERS) and hasattr(module, "module"):
        yield (".", "module"), module.module
        return
    for name, value in list(vars(module).items()):
        if name == "training" or name not in OF_MODULE and not name.startswith(COMPOSABLE):
            yield (".", name), value
    yield from (((".", name), part) for name, part in module._modules.items() if part is not None)


def _of_loader(loader: DataLoader) -> Iterator[Tuple[Step, Any]]:
    for name in ("dataset", "sampler", "batch_sampler", "generator"):
        yield (".", name), getattr(loader, name, None)
    if _is_own_class(type(loader)):
        yield from (item for item in _of_object(loader) if not item[0][1].startswith("_"))


def _of_object(value: Any) -> Iterator[Tuple[Step, Any]]:
    yield from (((".", name), item) for name, item in list(getattr(value, "__dict__", {}).items()) if isinstance(name, str))
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            if not name.startswith("__") and hasattr(value, name):
                yield (".", name), getattr(value, name)
    if isinstance(value, functools.partial):
        yield (".", "func"), value.func


def _of_method(method: Any) -> Iterator[Tuple[Step, Any]]:
    yield (".", "__self__"), method.__self__


_CHILDREN: Dict[str, Callable[[Any], Iterable[Tuple[Step, Any]]]] = {
    "frame": _of_frame, "namespace": _of_namespace, "dict": _of_dict, "list": _of_sequence, "tuple": _of_sequence,
    "function": _of_function, "class": _of_class, "generator": _of_generator, "mark": _of_mark, "loop": _of_loop,
    "iterator": _of_iterator, "module": _of_module, "loader": _of_loader, "object": _of_object, "method": _of_method,
}


def top_modules(nodes: Iterable[Node], excluded: Iterable[Any]) -> List[Node]:
    """Modules that no other one contains, and that are not excluded."""
    inner: Set[int] = {id(part) for module in excluded if isinstance(module, torch.nn.Module) for part in module.modules()}
    modules = [node for node in nodes if node.kind == "module"]
    for node in modules:
        inner.update(id(part) for part in node.value.modules() if part is not node.value)
    return [node for node in modules if id(node.value) not in inner]


