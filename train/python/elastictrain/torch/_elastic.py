"""The door of the two-line interface: `elastic()`."""

import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Type, TypeVar, Union

from torch import nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from . import _loader, _options, _replica as _torch_replica
from ._buffers import has_statistics
from ._options import Data, Plan, State
from ._run import ElasticRun
from .. import _replica, _replica_session
from ..errors import ElasticError
from ..session import Session

Run = TypeVar("Run", bound=ElasticRun)


def elastic(model: nn.Module, optimizer: Union[Optimizer, Sequence[Optimizer]], dataset: Any, *, data: Optional[Data] = None,
            state: Union[State, Dict[str, Any], None] = None, warm_up: Optional[Callable[[Any], Any]] = None,
            leave: str = "exit", **options: Any) -> ElasticRun:
    """Makes a training loop elastic. Call it once, when model and optimizer are complete and on their device.

    model: a module with float32, float16 or bfloat16 parameters, on a CPU or a CUDA device, equal on all workers.
    optimizer: one, or several for disjoint parameters; its state is created here.
    dataset: has __getitem__ and __len__; or a DataLoader, whose settings are taken over.
    data: how the samples are divided into steps.
    state: what else an update changes, by name: schedulers, a GradScaler, averaged models, tensors, dictionaries. A State where
        the first worker, or each one, keeps something for itself.
    warm_up: a function of a batch that makes one forward and backward pass; by default a pass is guessed.
    leave: "exit": the loop ends the program with status 0 when this worker leaves or the run is stopped; "return": the
        loop ends, and `run.outcome` tells why.
    options: fields of Data, which count before `data` (batch=64, epochs=10, accumulation=4, …), and options of torch's
        DataLoader (num_workers=2, collate_fn=…).

    Raises TypeError for what cannot be trained in this way, and SessionError where the run cannot be joined. Called again in
    a program that trains alone (a notebook), it closes the earlier run first.
    """
    if leave not in ("exit", "return"):
        raise ValueError(f"leave is 'exit' or 'return', not {leave!r}")
    data, state = _options.read(data, state, options)
    if isinstance(dataset, DataLoader):
        own_batch, own_drop_last = _loader.division_of(dataset)
        data.batch, data.drop_last = own_batch or data.batch, data.drop_last or own_drop_last
        data.loader = {**_loader.options_of(dataset), **data.loader}
        dataset = dataset.dataset
    optimizers = [optimizer] if isinstance(optimizer, Optimizer) else list(optimizer)
    return make(ElasticRun, Plan(model, optimizers, dataset, data, state, warm_up, exits=leave == "exit"))


def make(kind: Type[Run], plan: Plan, session: Optional[Session] = None) -> Run:
    """A run over `session`, or over one of its own. Raises as elastic() does."""
    if plan.data.min_batch is None:
        plan.data.min_batch = 2 if has_statistics(plan.model) else 0
    _close_earlier()
    # The loop of a process that becomes another worker would be in an epoch that is over.
    os.environ.pop("ELASTICTRAIN_PARKS", None)
    session = session or new_session()
    try:
        run = kind(session, plan)
    except BaseException:
        if not session.launched:  # a notebook may call again; the worker of a run ends with its error
            session.close()
        raise
    _earlier.append(run)
    return run


def new_session() -> Any:
    """Of this process, or what it uses as one in a replica of several."""
    here = _replica.current()
    if here is None and (_torch_replica.size_of_run() or 1) > 1:
        raise ElasticError(f"the run says --per-replica {_torch_replica.size_of_run()}, but this worker is one process: call "
                           "elastictrain.torch.replica() first in the program, or start the run without it")
    return Session() if here is None else _replica_session.of(here)


_earlier: List[ElasticRun] = []  # the last run of this process


def _close_earlier() -> None:
    """A cell of a notebook may run again, also after an interrupt. The worker of a launched run has one session."""
    if _earlier and not _earlier[0].session.launched:
        _earlier.pop().close()
