"""Replicas of several processes on real runs: the same model as that of one process, replicas that come, go and die, checkpoints, and
what is refused."""

import os
import re
import signal
import subprocess
import tempfile
import unittest

import harness
from harness import Case, pids, wait_until
from torch_test import END_S, HERE, PYTHON, START_S, WHY_NOT, torch_job, torch_python, torch_run

PROGRAM = os.path.join(HERE, "torch_replica.py")
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
    for chosen in order.split(16):
        optimizer.zero_grad()
        (model(samples[chosen]) - targets[chosen]).square().mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
found = torch.load(sys.argv[1])
print(max((found[name] - value).abs().max().item() for name, value in model.state_dict().items()))
"""
REFUSED = {
    "whole": "a replica of 2 processes trains a model that fully_shard() has divided among them; this Sequential is not divided",
    "no replica": "parameter '0.weight' is divided among processes. Workers hold whole models, or are replicas of several processes",
    "ignored": "parameter '0.weight' is whole in each process of the replica, whose gradients would differ",
    "tensor parallel": "parameter '0.weight' is divided, but not by fully_shard()",
    "two dimensions": "is divided over a mesh of 1x2 processes; possible is one dimension with all 2 processes of the replica",
    "accumulation": "accumulation is not possible in a replica of several processes",
    "session": "this process belongs to a replica of several; its session is that of elastictrain.torch.elastic()",
    "late": "replica() comes first in a program",
    "seeds": "the processes of a replica divide their data alike, but process 1 has seed 1 and process 0 0",
    "calls": "the processes of a replica make the same calls in the same order, but process 1 called early() where process 0 called",
    "raises": "process 1 of this replica has ended with status 1; its replica ends",
    "killed": "process 1 of this replica has ended with signal 9; its replica ends",
}


def replica_job(workers, **sections):
    config = torch_job(workers, (PROGRAM,), **sections)
    config["batch"]["per_worker"] = 4
    return config


def others_of(pid):
    """The other processes of the replica whose first one this is."""
    return [int(child) for child in subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()]


@unittest.skipIf(PYTHON is None, WHY_NOT)
class Replicas(Case):
    def test_two_of_two_processes_train_the_model_of_one_process(self):
        with tempfile.NamedTemporaryFile(suffix=".pt") as saved:
            with torch_run(replica_job((2, 2, 2)), ET_SAVED=saved.name) as run:
                self.assertEqual(run.wait(START_S), 0, run.text()[-2000:])
                run.wait_no_processes()
                self.assert_audit_clean(run)
            self.assertEqual(re.findall(r"epoch \d: (\d+) samples", run.text()), ["300"] * 3, "all but less than a unit")
            apart = subprocess.run([PYTHON, "-c", REFERENCE, saved.name], capture_output=True, text=True, check=True).stdout
            self.assertLess(float(apart), 1e-5)

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
            with torch_run(config, ET_SIZE=3) as run:
                self.assertNotEqual(run.wait(START_S), 0)
                self.assertIn("checkpoints of replicas are resumed with as many processes as they were written with", run.text())

    def test_what_cannot_be_ends_with_a_sentence(self):
        environment = {**os.environ, "PYTHONPATH": torch_python.PACKAGE, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        for fault, sentence in REFUSED.items():
            with self.subTest(fault):
                done = subprocess.run([PYTHON, PROGRAM], env={**environment, "ET_FAULT": fault}, capture_output=True, text=True,
                                      timeout=START_S)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(sentence, done.stderr)


if __name__ == "__main__":
    harness.main()
