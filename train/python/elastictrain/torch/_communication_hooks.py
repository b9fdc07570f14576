"""The communication hooks that a script registers with DistributedDataParallel: what the run's sums are in their place.

A hook replaces DDP's own sum. Those that only choose the type in which gradients travel change no result that counts: the run
sums in single precision, which rounds less. Any other would change what is learned, and is refused by its name.
"""

from typing import Any, Callable, Dict, List

from ..errors import ElasticError

_TORCHS = "torch.distributed.algorithms."
_TYPES = {"fp16_compress_hook": "float16", "bf16_compress_hook": "bfloat16", "fp16_compress_wrapper_hook": "float16",
          "bf16_compress_wrapper_hook": "bfloat16", "FP16_COMPRESS": "float16"}
_PLAIN = ("allreduce_hook", "ALLREDUCE")
_AVERAGING = "synchronization.strategy = \"averaging\" of the configuration exchanges less between slow machines"
_INSTEAD: Dict[str, str] = {
    "powerSGD_hook": f"which approximates them. Leave it out; {_AVERAGING}",
    "batched_powerSGD_hook": f"which approximates them. Leave it out; {_AVERAGING}",
    "post_localSGD_hook": f"which leaves most of them out. Leave it out; {_AVERAGING}",
    "noop_hook": "which leaves all of them out. Leave it out"}


def accepted(hook: Any) -> List[str]:
    """What is to be said of it. Raises ElasticError for a hook that cannot be replaced."""
    name = _name_of(hook)
    if name in _PLAIN:
        return []
    if name in _TYPES:
        wrapped = _wrapped_by(hook)
        return [f"{name}: gradients are summed in float32, not in {_TYPES[name]}, as without it",
                *(accepted(wrapped) if wrapped is not None else [])]
    why = _INSTEAD.get(name, "which elastictrain cannot call: it averages gradients itself, so that a sum can be repeated after "
                             "a loss. Leave it out")
    raise ElasticError(f"this script registers the communication hook {name} for its gradients, {why}")


def _name_of(hook: Any) -> str:
    """Of a function of torch's or of its built-in ones; that of the script's own is never one of those."""
    name = str(getattr(hook, "__name__", getattr(hook, "name", None) or type(hook).__name__))
    is_torchs = str(getattr(hook, "__module__", "")).startswith(_TORCHS) or "BuiltinCommHookType" in type(hook).__name__
    return name if is_torchs else f"{name}()"


def _wrapped_by(hook: Callable[..., Any]) -> Any:
    """The hook that fp16_compress_wrapper() and its like call between their conversions."""
    cells = dict(zip(getattr(getattr(hook, "__code__", None), "co_freevars", ()), getattr(hook, "__closure__", None) or ()))
    return cells["hook"].cell_contents if "hook" in cells else None
