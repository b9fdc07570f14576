"""Lightning's Trainer and Fabric with ModelParallelStrategy in replicas of several processes: the model of one process, replicas that
come, go and die, a stopped run, and what is refused."""

import os
import re
import subprocess
import tempfile
import unittest

import harness
from harness import Case
from torch_frameworks_test import lacks
from torch_replicas_test import lose_all_and_go_on, lose_two_replicas, other_then_first, train_and_stop
from torch_test import HERE, PYTHON, START_S, torch_job, torch_run

REFERENCE = """
import sys, torch
from torch import nn
width, batch, clips = int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(20, width), nn.Tanh(), nn.Linear(width, 31), nn.LayerNorm(31), nn.Tanh(), nn.Linear(31, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
generator = torch.Generator().manual_seed(3)
samples, targets = torch.randn(301, 20, generator=generator), torch.randn(301, 1, generator=generator)
for epoch in range(3):
    order, losses = torch.randperm(301, generator=torch.Generator().manual_seed(epoch))[:300], []
    for chosen in order.split(batch):
        optimizer.zero_grad()
        loss = (model(samples[chosen]) - targets[chosen]).square().mean()
        loss.backward()
        losses.append(loss.item() * len(chosen) / 300)
        if clips:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    with torch.no_grad():
        error = (model(samples[:64]) - targets[:64]).square().mean().item()
    print(f"epoch {epoch}: error {error:.3f} of 64, loss {sum(losses):.3f}")
found = torch.load(sys.argv[1])
print(max((found[name] - value).abs().max().item() for name, value in model.state_dict().items()))
"""

REFUSED = {
    "fsdp": "Lightning's fsdp is that of torch's FullyShardedDataParallel (FSDP1), which does not become elastic. In replicas of several "
            "processes ModelParallelStrategy does",
    "ddp": "Lightning's strategy ddp does not divide the model among the processes of a replica",
    "auto": "Lightning's strategy auto does not divide the model among the processes of a replica",
}
REFUSED_WITH_FABRIC = {
    **REFUSED,
    "accumulation": "this script makes one update from several batches. Start it with ELASTICTRAIN_ACCUMULATION=N",
}
REFUSED_TRAINERS = {
    **REFUSED,
    "cuda": "Lightning's accelerator cuda is not possible in replicas of several processes, which train on CPUs only, so far",
    "manual": "ElasticStrategy needs automatic optimization",
    "stream": "ElasticStrategy counts the samples of the training loader, and an IterableDataset cannot be counted",
}


def lightning_run(workers, variables, per_replica=2, is_fabric=False, **sections):
    config = torch_job(workers, ("-m", "elastictrain.torch", os.path.join(HERE, "lightning_replica_script.py")), **sections)
    config["batch"]["per_worker"], config["workers"]["per_replica"] = 4, per_replica
    return torch_run(config, **variables, **({"ET_FABRIC": 1} if is_fabric else {}))


def epochs_of(run):
    return [int(epoch) for epoch in re.findall(r"epoch (\d+): ", run.text())]


