"""Policies in Python: a function or a class decides on the size of a run, beside it.

    # more.py
    def decide(view):
        return view.job.workers + 1 if view.job.samples_per_s_each > 100 else None

    [policy]
    program = ["python3", "-m", "elastictrain.policy", "more.py:decide"]

A class gets the words behind its name as arguments, and `decide(view)` is called for each view. What it returns: None (no
change), a number of workers, a Decision, or a dictionary as in supervisor/policy/README.md, which has the meaning of all
fields. An exception ends the policy with its traceback in the run's output; the run trains on at its size. What a policy
prints appears in the run's output.

A file that is started itself calls serve(): `if __name__ == "__main__": elastictrain.policy.serve(decide)`.
"""

import importlib
import importlib.util
import json
import os
import sys
from dataclasses import asdict, dataclass, field, fields
from typing import IO, Any, Callable, Dict, List, Optional, Sequence, Type, TypeVar, Union

T = TypeVar("T")


@dataclass
class Interval:
    """A stretch of training at one size."""
    begin_s: float = 0.0
    end_s: float = 0.0
    workers: int = 0
    steps: int = 0
    samples: int = 0
    global_batch: int = 0
    warm_up: bool = False  # the first steps after a change, which measure nothing


@dataclass
class Member:
    """A worker, with its means over `steps`, in seconds."""
    id: int = 0
    rank: int = 0
    host: int = 0  # an index into View.hosts
    share: int = 0  # samples per step
    steps: int = 0
    step_s: float = 0.0
    data_wait_s: float = 0.0
    compute_s: float = 0.0
    communicate_s: float = 0.0
    update_s: float = 0.0
    sent_bytes: float = 0.0  # a step, over sockets
    received_bytes: float = 0.0
    round_trip_s: float = 0.0  # to the farthest worker that it is connected to
    processors: float = 0.0  # that its process has kept busy since the last view


@dataclass
class Host:
    name: str = ""
    host_class: str = ""
    slots: int = 0
    free_slots: int = 0
    price_per_worker_hour: float = 0.0
    leaving: bool = False


@dataclass
class Norms:
    """Means over `count` steps since the last view. Of a single worker, `local` is of halves of its batch, if its program
    reports them; otherwise both batches are equal, and nothing can be learned from them."""
    count: int = 0
    local_square: float = 0.0
    local_batch: float = 0.0
    global_square: float = 0.0
    global_batch: float = 0.0
    workers: int = 0

    @property
    def gradient_square(self) -> Optional[float]:
        """The squared norm of the true gradient; None unless norms of two batch sizes are known."""
        small, big = self.local_batch, self.global_batch
        if not self.count or not big > small > 0:
            return None
        return (big * self.global_square - small * self.local_square) / (big - small)

    @property
    def variance(self) -> Optional[float]:
        """Of the gradient of one sample, summed over its elements; None as above."""
        small, big = self.local_batch, self.global_batch
        if not self.count or not big > small > 0:
            return None
        return (self.local_square - self.global_square) / (1 / small - 1 / big)


@dataclass
class Batch:
    """What the configuration says of it."""
    per_worker: int = 0
    max_global: int = 0  # 0: no limit
    at_limit: str = "stop"


@dataclass
class Job:
    """The run. `raw` has every field as it was sent."""
    name: str = ""
    workers: int = 0
    target: int = 0
    min_workers: int = 1
    max_workers: int = 1
    held: bool = False  # by a user, at the present size
    reachable: int = 0
    start_s: float = 0.0  # that a worker took to start
    spares: int = 0
    changing: bool = False
    has_loss: bool = False
    loss: float = 0.0
    samples_done: float = 0.0
    samples_total: float = 0.0
    steps_done: float = 0.0
    batch: Batch = field(default_factory=Batch)
    global_batch: int = 0
    base_batch: int = 0
    learning_rate_factor: float = 1.0
    topology: str = ""
    synchronization: str = ""
    worker_seconds: float = 0.0
    cost: float = 0.0
    intervals: List[Interval] = field(default_factory=list)
    members: List[Member] = field(default_factory=list)
    norms: Norms = field(default_factory=Norms)
    raw: Dict[str, Any] = field(default_factory=dict)

    @property
    def limit(self) -> int:
        """The most workers that the run may have and that hosts have slots for."""
        return min(self.max_workers, self.reachable)

    @property
    def samples_per_s(self) -> float:
        """At the present size, since the last view; 0 if nothing was measured."""
        measured = [part for part in self.intervals if part.workers == self.workers and not part.warm_up]
        seconds = sum(part.end_s - part.begin_s for part in measured)
        return sum(part.samples for part in measured) / seconds if seconds > 0 else 0.0

    @property
    def samples_per_s_each(self) -> float:
        """The same for each worker."""
        return self.samples_per_s / self.workers if self.workers else 0.0


@dataclass
class View:
    """What a policy sees."""
    now_s: float
    job: Job
    hosts: List[Host]


