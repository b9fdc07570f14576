"""accelerate and transformers.Trainer with FSDP2 in replicas of several processes, in scripts that change nothing."""

import os
import re
import subprocess
import tempfile
import unittest

import harness
from harness import Case
from torch_frameworks_test import lacks, script_job
from torch_replicas_test import apart_from_one_process, lose_all_and_go_on, lose_two_replicas, other_then_first, train_and_stop
from torch_test import PYTHON, START_S, torch_run

REFUSED_WITH_ACCELERATE = {
    "whole": "this script's Accelerator does not divide its model by FSDP2, and in replicas of several processes it has to",
    "splits": "this script's Accelerator has split_batches=True",
    "dispatches": "this script's Accelerator has dispatch_batches=True",
}
APART = """
import sys
from safetensors.torch import load_file
one, other = (load_file(f"{folder}/model.safetensors") for folder in sys.argv[1:])
print(max((one[name] - other[name]).abs().max().item() for name in one))
"""


class ReplicaCase(Case):
    SCRIPT = ""
    BATCH = 4

    def run_of(self, workers, processes=2, checkpoint=None, **variables):
        config = script_job(self.SCRIPT, workers, **({} if checkpoint is None else {"checkpoint": checkpoint}))
        config["batch"]["per_worker"] = self.BATCH
        if processes > 1:
            config["workers"]["per_replica"] = processes
        return torch_run(config, **variables)

    def come_go_and_die(self, **variables):
        """1 -> 2 replicas; a process of the second one is killed, and the first one's first process; to 1, and stopped. Returns what
        was printed."""
        with self.run_of((1, 1, 2), **variables) as run:
            run.wait_size(1, START_S)
            run.wait_more_steps(20, START_S)
            run.do("resize", run.name, 2)
            run.wait_size(2, START_S)
            run.wait_more_steps(20, START_S)
            lose_two_replicas(run, other_then_first(run))
            run.do("resize", run.name, 1)
            train_and_stop(run)
            run.wait_no_processes()
            self.assert_audit_clean(run)
            self.assertNotIn("Traceback", run.text())
            return run.text()


@unittest.skipIf(lacks("accelerate"), lacks("accelerate"))
class Accelerate(ReplicaCase):
    SCRIPT = "accelerate_replica_script.py"

    def test_two_of_two_processes_train_the_model_of_one_process(self):
        with tempfile.TemporaryDirectory() as folder:
            saved = os.path.join(folder, "whole.pt")
            with self.run_of((2, 2, 2), ET_SAVED=saved) as run:
                self.assertEqual(run.wait(START_S), 0, run.text()[-2000:])
                run.wait_no_processes()
                self.assert_audit_clean(run)
            self.assertLess(apart_from_one_process(saved), 1e-5)
        said = re.findall(r"epoch (\d): error [\d.]+ of (\d+), units (\d+)", run.text())
        self.assertEqual(said, [("0", "64", "76"), ("1", "64", "152"), ("2", "64", "228")], "19 steps an epoch, of 4 processes")

    def test_replicas_come_go_and_die(self):
        text = self.come_go_and_die(ET_EPOCHS=1000000, ET_PAUSE_S=0.005)
        epochs = [int(epoch) for epoch in re.findall(r"epoch (\d+): error", text)]
        self.assertEqual(epochs, sorted(set(epochs)), "each is printed once at most")

    def test_an_update_is_made_from_several_batches(self):
        with tempfile.TemporaryDirectory() as folder:
            saved = os.path.join(folder, "whole.pt")
            with self.run_of((2, 2, 2), ET_SAVED=saved, ET_ACCUMULATION=2) as run:
                self.assertEqual(run.wait(START_S), 0, run.text()[-2000:])
                self.assert_audit_clean(run)
            self.assertLess(apart_from_one_process(saved, 32), 1e-5)

    def test_a_stopped_run_goes_on(self):
        with tempfile.TemporaryDirectory() as checkpoints:
            with self.run_of((1, 1, 2), ET_EPOCHS=20, ET_PAUSE_S=0.01,
                             checkpoint={"directory": checkpoints, "interval_steps": 10, "resume": True}) as run:
                lose_all_and_go_on(self, run, checkpoints)
            epochs = [int(epoch) for epoch in re.findall(r"epoch (\d+): error", run.text())]
            self.assertEqual(sorted(set(epochs)), list(range(20)))
            self.assertLess(len(epochs), 24, "it goes on in its loop")

    def test_what_cannot_be_ends_with_a_sentence(self):
        for fault, sentence in REFUSED_WITH_ACCELERATE.items():
            with self.subTest(fault), self.run_of((1, 1, 1), ET_FAULT=fault) as run:
                self.assertEqual(run.wait(START_S), 1, run.text()[-2000:])
                self.assertIn(sentence, run.text())
                run.wait_no_processes()


