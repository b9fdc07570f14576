"""elastictrain.torch alone in a process: the same numbers as torch's own loop, and errors that name what is wrong."""

import collections
import copy
import dataclasses
import enum
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
from unittest import mock

import torch_python

torch_python.run_this_test_there()
sys.path.insert(0, torch_python.PACKAGE)

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, IterableDataset, TensorDataset  # noqa: E402

import elastictrain  # noqa: E402
import elastictrain.torch  # noqa: E402
from elastictrain.torch import Data, State, _optimizers, _options, checkpoint  # noqa: E402
from elastictrain.torch._buffers import Buffers  # noqa: E402
from elastictrain.torch._companion import Companion  # noqa: E402
from elastictrain.torch._first_state import FirstState  # noqa: E402
from elastictrain.torch._gradients import Gradients, reserve_copies  # noqa: E402
from elastictrain.torch._likeness import Likeness  # noqa: E402
from elastictrain.torch._loader import Loader  # noqa: E402
from elastictrain.torch._order import Order  # noqa: E402
from elastictrain.torch._python_state import PythonState  # noqa: E402
from elastictrain.torch._state import SharedState  # noqa: E402
from elastictrain.errors import ElasticError  # noqa: E402
from elastictrain.session import Batch  # noqa: E402

DATA = TensorDataset(torch.randn(96, 6, generator=torch.Generator().manual_seed(3)), torch.arange(96) % 3)
OPTIMIZERS = {"SGD": {"momentum": 0.9}, "Adam": {}, "AdamW": {}, "NAdam": {}, "RAdam": {}, "Rprop": {}, "Adagrad": {},
              "RMSprop": {"momentum": 0.5}, "Adadelta": {}, "Adamax": {}, "ASGD": {}}


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))


def values_of(model):
    return torch.cat([value.detach().double().flatten() for value in model.state_dict().values()])


