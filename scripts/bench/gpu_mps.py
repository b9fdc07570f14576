"""NVIDIA's multi-process service: kernels of several processes run side by side on one GPU, where they would take turns
otherwise, so that speeds of ranks that share one can be compared."""

import contextlib
import os
import shutil
import subprocess
import tempfile

CONTROL = "nvidia-cuda-mps-control"


def is_there():
    return shutil.which(CONTROL) is not None


@contextlib.contextmanager
def used():
    """By the programs that are started meanwhile. The service is one of its own: other programs go on without it."""
    names = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")
    folder = tempfile.mkdtemp(prefix="et-mps-")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, folder))
    try:
        subprocess.run([CONTROL, "-d"], check=True, timeout=30)
        yield
    finally:
        subprocess.run([CONTROL], input="quit\n", text=True, timeout=30, stdout=subprocess.DEVNULL)
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        shutil.rmtree(folder, ignore_errors=True)  # the service may still write there
