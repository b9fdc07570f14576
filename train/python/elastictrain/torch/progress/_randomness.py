"""Random number generators: the process's own and those that a script holds."""

import hashlib
import pickle
import random
from typing import Any, Dict

import torch

from . import _values


def state_of(generator: Any) -> Any:
    """Of a generator that the script holds."""
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, torch.Generator):
        return _values.bytes_of(generator.get_state())
    return generator.get_state() if hasattr(generator, "get_state") else generator.bit_generator.state


def set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif isinstance(generator, torch.Generator):
        generator.set_state(_values.tensor_from(state, "uint8", (len(state),), "cpu", False))
    elif hasattr(generator, "set_state"):
        generator.set_state(state)
    else:
        generator.bit_generator.state = state


def reseed(generator: Any, seed: int) -> None:
    """Makes it a stream of its own."""
    if isinstance(generator, random.Random):
        generator.seed(seed)
    elif isinstance(generator, torch.Generator):
        generator.manual_seed(seed)
    elif hasattr(generator, "get_state"):
        generator.seed(seed & 0xFFFFFFFF)
    else:
        generator.bit_generator.state = type(generator.bit_generator)(seed).state


def digest_of(state: Any) -> bytes:
    return hashlib.blake2b(pickle.dumps(state, 4), digest_size=_values.DIGEST_BYTES).digest()


def derived_seed(first_state: bytes, rank: int, step: int) -> int:
    """Of a stream that is this worker's alone, from the digest of its own first state."""
    text = first_state + f":{rank}:{step}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=7).digest(), "little")


def own_generators() -> Dict[str, Any]:
    """Those that the functions of torch, numpy and random use."""
    found: Dict[str, Any] = {"torch": torch.default_generator, "random": random._inst}  # type: ignore[attr-defined]
    numpy = _values.numpy()
    if numpy is not None:
        found["numpy"] = numpy.random.mtrand._rand
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found["cuda"] = torch.cuda.default_generators[torch.cuda.current_device()]
    return found
