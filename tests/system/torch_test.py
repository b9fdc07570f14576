"""PyTorch programs with elastictrain.torch on real processes: changes of size, losses at every place of a step, errors."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import harness
import torch_hosts
from harness import Case, Run, job, pids, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "python"))

import torch_python  # noqa: E402

PYTHON, WHY_NOT = torch_python.find()
PROGRAM = os.path.join(HERE, "torch_program.py")
START_S = 600  # until new workers take part: torch is slow to import beside other work, with PRELOAD once in a run
PRELOAD = "torch"
END_S = 400  # of a run


def torch_job(workers=(1, 2, 4), program=(PROGRAM,), preload=PRELOAD, **sections):
    config = job(workers=workers, command=[PYTHON, *program], audit={"every_steps": 1},
                 timeouts={"ready_ms": 1000 * START_S, "start_ms": 1000 * START_S}, **{"batch": {"per_worker": 32}, **sections})
    config["workers"].update(preload=[preload], preload_timeout_ms=1000 * START_S)
    return config


def torch_environment(**variables):
    return {"PYTHONPATH": torch_python.PACKAGE, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONWARNINGS": "ignore", **{name: str(value) for name, value in variables.items()}}


def torch_run(config, **variables):
    return Run({**config, "command": torch_hosts.spread(config["command"])}, environment=torch_environment(**variables))


def go_through_changes(case, run):
    """2 -> 4 -> 3 workers, then the first one is killed and replaced; to the end of the data. The audit is clean.

    The first one, so that another prints and writes from then on, and the worker in its slot is not the first."""
    run.wait_size(2, START_S)
    for size in (4, 3):
        run.do("resize", run.name, size)
        run.wait_size(size, START_S)
        run.wait_more_steps(10)
    victim = pids(run.status())[0]
    os.kill(victim, signal.SIGKILL)
    run.wait_status(lambda s: s.get("world_size") == 3 and victim not in pids(s), START_S, "the replacement")
    case.assertEqual(run.wait(END_S), 0, run.text()[-2000:])
    run.wait_no_processes()
    case.assert_audit_clean(run)


@unittest.skipIf(PYTHON is None, WHY_NOT)
class Changes(Case):
    def changed(self, preload=PRELOAD, **variables):
        with torch_run(torch_job(preload=preload), ET_EPOCHS=14, **variables) as run:
            go_through_changes(self, run)
            self.assertEqual(run.text().count("rate 0.000000"), 3, "each worker is at the scheduler's end")
            accuracies = [float(note["value"]) for note in run.events("note", key="accuracy")]
            self.assertGreater(accuracies[-1], 0.96)
            return run.events("note", key="ahead")

    def test_every_sample_counts_once_and_all_states_are_equal(self):
        self.changed()

    def test_each_worker_may_import_torch_by_itself(self):
        self.changed(preload="none")

    def test_workers_that_join_have_the_layout_of_the_others(self):
        with torch_run(torch_job(), ET_EPOCHS=14, ET_DETOUR=1) as run:
            go_through_changes(self, run)
            layouts = re.findall(r"layout ([\d ]+)", run.text())
            self.assertEqual(len(layouts), 3)
            self.assertEqual(len(set(layouts)), 1)
            self.assertNotEqual(layouts[0].split(), sorted(layouts[0].split(), key=int), "it is that of the registration")

    def test_with_loader_processes(self):
        notes = self.changed(ET_LOADERS=2)
        self.assertGreater(float(notes[-1]["value"]), 0.9, "batches are requested ahead, also around a change")

    def test_with_loader_processes_that_are_not_forked(self):
        for start in ("forkserver", "spawn"):
            with self.subTest(start):
                self.changed(ET_LOADERS=1, ET_START=start)

    def test_a_closure_in_a_new_workers_first_step_brings_the_rate_and_its_factor(self):
        config = torch_job((1, 1, 3), (os.path.join(HERE, "torch_closure.py"),), learning_rate={"rule": "linear"})
        with torch_run(config) as run:
            run.wait_size(1, START_S)
            run.wait_more_steps(5)
            run.do("resize", run.name, 3)
            run.wait_size(3, START_S)
            wait_until(lambda: [note["value"] for note in run.events("note", key="factor")][-1:] == ["3.0"], START_S, "a factor of 3")
            run.wait_more_steps(5)
            run.do("stop", run.name, timeout=60)
            run.wait(END_S)
            run.wait_no_processes()
            self.assert_audit_clean(run)
            self.assertNotIn("Traceback", run.text())

    def test_an_evaluation_in_a_new_workers_first_step_sees_the_model_of_the_others(self):
        with torch_run(torch_job((1, 1, 3), (os.path.join(HERE, "torch_evaluation.py"),))) as run:
            run.wait_size(1, START_S)
            run.wait_more_steps(5)
            run.do("resize", run.name, 3)
            run.wait_size(3, START_S)
            run.wait_more_steps(5)
            run.do("stop", run.name, timeout=60)
            run.wait(END_S)
            run.wait_no_processes()
            self.assert_audit_clean(run)
            self.assertNotIn("evaluations differ", run.text())
            self.assertNotIn("the own buffer differs", run.text())

    def test_a_worker_that_joins_or_leaves_takes_little_time_from_those_that_train(self):
        """It computes two samples in its first step, and does not unload torch."""
        with torch_run(torch_job((1, 1, 2), (os.path.join(HERE, "torch_evaluation.py"),))) as run:
            run.wait_size(1, START_S)
            for size in (2, 1):
                run.do("resize", run.name, size)
                run.wait_size(size, START_S)
                run.wait_more_steps(5)
            run.do("stop", run.name, timeout=60)
            run.wait(END_S)
            run.wait_no_processes()
            self.assertEqual(re.findall(r"begins with \d+ samples", run.text()), ["begins with 32 samples", "begins with 2 samples"])
            self.assertEqual(run.text().count("the program's own end"), 2)
            self.assertNotIn("unloaded", run.text())

    def test_a_run_that_resumes_gives_each_rank_its_own_buffer(self):
        with tempfile.TemporaryDirectory() as directory:
            config = torch_job((1, 2, 2), (os.path.join(HERE, "torch_evaluation.py"),),
                               checkpoint={"directory": directory, "interval_steps": 10})
            with torch_run(config) as run:
                run.wait_checkpoint(directory, 30, START_S)
                run.lose_everything()
                run.resume()
                run.wait_text("the own buffer of rank 1 begins", START_S)
                run.wait_more_steps(5)
                run.do("stop", run.name, timeout=60)
                run.wait(END_S)
                found = re.findall(r"the own buffer of rank (\d) begins with (\d+) after step (\d+)", run.text())
                self.assertEqual(len(found), 2, found)
                for rank, value, step in found:  # it begins with the number of its worker, and counts the steps
                    self.assertEqual(int(value), int(rank) + int(step), found)
                self.assertNotIn("the own buffer differs", run.text())


@unittest.skipIf(PYTHON is None, WHY_NOT)
class Losses(Case):
    def test_a_worker_is_killed_at_every_place_of_a_step(self):
        for place in ("data", "forward", "backward", "wait", "update", "step", "evaluation"):
            step = 61 if place == "evaluation" else 20
            loaders = 0 if place == "data" else 1
            with self.subTest(place=place), torch_run(torch_job((1, 2, 2)), ET_EPOCHS=6, ET_FAULT=place, ET_FAULT_STEP=step,
                                                      ET_LOADERS=loaders) as run:
                self.survives_one_loss(run)

    def test_a_loader_process_is_killed(self):
        """Its worker ends with torch's error, and is replaced. No process stays, however the loaders were started."""
        for start in ("fork", "spawn", "forkserver"):
            with self.subTest(start), torch_run(torch_job((1, 2, 2)), ET_EPOCHS=6, ET_FAULT="loader", ET_LOADERS=2,
                                                ET_START=start) as run:
                self.survives_one_loss(run)
                # The worker may read from the process's socket in that moment.
                self.assertRegex(run.text(), "DataLoader worker|ConnectionResetError")

    def survives_one_loss(self, run):
        self.assertEqual(run.wait(END_S), 0, run.text()[-2000:])
        run.wait_no_processes()
        self.assert_audit_clean(run)
        self.assertEqual(len(run.events("worker_lost")) or len(run.events("abort")), 1, "one loss")

    def test_an_exception_ends_the_worker_with_its_traceback_and_the_others_continue(self):
        with torch_run(torch_job((1, 2, 2)), ET_EPOCHS=6, ET_FAULT="raise") as run:
            self.assertEqual(run.wait(END_S), 0, run.text()[-2000:])
            run.wait_no_processes()
            self.assert_audit_clean(run)
            lines = [text for _, text in run.lines if "ArithmeticError: an error" in text]
            self.assertEqual(sorted(line.split(":")[0] for line in lines), ["[localhost", "elastictrain"], "its own, and the warning")

    def test_an_exception_on_all_workers_ends_the_run_with_the_programs_status(self):
        with torch_run(torch_job((1, 2, 2)), ET_FAULT="raise", ET_EVERYWHERE=1) as run:
            self.assertEqual(run.wait(END_S), 1)
            run.wait_no_processes()
            self.assertIn("Traceback (most recent call last)", run.text())

    def test_a_worker_with_another_model_does_not_join(self):
        with torch_run(torch_job((2, 2, 2)), ET_WIDER=1) as run:
            self.assertEqual(run.wait(END_S), 69)
            run.wait_no_processes()
            self.assertIn("shares different state than the rest of the run", run.text())
            self.assertRegex(run.text(), r"its item 1 is '0\.weight F32\[\d+,1,3,3\]', elsewhere it is '0\.weight F32\[\d+,1,3,3\]'")

    def test_after_the_loss_of_everything_the_newest_checkpoint_continues(self):
        with tempfile.TemporaryDirectory() as directory:
            config = torch_job((1, 2, 2), checkpoint={"directory": directory, "interval_steps": 20})
            with torch_run(config, ET_EPOCHS=6) as run:
                run.wait_checkpoint(directory, 80, START_S)
                run.lose_everything()
                run.resume()
                self.assertEqual(run.wait(END_S), 0, run.text()[-2000:])
                self.assertEqual(run.text().count("rate 0.000000"), 2, "the scheduler continued, too")
                files = [name for name in os.listdir(directory) if name.endswith(".safetensors")]
                newest = max(files, key=lambda name: int(name.split("-")[1].split(".")[0]))
                self.assert_loads(run, os.path.join(directory, newest), os.path.join(directory, "converted"))

    def assert_loads(self, run, file, converted):
        done = subprocess.run([PYTHON, os.path.join(HERE, "torch_checkpoint.py"), file, converted],
                              env={**os.environ, **run.environment}, capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)
        accuracies = [float(line) for line in done.stdout.split()]
        self.assertGreaterEqual(len(accuracies), 2)
        self.assertEqual(len(set(accuracies)), 1, "each way gives the same model")
        self.assertGreater(accuracies[0], 0.95)

    def test_an_interrupt_stops_the_run_and_leaves_no_process(self):
        with torch_run(torch_job((1, 2, 2)), ET_EPOCHS=1000, ET_LOADERS=1) as run:
            run.wait_size(2, START_S)
            run.signal(signal.SIGINT)
            run.wait(END_S)
            run.wait_no_processes()


