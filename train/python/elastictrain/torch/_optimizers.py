"""What an optimizer keeps: its tensors exist before the first step, in an order that is equal on all workers.

An optimizer makes its state in its first step. State must be registered before the session starts, so it is made here.
"""

import contextlib
import dataclasses
import enum
import inspect
import re
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import torch
from torch.optim import Optimizer

from ._python_state import Fixed, is_other
from ..errors import ElasticError


NEEDS_CLOSURE = ("{} makes its step by a closure that it may call several times, each of which would be a step of the run; an optimizer that "
                 "needs no closure can be made elastic")


def create_state(optimizer: Optimizer) -> None:
    """Makes the state of every parameter, as if no step had been taken. Parameters keep their values."""
    for inner in _inner_ones(optimizer):
        create_state(inner)
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    if not parameters or all(p in optimizer.state for p in parameters):
        return
    gradients = [p.grad for p in parameters]
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    _initialise(optimizer)
    _step_without_effect(optimizer, parameters)
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient


def _inner_ones(optimizer: Optimizer, known: Sequence[Optimizer] = ()) -> List[Optimizer]:
    """Those that a container of optimizers makes its step by."""
    known = [*known, optimizer]
    held = list(vars(optimizer).values())
    for value in held[:]:
        if isinstance(value, (list, tuple, dict)):
            held += value.values() if isinstance(value, dict) else value
    found: List[Optimizer] = []
    for one in held:
        if isinstance(one, Optimizer) and all(one is not other for other in (*known, *found)):
            found += [one, *_inner_ones(one, [*known, *found])]
    return found


def name_of(number: int) -> str:
    """Of an optimizer in the state."""
    return "optimizer" if number == 0 else f"optimizer{number}"


def tensors_of(optimizer: Optimizer, names: Dict[torch.Tensor, str]) -> Iterator[Tuple[str, Callable[[], torch.Tensor]]]:
    """(name, reads the present tensor) in the order of the groups, their parameters and the names of the state."""
    for number, group in enumerate(optimizer.param_groups):
        for place, parameter in enumerate(group["params"]):
            own = names.get(parameter, f"{number}.{place}")
            state = optimizer.state.get(parameter, {})
            for key in sorted(state, key=str):
                if isinstance(state[key], torch.Tensor):
                    yield f"{own}/{key}", _reader(optimizer, parameter, key)


def _reader(optimizer: Optimizer, parameter: torch.Tensor, key: str) -> Callable[[], torch.Tensor]:
    return lambda: optimizer.state[parameter][key]


def key_with_tensors_within(optimizer: Optimizer) -> Optional[Any]:
    """Of its state: the first one whose value is no tensor and holds some, which are not registered."""
    return next((key for state in optimizer.state.values() if isinstance(state, dict) for key, value in state.items()
                 if not isinstance(value, torch.Tensor) and _holds_tensor(value, 5)), None)


def _holds_tensor(value: Any, depth: int) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, (list, tuple)):
        parts = list(value)
    else:
        parts = [] if isinstance(value, type) else list(getattr(value, "__dict__", {}).values())
    return depth > 1 and any(_holds_tensor(part, depth - 1) for part in parts)


