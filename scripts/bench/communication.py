"""The data plane: all-reduce beside Gloo, Open MPI and MPICH, each topology, what encryption costs; over the ranks of an MPI launch;
and what each synchronization makes of limited links and of slow workers."""

import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from statistics import median

import rows
from changes import SMALL, steps_of
from harness import Failed, Run, job, synthetic
from measure import changes_of, explain, hosts, idles_ms, in_turn, json_lines, program, ratios
from rows import Unavailable, Value, at_least, below, not_measured, row, shown, spread

# --- All-reduce

PEERS = {"Gloo": "gloo_bench", "Open MPI": "openmpi_bench", "MPICH": "mpich_bench"}


@row("allreduce", "communication", "beside Gloo, Open MPI and MPICH: 2 and 4 ranks, 4 KiB to 100 MiB",
     "faster than the best of Gloo, Open MPI and MPICH in every cell")
def allreduce(repetitions):
    script = os.path.join(rows.ROOT, "tests", "bench", "allreduce", "run_all.py")
    folder = os.path.dirname(program("allreduce", "allreduce_bench"))
    argv = [sys.executable, script, "--build", folder, "--rounds", str(max(5, repetitions)), "--budget-s", "1500"]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=3000)
    if done.returncode not in (0, 1) or not done.stdout.endswith("]\n"):  # 1: a cell misses its target
        raise Unavailable(f"run_all.py ended with {done.returncode}")
    yield from map(allreduce_value, json.loads(done.stdout))
    for peer, name in PEERS.items():
        if not os.path.exists(os.path.join(folder, name)):
            yield not_measured(f"allreduce/{peer}", "not built without its library and headers (scripts/setup.sh bench)")


def size_name(size):
    return f"{size >> 20}MiB" if size >= 1 << 20 else f"{size >> 10}KiB"


def number(value):
    return "-" if value is None else f"{value:g}"


def allreduce_value(cell):
    """One cell of the table: our time beside the best of the peers that are installed."""
    name = f"allreduce/{cell['ranks']}-ranks-{cell['transport'].replace(' ', '-')}-{size_name(cell['bytes'])}"
    beside = ", ".join(f"{peer} {value:g}" for peer, value in cell["peers_us"].items() if value is not None)
    best = f"best peer {cell['best_peer']}" if cell["best_peer"] else "no peer is installed (scripts/setup.sh bench)"
    detail = (f"{best}; ours {number(cell['ours_us'])} us, {beside}; {number(cell['gb_s'])} GB/s, "
              f"{100 * (cell['share_of_memcpy'] or 0):.0f} % of memcpy; TCP congestion control: system "
              f"{cell['congestion_control']['system']}, ours {cell['congestion_control']['ours']}; {cell['rounds']} rounds")
    if cell["bare_exchange_us"]:
        detail += f"; the same bytes exchanged without a sum {number(cell['bare_exchange_us'])} us"
    if cell["failures"]:
        detail += "; failures: " + "; ".join(f"{peer}: {texts[0]}" for peer, texts in cell["failures"].items())
    return Value(name, cell["times_faster"], "times", "> 1 times", cell["met"], detail)


def allreduce_cells(ranks, *arguments):
    """Of one run of the bench, each with `bytes` and `us`."""
    return json_lines(program("allreduce", "allreduce_bench"), "--ranks", ranks, *arguments, timeout=120)


TOPOLOGIES = ("auto", "star", "ring", "tree", "binary-tree", "binary-tree-star", "multi-star", "multi-binary-tree-star", "clique")
TOPOLOGY_SIZES = (4 << 10, 8 << 20)


@row("topologies", "communication", "every topology against the automatic one: 3 and 8 ranks on two hosts, loopback",
     "each shape against `auto` in one run, two hosts on loopback")
def topologies(repetitions):
    """In turn; each round's ratio to the automatic one in the same round."""
    def times_of(ranks, name):
        cells = allreduce_cells(ranks, "--hosts", 2, "--topology", name, "--repetitions", 3, "--round-seconds", 0.05, "--sizes",
                                ",".join(map(str, TOPOLOGY_SIZES)))
        return {cell["bytes"]: median(cell["us"]) for cell in cells}

    for ranks in (3, 8):
        rounds = in_turn(max(3, repetitions), TOPOLOGIES, lambda name: times_of(ranks, name))
        for size in TOPOLOGY_SIZES:
            times = {name: [found[size] for found in rounds[name]] for name in TOPOLOGIES}
            for name in TOPOLOGIES[1:]:
                yield shown(f"topologies/{ranks}-ranks-{size_name(size)}-{name}", ratios(times[name], times["auto"]), "times auto",
                            f"{spread(times[name])} us, auto {spread(times['auto'])} us; 2 hosts on loopback")


ENCRYPTED_BYTES = 25 << 20
ENCRYPTION_TARGETS = {"integrity": 1.5, "full": 2.0}


@row("encryption-cost", "communication", "all-reduce over TCP with each level of network.encryption",
     'all-reduce of 25 MiB over TCP against `network.encryption = "none"`: integrity ≤ 1.5, full ≤ 2 times')
