"""A run of replicas goes on from a checkpoint of replicas of another size, or of another mesh.

The checkpoint says of each process which box of the whole each of its parts is, so any other processes find theirs in it. What was
not divided goes to each of them if it was equal in all; what was each process's own has no place in another number of them. Data are
counted in units, of which the samples that are in no committed step are counted anew.
"""

import json
import pickle
import sys
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import torch

from . import checkpoint
from ._state import Packed
from .checkpoint import PARTS, File, Part, Stored
from .progress import _pickling, _record
from .._words import number_of
from ..errors import ElasticError
from ..session import GoesOn, OtherLayout

UNITS = "elastictrain/data/parts"  # an early value: how the data are divided among the processes of a replica
SCRIPT, ANEW = "progress", "progress of others"  # attachments: of a script, by process; what another number of them needs besides
OWN_DATA = ("it is of replicas of {} processes, whose script has data of its own: how far it was in them is known for as many processes "
            "only. Resume it with --per-replica {}")


class Interval(NamedTuple):
    first: int
    count: int


class Place(NamedTuple):
    """In units of an epoch's data."""
    epoch: int
    cursor: int
    returned: List[Interval]
    used: int  # of the checkpoint's epoch
    of_epoch: int
    left_out: int  # samples that make no whole unit


class Anew(NamedTuple):
    """For a script whose processes were others: their tables, and the samples that the run has used."""
    tables: List[bytes]
    used: int
    used_in_epoch: int


def encode_units(size: int, unit: int, words: str) -> bytes:
    return json.dumps({"size": size, "unit": unit, "order": words}).encode()


