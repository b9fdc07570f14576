"""Runs that go on with replicas of another size, or of another mesh: what they begin with, what counts, and what is refused."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

import harness
import torch_hosts
from harness import Case
from torch_replicas_test import replica_job, script_run, tensor_run, train_and_stop
from torch_test import PYTHON, START_S, WHY_NOT, torch_python, torch_run

COMPARED = """
import sys, torch
from elastictrain.torch.checkpoint import load
from elastictrain.torch._checkpoint_reader import newest
held, found = load(newest(sys.argv[1])), torch.load(sys.argv[2])
assert set(found) <= set(held), set(found) - set(held)
assert all(torch.equal(held[name], value) for name, value in found.items())
print("equal")
"""


def contents_of(directory):
    found = {}
    for name in os.listdir(directory):
        with open(os.path.join(directory, name), "rb") as file:
            found[name] = file.read()
    return found


def compared_by(directory):
    """Copies the newest checkpoint. Returns a function: what COMPARED prints of it and a program's file."""
    copy = tempfile.TemporaryDirectory()
    shutil.copytree(directory, copy.name, dirs_exist_ok=True)

    def found(saved):
        environment = {**os.environ, "PYTHONPATH": torch_python.PACKAGE, "PYTHONWARNINGS": "ignore"}
        with copy:
            return subprocess.run([PYTHON, "-c", COMPARED, copy.name, saved], env=environment, capture_output=True, text=True,
                                  timeout=START_S).stdout
    return found


