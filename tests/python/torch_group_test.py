"""The process group of elastictrain.torch: workers as threads, no run."""

import os
import pickle
import sys
import threading
import unittest
from unittest import mock

import torch_python

torch_python.run_this_test_there()
sys.path.insert(0, torch_python.PACKAGE)

import torch  # noqa: E402
from torch.distributed import ReduceOp  # noqa: E402
from torch.distributed.distributed_c10d import (AllgatherOptions, AllreduceOptions, BroadcastOptions, GatherOptions,  # noqa: E402
                                                ReduceOptions, ScatterOptions)

from elastictrain.errors import ElasticError  # noqa: E402
from elastictrain.torch import _collectives, _group_board, _lists  # noqa: E402
from elastictrain.torch._exchange import Plane, Rooms  # noqa: E402
from elastictrain.torch._group import ElasticGroup, LiveRanks  # noqa: E402
from torch_world import Lost, World  # noqa: E402


def chosen(kind, **values):
    options = kind()
    for name, value in values.items():
        setattr(options, name, value)
    return options


def with_group(call):
    """A program that calls with the group of its worker."""
    def program(session):
        plane = Plane(session)
        return call(ElasticGroup(lambda: (session.rank, session.world_size), lambda what: plane))
    return program


def of_all(call, workers=3):
    return World().run(*[with_group(call)] * workers)


def own(group, *values):
    return torch.tensor([10.0 * group.rank() + value for value in values])


class Group(unittest.TestCase):
    def test_reductions(self):
        for operation, expected in {ReduceOp.SUM: 30.0, ReduceOp.AVG: 10.0, ReduceOp.MAX: 20.0}.items():
            def call(group, operation=operation):
                values = own(group, 0)
                group.allreduce([values], chosen(AllreduceOptions, reduceOp=operation)).wait()
                return float(values)
            with self.subTest(operation):
                self.assertEqual(of_all(call), [expected] * 3)

    def test_a_mean_of_integers_is_cut(self):
        def call(group):
            values = torch.tensor([group.rank()])
            group.allreduce([values], chosen(AllreduceOptions, reduceOp=ReduceOp.AVG))
            return int(values)
        self.assertEqual(of_all(call, 2), [0, 0])

    def test_an_operation_that_is_not_known_is_refused_by_torchs_name(self):
        def call(group):
            with self.assertRaisesRegex(ElasticError, r"torch\.distributed\.all_reduce\(\) cannot be elastic: .* is not known"):
                group.allreduce([torch.ones(1)], mock.Mock(reduceOp=ReduceOp.PREMUL_SUM))
        of_all(call, 1)

    def test_only_the_root_of_a_reduction_has_the_result(self):
        def call(group):
            values = own(group, 0)
            group.reduce([values], chosen(ReduceOptions, rootRank=1))
            return float(values)
        self.assertEqual(of_all(call), [0.0, 30.0, 20.0])

    def test_memory_in_another_order_is_written_where_it_is(self):
        def call(group):
            held = torch.zeros(2, 2)
            held.t()[0] = own(group, 1, 2)
            group.broadcast([held.t()[0]], chosen(BroadcastOptions, rootRank=2))
            return held.tolist()
        self.assertEqual(of_all(call), [[[21.0, 0.0], [22.0, 0.0]]] * 3)

    def test_scatter(self):
        def call(group):
            values = torch.empty(1)
            parts = [[torch.tensor([float(rank)]) for rank in range(3)]] if group.rank() == 1 else []
            group.scatter([values], parts, chosen(ScatterOptions, rootRank=1))
            return float(values)
        self.assertEqual(of_all(call), [0.0, 1.0, 2.0])

    def test_a_list_of_another_length_than_the_world_is_an_error(self):
        def call(group):
            with self.assertRaisesRegex(ElasticError, "a list of 1 tensors for the values of 2 workers"):
                group.allgather([[torch.empty(1)]], [own(group, 0)], AllgatherOptions())  # not by the function of its own
        of_all(call, 2)

    def test_sparse_values_are_refused(self):
        with self.assertRaisesRegex(ElasticError, r"all_reduce\(\) cannot be elastic: .*pass tensor\.to_dense\(\)"):
            of_all(lambda group: group.allreduce([torch.ones(1).to_sparse()], AllreduceOptions()), 1)

    def test_messages_between_two_workers_are_refused(self):
        for name in ("send", "recv"):
            with self.assertRaisesRegex(ElasticError, rf"torch\.distributed\.{name}\(\) cannot be elastic"):
                getattr(ElasticGroup(lambda: (0, 1), None), name)([torch.ones(1)], 0, 0)

    def test_rank_and_size_are_those_of_the_moment(self):
        where = [(1, 2)]
        group = ElasticGroup(lambda: where[0], None)
        ranks = LiveRanks(group)
        self.assertEqual((group.rank(), group.size(), dict(ranks)), (1, 2, {0: 0, 1: 1}))
        where[0] = (0, 3)
        self.assertEqual((group.rank(), group.size(), list(ranks.keys()), len(ranks), 2 in ranks, 3 in ranks),
                         (0, 3, [0, 1, 2], 3, True, False))