class Training(unittest.TestCase):
    def elastic(self, model, optimizer, data=DATA, **options):
        run = elastictrain.torch.elastic(model, optimizer, data, **{"batch": 16, "leave": "return", **options})
        self.addCleanup(run.close)
        return run

    def test_it_computes_what_torchs_own_loop_computes(self):
        model = make_model()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        run = self.elastic(model, optimizer, epochs=3, state={"scheduler": scheduler})
        batches = []
        for _ in run.epochs():
            for x, y in run:
                batches.append((run.step, x, y))
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
            scheduler.step()
        other = make_model()
        optimizer = torch.optim.AdamW(other.parameters(), lr=0.01)
        for step, x, y in batches:
            optimizer.param_groups[0]["lr"] = 0.01 * 0.5 ** ((step - 1) // 6)
            optimizer.zero_grad()
            nn.functional.cross_entropy(other(x), y).backward()
            optimizer.step()
        self.assertEqual(len(batches), 18)
        self.assertTrue(torch.equal(values_of(model), values_of(other)))

    def test_the_norm_of_a_step_is_that_of_its_gradients(self):
        """Not of statistics and small values, which travel with them."""
        model = make_model()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        run = self.elastic(model, optimizer)
        norms = []
        for x, y in run:
            if norms:
                self.assertAlmostEqual(run.session.last_step().gradient_norm / norms[0], 1.0, places=4)
                break
            nn.functional.cross_entropy(model(x), y).backward()
            norms.append(float(torch.cat([parameter.grad.flatten() for parameter in model.parameters()]).norm()))
            optimizer.step()

    def test_a_step_of_two_passes_sums_both(self):
        model = nn.Linear(6, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        run = self.elastic(model, optimizer)
        for x, y in run:
            optimizer.zero_grad()
            whole = torch.autograd.grad(nn.functional.cross_entropy(model(x), y), list(model.parameters()))
            with run.no_sync():
                (nn.functional.cross_entropy(model(x[:8]), y[:8]) / 2).backward()
            (nn.functional.cross_entropy(model(x[8:]), y[8:]) / 2).backward()
            for parameter, expected in zip(model.parameters(), whole):
                self.assertTrue(torch.allclose(parameter.grad, expected, atol=1e-6))
            optimizer.step()

    def test_a_step_of_several_batches_is_that_of_all_their_samples(self):
        model = nn.Linear(6, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        run = self.elastic(model, optimizer, torch.utils.data.Subset(DATA, range(56)), batch=8, accumulation=3)
        held, steps = [], []
        for x, y in run:
            (nn.functional.cross_entropy(model(x), y) / 3).backward()
            held.append((x, y))
            if len(held) == 3:
                loss = nn.functional.cross_entropy(model(torch.cat([x for x, _ in held])), torch.cat([y for _, y in held]))
                for parameter, whole in zip(model.parameters(), torch.autograd.grad(loss, list(model.parameters()))):
                    self.assertTrue(torch.allclose(parameter.grad, whole, atol=1e-6))
                optimizer.step()
                optimizer.zero_grad()
                steps.append([len(x) for x, _ in held])
                held = []
        self.assertEqual(steps, [[8, 8, 8], [8, 8, 8], [3, 3, 2]])

    def test_a_second_pass_without_no_sync_is_an_error(self):
        model = nn.Linear(6, 3)
        run = self.elastic(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for x, _ in run:
            model(x).sum().backward()
            with self.assertRaisesRegex(RuntimeError, "a second backward.*no_sync"):
                model(x).sum().backward()
            break

    def test_a_step_without_a_pass_is_an_error(self):
        model = nn.Linear(6, 3)
        run = self.elastic(model, torch.optim.SGD(model.parameters(), lr=0.1))
        batches = iter(run)
        next(batches)
        with self.assertRaisesRegex(elastictrain.ElasticError, "step 1 had no backward pass"):
            next(batches)

    def test_a_parameter_that_no_pass_uses_keeps_no_gradient(self):
        model = nn.ModuleDict({"used": nn.Linear(6, 3), "unused": nn.Linear(6, 3)})
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        before = model["unused"].weight.detach().clone()
        run = self.elastic(model, optimizer, warm_up=lambda batch: model["used"](batch[0]).sum().backward())
        for x, _ in run:
            optimizer.zero_grad()
            model["used"](x).sum().backward()
            self.assertIsNone(model["unused"].weight.grad)
            optimizer.step()
        self.assertTrue(torch.equal(model["unused"].weight, before))

    def test_autocast_and_a_scaler(self):
        model = nn.Linear(6, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
        run = self.elastic(model, optimizer, state={"scaler": scaler})
        for x, y in run:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(x).float(), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        self.assertEqual(scaler.get_scale(), 1024.0 * 2 ** 3)

    def test_half_precision_parameters_are_summed_as_floats(self):
        model = nn.Linear(6, 3).to(torch.bfloat16)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        run = self.elastic(model, optimizer, warm_up=lambda batch: model(batch[0].bfloat16()).sum().backward())
        for x, _ in run:
            optimizer.zero_grad()
            model(x.bfloat16()).sum().backward()
            self.assertEqual(model.weight.grad.dtype, torch.bfloat16)
            optimizer.step()

    def test_a_frozen_batchnorm_keeps_its_statistics_bit_by_bit(self):
        model = make_model()
        model[1].running_mean.uniform_()
        before = model[1].running_mean.clone()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        run = self.elastic(model, optimizer)
        model[1].eval()
        for x, _ in run:
            model(x).sum().backward()
            optimizer.step()
        self.assertTrue(torch.equal(model[1].running_mean, before))

    def test_counters_advance_with_each_of_several_sums_in_a_step(self):
        model, companion, _ = self.companion_of(make_model())
        for number in (1, 2):
            companion.open(number)
            for passes in (1, 2):
                model(DATA.tensors[0][:32])
                companion.send(counts=True)
                companion.take()
                self.assertEqual(int(model[1].num_batches_tracked), 2 * (number - 1) + passes)

    def companion_of(self, model):
        buffers = Buffers(model)
        buffers.find_running(True)
        state = SharedState(Recorder(), model, [], buffers, {})
        gradients = Gradients(Recorder(), 1, list(model.named_parameters()))
        return model, Companion(Recorder(), gradients, buffers, state, Likeness([]), torch.device("cpu")), (buffers, state)

    def test_a_step_that_is_given_up_leaves_the_statistics_of_the_state(self):
        """As after a loss in which others had completed the step: the sums are zeros, and the state arrives later."""
        model, companion, (buffers, state) = self.companion_of(make_model())
        for passes in (1, 2):
            companion.open(passes)
            model(DATA.tensors[0][:32])
            companion.send(counts=True)
            if passes == 2:
                Recorder.submitted.zero_()
            companion.take()
            self.assertEqual(companion.is_given_up, passes == 2)
            if passes == 1:
                kept = [buffer.copy.clone() for buffer in buffers.running]
        self.assertFalse(torch.equal(model[1].running_mean, kept[0]), "the pass wrote them")
        state.adopt()
        for buffer, value in zip(buffers.running, kept):
            self.assertTrue(torch.equal(buffer.live, value) and torch.equal(buffer.copy, value), buffer.name)

    def breaks(self, text, change, frozen=False):
        """A program that changes something behind a step's update is ended by the next commit or update."""
        model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 3))
        model[0].requires_grad_(not frozen)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        run = self.elastic(model, optimizer, epochs=2)
        with self.assertRaisesRegex(RuntimeError, text):
            for x, y in run:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                if run.step == 5:
                    change(model, optimizer)
        run.close()

    def test_what_gives_a_parameter_other_memory_is_an_error_that_names_it(self):
        def moves(model, _):
            model[1].bias.data = model[1].bias.data.clone()

        def loads(_, optimizer):
            optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))

        self.breaks("'1.bias' was given other memory", moves)
        self.breaks("'optimizer/0.weight/exp_avg' was given other memory", loads)

    def test_an_optimizer_that_gets_or_trains_more_parameters_is_an_error(self):
        self.breaks("the optimizer has other parameters",
                    lambda model, optimizer: optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(1))]}))
        self.breaks("parameter '0.weight' has a gradient, but required none",
                    lambda model, _: model[0].requires_grad_(True), frozen=True)

    def test_parameters_may_be_frozen_later(self):
        model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        run = self.elastic(model, optimizer, epochs=2)
        for x, y in run:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            before = model[0].weight.detach().clone()
            optimizer.step()
            self.assertEqual(torch.equal(before, model[0].weight), run.step > 3)
            if run.step == 3:
                model[0].requires_grad_(False)

    def test_what_the_first_worker_keeps_stays_its_own(self):
        model = nn.Linear(6, 3)
        average = torch.optim.swa_utils.AveragedModel(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        best, seen = torch.zeros(2), {"steps": 0}
        run = self.elastic(model, optimizer,
                           state=State(first={"best": best, "seen": seen, "average": average}, first_every=2))
        for x, y in run:
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            average.update_parameters(model)
            best += 1
            seen["steps"] += 1
        self.assertEqual((best.tolist(), seen, int(average.n_averaged)), ([6.0, 6.0], {"steps": 6}, 6))

    def test_what_the_first_worker_keeps_is_refused_where_it_cannot_travel(self):
        def breaks(text, held, change):
            model = nn.Linear(6, 3)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            run = self.elastic(model, optimizer, state=State(first={"own": held}))
            with self.assertRaisesRegex(RuntimeError, text):
                for x, y in run:
                    nn.functional.cross_entropy(model(x), y).backward()
                    optimizer.step()
                    change(held)
            run.close()

        breaks("state of the first worker has grown to 2.... bytes; there is room for 16384", {}, lambda held: held.update(text="x" * 20000))
        breaks("'first/own.bias' was given other memory", nn.Linear(2, 2),
               lambda held: setattr(held.bias, "data", held.bias.data.clone()))

    def test_callbacks_around_a_step_and_a_policy_of_the_programs_own(self):
        model = nn.Linear(6, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        run = self.elastic(model, optimizer)
        seen, asked = [], []
        run.before_step(lambda: seen.append(("before", run.step)))
        run.after_step(lambda: seen.append(("after", run.step)))
        run.decide_with(lambda run: asked.append(run.step), every_steps=2)
        for x, y in run:
            seen.append(("step", run.step))
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        self.assertEqual(seen, [(place, step) for step in range(1, 7) for place in ("before", "step", "after")])
        self.assertEqual(asked, [2, 4, 6])
        self.assertIsNone(run.noise_scale, "one worker has none")

    def test_the_learning_rate_factor_scales_a_step_and_schedulers_do_not_see_it(self):
        model = nn.Linear(6, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        _optimizers.ScaledRates(optimizer, lambda: 2.0)
        before = model.weight.detach().clone()
        model.weight.grad = torch.ones_like(model.weight)
        optimizer.step()
        self.assertTrue(torch.allclose(before - model.weight, torch.ones_like(before)))
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.5)

    def test_an_interrupted_cell_of_a_notebook_runs_again(self):
        """With the same model and optimizer, which the interrupted run no longer touches."""
        model = nn.Linear(6, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        before = threading.active_count()

        def cell(interrupted):
            run = elastictrain.torch.elastic(model, optimizer, DATA, batch=16, num_workers=2)
            for x, _ in run:
                loss = model(x).sum()
                if interrupted:
                    signal.raise_signal(signal.SIGINT)
                loss.backward()
                optimizer.step()
            return run

        with self.assertRaises(KeyboardInterrupt):
            cell(True)
        loaders = [child.pid for child in multiprocessing.active_children()]
        run = cell(False)
        self.assertEqual((len(loaders), run.step), (2, 6))
        run.close()
        model(DATA.tensors[0]).sum().backward()
        optimizer.step()
        self.assertFalse([pid for pid in loaders if state_of(pid) not in "ZX"], "a loader process of the first run is left")
        deadline = time.monotonic() + 20  # the threads that feed loaders end a moment later
        while threading.active_count() > before and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertLessEqual(threading.active_count(), before)

    def test_a_run_that_was_closed_by_another_says_so(self):
        model = nn.Linear(6, 3)
        first = self.elastic(model, torch.optim.SGD(model.parameters(), lr=0.1))
        self.elastic(model, torch.optim.SGD(model.parameters(), lr=0.1))
        with self.assertRaisesRegex(elastictrain.ElasticError, "the session is closed"):
            next(iter(first))

    def test_state_that_arrives_in_a_closure_holds_unscaled_rates(self):
        model = nn.Linear(6, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        read, write = _optimizers.hyperparameters(optimizer, _optimizers.ScaledRates(optimizer, lambda: 2.0))

        def closure():
            groups = read()
            self.assertEqual(groups[0]["lr"], 0.5)
            write([{**groups[0], "lr": 0.25}])
            model.weight.grad = torch.ones_like(model.weight)
            return torch.zeros(())

        before = model.weight.detach().clone()
        optimizer.step(closure)
        self.assertTrue(torch.allclose(before - model.weight, torch.full_like(before, 0.5)))
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.25)

    def test_a_dataloaders_settings_are_taken_over(self):
        model = nn.Linear(6, 3)
        loader = DataLoader(DATA, batch_size=10, collate_fn=lambda samples: torch.stack([s[0] for s in samples]))
        run = self.elastic(model, torch.optim.SGD(model.parameters(), lr=0.1), loader)
        for x in run:
            self.assertLessEqual(len(x), 10)
            model(x).sum().backward()

    def test_the_rest_of_an_epoch_is_no_single_sample_for_a_batchnorm(self):
        model = make_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        sizes = []
        for x, _ in self.elastic(model, optimizer, torch.utils.data.Subset(DATA, range(33))):
            sizes.append(len(self.passed(model, x)))
            optimizer.step()
        self.assertEqual(sum(sizes), 33)
        self.assertGreater(min(sizes), 1)

    def test_processes_load_the_same_samples(self):
        for method in ("fork", "spawn", "forkserver"):
            model = nn.Linear(6, 3)
            run = self.elastic(model, torch.optim.SGD(model.parameters(), lr=0.1), num_workers=2,
                               multiprocessing_context=method)
            seen = torch.cat([self.passed(model, x) for x, _ in run])
            self.assertTrue(torch.equal(seen.sort(0).values, DATA.tensors[0].sort(0).values), method)
            run.close()

    def passed(self, model, x):
        model(x).sum().backward()
        return x

    def test_the_end_of_a_program_that_broke_off_leaves_no_loader_process(self):
        for method in ("fork", "spawn", "forkserver"):
            with self.subTest(method):
                self.leaves_no_loader_process(method)

    def leaves_no_loader_process(self, method):
        code = ("import os, sys, torch, elastictrain.torch\n"
                "data = torch.utils.data.TensorDataset(torch.randn(64, 6))\n"
                "model = torch.nn.Linear(6, 3)\n"
                "run = elastictrain.torch.elastic(model, torch.optim.SGD(model.parameters(), 0.1), data, num_workers=2,\n"
                f"                                 multiprocessing_context='{method}')\n"
                "for x, in run:\n"
                "  print(*[w.pid for w in run._loader._iterator._workers], flush=True)\n"
                "  os.kill(os.getpid(), 9)\n")
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": torch_python.PACKAGE},
                              stdout=subprocess.PIPE, text=True, timeout=100)
        loaders = [int(pid) for pid in done.stdout.split()]
        self.assertEqual((done.returncode, len(loaders)), (-9, 2))
        deadline = time.monotonic() + 30
        while any(state_of(pid) not in "ZX" for pid in loaders):
            self.assertLess(time.monotonic(), deadline, "a loader process is left")
            time.sleep(0.02)


class Recorder:
    """What the parts of a step use of a session."""

    world_size = 2

    def share_tensor(self, name, tensor):
        pass

    def share_early(self, name, value):
        pass

    def all_reduce_async(self, values, stream):
        Recorder.submitted = values


def state_of(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "X"


class Options(unittest.TestCase):
    def test_data_and_state_may_be_given_as_a_whole(self):
        whole = Data(64, epochs=2, accumulation=4, loader={"num_workers": 2})
        data, state = _options.read(whole, {"scheduler": 1}, {"batch": 8, "timeout": 3})
        self.assertEqual(data, Data(8, epochs=2, accumulation=4, loader={"num_workers": 2, "timeout": 3}))
        self.assertEqual(whole, Data(64, epochs=2, accumulation=4, loader={"num_workers": 2}))
        self.assertEqual(state, State({"scheduler": 1}))

    def test_parameters_of_before_are_still_read(self):
        with self.assertWarnsRegex(DeprecationWarning, r"first_state_every= is state=State\(first_every=…\) now"):
            _, state = _options.read(None, {"a": 1}, {"first_state": {"b": 2}, "first_state_every": 3, "local_state": ["c"]})
        self.assertEqual(state, State({"a": 1}, {"b": 2}, 3, ["c"]))


class Refused(unittest.TestCase):
    def refuses(self, text, model, dataset=DATA, optimizer=None, **options):
        optimizer = optimizer or torch.optim.SGD([p for p in model.parameters()], lr=0.1)
        with self.assertRaisesRegex((TypeError, ValueError), text):
            elastictrain.torch.elastic(model, optimizer, dataset, **options)
        self.assertIsNone(elastictrain.Session._open)

    def test_what_cannot_be_trained(self):
        class Endless(IterableDataset):
            def __iter__(self):
                return iter([1, 2, 3])

        self.refuses("IterableDataset", nn.Linear(6, 3), Endless())
        self.refuses("'weight' is torch.float64|'bias' is torch.float64", nn.Linear(6, 3).double(),
                     warm_up=lambda batch: None)
        stranger = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
        self.refuses("not the model's", nn.Linear(6, 3), optimizer=stranger)
        self.refuses("state 'odd' is a int", nn.Linear(6, 3), state={"odd": 3})
        self.refuses("state 'odd' is a int", nn.Linear(6, 3), state=State(first={"odd": 3}))
        self.refuses("'first/odd' is no contiguous tensor", nn.Linear(6, 3), state=State(first={"odd": torch.zeros(4, 6).t()}))
        self.refuses("from 1 on, not 0", nn.Linear(6, 3), state=State(first_every=0))
        self.refuses("no buffer '\\*.hidden'; its buffers are 1.running_mean", make_model(), state=State(local=["*.hidden"]))
        self.refuses("no parameter 'epoch'; 'epochs' is one", nn.Linear(6, 3), epoch=3)
        self.refuses("no parameter 'sampler'", nn.Linear(6, 3), sampler=[1, 2])
        self.refuses("'exit' or 'return'", nn.Linear(6, 3), leave="never")
        lazy = nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 3))
        self.refuses("'0.weight' has no shape yet", lazy, optimizer=torch.optim.SGD(lazy[1].parameters(), lr=0.1))


class Parameters(unittest.TestCase):
    """Equal on all workers, or an error that names one."""

    def step(self, number, mine, others, weights=(0.5, 0.5)):
        """Of a worker with the parameters `mine`, where another one has `others`."""
        workers = [Likeness(list(own.items())) for own in (mine, others)]
        values = [torch.tensor(worker.values(number, has_state=True)) for worker in workers]
        workers[0].check((values[0] * weights[0] + values[1] * weights[1]).tolist())
        for worker in workers:
            worker.forget()

    def test_equal_values_pass_whatever_they_are(self):
        for value in (0.0, 1e-30, -3.7, 1e30, float("nan"), float("inf")):
            for number in range(1, 9):
                own = {"a": torch.full((3, 4), value), "b": torch.full((7,), value)}
                self.step(number, own, own, (0.3, 0.7))

    def test_rounding_passes(self):
        own = {"a": torch.linspace(-1, 1, 50)}
        for number in range(50):
            self.step(number, own, {"a": own["a"] * (1 + 1e-6)})

    def test_a_parameter_that_differs_is_found_within_a_turn_and_named(self):
        own = {f"p{i}": torch.randn(5, 6) for i in range(10)}
        for differs in (lambda p: p + 0.1 * torch.randn(5, 6), lambda p: p * float("nan")):
            others = {**own, "p7": differs(own["p7"])}
            with self.assertRaisesRegex(RuntimeError, "'p7' is not equal on all workers"):
                for number in range(3):
                    self.step(number, own, others)

    def test_a_row_that_differs_is_found_within_a_turn_of_the_tensors(self):
        """In the middle of a table, of which the elements that are compared one by one would take hours to come to it."""
        own = {"bias": torch.randn(8), "table": torch.randn(4096, 64)}
        others = {**own, "table": own["table"].clone()}
        others["table"][1234] = torch.randn(64)
        with self.assertRaisesRegex(RuntimeError, "'table' is not equal on all workers: the sum of one half"):
            for number in range(2):
                self.step(number, own, others)

    def test_a_worker_without_the_runs_state_compares_nothing(self):
        worker = Likeness([("a", torch.ones(3))])
        worker.values(1, has_state=False)
        worker.check([5.0])


class Orders(unittest.TestCase):
    """In which gradients arrive."""

    class Session:
        synchronization = "s-sgd"

        def __init__(self):
            self.values, self.pending = {}, {}

        def share_early(self, name, value):
            (self.pending if self.values else self.values)[name] = value

        def early(self, name):
            return self.values[name]

        def broadcast(self, values):
            pass

        def commit(self):
            self.values.update(self.pending)

    def test_the_order_of_the_last_pass_of_a_step_counts_from_its_commit_on(self):
        session = self.Session()
        order = Order(session, 4)
        for numbers in ((3, 1), (1, 3, 0)):  # two sums in one step
            self.assertIsNone(order.begin())
            for number in numbers:
                order.arrived(number)
            order.settle()
            for number in reversed(numbers):
                order.arrived(number)
            order.settle()
        self.assertIsNone(order.begin(), "the step is not committed")
        session.commit()
        self.assertEqual(order.begin(), [0, 3, 1, 2])
        self.assertIsNone(order.begin(), "once")

    def test_an_order_of_another_model_is_not_followed(self):
        session = self.Session()
        order = Order(session, 3)
        session.values = dict.fromkeys(session.values, bytes(8))
        self.assertIsNone(order.begin())


class Optimizers(unittest.TestCase):
    def test_state_that_is_made_beforehand_changes_no_result(self):
        for name, options in OPTIMIZERS.items():
            results = []
            for prepared in (False, True):
                torch.manual_seed(0)
                model = nn.Linear(4, 3)
                optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.01, **options)
                if prepared:
                    _optimizers.create_state(optimizer)
                for step in range(4):
                    torch.manual_seed(step)
                    optimizer.zero_grad()
                    model(torch.randn(8, 4)).pow(2).sum().backward()
                    optimizer.step()
                results.append(values_of(model))
            self.assertTrue(torch.equal(*results), name)

    def test_a_container_of_optimizers_keeps_none_of_their_steps(self):
        """Its own groups may have no learning rate, and it may make the others before it is one itself or behind that."""
        class Container(torch.optim.Optimizer):
            def __init__(self, model, rates, comes_first):
                if comes_first:
                    super().__init__(model.parameters(), rates)
                self.held = [torch.optim.Adam([parameter], lr=0.01) for parameter in model.parameters()]
                if not comes_first:
                    super().__init__(model.parameters(), rates)

            def step(self):
                for optimizer in self.held:
                    optimizer.step()

        for rates in ({}, {"lr": 0.5}):
            for comes_first in (False, True):
                results = []
                for prepared in (False, True):
                    torch.manual_seed(0)
                    model = nn.Linear(4, 3)
                    optimizer = Container(model, rates, comes_first)
                    for one in [optimizer, *optimizer.held] if prepared else ():
                        _optimizers.create_state(one)
                        _optimizers.ScaledRates(one, lambda: 0.5 if one is optimizer else 1.0)
                    self.assertTrue(all(one.state for one in optimizer.held) or not prepared)
                    for step in range(4):
                        torch.manual_seed(step)
                        optimizer.zero_grad()
                        model(torch.randn(8, 4)).pow(2).sum().backward()
                        optimizer.step()
                    results.append(values_of(model))
                self.assertTrue(torch.equal(*results), (rates, comes_first))

    def test_an_optimizer_that_needs_a_closure_is_refused(self):
        with self.assertRaisesRegex(ElasticError, "LBFGS makes its step by a closure that it may call several times"):
            _optimizers.create_state(torch.optim.LBFGS(nn.Linear(4, 3).parameters()))

    def test_a_list_of_another_type_in_a_group_stays_one(self):
        """As those of a file of settings."""
        optimizer = torch.optim.SGD(nn.Linear(4, 3).parameters(), lr=0.1)
        held = optimizer.param_groups[0]["sizes"] = collections.UserList([1, collections.UserDict(a=2)])
        state = PythonState()
        state.add("optimizer", _optimizers.hyperparameters(optimizer))
        text = state.encode()
        state.decode(text)
        self.assertIs(optimizer.param_groups[0]["sizes"], held)
        held.append(3)
        state.decode(text)
        self.assertEqual(optimizer.param_groups[0]["sizes"], [1, {"a": 2}])

    def test_tensors_within_a_state_are_found(self):
        """They are not registered, so that new workers do not get them."""
        optimizer = torch.optim.Adam(nn.Linear(4, 3).parameters())
        _optimizers.create_state(optimizer)
        self.assertIsNone(_optimizers.key_with_tensors_within(optimizer))
        state = next(iter(optimizer.state.values()))
        for value in ({"factors": [torch.zeros(2)]}, types.SimpleNamespace(factors=(1, torch.zeros(2)))):
            state["block"] = value
            self.assertEqual(_optimizers.key_with_tensors_within(optimizer), "block")
        state["block"] = {"sizes": [1, 2]}
        self.assertIsNone(_optimizers.key_with_tensors_within(optimizer))

    def test_settings_in_classes_of_their_own_are_compared_and_stay(self):
        class Kind(enum.Enum):
            ONE = 1
            TWO = 2

        @dataclasses.dataclass
        class Settings:
            size: int

        optimizer = torch.optim.SGD(nn.Linear(4, 3).parameters(), lr=0.1)
        held = optimizer.param_groups[0]
        held.update(kind=Kind.ONE, settings=Settings(3))
        state = PythonState()
        state.add("optimizer", _optimizers.hyperparameters(optimizer))
        text = state.encode()
        state.decode(text)
        self.assertEqual((held["kind"], held["settings"]), (Kind.ONE, Settings(3)))
        for key, value in (("kind", Kind.TWO), ("settings", Settings(4))):
            with mock.patch.dict(held, {key: value}):
                self.assertNotEqual(state.encode(), text)
                with self.assertRaisesRegex(ElasticError, f"'{key}' of an optimizer's group is .*cannot be handed over"):
                    state.decode(text)


