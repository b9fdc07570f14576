"""How many batches the loops of a script have while workers come and go: never more than it was told, and each sample once."""

import random
import sys
import unittest

import torch_python

torch_python.run_this_test_there()
sys.path.insert(0, torch_python.PACKAGE)

from elastictrain.torch._lengths import Lengths, Place  # noqa: E402


class Data:
    """The samples of a run, as the session divides them, and one worker's view of a script's loops over them."""

    def __init__(self, size, batch, workers, least=0, drops_last=False, accumulation=1):
        self.size, self.batch, self.workers, self.least = size, batch, workers, least
        self.drops_last, self.accumulation = drops_last, accumulation
        self.lengths, self.other = (Lengths(size, batch * workers, least, drops_last, accumulation) for _ in range(2))
        for lengths in (self.lengths, self.other):
            lengths.announce(10 ** 9)
        self.epoch, self.used, self.open_samples, self.waiting = 0, 0, 0, 0
        self.trained = []  # samples of each epoch of the data
        self.exchanges = 0
        self.open()

    @property
    def place(self):
        return Place(self.epoch, max(0, self.size - self.used - self.open_samples), self.open_samples, self.waiting)

    def open(self):
        wanted, left = self.batch * self.workers, self.size - self.used
        if left <= 0 or (self.drops_last and self.used and left < wanted):
            self.epoch, self.used, left = self.epoch + 1, 0, self.size
        takes_all = left <= wanted or left - wanted < self.least
        self.open_samples, self.waiting = left if takes_all else wanted, self.accumulation
        if self.both("opened", self.place):
            self.exchanges += 1
            self.both("settle", self.lengths.is_asked, self.place)

    def both(self, call, *arguments, **named):
        """Of this worker, and of one whose script never asks: all workers end their loops alike."""
        own, other = (getattr(lengths, call)(*arguments, **named) for lengths in (self.lengths, self.other))
        assert own == other, f"{call}() gives {own} and {other}"
        return own

    def commit(self):
        while len(self.trained) <= self.epoch:
            self.trained.append(0)
        self.trained[self.epoch] += self.open_samples
        self.used, self.open_samples = self.used + self.open_samples, 0
        self.open()

    def ask(self):
        self.lengths.is_asked = True
        return self.lengths.length(self.place)

    def loop(self, between=lambda number: None, most=None):
        """Its number of batches. `between`: called before each but the first one. `most`: a break behind so many."""
        self.both("begin", self.place)
        count = 0
        while not self.both("is_over", self.place):
            if count == most:
                return count
            self.both("hand", self.epoch)
            count, self.waiting = count + 1, self.waiting - 1
            between(count)
            if not self.waiting:
                self.commit()
        self.both("end", self.place)
        return count


def resized(data, at, workers):
    def between(count):
        if count == at:
            data.workers = workers
    return between


