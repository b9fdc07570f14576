"""What a Trainer shows in the first worker alone, with a stand-in for the module of its callbacks: whoever is first, and when."""

import sys
import types
import unittest
from unittest import mock

import torch_python

torch_python.run_this_test_there()
sys.path.insert(0, torch_python.PACKAGE)

from elastictrain.torch import _transformers  # noqa: E402
from elastictrain.torch._script import script  # noqa: E402


def at_rank(rank):
    return mock.patch.multiple(type(script), rank=rank, is_apart=False, is_training_now=True)


def callbacks_module():
    """As transformers.trainer_callback: a state, and a handler that tells an event to all callbacks."""
    class TrainerState:
        pass

    class CallbackHandler:
        def __init__(self, *callbacks):
            self.callbacks = list(callbacks)

        def call_event(self, event, args, state, control):
            for callback in self.callbacks:
                getattr(callback, event)(state)

    return types.SimpleNamespace(TrainerState=TrainerState, CallbackHandler=CallbackHandler)


class Bar:
    """As the library's progress bar: made as the training begins."""

    __module__ = "transformers.trainer_callback"

    def __init__(self):
        self.bar, self.made = None, 0

    def on_train_begin(self, state):
        if state.is_world_process_zero:
            self.bar, self.made = [], self.made + 1

    def on_step_end(self, state):
        if state.is_world_process_zero:
            self.bar.append("step")


class Exchanging:
    """A callback in which the worker gets rank 0, as an exchange in it may end a step."""

    def __init__(self, patches):
        self.patches = patches

    def on_train_begin(self, state):
        pass

    def on_step_end(self, state):
        self.patches.pop().start() if self.patches else None


class Shown(unittest.TestCase):
    def setUp(self):
        self.module = callbacks_module()
        _transformers._change_callbacks(self.module)
        self.state, self.bar = self.module.TrainerState(), Bar()
        self.handler = self.module.CallbackHandler(self.bar)

    def event(self, rank, name):
        with at_rank(rank):
            self.handler.call_event(name, None, self.state, None)

    def test_one_that_is_first_later_makes_its_bar_then_and_once(self):
        for rank, name in ((1, "on_train_begin"), (1, "on_step_end"), (0, "on_step_end"), (0, "on_step_end")):
            self.event(rank, name)
        self.assertEqual((self.bar.made, self.bar.bar), (1, ["step", "step"]))

    def test_one_that_is_first_at_the_begin_makes_no_other_bar(self):
        for rank, name in ((0, "on_train_begin"), (1, "on_step_end"), (0, "on_step_end")):
            self.event(rank, name)
        self.assertEqual((self.bar.made, self.bar.bar), (1, ["step"]))

    def test_what_a_new_worker_takes_over_of_another_says_nothing_of_its_own_bar(self):
        self.event(1, "on_train_begin")
        self.event(0, "on_step_end")
        self.assertEqual(set(vars(self.handler)), {"callbacks"}, "the script's objects hold nothing of ours, which would travel")

    def test_a_rank_that_comes_within_an_event_counts_from_the_next_one_on(self):
        rank = at_rank(0)
        self.addCleanup(rank.stop)
        self.handler.callbacks.insert(0, Exchanging([rank]))
        with at_rank(1):
            self.handler.call_event("on_train_begin", None, self.state, None)
            self.handler.call_event("on_step_end", None, self.state, None)
            self.assertIsNone(self.bar.bar)
            self.handler.call_event("on_step_end", None, self.state, None)
        self.assertEqual(self.bar.bar, ["step"])


if __name__ == "__main__":
    unittest.main()