class First(unittest.TestCase):
    """State that the first worker keeps: who sends it, and who takes it over."""

    class Session:
        """Two workers: what one has shared reaches the other."""

        def __init__(self, rank):
            self.rank, self.shared = rank, {}

        def share_first_tensor(self, name, value, every_steps):
            self.shared[name] = value

    def workers(self, *values):
        sessions = [self.Session(rank) for rank in range(len(values))]
        return sessions, [FirstState(session, {"own": value}, 1) for session, value in zip(sessions, values)]

    def travel(self, sessions):
        for session in sessions[1:]:
            session.shared["first/python"].copy_(sessions[0].shared["first/python"])

    def test_others_take_over_what_the_first_one_put_and_nothing_that_they_wrote(self):
        values = [{"n": 1}, {"n": 1}]
        sessions, workers = self.workers(*values)
        values[0]["n"], values[1]["n"] = 2, 7
        for worker in workers:
            worker.put()
        values[0]["n"] = 3  # in the step, behind what travels
        self.travel(sessions)
        for worker in workers:
            worker.adopt()
        self.assertEqual(values, [{"n": 3}, {"n": 2}])

    def test_a_new_first_worker_takes_over_what_it_receives_in_place_of_what_it_put(self):
        values = [{"n": 5}, {"n": 0}]
        sessions, workers = self.workers(*values)
        sessions[1].rank = 0
        workers[1].put()
        self.travel(sessions)  # the state arrives in its first step
        workers[1].adopt()
        self.assertEqual(values[1], {"n": 5})


