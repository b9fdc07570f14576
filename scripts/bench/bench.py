#!/usr/bin/env python3
"""Runs named benchmarks: bench.py [--json] [--list] [--repetitions N] NAME…"""

import argparse
import signal
import sys
import traceback

import rows

import attack
import autoscale
import batch_live
import checkpoint
import cluster
import communicator
import convergence
import failures
import footprint
import gpu
import gpu_torch
import held_out
import jobs
import leases
import live_predicted
import live_small
import mpi
import network
import operate
import plan
import policies_live
import preemption
import pytorch
import pytorch_programs
import scale
import script_collectives
import slurm
import straggler
import straggler_live
import swap
import sweep
import time_to_accuracy
import torch_pg
import training

BENCHMARKS = {
    "swap-large": (swap.swap_large, "idle time of grow, shrink and replace; 100 MB of parameters, steps of 250 ms"),
    "swap-large-real": (swap.swap_large_real, "the same with real compute, beside torchrun in the same run"),
    "swap-small": (swap.swap_small, "idle time of grow, shrink and replace; 4 MB of parameters, steps of 30 ms"),
    "swap-own-data": (swap.swap_own_data, "the same with 600 MB of state and the program's own data at each step's begin"),
    "resize-latency": (swap.resize_latency, "from `resize` to the first step at the new size: warm spare, cold start"),
    "cold-start": (swap.cold_start, "from the command to the first committed step of 2 local workers"),
    "allreduce": (communicator.allreduce, "beside Gloo, Open MPI and MPICH: 2 and 4 ranks, 4 KiB to 100 MiB"),
    "topologies": (communicator.topologies, "every topology against the automatic one: 3 and 8 ranks on two hosts, loopback"),
    "pair-averaging": (network.pair_averaging, "samples a second of pair averaging beside a slow worker"),
    "synchronization": (network.synchronization, "steps a second of each strategy on limited links, with a slow worker"),
    "interference": (network.interference, "whether leaving a topology that cross traffic disturbs pays"),
    "encryption-cost": (communicator.encryption_cost, "all-reduce over TCP with each level of network.encryption"),
    "session-overhead": (communicator.session_overhead, "steps a second: session against the bare communicator"),
    "monitor-overhead": (communicator.monitor_overhead, "what steps that measure norms or the variance take longer"),
    "accuracy-elastic": (training.accuracy_elastic, "optdigits: fixed size against 20 random changes, 5 seeds each"),
    "audit-100": (training.audit_100, "100 random changes in one audited run"),
    "kill-worker": (failures.kill_worker, "kill -9 of one of 3 workers, 100 MB of parameters; beside torchrun"),
    "kill-host": (failures.kill_host, "a host of 3 lost: its processes killed; its link down"),
    "preempt": (preemption.preempt, "runs told to go in every way, with loader processes; resumed at another size"),
    "hang": (failures.hang, "SIGSTOP of one of 3 workers; beside torchrun"),
    "false-verdicts": (failures.false_verdicts, "an hour of training on cores that are four times oversubscribed"),
    "attack-rate": (attack.attack_rate, "steps while an attacker knocks at all sockets of a run, against steps in peace"),
    "attack-cluster": (attack.attack_cluster, "a second user lies to a cluster and floods it: hangs, slots, memory, submissions"),
    "supervisor-restart": (failures.supervisor_restart, "kill -9 of the supervisor, then run --resume"),
    "total-loss": (failures.total_loss, "everything killed, then run --resume: samples lost or repeated"),
    "checkpoint-cost": (checkpoint.checkpoint_cost, "100 MB every 10 steps, with and without in turn"),
    "autoscale-settle": (autoscale.settle, "search for a size on the papers' curves: time, worker-seconds wasted; beside policy or"),
    "autoscale-regret": (autoscale.regret, "against the best fixed size, known beforehand, on real curves with 10 % noise"),
    "autoscale-rough": (autoscale.rough, "simulated: random curves with dips, teeth and borders; noise that lasts, and outliers"),
    "autoscale-savings": (autoscale.savings, "job time and GPU time against static sizes, all starting sizes, as Or et al."),
    "autoscale-ends": (autoscale.ends, "simulated: whether the search ends at the right size, jobs of 5 and of 90 epochs"),
    "policy-change": (autoscale.policy_change, "simulated: a job that changes after it has settled: changes of size, right size"),
    "policy-call": (autoscale.policy_call, "one call of each policy with 10,000 workers"),
    "convergence": (convergence.convergence, "the end that a loss foretells at 25, 50 and 75 % of the way: optdigits, char LM"),
    "plan-error": (plan.plan_error, "predicted time and cost where nothing was measured: full, partial, universal search"),
    "plan-choice": (plan.plan_choice, "how far above the fastest and the cheapest point a plan's choice is"),
    "noise-scale": (plan.noise_scale, "the gradient noise scale of a quadratic and of optdigits, both known; beside KungFu's"),
    "mpi-swap": (mpi.mpi_swap, "over MPI: all-reduce beside MPI's own with 2 and 8 ranks, the swap; changes of runs of 8"),
    "ssh-64": (scale.ssh_64, "64 ssh hosts until all agents are up"),
    "start-many": (scale.start_many, "64 hosts behind a jump host, sshd's default limits, five boot 10 s late: until all train"),
    "slurm-start": (slurm.slurm_start, "under a real Slurm: from the job's start to the first step, beyond srun's own time"),
    "straggler-detect": (straggler.detect, "steps until a straggler is named, false alarms; simulated, recorded noise"),
    "straggler-recover": (straggler.recover, "throughput after replace and after rebalance; simulated, recorded noise"),
    "straggler-live": (straggler_live.straggler_live, "stragglers of real runs: found, replaced, reported or left alone"),
    "policies-live": (policies_live.policies_live, "each policy on real runs along known curves: regret, settling, changes"),
    "batch-live": (batch_live.batch_live, "policies that choose the batch, on real runs with a known noise scale"),
    "time-to-accuracy": (time_to_accuracy.time_to_accuracy, "a batch that follows the noise against a fixed one, on a slow link"),
    "torch-collectives": (script_collectives.torch_collectives, "8 MiB in each collective of a script, beside Gloo: 2 and 4 workers"),
    "torch-pg": (torch_pg.torch_pg, "PyTorch's own tests of torch.distributed on the process group of a run"),
    "torch-steps": (pytorch.torch_steps, "PyTorch, ResNet-18: steps a second with two changed lines and with none, beside torchrun"),
    "torch-grow": (pytorch.torch_grow, "PyTorch, ResNet-18: idle time of grow, replace and shrink, beside torchrun"),
    "torch-past-epochs": (pytorch.torch_past_epochs,
                          "PyTorch: idle time of a grow after 200 epochs of a script that changes nothing"),
    "torch-kill": (pytorch.torch_kill, "PyTorch, ResNet-18: kill -9 of one of 3 workers, beside torchrun"),
    "torch-audit": (pytorch.torch_audit, "PyTorch: 20 random changes and 2 kills for each repetition, in one run with loader processes"),
    "torch-overhead": (pytorch_programs.torch_overhead, "PyTorch: the package against the bare calls, steps of about 20 ms"),
    "torch-stalls": (pytorch_programs.torch_stalls, "PyTorch: compilation, a loader and an evaluation that take a minute each"),
    "torch-accuracy": (pytorch_programs.torch_accuracy, "PyTorch, digits: fixed size against random changes, a seed each"),
    "torch-accuracy-gpt": (pytorch_programs.torch_accuracy_gpt, "PyTorch, a small GPT: the same, by the loss of held-out text"),
    "report": (operate.report, "the page of a journal of 100,000 events: time and size"),
    "metrics-overhead": (operate.metrics_overhead, "steps while metrics are scraped five times a second, against none"),
    "top": (operate.top, "processor time of the full screen of a run of 1,000 workers, with a stand-in for the run"),
    "round-16k": (cluster.round_16k, "one decision for 4,000 jobs with 100,000 workers on 16,000 hosts, placement included"),
    "sim-published": (cluster.sim_published, "the 24 runs of Muri's simulator, beside their published figures"),
    "sim-pollux": (cluster.sim_pollux, "Pollux's fitness on its eight workloads, beside the published figures"),
    "sim-policies": (cluster.sim_policies, "all sharing policies on 11 Philly and 10 ITP clusters"),
    "sim-itp": (cluster.sim_itp, "69,351 jobs on 2,000 GPUs under AFS-L: time, memory, changes a job"),
    "sim-ours": (cluster.sim_ours, "our own sharing policy against AFS-L, and against the best without lengths"),
    "sim-held-out": (held_out.sim_held_out, "our own sharing policy on loads that no constant was chosen on"),
    "sim-restart-price": (cluster.sim_restart_price, "what changes cost by swap and by restart, jobs of hours and minutes"),
    "hand-over": (leases.hand_over, "a slot recalled from one run until another's worker is ready on it; idle time of both"),
    "packing": (jobs.packing, "two jobs in one slot of a live cluster: a pair that gains is kept, one that loses is undone"),
    "migration": (jobs.migration, "a job of one slot moves to another host to make room: until its first step there, and its idle steps"),
    "live-slices": (jobs.live_slices, "4 jobs on 2 slots of a live cluster in turns of 5 s: steps of all together"),
    "live-burst": (jobs.live_burst, "30 submissions in 10 s on 16 slots of a live cluster: idle time, steps of the first job"),
    "live-small": (live_small.live_small, "7 small jobs that start slowly on 4 slots of a live cluster, every policy: slots that train"),
    "live-predicted": (live_predicted.live_predicted, "the jobs of two live clusters, every policy, and what the simulator predicts from their journals"),
    "live-as-trace": (jobs.live_as_trace, "20 jobs in ten minutes on 16 slots of a live cluster, and what the simulator says of them"),
    "early-feedback": (jobs.early_feedback, "24 jobs of a minute on 4 slots until each has made 20 steps: in turns and by fifo"),
    "sweep": (sweep.sweep, "9 settings of a program on 2 slots until the best one is known: stopped early in turns, and by fifo"),
    "cluster-restart": (jobs.cluster_restart, "kill -9 of the cluster in a burst and of a job's supervisor"),
    "cluster-200": (jobs.cluster_200, "200 runs (stand-ins) and 2,000 queued jobs: CPU of the cluster, a decision, queue"),
    "suspend-resume": (leases.suspend_resume, "4 workers with 100 MB stand still in memory and go on; leave with a checkpoint"),
    "footprint": (footprint.footprint, "symbols, size, libraries, start; what check says without CUDA, NCCL and MPI"),
    "agents-1000": (scale.agents_1000, "1,000 agents with 8 workers each: CPU of the supervisor, time of `status`"),
    "gpu-swap": (gpu.gpu_swap, "idle time of grow, shrink and replace on GPUs, 100 MB of parameters over NCCL"),
    "gpu-builds": (gpu.gpu_builds, "the same with NCCL built in the background, at the swap, by Shrink where workers leave"),
    "gpu-kill": (gpu.gpu_kill, "kill -9 of one of 3 workers that sum over NCCL"),
    "gpu-overhead": (gpu.gpu_overhead, "steps a second on a GPU: session against bare NCCL, in turn"),
    "gpu-overlap": (gpu.gpu_overlap, "share of the sums' time that a backward pass of 25 buckets hides"),
    "gpu-torch": (gpu_torch.speeds, "ResNet-50 and GPT-2 with elastictrain.torch beside DDP on a GPU, steps a second"),
    "gpu-monitors": (gpu.gpu_monitors, "steps a second on a GPU with monitors and without"),
}