@unittest.skipIf(PYTHON is None, WHY_NOT)
class Unusual(Case):
    """What one worker does differently from the others."""

    def run_of(self, uses):
        return torch_run(torch_job((2, 2, 2), (os.path.join(HERE, "torch_faults.py"),)), ET_USES=uses)

    def test_a_parameter_that_one_worker_writes_is_named(self):
        with self.run_of("drift") as run:
            self.assertNotEqual(run.wait(END_S), 0, run.text()[-2000:])
            run.wait_no_processes()
            self.assertIn("'second.weight' is not equal on all workers", run.text())

    def test_a_loss_that_is_no_number_reaches_all_workers_alike(self):
        with self.run_of("nan") as run:
            self.assertEqual(run.wait(END_S), 0, run.text()[-2000:])
            run.wait_no_processes()
            self.assert_audit_clean(run)
            self.assertEqual(run.text().count("result True False False"), 2, run.text()[-2000:])

    def test_workers_that_use_different_parameters_train_all_that_anyone_used(self):
        with self.run_of("branch") as run:
            self.assertEqual(run.wait(END_S), 0, run.text()[-2000:])
            run.wait_no_processes()
            self.assert_audit_clean(run)
            self.assertEqual(run.text().count("result False True False"), 2, run.text()[-2000:])