class SmallState(unittest.TestCase):
    def test_it_survives_its_encoding(self):
        held = {"tuple": (1, 2.5, None), "keys": {3: "x", 1: True}, "counter": collections.Counter([1, 1, 2]),
                "infinite": float("-inf"), "tensor": torch.tensor([1, 2], dtype=torch.int16), "list": [1, [2]]}
        state = PythonState()
        state.add("all", (lambda: held, lambda new: received.append(new)))
        received = []
        text = state.encode()
        state.decode(text)
        self.assertTrue(torch.equal(received[0].pop("tensor"), held["tensor"]))
        self.assertEqual(received[0], {key: value for key, value in held.items() if key != "tensor"})
        self.assertIsInstance(received[0]["counter"], collections.Counter)

    def test_the_order_of_a_dictionary_does_not_matter(self):
        first, second = PythonState(), PythonState()
        first.add_object("a", {"x": 1, "y": 2})
        second.add_object("a", {"y": 2, "x": 1})
        self.assertEqual(first.encode(), second.encode())

    def test_what_cannot_be_encoded_is_named(self):
        for value in (object(), b"bytes"):
            state = PythonState()
            state.add_object("strange", {"x": value})
            with self.assertRaisesRegex(TypeError, f"state 'strange'.*{type(value).__name__}"):
                state.encode()