def encryption_cost(repetitions):
    """Every level in turn, several times; each round's ratio to what it takes in clear in the same round."""
    def us_of(ranks, level):
        """Of the fastest one, because whatever else runs on the machine only adds to it."""
        return min(allreduce_cells(ranks, "--transport", "tcp", "--encryption", level, "--repetitions", 5, "--round-seconds", 0.2,
                                   "--sizes", ENCRYPTED_BYTES)[0]["us"])

    for ranks in (2, 4):
        times = in_turn(max(5, repetitions), ("none", *ENCRYPTION_TARGETS), lambda level: us_of(ranks, level))
        for level, most in ENCRYPTION_TARGETS.items():
            yield below(f"encryption-cost/{ranks}-ranks-{level}", ratios(times[level], times["none"]), "times", most,
                        f"{spread(times[level])} us, in clear {spread(times['none'])} us; loopback, 25 MiB")


# --- Over MPI: as it is on this machine (shared memory), and with all bytes in MPI's messages over sockets, as between machines

LAUNCHERS = {"Open-MPI": "mpirun.openmpi", "MPICH": "mpiexec.hydra"}
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
PLACEMENTS = {"together": "", "apart": "-messages"}  # of the bench, with the end of a value's name
SOCKETS = {"OMPI_MCA_btl": "tcp,self", "OMPI_MCA_btl_tcp_if_include": "lo", "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}
TIME_LIMIT_S = 60
POOLS = (8, 4)  # the smaller one where the larger one does not get anywhere


@row("mpi-swap", "communication", "over MPI: all-reduce beside MPI's own with 2 and 8 ranks, the swap; changes of runs of 8",
     {"": "all-reduce ≥ 99 % of the same MPI's own; the first one of a generation ≤ 20 ms beyond a usual one",
      "/run": ("changes of size", "changes in runs of 8 ranks over MPI: idle ≤ 20 ms")})
def mpi_swap(repetitions):
    there = {name: launcher for name, launcher in LAUNCHERS.items() if shutil.which(launcher)}
    if not there:
        raise Unavailable("neither Open MPI nor MPICH is installed (scripts/setup.sh test)")
    for name, launcher in there.items():
        for ranks, placement in itertools.product((2, 8), PLACEMENTS):
            # Open MPI makes its ranks yield where it is told so; on cores of their own that only costs.
            crowded = ["--oversubscribe"] if name == "Open-MPI" and ranks > os.cpu_count() else []
            argv = [launcher, *crowded, "-n", ranks, program("mpi", "mpi_allreduce_bench"), max(3, repetitions), placement]
            yield from mpi_sums(f"mpi-swap/{name}-{ranks}-ranks{PLACEMENTS[placement]}", argv, SOCKETS if placement == "apart" else {})
        yield from mpi_changes(f"mpi-swap/run/{name}", launcher, repetitions)


def mpi_sums(name, argv, environment):
    try:
        cells = json_lines(*argv, timeout=TIME_LIMIT_S, env={**os.environ, **AS_ROOT, **environment})
    except subprocess.TimeoutExpired:
        yield not_measured(name, f"not done within {TIME_LIMIT_S} s")
        return
    for cell in cells:
        label = f"{name}-{size_name(cell['bytes'])}"
        yield at_least(label, 100 * cell["bare_us"] / cell["ours_us"], "%", 99,
                       f"ours {cell['ours_us']:g} us, MPI_Allreduce {cell['bare_us']:g} us; medians, in turn")
        yield below(f"{label}-swap", max(0, cell["first_after_swap_us"] - cell["ours_us"]) / 1000, "ms", 20,
                    "first all-reduce of a generation, beyond a usual one")


def mpi_changes(name, launcher, repetitions):
    """Half of the pool trains; it grows by a quarter of the pool, replaces one and shrinks again."""
    for ranks in POOLS:
        config = steps_of(SMALL, (1, ranks // 2, ranks), hosts={"list": [f"localhost:{ranks}"]},
                          launcher={"kind": "mpi", "mpi_command": [launcher]}, network={"backend": "mpi"})
        try:
            with Run(config) as run:
                found = changes_of(run, repetitions, ranks // 2, ranks // 2 + ranks // 4, TIME_LIMIT_S)
        except Failed as reason:
            yield not_measured(f"{name}-{ranks}", str(reason).splitlines()[0])
            continue
        for kind, changes in found.items():
            yield below(f"{name}-{ranks}-{kind}", idles_ms(changes), "ms", 20, explain(changes))
        return


# --- Limited links between hosts (namespaces), and slow workers

MODEL_BYTES = 400_000
STRATEGIES = ("s-sgd", "averaging", "pair-averaging")
WARM_UP_STEPS = 10
MEASURED_STEPS = 30
SLOW_WORKERS = 4
SLOW_FACTOR = 4
BATCH = 16
WINDOW_S = 12


def link_job(lab, trainer=None, **sections):
    """One worker a host; 16 ms of compute a step, if nothing else is said."""
    size = len(lab.hosts)
    changes = {"parameter_bytes": MODEL_BYTES, "gradient": "constant", **(trainer or {})}
    return job(workers=(1, size, size), trainer=synthetic(**changes), hosts={"list": [f"{host.name}:1" for host in lab.hosts]}, **sections)


def warmed_up(run, size):
    run.wait_size(size, 60)
    run.wait_step(WARM_UP_STEPS + MEASURED_STEPS, 120)


def first_rank_times(run, generation=0):
    return [record["t"] for record in run.steps() if record["rank"] == 0 and record["generation"] >= generation]


def steps_per_s(times):
    if len(times) < 3:
        raise Unavailable("too few steps to measure")
    return (len(times) - 1) / (times[-1] - times[0])


@row("pair-averaging", "communication", "samples a second of pair averaging beside a slow worker",
     "one of 4 workers 4 times slower, 400 kB: ≥ 2.5 times the samples a second of `s-sgd`")
def pair_averaging(repetitions):
    def samples_per_s(strategy):
        """Of all workers of one run, one of which computes four times as long as the others: each logs its batches."""
        config = job(workers=(1, SLOW_WORKERS, SLOW_WORKERS), synchronization={"strategy": strategy},
                     trainer=synthetic(slow=f"2:{SLOW_FACTOR}", parameter_bytes=MODEL_BYTES))
        with Run(config) as run:
            warmed_up(run, SLOW_WORKERS)
            begin = time.monotonic()
            time.sleep(WINDOW_S)
            return BATCH * sum(begin <= record["t"] < begin + WINDOW_S for record in run.steps()) / WINDOW_S

    found = in_turn(repetitions, ("s-sgd", "pair-averaging"), samples_per_s)
    yield at_least("pair-averaging", ratios(found["pair-averaging"], found["s-sgd"]), "times s-sgd", 2.5,
                   f"samples/s: {in_words(found)}; {SLOW_WORKERS} workers, one computes {SLOW_FACTOR} times as long")


def in_words(found):
    return ", ".join(f"{name} {spread(rates)}" for name, rates in found.items())


@row("synchronization", "communication", "steps a second of each strategy on limited links, with a slow worker",
     "4 hosts (namespaces), 400 kB, steps of 16 ms of compute; no target")
def synchronization(repetitions):
    """The strategies in turn, pair averaging's steps a second over those of averaged gradients."""
    def rate_of(lab, strategy, trainer):
        """Steps a second of one run, after its first ones."""
        with Run(link_job(lab, trainer, synchronization={"strategy": strategy}), lab=lab) as run:
            warmed_up(run, len(lab.hosts))
            return steps_per_s(first_rank_times(run)[WARM_UP_STEPS:])

    for link, slow in itertools.product(("100mbit", "20mbit"), (None, 4)):
        trainer = {"slow": f"2:{slow}"} if slow else {}
        with hosts(4, rate=link) as lab:
            found = in_turn(repetitions, STRATEGIES, lambda strategy: rate_of(lab, strategy, trainer))
        beside = f"one worker computes {slow} times as long" if slow else "equal workers"
        yield shown(f"synchronization/{link}{'-slow-worker' if slow else ''}", ratios(found["pair-averaging"], found["s-sgd"]),
                    "times s-sgd", f"steps/s: {in_words(found)}; {beside}; 4 hosts, {MODEL_BYTES:,} bytes")


CROSS_TRAFFIC_BITS_PER_S = 10e6  # half of the link


def interference_rates(lab):
    """Steps a second: undisturbed; disturbed, until the policy goes over to a star; afterwards, still disturbed."""
    policy = {"policy": {"name": "interference", "interval_ms": 500}, "policy.interference": {"views": 20}}
    first, _, last = lab.hosts
    with Run(link_job(lab, {"compute_us_per_sample": 100}, **policy), lab=lab) as run:
        warmed_up(run, 3)
        undisturbed = steps_per_s(first_rank_times(run)[WARM_UP_STEPS:])
        with first.sends_to(last, CROSS_TRAFFIC_BITS_PER_S):
            begin = time.monotonic() + 1
            status = run.wait_status(lambda s: s["topology"] == "1,1,1", timeout=120, what="the star at rank 1")
            disturbed = [at for at in first_rank_times(run) if at > begin]
            run.wait_more_steps(MEASURED_STEPS, 60)
            return undisturbed, steps_per_s(disturbed), steps_per_s(first_rank_times(run, status["generation"])[1:])


@row("interference", "communication", "whether leaving a topology that cross traffic disturbs pays",
     "leaving a topology that cross traffic disturbs pays")
def interference(repetitions):
    """Three hosts; half of the way between two of them is taken, both sides of it belong to the ring."""
    with hosts(3, rate="20mbit") as lab:
        undisturbed, disturbed, star = zip(*(interference_rates(lab) for _ in range(repetitions)))
    yield at_least("interference", ratios(star, disturbed), "times", 1,
                   f"steps/s: undisturbed {spread(undisturbed)}, disturbed {spread(disturbed)}, after the switch to a star {spread(star)}; "
                   "3 hosts, 20 Mbit/s, cross traffic 10 Mbit/s")
