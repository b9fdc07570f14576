"""Takes over a member's record, in a worker that stands at its first step."""

import types
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch

from . import _first, _frames, _holders, _iterators, _pickling, _randomness, _search, _values
from ._loops import Loop, Mark
from ._record import SHARED, Body, Record
from ._search import Atom, Node, Path, Search

Table = Dict[bytes, Tuple[bytes, bytes, bool]]
NONE = _values.digest_of(None)
NAMED_AT_MOST = 20


class Report(NamedTuple):
    """What a worker took over, for people."""
    taken: List[str]
    kept_own: List[str]
    not_looked_into: List[str]

    def __str__(self) -> str:
        parts = [f"took over {len(self.taken)} values"]
        parts += [f"kept own: {', '.join(self.kept_own[:NAMED_AT_MOST])}"] if self.kept_own else []
        parts += [f"not looked into: {', '.join(self.not_looked_into[:NAMED_AT_MOST])}"] if self.not_looked_into else []
        return "; ".join(parts)


class _Missing:
    """In place of a thing that the record refers to and that is not here."""


class Taker:
    """Nothing is set before `apply()`. `tables`: of all members, at the record's step."""

    def __init__(self, record: bytes, tables: Sequence[Table], search: Search, stack: Sequence[types.FrameType],
                 own_table: Table) -> None:
        self.record = Record(*_pickling.opened(record))
        self._tables = list(tables) or [self.record.table]
        self._search, self._stack, self._own = search, stack, own_table
        self._sites = [_frames.site_of(frame) for frame in stack]
        self.problems: List[str] = []
        self._kept: List[str] = []
        self._roles: Set[Path] = set()
        self._retired: List[Any] = []
        self.taken: Set[Path] = set()
        self._check_places()
        self.body: Optional[Body] = None
        if not self.problems:
            self.body = Body(*_pickling.unpickled(self.record.body, self._thing_at))
            self._decide(self.body)
        self.problems += [problem for problem in self.record.problems if problem not in self.problems]

    def _thing_at(self, path: Any) -> Any:
        if path[0] == SHARED:
            module = self._thing_at(path[1])
            return getattr(module, path[2]).detach() if isinstance(module, torch.nn.Module) else _Missing()
        reached = self._search.resolve(path)
        if isinstance(reached, Node):
            return reached.value
        if not self._is_role(path):
            self._problem(path, "is not here")
        return _Missing()

    def _text(self, path: Path) -> str:
        return _search.text_of(path, self._sites)

    def _problem(self, path: Path, reason: str) -> None:
        place = next((f"{self._sites[name]}: " for kind, name in path[:1] if kind == "f" and name < len(self._sites)), "")
        text = f"{place}{self._text(path)}: {reason}"
        if text not in self.problems:
            self.problems.append(text)

    # The same place

    def _check_places(self) -> None:
        own = _frames.obstacles(self._stack)
        self.problems += own
        if self._sites != self.record.stack:
            self.problems.append(f"the others make their steps at {_way(self.record.stack)}, this worker at {_way(self._sites)}")
            return
        running = [node.path for node in self._search.nodes if node.kind == "mark" and node.edges]
        for path in self.record.loops:
            reached = self._search.resolve(path)
            if not isinstance(reached, Node) or not reached.edges:
                self._problem(path, "this loop runs in the others and not here")
        for path in running:
            if path not in self.record.loops and path[0][0] == "f":
                self._problem(path, "this loop runs here and not in the others")
        for path, place in self.record.generators.items():
            self._check_generator(path, place)

    def _check_generator(self, path: Path, place: Tuple[str, Optional[int]]) -> None:
        reached = self._search.resolve(path)
        if not isinstance(reached, Node) or reached.kind != "generator":
            return  # another thing there is seen where it is set
        own = _frames.place_in(reached.value)
        if own != place:
            self._problem(path, f"the generator {place[0]}() waits in line {place[1]} in the others and in line {own[1]} here")

    # What is taken

    def _rows(self, path: Path) -> List[Tuple[bytes, bytes, bool]]:
        key = _first.key_of(path)
        return [table[key] for table in self._tables if key in table]

    def _is_taken(self, path: Path, is_changed: bool = True) -> bool:
        """By the members' values: what differs and did from the start is each rank's own, what differs since is a meter.
        `is_changed`: in the record's maker, which also knows of other things with equal values."""
        rows = self._rows(path)
        if not rows or len(rows) < len(self._tables):
            return is_changed
        if len({now for _, now, _ in rows}) == 1:
            return is_changed or any(before != now or is_inherited for before, now, is_inherited in rows) or \
                self._has_strayed(path, rows[0][1])
        return is_changed and len({before for before, _, _ in rows}) == 1

    def _has_strayed(self, path: Path, now: bytes) -> bool:
        """Whether this worker's pass before it was a member changed what the members still have as it was."""
        own = self._own.get(_first.key_of(path))
        return own is not None and own[1] != own[0] == now

    def _is_role(self, path: Path) -> bool:
        """Whether this worker has nothing where the record's maker had something from the start: its role is another one."""
        for length in range(2, len(path) + 1):
            part = path[:length]
            reached = self._search.resolve(part)
            if isinstance(reached, Atom) and reached.digest == NONE:
                before = self.record.table.get(_first.key_of(part), (_values.ABSENT,) * 2)[0]
                if before not in (NONE, _values.ABSENT):
                    self._note_role(part)
                    return True
        return False

    def _note_role(self, path: Path) -> None:
        if path not in self._roles:
            self._roles.add(path)
            self._kept.append(f"{self._text(path)} (None here)")

    def _decide(self, body: Body) -> None:
        """Leaves in the body what will be set, and finds what has no place here."""
        for path, (is_changed, value) in list(body.slots.items()):
            if not self._is_slot_taken(path, is_changed, value):
                del body.slots[path]
        for held in (body.contents, body.states, body.placed, body.iterators, body.orders):
            self._keep_existing(held)
        for path in list(body.contents):
            if not self._is_taken(path):
                del body.contents[path]
                self._kept.append(self._text(path))
            else:
                self._check_content(path, body.contents[path])
        for path, iterator in list(body.iterators.items()):
            self._check_iterator(body, path, iterator)
        self._check_states(body)
        body.gone[:] = [path for path in body.gone if self._search.resolve(path) is not None and self._is_taken(path)]

    def _is_slot_taken(self, path: Path, is_changed: bool, value: Any) -> bool:
        is_clock = isinstance(value, _values.Clock) and is_changed
        if not is_clock and not self._is_taken(path, is_changed):
            self._note_own(path)
            return False
        if self._is_role(path):
            return False
        parent = self._search.resolve(path[:-1])
        if not isinstance(parent, Node) or parent.kind != self.record.kinds.get(path[:-1]):
            self._problem(path, "has no place here")
            return False
        return True

    def _note_own(self, path: Path) -> None:
        own, donor = self._own.get(_first.key_of(path)), self.record.table.get(_first.key_of(path))
        reached = self._search.resolve(path)
        is_named = isinstance(reached, Atom) and _values.clock_of(reached.value) is None
        if own is not None and donor is not None and own[0] != donor[1] and is_named and isinstance(reached, Atom):
            if not path[-1][1:] or not str(path[-1][1]).startswith("_et_"):
                self._kept.append(f"{self._text(path)} ({reached.value!r:.40})")

    def _keep_existing(self, held: Dict[Path, Any]) -> None:
        for path in list(held):
            reached = self._search.resolve(path)
            if not isinstance(reached, Node):
                del held[path]
                if not self._is_role(path):
                    self._problem(path, "is not here")
            elif reached.kind != self.record.kinds.get(path):
                del held[path]
                self._problem(path, f"is a {type(reached.value).__name__} here")

    def _check_content(self, path: Path, value: Any) -> None:
        reached = self._search.resolve(path)
        assert isinstance(reached, Node)
        if reached.kind in ("tensor", "array") and tuple(reached.value.shape) != tuple(value.shape):
            self._problem(path, f"has the shape {tuple(reached.value.shape)} here and {tuple(value.shape)} there")

    def _check_iterator(self, body: Body, path: Path, iterator: Any) -> None:
        reached = self._search.resolve(path)
        assert isinstance(reached, Node)
        own = _iterators.place_of(reached.value)
        if self._is_loop(iterator) or self._is_taken(path):
            if not _iterators.is_like(iterator.place, own):
                self._problem(path, f"this loop goes over a {own[0]} here and a {iterator.place[0]} there")
            for held in iterator.held_at:
                body.slots.pop(held, None)
        else:
            del body.iterators[path]

    @staticmethod
    def _is_loop(iterator: Any) -> bool:
        return any(step[0] in "ir" for path in iterator.held_at for step in path[-1:])

    def _check_states(self, body: Body) -> None:
        for path, state in body.states.items():
            reached = self._search.resolve(path)
            assert isinstance(reached, Node)
            if reached.kind == "module":
                own = reached.value.state_dict()
                wrong = [name for name in {*own, *state} if name not in own or name not in state or
                         getattr(own[name], "shape", None) != getattr(state[name], "shape", None)]
                if wrong:
                    self._problem(path, f"its {wrong[0]!r} is not alike here and there")

    # Setting

    def apply(self, rank: int, is_own: bool = False) -> Report:
        """`rank` and the record's step make the streams of random numbers that are each worker's own. `is_own`: this worker made
        the record, in an earlier process."""
        assert self.body is not None and not self.problems
        body = self.body
        self._set_values(body)
        for path, state in body.states.items():
            _load_state(self._node(path).value, state)
        for path, place in body.placed.items():
            if place is not None:
                _search.place(self._node(path).value, place)
        self._place_iterators(body)
        self._set_values(body)  # making an iterator may change what it iterates over
        self._set_random(body, rank, is_own)
        self.taken = {*body.slots, *body.contents, *body.iterators}
        shown = [path for path in body.slots if not str(path[-1][1]).startswith("_et_")] + list(body.contents)
        return Report(sorted({self._text(path) for path in shown}), sorted(set(self._kept)), self.record.not_looked_into)

    def apply_role(self) -> List[str]:
        """Only values that changed since the first step in the record's maker and in nobody else."""
        assert self.body is not None and not self.problems
        slots = {path: held for path, held in self.body.slots.items() if held[0] and self._is_of_role(path)}
        contents = {path: value for path, value in self.body.contents.items() if self._is_of_role(path)}
        self._set_values(self.body._replace(slots=slots, contents=contents, gone=[], orders={}))
        self.taken = {*slots, *contents}
        return sorted(self._text(path) for path in self.taken)

    def _is_of_role(self, path: Path) -> bool:
        return all(before == now and not inherited for before, now, inherited in self._rows(path))

    def _node(self, path: Path) -> Node:
        reached = self._search.resolve(path)
        assert isinstance(reached, Node)
        return reached

    def _set_values(self, body: Body) -> None:
        for path, value in body.contents.items():
            _set_content(self._node(path).value, value)
        variables: Dict[Path, Dict[str, Any]] = {}
        for path, (_, value) in body.slots.items():
            parent, (kind, name) = self._node(path[:-1]), path[-1]
            value = value.here() if isinstance(value, _values.Clock) else value
            if kind in "lg":
                variables.setdefault(path[:-1], {})[name] = value
            else:
                _set_part(parent, kind, name, value)
        for path, values in variables.items():
            _frames.set_locals(_frame_of(self._node(path)), values)
        for path in body.gone:
            _remove(self._node(path[:-1]), *path[-1])
        for path, keys in body.orders.items():
            _set_order(self._node(path).value, keys)

    def _place_iterators(self, body: Body) -> None:
        made: Dict[Path, Any] = {}
        for path in body.iterators:
            self._made(body, path, made)
        for path, iterator in body.iterators.items():
            self._retired.append(self._node(path).value)
            for held in iterator.held_at:
                self._hold(held, made[path])

    def _made(self, body: Body, path: Path, made: Dict[Path, Any]) -> Any:
        if path in made:
            return made[path]
        node, iterator = self._node(path), body.iterators[path]
        operands: Dict[int, Any] = {step[1]: child.value for step, child in node.edges.items()}
        for step, child in node.edges.items():
            if isinstance(child, Node) and child.path in body.iterators:
                operands[step[1]] = self._made(body, child.path, made)
        operands.update(iterator.operands)
        made[path] = _iterators.placed(node.value, iterator.place, [operands[number] for number in sorted(operands)])
        return made[path]

    def _hold(self, path: Path, it: Any) -> None:
        parent, (kind, name) = self._search.resolve(path[:-1]), path[-1]
        if not isinstance(parent, Node) or kind == "r":
            return  # what holds it is made anew as well
        if kind == "i":
            loop = parent.value.loop if isinstance(parent.value, Mark) else parent.value
            if isinstance(loop, Loop):
                loop.place_at(it)
        elif kind in "lg":
            _frames.set_locals(_frame_of(parent), {name: it})
        elif kind == "[" and parent.kind == "list":
            parent.value[name] = it
        else:
            _set_part(parent, kind, name, it)

    def _set_random(self, body: Body, rank: int, is_own: bool) -> None:
        own = _randomness.own_generators()
        for path, state in body.randoms.items():
            reached = self._search.resolve(path)
            generator = own.get(path[0][1]) if path[0][0] == "random" else getattr(reached, "value", None)
            if generator is None:
                continue
            if is_own or self._is_common_stream(path):
                _randomness.set_state(generator, state)
            else:
                first = self._own.get(_first.key_of(path), (_values.ABSENT,))[0]
                _randomness.reseed(generator, _randomness.derived_seed(first, rank, self.record.step))

    def _is_common_stream(self, path: Path) -> bool:
        """Equal on all members. Of one member alone: its first state was this worker's."""
        rows = self._rows(path)
        if len(self._tables) > 1:
            return len(rows) == len(self._tables) and len({now for _, now, _ in rows}) == 1
        own = self._own.get(_first.key_of(path))
        return bool(rows) and own is not None and own[0] == rows[0][0]


