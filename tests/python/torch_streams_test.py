"""Data whose place a script can read and set, in one process: what is found, what travels, and who goes on with it."""

import contextlib
import importlib.util
import io
import sys
import threading
import unittest
from unittest import mock

import torch_python

torch_python.run_this_test_there()
sys.path.insert(0, torch_python.PACKAGE)

import torch  # noqa: E402
from torch.utils.data import DataLoader, IterableDataset, TensorDataset  # noqa: E402

from elastictrain.errors import ElasticError  # noqa: E402
from elastictrain.torch import _positions  # noqa: E402
from elastictrain.torch._positions import Streams  # noqa: E402
from elastictrain.torch._streams import Opened, Source  # noqa: E402
from elastictrain.torch.progress import _loops  # noqa: E402

DEADLINE_S = 20
iterate = DataLoader.__iter__


class Numbers(IterableDataset):
    def __init__(self, first=0, size=10 ** 9):
        self.count, self.size = first, size

    def __iter__(self):
        while self.count < self.size:
            self.count += 1
            yield self.count

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


class Padded(Numbers):
    """Its place takes so many bytes."""
    padding = 0

    def state_dict(self):
        return {"count": self.count, "padding": "x" * self.padding}


class Odd(Numbers):
    def state_dict(self):
        raise ValueError("no place yet")


class Board:
    """Of a run: its values, and what its checkpoint has."""

    def __init__(self):
        self.values, self.attached, self.notes = {"group/life": b"0.0 2"}, {}, []
        self.changed = threading.Condition()


class Session:
    def __init__(self, board, rank, world_size):
        self.board, self.rank, self.world_size = board, rank, world_size

    def board_put(self, key, value):
        with self.board.changed:
            self.board.values[key] = value
            self.board.changed.notify_all()

    def board_get(self, key, timeout_s=0.0):
        with self.board.changed:
            self.board.changed.wait_for(lambda: key in self.board.values, timeout_s)
            return self.board.values.get(key)

    def attach(self, name, value):
        self.board.attached[name] = value

    def attachment(self, name):
        return self.board.attached.get(name)

    def note(self, key, value):
        if self.rank == 0:
            self.board.notes.append(value)


class Worker:
    """Draws a number in each step. One that comes later has drawn in passes that count nowhere."""

    def __init__(self, board, rank, world_size, first=0, passes=0, kind=Numbers):
        self.session = Session(board, rank, world_size)
        self.opened = Opened(lambda: True)
        with mock.patch("elastictrain.torch._streams._may_begin_anew", lambda: True):
            self.it = self.opened.over(kind(first))
        self.drawn = [next(self.it) for _ in range(max(1, passes))]
        self.streams = Streams(self.session, self.opened.fix())
        self.drawn = self.drawn if not passes else []
        self.has_drawn = not passes

    def step(self, number, **how):
        if not self.has_drawn:
            self.drawn.append(next(self.it))
        self.has_drawn = False
        self.streams.at_update(number, **{"is_changed": False, "is_new": False, "is_saved": False, **how})

    def joins(self, number):
        """Its first step counts nowhere."""
        next(self.it)
        self.streams.at_update(number, True, True, False)


def together(*calls):
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()


@contextlib.contextmanager
def quietly():
    with contextlib.redirect_stderr(io.StringIO()) as text:
        yield text