def parse():
    parser = argparse.ArgumentParser(prog="scripts/bench.sh", description="Benchmarks of the release build.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="see --list; 'all' for every one")
    parser.add_argument("--json", action="store_true", help="one JSON object a row")
    parser.add_argument("--list", action="store_true", help="the names")
    parser.add_argument("--repetitions", type=int, default=5, metavar="N", help="medians of N (default 5)")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in BENCHMARKS and name != "all"]
    if unknown:
        parser.error(f"unknown benchmark {', '.join(unknown)}; --list shows the names")
    if not options.names and not options.list:
        parser.error("name a benchmark, or 'all'; --list shows the names")
    return options


def measure(name, repetitions):
    """Rows of one benchmark; one that cannot be measured or breaks is a row as well."""
    try:
        return list(BENCHMARKS[name][0](repetitions))
    except rows.Unavailable as reason:
        return [rows.Row(name, None, "", "", None, f"not measured: {reason}")]
    except Exception as error:
        traceback.print_exc()
        return [rows.Row(name, None, "", "", False, f"failed: {error}")]


def show(row, as_json):
    if as_json:
        print(row.json(), flush=True)
        return
    value = "-" if row.value is None else f"{row.value:.4g} {row.unit}"
    met = {True: "met", False: "NOT MET", None: "-"}[row.met]
    print(f"{row.name:<34} {value:>16}  {row.target:<22} {met:<8} {row.detail}", flush=True)


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit(143))  # so that a run in progress is ended as well
    if options.list:
        for name, (_, what) in BENCHMARKS.items():
            print(f"{name:<18} {what}")
        return 0
    names = list(BENCHMARKS) if "all" in options.names else options.names
    if not options.json:
        print(rows.machine())
    bad = False
    for name in names:
        for row in measure(name, options.repetitions):
            show(row, options.json)
            bad |= row.met is False
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