class Arriving(unittest.TestCase):
    """State that another thread receives while it is read."""

    def test_small_values_that_are_half_there_are_not_read(self):
        values = {"x": "a" * 100}
        model = nn.Linear(2, 2)
        session = First.Session(0)
        session.share_tensor = session.shared.__setitem__
        state = SharedState(session, model, [], Buffers(model), {"own": values})
        shared = session.shared["python"]
        before = shared.clone()
        values["x"] = "b" * 100
        state.store()
        after = shared.clone()
        values["x"] = "c" * 100
        for arrived in range(0, len(shared), 64):
            shared[:] = torch.cat([after[:arrived], before[arrived:]])
            state.adopt(always=True)
            self.assertIn(values["x"], ("a" * 100, "b" * 100, "c" * 100))
        shared[:] = after
        state.adopt()
        self.assertEqual(values["x"], "b" * 100)


class Checkpoints(unittest.TestCase):
    def test_what_is_no_checkpoint_is_said(self):
        with tempfile.NamedTemporaryFile() as file:
            for content in (b"", b"\xff" * 64, (9).to_bytes(8, "little") + b'{"a": {}}', (2).to_bytes(8, "little") + b"[]"):
                file.seek(0)
                file.truncate()
                file.write(content)
                file.flush()
                with self.assertRaisesRegex(SystemExit, f"{file.name} is no safetensors file"):
                    checkpoint.main([file.name, os.path.dirname(file.name)])
        with self.assertRaisesRegex(SystemExit, "No such file"):
            checkpoint.main([file.name, "nowhere"])
        with self.assertRaisesRegex(SystemExit, "in an object store, and this reads files"):
            checkpoint.main(["s3://bucket/run/step-10.gen-1.safetensors", "nowhere"])


