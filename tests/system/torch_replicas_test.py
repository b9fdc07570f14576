"""Replicas of several processes on real runs: the same model as that of one process, replicas that come, go and die, checkpoints, and
what is refused."""

import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

import harness
import torch_device
from harness import Case, pids, wait_until
from torch_test import END_S, HERE, PYTHON, START_S, WHY_NOT, torch_job, torch_python, torch_run

PROGRAM, SCRIPT, TENSOR_PROGRAM, TENSOR_SCRIPT = (os.path.join(HERE, name) for name in (
    "torch_replica.py", "torch_replica_script.py", "torch_tensor_parallel.py", "torch_tensor_parallel_script.py"))
REFERENCE = """
import sys, torch
from torch import nn
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(20, 33), nn.Tanh(), nn.Linear(33, 31), nn.LayerNorm(31), nn.Tanh(), nn.Linear(31, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
generator = torch.Generator().manual_seed(3)
samples, targets = torch.randn(301, 20, generator=generator), torch.randn(301, 1, generator=generator)
for epoch in range(3):
    order = torch.randperm(301, generator=torch.Generator().manual_seed(epoch))[:300]
    for chosen in order.split(int(sys.argv[2])):
        optimizer.zero_grad()
        (model(samples[chosen]) - targets[chosen]).square().mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
found = torch.load(sys.argv[1])
print(max((found[name] - value).abs().max().item() for name, value in model.state_dict().items()))
"""
REFERENCE_OF_OWN_DATA = """
import sys, torch
from torch import nn
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(20, 33), nn.Tanh(), nn.Linear(33, 31), nn.LayerNorm(31), nn.Tanh(), nn.Linear(31, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
generator = torch.Generator().manual_seed(3)
samples, targets = torch.randn(301, 20, generator=generator), torch.randn(301, 1, generator=generator)
for epoch in range(3):
    for begin in range(0, 160, 16):
        optimizer.zero_grad()
        loss = (model(samples[begin:begin + 16]) - targets[begin:begin + 16]).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    print(loss.item())
found = torch.load(sys.argv[1])
print(max((found[name] - value).abs().max().item() for name, value in model.state_dict().items()))
"""
READ_BY_THREE = """
import sys, elastictrain.torch
here = elastictrain.torch.replica(3)
import torch
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
from torch.distributed.fsdp import fully_shard
from elastictrain.torch.checkpoint import Reader
model = nn.Sequential(nn.Linear(20, 33), nn.Tanh(), nn.Linear(33, 31), nn.LayerNorm(31), nn.Tanh(), nn.Linear(31, 1))
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters())
held = {"model": model.state_dict(), "optimizer": get_optimizer_state_dict(model, optimizer)}
checkpoint.load(held, storage_reader=Reader(sys.argv[1]), planner=checkpoint.DefaultLoadPlanner(allow_partial_load=True))
set_optimizer_state_dict(model, optimizer, held["optimizer"])
whole = {name: value.full_tensor() for name, value in model.state_dict().items()}
wanted = torch.load(sys.argv[2])
assert all(torch.equal(whole[name], value) for name, value in wanted.items()) and len(whole) == len(wanted)
assert all(state["step"] == 57 and state["exp_avg"].full_tensor().any() for state in optimizer.state.values()), optimizer.state
if here.index == 0:
    from elastictrain.torch.checkpoint import load, model_of
    from elastictrain.torch._checkpoint_reader import newest
    held = model_of(load(newest(sys.argv[1])))
    assert all(torch.equal(held[name], value) for name, value in wanted.items()) and len(held) == len(wanted)
    print("equal")
"""
REFUSED = {
    "size": "the program makes replicas of 2 processes, but the run says --per-replica 3",
    "one process": "the run says --per-replica 2, but this worker is one process: call elastictrain.torch.replica() first",
    "whole": "a replica of 2 processes trains a model that fully_shard() or parallelize_module() has divided among them, fully_shard() all "
             "of it; this Sequential is not divided",
    "no replica": "parameter '0.weight' is divided among processes. Workers hold whole models, or are replicas of several processes",
    "ignored": "parameter '0.weight' is whole in each process of the replica, whose gradients would differ",
    "tensor parallel": "parameter '0.weight' is divided, but not by fully_shard(), which averages the gradients of others over 2 processes "
                       "with different batches; let it divide all",
    "session": "this process belongs to a replica of several; its session is that of elastictrain.torch.elastic()",
    "late": "replica() comes first in a program",
    "seeds": "the processes of a replica divide their data alike, but process 1 has seed 1 and process 0 0",
    "calls": "the processes of a replica make the same calls in the same order, but process 1 called early() where process 0 called",
    "raises": "process 1 of this replica has ended with status 1; its replica ends",
    "killed": "process 1 of this replica has ended with signal 9; its replica ends",
}


