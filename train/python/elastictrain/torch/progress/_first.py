"""What a worker remembers of its first step, and what of it is found again later.

A thing that is found again is the same object, or takes the place of one that is gone. All workers run the same script up to
their first step, so the path that a thing had there names it in all of them.
"""

import weakref
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from . import _randomness, _search, _values
from ._search import Atom, Node, Path, Search, Step

NO_NODE = -1
CLAIMED = frozenset(("object", "module", "generator", "iterator", "mark", "loop", "placed", "state", "loader", "function",
                     "random", "file", "known", "unknown iterator"))  # kinds that take the place of what is gone
CONSTANT = frozenset(("object", "dict", "list", "tuple", "class", "function", "dict whole", "tensor", "array", "namespace", "opaque",
                      "method", "holder"))
LARGE = 64  # values


class Slot(NamedTuple):
    digest: bytes
    number: int  # of the node that was there


class Known(NamedTuple):
    """A node of the first step."""
    path: Path
    kind: str
    type: type
    identity: int
    reference: Any  # weak; None where there can be none
    content: Optional[bytes]
    steps: Tuple[Step, ...]  # what it had, in order


class First:
    """Holds no object of the script alive."""

    def __init__(self, search: Search, excluded: Iterable[Any]) -> None:
        tops = {id(node) for node in _search.top_modules(search.nodes, excluded)}
        self.nodes = [self._known(node, id(node) in tops) for node in search.nodes]
        self.slots: Dict[Path, Slot] = {}
        for node in search.nodes:
            for step, child in node.edges.items():
                number = child.number if isinstance(child, Node) else NO_NODE
                self.slots[node.path + (step,)] = Slot(child.digest, number)
        self.by_id = {known.identity: number for number, known in enumerate(self.nodes)}
        self.by_path = {known.path: number for number, known in enumerate(self.nodes)}
        self.generators = {name: _randomness.digest_of(_randomness.state_of(one))
                           for name, one in _randomness.own_generators().items()}

    @staticmethod
    def _known(node: Node, is_top: bool) -> Known:
        try:
            reference: Any = weakref.ref(node.value)
        except TypeError:
            reference = None
        content = content_of(node, is_top)
        return Known(node.path, node.kind, type(node.value), id(node.value), reference, content, tuple(node.edges))


def content_of(node: Node, is_top_module: bool) -> Optional[bytes]:
    """A digest of what is sent as a whole."""
    if is_top_module:
        return _values.fingerprint_of([*node.value.parameters(), *node.value.buffers()])
    if node.kind == "random":
        return _randomness.digest_of(_randomness.state_of(node.value))
    if node.kind == "file":
        return _values.digest_of(_place_in(node.value))
    return node.content


def _place_in(file: Any) -> Optional[int]:
    try:
        return int(file.tell())
    except (OSError, ValueError):  # it is read line by line, or closed
        return None