class Found(unittest.TestCase):
    def test_a_loop_over_something_with_a_state_and_over_others(self):
        opened = Opened(lambda: True)
        self.assertEqual([next(opened.over(Numbers(4))), list(opened.over([1, 2])), type(opened.over(range(2)))],
                         [5, [1, 2], type(iter(range(2)))])
        opened.over(torch.nn.ModuleList([torch.nn.Linear(1, 1)]))
        self.assertEqual([type(source.thing) for source in opened.fix()], [Numbers])

    def test_what_is_looked_at_in_an_evaluation_is_not(self):
        opened = Opened(lambda: False)
        self.assertEqual(next(opened.over(Numbers())), 1)
        self.assertEqual(opened.fix(), [])

    def test_an_iterator_in_a_variable_goes_on_at_a_state(self):
        opened = Opened(lambda: True)
        it = opened.over(Numbers())
        self.assertEqual([next(it), next(it)], [1, 2])
        [source] = opened.fix()
        source.load({"count": 7})
        self.assertEqual([next(it), next(it), source.given], [8, 9, 4])

    def test_a_loader_over_a_dataset_with_a_state(self):
        opened = Opened(lambda: True)
        it = opened.over_loader(DataLoader(Numbers(size=20), batch_size=3), iterate)
        self.assertEqual(next(it).tolist(), [1, 2, 3])
        [source] = opened.fix()
        source.load({"count": 12})
        self.assertEqual([batch.tolist() for batch in it], [[13, 14, 15], [16, 17, 18], [19, 20]])

    def test_an_iterator_that_is_made_outside_of_a_loop_is_not_known(self):
        opened = Opened(lambda: True)
        numbers = Numbers()
        next(iter(numbers))
        with mock.patch("elastictrain.torch.progress._frames.frames", lambda: [sys._getframe(2)]):
            self.assertEqual(opened.fix(), [])
        self.assertEqual(opened.obstacle, "no loop of the script goes over its Numbers")

    def test_positions_in_processes_are_not_known(self):
        opened = Opened(lambda: True)
        next(iter(opened.over_loader(DataLoader(Numbers(size=4), batch_size=2, num_workers=1), iterate)))
        self.assertEqual(opened.fix(), [])
        self.assertIn("the loader's processes hold the positions", opened.obstacle)

    def test_random_numbers_of_the_process_are_as_before(self):
        data = TensorDataset(torch.arange(8))
        source = Source(Numbers(), lambda: iterate(DataLoader(data, shuffle=True)))
        source.stream = type("Stream", (), {})()
        torch.manual_seed(3)
        source.load({"count": 1})
        drawn = torch.rand(1)
        torch.manual_seed(3)
        self.assertEqual(drawn, torch.rand(1))

    def test_the_loops_of_scripts(self):
        opened = Opened(lambda: True)
        with mock.patch.object(_loops, "make_iterator", opened.over):
            self.assertEqual([next(iter(_loops.mark(Numbers()))), next(_loops.wrap(Numbers(1)))], [1, 2])
        self.assertEqual(len(opened.fix()), 2)

    @unittest.skipIf(importlib.util.find_spec("torchdata") is None, "this Python has no torchdata; pip install torchdata")
    def test_a_stateful_loader_goes_on_in_the_middle_of_an_epoch(self):
        from torchdata.stateful_dataloader import StatefulDataLoader, stateful_dataloader
        opened = Opened(lambda: True)
        original = StatefulDataLoader.__iter__
        self.addCleanup(setattr, StatefulDataLoader, "__iter__", original)
        opened._change_stateful(stateful_dataloader)
        for workers in (0, 2):
            with self.subTest(workers):
                def loader():
                    return StatefulDataLoader(TensorDataset(torch.arange(24)), batch_size=2, shuffle=True, num_workers=workers)
                first, second = loader(), loader()
                it, other = iter(first), iter(second)
                drawn = [next(it)[0].tolist() for _ in range(5)]
                next(other)
                source = opened._sources[-1]
                self.assertIs(source.thing, second)
                source.load(first.state_dict())
                rest = [batch[0].tolist() for batch in other]
                self.assertEqual([batch[0].tolist() for batch in it], rest)
                self.assertEqual(sorted(sum(drawn + rest, [])), list(range(24)))
                source.load({})
                self.assertEqual(len(list(other)), 12)