@unittest.skipIf(PYTHON is None, WHY_NOT)
class Sizes(Case):
    def test_a_run_goes_on_with_replicas_of_another_size(self):
        """What it begins with is what the checkpoint has, bit for bit; each sample counts once, and the loss falls on."""
        with tempfile.TemporaryDirectory() as directory:
            checkpoints, at_start = os.path.join(directory, "checkpoints"), os.path.join(directory, "start.pt")
            config = replica_job((1, 1, 2), checkpoint={"directory": checkpoints})
            with torch_run(config, ET_SIZE=2, ET_EPOCHS=1000000, ET_PAUSE_S=0.02) as run:
                train_and_stop(run)
                for size in (size for size in (3, 1, 4, 2) if size % torch_hosts.count() == 0):
                    run.environment.update(ET_SIZE=str(size), ET_AT_START=at_start)
                    found = compared_by(checkpoints)
                    run.resume("--per-replica", size)
                    train_and_stop(run)
                    self.assertEqual(found(at_start), "equal\n")
                run.wait_no_processes()
                self.assert_audit_clean(run)
                self.assertRegex(run.text(), "replicas had [12] process(es)?, those of this run have 4 processes: its state is divided anew")

    def test_what_cannot_go_on_with_replicas_of_another_size_harms_nothing(self):
        with tempfile.TemporaryDirectory() as directory:
            config = replica_job((1, 1, 1), checkpoint={"directory": directory})
            with torch_run(config, ET_SIZE=2, ET_EPOCHS=1000000, ET_PAUSE_S=0.02) as run:
                train_and_stop(run)
                run.environment["ET_SIZE"] = "3"
                held = contents_of(directory)
                for fault, sentence in (("wider", "has the shape [33, 20] in it, and [34, 20] in this program"),
                                        ("more data", "the samples of its data: 301; of this program's: 302")):
                    run.environment["ET_FAULT"] = fault
                    run.resume("--per-replica", 3)
                    self.assertNotEqual(run.wait(START_S), 0)
                    self.assertIn(sentence, run.text())
                run.environment["ET_FAULT"] = ""
                file = next(name for name in held if name.endswith(".safetensors"))
                damaged = bytearray(held[file])
                damaged[-1] ^= 1
                for content, sentence in ((damaged, "it is damaged: its checksum is not the manifest's"),
                                          (damaged[:-1], "its size differs from the manifest")):
                    with open(os.path.join(directory, file), "wb") as written:
                        written.write(content)
                    run.resume("--per-replica", 3)
                    self.assertNotEqual(run.wait(START_S), 0)
                    self.assertIn(sentence, run.text())
                with open(os.path.join(directory, file), "wb") as written:
                    written.write(held[file])
                self.assertEqual({name: text for name, text in contents_of(directory).items() if name in held and "step" in name},
                                 {name: text for name, text in held.items() if "step" in name})
                run.environment["ET_SIZE"] = "2"
                run.resume("--per-replica", 2)
                train_and_stop(run)
                run.wait_no_processes()
                self.assert_audit_clean(run)

    def test_a_script_goes_on_with_replicas_of_another_size(self):
        """It goes on in its loop and with its sums; each epoch is printed once."""
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as checkpoints:
            variables = {"ET_FOLDER": folder, "ET_EPOCHS": 1000000, "ET_PAUSE_S": 0.01, "ET_FAULT": "whole norms"}
            with script_run((1, 1, 2), variables, checkpoint={"directory": checkpoints}) as run:
                train_and_stop(run)
                for size in (3, 1, 4):
                    run.environment.update(ET_SHARDS=str(size), ELASTICTRAIN_PER_REPLICA="1")
                    run.resume("--per-replica", size)
                    run.wait_size(1, START_S)
                    run.wait_more_steps(40)
                    run.do("resize", run.name, 2)
                    train_and_stop(run, size=2)
                run.wait_no_processes()
                self.assert_audit_clean(run)
            epochs = [int(epoch) for epoch in re.findall(r"epoch (\d+): error", run.text())]
            self.assertEqual(epochs, list(range(len(epochs))))
            norms = [float(norm) for norm in re.findall(r"norms ([\d.]+)", run.text())]
            self.assertEqual(norms, sorted(norms), "what the script adds up goes on")

    def test_a_script_that_cannot_go_on_ends_with_a_sentence(self):
        sentences = {"": "a DTensor over a mesh of 1x2 processes, which the model's parameters have not",
                     "divided": "it is of replicas of 2 processes, whose script has data of its own"}
        for data, sentence in sentences.items():
            with self.subTest(data), tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as checkpoints:
                variables = {"ET_FOLDER": folder, "ET_EPOCHS": 1000000, "ET_PAUSE_S": 0.01, "ET_DATA": data}
                with script_run((1, 1, 1), variables, checkpoint={"directory": checkpoints}) as run:
                    train_and_stop(run)
                    run.environment["ET_SHARDS"] = "3"
                    run.resume("--per-replica", 3)
                    self.assertNotEqual(run.wait(START_S), 0)
                    self.assertIn(sentence, run.text())
                    run.environment["ET_SHARDS"] = "2"
                    run.resume("--per-replica", 2)
                    train_and_stop(run)
                    run.wait_no_processes()
                    self.assert_audit_clean(run)

    def test_a_run_goes_on_with_another_mesh(self):
        """As a model that is divided otherwise, into as many processes and into others, bit for bit."""
        with tempfile.TemporaryDirectory() as directory:
            checkpoints, at_start = os.path.join(directory, "checkpoints"), os.path.join(directory, "start.pt")
            with tensor_run((1, 1, 1), 2, {"ET_EPOCHS": 1000000, "ET_PAUSE_S": 0.01}, checkpoint={"directory": checkpoints}) as run:
                train_and_stop(run)
                for data, tensor in ((1, 2), (4, 1), (2, 2)):
                    run.environment.update(ET_DATA=str(data), ET_TENSOR=str(tensor), ET_AT_START=at_start)
                    found = compared_by(checkpoints)
                    run.resume("--per-replica", data * tensor)
                    train_and_stop(run)
                    self.assertEqual(found(at_start), "equal\n")
                run.wait_no_processes()
                self.assert_audit_clean(run)


if __name__ == "__main__":
    harness.main()
