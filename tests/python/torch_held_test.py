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


class Kept(unittest.TestCase):
    """While the rest of a step is done once more."""

    def setUp(self):
        self.average = Average(model)
        tensors = {name: tensor for name, tensor in self.average.named_parameters()}
        self.held, self.before = _held.Held(self.average, tensors), copy.deepcopy(self.average.state_dict())

    def write(self):
        """In the ways of libraries and scripts."""
        own, new = list(self.average.parameters()), [torch.ones_like(one) for one in model.parameters()]
        with torch.no_grad():
            for one, other in zip(own, new):
                one.mul_(0.9).add_(other, alpha=0.1)
                one.data.copy_(other)
                one[0] = 7
                torch.add(one, other, out=one.data)
            torch._foreach_lerp_(own, new, 0.1)
        return own[0].detach() + 1

    def is_kept(self):
        return all(torch.equal(value, self.before[name]) for name, value in self.average.state_dict().items())

    def test_what_is_written_is_taken_back_at_once_and_counts_later(self):
        other = torch.zeros(3)
        with _held.Unchanged([self.held]):
            seen = self.write()
            other.add_(1)
            self.assertTrue(self.is_kept())
        self.assertEqual(other.tolist(), [1.0] * 3)
        self.assertTrue(torch.equal(seen, self.before["module.weight"] + 1))
        self.write()
        self.assertFalse(self.is_kept())


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


if __name__ == "__main__":
    unittest.main()