class Numbers(unittest.TestCase):
    def test_a_loop_that_would_become_longer_ends_as_announced_and_the_next_one_gets_the_rest(self):
        data = Data(size=480, batch=32, workers=2)
        self.assertEqual(data.ask(), 8)
        self.assertEqual(data.loop(resized(data, 4, 1)), 8)  # 256 samples with two workers, 128 with one
        self.assertEqual(data.ask(), 3 + 15)
        self.assertEqual(data.loop(), 18)
        self.assertEqual(data.trained, [480, 480])
        self.assertEqual((data.ask(), data.loop()), (15, 15))

    def test_what_it_is_told_in_a_shortened_loop(self):
        data = Data(size=480, batch=32, workers=2)
        data.ask()
        told = []

        def between(count):
            resized(data, 4, 1)(count)
            told.append(data.ask())

        self.assertEqual(data.loop(between), 8)
        self.assertEqual(told, [8] * 8)

    def test_a_script_that_never_asks_gets_all_of_the_epoch(self):
        data = Data(size=480, batch=32, workers=2)
        self.assertEqual(data.loop(resized(data, 4, 1)), 4 + 7)
        self.assertEqual(data.trained, [480])
        self.assertEqual(data.exchanges, 1)

    def test_a_script_that_asks_later_is_told_what_holds_from_then_on(self):
        data, told = Data(size=480, batch=32, workers=2), []

        def between(count):
            resized(data, 4, 1)(count)
            if count >= 6:
                told.append(data.ask())

        self.assertEqual(data.loop(between), 11)
        self.assertEqual(told, [11] * 6)

    def test_a_loop_becomes_shorter_with_more_workers(self):
        data = Data(size=480, batch=32, workers=2)
        self.assertEqual(data.ask(), 8)
        self.assertEqual(data.loop(resized(data, 4, 4)), 6)
        self.assertEqual((data.ask(), data.loop()), (4, 4))
        self.assertEqual(data.trained, [480, 480])

    def test_a_loss_between_two_loops(self):
        data = Data(size=480, batch=32, workers=2)
        data.loop()
        self.assertEqual(data.ask(), 8)
        data.workers = 1  # behind the first step, which is open
        self.assertEqual(data.loop(), 8)
        self.assertEqual(data.ask(), 6 + 15)

    def test_two_losses_in_one_loop(self):
        data = Data(size=960, batch=10, workers=4)
        self.assertEqual(data.ask(), 24)

        def between(count):
            data.workers = 4 if count < 6 else 2 if count < 12 else 1

        self.assertEqual(data.loop(between), 24)
        used = 6 * 40 + 6 * 20 + 12 * 10
        self.assertEqual(data.ask(), (960 - used) // 10 + 96)
        data.loop()
        self.assertEqual(data.trained, [960, 960])
        self.assertEqual(data.exchanges, 1)

    def test_what_the_last_loop_did_not_get(self):
        data = Data(size=480, batch=32, workers=2)
        data.ask()
        data.loop(resized(data, 4, 1))
        self.assertEqual(data.lengths.carried(data.place), 480 - 256 - 128)
        data.loop()
        self.assertEqual(data.lengths.carried(data.place), 0)

    def test_a_loop_goes_on_behind_a_break(self):
        data = Data(size=480, batch=32, workers=2)
        self.assertEqual([data.loop(most=3) for _ in range(2)], [3, 3])
        self.assertEqual(data.loop(), 2)
        self.assertEqual(data.trained, [480])

    def test_several_batches_of_a_step(self):
        data = Data(size=480, batch=64, workers=2, accumulation=2)
        self.assertEqual(data.ask(), 8)
        self.assertEqual(data.loop(resized(data, 4, 1)), 8)
        self.assertEqual(data.trained, [2 * 128 + 2 * 64])


class Property(unittest.TestCase):
    def test_any_changes(self):
        for seed in range(300):
            with self.subTest(seed=seed):
                self.check(random.Random(seed))

    def check(self, chance):
        size, batch = chance.randint(1, 200), chance.randint(1, 9)
        data = Data(size, batch, chance.randint(1, 5), least=min(chance.randint(0, 2), batch), drops_last=chance.random() < 0.3)
        often = chance.choice((0.0, 0.05, 0.3))

        def between(count):
            if chance.random() < often:
                data.workers = chance.randint(1, 5)
            if asks and chance.random() < 0.2:
                told.append(data.ask())

        for number in range(8):
            asks = chance.random() < 0.6
            told = [data.ask()] if asks else []
            count = data.loop(between)
            self.assertTrue(all(count <= one for one in told), f"{count} batches, told {told}")
            if not often and asks:
                self.assertEqual(told, [count] * len(told))
            if not often:
                self.assertEqual(data.epoch, number + 1)
        if not data.drops_last:
            self.assertEqual(data.trained[:data.epoch], [size] * data.epoch, "each sample once in each epoch of the data")
        data.workers = 1
        for _ in range(2):  # the one after a shrink brings loops and epochs of the data together
            data.loop()
        self.assertGreaterEqual(data.epoch, 9)


if __name__ == "__main__":
    unittest.main()