@unittest.skipIf(lacks("lightning"), lacks("lightning"))
class Lightning(Case):
    def trains_as_one_process(self, workers, width=33, batch=16, clips=1, **options):
        """Returns what the run said of each epoch, and what one process would have."""
        with tempfile.TemporaryDirectory() as folder:
            saved = os.path.join(folder, "whole.pt")
            variables = {"ET_SAVED": saved, **options.pop("variables", {})}
            with lightning_run((workers, workers, workers), variables, **options) as run:
                self.assertEqual(run.wait(START_S), 0, run.text()[-2000:])
                run.wait_no_processes()
                self.assert_audit_clean(run)
            command = [PYTHON, "-c", REFERENCE, saved, *map(str, (width, batch, clips))]
            *wanted, apart = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
            self.assertLess(float(apart), 2e-5)
        return run.text(), wanted

    def test_two_of_two_processes_train_the_model_of_one_process(self):
        text, wanted = self.trains_as_one_process(2)
        said = [f"epoch {epoch}: error {float(error):.3f} of {count}, loss {float(loss):.3f}" for epoch, error, count, loss in
                re.findall(r"epoch (\d): error ([\d.]+) of (\d+), loss ([\d.]+), step \d+, ones", text)]
        self.assertEqual(said, wanted, "values of an evaluation, which each replica makes, and of training, of which each has a part")
        self.assertEqual(re.findall(r"loss [\d.]+, step (\d+)", text), ["19", "38", "57"])

    def test_fabric_trains_the_model_of_one_process(self):
        text, _ = self.trains_as_one_process(2, is_fabric=True)
        self.assertEqual(re.findall(r"epoch (\d): loss", text), ["0", "1", "2"], "the first replica prints")

    def test_an_update_is_made_from_several_batches(self):
        """Those at the end of an epoch have two samples and one."""
        for is_fabric in (False, True):
            with self.subTest(is_fabric=is_fabric):
                self.trains_as_one_process(2, batch=32, is_fabric=is_fabric, variables={"ET_ACCUMULATION": 2})

    def test_with_tensor_parallelism_it_is_that_model(self):
        self.trains_as_one_process(1, width=32, batch=8, clips=0, per_replica=4, variables={"ET_SIZES": "2 2"})

    def test_replicas_come_go_and_die(self):
        for is_fabric in (False, True):
            with self.subTest(is_fabric=is_fabric), tempfile.TemporaryDirectory() as logs:
                run = self.changed(is_fabric, logs)
                epochs = epochs_of(run)
                self.assertEqual(epochs, sorted(set(epochs)), "each is printed once at most")
                self.assertGreater(len(epochs), 1)
                if is_fabric:
                    self.assertIn(".metadata", os.listdir(os.path.join(logs, "last")))
                else:
                    self.assert_written_once(run, logs)

    def assert_written_once(self, run, logs):
        best, log = (os.listdir(os.path.join(logs, name)) for name in ("best", "log"))
        self.assertIn("last.ckpt", best)
        self.assertIn(len(best), (2, 3), "the best checkpoint and the last one; the first replica may be killed before it removes one")
        self.assertFalse([name for name in best if "-v" in name], "of two that would have the same name")
        self.assertEqual(len(log), 1)
        ones = re.findall(r"ones ([\d.]+)", run.text())
        self.assertEqual({*ones}, {"1.0000"}, "a mean over all processes, also where a replica has a part of an epoch only")

    def changed(self, is_fabric, logs):
        variables = {"ET_EPOCHS": 1000000, "ET_PAUSE_S": 0.005, "ET_LOGS": logs}
        with lightning_run((1, 1, 2), variables, is_fabric=is_fabric) as run:
            run.wait_size(1, START_S)
            run.wait_more_steps(20)
            run.do("resize", run.name, 2)
            run.wait_size(2, START_S)
            run.wait_more_steps(20)
            lose_two_replicas(run, other_then_first(run), 40)
            run.do("resize", run.name, 1)
            train_and_stop(run)
            run.wait_no_processes()
            self.assert_audit_clean(run)
            return run

    def test_a_stopped_run_goes_on(self):
        for is_fabric in (False, True):
            with self.subTest(is_fabric=is_fabric), tempfile.TemporaryDirectory() as checkpoints:
                with lightning_run((1, 1, 2), {"ET_EPOCHS": 10, "ET_PAUSE_S": 0.01}, is_fabric=is_fabric,
                                   checkpoint={"directory": checkpoints, "interval_steps": 10, "resume": True}) as run:
                    lose_all_and_go_on(self, run, checkpoints)
                epochs = epochs_of(run)
                self.assertEqual(sorted(set(epochs)), list(range(10)))
                self.assertLess(len(epochs), 14, "it goes on in its loop")
                if not is_fabric:
                    self.assertIn("step 380", run.text(), "38 in each of 10 epochs")

    def test_a_validation_behind_the_training_reads_the_best_checkpoint(self):
        """In each replica, which waits for the first one to have written it."""
        with tempfile.TemporaryDirectory() as logs, lightning_run((2, 2, 2), {"ET_LOGS": logs}) as run:
            self.assertEqual(run.wait(START_S), 0, run.text()[-2000:])
            run.wait_no_processes()
            self.assertEqual(re.findall(r"validated (\d+)", run.text()), ["64"])

    def test_a_number_of_batches_ends_the_only_epoch(self):
        with lightning_run((2, 2, 2), {"ET_LIMIT": 7, "ET_EPOCHS": 1}) as run:
            self.assertEqual(run.wait(START_S), 0, run.text()[-2000:])
            run.wait_no_processes()
            self.assertRegex(run.text(), r"epoch 0: error [\d.]+ of 64, loss [\d.]+, step 7, ")

    def test_a_strategy_by_its_name_and_an_evaluation_of_the_training_data(self):
        with lightning_run((2, 2, 2), {"ET_FAULT": "registered", "ET_EPOCHS": 2}) as run:
            self.assertEqual(run.wait(START_S), 0, run.text()[-2000:])
            run.wait_no_processes()
            self.assert_audit_clean(run)
            said = re.findall(r"epoch (\d): error [\d.]+ of (\d+), loss [\d.]+, step (\d+)", run.text())
            self.assertEqual(said, [("0", "302", "19"), ("1", "302", "38")], "one of the samples twice, as Lightning divides them")

    def test_what_cannot_be_ends_with_a_sentence(self):
        for is_fabric, refused in ((False, REFUSED_TRAINERS), (True, REFUSED_WITH_FABRIC)):
            for fault, sentence in refused.items():
                with self.subTest(fault, is_fabric=is_fabric):
                    self.ends_with(sentence, {"ET_FAULT": fault}, is_fabric=is_fabric)

    def test_another_size_is_named(self):
        for is_fabric in (False, True):
            self.ends_with("divides its model over 2 x 2 processes (data_parallel_size x tensor_parallel_size), and its replica has 2. Start "
                           "the run with --per-replica 4", {"ET_SIZES": "2 2"}, is_fabric=is_fabric)

    def ends_with(self, sentence, variables, **options):
        with lightning_run((1, 1, 1), variables, **options) as run:
            self.assertEqual(run.wait(START_S), 1, run.text()[-2000:])
            self.assertIn(sentence, run.text())
            run.wait_no_processes()


if __name__ == "__main__":
    harness.main()
