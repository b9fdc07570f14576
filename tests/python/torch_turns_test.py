"""Replicas take turns in the batches of a script's own data: every batch once, at any number of them."""

import os
import random
import sys
import threading
import unittest
from unittest import mock

import torch_python

torch_python.run_this_test_there()
sys.path.insert(0, torch_python.PACKAGE)

import torch  # noqa: E402
from torch.utils.data import DataLoader, IterableDataset  # noqa: E402

from elastictrain.errors import ElasticError  # noqa: E402
from elastictrain.torch import _turns  # noqa: E402
from elastictrain.torch.progress import _iterators, _loops, _rewrite  # noqa: E402


class Run:
    begins_together = True
    step = 0

    def __init__(self, place=(0, 1), drawn=()):
        self.place, self.drawn = place, drawn
        self.world_size = place[1]

    def turn(self):
        return self.place

    def gather(self, own):
        return [own, *self.drawn]


class Script:
    """One replica's."""

    def __init__(self, place=(0, 1)):
        self.thread, self.counts_samples, self.trains_on_own, self.run = threading.get_ident(), False, True, Run(place)
        self.turns = _turns.Turns(self)


def batches(count):
    for number in range(count):
        yield [number]


numbers = iter(range(9))


def named():
    return torch.tensor(next(numbers))


class Stream(IterableDataset):
    def __iter__(self):
        return (torch.tensor(number) for number in range(12))


class PartsOfBatches(unittest.TestCase):
    """A generator over the micro-batches of a batch, which a function gives that is not known."""

    def train(self, script, updates):
        taken = []
        for _ in range(updates):
            for [part] in script.turns.over(batches(4)):
                taken.append(part)
                script.turns.note_pass(script.run)
            script.run.step += 1
        return taken

    def test_one_replica_trains_on_all_of_them(self):
        script = Script()
        self.assertEqual(self.train(script, 3), 3 * [0, 1, 2, 3])
        script.run.place = (1, 2)
        script.run.world_size = 2
        self.assertEqual(self.train(script, 1), [0, 1, 2, 3], "what gives parts is no source later")

    def test_several_end_before_the_update(self):
        with self.assertRaisesRegex(ElasticError, r"batches\(\) gives the parts of one batch, all of them for one update"):
            self.train(Script((1, 2)), 1)

    def test_an_epoch_that_ends_where_a_new_replica_goes_on_is_no_batch(self):
        """Its pass is that of the others' last update."""
        script = Script((0, 2))
        own = script.turns.over(batches(4))
        next(own)
        ended = batches(0)
        placed = _iterators.placed(own, _iterators.place_of(own), [ended])
        script.turns.note_pass(script.run)
        self.assertEqual(list(placed), [])
        self.assertEqual(script.turns.name, "batches()")

    def test_an_epoch_of_one_update_is_no_batch(self):
        script = Script((0, 2))
        for _ in range(3):
            for _ in script.turns.over(batches(2)):
                script.turns.note_pass(script.run)
                script.run.step += 1
        self.assertEqual(script.turns.name, "batches()")


