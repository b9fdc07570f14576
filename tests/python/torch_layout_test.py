"""How a model is divided among the processes of a replica, as each of them sees it; and where parts lie in a tensor."""

import sys
import unittest

import torch_python

torch_python.run_this_test_there()
sys.path.insert(0, torch_python.PACKAGE)

import torch  # noqa: E402

from elastictrain.errors import ElasticError  # noqa: E402
from elastictrain.torch import _layout, _replica_script  # noqa: E402
from elastictrain.torch._layout import Division, Layout  # noqa: E402
from elastictrain.torch._replica import Units  # noqa: E402
from elastictrain.torch.checkpoint import Part, covers  # noqa: E402


class Here:
    def __init__(self, index, size):
        self.index, self.size, self.is_first = index, size, index == 0


class Session:
    """Of a process whose others hold `theirs`, by index, in the calls that follow."""

    def __init__(self, *theirs):
        self._theirs = list(theirs)

    def gathered(self, own):
        others = self._theirs.pop(0)
        return [own if other is None else other for other in others]


class Mesh:
    def __init__(self, *ranks):
        self.mesh = torch.tensor(ranks)


TWO_BY_TWO = [Division((0, 2), (0, 1), {"whole": None, "part": Part([4], [0], [2])}),
              Division((1, 3), (0, 1), {"whole": None, "part": Part([4], [2], [2])}),
              Division((0, 2), (2, 3), {"whole": None, "part": Part([4], [0], [2])}),
              Division((1, 3), (2, 3), {"whole": None, "part": Part([4], [2], [2])})]


def layout(index, session=None, divisions=TWO_BY_TWO):
    return Layout(session, Here(index, len(divisions)), divisions)


class Layouts(unittest.TestCase):
    def test_each_process_has_its_place(self):
        for index, (batch, is_first) in enumerate([(0, True), (0, False), (1, True), (1, False)]):
            one = layout(index)
            self.assertEqual((one.data_size, one.data_index, one.is_first_of_batch), (2, batch, is_first))

    def test_processes_that_see_it_otherwise_are_refused(self):
        with self.assertRaisesRegex(ElasticError, "divide its model in different ways: process 0 averages gradients over 0, 1"):
            layout(0, divisions=[Division((0, 1), (0, 1), {}), Division((0, 1), (0, 1), {})])
        with self.assertRaisesRegex(ElasticError, "divide its model in different ways: process 0"):
            layout(0, divisions=[Division((0, 1), (0,), {}), Division((1,), (1,), {})])
        with self.assertRaisesRegex(ElasticError, "do not hold all of parameter 'part' together"):
            layout(0, divisions=[Division((0,), (0, 1), {"part": Part([4], [0], [2])}), Division((1,), (0, 1), {"part": Part([4], [1], [2])})])

    def test_the_rest_of_a_mesh_computes_a_batch_together(self):
        mesh = Mesh([0, 1], [2, 3])
        self.assertEqual([_layout._rest_of(mesh, data, index) for index, data in enumerate([(0, 2), (1, 3), (0, 2), (1, 3)])],
                         [(0, 1), (0, 1), (2, 3), (2, 3)])
        self.assertEqual(_layout._rest_of(mesh, (0, 1, 2, 3), 2), (2,))
        self.assertEqual(_layout._rest_of(mesh, (3,), 3), (0, 1, 2, 3))
        self.assertEqual(_layout._rest_of(Mesh([0, 2], [1, 3]), (0, 2), 2), (2, 3))

    def test_batches_are_compared(self):
        own, other = torch.zeros(2), torch.ones(2)
        prints = [_layout.fingerprint_of([tensor]) for tensor in (own, other)]
        layout(0, Session([None, prints[0], prints[1], prints[1]])).check_batch([own], is_drawn_by_script=True)
        with self.assertRaisesRegex(ElasticError, "process 3 of this replica trains on another batch than process 2"):
            layout(0, Session([None, prints[0], prints[1], prints[0]])).check_batch([own], is_drawn_by_script=False)
        with self.assertRaisesRegex(ElasticError, "processes 0 and 2 of this replica train on the same batch"):
            layout(0, Session([None] * 4)).check_batch([own], is_drawn_by_script=True)
        layout(0, Session([None] * 4)).check_batch([own], is_drawn_by_script=False)

    def test_passes_are_compared_often_at_first(self):
        self.assertEqual([count for count in range(1, 300) if _layout._is_due(count)], [1, 2, 4, 8, 16, 32, 64, 128, 256])
        self.assertTrue(_layout._is_due(384))

    def test_what_is_whole_is_equal(self):
        def values(value, gradient):
            return {"whole": [float(part) for tensor in (value, gradient) for part in _layout.sums(tensor)]}

        value, gradient, far = torch.ones(10), torch.arange(10.0), torch.arange(10.0) * 1.01
        named = [("whole", value, gradient), ("part", value, gradient)]
        alike, apart = values(value, gradient * (1 + 1e-6)), values(value, far)
        layout(0, Session([None, alike, apart, apart])).check_copies(lambda: named)
        with self.assertRaisesRegex(ElasticError, "the gradient of parameter 'whole', which processes 0 and 1 of this replica both hold in all"):
            layout(0, Session([None, apart, alike, alike])).check_copies(lambda: named)
        with self.assertRaisesRegex(ElasticError, "the value of parameter 'whole', which processes 2 and 3"):
            layout(0, Session([None, alike, alike, values(value * 1.01, gradient)])).check_copies(lambda: named)
        nothing = values(value, torch.full((10,), float("nan")))
        layout(0, Session([nothing, nothing, alike, alike])).check_copies(lambda: named)
        with self.assertRaises(ElasticError):
            layout(0, Session([nothing, alike, alike, alike])).check_copies(lambda: named)

    def test_a_sampler_gives_a_batch_to_all_that_compute_it(self):
        layout(0, Session([None, (2, 0), (2, 1), (2, 1)])).refuse_other_divisions_of_data((2, 0))
        with self.assertRaisesRegex(ElasticError, "this script's sampler divides its data among processes that compute one batch together"):
            layout(0, Session([None, (4, 1), (4, 2), (4, 3)])).refuse_other_divisions_of_data((4, 0))