class Divided(unittest.TestCase):
    def two(self, board, kind=Numbers):
        """Numbers from 1 and from 101 on; both have made three steps."""
        workers = [Worker(board, rank, 2, 100 * rank, kind=kind) for rank in range(2)]
        for step in (1, 2, 3):
            for worker in workers[::-1]:
                worker.step(step)
        return workers

    def saved(self, workers, step):
        for worker in workers[::-1]:
            worker.step(step, is_saved=True)

    def resumed(self, board, size, step):
        board.values = {"group/life": b"1.0 2"}
        workers = [Worker(board, rank, size, 100 * rank, passes=1) for rank in range(size)]
        with quietly():
            for worker in workers:
                worker.streams.resume(step)
        for worker in workers[::-1]:
            worker.step(step + 1)
        return [worker.drawn for worker in workers]

    def test_a_run_that_resumes_goes_on_at_each_position(self):
        board = Board()
        workers = self.two(board)
        self.saved(workers, 4)
        self.assertEqual([worker.drawn for worker in workers], [[1, 2, 3, 4], [101, 102, 103, 104]])
        self.assertEqual(self.resumed(board, 2, 4), [[5], [105]])
        self.assertEqual(board.notes, [])

    def test_it_resumes_with_fewer_workers(self):
        board = Board()
        self.saved(self.two(board), 4)
        self.assertEqual(self.resumed(board, 1, 4), [[5]])
        self.assertEqual(board.notes, ["stream 1 (after 4 batches) is closed: there is no worker for it"])

    def test_it_resumes_with_more_workers(self):
        board = Board()
        self.saved(self.two(board), 4)
        self.assertEqual(self.resumed(board, 3, 4), [[5], [105], [201]])
        self.assertEqual(board.notes, ["stream 2 begins anew"])

    def test_a_checkpoint_without_positions(self):
        board = Board()
        self.assertEqual(self.resumed(board, 1, 4), [[2]])
        self.assertEqual(board.notes, ["not carried: the checkpoint has no positions; each worker begins anew"])

    def test_a_successor_goes_on_at_the_last_position_on_the_board(self):
        board = Board()
        first, _ = self.two(board)
        successor = Worker(board, 1, 2, 100, passes=1)
        with quietly() as text:
            together(lambda: first.step(5, is_changed=True), lambda: successor.joins(5))
        self.assertEqual(board.notes, ["stream 1 (after 1 batch) of a lost worker goes on in a new one, as it was 4 steps before"])
        self.assertIn("this worker goes on with stream 1 (after 1 batch), of step 1", text.getvalue())
        successor.step(6)
        self.assertEqual(successor.drawn, [102], "what was left is that of step 1")

    def test_growth_and_shrinkage(self):
        board = Board()
        workers = self.two(board)
        for worker in workers:
            worker.session.world_size = 3
        third = Worker(board, 2, 3, 200, passes=1)
        with quietly():
            together(*(lambda worker=worker: worker.step(4, is_changed=True) for worker in workers), lambda: third.joins(4))
            third.step(5)
            self.assertEqual((third.drawn, board.notes), ([201], ["stream 2 begins anew"]))
            third.streams.leave()
            for worker in workers:
                worker.session.world_size = 2
            together(*(lambda worker=worker: worker.step(6, is_changed=True) for worker in workers))
        self.assertEqual(board.notes[1:], ["stream 2 (after 1 batch) is closed: its worker has left"])
        workers[1].session.rank, workers[0].session.rank = 0, 1  # whoever is the first one knows
        fourth = Worker(board, 2, 3, 300, passes=1)
        for worker in workers:
            worker.session.world_size = 3
        with quietly():
            together(*(lambda worker=worker: worker.step(7, is_changed=True) for worker in workers), lambda: fourth.joins(7))
        self.assertEqual(board.notes[2:], ["stream 3 begins anew"], "a number is used once")

    def test_a_place_that_cannot_be_told_or_is_too_large(self):
        self.assertIn("Odd.state_dict() raised ValueError: no place yet", Worker(Board(), 0, 1, kind=Odd).streams.obstacle)
        board = Board()
        workers = self.two(board, Padded)
        with mock.patch.object(Padded, "padding", _positions.LARGEST_BYTES), quietly():
            self.saved(workers, 4)
        self.assertEqual(board.notes, ["not carried from step 4 on: a place in Padded takes 256 KiB; at most 256 are carried"])
        self.assertFalse(workers[0].streams.is_carried)
        self.assertNotIn("streams", board.attached)

    def test_a_state_that_is_refused_is_an_error(self):
        board = Board()
        self.saved(self.two(board), 4)
        worker = Worker(board, 0, 1)
        with mock.patch.object(Numbers, "load_state_dict", lambda *_: 1 / 0), \
                self.assertRaisesRegex(ElasticError, "Numbers.load_state_dict.. raised ZeroDivisionError"):
            worker.streams.resume(4)

    def test_the_script_s_progress_leaves_it_alone(self):
        worker = Worker(Board(), 0, 1)
        self.assertEqual([type(thing) for thing in worker.streams.things()], [Numbers])


if __name__ == "__main__":
    unittest.main()
