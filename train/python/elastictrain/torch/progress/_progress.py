"""Progress of one worker: what it was at the first step, what it is now, and another worker's taken over."""

import pickle
import threading
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Set

from . import _first, _frames, _iterators, _pickling, _search, _values
from ._first import First, Found
from ._record import Recorder
from ._search import Atom, Node, Path, Search
from ._take import Report, Taker


class Progress:
    """`exclude`: what the caller takes care of: models, optimizers and the like. It is not carried, and only the plain
    attributes of modules are looked at. All calls are made at the same place of a step, from the same thread; the frames above
    the script's innermost one do not matter.
    """

    def __init__(self, exclude: Iterable[Any] = (), limit_bytes: Optional[int] = _pickling.MAX_BYTES) -> None:
        self._excluded = list(exclude)
        self._limit = limit_bytes
        self._first: Optional[First] = None
        self._threads: Set[str] = set()
        self._inherited: Set[Path] = set()

    @property
    def has_first(self) -> bool:
        return self._first is not None

    def note_first(self) -> None:
        """At the first step: what later values are compared with."""
        search = self._search()
        self._first = First(search, self._excluded)
        self._threads = {thread.name for thread in threading.enumerate()}

    def signature(self) -> bytes:
        """Where the script is: equal on all workers that could take over from each other. Cheap enough for each step."""
        stack = _frames.frames()
        parts = [(_frames.site_of(frame), sorted(_frames.live_loops(frame))) for frame in stack]
        return pickle.dumps(parts, _pickling.PROTOCOL)

    def record(self, step: int, extra: Any = None) -> bytes:
        """This worker's progress. `extra` travels with it. Raises RecordError where it is too large."""
        recorder = Recorder(self._found(), _frames.frames(), self._excluded, self._inherited, self._threads, self._limit)
        return recorder.made(step, extra)

    def table(self) -> bytes:
        """What others need to tell which values are equal on all workers."""
        return _pickling.sealed(_first.table_of(self._found(), self._inherited), None)

    def check(self, record: bytes, tables: Sequence[bytes] = ()) -> List[str]:
        """Why the record cannot be taken over here; nothing is set. `tables`: of all members, at the step of the record."""
        try:
            return self._taker(record, tables).problems
        except _pickling.RecordError as error:
            return [f"the record cannot be read: {error}"]

    def apply(self, record: bytes, tables: Sequence[bytes] = (), rank: int = 0,
              before_values: Optional[Callable[[Any], None]] = None, is_own: bool = False) -> Report:
        """Takes over a record that `check` finds nothing against; raises RecordError otherwise. `before_values` is called
        with the record's extra part first. `is_own`: this worker made it, in an earlier process."""
        taker = self._taker(record, tables)
        if taker.problems:
            raise _pickling.RecordError("; ".join(taker.problems))
        if before_values is not None:
            assert taker.body is not None
            before_values(taker.body.extra)
        report = taker.apply(rank, is_own)
        self._inherited = taker.taken
        return report

    def apply_role(self, record: bytes, tables: Sequence[bytes]) -> List[str]:
        """After apply(): what only the maker of the record changed, whose role this worker takes over, such as a best score. The
        record may be of an earlier step, as the maker is gone. `tables`: of members, at least one. Returns names. Raises
        RecordError where that cannot be."""
        taker = self._taker(record, tables)
        if taker.problems or not tables:
            raise _pickling.RecordError((taker.problems or ["no member has said which values it holds"])[0])
        taken = taker.apply_role()
        self._inherited |= taker.taken
        return taken

    def strayed(self, tables: Sequence[bytes]) -> Dict[str, str]:
        """Whole numbers, flags and texts that changed since the first step, are equal in all these tables and another here: by
        name, what they are here. `tables`: of at least two other members, at this step; a single one cannot tell what is its
        own."""
        opened = [_pickling.opened(table) for table in tables]
        found, made = self._found(), {}
        stack = [_frames.site_of(frame) for frame in _frames.frames()]
        for node in found.search.nodes if len(opened) > 1 else ():
            for step, child in node.edges.items() if found.number_of(node) is not None else ():
                path = found.path_of(node) + (step,)
                if isinstance(child, Atom) and type(child.value) in (int, bool, str):
                    rows = [table.get(_first.key_of(path)) for table in opened]
                    if None not in rows and self._is_agreed(rows) and rows[0][1] != child.digest:
                        made[_search.text_of(path, stack)] = f"{child.value!r:.40}"
        return made

    @staticmethod
    def _is_agreed(rows: Sequence[Any]) -> bool:
        """Changed in all members, and equal."""
        return len({now for _, now, _ in rows}) == 1 and all(before != now or inherited for before, now, inherited in rows)

    def large(self) -> Dict[str, Any]:
        """Modules and tensors that the script holds besides what is excluded, by name: candidates for the caller's own way to
        replicate state."""
        search = self._search()
        named: Dict[str, Any] = {}
        stack = [_frames.site_of(frame) for frame in _frames.frames()]
        tops = {node.number for node in _search.top_modules(search.nodes, self._excluded)}
        for node in search.nodes:
            is_large = node.kind == "tensor" and node.value.numel() > _values.WHOLE_TENSOR and node.path[-1][0] not in "lg"
            if node.number in tops or is_large:
                named[_search.text_of(node.path, stack)] = node.value
        return named

    def values(self) -> Dict[str, str]:
        """All small values and the places of iterators, by name, for comparing two runs."""
        found = self._found()
        stack = [_frames.site_of(frame) for frame in _frames.frames()]
        made: Dict[str, str] = {}
        for node in found.search.nodes:
            path = found.path_of(node)
            if node.kind == "iterator":
                made[f"{_search.text_of(path, stack)} <place>"] = f"{_iterators.place_of(node.value)!r:.200}"
            for step, child in node.edges.items():
                name = _search.text_of(path + (step,), stack)
                made[name] = _shown(child)
        return made

    def _search(self) -> Search:
        return Search(_frames.frames(), self._excluded)

    def _found(self) -> Found:
        if self._first is None:
            raise ValueError("note_first() comes first")
        return Found(self._first, self._search())

    def _taker(self, record: bytes, tables: Sequence[bytes]) -> Taker:
        found = self._found()
        opened = [_pickling.opened(table) for table in tables]
        return Taker(record, opened, found.search, _frames.frames(), _first.table_of(found, set()))


def _shown(child: Any) -> str:
    if isinstance(child, Node):
        return f"{type(child.value).__name__} {child.content.hex()}" if child.content else type(child.value).__name__
    return f"{child.value!r:.200}" if _values.clock_of(child.value) is None else "a time"