class Taken(unittest.TestCase):
    def test_every_batch_is_taken_once_at_any_number_of_replicas(self):
        for seed in range(20):
            numbers = random.Random(seed)
            scripts = [Script() for _ in range(4)]
            loops = [script.turns.over(batches(101)) for script in scripts]
            seen = []
            while True:
                present = numbers.randint(1, 4)
                for place, script in enumerate(scripts):
                    script.run.place = (min(place, present - 1), present)
                taken = [next(loop, None) for loop in loops]
                self.assertEqual(len({part is None for part in taken}), 1, "the data end for all, or for none")
                if taken[0] is None:
                    break
                seen += [number for [number] in taken[:present]]
            self.assertEqual(seen, list(range(len(seen))))
            self.assertGreater(len(seen), 101 - 4, "what is left out is less than a turn")

    def test_those_that_begin_together_go_on_from_one_place(self):
        scripts = [Script(), Script()]
        taken = []
        for rank, (script, known) in enumerate(zip(scripts, (1, 2))):  # the first one was started before the second was asked for
            run, script.run = script.run, None
            loop = script.turns.over(batches(10))
            here = mock.Mock(workers_at_start=known)
            with mock.patch.object(_turns._replica, "current", lambda: here), mock.patch.object(_turns, "own_rank", lambda: rank), \
                    mock.patch.object(_turns, "is_starter", lambda: True):
                taken.append((loop, next(loop)))
            script.run = run
        self.assertEqual([first for _, first in taken], [[0], [1]])
        for rank, script in enumerate(scripts):
            script.run.place, script.run.drawn = (rank, 2), (b"1", b"2")
            script.turns.note_pass(script.run)
        self.assertEqual([next(loop) for loop, _ in taken], [[2], [3]])

    def test_what_is_not_the_stream_is_as_it_was(self):
        script = Script((1, 2))
        layers = [torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)]
        parameters = (layer.weight for layer in layers)
        self.assertEqual(len(list(script.turns.over(parameters))), 2, "no batch is a parameter")
        self.assertEqual([number for [number] in script.turns.over(batches(5))], [1, 3])
        self.assertEqual(len(list(script.turns.over(torch.tensor(n) for n in range(3)))), 3, "another generator than that of the batches")
        script.trains_on_own = False
        self.assertEqual(len(list(script.turns.over(batches(5)))), 5, "an evaluation")

    def test_what_gives_nothing_in_a_step_gives_no_batches(self):
        script = Script((1, 2))
        self.assertEqual(list(script.turns.over(enumerate("ab"))), [(0, "a"), (1, "b")])
        self.assertEqual(len(list(script.turns.over((number, "path") for number in range(3)))), 3)
        self.assertEqual(len(list(script.turns.over([number] for number in range(2)))), 1, "it could be")
        for step in (1, 2):
            script.run.step = step
            script.turns.note_pass(script.run)
        self.assertEqual([number for [number] in script.turns.over(batches(4))], [1, 3])
        self.assertEqual(script.turns.name, batches.__name__ + "()")

    def test_what_passes_on_the_batches_of_a_counted_loader_gives_none(self):
        script = Script((1, 2))

        def counted():
            for number in range(3):
                script.counts_samples = True
                yield [number]

        self.assertEqual(list(script.turns.over(counted())), [[0], [1], [2]])
        self.assertEqual(script.turns.name, "")

    def test_parts_of_a_batch_are_no_batches(self):
        def inner():
            yield from ([number] for number in range(4))

        script = Script((0, 2))

        def outer():
            for _ in range(4):
                yield [sum(part for [part] in script.turns.over(inner()))]

        self.assertEqual(list(script.turns.over(outer())), [[6], [6]])

    def test_forms(self):
        script = Script((1, 2))
        self.assertEqual(list(script.turns.over(enumerate(batches(6)))), [(0, [1]), (1, [3]), (2, [5])])
        it = batches(4)
        self.assertEqual([script.turns._next(it), script.turns._next(it), script.turns._next(it, None)], [[1], [3], None])
        with self.assertRaises(StopIteration):
            script.turns._next(it)
        loader = DataLoader(Stream(), batch_size=3)
        script = Script((1, 2))
        self.assertEqual([batch.tolist() for batch in script.turns.over_loader(loader, iter)], [[3, 4, 5], [9, 10, 11]])

    def test_a_loader_goes_on_at_a_place(self):
        script, other = Script((0, 2)), Script((1, 2))
        first, second = (one.turns.over_loader(DataLoader(Stream(), batch_size=1), iter) for one in (script, other))
        next(first)
        next(first)
        next(second)
        second.set_progress_place(first.progress_place())
        self.assertEqual([next(first).tolist(), next(second).tolist()], [[4], [5]])

    def test_a_loop_is_placed_over_another_one(self):
        script = Script((0, 2))
        turn = script.turns.over(batches(4))
        self.assertEqual((_iterators.kind_of(turn), len(_iterators.operands_of(turn))), ("passing", 1))
        self.assertEqual(list(_iterators.placed(turn, _iterators.place_of(turn), [batches(6)])), [[0], [2], [4]])

    def test_a_function_that_is_named(self):
        script = Script((1, 3))
        with mock.patch.dict(os.environ, {_turns.NAMED: f"{__name__}:named"}):
            original = named
            try:
                script.turns.name_function()
                self.assertEqual(script.turns.name, "named()")
                self.assertEqual([int(named()) for _ in range(2)], [1, 4])
            finally:
                globals()["named"] = original
        for wrong in ("nowhere:named", f"{__name__}:nothing", "named"):
            with mock.patch.dict(os.environ, {_turns.NAMED: wrong}), self.assertRaisesRegex(ElasticError, "there is no such function"):
                Script().turns.name_function()


class Rewritten(unittest.TestCase):
    def run_in(self, source):
        names = {}
        exec(_rewrite.rewritten(source, "script.py").code, names)
        return names

    def test_next_of_a_script(self):
        made = self.run_in("def first(it): return next(it, 7)\nclass Net:\n  def forward(self, it): return next(it)\n")
        with mock.patch.object(_loops, "take_next", lambda *arguments: ("taken", *arguments[1:])):
            self.assertEqual(made["first"](iter("a")), ("taken", 7))
            self.assertEqual(made["Net"]().forward(iter("a")), "a", "what torch traces is as it was")
        self.assertEqual(made["first"](iter(())), 7)

    def test_another_function_of_this_name(self):
        made = self.run_in("def next(it): return 5\ndef first(it): return next(it)\n")
        self.assertEqual(made["first"](iter("a")), 5)


if __name__ == "__main__":
    unittest.main()