class Parts(unittest.TestCase):
    def test_parts_are_the_whole_or_not(self):
        halves = [Part([4, 3], [0, 0], [2, 3]), Part([4, 3], [2, 0], [2, 3])]
        self.assertTrue(covers([4, 3], halves))
        self.assertTrue(covers([4, 3], [*halves, halves[0], Part([4, 3], [4, 0], [0, 3])]), "copies and empty parts")
        self.assertTrue(covers([4, 4], [Part([4, 4], [row, column], [2, 2]) for row in (0, 2) for column in (0, 2)]))
        self.assertTrue(covers([], [Part([], [], [])]))
        self.assertFalse(covers([4, 3], halves[:1]))
        self.assertFalse(covers([4, 3], [halves[0], Part([4, 3], [1, 0], [2, 3])]), "one over another")

    def test_units_are_divided_by_batches(self):
        units = [Units(7, False, 0, 2, place) for place in (0, 1)]
        self.assertEqual([len(unit) for unit in units], [3, 3])
        self.assertEqual([unit.indices([0, 2]) for unit in units], [(0, 4), (1, 5)])

    def test_sums_of_whole_numbers_over_replicas_are_those_of_one_in_the_mean(self):
        def across(*values):
            return _replica_script._across([torch.tensor(value) for value in values], "mean").tolist()

        self.assertEqual(across([10, 7, 0, 1, -1], [10, 8, 0, 0, 0]), [10, 8, 0, 1, -1])
        self.assertEqual(across([1 << 60], [1 << 60]), [1 << 60])
        self.assertEqual(across([1.0, 2.0], [2.0, 4.0]), [1.5, 3.0])


if __name__ == "__main__":
    unittest.main()
