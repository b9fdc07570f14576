"""What elastictrain.torch needs for scripts that change nothing, in one process: orders of samplers, files that a new worker
leaves alone, prefetchers, command lines."""

import argparse
import contextlib
import csv
import functools
import io
import os
import random
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

import torch_python

torch_python.run_this_test_there()
sys.path.insert(0, torch_python.PACKAGE)

import torch  # noqa: E402
from torch.distributed import BuiltinCommHookType  # noqa: E402
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, post_localSGD_hook, powerSGD_hook  # noqa: E402
from torch.utils.data import (BatchSampler, DataLoader, DistributedSampler, IterableDataset, RandomSampler,  # noqa: E402
                              Sampler, TensorDataset, WeightedRandomSampler)

from elastictrain._torch_autoload import split_command  # noqa: E402
from elastictrain.errors import ElasticError  # noqa: E402
from elastictrain.torch import _accumulation, _prefetchers, _sampling, _side_effects, _takeover  # noqa: E402
from elastictrain.torch._communication_hooks import accepted  # noqa: E402
from elastictrain.torch.progress import RecordError  # noqa: E402

DATA = TensorDataset(torch.arange(24))


class Own(Sampler):
    """Draws with all kinds of random numbers, another number in each epoch if it is asked."""

    def __init__(self, changes=False):
        self.changes, self.drawn = changes, 0

    def __len__(self):
        return 24

    def __iter__(self):
        self.drawn += 1
        found = torch.randperm(24).tolist()
        random.shuffle(found)
        return iter(found[:24 - self.drawn * self.changes])


class OfOneRank(Own):
    def __init__(self, rank):
        super().__init__()
        self.rank = rank


def own_hook(state, bucket):
    """As a script has one."""


def fp16_compress_hook(state, bucket):
    """Of the script's own, by the name of one of torch's."""


class CommunicationHooks(unittest.TestCase):
    """What DistributedDataParallel.register_comm_hook() takes."""

    def test_one_that_chooses_a_type_is_accepted_and_said(self):
        for hook, kind in ((default_hooks.fp16_compress_hook, "float16"), (default_hooks.bf16_compress_hook, "bfloat16"),
                           (default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook), "float16"),
                           (BuiltinCommHookType.FP16_COMPRESS, "float16")):
            [said] = accepted(hook)
            self.assertRegex(said, f"summed in float32, not in {kind},")

    def test_a_plain_sum_is_accepted(self):
        for hook in (default_hooks.allreduce_hook, BuiltinCommHookType.ALLREDUCE):
            self.assertEqual(accepted(hook), [])

    def test_one_that_changes_what_is_learned_is_refused_by_its_name(self):
        for hook, named in ((powerSGD_hook.powerSGD_hook, "powerSGD_hook for"), (own_hook, r"own_hook\(\) for"),
                            (fp16_compress_hook, r"fp16_compress_hook\(\) for"),
                            (default_hooks.bf16_compress_wrapper(powerSGD_hook.powerSGD_hook), "powerSGD_hook for"),
                            (post_localSGD_hook.post_localSGD_hook, "post_localSGD_hook for"),
                            (functools.partial(own_hook), r"partial\(\) for")):
            with self.assertRaisesRegex(ElasticError, f"registers the communication hook {named} its gradients"):
                accepted(hook)


class Orders(unittest.TestCase):
    def test_workers_with_other_random_numbers_draw_alike_and_each_epoch_anew(self):
        drawn = []
        for seed in (1, 2):
            torch.manual_seed(seed)
            random.seed(seed)
            order = _sampling.Order(Own())
            order.enter(3)
            drawn.append(order.indices(range(24)))
            order.enter(4)
            self.assertNotEqual(order.indices(range(24)), drawn[-1])
        self.assertEqual(drawn[0], drawn[1])
        self.assertEqual(sorted(drawn[0]), list(range(24)))

    def test_the_programs_random_numbers_go_on_as_if_nothing_had_been_drawn(self):
        generator = torch.Generator().manual_seed(5)
        for sampler in (Own(), WeightedRandomSampler([1.0] * 24, 24, generator=generator)):
            with self.subTest(type(sampler).__name__):
                before = torch.get_rng_state(), generator.get_state()
                python = random.getstate()
                order = _sampling.Order(sampler)
                order.enter(0)
                order.indices([0])
                self.assertTrue(torch.equal(torch.get_rng_state(), before[0]))
                self.assertTrue(torch.equal(generator.get_state(), before[1]))
                self.assertEqual(random.getstate(), python)

    def test_the_state_tells_whether_workers_drew_the_same(self):
        one, same, other = _sampling.Order(Own()), _sampling.Order(Own()), _sampling.Order(Own(), seed=1)
        for order in (one, same, other):
            order.enter(0)
        self.assertEqual(one.state_dict(), same.state_dict())
        self.assertNotEqual(one.state_dict(), other.state_dict())

    def test_another_number_of_samples_is_refused(self):
        with self.assertRaisesRegex(ElasticError, "Own drew 23 samples for epoch 1 and announced 24"):
            _sampling.Order(Own(changes=True)).enter(0)


