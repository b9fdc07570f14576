"""Our communicator over the ranks of an MPI launch, beside the all-reduce of the same MPI in the same run: as it is on
this machine (shared memory), and with all bytes in MPI's messages over sockets, as between machines; and what changes
cost in runs whose workers sum over MPI."""

import collections
import json
import os
import shutil
import statistics
import subprocess

import rows
import swap
from communicator import program, size_name
from harness import Failed, Run, job, members, synthetic

LAUNCHERS = {"Open MPI": "mpirun.openmpi", "MPICH": "mpiexec.hydra"}
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
RANKS = (2, 8)
PLACEMENTS = {"together": "", "apart": "-messages"}  # of the bench, with the end of a row's name
SOCKETS = {"OMPI_MCA_btl": "tcp,self", "OMPI_MCA_btl_tcp_if_include": "lo", "UCX_TLS": "tcp,self",
           "UCX_NET_DEVICES": "lo"}
TIME_LIMIT_S = 60
POOLS = (8, 4)  # the smaller one where the larger one does not get anywhere


def mpi_swap(repetitions):
    bench = program("mpi", "mpi_allreduce_bench")
    there = {name: launcher for name, launcher in LAUNCHERS.items() if shutil.which(launcher)}
    if not there:
        raise rows.Unavailable("neither Open MPI nor MPICH is installed (scripts/setup.sh test)")
    for name, launcher in there.items():
        for ranks in RANKS:
            # Open MPI makes its ranks yield where it is told so; on cores of their own that only costs.
            crowded = ["--oversubscribe"] if name == "Open MPI" and ranks > os.cpu_count() else []
            for placement in PLACEMENTS:
                argv = [launcher, *crowded, "-n", str(ranks), bench, str(max(3, repetitions)), placement]
                yield from measure(f"{name.replace(' ', '-')}-{ranks}-ranks{PLACEMENTS[placement]}", argv,
                                   SOCKETS if placement == "apart" else {})
        yield from run_rows(name, launcher, repetitions)


def measure(name, argv, environment):
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=TIME_LIMIT_S, check=True,
                              env={**os.environ, **AS_ROOT, **environment})
    except subprocess.TimeoutExpired:
        yield rows.Row(f"mpi-swap/{name}", None, "", "", None,
                       f"not measured: not done within {TIME_LIMIT_S} s")
        return
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            yield from rows_of(name, json.loads(line))


def rows_of(name, cell):
    cell_name = f"mpi-swap/{name}-{size_name(cell['bytes'])}"
    share = 100 * cell["bare_us"] / cell["ours_us"]
    detail = f"ours {cell['ours_us']:g} us, MPI_Allreduce {cell['bare_us']:g} us; medians, in turn"
    yield rows.at_least(cell_name, share, "%", 99, detail)
    idle_ms = max(0, cell["first_after_swap_us"] - cell["ours_us"]) / 1000
    yield rows.below(f"{cell_name}-swap", idle_ms, "ms", 20, "first all-reduce of a generation, beyond a usual one")


def run_rows(name, launcher, repetitions):
    for ranks in POOLS:
        try:
            found = run_changes(launcher, ranks, repetitions)
        except Failed as reason:
            yield rows.Row(f"mpi-swap/{name.replace(' ', '-')}-run-of-{ranks}", None, "", "", None,
                           f"not measured: {str(reason).splitlines()[0]}")
            continue
        for kind, changes in found.items():
            idle = statistics.median(swap.idles_ms(changes))
            yield rows.below(f"mpi-swap/{name.replace(' ', '-')}-run-of-{ranks}-{kind}", idle, "ms", 20,
                             swap.explain(changes))
        return


def run_changes(launcher, ranks, repetitions):
    """Half of the pool trains; it grows by a quarter of the pool, replaces one and shrinks again."""
    low, high = ranks // 2, ranks // 2 + ranks // 4
    config = job(workers=(1, low, ranks), trainer=synthetic(parameter_bytes=4_000_000, compute_us_per_sample=3_500),
                 batch={"per_worker": 8}, audit={"every_steps": 0}, hosts={"list": [f"localhost:{ranks}"]},
                 launcher={"kind": "mpi", "mpi_command": [launcher]}, network={"backend": "mpi"})
    found = collections.defaultdict(list)
    with Run(config) as run:
        run.wait_size(low, TIME_LIMIT_S)
        run.wait_more_steps(3 * swap.SETTLE_STEPS, TIME_LIMIT_S)
        for _ in range(repetitions):
            found["grow"].append(swap.change(run, ("resize", run.name, high), high))
            victim = members(run.status())[1]["pid"]
            found["replace"].append(swap.change(run, ("replace", run.name, 1), high, gone=victim))
            found["shrink"].append(swap.change(run, ("resize", run.name, low), low))
        run.do("stop", run.name)
        run.wait(TIME_LIMIT_S)
    return found
