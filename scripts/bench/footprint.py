"""What the binary and the library ask of a machine: size, symbols, libraries, time to start; and what is said where CUDA,
NCCL and MPI are absent."""

import os
import statistics
import subprocess
import tempfile
import time

import rows
from harness import BINARY, job, synthetic, toml

LIBRARY = os.path.join(rows.BUILD, "train", "libelastictrain.so")
VENDOR_LIBRARIES = ("CUDA", "NVRTC", "CUBLAS", "NCCL", "MPI")


def output_of(*argv):
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError as error:
        raise rows.Unavailable(f"{argv[0]} is not installed") from error


def bare_environment():
    """Of a machine without vendor libraries: what the loader would find is overridden by files that are not there."""
    nowhere = {f"ELASTICTRAIN_{name}_LIBRARY": "/nonexistent" for name in VENDOR_LIBRARIES}
    return {**os.environ, "LD_LIBRARY_PATH": "", **nowhere}


def needed_libraries(path):
    return [line.split()[0] for line in output_of("ldd", path).splitlines() if "=>" in line]


def stripped_size(path):
    """In MB, without what only debuggers need."""
    with tempfile.NamedTemporaryFile() as file:
        output_of("strip", "--strip-debug", "-o", file.name, path)
        return os.path.getsize(file.name) / 1e6


def exported_symbols(path):
    return len(output_of("nm", "-D", "--defined-only", path).splitlines())


def start_times(count):
    """From exec to exit of the smallest command, in ms."""
    times = []
    for _ in range(count):
        begin = time.monotonic()
        subprocess.run([BINARY, "--version"], env=bare_environment(), check=True, stdout=subprocess.DEVNULL)
        times.append(1000 * (time.monotonic() - begin))
    return times


def check_without_vendor_libraries():
    """Exit status of `check` for a local run, and what it said."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(toml(job(trainer=synthetic())))
        file.flush()
        done = subprocess.run([BINARY, "check", file.name], env=bare_environment(), capture_output=True, text=True,
                              timeout=60)
        return done.returncode, done.stdout + done.stderr


def footprint(repetitions):
    for name, path in (("library", LIBRARY), ("binary", BINARY)):
        if not os.path.exists(path):
            raise rows.Unavailable(f"{path} is not built")
        needed = needed_libraries(path)
        yield rows.Row(f"footprint/{name}-size", stripped_size(path), "MB", "", None,
                       f"without debug information; needs {len(needed)} libraries: {', '.join(needed)}")
    yield rows.Row("footprint/exported-symbols", exported_symbols(LIBRARY), "", "", None, "of the library")
    times = start_times(max(20, repetitions))
    yield rows.Row("footprint/start", statistics.median(times), "ms", "", None, f"{rows.spread(times)} ms, --version")
    status, text = check_without_vendor_libraries()
    silent = [name for name in ("CUDA", "NCCL", "MPI") if name not in text]
    detail = f"check ended with {status}; " + (f"it says nothing of {', '.join(silent)}" if silent else "it names each")
    yield rows.Row("footprint/absent", len(silent), "", "0", status == 0 and not silent, detail)