class Counting(unittest.TestCase):
    def counted(self, **options):
        loader = DataLoader(DATA, **options)
        self.assertTrue(_sampling.can_be_counted(loader))
        return _sampling.counted(loader)

    def test_orders_that_the_run_makes_itself(self):
        for words, is_shuffled, options in (("in their order", False, {"batch_size": 4}),
                                            ("shuffled", True, {"batch_size": 4, "shuffle": True}),
                                            ("shuffled", True, {"batch_size": 4, "sampler": DistributedSampler(DATA, 2, 0)}),
                                            ("in their order", False,
                                             {"batch_size": 4, "sampler": DistributedSampler(DATA, 2, 0, shuffle=False)})):
            with self.subTest(words, options=options):
                counted = self.counted(**options)
                self.assertEqual((counted.words, counted.is_shuffled, counted.order, counted.size, counted.batch),
                                 (words, is_shuffled, None, 24, 4))

    def test_a_sampler_of_the_scripts_own_is_asked(self):
        for sampler in (Own(), WeightedRandomSampler([1.0] * 24, 10), RandomSampler(DATA, replacement=True),
                        RandomSampler(DATA, num_samples=8)):
            with self.subTest(type(sampler).__name__):
                counted = self.counted(batch_size=4, sampler=sampler)
                self.assertEqual(counted.size, len(sampler))
                self.assertIsNotNone(counted.order)
                self.assertEqual(counted.words, f"as {type(sampler).__name__} draws them")

    def test_a_batch_sampler_of_torchs_own_kind(self):
        counted = self.counted(batch_sampler=BatchSampler(Own(), 6, drop_last=True))
        self.assertEqual((counted.batch, counted.drop_last), (6, True))

    def test_what_cannot_be_counted(self):
        class Stream(IterableDataset):
            def __iter__(self):
                return iter(range(3))

        class Batches:
            def __iter__(self):
                return iter([[0, 1], [2]])

        for loader in (DataLoader(Stream()), DataLoader(DATA, batch_sampler=Batches()),
                       DataLoader(DATA, sampler=OfOneRank(rank=1)), DataLoader(DATA, batch_size=None)):
            self.assertFalse(_sampling.can_be_counted(loader))