def is_lost(session):
    raise Lost


class LostWorker(unittest.TestCase):
    def test_what_it_had_is_left_out_of_a_mean(self):
        def call(group):
            values = own(group, 2)
            group.allreduce([values], chosen(AllreduceOptions, reduceOp=ReduceOp.AVG))
            return float(values)
        results = World().run(with_group(call), is_lost, with_group(call))
        self.assertEqual((results[0], results[2]), (12.0, 12.0), "the mean of 2 and 22")

    def test_the_values_of_the_others_stay_in_their_places(self):
        def call(group):
            values = [torch.full((1,), -1.0) for _ in range(3)]
            group.allgather([values], [own(group, 1)], AllgatherOptions())
            return [float(value) for value in values], group.lost
        results = World().run(is_lost, with_group(call), with_group(call))
        self.assertEqual(results[1:], [([0.0, 11.0, 21.0], [0])] * 2)

    def test_the_last_of_the_others_has_the_same_list(self):
        """Its rank is another one behind the loss."""
        def call(group):
            values = [torch.full((1, 1), -1.0) for _ in range(3)]
            with mock.patch.dict(_collectives._own, {"all_gather": lambda rows, tensor, *_: group.allgather([rows], [tensor])}):
                _collectives.all_gather(values, own(group, 1)[None], group)
            return [value.flatten().tolist() for value in values]
        with mock.patch.object(_collectives, "_in_pass", lambda *_: (set(), None)):
            self.assertEqual(World().run(is_lost, with_group(call), with_group(call))[1:], [[[11.0], [21.0]]] * 2)

    def test_a_gathering_root_knows_who_is_missing(self):
        def call(group):
            values = [torch.empty(1) for _ in range(2)]
            group.gather([values] if group.rank() == 0 else [], [own(group, 1)], chosen(GatherOptions, rootRank=0))
            return group.lost
        self.assertEqual(World().run(with_group(call), is_lost)[0], [1])