REFUSED_SCRIPTS = {
    "ddp": "this script has a DistributedDataParallel model, of which each process holds the whole. Start the run without "
           "--per-replica",
    "fsdp1": "torch's FullyShardedDataParallel is not possible in replicas of several processes",
    "mesh": "this script divides its model over 3 processes, and its replica has 2. Start the run with --per-replica 3",
    "accumulation": "this script makes one update from several batches. Start it with ELASTICTRAIN_ACCUMULATION=N",
    "assigned": "the gradients of this backward pass would not be averaged",
    "no root": "this script divides several modules by fully_shard() or parallelize_module() (FSDPLinear, FSDPLinear, FSDPLinear) and none that contains them",
}

REFUSED_TENSOR_PARALLEL = {
    "unequal": "the value of parameter 'outer.weight', which processes 0 and 1 of this replica both hold in all, differs between them",
    "part of a layer": "the gradient of parameter 'norm.weight', which processes 0 and 1 of this replica both hold in all, differs",
    "batches": "process 1 of this replica trains on another batch than process 0, with which it computes the same layers in parts",
    "strides": "'outer.weight' is divided in a way that checkpoints do not have",
    "half": "no parameter is divided over all 4 processes of the replica; fully_shard() was given 2 of them",
}
REFUSED_TENSOR_SCRIPTS = {
    "mesh": "this script divides its model over 3 processes, and its replica has 2. Start the run with --per-replica 3",
    "sampler": "this script's sampler divides its data among processes that compute one batch together (tensor parallelism)",
}
REFERENCE_OF_TENSORS = """
import sys, torch
from torch import nn
from tensor_parallel_model import Model, clip, samples, targets
unit, batch = int(sys.argv[2]), int(sys.argv[3])
torch.manual_seed(1)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
for epoch in range(3):
    order = torch.randperm(301, generator=torch.Generator().manual_seed(epoch))[:301 // unit * unit]
    for chosen in order.split(batch):
        optimizer.zero_grad()
        (model(samples[chosen]) - targets[chosen]).square().mean().backward()
        clip(model)
        optimizer.step()
found = torch.load(sys.argv[1])
print(max((found[name] - value).abs().max().item() for name, value in model.state_dict().items()))
"""
READ_OF_TENSORS = """
import sys, elastictrain.torch
here = elastictrain.torch.replica(4)
import torch
from tensor_parallel_model import Model, divide
from torch.distributed import checkpoint
from torch.distributed.device_mesh import init_device_mesh
from elastictrain.torch.checkpoint import Reader, load, model_of
from elastictrain.torch._checkpoint_reader import newest
model, wanted = Model(), torch.load(sys.argv[2])
divide(model, init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor")))
held = {"model": model.state_dict()}
checkpoint.load(held, storage_reader=Reader(sys.argv[1]))
whole = {name: value.full_tensor() for name, value in model.state_dict().items()}
assert all(torch.equal(whole[name], value) for name, value in wanted.items()) and len(whole) == len(wanted)
if here.index == 0:
    held = load(newest(sys.argv[1]))
    assert all(torch.equal(held[name], value) for name, value in wanted.items())
    for name, value in wanted.items():
        assert held[f"optimizer/{name}/exp_avg"].shape == value.shape and held[f"optimizer/{name}/exp_avg"].any(), name
    print("equal")
"""


def replica_job(workers, **sections):
    config = torch_job(workers, (PROGRAM,), **sections)
    config["batch"]["per_worker"] = 4
    return with_size(config, 2)


def with_size(config, size):
    """That the run knows the size of its replicas is needed only where they compute on devices."""
    if torch_device.kind_of_programs() != "cpu":
        config["workers"]["per_replica"] = size
    return config


def train_and_stop(run, size=1, steps=20):
    run.wait_size(size, START_S)
    run.wait_more_steps(steps)
    run.do("stop", run.name, timeout=60)
    run.wait(END_S)