@unittest.skipIf(PYTHON is None, WHY_NOT)
class First(Case):
    """State that the first worker alone keeps."""

    def test_the_next_first_worker_goes_on_with_it(self):
        """A first worker counts its steps, and is replaced or killed after 30 of them. What it wrote since the begin of its
        last step is lost with it, and a new first worker does not send in its first step."""
        with tempfile.TemporaryDirectory() as directory:
            stop = os.path.join(directory, "stop")
            with torch_run(torch_job((1, 2, 3), (os.path.join(HERE, "torch_first.py"),)), ET_STOP=stop) as run:
                run.wait_size(2, START_S)
                self.replace_first(run, lambda first: run.do("replace", run.name, 0))
                self.replace_first(run, lambda first: os.kill(first, signal.SIGKILL))
                run.wait_more_steps(30, END_S)
                with open(stop, "w"):
                    pass
                self.assertEqual(run.wait(END_S), 0, run.text()[-2000:])
                run.wait_no_processes()
                self.assert_audit_clean(run)
                held = [re.search(r"held (\d+) (\d+) (\d+) of (\d+) steps", text) for _, text in run.lines if "held " in text]
                self.assertEqual(len({match[0] for match in held}), 1, "all workers hold the same")
                *counts, steps = map(int, held[0].groups())
                for kind, count in zip(("tensor", "small values", "module"), counts):
                    self.assertIn(steps - count, range(0, 9), f"{kind}: {held[0][0]}")

    def replace_first(self, run, act):
        run.wait_more_steps(30, END_S)
        first = pids(run.status())[0]
        act(first)
        run.wait_status(lambda s: s.get("world_size") == 2 and first not in pids(s), START_S, "another first worker")