class Pass(unittest.TestCase):
    """A worker is lost between two exchanges of a pass."""

    def trained(self, *parts, lost=1, silent=()):
        """What each of three workers gathers: `parts` times, before the loss once."""
        told = []

        def call(session):
            plane = Plane(session, on_filled=told.append)
            plane.enter(7)
            plane.silent |= set(silent)
            group = ElasticGroup(lambda: (plane.rank, plane.world_size), lambda what: plane)
            rank, made = plane.rank, []
            for number, part in enumerate(parts):
                if number == 1 and rank == lost:
                    raise Lost
                made.append(part(plane, group, torch.tensor([10.0 * rank + number + 1])))
            plane.enter(None)
            return made, (plane.rank, plane.world_size), sorted(told)
        return [result for result in World().run(*[call] * 3) if result is not None]

    @staticmethod
    def gathers(plane, group, values):
        rows = [torch.empty(1) for _ in range(group.size())]
        group.allgather([rows], [values])
        return [None if rank in group.lost else float(row) for rank, row in enumerate(rows)]

    def test_what_is_gathered_has_as_many_rows_each_time(self):
        """The values of another worker are in the place of those of the lost one, which were in what was gathered before."""
        results = self.trained(self.gathers, self.gathers, self.gathers)
        self.assertEqual([made for made, _, _ in results], [[[1.0, 11.0, 21.0], [2.0, 2.0, 22.0], [3.0, 3.0, 23.0]]] * 2)
        self.assertEqual([place for _, place, _ in results], [(0, 2), (1, 2)], "behind the pass")
        self.assertEqual(results[-1][2], [1, 1], "each of the others says it once")

    def test_who_had_no_part_in_it_has_none(self):
        results = self.trained(plain, self.gathers, self.gathers)
        self.assertEqual([made[1:] for made, _, _ in results], [[[2.0, None, 22.0], [3.0, None, 23.0]]] * 2)
        self.assertEqual(self.trained(self.gathers, self.gathers, silent=[1])[0][0][1], [2.0, None, 22.0])

    def test_a_sum_and_parts_for_each_are_those_of_the_others(self):
        def sums(plane, group, values):
            group.allreduce([values], AllreduceOptions())
            return float(values)

        def parts_for_each(plane, group, values):
            parts = [values + 100 * rank for rank in range(group.size())]
            received = [torch.empty(1) for _ in parts]
            group.alltoall(received, parts)
            return [float(part) for part in received]
        [(first, _, _), (last, _, _)] = self.trained(self.gathers, sums, parts_for_each)
        self.assertEqual((first[1], last[1]), (24.0, 24.0))
        self.assertEqual((first[2], last[2]), ([3.0, 0.0, 23.0], [203.0, 0.0, 223.0]), "what a lost one would have sent is zeros")

    def test_ranks_are_those_of_its_begin(self):
        def sends(plane, group, values):
            group.broadcast([values], chosen(BroadcastOptions, rootRank=2))
            return float(values), plane.rank, group.size()
        results = self.trained(self.gathers, sends, sends)
        self.assertEqual([made[1:] for made, _, _ in results], [[(22.0, 0, 3), (23.0, 0, 3)], [(22.0, 2, 3), (23.0, 2, 3)]])


def plain(plane, group, values):
    """An exchange in which nothing is gathered."""
    group.allreduce([values], AllreduceOptions())


def gathered(places, in_pass=lambda rank: (set(), None), workers=3):
    """What the scripts of the workers have in lists of so many places, behind torch's all_gather()."""
    def call(group):
        values = [torch.full((1, 1), -1.0) for _ in range(places)]
        with mock.patch.dict(_collectives._own, {"all_gather": lambda rows, tensor, group, _: group.allgather([rows], [tensor])}):
            _collectives.all_gather(values, own(group, 1)[None], group)
        return [value.flatten().tolist() for value in values]
    with mock.patch.object(_collectives, "_in_pass", lambda group, *_: in_pass(group.rank())):
        return World().run(*[with_group(call)] * workers)


class Lists(unittest.TestCase):
    def test_one_of_another_length_becomes_as_long_as_there_are_workers(self):
        for places in (1, 2, 3, 5):
            with self.subTest(places):
                self.assertEqual(gathered(places), [[[1.0], [11.0], [21.0]]] * 3)

    def test_a_lost_worker_is_left_out(self):
        values = [torch.full((1,), float(rank)) for rank in range(3)]
        _lists.fit(values, [values[0], None, values[2]], own=0)
        self.assertEqual([float(value) for value in values], [0.0, 2.0])

    def test_a_script_that_wrote_down_its_rank_finds_its_own_values_there(self):
        told = {0: 1, 1: 0, 2: 1}  # of two workers; then one left, and two came
        lists = gathered(2, lambda rank: (set(), told[rank]))
        for rank, values in enumerate(lists):
            self.assertEqual(values[told[rank]], [10.0 * rank + 1])
            self.assertEqual(sorted(values), [[1.0], [11.0], [21.0]], "each once")

    def test_a_place_without_a_worker_is_empty(self):
        self.assertEqual(gathered(4, lambda rank: (set(), 2), workers=1), [[[], [], [1.0]]])
        self.assertEqual(gathered(4, lambda rank: (set(), 0), workers=1), [[[1.0]]])

    def test_a_worker_without_samples_is_no_part_of_the_others_loss(self):
        lists = gathered(2, lambda rank: ({2}, rank % 2))
        self.assertEqual(lists[:2], [[[1.0], [11.0]]] * 2)
        self.assertEqual(lists[2], [[21.0], [1.0], [11.0]], "its own is there")


    def test_the_number_of_workers_changes_as_the_exchange_begins(self):
        def call(session):
            place, plane = [(0, 2)], Plane(session)

            def settled(what):
                place[0] = (0, 1)
                return plane
            group = ElasticGroup(lambda: place[0], settled)
            values = [torch.full((1, 1), -1.0) for _ in range(group.size())]
            with mock.patch.dict(_collectives._own, {"all_gather": lambda rows, tensor, *_: group.allgather([rows], [tensor])}):
                _collectives.all_gather(values, own(group, 1)[None], group)
            return [value.flatten().tolist() for value in values]
        with mock.patch.object(_collectives, "_in_pass", lambda *_: (set(), None)):
            self.assertEqual(World().run(call), [[[1.0]]])