@dataclass
class Decision:
    """A field that is None changes nothing. `code` is one word for the journal, `reason` what `status` shows."""
    workers: Optional[int] = None
    per_worker_batch: Optional[int] = None
    learning_rate_factor: Optional[float] = None
    topology: Optional[str] = None
    synchronization: Optional[str] = None
    replacements: Optional[List[Dict[str, Any]]] = None
    speeds: Optional[List[Dict[str, Any]]] = None
    code: str = "decided"
    reason: str = ""
    numbers: Dict[str, float] = field(default_factory=dict)


Answer = Union[None, int, Decision, Dict[str, Any]]


class NoiseScale:
    """The gradient noise scale in samples (McCandlish and others, 2018), from the norms of the views: the batch beyond which
    a larger one saves few steps."""

    def __init__(self, decay: float = 0.9) -> None:
        self._decay = decay
        self._noise = self._gradient = 0.0

    def add(self, norms: Norms) -> Optional[float]:
        """Takes the norms of one view. Returns the present estimate; None until norms of two batch sizes are known."""
        gradient, noise = norms.gradient_square, norms.variance
        if gradient is not None and noise is not None:
            share = 1 - self._decay
            self._gradient += share * (gradient - self._gradient)
            self._noise += share * (noise - self._noise)
        return self._noise / self._gradient if self._gradient > 0 and self._noise > 0 else None


def view_of(line: str) -> View:
    """Of one line of the run. Fields that this version does not know are in Job.raw only."""
    seen = json.loads(line)
    job = seen["jobs"][0]
    made = _made(Job, {**job, "raw": job})
    made.intervals = [_made(Interval, part) for part in job.get("intervals", [])]
    made.members = [_made(Member, part) for part in job.get("members", [])]
    made.norms = _made(Norms, job.get("norms", {}))
    made.batch = _made(Batch, job.get("batch", {}))
    return View(float(seen.get("now_s", 0)), made, [_made(Host, host) for host in seen.get("hosts", [])])


def line_of(answer: Answer) -> str:
    """The line of an answer. Raises TypeError for anything that is no answer."""
    if answer is None:
        job: Dict[str, Any] = {}
    elif isinstance(answer, int) and not isinstance(answer, bool):
        job = {"workers": answer}
    elif isinstance(answer, Decision):
        job = {key: value for key, value in asdict(answer).items()
               if value is not None and key not in ("code", "reason", "numbers")}
        job["reason"] = {"code": answer.code, "text": answer.reason, "numbers": answer.numbers}
    elif isinstance(answer, dict):
        job = answer
    else:
        raise TypeError(f"a policy returns None, a number of workers, a Decision or a dictionary, not {answer!r}")
    return json.dumps({"jobs": [job]})


def serve(decide: Any, source: Optional[IO[str]] = None, target: Optional[IO[str]] = None) -> None:
    """Answers the views of a run until its end. `decide`: a function of a View, or an object with such a method `decide`.
    `source` and `target` are standard input and output; what the policy prints goes to standard error."""
    call: Callable[[View], Answer] = getattr(decide, "decide", decide)
    views = source or sys.stdin
    answers = target or _own_output()
    for line in views:
        answers.write(line_of(call(view_of(line))) + "\n")
        answers.flush()


def load(name: str, arguments: Sequence[str]) -> Any:
    """The policy "FILE.py:NAME" or "module:NAME"; a class is made with the arguments. Raises ImportError or TypeError."""
    place, colon, attribute = name.rpartition(":")
    if not colon or not place or not attribute:
        raise ImportError(f"a policy is FILE.py:NAME or module:NAME, not '{name}'")
    if not place.endswith(".py"):
        sys.path.insert(0, os.getcwd())
    module = _from_file(place) if place.endswith(".py") else importlib.import_module(place)
    found = getattr(module, attribute, None)
    if isinstance(found, type):
        return found(*arguments)
    if not callable(found):
        raise ImportError(f"{place} has no function or class '{attribute}'")
    if arguments:
        raise TypeError(f"{name} is a function, which takes no arguments; write a class for {' '.join(arguments)}")
    return found


def _from_file(path: str) -> Any:
    if not os.path.exists(path):
        raise ImportError(f"{os.path.abspath(path)}: there is no such file")
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    specification = importlib.util.spec_from_file_location("elastictrain_user_policy", path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module  # where dataclasses look
    specification.loader.exec_module(module)
    return module


def _own_output() -> IO[str]:
    """Standard output for answers alone: what else is written there goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return answers


def _made(kind: Type[T], values: Dict[str, Any]) -> T:
    known = {member.name for member in fields(kind)}  # type: ignore[arg-type]
    return kind(**{key: value for key, value in values.items() if key in known})


def main(words: Sequence[str]) -> None:
    """The command line: FILE.py:NAME [ARGUMENT…]."""
    if not words:
        raise SystemExit("usage: python -m elastictrain.policy FILE.py:NAME [ARGUMENT…]")
    answers = _own_output()  # before the policy is read, which may print as well
    try:
        policy = load(words[0], words[1:])
    except (ImportError, TypeError) as error:
        raise SystemExit(f"elastictrain.policy: {error}") from None
    serve(policy, target=answers)


if __name__ == "__main__":
    # The module of this name, whose classes the policy's file imports, too.
    importlib.import_module("elastictrain.policy").main(sys.argv[1:])