class Loading(unittest.TestCase):
    def test_what_was_loaded_for_another_division_is_thrown_away(self):
        plan = [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
        loader = Loader(DATA, {"num_workers": 2, "collate_fn": lambda samples: [int(s[1]) for s in samples]},
                        lambda count: plan[:count])
        self.addCleanup(loader.close)
        self.assertEqual(loader.take(plan.pop(0)), [0, 1])
        self.assertEqual(loader.take(plan.pop(0)), [2, 0])
        plan[:] = [(10, 11), (12, 13)]
        self.assertEqual(loader.take((20, 22)), [2, 1])
        self.assertEqual(loader.take(plan.pop(0)), [1, 2])
        self.assertEqual((loader.ahead, loader.late), (2, 2))


class Copies(unittest.TestCase):
    """Memory for copies of the gradients on a GPU. A CPU's stands for it here."""

    class Session:
        def __init__(self, needed):
            self.needed, self.calls = needed, []

        def reserve_gradient_copies(self, size, memory=None):
            self.calls.append((size, memory))
            return self.needed

    FLATS = [torch.zeros(100), torch.zeros(5, dtype=torch.bfloat16)]

    def test_are_torchs_where_a_worker_has_peers(self):
        session = self.Session(needed=True)
        copies = reserve_copies(session, self.FLATS, 3)
        self.assertEqual(copies.numel(), 410 + 3 * 16)
        self.assertEqual(session.calls, [(0, None), (458, copies.data_ptr())])

    def test_of_a_worker_alone_wait_for_its_peers(self):
        session = self.Session(needed=False)
        self.assertIsNone(reserve_copies(session, self.FLATS, 3))
        self.assertEqual(session.calls, [(0, None), (458, None)])

    def test_that_do_not_fit_are_named_before_the_training(self):
        full = mock.patch("torch.empty", side_effect=torch.cuda.OutOfMemoryError("tried to allocate 458 bytes"))
        with full, self.assertRaisesRegex(elastictrain.ElasticError, "copies of the gradients .*on_failure.*tried to allocate"):
            reserve_copies(self.Session(needed=True), self.FLATS, 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