def _way(sites: Sequence[_frames.Site]) -> str:
    return " > ".join(f"{site.file}:{site.line}" for site in sites)


def _frame_of(node: Node) -> Any:
    return node.value.gi_frame if node.kind == "generator" else node.value


def _set_part(parent: Node, kind: str, name: Any, value: Any) -> None:
    thing = parent.value
    if kind == "[":
        thing[name] = value
    elif kind == "c":
        thing.__closure__[thing.__code__.co_freevars.index(name)].cell_contents = value
    elif isinstance(getattr(thing, "__dict__", None), dict) and name in thing.__dict__:
        thing.__dict__[name] = value  # without a __setattr__ of the script's
    else:
        try:
            setattr(thing, name, value)
        except AttributeError:
            object.__setattr__(thing, name, value)  # frozen


def _load_state(thing: Any, state: Any) -> None:
    if not isinstance(thing, torch.optim.Optimizer):
        thing.load_state_dict(state)
        return
    groups = thing.param_groups  # which the script may hold
    thing.load_state_dict(state)
    for group, new in zip(groups, thing.param_groups):
        group.clear()
        group.update(new)
    thing.param_groups = groups


def _set_content(thing: Any, value: Any) -> None:
    if isinstance(thing, torch.Tensor):
        with torch.no_grad():
            _values.local(thing).copy_(_values.local(value))
    elif isinstance(thing, (list, bytearray)):
        thing[:] = value
    elif _holders.set_content(thing, value):
        pass
    elif hasattr(thing, "extend"):  # a deque
        thing.clear()
        thing.extend(value)
    elif isinstance(thing, (dict, set)):
        thing.clear()
        thing.update(value)
    else:
        thing[...] = value  # an array


def _remove(parent: Node, kind: str, name: Any) -> None:
    thing = parent.value
    if kind == "l":
        _frames.delete_local(thing, name)
    elif kind == "[":
        thing.pop(name, None)
    elif name in getattr(thing, "__dict__", {}):
        delattr(thing, name)


def _set_order(thing: Dict[Any, Any], keys: Sequence[Any]) -> None:
    for key in keys:
        if key in thing:
            thing[key] = thing.pop(key)