class Files(unittest.TestCase):
    """Written while the worker is no member."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.old, self.new = (os.path.join(folder.name, name) for name in ("old", "new"))
        with open(self.old, "w") as file:
            file.write("of the others")
        saved = {(module, name): getattr(module, name) for module, name in (
            (_side_effects.builtins, "open"), (_side_effects.io, "open"), (_side_effects.builtins, "print"), (torch, "save"),
            (os, "remove"), (os, "unlink"), (os, "rename"), (os, "replace"), (os, "mkdir"), (_side_effects.shutil, "rmtree"),
            (_side_effects.shutil, "move"))}
        for (module, name), value in saved.items():
            self.addCleanup(setattr, module, name, value)
        _side_effects.install()
        self.began = mock.patch.object(_side_effects, "_began", time.time() + 60)
        self.began.start()
        self.addCleanup(self.began.stop)

    def silent(self, is_silent):
        return mock.patch.object(_side_effects, "is_silent", lambda: is_silent)

    def text(self):
        with open(self.old) as file:
            return file.read()

    def change(self):
        with open(self.old, "w") as file:
            file.write("changed")
        torch.save({}, self.old)

    def test_every_way_to_open_a_text_file(self):
        with self.silent(True):
            with open(self.old, "w", -1, "utf-8", None, None, True, lambda path, flags: os.open(path, flags)) as file:
                file.write("changed")
            with open(self.old, mode="w", opener=os.open, closefd=True) as file:
                file.write("changed")
        self.assertEqual(self.text(), "of the others")

    def test_what_a_resumed_run_leaves_alone_is_named_once(self):
        said = []
        with self.silent(False), mock.patch.object(_side_effects, "keeps_files", lambda: True), \
                mock.patch.object(_side_effects, "_is_kept_said", False), \
                mock.patch.object(_side_effects, "print", lambda text, **_: said.append(text), create=True):
            self.change()
        self.assertEqual((self.text(), len(said)), ("of the others", 1))
        self.assertIn(self.old, said[0])

    def test_files_of_the_others_stay(self):
        with self.silent(True):
            self.change()
            os.remove(self.old)
            os.replace(self.old, self.new)
        self.assertEqual(self.text(), "of the others")
        self.assertFalse(os.path.exists(self.new))

    def test_a_file_of_its_own_is_written(self):
        with self.silent(True):
            self.began.stop()
            with open(self.new, "w") as file:
                file.write("own")
            self.began.start()
        with open(self.new) as file:
            self.assertEqual(file.read(), "own")

    def test_a_file_that_is_kept_open_is_not_emptied_and_gets_what_is_written_later(self):
        for mode in ("w", "a", "x"):
            with self.subTest(mode):
                before = self.text()
                with self.silent(True):
                    file = open(self.old, mode, buffering=1)
                    file.write("a heading")
                    file.truncate(0)
                with file, self.silent(False):
                    csv.writer(file).writerow(["own", mode])
                self.assertEqual(self.text(), f"{before}own,{mode}\n")

    def test_a_member_empties_a_file_that_it_opens(self):
        with self.silent(False), open(self.old, "w") as file:
            file.write("own")
        self.assertEqual(self.text(), "own")

    def test_bytes_and_files_that_are_read_too_go_nowhere(self):
        for mode in ("wb", "xb", "w+"):
            with self.silent(True):
                file = open(self.old, mode)
            with file, self.silent(False):
                file.write(b"own" if "b" in mode else "own")
        self.assertEqual(self.text(), "of the others")

    def test_a_run_that_resumes_leaves_files_alone_until_it_trains(self):
        with mock.patch.dict(os.environ, {"ELASTICTRAIN_RESUME": "1"}):
            with open(self.old, "w") as file:
                file.write("a heading")
        self.assertEqual(self.text(), "of the others")

    def test_what_a_run_that_resumes_does_once_more_is_printed_once(self):
        said = io.StringIO()
        with mock.patch.dict(os.environ, {"ELASTICTRAIN_RESUME": "1", "RANK": "1"}), contextlib.redirect_stdout(said):
            with self.silent(True):
                print("once more")
            with self.silent(False):
                print("later")
        self.assertEqual(said.getvalue(), "later\n")

    def test_a_folder_of_the_worker_before_it_is_there(self):
        folder = os.path.dirname(self.old)
        with mock.patch.dict(os.environ, {"RANK": "0"}), self.silent(True):
            os.mkdir(folder)
            os.makedirs(os.path.join(folder, "new"))
        with mock.patch.dict(os.environ, {"RANK": "1"}), self.silent(True), self.assertRaises(FileExistsError):
            os.mkdir(folder)

    def test_a_member_writes_everything(self):
        with self.silent(False):
            self.change()
        self.assertEqual(torch.load(self.old), {})


class Prefetchers(unittest.TestCase):
    def test_a_batch_is_taken_when_the_one_before_was_trained_on(self):
        taken, trained = [], []

        class Source:
            def __iter__(self):
                for number in range(4):
                    taken.append(number)
                    yield number

        class Ahead:
            """As timm's."""

            def __init__(self, loader):
                self.loader = loader

            def __iter__(self):
                last = None
                for batch in self.loader:
                    if last is not None:
                        yield last * 10
                    last = batch
                yield last * 10

        _prefetchers.take_one_at_a_time(Ahead)
        for is_training, most in ((True, 0), (False, 1)):
            with self.subTest(is_training), mock.patch.object(_prefetchers.script, "is_training", lambda loader: is_training):
                taken.clear()
                trained.clear()
                for batch in Ahead(Source()):
                    self.assertLessEqual(len(taken) - len(trained) - 1, most)
                    trained.append(batch)
                self.assertEqual(trained, [0, 10, 20, 30])