class ScaledRates:
    """Multiplies the learning rate of every step by `factor()`. Schedulers see the unscaled rate, and so does the state, also
    where a closure inside of the step makes the backward pass with which a worker gets its first state."""

    def __init__(self, optimizer: Optimizer, factor: Callable[[], float]) -> None:
        self._optimizer, self._factor, self._now = optimizer, factor, 1.0
        self._unscaled: List[Any] = []  # in a step that uses others
        self.hooks: List[Any] = [optimizer.register_step_pre_hook(self._before),
                                 optimizer.register_step_post_hook(self._after)]

    def unscale(self, groups: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
        """Hyperparameters as they are outside of a step."""
        for values, rate in zip((group for group in groups if "lr" in group), self._unscaled):
            values["lr"] = rate
        return groups

    @contextlib.contextmanager
    def unscaled(self) -> Iterator[None]:
        """For a change of the rates."""
        now, was_scaled = self._now, bool(self._unscaled)
        self._after()
        yield
        if was_scaled:
            self._scale(now)

    def _before(self, *_: Any) -> None:
        now = self._factor()
        if now != 1.0:
            self._scale(now)

    def _scale(self, factor: float) -> None:
        self._now = factor
        for group in _rated(self._optimizer):
            self._unscaled.append(group["lr"])
            group["lr"] = group["lr"] * factor

    def _after(self, *_: Any) -> None:
        for group, rate in zip(_rated(self._optimizer), self._unscaled):
            group["lr"] = rate
        self._unscaled.clear()


def _rated(optimizer: Optimizer) -> List[Dict[str, Any]]:
    """The groups that have a learning rate; a container may have none."""
    return [group for group in optimizer.param_groups if "lr" in group]


def hyperparameters(optimizer: Optimizer, rates: Optional[ScaledRates] = None) -> Tuple[Callable[[], Any],
                                                                                        Callable[[Any], None]]:
    """Reads and replaces all of the groups' values but the parameters, and state that is no tensor."""
    def read() -> Any:
        groups = [_without_parameters(group) for group in optimizer.param_groups]
        return groups if rates is None else rates.unscale(groups)

    def write(groups: List[Dict[str, Any]]) -> None:
        with contextlib.nullcontext() if rates is None else rates.unscaled():
            for group, values in zip(optimizer.param_groups, groups):
                _replace_values(group, values)

    return read, write


def _replace_values(group: Dict[str, Any], values: Dict[str, Any]) -> None:
    for key, value in values.items():
        if isinstance(value, Fixed):
            if _plain(group.get(key)) != value:
                raise ElasticError(f"'{key}' of an optimizer's group is {group.get(key)!r} here, and elsewhere it is {value.text}: a value of "
                                   "this kind cannot be handed over, and has to be equal on all workers from the start")
        elif isinstance(group.get(key), torch.Tensor):
            group[key].copy_(value)
        elif key not in group or is_other(group[key], value):  # a list of another type stays one
            group[key] = value


def refuse_other_parameters(optimizer: Optimizer, named: Iterable[Tuple[str, torch.Tensor]]) -> List[Any]:
    """From now on each step raises RuntimeError if the optimizer has other parameters than now, or one of `named` that is
    frozen now has a gradient: it would not be averaged. Returns the hooks."""
    held = [[id(parameter) for parameter in group["params"]] for group in optimizer.param_groups]
    frozen = [(name, parameter) for name, parameter in named if not parameter.requires_grad]

    def check(*_: Any) -> None:
        if [[id(parameter) for parameter in group["params"]] for group in optimizer.param_groups] != held:
            raise RuntimeError("the optimizer has other parameters than when training was made elastic. Give it all "
                               "parameters before, and freeze some with requires_grad_(False) afterwards")
        for name, parameter in frozen:
            if parameter.grad is not None:
                raise RuntimeError(f"parameter '{name}' has a gradient, but required none when training was made elastic, so "
                                   "it is not averaged. Let it require one then, and freeze it afterwards")

    return [optimizer.register_step_pre_hook(check)]


def _without_parameters(group: Dict[str, Any]) -> Dict[str, Any]:
    return {key: _plain(value) for key, value in group.items() if key != "params" and not callable(value)}


def _plain(value: Any) -> Any:
    """Settings in classes of their own are compared by their text."""
    if isinstance(value, enum.Enum) or dataclasses.is_dataclass(value):
        return Fixed(f"{type(value).__qualname__} {_ADDRESS.sub('', repr(value))}")
    return value


_ADDRESS = re.compile(" at 0x[0-9a-f]+")


def _initialise(optimizer: Optimizer) -> None:
    """By the optimizer's own method, where it has one: some start from values other than zero."""
    method = getattr(optimizer, "_init_group", None)
    if method is None:
        return
    required = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty]
    with torch.no_grad():
        for group in optimizer.param_groups:
            method(group, *([] for _ in required[1:]))


def _step_without_effect(optimizer: Optimizer, parameters: List[torch.Tensor]) -> None:
    """A step of zero gradients and rates. State that only this step makes starts from zero."""
    if any(name == "closure" and argument.default is argument.empty for name, argument in inspect.signature(optimizer.step).parameters.items()):
        raise ElasticError(NEEDS_CLOSURE.format(type(optimizer).__name__))
    stepping = [optimizer, *_inner_ones(optimizer)]
    values = [p.detach().clone() for p in parameters]
    before = [{p: {k: _copied(v) for k, v in one.state[p].items()} for p in parameters if p in one.state} for one in stepping]
    groups = [group for one in stepping for group in _rated(one)]
    rates = [group["lr"] for group in groups]
    for group, rate in zip(groups, rates):
        group["lr"] = _zero_like(rate)
    optimizer.step()
    for group, rate in zip(groups, rates):
        group["lr"] = rate
    with torch.no_grad():
        for parameter, value in zip(parameters, values):
            parameter.copy_(value)
            for one, held in zip(stepping, before):
                state = one.state.get(parameter, {})
                for key, now in state.items():
                    _restore(state, key, now, held.get(parameter, {}))


def _restore(state: Dict[str, Any], key: str, now: Any, before: Dict[str, Any]) -> None:
    if isinstance(now, torch.Tensor) and isinstance(before.get(key), torch.Tensor):
        now.copy_(before[key])
    elif isinstance(now, torch.Tensor):
        now.zero_()
    elif key in before:
        state[key] = before[key]


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _zero_like(rate: Any) -> Any:
    return torch.zeros_like(rate) if isinstance(rate, torch.Tensor) else 0.0
