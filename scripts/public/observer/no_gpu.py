"""Lets a script that insists on CUDA run on the CPU: device numbers and CUDA devices mean the CPU, nccl means gloo.

`torch.cuda.is_available()` stays false, so that libraries behave as on a machine without a GPU; `torch.accelerator` tells
scripts that there are eight devices named cuda.
"""

import functools
import sys

DEVICES = 8
FACTORIES = ("tensor", "zeros", "ones", "empty", "full", "arange", "rand", "randn", "randint", "randperm", "eye",
             "as_tensor", "linspace")


def install(torch):
    def is_gpu(place):
        return type(place) is int or isinstance(place, (str, torch.device)) and str(place).startswith(("cuda", "accel"))

    def to_cpu(place):
        return "cpu" if is_gpu(place) else place

    torch.optim.SGD([torch.zeros(1)], lr=1.0)  # imports what looks at the functions that are replaced here
    _map_moves(torch, to_cpu)
    _map_factories(torch, to_cpu)
    _pretend(torch)
    _map_groups(torch)


def _map_moves(torch, to_cpu):
    for kind in (torch.Tensor, torch.nn.Module):
        move = kind.to

        def moved(self, *arguments, _move=move, **named):
            if "device" in named:
                named["device"] = to_cpu(named["device"])
            return _move(self, *[to_cpu(one) for one in arguments[:1]], *arguments[1:], **named)

        kind.to = functools.wraps(move)(moved)
        kind.cuda = lambda self, *_, **__: self
    torch.Tensor.pin_memory = lambda self, *_, **__: self
    load = torch.load

    def loaded(file, map_location=None, **named):
        return load(file, map_location=map_location if callable(map_location) else to_cpu(map_location or "cpu"), **named)

    torch.load = loaded


def _map_factories(torch, to_cpu):
    for name in FACTORIES:
        make = getattr(torch, name)

        def made(*arguments, _make=make, **named):
            if named.get("device") is not None:
                named["device"] = to_cpu(named["device"])
            return _make(*arguments, **named)

        setattr(torch, name, functools.wraps(make)(made))


def _for_scripts(original, value):
    """Answers a script with the value, and libraries that look at the machine with the truth."""
    def answer(*arguments, **named):
        module = sys._getframe(1).f_globals["__name__"].split(".")[0]
        return original(*arguments, **named) if module in ("torch", "elastictrain") else value

    return answer


def _pretend(torch):
    cuda, accelerator = torch.cuda, torch.accelerator
    cuda.set_device = cuda.synchronize = cuda.empty_cache = lambda *_, **__: None
    cuda.device_count = _for_scripts(cuda.device_count, DEVICES)
    cuda.current_device = lambda: 0
    accelerator.is_available = _for_scripts(accelerator.is_available, True)
    accelerator.device_count = _for_scripts(accelerator.device_count, DEVICES)
    accelerator.current_accelerator = _for_scripts(accelerator.current_accelerator, torch.device("cuda"))
    accelerator.set_device_index = accelerator.set_device_idx = accelerator.synchronize = lambda *_, **__: None


def _map_groups(torch):
    distributed = torch.distributed
    begin = distributed.init_process_group

    def beginning(backend=None, *arguments, device_id=None, **named):
        return begin("gloo" if backend in (None, "nccl") else backend, *arguments, **named)

    distributed.init_process_group = distributed.distributed_c10d.init_process_group = beginning
    distributed.get_default_backend_for_device = lambda _: "gloo"
    wrapper = torch.nn.parallel.DistributedDataParallel
    construct = wrapper.__init__

    def constructed(self, module, device_ids=None, output_device=None, *rest, **named):
        construct(self, module, None, None, *rest, **named)

    wrapper.__init__ = functools.wraps(construct)(constructed)