class Published(unittest.TestCase):
    def test_what_cannot_be_handed_over_is_said_behind_the_second_update(self):
        session = mock.Mock(rank=1, world_size=2)
        session.board_get.return_value = b"0.0 2"
        session.boundary.return_value = frozenset()
        takeover = _takeover.Takeover(session, [], [], (dict, None))
        fits, too_large = mock.Mock(return_value=b"record"), mock.Mock(side_effect=RecordError("it is too large"))
        with mock.patch.multiple(takeover._progress, signature=lambda: b"", note_first=mock.DEFAULT), \
                contextlib.redirect_stderr(io.StringIO()) as told:
            for step, record in ((101, fits), (102, too_large), (103, too_large)):
                with mock.patch.object(takeover._progress, "record", record):
                    takeover.at_update(step, False)
        self.assertEqual(told.getvalue().count("fixed size"), 1)
        self.assertEqual([call.args[1] for call in session.board_put.call_args_list], [b"Rrecord", b"Nit is too large"])


class Looks(unittest.TestCase):
    def test_a_worker_that_grew_up_with_one_other_is_not_new_for_ever(self):
        takeover = _takeover.Takeover.__new__(_takeover.Takeover)
        takeover._session, takeover._is_looking = types.SimpleNamespace(world_size=2), True
        takeover._look(5, 3)
        self.assertTrue(takeover._is_looking)
        takeover._look(3 + _takeover.LOOKS[-1], 3)
        self.assertFalse(takeover._is_looking)


class Settings(unittest.TestCase):
    def found(self, **variables):
        return _accumulation.find([mock.Mock(f_locals=variables)])

    def test_names_of_scripts_and_libraries(self):
        for name in ("grad_accum_steps", "gradient_accumulation_steps", "accumulation_steps", "accum_iter", "accum_freq", "n_accum",
                     "ACCUMULATE", "accumulate_grad_batches", "accum"):
            with self.subTest(name):
                self.assertEqual(self.found(**{name: 4}), (4, name))
                self.assertEqual(self.found(args=argparse.Namespace(**{name: 4})), (4, name))
                self.assertEqual(self.found(config={name: 4}), (4, name))

    def test_other_names_and_values(self):
        for name, value in (("accuracy", 4), ("accumulator", 4), ("account", 4), ("accumulated_loss", 4), ("accum_steps", 1),
                            ("accum_steps", 0), ("accum_steps", True), ("accum_steps", 2.0), ("accum_steps", None)):
            with self.subTest(name, value=value):
                self.assertEqual(self.found(**{name: value}), (1, ""))

    def test_settings_that_differ_say_nothing(self):
        self.assertEqual(self.found(accum_steps=4, args=argparse.Namespace(grad_accum=4))[0], 4)
        self.assertEqual(self.found(accum_steps=4, args=argparse.Namespace(grad_accum=2)), (1, ""))


class Commands(unittest.TestCase):
    def test_options_of_the_interpreter_and_the_words_of_the_program(self):
        for command, expected in {
                "python3 train.py --lr 1": ([], ["train.py", "--lr", "1"]),
                "python3 -u -X dev train.py -m x": (["-u", "-X", "dev"], ["train.py", "-m", "x"]),
                "python3 -m package.train a": ([], ["-m", "package.train", "a"]),
                "python3 -um package.train": (["-u"], ["-m", "package.train"]),
                "python3 -Wignore -W error train.py": (["-Wignore", "-W", "error"], ["train.py"]),
                "python3 -Xfrozen_modules=off train.py": (["-Xfrozen_modules=off"], ["train.py"]),
        }.items():
            with self.subTest(command):
                self.assertEqual(split_command(command.split()), expected)

    def test_programs_without_a_file(self):
        for command in ("python3 -c pass", "python3 -uc pass", "python3 -", "python3", "python3 -u"):
            with self.subTest(command):
                self.assertIsNone(split_command(command.split()))


if __name__ == "__main__":
    unittest.main()
