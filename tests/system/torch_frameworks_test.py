"""Scripts with accelerate, transformers.Trainer and Lightning on real processes: changes of size, losses, what is refused."""

import os
import re
import subprocess
import tempfile
import unittest
from unittest import mock

import harness
from harness import Case
from torch_test import END_S, PYTHON, START_S, WHY_NOT, go_through_changes, torch_job, torch_run

HERE = os.path.dirname(os.path.abspath(__file__))
EPOCHS_OF_SPLIT = 20


def lacks(module):
    """Why its tests are skipped; None if the Python with torch has it."""
    if PYTHON is None:
        return WHY_NOT
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    missing = subprocess.run([PYTHON, "-c", code]).returncode
    return f"{PYTHON} has no {module}; pip install {module}" if missing else None


def script_job(name, workers, **sections):
    return torch_job(workers, ("-m", "elastictrain.torch", os.path.join(HERE, name)), **sections)


class ScriptCase(Case):
    def changed(self, script, saved="saved", **variables):
        """2 -> 4 -> 3 workers, then one is killed and replaced; to the end of the script. Returns the run and the directory
        that it saved to."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        run = torch_run(script_job(script, (1, 2, 4)), ET_SAVED=os.path.join(directory.name, saved), **variables)
        with run:
            go_through_changes(self, run)
            return [text for _, text in run.lines], directory

    def refuses(self, script, sentences):
        nowhere = os.path.join(tempfile.gettempdir(), "et-not-saved")
        for uses, sentence in sentences.items():
            with self.subTest(uses), torch_run(script_job(script, (1, 1, 1)), ET_USES=uses, ET_SAVED=nowhere) as run:
                self.assertEqual(run.wait(END_S), 1)
                run.wait_no_processes()
                self.assertIn(sentence, run.text())


class ResumedCase(Case):
    """Of scripts whose last line says what they end with."""

    def resumes_as_undisturbed(self, script, steps=20, batch=32, **variables):
        """Stopped after some steps and resumed, with one worker, a script ends with the same bits."""
        with tempfile.TemporaryDirectory() as directory:
            variables["ET_SAVED"] = os.path.join(directory, "undisturbed")
            with torch_run(script_job(script, (1, 1, 1), batch={"per_worker": batch}), **variables) as run:
                self.assertEqual(run.wait(END_S), 0, run.text()[-3000:])
                undisturbed = self.end_of(run)
            variables["ET_SAVED"] = os.path.join(directory, "saved")
            config = script_job(script, (1, 1, 1), batch={"per_worker": batch},
                                checkpoint={"directory": os.path.join(directory, "checkpoints")})
            with torch_run(config, **variables) as run:
                run.wait_size(1, START_S)
                run.wait_more_steps(steps, START_S)
                run.do("stop", run.name, timeout=60)
                run.wait(END_S)
                self.assertNotIn("ends with", run.text())
                run.resume()
                self.assertEqual(run.wait(END_S), 0, run.text()[-3000:])
                self.assertEqual(self.end_of(run), undisturbed)
                return run.text()

    def end_of(self, run):
        ends = re.findall(r"(ends with .+)", run.text())
        self.assertEqual(len(ends), 1, run.text()[-3000:])
        return ends[0]


class Accelerate(ScriptCase):
    @classmethod
    def setUpClass(cls):
        why = lacks("accelerate")
        if why:
            raise unittest.SkipTest(why)

    def test_a_script_grows_shrinks_and_survives_a_loss(self):
        lines, files = self.changed("accelerate_script.py", ET_EPOCHS=40)
        scores = [text for text in lines if "] epoch 39 " in text]
        self.assertEqual(len(scores), 1, "only the first worker prints")
        self.assertRegex(scores[0], r"accuracy 0\.9[5-9]\d+ of 1797 world 3")
        rates = [text.split("rate ")[1] for text in lines if "] rate " in text]
        self.assertEqual((len(rates), len(set(rates))), (3, 1), rates)
        self.assertEqual(os.listdir(files.name), ["saved"])

    def test_a_stream_is_divided_among_the_workers(self):
        with torch_run(script_job("accelerate_stream.py", (2, 2, 2))) as run:
            self.assertEqual(run.wait(END_S), 0, run.text()[-2000:])
            parts = [text.split() for text in re.findall(r"got ([\d ]+)", run.text())]
        self.assertEqual([len(part) for part in parts], [32, 32])
        self.assertEqual(sorted(map(int, parts[0] + parts[1])), list(range(64)))

    def test_a_batch_that_is_split_has_its_size_at_any_number_of_workers(self):
        for uses in ("split", "dispatch"):
            with self.subTest(uses):
                self.splits(uses)

    def splits(self, uses):
        with tempfile.TemporaryDirectory() as directory:
            saved = os.path.join(directory, "saved")
            config = script_job("accelerate_script.py", (1, 2, 3))
            del config["batch"]
            with torch_run(config, ET_USES=uses, ET_EPOCHS=EPOCHS_OF_SPLIT, ET_SAVED=saved) as run:
                run.wait_text("the script asks for batches of 16, divided among all workers", START_S)
                for size in (2, 3, 1):
                    if size != 2:
                        run.do("resize", run.name, size)
                    run.wait_size(size, START_S)
                    run.wait_more_steps(4)
                    self.assertEqual(run.status()["global_batch"], 32)
                self.assertEqual(run.wait(END_S), 0, run.text()[-3000:])
                self.assertNotIn("Traceback", run.text())
                self.assert_audit_clean(run)
                scores = re.findall(r"epoch (\d+) accuracy \S+ of (\d+)", run.text())
                self.assertEqual(scores, [(str(epoch), "1797") for epoch in range(EPOCHS_OF_SPLIT)])
                updates = EPOCHS_OF_SPLIT * -(-3823 // 32)  # of the training data, whatever the number of workers was
                self.assertIn(f"rate 0.000300 after {updates} updates", run.text())


class Trainer(ScriptCase, ResumedCase):
    BATCH = 16  # as the script asks; an update has two

    @classmethod
    def setUpClass(cls):
        why = lacks("transformers") or lacks("accelerate")
        if why:
            raise unittest.SkipTest(why)

    def test_a_script_grows_shrinks_and_survives_a_loss(self):
        lines, files = self.changed("trainer_script.py", ET_EPOCHS=60, ET_USES="bar")
        self.assertEqual(len([text for text in lines if "'epoch': '60'" in text and "'eval_loss'" in text]), 1)
        steps = re.findall(r"eval \S+ after (\d+) steps", "\n".join(lines))
        self.assertEqual(len(steps), 1)
        self.assertRegex("\n".join(lines), rf"\b{steps[0]}/{steps[0]} \[", "the bar of the worker that is first at the end is there")
        rates = [text.split("rate ")[1] for text in lines if "] rate " in text]
        self.assertEqual((len(rates), set(rates)), (3, {rates[0]}), "the schedule is at one place on all workers")
        self.assertLess(float(rates[0].split()[0]), 0.0002, "and at its end")
        self.assertTrue(rates[0].endswith("epoch 60.0"), rates[0])
        losses = [float(text.split("'loss': '")[1].split("'")[0]) for text in lines if "{'loss': '" in text]
        self.assertLess(losses[-1], 1.45)
        self.assertEqual(os.listdir(files.name), ["saved"])

    def test_a_run_that_resumes_ends_as_an_undisturbed_one(self):
        for every in (1, 7):  # in each step, what follows the update has an exchange for that
            text = self.resumes_as_undisturbed("trainer_script.py", batch=self.BATCH, ET_EPOCHS=2, ET_USES="slow", ET_LOG_EVERY=every)
            logged = re.findall(r"'learning_rate': '\S+', 'epoch': '(\S+)'", text)
            steps = range(every, 127, every)  # 63 in an epoch
            self.assertEqual(logged, [f"{(step - 1) // 63 + min(1, ((step - 1) % 63 + 1) * 32 / 2000):.4g}" for step in steps])

    def test_a_part_of_an_epoch_and_a_checkpoint_of_it_with_which_another_run_goes_on(self):
        with tempfile.TemporaryDirectory() as directory:
            saved = os.path.join(directory, "saved")
            batch = {"per_worker": self.BATCH}
            with torch_run(script_job("trainer_script.py", (1, 1, 1), batch=batch), ET_SAVED=saved, ET_USES="save", ET_EPOCHS=0.64) as run:
                self.assertEqual(run.wait(END_S), 0, run.text()[-3000:])
                self.assertIn("epoch 0.64", run.text())
                self.assertIn("after 40 of 40 steps", run.text())
            self.assertEqual({name for name in os.listdir(saved) if "checkpoint" in name}, {"checkpoint-20", "checkpoint-40"})
            with torch_run(script_job("trainer_script.py", (1, 1, 2), batch=batch), ET_SAVED=saved, ET_USES="resume", ET_EPOCHS=4) as run:
                run.wait_size(1, START_S)
                run.wait_more_steps(30, START_S)  # a new worker finds another checkpoint
                run.do("resize", run.name, 2)
                run.wait_size(2, START_S)
                self.assertEqual(run.wait(END_S), 0, run.text()[-3000:])
                self.assertNotIn("Traceback", run.text())
                self.assert_audit_clean(run)
                ends = set(re.findall(r"rate (\S+) epoch (\S+)", run.text()))
                self.assertEqual(len(ends), 1, "the schedule is at one place on both workers")
                rate, epoch = map(float, ends.pop())
                self.assertLess(rate, 0.0003)
                self.assertAlmostEqual(epoch, 4, delta=0.04)
                epochs = [float(one) for one in re.findall(r"'learning_rate': '\S+', 'epoch': '(\S+)'", run.text())]
                self.assertGreater(epochs[0], 0.64)
                self.assertEqual(epochs, sorted(set(epochs)))
                scores = re.findall(r"'eval_loss'.+'epoch': '(\S+)'", run.text())
                self.assertEqual([round(float(one)) for one in scores], [1, 2, 3, 4, 4])


class Lightning(ScriptCase):
    """A program with ElasticStrategy."""

    @classmethod
    def setUpClass(cls):
        why = lacks("lightning")
        if why:
            raise unittest.SkipTest(why)

    def test_a_program_grows_shrinks_and_survives_a_loss(self):
        lines, files = self.changed("lightning_script.py", ET_EPOCHS=40)
        ends = [text.split("rate ")[1] for text in lines if "] rate " in text]
        self.assertEqual((len(ends), len(set(ends))), (3, 1), ends)
        self.assertTrue(ends[0].startswith(f"{0.003 * 0.95 ** 40:.6f} epoch 40 steps "), ends[0])
        scores = [text for text in lines if "] accuracy " in text]
        self.assertEqual(len(scores), 1, "only the first worker prints")
        self.assertRegex(scores[0], r"accuracy 0\.9[5-9]\d+ world 3")
        saved = os.path.join(files.name, "saved")
        self.assertEqual({name: len(os.listdir(os.path.join(saved, name))) for name in ("best", "log")},
                         {"best": 1, "log": 1}, "one checkpoint and one log, whoever wrote them")

    def test_a_script_with_ddp_changes_nothing(self):
        lines, _ = self.changed("lightning_script.py", ET_EPOCHS=40, ET_STRATEGY="ddp")
        ends = [re.search(r"tested (\d+) predicted (\d+)", text) for text in lines if "] tested " in text]
        self.assertEqual(len(ends), 3)
        self.assertEqual({int(end[1]) for end in ends}, {1797})
        self.assertEqual(sum(int(end[2]) for end in ends), 1797, "each sample once, by one of the workers")

    def test_a_strategy_that_is_no_ddp_is_refused_with_a_sentence(self):
        with mock.patch.dict(os.environ, ET_STRATEGY="fsdp"):
            self.refuses("lightning_script.py", {"": "Lightning's strategy fsdp divides the model"})
        with mock.patch.dict(os.environ, ET_STRATEGY="ddp"):
            self.refuses("lightning_script.py", {"batchnorm": "Lightning's sync_batchnorm=True waits for all workers"})

    def test_what_cannot_be_made_elastic_is_refused_with_a_sentence(self):
        self.refuses("lightning_script.py", {"manual": "ElasticStrategy needs automatic optimization",
                                             "limit": "limit_train_batches would end an epoch before",
                                             "two-loaders": "ElasticStrategy trains on the batches of one DataLoader"})


@unittest.skipIf(PYTHON is None, WHY_NOT)
class Horovod(ScriptCase):
    """A program for Horovod's elastic interface whose import is changed."""

    def test_a_program_grows_shrinks_and_survives_a_loss(self):
        lines, _ = self.changed("horovod_script.py", ET_EPOCHS=40)
        scores = [text for text in lines if "] epoch 39 " in text]
        self.assertEqual(len(scores), 1, "only the first worker prints")
        self.assertRegex(scores[0], r"accuracy 0\.9[5-9]\d+ of 1797 world 3")
        self.assertTrue(any("now 4" in text for text in lines), "reset callbacks are called")

    def test_what_cannot_be_made_elastic_is_refused_with_a_sentence(self):
        self.refuses("horovod_script.py", {"no-sampler": "0 loaders have an elastictrain.horovod.elastic.ElasticSampler",
                                           "sum": "a run averages gradients over all samples of a step"})


if __name__ == "__main__":
    harness.main()
