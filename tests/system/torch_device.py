"""A stand-in for GPUs that torch takes for a device of the kind "standin" (tests/standin/torch_device.cc). build() compiles it; a program
that is started with its path in ET_TORCH_DEVICE computes there. A host that reads the device's memory dies, and copies in streams of
their own are made when somebody waits for them. Where torch sees GPUs, these are used (ET_TORCH_DEVICE is "cuda" then).
"""

import importlib.util
import os
import subprocess
import sys
import types

KIND = "standin"
GPUS = "cuda"
PATH = "ET_TORCH_DEVICE"  # of the library
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "standin", "torch_device.cc")


PLACES = """
import os, sysconfig, torch
from torch.utils import cpp_extension
print(os.path.join(os.path.dirname(torch.__file__), "lib"), sysconfig.get_paths()["include"], *cpp_extension.include_paths(), sep="\\n")
"""


def find(python, folder):
    """What a program's ET_TORCH_DEVICE is to be. Raises as build()."""
    asked = "import torch; print(torch.cuda.is_available())"
    has_gpus = subprocess.run([python, "-W", "ignore", "-c", asked], check=True, capture_output=True, text=True).stdout.strip() == "True"
    return GPUS if has_gpus else build(python, folder)


def build(python, folder):
    """For the torch of this Python. Returns the library's path. Raises CalledProcessError with the compiler's words, and FileNotFoundError
    where that Python has no headers."""
    libraries, *includes = subprocess.run([python, "-W", "ignore", "-c", PLACES], check=True, capture_output=True,
                                          text=True).stdout.splitlines()
    if not os.path.exists(os.path.join(includes[0], "Python.h")):
        raise FileNotFoundError(f"{includes[0]}/Python.h, of Debian's python3-dev")
    path = os.path.join(folder, "standin_device.so")
    subprocess.run(["c++", "-std=c++20", "-O1", "-w", "-shared", "-fPIC", "-DTORCH_EXTENSION_NAME=standin_device",
                    *(f"-I{include}" for include in includes), SOURCE, "-o", path, f"-L{libraries}", "-ltorch", "-ltorch_cpu", "-lc10",
                    "-ltorch_python"], check=True, capture_output=True, text=True)
    return path


def kind_of_programs():
    """Of the devices that the programs of this test use."""
    found = os.environ.get(PATH, "cpu")
    return found if found in ("cpu", GPUS) else KIND


def kind():
    """The same in such a program, whose torch knows them from here on."""
    if kind_of_programs() == KIND and "standin_device" not in sys.modules:
        _install()
    return kind_of_programs()


def use(number):
    """From here on, in this process. Processes share GPUs if there are too few."""
    if kind() == KIND:
        sys.modules["standin_device"].set_device(number)
    if kind() == GPUS:
        import torch
        count = torch.cuda.device_count()
        if number >= count:
            os.environ["NCCL_HOSTID"] = f"{os.getpid()}"  # two ranks on a GPU of one host are none to NCCL
        torch.cuda.set_device(number % count)


def _install():
    import torch
    import torch.distributed as dist
    torch.utils.rename_privateuse1_backend(KIND)
    library = _load(os.environ[PATH])
    torch._register_device_module(KIND, _module(torch, library))
    torch.utils.generate_methods_for_privateuse1_backend()

    def make_group(store, rank, size, timeout):
        return library.make_group(dist.ProcessGroupGloo(store, rank, size, timeout))

    dist.Backend.register_backend(KIND, make_group, devices=[KIND])


def _load(path):
    spec = importlib.util.spec_from_file_location("standin_device", path)
    library = importlib.util.module_from_spec(spec)
    sys.modules["standin_device"] = library
    spec.loader.exec_module(library)
    return library


def _module(torch, library):
    module = types.ModuleType(f"torch.{KIND}")
    module.device_count, module.current_device = library.device_count, library.current_device
    module.set_device = lambda device: library.set_device(device if isinstance(device, int) else torch.device(device).index or 0)
    module.is_initialized = library.is_chosen
    module.synchronize = lambda device=None: library.synchronize()
    module.is_available = lambda: True
    module._is_in_bad_fork = lambda: False
    random = _Random(torch, library)
    module.manual_seed_all = random.seed
    module.get_rng_state, module.set_rng_state = random.state, random.go_on_from
    module.mem_get_info = lambda device=None: (400 << 20, 1 << 30)  # free, in all
    module.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
    module.Stream = lambda device=None, priority=0: torch.Stream(device=torch.device(KIND, library.current_device()))
    module.Event = lambda **options: torch.Event(KIND)
    module.current_stream = lambda device=None: torch.accelerator.current_stream()
    module.set_stream = torch.accelerator.set_stream
    module.stream = _InStream
    return module


class _Random:
    """Of the device: a seed and an offset, as those of GPUs. What is drawn does not move the offset."""

    def __init__(self, torch, library):
        self._torch, self._library, self._now = torch, library, (0, 0)

    def seed(self, seed):
        self.go_on_from(self._torch.tensor([seed % (1 << 63), 0]).view(self._torch.uint8))

    def state(self, device=None):
        return self._torch.tensor(self._now).view(self._torch.uint8)

    def go_on_from(self, state, device=None):
        self._now = tuple(state.view(self._torch.int64).tolist())
        self._library.seed(hash(self._now) % (1 << 63))


class _InStream:
    def __init__(self, stream):
        self._stream = stream

    def __enter__(self):
        import torch
        self._before = torch.accelerator.current_stream()
        if self._stream is not None:
            torch.accelerator.set_stream(self._stream)

    def __exit__(self, *_):
        import torch
        torch.accelerator.set_stream(self._before)
