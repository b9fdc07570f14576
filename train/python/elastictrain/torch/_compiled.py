"""Where torch.compile() splits a model, so that its gradients arrive all along the backward pass.

The backward pass of a compiled graph is one node of autograd: its gradients arrive together, when it is over, and no sum would
run beside it. The compiler splits a graph where a DistributedDataParallel module that it is compiled in begins a new bucket, and
asks that class for the module. Here it finds the bounds of our buckets.
"""

from typing import Any, Callable

from torch.nn.parallel import DistributedDataParallel

from . import _gradients
from ._imports import after_import


class Bounds:
    """What the compiler reads of a DistributedDataParallel module."""

    @property
    def bucket_bytes_cap(self) -> int:
        return max(_gradients.FIRST_BUCKET_BYTES, _gradients.BUCKET_BYTES)


def offer_bounds() -> Callable[[], None]:
    """For what is compiled from now on. Returns a function that ends it."""
    holder: Any = DistributedDataParallel
    before, own = holder._active_ddp_module, Bounds()
    holder._active_ddp_module = own
    after_import("torch._dynamo.backends.distributed", _split_or_not)

    def end() -> None:
        if holder._active_ddp_module is own:
            holder._active_ddp_module = before

    return end


def _split_or_not(module: Any) -> None:
    """A graph that it cannot split, with activation checkpointing in some versions, stays whole."""
    optimizer = module.DDPOptimizer
    split = optimizer.compile_fn
    if getattr(split, "is_optional", False):
        return

    def compile_fn(self: Any, graph: Any, inputs: Any, **options: Any) -> Any:
        try:
            return split(self, graph, inputs, **options)
        except NotImplementedError:
            return self.backend_compile_fn(graph, inputs, **options)

    compile_fn.is_optional = True  # type: ignore[attr-defined]
    optimizer.compile_fn = compile_fn