@unittest.skipIf(lacks("transformers"), lacks("transformers"))
class Trainer(ReplicaCase):
    SCRIPT = "trainer_script.py"
    BATCH = 16

    def test_two_of_two_processes_train_the_model_of_four_workers(self):
        """With losses that are divided by the tokens of all, of which sequences have different numbers."""
        with tempfile.TemporaryDirectory() as folder:
            for name, workers, processes, block in (("four", 4, 1, ""), ("two of two", 2, 2, "GPT2Block")):
                variables = {"ET_SAVED": os.path.join(folder, name), "ET_DIVIDED": block, "ET_USES": "one step", "ET_EPOCHS": 6}
                with self.run_of((workers,) * 3, processes, **variables) as run:
                    self.assertEqual(run.wait(START_S), 0, run.text()[-2000:])
                    self.assert_audit_clean(run)
                self.assertEqual(len(re.findall(r"'eval_loss'", run.text())), 7)
                self.assertIn("after 6 of 6 steps", run.text())
            folders = [os.path.join(folder, name) for name in ("four", "two of two")]
            apart = subprocess.run([PYTHON, "-c", APART, *folders], capture_output=True, text=True, check=True).stdout
            self.assertLess(float(apart), 1e-3)

    def test_replicas_come_go_and_die(self):
        with tempfile.TemporaryDirectory() as folder:
            text = self.come_go_and_die(ET_SAVED=folder, ET_DIVIDED="GPT2Block", ET_EPOCHS=100000, ET_USES="save")
            self.assertIn("checkpoint-20", os.listdir(folder))
            with open(os.path.join(folder, "saving")) as noted:
                said = [line.split() for line in noted]
        saving = [step for step, saves, is_zero in said if saves == is_zero == "True"]
        self.assertEqual(len(saving), len(set(saving)), "one process saves")
        self.assertEqual(sorted({(saves, is_zero) for _, saves, is_zero in said}), [("False", "False"), ("True", "True")])
        self.assertGreater(len(said), 2 * len(saving), "there were two replicas")
        epochs = [float(epoch) for epoch in re.findall(r"'learning_rate': '\S+', 'epoch': '(\S+)'", text)]
        self.assertEqual(epochs, sorted(set(epochs)), "each is logged once at most")
        scored = [float(epoch) for epoch in re.findall(r"'eval_loss'.+'epoch': '(\S+)'", text)]
        self.assertEqual(scored, sorted(set(scored)))

    def test_a_stopped_run_goes_on(self):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as checkpoints:
            with self.run_of((1, 1, 2), ET_SAVED=folder, ET_DIVIDED="GPT2Block", ET_EPOCHS=6,
                             checkpoint={"directory": checkpoints, "interval_steps": 10, "resume": True}) as run:
                lose_all_and_go_on(self, run, checkpoints)
            self.assertRegex(run.text(), r"rate 0\.000\d+ epoch 6\.0")
            self.assertRegex(run.text(), r"eval \S+ after (\d+) steps\n(?:.*\n)*?.*ends with parts after \1 of \1 steps")

    def test_a_model_that_is_not_divided_is_refused(self):
        with tempfile.TemporaryDirectory() as folder, self.run_of((1, 1, 1), ET_SAVED=folder) as run:
            self.assertEqual(run.wait(START_S), 1, run.text()[-2000:])
            self.assertIn(REFUSED_WITH_ACCELERATE["whole"], run.text())
            run.wait_no_processes()


if __name__ == "__main__":
    harness.main()