@unittest.skipIf(PYTHON is None, WHY_NOT)
class Unchanged(Case):
    """A script with DistributedDataParallel, started by `python -m elastictrain.torch`."""

    job = staticmethod(lambda workers: torch_job(workers, ("-m", "elastictrain.torch", os.path.join(HERE, "torch_script.py"))))

    def test_a_script_grows_shrinks_and_survives_a_loss(self):
        with torch_run(self.job((1, 2, 4)), ET_EPOCHS=40) as run:
            go_through_changes(self, run)
            scores = [text for _, text in run.lines if "] epoch 39 " in text]
            self.assertEqual(len(scores), 1, "only the first worker prints")
            self.assertRegex(scores[0], r"accuracy 0\.9[5-9]\d+ of 179\d world 3")
            self.assertEqual(run.text().count(f"rate {0.05 * 0.9 ** 20:.6f}"), 3)

    def test_a_worker_that_joins_at_the_end_of_an_epoch_goes_on_with_the_next_one(self):
        config = torch_job((1, 1, 3), ("-m", "elastictrain.torch", os.path.join(HERE, "torch_short_epochs.py")))
        with torch_run(config) as run:
            for size in (1, 2, 3):
                if size > 1:
                    run.do("resize", run.name, size)
                run.wait_size(size, START_S)
                run.wait_more_steps(20)
            run.do("stop", run.name, timeout=60)
            run.wait(END_S)
            run.wait_no_processes()
            self.assert_audit_clean(run)
            self.assertNotIn("Traceback", run.text())

    def test_a_loss_behind_an_update_repeats_nothing_that_was_applied(self):
        config = torch_job((1, 2, 2), ("-m", "elastictrain.torch", os.path.join(HERE, "torch_counting.py")))
        with torch_run(config, ET_EPOCHS=4, ET_FAULT_STEP=15) as run:
            self.assertEqual(run.wait(END_S), 0, run.text()[-2000:])
            run.wait_no_processes()
            self.assert_audit_clean(run)
            self.assertEqual(len(run.events("worker_lost")) or len(run.events("abort")), 1, "one loss")
            counted = {text.split("counted ")[1] for _, text in run.lines if "counted " in text}
            self.assertEqual(counted, {"4 to 4 after 4 epochs"}, "each sample is once in each epoch's updates")

    def test_the_end_of_a_script_costs_two_steps_at_most(self):
        """That which is open, and as the script exchanged values in it, one more that tells the end to all workers."""
        config = torch_job((1, 2, 2), ("-m", "elastictrain.torch", os.path.join(HERE, "torch_counting.py")))
        with torch_run(config, ET_EPOCHS=4) as run:
            self.assertEqual(run.wait(END_S), 0, run.text()[-2000:])
            run.wait_no_processes()
            self.assert_audit_clean(run)
            self.assertIn("counted 4 to 4 after 4 epochs", run.text())
            self.assertLessEqual(run.audit()["steps"], 42, "10 steps of 2 x 32 samples in each epoch, and two")

    def test_torchs_entry_point_does_the_same(self):
        with tempfile.TemporaryDirectory() as installed:
            information = os.path.join(installed, "elastictrain-0.1.0.dist-info")
            os.mkdir(information)
            with open(os.path.join(information, "entry_points.txt"), "w") as file:
                file.write("[torch.backends]\nelastictrain = elastictrain._torch_autoload:activate\n")
            paths = os.pathsep.join([installed, torch_python.PACKAGE])
            config = torch_job((1, 2, 2), (os.path.join(HERE, "torch_script.py"),))
            with torch_run(config, PYTHONPATH=paths, ELASTICTRAIN_TORCH=1) as run:
                self.assertEqual(run.wait(END_S), 0, run.text()[-2000:])
                run.wait_no_processes()
                self.assert_audit_clean(run)
                self.assertIn("elastictrain: made elastic: Sequential, SGD, StepLR; gradients are averaged over all workers", run.text())

    def test_what_cannot_be_made_elastic_is_refused_with_a_sentence(self):
        for uses, sentence in {"group": "this script needs torch.distributed.new_group()",
                               "two-models": "this script has two DistributedDataParallel models"}.items():
            with self.subTest(uses), torch_run(self.job((1, 1, 1)), ET_USES=uses) as run:
                self.assertEqual(run.wait(END_S), 1)
                run.wait_no_processes()
                self.assertIn(sentence, run.text())


if __name__ == "__main__":
    harness.main()
