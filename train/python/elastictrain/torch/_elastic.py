"""The door of the two-line interface: `elastic()`."""

import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Type, Union

from torch import nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from . import _loader
from ._buffers import has_statistics
from ._run import ElasticRun
from ..session import Session


def elastic(model: nn.Module, optimizer: Union[Optimizer, Sequence[Optimizer]], dataset: Any, *, batch: int = 32,
            epochs: int = 1, state: Optional[Dict[str, Any]] = None, shuffle: bool = True, seed: int = 0,
            max_steps: int = 0, drop_last: bool = False, min_batch: Optional[int] = None, accumulation: int = 1,
            first_state: Optional[Dict[str, Any]] = None, first_state_every: int = 1, local_state: Sequence[str] = (),
            warm_up: Optional[Callable[[Any], Any]] = None, leave: str = "exit",
            _kind: Type[ElasticRun] = ElasticRun, _session: Optional[Session] = None, _order: Any = None,
            _batch_of_all: bool = False, **loader: Any) -> ElasticRun:
    """Makes a training loop elastic. Call it once, when model and optimizer are complete and on their device.

    model: a module with float32, float16 or bfloat16 parameters, on a CPU or a CUDA device, equal on all workers.
    optimizer: one, or several for disjoint parameters; its state is created here.
    dataset: has __getitem__ and __len__; or a DataLoader, whose settings are taken over.
    batch: samples per worker and step; the run's --batch counts before it. The loss must be a mean over the samples.
    state: what else an update changes, by name: schedulers, a GradScaler, averaged models, tensors, dictionaries.
    first_state: what the first worker alone keeps up to date (`if run.is_first: …`), by name, with the same kinds of values:
        an average of the weights, a best score, a history. Its values as of the begin of a step reach all workers, so that
        the next first worker goes on with them, and checkpoints have them. Tensors must be on the CPU and contiguous.
    first_state_every: steps from one such sending to the next; a first worker that is lost takes with it what it wrote since.
    local_state: names of the model's buffers ("*" and "?" match) that are each worker's own: neither averaged, compared nor
        sent to new workers. Checkpoints have them, rank by rank, and a run that resumes gives them back.
    min_batch: samples that a batch has at least; by default 2 for a model with BatchNorm, which cannot train on one.
    accumulation: batches, each with a backward pass, from which a step is made; gradients are those of all of them.
    warm_up: a function of a batch that makes one forward and backward pass; by default a pass is guessed.
    leave: "exit": the loop ends the program with status 0 when this worker leaves or the run is stopped; "return": the
        loop ends, and `run.outcome` tells why.
    loader: options of torch's DataLoader: num_workers, collate_fn, prefetch_factor, multiprocessing_context, …

    Raises TypeError for what cannot be trained in this way, and SessionError where the run cannot be joined. Called again in
    a program that trains alone (a notebook), it closes the earlier run first.
    """
    if leave not in ("exit", "return"):
        raise ValueError(f"leave is 'exit' or 'return', not {leave!r}")
    if isinstance(dataset, DataLoader):
        own_batch, own_drop_last = _loader.division_of(dataset)
        batch, drop_last, loader = own_batch or batch, drop_last or own_drop_last, {**_loader.options_of(dataset), **loader}
        dataset = dataset.dataset
    if min_batch is None:
        min_batch = 2 if has_statistics(model) else 0
    data = dict(epochs=epochs, batch=accumulation * batch, batch_of_all=_batch_of_all,
                batches_per_step=accumulation, shuffle=shuffle, seed=seed,
                max_steps=max_steps, drop_last=drop_last,
                min_local_samples=accumulation * min(max(min_batch, int(accumulation > 1)), batch))
    optimizers = [optimizer] if isinstance(optimizer, Optimizer) else list(optimizer)
    _close_earlier()
    # The loop of a process that becomes another worker would be in an epoch that is over.
    os.environ.pop("ELASTICTRAIN_PARKS", None)
    session = _session or Session()
    try:
        run = _kind(session, model, optimizers, dataset, data, dict(state or {}), warm_up, leave == "exit", loader,
                    accumulation, local_state, dict(first_state or {}), first_state_every, _order)
    except BaseException:
        if not session.launched:  # a notebook may call again; the worker of a run ends with its error
            session.close()
        raise
    _earlier.append(run)
    return run


_earlier: List[ElasticRun] = []  # the last run of this process


def _close_earlier() -> None:
    """A cell of a notebook may run again, also after an interrupt. The worker of a launched run has one session."""
    if _earlier and not _earlier[0].session.launched:
        _earlier.pop().close()