class Found:
    """Which nodes of a search are those of the first step, and by what path all workers know each node."""

    def __init__(self, first: First, search: Search) -> None:
        self.first, self.search = first, search
        self.numbers: Dict[int, int] = {}  # of the first step, by the number in the search
        self.paths: Dict[int, Path] = {}
        self.constant: Set[int] = set()  # nodes of large variables of modules in which nothing has changed
        self._claimed: Set[int] = set()
        self._holding: Dict[int, bool] = {}
        for node in search.nodes:
            number = self._same_object(node)
            if number is not None:
                self._note(node, number)
        self._go_down()
        self._find_constants()

    def _find_constants(self) -> None:
        """Registries of a library, which all workers have alike, may be most of what is found."""
        variables: Dict[Path, List[Node]] = {}
        for node in self.search.nodes:
            if len(node.path) > 1 and node.path[0][0] == "m" and node.path[0][1] != "__main__":
                variables.setdefault(node.path[:2], []).append(node)
        for nodes in variables.values():
            if sum(len(node.edges) for node in nodes) > LARGE and all(self._is_constant(node) for node in nodes):
                self.constant.update(node.number for node in nodes)

    def _is_constant(self, node: Node) -> bool:
        number = self.number_of(node)
        known = self.first.nodes[number] if number is not None else None
        if known is None or node.kind not in CONSTANT or known.path != node.path or known.steps != tuple(node.edges):
            return False
        return known.content == node.content and all(
            is_same_slot(self.first.slots.get(node.path + (step,)), child, self.number_of(child) if isinstance(child, Node) else None)
            for step, child in node.edges.items())

    def number_of(self, node: Node) -> Optional[int]:
        return self.numbers.get(node.number)

    def path_of(self, node: Node) -> Path:
        return self.paths.get(node.number, node.path)

    def _note(self, node: Node, number: int) -> None:
        self.numbers[node.number] = number
        self.paths[node.number] = self.first.nodes[number].path
        self._claimed.add(number)

    def _same_object(self, node: Node) -> Optional[int]:
        if len(node.path) == 1:
            return self.first.by_path.get(node.path)
        number = self.first.by_id.get(id(node.value))
        if number is None:
            return None
        known = self.first.nodes[number]
        if known.type is not type(node.value):
            return None
        if known.reference is not None:
            return number if known.reference() is node.value else None
        return number if self.search.resolve(known.path) is node else None

    def _go_down(self) -> None:
        todo = list(self.search.roots.values())
        seen = {node.number for node in todo}
        for node in todo:  # grows while it is read
            path = self.path_of(node)
            for step, child in node.edges.items():
                if isinstance(child, Node) and child.number not in seen:
                    seen.add(child.number)
                    self._name(child, path + (step,))
                    todo.append(child)

    def _name(self, node: Node, path: Path) -> None:
        if node.number in self.numbers:
            return
        number = self._successor(node, path)
        if number is None:
            self.paths[node.number] = path
        else:
            self._note(node, number)

    def _successor(self, node: Node, path: Path) -> Optional[int]:
        """Of what was at this path at the first step, and is gone."""
        slot = self.first.slots.get(path)
        if slot is None or slot.number == NO_NODE or slot.number in self._claimed:
            return None
        known = self.first.nodes[slot.number]
        is_replaced = node.kind == known.kind and (node.kind == "iterator" or known.type is type(node.value))
        if not is_replaced or not (node.kind in CLAIMED or self._holds_objects(node)):
            return None
        old = known.reference() if known.reference is not None else None
        reached = None if old is None else self.search.node_of(old)
        return slot.number if reached is None or reached.value is not old else None

    def _holds_objects(self, node: Node) -> bool:
        """Whether a container has more below it than small values."""
        if node.number not in self._holding:
            self._holding[node.number] = False
            self._holding[node.number] = node.kind in ("list", "dict", "tuple") and any(
                isinstance(child, Node) and (child.kind in CLAIMED or self._holds_objects(child))
                for child in node.edges.values())
        return self._holding[node.number]


def is_same_slot(slot: Optional[Slot], child: Any, number: Optional[int]) -> bool:
    """Whether what is there now was there at the first step."""
    if slot is None:
        return False
    if isinstance(child, Atom):
        return slot.number == NO_NODE and slot.digest == child.digest
    return number is not None and slot.number == number


def table_of(found: Found, inherited: Set[Path]) -> Dict[bytes, Tuple[bytes, bytes, bool]]:
    """What tells whether values are equal on all workers: by the digest of a path those of its value at the first step and
    now, and whether this worker took it over."""
    table: Dict[bytes, Tuple[bytes, bytes, bool]] = {}
    for node in found.search.nodes:
        if found.number_of(node) is None or node.number in found.constant:
            continue
        path = found.path_of(node)
        for step, child in node.edges.items():
            place = path + (step,)
            before = found.first.slots.get(place)
            table[key_of(place)] = (before.digest if before else _values.ABSENT, child.digest, place in inherited)
    for name, generator in _randomness.own_generators().items():
        now = _randomness.digest_of(_randomness.state_of(generator))
        table[key_of((("random", name),))] = (found.first.generators.get(name, _values.ABSENT), now, False)
    for node in found.search.nodes:
        number = found.number_of(node)
        if node.kind == "random" and number is not None:
            before_state = found.first.nodes[number].content or _values.ABSENT
            table[key_of(found.path_of(node))] = (before_state, content_of(node, False) or _values.ABSENT, False)
    return table


def key_of(path: Path) -> bytes:
    return _values.digest_of_text(repr(path))