def lose_two_replicas(run, victims, steps=20):
    """Of two: kills a process of one and waits for its replacement, twice. `victims()`: (pid of the replica, of the process), each time."""
    for number in range(2):
        replica, process = victims(number)
        os.kill(process, signal.SIGKILL)
        run.wait_status(lambda s: s.get("world_size") == 2 and replica not in pids(s), START_S, "the replacement")
        run.wait_more_steps(steps, START_S)


def other_then_first(run):
    """A process of the second replica that is not its first one, then the first one's first process."""
    def victims(number):
        replica = pids(run.status())[1 - number]
        return replica, replica if number else others_of(replica)[0]
    return victims


def those_beside(run, stays):
    """Of the replica that does not stay: another process than its first one, then that."""
    def victims(number):
        replica = next(pid for pid in pids(run.status()) if pid != stays)
        return replica, replica if number else others_of(replica)[-1]
    return victims


def lose_all_and_go_on(case, run, checkpoints):
    """From its checkpoint, to the end of the program."""
    run.wait_checkpoint(checkpoints, 60, START_S)
    run.lose_everything()
    run.resume()
    case.assertEqual(run.wait(END_S), 0, run.text()[-2000:])
    run.wait_no_processes()
    case.assert_audit_clean(run)


def others_of(pid):
    """The other processes of the replica whose first one this is."""
    return [int(child) for child in subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()]


def apart_from_one_process(saved, batch=16):
    """By how much a model is another one than that of one process with batches of this size."""
    done = subprocess.run([PYTHON, "-c", REFERENCE, saved, str(batch)], capture_output=True, text=True, check=True)
    return float(done.stdout)


