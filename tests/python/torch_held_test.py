"""Which of a script's modules become a part of the run's state."""

import copy
import sys
import unittest

import torch_python

torch_python.run_this_test_there()
sys.path.insert(0, torch_python.PACKAGE)

import torch  # noqa: E402
from torch import nn  # noqa: E402

from elastictrain.torch import _held  # noqa: E402

model, held, other, small, whole = nn.Linear(600, 600), None, None, None, None


class Average(nn.Module):
    """As those of libraries and scripts."""

    def __init__(self, model):
        super().__init__()
        self.module = copy.deepcopy(model).requires_grad_(False)


class Task(nn.Module):
    """Has the model and its average."""

    def __init__(self, model):
        super().__init__()
        self.model, self.average = model, Average(model)


class Found(unittest.TestCase):
    def setUp(self):
        for name in ("held", "other", "small", "whole"):
            globals()[name] = None

    def found(self, known=None):
        return _held.find(model, [model] if known is None else known)

    def test_an_average_of_the_model(self):
        global held
        held = Average(model)
        [found] = self.found()
        self.assertEqual(found.name, "Average")
        self.assertEqual({id(tensor) for tensor in found.parameters()}, {id(tensor) for tensor in held.parameters()})

    def test_the_models_own_tensors_are_left_out(self):
        global whole
        whole = Task(model)
        [found] = self.found()
        self.assertEqual({id(tensor) for tensor in found.parameters()}, {id(tensor) for tensor in whole.average.parameters()})

    def test_another_module_and_what_is_known_are_left_out(self):
        global other, held
        other, held = nn.Linear(700, 600), Average(model)
        self.assertEqual(self.found([model, held]), [])

    def test_a_small_one_travels_with_the_progress(self):
        global model, held
        before, model = model, nn.Linear(5, 5)
        try:
            held = Average(model)
            self.assertEqual(self.found(), [])
        finally:
            model = before

    def test_only_what_all_workers_have(self):
        global held
        held = Average(model)
        found = self.found()
        self.assertEqual(_held.agreed(found, lambda own: [own, own]), found)
        self.assertEqual(_held.agreed(found, lambda own: [own, b""]), [])
        self.assertEqual(_held.agreed([], lambda own: [b"another", own]), [])

    def test_copies_give_back_what_was_there(self):
        global held
        held = Average(model)
        [found] = self.found()
        copies = found.copies()
        before = held.module.weight.clone()
        with torch.no_grad():
            held.module.weight.add_(1)
            for tensor, saved in copies:
                tensor.copy_(saved)
        self.assertTrue(torch.equal(held.module.weight, before))


if __name__ == "__main__":
    unittest.main()
