"""What workers of elastictrain.torch exchange behind an update, and who writes: workers as threads, no run."""

import sys
import types
import unittest
from unittest import mock

import torch_python

torch_python.run_this_test_there()
sys.path.insert(0, torch_python.PACKAGE)

import torch  # noqa: E402

from elastictrain.torch import _accelerate, _collectives, _exchange, _loggers  # noqa: E402
from elastictrain.torch._aside import Aside  # noqa: E402
from elastictrain.torch._script import script  # noqa: E402
from torch_world import Lost, World  # noqa: E402

FOLLOWED = b"1 7"  # the last step was committed for an exchange; seven steps of the epoch are done


def exchanges(*values):
    """A worker that exchanges these values behind an update, then trains on. Returns its place, what it got in each
    exchange, and what all workers send in the next step."""
    def program(session):
        aside = Aside(session)
        aside.open()
        got = [aside.gather_bytes(value) for value in values]
        place = (aside.rank, aside.world_size)
        aside.close()
        return place, got, _exchange.gather(session, b"next")
    return program


def joins(session):
    """A worker that joins at this boundary, and then trains."""
    aside = Aside(session)
    aside.follow()
    return aside.announced_steps(), _exchange.gather(session, b"next")


def is_lost_behind(value):
    def program(session):
        aside = Aside(session)
        aside.open()
        aside.gather_bytes(value)
        raise Lost
    return program


class BehindAnUpdate(unittest.TestCase):
    def test_a_worker_that_joins_follows_without_a_value(self):
        first, second, joiner = World(FOLLOWED).run(exchanges(b"a", b"c"), exchanges(b"b", b"d"), joins)
        self.assertEqual(first, ((0, 2), [[b"a", b"b"], [b"c", b"d"]], [b"next"] * 3))
        self.assertEqual(second[0], (1, 2))
        self.assertEqual(joiner, (7, [b"next"] * 3))

    def test_one_that_joins_at_another_boundary_follows_nothing(self):
        trains = (lambda session: _exchange.gather(session, b"next"))
        self.assertEqual(World(b"0 7").run(trains, joins), [[b"next"] * 2, (7, [b"next"] * 2)])

    def test_ranks_among_those_that_exchange_have_no_gap(self):
        """Whatever the rank of the worker that joins."""
        for place in range(3):
            programs = [exchanges(b"a"), exchanges(b"b")]
            programs.insert(place, joins)
            results = World(FOLLOWED).run(*programs)
            del results[place]
            self.assertEqual([result[:2] for result in results], [((0, 2), [[b"a", b"b"]]), ((1, 2), [[b"a", b"b"]])])

    def test_what_a_lost_worker_had_is_left_out(self):
        results = World(FOLLOWED).run(exchanges(b"a", b"c"), is_lost_behind(b"x"), exchanges(b"b", b"d"), joins)
        self.assertEqual(results[0], ((0, 3), [[b"a", b"x", b"b"], [b"c", b"d"]], [b"next"] * 3))
        self.assertEqual(results[2][0], (2, 3))

    def test_parts_differ_in_size(self):
        gather = [lambda session, part=part: _exchange.gather(session, part) for part in (b"", b"long", b"\0\1")]
        self.assertEqual(World().run(*gather), [[b"", b"long", b"\0\1"]] * 3)

    def test_tensors_are_combined_in_one_order(self):
        values = [1e8, 1.0, -1e8]

        def program(session):
            aside, held = Aside(session), torch.tensor(values[session.rank])
            aside.open()
            aside.reduce(held, "sum")
            return held
        self.assertEqual(len({float(held) for held in World().run(*[program] * 3)}), 1)

    def test_where_nobody_can_have_joined_values_take_the_session_s_own_way(self):
        def program(session):
            aside, held = Aside(session), torch.tensor([session.rank + 1.0])
            aside.open(may_be_joined=False)
            aside.reduce(held, "sum")
            aside.barrier()
            aside.close()
            return float(held), (aside.rank, aside.world_size), session.calls
        self.assertEqual(World().run(*[program] * 2), [(3.0, (rank, 2), ["reduce_values", "barrier"]) for rank in range(2)])


class Writer:
    """A FileWriter that notes what is written."""

    made = []

    def __init__(self, log_dir, queue=10):
        self.log_dir, self.queue, self.written, self.flushes, self.is_closed = log_dir, queue, [], 0, False
        Writer.made.append(self)

    def add_event(self, event, step=None):
        self.written.append((event, step))

    def flush(self):
        self.flushes += 1

    def close(self):
        self.is_closed = True


class FirstWriter(unittest.TestCase):
    def setUp(self):
        Writer.made = []
        self.writer = _loggers.FirstWriter(Writer, "runs/a", 20)

    def rank(self, rank):
        return mock.patch.object(type(script), "rank", rank)

    def test_a_worker_that_is_not_first_makes_no_file(self):
        with self.rank(1):
            self.writer.add_event("x", step=1)
            self.writer.flush()
            self.writer.close()
        self.assertEqual(Writer.made, [])
        self.assertEqual(self.writer.get_logdir(), "runs/a")

    def test_the_first_worker_writes_also_when_it_becomes_the_first_later(self):
        with self.rank(1):
            self.writer.add_event("x", step=1)
        with self.rank(0):
            self.writer.add_event("y", step=2)
            self.writer.add_event("z", 3)
        with self.rank(1):
            self.writer.add_event("w", step=4)
            self.writer.flush()
            self.writer.close()
        [made] = Writer.made
        self.assertEqual((made.log_dir, made.queue, made.written), ("runs/a", 20, [("y", 2), ("z", 3)]))
        self.assertEqual((made.flushes, made.is_closed), (1, True), "what it wrote as the first one is complete")


class Accelerate(unittest.TestCase):
    def test_the_tensors_of_one_call_are_gathered_at_once(self):
        """So that a worker that is lost between two gathers is not missing in one tensor only."""
        exchanged = []

        def two_workers(part):
            exchanged.append(part)
            return [part, part]

        module = types.SimpleNamespace(recursively_apply=lambda apply, data, **_: tuple(apply(tensor) for tensor in data))
        _accelerate._change_operations(module)
        with mock.patch.object(_collectives, "gatherer", lambda what: two_workers):
            both = module._gpu_gather((torch.tensor([1, 2]), torch.tensor(0.5)))
        self.assertEqual([tensor.tolist() for tensor in both], [[1, 2, 1, 2], [0.5, 0.5]])
        self.assertEqual(len(exchanged), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