@unittest.skipIf(PYTHON is None, WHY_NOT)
class Replicas(Case):
    def test_two_of_two_processes_train_the_model_of_one_process(self):
        with tempfile.NamedTemporaryFile(suffix=".pt") as saved:
            with torch_run(replica_job((2, 2, 2)), ET_SAVED=saved.name) as run:
                self.assertEqual(run.wait(START_S), 0, run.text()[-2000:])
                run.wait_no_processes()
                self.assert_audit_clean(run)
            self.assertEqual(re.findall(r"epoch \d: (\d+) samples", run.text()), ["300"] * 3, "all but less than a unit")
            self.assertLess(apart_from_one_process(saved.name), 1e-5)

    def test_an_update_is_made_from_several_batches(self):
        """Those at the end of an epoch have two samples and one."""
        with tempfile.NamedTemporaryFile(suffix=".pt") as saved:
            with torch_run(replica_job((2, 2, 2)), ET_SAVED=saved.name, ET_ACCUMULATION=2) as run:
                self.assertEqual(run.wait(START_S), 0, run.text()[-2000:])
                self.assert_audit_clean(run)
            self.assertLess(apart_from_one_process(saved.name, 32), 1e-5)

    def test_replicas_come_go_and_die_and_nobody_else_notices(self):
        with torch_run(replica_job((1, 2, 3)), ET_EPOCHS=1000000, ET_PAUSE_S=0.02) as run:
            run.wait_size(2, START_S)
            run.wait_more_steps(5)
            stays = pids(run.status())[0]
            run.do("resize", run.name, 3)
            run.wait_size(3, START_S)
            run.wait_more_steps(5)
            for victim_of in (lambda pid: others_of(pid)[0], lambda pid: pid):
                replica = [pid for pid in pids(run.status()) if pid != stays][0]
                others = others_of(replica)
                os.kill(victim_of(replica), signal.SIGKILL)
                wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in [replica, *others]), 30, "the end of its replica")
                run.wait_status(lambda s: s.get("world_size") == 3 and replica not in pids(s), START_S, "the replacement")
                run.wait_more_steps(5)
            run.do("resize", run.name, 1)
            run.wait_size(1, START_S)
            run.wait_more_steps(5)
            self.assertEqual(pids(run.status()), [stays], "it was never restarted")
            run.do("stop", run.name, timeout=60)
            run.wait(END_S)
            run.wait_no_processes()
            self.assertIn("outcome stopped", run.text())
            self.assert_audit_clean(run)

    def test_a_process_that_is_killed_is_no_fault_of_the_program(self):
        """Not in the first steps of its replica either, in which new workers that fail by themselves are not started for ever."""
        with torch_run(replica_job((1, 2, 2)), ET_EPOCHS=1000000, ET_PAUSE_S=1.5) as run:
            run.wait_size(2, START_S)
            stays = pids(run.status())[0]
            for _ in range(4):
                run.wait_more_steps(1)
                time.sleep(0.7)  # less than a step, and more than the time in which the run hears of it
                newest = next(pid for pid in pids(run.status()) if pid != stays)
                os.kill(others_of(newest)[0], signal.SIGKILL)
                run.wait_status(lambda s: s.get("world_size") == 2 and newest not in pids(s), 60, "the replacement")
            run.do("stop", run.name, timeout=60)
            run.wait(END_S)
            run.wait_no_processes()
            self.assert_audit_clean(run)

    def test_a_checkpoint_has_all_parts(self):
        with tempfile.TemporaryDirectory() as directory:
            config = replica_job((1, 2, 2), checkpoint={"directory": directory, "interval_steps": 10, "resume": True})
            with torch_run(config, ET_EPOCHS=1000000, ET_PAUSE_S=0.02) as run:
                run.wait_checkpoint(directory, 20, START_S)
                run.lose_everything()
                run.resume()
                run.wait_size(2, START_S)
                run.wait_more_steps(10)
                run.do("stop", run.name, timeout=60)
                run.wait(END_S)
                run.wait_no_processes()
                self.assert_audit_clean(run)

    def test_a_checkpoint_is_read_as_those_of_torch_by_another_number_of_processes(self):
        with tempfile.TemporaryDirectory() as directory, tempfile.NamedTemporaryFile(suffix=".pt") as saved:
            with torch_run(replica_job((2, 2, 2), checkpoint={"directory": directory, "interval_steps": 20}), ET_SAVED=saved.name) as run:
                self.assertEqual(run.wait(START_S), 0, run.text()[-2000:])
            environment = {**os.environ, "PYTHONPATH": torch_python.PACKAGE, "PYTHONWARNINGS": "ignore"}
            done = subprocess.run([PYTHON, "-c", READ_BY_THREE, directory, saved.name], env=environment, capture_output=True, text=True,
                                  timeout=START_S)
            self.assertEqual((done.returncode, done.stdout), (0, "equal\n"), done.stderr)
            for name in os.listdir(directory):
                if name.endswith(".json"):
                    os.rename(os.path.join(directory, name), os.path.join(directory, "moved"))
            file = os.path.join(directory, next(name for name in os.listdir(directory) if name.endswith(".safetensors")))
            done = subprocess.run([PYTHON, "-m", "elastictrain.torch.checkpoint", file, directory], env=environment, capture_output=True,
                                  text=True, timeout=START_S)
            self.assertEqual(done.returncode, 1)
            self.assertIn("has parts of several processes, and", done.stderr)

    def test_what_cannot_be_ends_with_a_sentence(self):
        environment = {**os.environ, "PYTHONPATH": torch_python.PACKAGE, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        for fault, sentence in REFUSED.items():
            with self.subTest(fault):
                done = subprocess.run([PYTHON, PROGRAM], env={**environment, "ET_FAULT": fault}, capture_output=True, text=True,
                                      timeout=START_S)
                self.assertEqual(done.returncode, -signal.SIGKILL if fault == "killed" else 1, done.stderr)
                self.assertIn(sentence, done.stderr)


def script_run(workers, variables, **sections):
    """Of the script that changes nothing, in replicas of two processes."""
    config = torch_job(workers, ("-m", "elastictrain.torch", SCRIPT), **sections)
    config["batch"]["per_worker"], config["workers"]["per_replica"] = 4, 2
    return torch_run(config, **variables)


@unittest.skipIf(PYTHON is None, WHY_NOT)
class Scripts(Case):
    def test_two_of_two_processes_train_the_model_of_one_process(self):
        with tempfile.TemporaryDirectory() as folder:
            with script_run((2, 2, 2), {"ET_FOLDER": folder}) as run:
                self.assertEqual(run.wait(START_S), 0, run.text()[-2000:])
                run.wait_no_processes()
                self.assert_audit_clean(run)
            self.assertEqual(re.findall(r"epoch (\d): error", run.text()), ["0", "1", "2"], "one of the replicas prints")
            self.assertLess(apart_from_one_process(os.path.join(folder, "whole.pt")), 1e-5)
            self.assertEqual(sorted(os.listdir(os.path.join(folder, "parts"))), [".metadata", "__0_0.distcp", "__1_0.distcp"])
            for name in ("log-0.txt", "log-1.txt", "appended-0.txt", "appended-1.txt"):
                with open(os.path.join(folder, name)) as log:
                    self.assertEqual(log.read(), "epoch 0\nepoch 1\nepoch 2\n", name)

    def test_an_update_is_made_from_several_batches(self):
        for name, variables in (("all reduced", {}), ("the last one reduced", {"ET_NO_SYNC": "1"})):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                with script_run((2, 2, 2), {"ET_FOLDER": folder, "ET_ACCUMULATION": 2, **variables}) as run:
                    self.assertEqual(run.wait(START_S), 0, run.text()[-2000:])
                    self.assert_audit_clean(run)
                self.assertIn("a step has 2 of them, as 'grad_accum_steps' says", run.text())
                self.assertLess(apart_from_one_process(os.path.join(folder, "whole.pt"), 32), 1e-5)

    def test_replicas_come_go_and_die(self):
        self.come_go_and_die({})

    def test_replicas_that_exchange_values_before_their_passes_come_go_and_die(self):
        """With data of their own, so that a new replica joins at a batch that it draws."""
        self.come_go_and_die({"ET_DATA": "divided", "ET_FAULT": "as torchtitan"})

    def test_replicas_that_accumulate_come_go_and_die(self):
        self.come_go_and_die({"ET_ACCUMULATION": 3, "ET_NO_SYNC": "1"})

    def come_go_and_die(self, variables):
        with tempfile.TemporaryDirectory() as folder:
            with script_run((1, 1, 2), {"ET_FOLDER": folder, "ET_EPOCHS": 1000000, "ET_PAUSE_S": 0.005, **variables}) as run:
                run.wait_size(1, START_S)
                run.wait_more_steps(20)
                run.do("resize", run.name, 2)
                run.wait_size(2, START_S)
                run.wait_more_steps(20)
                stays = pids(run.status())[0]
                self.assertEqual(run.status()["per_replica"], 2)
                lose_two_replicas(run, those_beside(run, stays))
                os.kill(stays, signal.SIGKILL)
                run.wait_status(lambda s: s.get("world_size") == 2 and stays not in pids(s), START_S, "another first one")
                run.wait_more_steps(60)
                run.do("resize", run.name, 1)
                train_and_stop(run)
                run.wait_no_processes()
                self.assert_audit_clean(run)
            epochs = [int(epoch) for epoch in re.findall(r"epoch (\d+): error", run.text())]
            self.assertEqual(epochs, sorted(set(epochs)), "each is printed once at most, and none again by one that came later")
            norms = [float(norm) for norm in re.findall(r"norms ([\d.]+)", run.text())]
            self.assertEqual(norms, sorted(norms), "what the script adds up goes on")

    def test_a_loop_is_as_long_in_the_process_that_asks_for_its_length_as_in_the_others(self):
        with tempfile.TemporaryDirectory() as folder:
            with script_run((1, 2, 2), {"ET_FOLDER": folder, "ET_PAUSE_S": 0.1, "ET_EPOCHS": 4, "ET_ASKS": 1}) as run:
                run.wait_size(2, START_S)
                run.wait_more_steps(3)
                run.do("resize", run.name, 1)  # so that an epoch has more steps than were said
                self.assertEqual(run.wait(END_S), 0, run.text()[-2000:])
                run.wait_no_processes()
                self.assert_audit_clean(run)
        self.assertEqual(re.findall(r"epoch (\d): loss", run.text()), ["0", "1", "2", "3"])

    def test_replicas_take_turns_in_data_that_are_divided_by_rank(self):
        """Each batch is trained on once in an epoch, whoever comes and goes, but for those that a killed replica had."""
        for form in ("divided", "next", "streamed", "called"):
            variables = {"ET_EPOCHS": 1000000, "ET_PAUSE_S": 0.02, "ET_DATA": form}
            variables.update({"ELASTICTRAIN_BATCHES": "__main__:Feed.batch"} if form == "called" else {})
            with self.subTest(form), tempfile.TemporaryDirectory() as folder:
                with script_run((1, 1, 3), {**variables, "ET_FOLDER": folder}) as run:
                    run.wait_size(1, START_S)
                    run.wait_more_steps(20)
                    first = pids(run.status())
                    for size in (2, 3):
                        run.do("resize", run.name, size)
                        run.wait_size(size, START_S)
                        run.wait_more_steps(20)
                    victim = [pid for pid in pids(run.status()) if pid not in first][0]
                    os.kill(victim, signal.SIGKILL)
                    run.wait_status(lambda s: s.get("world_size") == 3 and victim not in pids(s), START_S, "the replacement")
                    run.wait_more_steps(20)
                    first += others_of(first[0])
                    run.do("resize", run.name, 1)
                    run.wait_size(1, START_S)
                    run.wait_more_steps(20)
                    self.assertEqual(pids(run.status()), first[:1])
                    run.do("stop", run.name, timeout=60)
                    run.wait(END_S)
                    run.wait_no_processes()
                    self.assert_audit_clean(run)
                missing = self.assert_each_once(folder, lambda pid: 0 if pid in first else 2)
                self.assertLessEqual(missing, 4, "of two processes: a step that the killed replica did not note, one that was begun with it")

    def test_a_stopped_run_goes_on_in_data_of_its_own(self):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as checkpoints:
            with script_run((2, 2, 2), {"ET_FOLDER": folder, "ET_EPOCHS": 1000000, "ET_PAUSE_S": 0.02, "ET_DATA": "divided"},
                            checkpoint={"directory": checkpoints}) as run:
                run.wait_size(2, START_S)
                run.wait_more_steps(25)
                first = [pid for leader in pids(run.status()) for pid in (leader, *others_of(leader))]
                run.do("stop", run.name, timeout=60)
                run.wait(END_S)
                run.resume()
                run.wait_size(2, START_S)
                run.wait_more_steps(25)
                run.do("stop", run.name, timeout=60)
                run.wait(END_S)
                run.wait_no_processes()
            self.assertEqual(self.assert_each_once(folder, lambda pid: 0 if pid in first else 1), 0)

    def assert_each_once(self, folder, passes_apart):
        """Returns the number of batches that were left out. `passes_apart`: of a process, which count nowhere."""
        places, processes = {}, 0
        for name in os.listdir(folder):
            if name.startswith("seen-"):
                processes += 1
                with open(os.path.join(folder, name)) as seen:
                    for line in seen.read().splitlines()[passes_apart(int(name[len("seen-"):])):]:
                        epoch, place = map(int, line.split())
                        places.setdefault((epoch, place % 2), []).append(place // 2)
        self.assertGreaterEqual(processes, 8)
        for key, found in places.items():
            self.assertEqual(len(found), len(set(found)), f"(epoch, process) {key}: {sorted(found)}")
        return sum(max(found) + 1 - len(found) for found in places.values())

    def test_two_replicas_with_data_of_their_own_train_the_model_of_one_process(self):
        """As torchtitan's trainer: a loss in parts with a backward pass for each, a container of optimizers, functional sums."""
        for fault in ("", "as torchtitan"):
            with self.subTest(fault), tempfile.TemporaryDirectory() as folder:
                with script_run((2, 2, 2), {"ET_FOLDER": folder, "ET_DATA": "divided", "ET_FAULT": fault}) as run:
                    self.assertEqual(run.wait(START_S), 0, run.text()[-2000:])
                    run.wait_no_processes()
                    self.assert_audit_clean(run)
                saved = os.path.join(folder, "whole.pt")
                *losses, apart = subprocess.run([PYTHON, "-c", REFERENCE_OF_OWN_DATA, saved], capture_output=True, text=True,
                                                check=True).stdout.split()
                self.assertLess(float(apart), 1e-5)
                shown = [float(loss) for loss in re.findall(r"epoch \d: loss ([\d.]+)", run.text())]
                self.assertEqual(len(shown), 3)
                for own, loss in zip(shown, losses):
                    self.assertAlmostEqual(own, float(loss), delta=1e-5, msg="it is that of all processes of all replicas")

    def test_a_script_finds_what_it_has_just_saved(self):
        """Which the first replica alone does."""
        with tempfile.TemporaryDirectory() as folder:
            with script_run((2, 2, 2), {"ET_FOLDER": folder, "ET_FAULT": "looks at what it saved"}) as run:
                self.assertEqual(run.wait(START_S), 0, run.text()[-2000:])
                run.wait_no_processes()
            self.assertEqual(len(re.findall(r"saved \d+ bytes", run.text())), 3)
            self.assertEqual(run.text().count("was lost"), 0)

    def test_a_gradient_that_is_divided_by_a_count_is_so_alike_in_all_replicas(self):
        with tempfile.TemporaryDirectory() as folder:
            with script_run((2, 2, 2), {"ET_FOLDER": folder, "ET_DATA": "divided", "ET_FAULT": "counts", "ET_EPOCHS": 1}) as run:
                self.assertEqual(run.wait(START_S), 0, run.text()[-2000:])
                run.wait_no_processes()
                self.assert_audit_clean(run)

    def test_replicas_whose_batches_are_the_same_do_not_train(self):
        variables = {"ET_EPOCHS": 1000000, "ET_PAUSE_S": 0.02}
        sentence = "this replica trains on the same batch as another one in the same step"
        with tempfile.TemporaryDirectory() as folder:
            with script_run((1, 1, 2), {**variables, "ET_FOLDER": folder, "ET_DATA": "called"}) as run:
                run.wait_size(1, START_S)
                first = pids(run.status())
                run.do("resize", run.name, 2)
                run.wait_status(lambda s: run.events("grow_refused"), START_S, "that it stays at its size")
                self.assertIn(sentence, run.events("grow_refused")[0]["reason"])
                run.wait_size(1, START_S)
                run.wait_more_steps(5)
                self.assertEqual(pids(run.status()), first)
            with script_run((1, 1, 2), {**variables, "ET_FOLDER": folder, "ET_DATA": "drawn"}) as run:
                run.wait_size(1, START_S)
                run.do("resize", run.name, 2)
                run.wait_size(2, START_S)
                members = pids(run.status())
                run.wait_more_steps(20)
                self.assertEqual(pids(run.status()), members)
            with script_run((2, 2, 2), {**variables, "ET_FOLDER": folder, "ET_DATA": "called"}) as run:
                self.assertEqual(run.wait(START_S), 1, run.text()[-2000:])
                self.assertIn(sentence, run.text())
            with script_run((1, 1, 1), {**variables, "ET_FOLDER": folder, "ELASTICTRAIN_BATCHES": "__main__:feed"}) as run:
                self.assertEqual(run.wait(START_S), 1, run.text()[-2000:])
                self.assertIn("ELASTICTRAIN_BATCHES=__main__:feed: there is no such function when the model is divided", run.text())

    def test_a_stopped_run_goes_on(self):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as checkpoints:
            with script_run((1, 1, 2), {"ET_FOLDER": folder, "ET_EPOCHS": 20, "ET_PAUSE_S": 0.01},
                            checkpoint={"directory": checkpoints, "interval_steps": 10, "resume": True}) as run:
                lose_all_and_go_on(self, run, checkpoints)
            epochs = [int(epoch) for epoch in re.findall(r"epoch (\d+): error", run.text())]
            self.assertEqual(sorted(set(epochs)), list(range(20)))
            self.assertLess(len(epochs), 24, "it goes on in its loop")

    def test_what_cannot_be_ends_with_a_sentence(self):
        for fault, sentence in REFUSED_SCRIPTS.items():
            with self.subTest(fault), tempfile.TemporaryDirectory() as folder:
                with script_run((1, 1, 1), {"ET_FAULT": fault, "ET_FOLDER": folder}) as run:
                    self.assertEqual(run.wait(START_S), 1, run.text()[-2000:])
                    self.assertIn(sentence, run.text())
                    run.wait_no_processes()


def tensor_run(workers, data, variables, **sections):
    """Of the program whose processes compute layers together, two and two; `data` batches in each replica."""
    config = torch_job(workers, (TENSOR_PROGRAM,), **sections)
    config["batch"]["per_worker"] = 4
    return torch_run(with_size(config, 2 * data), ET_DATA=data, **variables)


def tensor_script_run(workers, data, variables, **sections):
    """Of such a script that changes nothing."""
    config = torch_job(workers, ("-m", "elastictrain.torch", TENSOR_SCRIPT), **sections)
    config["batch"]["per_worker"], config["workers"]["per_replica"] = 4, 2 * data
    return torch_run(config, **variables)


@unittest.skipIf(PYTHON is None, WHY_NOT)
class TensorParallel(Case):
    """Layers that the processes of a replica compute together."""

    def apart(self, saved, unit, batch):
        """From the model of one process that trains on the same batches."""
        done = subprocess.run([PYTHON, "-W", "ignore", "-c", REFERENCE_OF_TENSORS, saved, str(unit), str(batch)], capture_output=True, text=True,
                              check=True, env={**os.environ, "PYTHONPATH": HERE})
        return float(done.stdout)

    def test_two_replicas_train_the_model_of_one_process(self):
        for start, data in ((tensor_run, 2), (tensor_script_run, 1)):
            with self.subTest(data), tempfile.NamedTemporaryFile(suffix=".pt") as saved:
                with start((2, 2, 2), data, {"ET_SAVED": saved.name}) as run:
                    self.assertEqual(run.wait(START_S), 0, run.text()[-2000:])
                    run.wait_no_processes()
                    self.assert_audit_clean(run)
                if start is tensor_run:
                    self.assertEqual(re.findall(r"epoch \d: (\d+) samples", run.text()), [str(301 // data * data)] * 3)
                self.assertLess(self.apart(saved.name, data, 8 * data), 1e-5)

    def test_replicas_come_go_and_die(self):
        for start, data in ((tensor_run, 1), (tensor_script_run, 2)):
            with self.subTest(data):
                self.come_go_and_die(start((1, 1, 2), data, {"ET_EPOCHS": 1000000, "ET_PAUSE_S": 0.005}))

    def come_go_and_die(self, started):
        with started as run:
            run.wait_size(1, START_S)
            run.wait_more_steps(20)
            stays = pids(run.status())[0]
            run.do("resize", run.name, 2)
            run.wait_size(2, START_S)
            run.wait_more_steps(20)
            lose_two_replicas(run, those_beside(run, stays))
            self.assertIn(stays, pids(run.status()))
            run.do("resize", run.name, 1)
            run.wait_size(1, START_S)
            run.wait_more_steps(20)
            run.do("stop", run.name, timeout=60)
            run.wait(END_S)
            run.wait_no_processes()
            self.assert_audit_clean(run)

    def test_a_checkpoint_has_whole_tensors_and_a_run_goes_on_from_it(self):
        with tempfile.TemporaryDirectory() as directory, tempfile.NamedTemporaryFile(suffix=".pt") as saved:
            sections = {"checkpoint": {"directory": directory, "interval_steps": 10, "resume": True}}
            with tensor_run((1, 1, 2), 2, {"ET_SAVED": saved.name, "ET_PAUSE_S": 0.01}, **sections) as run:
                run.wait_checkpoint(directory, 20, START_S)
                run.lose_everything()
                run.resume()
                self.assertEqual(run.wait(END_S), 0, run.text()[-2000:])
                run.wait_no_processes()
                self.assert_audit_clean(run)
            self.assertLess(self.apart(saved.name, 2, 8), 1e-5)
            environment = {**os.environ, "PYTHONPATH": f"{torch_python.PACKAGE}:{HERE}", "PYTHONWARNINGS": "ignore"}
            done = subprocess.run([PYTHON, "-c", READ_OF_TENSORS, directory, saved.name], env=environment, capture_output=True, text=True,
                                  timeout=START_S)
            self.assertEqual((done.returncode, done.stdout), (0, "equal\n"), done.stderr)

    def test_batches_of_a_scripts_own_are_compared(self):
        sentences = {("groups", 2): "",
                     ("each", 2): "of this replica trains on another batch than process",
                     ("alike", 2): "of this replica train on the same batch, though fully_shard() averages their gradients"}
        for (kind, data), sentence in sentences.items():
            with self.subTest(kind=kind, data=data), tensor_script_run((1, 1, 2), data, {"ET_DATA": kind, "ET_EPOCHS": 1}) as run:
                self.assertEqual(run.wait(START_S), 1 if sentence else 0, run.text()[-2000:])
                self.assertIn(sentence, run.text())
                run.wait_no_processes()

    def test_what_cannot_be_ends_with_a_sentence(self):
        environment = {**os.environ, "PYTHONPATH": torch_python.PACKAGE, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        for fault, sentence in REFUSED_TENSOR_PARALLEL.items():
            with self.subTest(fault):
                done = subprocess.run([PYTHON, TENSOR_PROGRAM], env={**environment, "ET_FAULT": fault, "ET_DATA": "2" if fault == "half" else "1"},
                                      capture_output=True, text=True, timeout=START_S)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(sentence, done.stderr)
        for fault, sentence in REFUSED_TENSOR_SCRIPTS.items():
            with self.subTest(fault), tensor_script_run((1, 1, 1), 1, {"ET_FAULT": fault}) as run:
                self.assertEqual(run.wait(START_S), 1, run.text()[-2000:])
                self.assertIn(sentence, run.text())
                run.wait_no_processes()


if __name__ == "__main__":
    harness.main()