class Memory(unittest.TestCase):
    def test_it_is_used_again_when_its_step_is_committed(self):
        session = mock.Mock(committed_step=1)
        rooms = Rooms(session)
        first, second = rooms.take(64), rooms.take(64)
        self.assertNotEqual(first.data_ptr(), second.data_ptr(), "a loss may write both again")
        session.committed_step = 2
        self.assertIn(rooms.take(48).data_ptr(), (first.data_ptr(), second.data_ptr()))

    def test_much_larger_memory_is_not_held_for_small_values(self):
        session = mock.Mock(committed_step=1)
        rooms = Rooms(session)
        large = rooms.take(1000)
        session.committed_step = 2
        self.assertNotEqual(rooms.take(8).data_ptr(), large.data_ptr())


class BoardOfTheRun:
    """What the supervisor keeps."""

    def __init__(self):
        self.values, self._changed = {}, threading.Condition()

    def board_put(self, key, value):
        with self._changed:
            self.values[key] = value
            self._changed.notify_all()

    def board_get(self, key, timeout_s=0.0):
        with self._changed:
            self._changed.wait_for(lambda: key in self.values, timeout_s)
            return self.values.get(key)


class BeforeTraining(unittest.TestCase):
    def setUp(self):
        self.kept = BoardOfTheRun()

    def run_all(self, program, world_size=3, ranks=None, timeout_s=10.0):
        """The program on the starters of these ranks; their results, or errors."""
        results = {}

        def call(rank):
            try:
                results[rank] = program(_group_board.Board(self.kept, rank, world_size, timeout_s))
            except ElasticError as error:
                results[rank] = str(error)

        threads = [threading.Thread(target=call, args=(rank,)) for rank in (ranks or range(world_size))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    def joiner(self, rank=1, world_size=3):
        with mock.patch.dict(os.environ, {"ELASTICTRAIN_GENERATION": "4"}):
            return _group_board.Board(self.kept, rank, world_size, 10.0)

    @staticmethod
    def program(board):
        total = torch.tensor([board.rank + 1.0])
        board.barrier()
        board.reduce(total, "sum")
        root = torch.tensor([board.rank], dtype=torch.int64)
        board.broadcast(root, 2)
        return float(total), int(root), board.gather_bytes(b"%d" % board.rank)

    def test_workers_that_start_exchange_values(self):
        expected = (6.0, 2, [b"0", b"1", b"2"])
        self.assertEqual(self.run_all(self.program), {rank: expected for rank in range(3)})

    def test_one_that_joins_later_gets_the_same_in_the_same_order(self):
        results = self.run_all(self.program)
        self.assertEqual(self.program(self.joiner()), results[0])

    def test_its_role_is_one_of_theirs_and_never_that_of_the_first_rank(self):
        self.run_all(lambda board: board.gather_bytes(b"%d" % board.rank), world_size=3)
        for rank, role in {0: 1, 2: 2, 5: 2}.items():
            board = self.joiner(rank, world_size=6)
            self.assertEqual((board.rank, board.world_size, board.gather_bytes(b"own")), (role, 3, [b"0", b"1", b"2"]))

    def test_one_in_the_place_of_the_first_rank_receives_what_that_one_sent(self):
        def program(board):
            group = ElasticGroup(lambda: (board.rank, board.world_size), lambda what: board)
            found = ["of rank 0, and long" if board.takes_part else "own"] if board.rank == 0 else [None]
            _collectives.broadcast_object_list(found, group=group)
            return found[0], board.rank

        with mock.patch.dict(_collectives._own, broadcast_object_list=self.as_torch_does):
            self.assertEqual(self.run_all(program), {rank: ("of rank 0, and long", rank) for rank in range(3)})
            with mock.patch.object(_group_board, "has_first_rank", lambda: True):
                heir = self.joiner(0)
            self.assertEqual((heir.rank, program(heir)), (0, ("of rank 0, and long", 0)))

    @staticmethod
    def as_torch_does(objects, src=None, group=None, device=None, group_src=None):
        """The root keeps its objects, and the others read them."""
        board, is_root = group.plane_of(""), group.rank() == 0
        values = torch.frombuffer(bytearray(pickle.dumps(objects)), dtype=torch.uint8) if is_root else None
        count = torch.tensor([len(values) if is_root else 0])
        board.broadcast(count, 0)
        values = values if is_root else torch.zeros(int(count), dtype=torch.uint8)
        board.broadcast(values, 0)
        objects[:] = objects if is_root else pickle.loads(bytes(values.tolist()))

    def test_where_one_began_alone_its_number_is_that_of_the_start(self):
        self.run_all(lambda board: board.gather_bytes(b"0"), world_size=1)
        board = self.joiner()
        self.assertEqual((board.rank, board.world_size, board.gather_bytes(b"own")), (1, 1, [b"0"]))

    def test_one_that_starts_again_in_the_place_of_one_that_ended_goes_on(self):
        self.run_all(lambda board: board.barrier())
        self.assertEqual(self.run_all(lambda board: (board.barrier(), board.gather_bytes(b"x"))[1]),
                         {rank: [b"x"] * 3 for rank in range(3)})

    def test_the_first_rank_is_waited_for(self):
        order = []

        def program(board):
            if board.rank == 0:
                threading.Event().wait(0.2)
                order.append("prepared")
            board.barrier()
            order.append("read")
        self.run_all(program)
        self.assertEqual(order, ["prepared"] + ["read"] * 3)

    def test_a_rank_that_does_not_come_is_named_to_all(self):
        for absent, call in {1: r"torch\.distributed\.barrier\(\) before the training: ", 0: ""}.items():
            self.kept = BoardOfTheRun()
            results = self.run_all(lambda board: board.barrier(), ranks=[rank for rank in range(3) if rank != absent],
                                   timeout_s=0.3)
            self.assertEqual(len(results), 2)
            for text in results.values():
                self.assertRegex(text, rf"{call}rank {absent} did not come to .*init_process_group\(timeout=\.\.\.\)")

    def test_a_rank_that_goes_another_way_is_named_to_all(self):
        results = self.run_all(lambda board: board.barrier() if board.rank == 1 else board.gather_bytes(b""))
        self.assertEqual(len(results), 3)
        for text in results.values():
            self.assertRegex(text, r"rank 1 called torch\.distributed\.barrier\(\) where rank 0 called all_gather_object\(\)")

    def test_a_joiner_that_goes_another_way_is_told(self):
        self.run_all(lambda board: board.barrier())
        board = self.joiner()
        with self.assertRaisesRegex(ElasticError, r"called torch\.distributed\.all_gather_object\(\) where .* called barrier"):
            board.gather_bytes(b"")
        with self.assertRaisesRegex(ElasticError, "made 1 collectives before it, and this worker one more"):
            board.barrier()

    def test_values_larger_than_one_of_the_board_pass_in_pieces(self):
        def program(board):
            values = torch.arange(10, dtype=torch.uint8) * (board.rank == 0)
            board.broadcast(values, 0)
            return values.tolist(), [len(part) for part in board.gather_bytes(b"x" * (5 + board.rank))]
        with mock.patch.object(_group_board, "PIECE_BYTES", 4):
            results = self.run_all(program)
        self.assertEqual(results, {rank: (list(range(10)), [5, 6, 7]) for rank in range(3)})

    def test_what_cannot_be_kept_is_refused_on_all(self):
        with mock.patch.object(_group_board, "MAX_BYTES", 100):
            results = self.run_all(lambda board: board.broadcast(torch.zeros(26), 0))
        for text in results.values():
            self.assertRegex(text, r"104 bytes in torch\.distributed\.broadcast\(\) before the training; .* 100 bytes of a call")

    def test_a_resumed_run_begins_anew(self):
        self.run_all(lambda board: board.gather_bytes(b"old"))
        with mock.patch.dict(os.environ, {"ELASTICTRAIN_GENERATION": "7", "ELASTICTRAIN_RESUME": "1"}):
            results = self.run_all(lambda board: board.gather_bytes(b"new"))
        self.assertEqual(results, {rank: [b"new"] * 3 for rank in range(3)})
        self.assertEqual(self.joiner().gather_bytes(b""), [b"new"] * 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