def place_in_other_units(epoch: int, cursor: int, returned: Sequence[Interval], size: int, before: int, now: int) -> Place:
    """`size`: samples; `before`, `now`: samples of a unit. No sample is in a unit again that was in one that counts."""
    left = [(first * before, (first + count) * before) for first, count in returned]
    left = _joined([*left, (cursor * before, size)])
    whole = [(-(-begin // now), end // now) for begin, end in left]
    units, samples = size // now, sum(end - begin for begin, end in left)
    open_end = whole.pop() if whole and left[-1][1] == size else (units, units)
    intervals = [Interval(begin, end - begin) for begin, end in whole if begin < end]
    end = min(open_end[0], units)
    unused = units - end + sum(count for _, count in intervals)
    left_out = max(0, samples - unused * now - size % now)
    if unused == 0:
        return Place(epoch + 1, 0, [], units, units, left_out)
    return Place(epoch, end, intervals, units - unused, units, left_out)


def _joined(intervals: Sequence[Tuple[int, int]]) -> List[Tuple[int, int]]:
    found: List[Tuple[int, int]] = []
    for begin, end in sorted(intervals):
        if begin < end and found and found[-1][1] == begin:
            found[-1] = found[-1][0], end
        elif begin < end:
            found.append((begin, end))
    return found


class InMemory(File):
    """A checkpoint in memory."""

    def __init__(self, header: bytes, data: Any, early: Dict[str, bytes]) -> None:
        self.path, self._data = "it", data
        self._stored = checkpoint.stored_in(header[8:], 0)
        self._divided = checkpoint.parts_in(early)

    def read(self, name: str, number: int) -> torch.Tensor:
        return self._values(self._parts(name)[number][1])

    def of_each(self, name: str) -> List[torch.Tensor]:
        """What each process holds of a tensor that is not divided."""
        return [self._values(stored) for own, stored in self._stored.items() if _split(own)[1] == name]

    def _values(self, stored: Stored) -> torch.Tensor:
        if not stored.bytes:
            return torch.empty(stored.shape, dtype=stored.dtype)
        return torch.frombuffer(self._data, dtype=torch.uint8, count=stored.bytes, offset=stored.offset).view(stored.dtype).reshape(stored.shape)

    @property
    def processes(self) -> int:
        return 1 + max((_split(name)[0] for name in self._stored), default=0)


def take(other: OtherLayout, divisions: Sequence[Dict[str, bytes]]) -> GoesOn:
    """Fills this replica's state. `divisions`: early values of its processes. Raises ElasticError, before anything is written, where
    that cannot be."""
    early = {name: bytes.fromhex(value) for name, value in other.manifest["early"]}
    attachments = {name: bytes.fromhex(value) for name, value in other.manifest.get("attachments", [])}
    if f"shard0/{PARTS}" not in early:
        raise ElasticError("it is of workers that hold whole models, and this run's are divided among processes. Start a new run that "
                           "loads it (elastictrain.torch.checkpoint)")
    file = InMemory(other.header, other.data, early)
    goes_on, place = _place_of(other.manifest, early, divisions[0])
    if SCRIPT in attachments and UNITS not in divisions[0]:
        raise ElasticError(OWN_DATA.format(file.processes, file.processes))
    values = _values_for(other.state, file, [_parts_of(one) for one in divisions], place)
    kept = {name: value for name, value in early.items() if not name.startswith("shard")}
    found = GoesOn(early=kept, attachments=_attachments(attachments, file.processes, len(divisions), place, other.manifest), **goes_on)
    for memory, value in values:
        torch.frombuffer(memory, dtype=torch.uint8).copy_(value.contiguous().reshape(-1).view(torch.uint8))
    _tell(file.processes, len(divisions), place)
    return found


def _tell(before: int, now: int, place: Any) -> None:
    left = "" if place is None or not place.left_out else \
        f"; left out: {number_of(place.left_out, 'sample')} of this epoch, too few for a whole unit"
    print(f"elastictrain: the checkpoint's replicas had {_processes(before)}, those of this run have {_processes(now)}: its state is divided "
          f"anew{left}", file=sys.stderr, flush=True)


def _processes(count: int) -> str:
    return f"{count} process{'es' if count > 1 else ''}"


# --- The place in the data

def _place_of(manifest: Dict[str, Any], early: Dict[str, bytes], own: Dict[str, bytes]) -> Tuple[Dict[str, Any], Any]:
    sampler = manifest["sampler"]
    goes_on = {"samples_used": manifest["samples_used"], "epoch": manifest["epoch"], "cursor": sampler["cursor"],
               "returned": [tuple(one) for one in sampler["returned"]]}
    before, now = early.get(f"shard0/{UNITS}"), own.get(UNITS)
    if now is None and before is None:
        return goes_on, None
    if now is None or before is None:
        raise ElasticError("it does not say how its data were divided (another program wrote it, or an earlier version of elastictrain). "
                           "Resume it with replicas of the size that wrote it")
    then, here = json.loads(before), json.loads(now)
    for key, what in (("size", "samples"), ("order", "order of samples")):
        if then[key] != here[key]:
            raise ElasticError(f"the {what} of its data: {then[key]}; of this program's: {here[key]}")
    place = place_in_other_units(manifest["epoch"], sampler["cursor"], [Interval(*one) for one in sampler["returned"]], here["size"],
                                 then["unit"], here["unit"])
    samples = manifest["samples_used"] * then["unit"] // here["unit"]
    return {"samples_used": samples, "epoch": place.epoch, "cursor": place.cursor, "returned": list(map(tuple, place.returned))}, place


# --- The state

def _parts_of(division: Dict[str, bytes]) -> Dict[str, Part]:
    return checkpoint.decode_parts(division[PARTS]) if PARTS in division else {}


def _values_for(state: Dict[str, Any], file: InMemory, parts: Sequence[Dict[str, Part]], place: Any) -> List[Tuple[Any, torch.Tensor]]:
    """(memory, what is written there) for all of this replica's state."""
    names = {_split(name)[1] for name in state}
    for name in (*sorted(set(file.names()) - names), *sorted(names - set(file.names()))):
        where = "it has" if name not in names else "this program has"
        raise ElasticError(f"{where} a tensor '{name}', and {'this program' if name not in names else 'it'} has none of this name; use the "
                           "program that wrote it")
    found = []
    for full, memory in state.items():
        index, name = _split(full)
        value = (_small(file, full, memory, place) if name.rpartition("/")[2] == "python" else
                 _of_box(file, name, parts[index].get(name), file.is_divided(name)))
        if value.numel() * value.element_size() != len(memory):
            raise ElasticError(f"'{name}' has the shape {list(value.shape)} in it, and another one in this program; use the program that "
                               "wrote it")
        found.append((memory, value))
    return found


def _of_box(file: InMemory, name: str, part: Any, was_divided: bool) -> torch.Tensor:
    whole = file.whole(name) if was_divided else _equal(name, file.of_each(name))
    if part is None:
        return whole
    if list(whole.shape) != list(part.whole):
        raise ElasticError(f"'{name}' has the shape {list(whole.shape)} in it, and {list(part.whole)} in this program; use the program that "
                           "wrote it")
    return whole[tuple(slice(begin, begin + size) for begin, size in zip(part.begin, part.shape))]


def _equal(name: str, values: Sequence[torch.Tensor]) -> torch.Tensor:
    first = values[0].contiguous().reshape(-1).view(torch.uint8)
    for value in values[1:]:
        if not torch.equal(first, value.contiguous().reshape(-1).view(torch.uint8)):
            raise _own_to_each(name, len(values))
    return values[0]


def _own_to_each(name: str, processes: int) -> ElasticError:
    return ElasticError(f"'{name}' is another one in each process of the replicas that wrote it, so that there is none for others than these "
                        f"{processes} processes. Resume it with --per-replica {processes}")


def _small(file: InMemory, full: str, memory: Any, place: Any) -> torch.Tensor:
    """Values that are no tensors, in the memory that this program has for them."""
    own, name = Packed.around(torch.frombuffer(memory, dtype=torch.uint8)), _split(full)[1]
    there = [Packed.around(one).read() for one in file.of_each(name)]
    texts = [json.loads(text) for text in there if text is not None]
    here = json.loads(own.read() or b"{}")
    if len(texts) < len(there) or any(text.keys() != here.keys() for text in texts):
        raise ElasticError("it has other optimizers, schedulers or objects of state= than this program; use the program that wrote it")
    for key, value in texts[0].items():
        if any(text[key] != value for text in texts):
            raise _own_to_each(f"state '{key}'", len(texts))
    if place is not None and "progress" in texts[0]:
        texts[0]["progress"] = _with_samples(texts[0]["progress"], place.used)
    made = Packed(own.capacity)
    text = json.dumps(texts[0], sort_keys=True, separators=(",", ":")).encode()
    if len(text) > own.capacity:
        raise ElasticError(f"its small state (schedulers and other objects of state=) takes {len(text)} bytes; this program has room for "
                           f"{own.capacity}")
    made.write(text)
    return made.bytes


def _with_samples(progress: Dict[str, Any], used: int) -> Dict[str, Any]:
    return {**progress, "v": [[key, used if key == "samples" else value] for key, value in progress["v"]]}


def _split(name: str) -> Tuple[int, str]:
    head, _, rest = name.partition("/")
    return int(head[len("shard"):]), rest


# --- What a script has attached

def _attachments(held: Dict[str, bytes], before: int, now: int, place: Any, manifest: Dict[str, Any]) -> Dict[str, bytes]:
    if SCRIPT not in held:
        return {} if not held else _of_all(held, before, now)
    others = {name: value for name, value in held.items() if name.rpartition("/")[2] != SCRIPT}
    records = [held.get(_key(index, SCRIPT)) for index in range(before)]
    if None in records:
        raise ElasticError("it does not say of all processes how far their script was")
    try:
        tables = [_pickling.sealed(_record.Record(*_pickling.opened(record)).table, None) for record in records]  # type: ignore[arg-type]
    except _pickling.RecordError as error:
        raise ElasticError(f"how far its script was cannot be read: {error}") from None
    anew = pickle.dumps(tuple(Anew(tables, manifest["epoch"] * place.of_epoch + place.used, place.used)))
    found = _of_all(others, before, now)
    for index in range(now):
        like = index if index < before else before - 1
        found[_key(index, SCRIPT)], found[_key(index, ANEW)] = records[like], anew  # type: ignore[assignment]
    return found


def _of_all(held: Dict[str, bytes], before: int, now: int) -> Dict[str, bytes]:
    """What every process has attached alike."""
    found: Dict[str, bytes] = {}
    for name in [name for name in held if not name.startswith("shard")]:
        if any(held.get(_key(index, name)) != held[name] for index in range(before)):
            raise _own_to_each(f"attachment '{name}'", before)
        found.update({_key(index, name): held[name] for index in range(now)})
    return found


def _key(index: int, name: str) -> str:
    return name if index == 0 else f"shard{index}/{name}"
