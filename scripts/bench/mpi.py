"""Our communicator over the ranks of an MPI launch, beside the all-reduce of the same MPI in the same run."""

import json
import os
import shutil
import subprocess

import rows
from communicator import program, size_name

LAUNCHERS = {"Open MPI": "mpirun.openmpi", "MPICH": "mpiexec.hydra"}
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
RANKS = (2, 8)
TIME_LIMIT_S = 60


def mpi_swap(repetitions):
    bench = program("mpi", "mpi_allreduce_bench")
    there = {name: launcher for name, launcher in LAUNCHERS.items() if shutil.which(launcher)}
    if not there:
        raise rows.Unavailable("neither Open MPI nor MPICH is installed (scripts/setup.sh test)")
    for name, launcher in there.items():
        for ranks in RANKS:
            # Open MPI makes its ranks yield where it is told so; on cores of their own that only costs.
            crowded = ["--oversubscribe"] if name == "Open MPI" and ranks > os.cpu_count() else []
            yield from measure(name, [launcher, *crowded, "-n", str(ranks), bench, str(max(3, repetitions))], ranks)


def measure(name, argv, ranks):
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=TIME_LIMIT_S, check=True,
                              env={**os.environ, **AS_ROOT})
    except subprocess.TimeoutExpired:
        yield rows.Row(f"mpi-swap/{name}-{ranks}-ranks", None, "", "", None,
                       f"not measured: not done within {TIME_LIMIT_S} s")
        return
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            yield from rows_of(name.replace(" ", "-"), json.loads(line))


def rows_of(name, cell):
    cell_name = f"mpi-swap/{name}-{cell['ranks']}-ranks-{size_name(cell['bytes'])}"
    share = 100 * cell["bare_us"] / cell["ours_us"]
    detail = f"ours {cell['ours_us']:g} us, MPI_Allreduce {cell['bare_us']:g} us; medians, in turn"
    yield rows.at_least(cell_name, share, "%", 99, detail)
    idle_ms = max(0, cell["first_after_swap_us"] - cell["ours_us"]) / 1000
    yield rows.below(f"{cell_name}-swap", idle_ms, "ms", 20, "first all-reduce of a generation, beyond a usual one")
