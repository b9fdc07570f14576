"""What elastictrain.torch does between the last gradient and the update, counted: the device waits for all of it. Counts are the
same on every machine. On a GPU each operator is a launch, and one that reads a value waits for everything before it."""

import collections
import sys
import unittest
from unittest import mock

import torch_python

torch_python.run_this_test_there()
sys.path.insert(0, torch_python.PACKAGE)

import torch  # noqa: E402
from torch import distributed, nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils.data import TensorDataset  # noqa: E402

import elastictrain.torch  # noqa: E402
from elastictrain.torch import _gradients  # noqa: E402

STEPS = 4
MOST_OPERATORS = 10
READS = ("aten._local_scalar_dense", "aten.equal", "aten.is_nonzero", "aten.item")


# --- Models of the shapes that users train, with few elements

class Bottleneck(nn.Module):
    def __init__(self, inputs, middle):
        super().__init__()
        self.own = nn.Sequential(nn.Conv2d(inputs, middle, 1, bias=False), nn.BatchNorm2d(middle), nn.ReLU(),
                                 nn.Conv2d(middle, middle, 3, padding=1, bias=False), nn.BatchNorm2d(middle), nn.ReLU(),
                                 nn.Conv2d(middle, inputs, 1, bias=False), nn.BatchNorm2d(inputs))

    def forward(self, x):
        return torch.relu(x + self.own(x))


class ResNet(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8))
        self.blocks = nn.Sequential(*[Bottleneck(8, 4) for _ in range(layers)])
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class Block(nn.Module):
    def __init__(self, width, norm):
        super().__init__()
        self.first, self.second = norm(width), norm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.gate, self.down = nn.Linear(width, 4 * width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.first(x)).chunk(3, -1)
        x = x + self.out(functional.scaled_dot_product_attention(q, k, v, is_causal=True))
        x2 = self.second(x)
        return x + self.down(functional.silu(self.gate(x2)) * self.up(x2))


class Words(nn.Module):
    """GPT-like, or Llama-like: with RMSNorm and a constant buffer."""

    def __init__(self, layers, norm=nn.LayerNorm):
        super().__init__()
        self.words = nn.Embedding(11, 8)
        self.register_buffer("turns", torch.linspace(0, 1, 8))
        self.blocks = nn.Sequential(*[Block(8, norm) for _ in range(layers)])
        self.norm, self.head = norm(8), nn.Linear(8, 11, bias=False)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.words(x) * self.turns)))


IMAGES = TensorDataset(torch.randn(4 * STEPS, 3, 6, 6))
TEXTS = TensorDataset(torch.randint(0, 11, (4 * STEPS, 6)))
KINDS = {"resnet": lambda layers: (ResNet(layers), IMAGES), "gpt": lambda layers: (Words(layers), TEXTS),
         "llama": lambda layers: (Words(layers, nn.RMSNorm), TEXTS),
         "llama in bfloat16": lambda layers: (Words(layers, nn.RMSNorm).bfloat16(), TEXTS)}


WIDE = TensorDataset(torch.randn(4 * STEPS, 600))


def layers(count):
    """Each with more parameters than the first bucket may have."""
    return nn.Sequential(*[part for _ in range(count) for part in (nn.Linear(600, 600), nn.GELU())])


class Detour(nn.Module):
    """Its middle is registered last, as that of a U-Net."""

    def __init__(self):
        super().__init__()
        self.first, self.down, self.up, self.middle = nn.Linear(600, 600), layers(4), layers(4), layers(4)

    def forward(self, x):
        return self.up(self.middle(self.down(self.first(x))))


class Counter(TorchDispatchMode):
    """Operators, and those that read a value."""

    def __init__(self):
        super().__init__()
        self.operators, self.reads = collections.Counter(), 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        name = str(operator).rsplit(".", 1)[0]
        self.operators[name] += 1
        self.reads += name in READS
        return operator(*args, **(kwargs or {}))

    def __enter__(self):
        self._lists = [mock.patch.object(torch.Tensor, name, self._reading(getattr(torch.Tensor, name)))
                       for name in ("tolist", "numpy")]
        for patch in self._lists:
            patch.start()
        return super().__enter__()

    def __exit__(self, *unused):
        for patch in self._lists:
            patch.stop()
        return super().__exit__(*unused)

    def _reading(self, original):
        def read(tensor, *arguments):
            self.reads += 1
            return original(tensor, *arguments)
        return read


class Cost(unittest.TestCase):
    def train(self, kind, layers, accumulation=1, optimizer=torch.optim.AdamW):
        """A Counter of what the last step did between its last gradient and its update, and the bytes of its sums."""
        torch.manual_seed(0)
        model, data = KINDS[kind](layers)
        run = elastictrain.torch.elastic(model, optimizer(model.parameters(), lr=0.01), data, batch=4 // accumulation,
                                         accumulation=accumulation, leave="return")
        self.addCleanup(run.close)
        counters, sizes = [], []
        end = run._gradients.end

        def counted_end():
            with Counter() as counter:
                end()
            counters.append(counter)

        def measured_submit(session, values):
            sizes[-1] += values.numel() * values.element_size()
            submit(session, values)

        submit = _gradients.submit
        run._gradients.end = counted_end
        run.before_step(lambda: sizes.append(0))
        with mock.patch.object(_gradients, "submit", measured_submit), \
                mock.patch("elastictrain.torch._companion.submit", measured_submit):
            for (x,) in run:
                model(x).float().square().mean().backward()
                if run._gradients.reduced:
                    run._optimizers[0].step()
                    run._optimizers[0].zero_grad()
        self.assertEqual(len(counters), STEPS)
        run.close()
        return counters[-1], sizes[-1], model

    def test_operators_are_few_for_any_number_of_parameters_and_buffers_and_none_reads(self):
        for kind in KINDS:
            for accumulation in (1, 2):
                with self.subTest(kind, accumulation=accumulation):
                    found = [self.train(kind, layers, accumulation)[0] for layers in (1, 6)]
                    self.assertEqual(found[0].operators, found[1].operators)
                    self.assertLessEqual(sum(found[1].operators.values()), MOST_OPERATORS, found[1].operators)
                    self.assertEqual(found[1].reads, 0, found[1].operators)

    def test_parameters_that_a_pass_does_not_use_cost_one_operator(self):
        class Half(Words):
            def forward(self, x):
                return self.head(self.norm(self.words(x)))

        with mock.patch.dict(KINDS, half=lambda layers: (Half(layers), TEXTS)):
            found = [self.train("half", layers)[0] for layers in (1, 6)]
        self.assertEqual(found[0].operators, found[1].operators)
        self.assertLessEqual(sum(found[1].operators.values()), MOST_OPERATORS)
        self.assertEqual(found[1].reads, 0)

    def test_sums_have_the_bytes_of_the_parameters_and_little_more(self):
        for kind in KINDS:
            with self.subTest(kind):
                _, size, model = self.train(kind, 6)
                parameters = sum(parameter.element_size() * parameter.numel() for parameter in model.parameters())
                written = sum(2 * 4 * max(16, buffer.numel()) for buffer in model.buffers() if buffer.is_floating_point())
                self.assertLessEqual(size, parameters + written + 12_000)

    def test_gradients_of_16_bits_are_summed_where_they_are(self):
        """Neither widened before nor handed out after it."""
        _, size, model = self.train("llama in bfloat16", 2, optimizer=torch.optim.SGD)
        run = elastictrain.torch.elastic(model, torch.optim.SGD(model.parameters(), lr=0.01), TEXTS, batch=4, leave="return")
        self.addCleanup(run.close)
        for (x,) in run:
            with Counter() as counter:
                model(x).square().mean().backward()
            break
        buckets = run._gradients._buckets
        for slot in (slot for bucket in buckets for slot in bucket.slots):
            self.assertEqual(slot.parameter.grad.data_ptr(), slot.view.data_ptr(), slot.name)
        copies = counter.operators["aten.copy_"] + counter.operators["aten._foreach_copy_"]
        self.assertLessEqual(copies, len(list(model.parameters())) + 1, "one copy for each gradient, and the small values")
        self.assertEqual({bucket.flat.dtype for bucket in buckets}, {torch.bfloat16})

    def test_a_device_gets_one_copy_for_each_bucket(self):
        self.make_buckets_small()
        model = layers(6)
        run = elastictrain.torch.elastic(model, torch.optim.SGD(model.parameters(), lr=0.01), WIDE, batch=4, leave="return")
        self.addCleanup(run.close)
        for bucket in run._gradients._buckets:
            bucket.takes_each = False
        for (x,) in run:
            loss = model(x).square().mean()
            with Counter() as counter:
                loss.backward()
            expected = torch.autograd.grad(model(x).square().mean(), list(model.parameters()))
            for parameter, gradient in zip(model.parameters(), expected):
                self.assertTrue(torch.allclose(parameter.grad, gradient))
            self.assertEqual(counter.operators["aten._foreach_copy_"], len(run._gradients._buckets))
            run._optimizers[0].step()
            run._optimizers[0].zero_grad()

    def calls_of_pass(self, layers):
        """Of functions of the package, in the last backward pass of a model whose gradients are on a device; its parameters."""
        model = Words(layers)
        run = elastictrain.torch.elastic(model, torch.optim.SGD(model.parameters(), lr=0.01), TEXTS, batch=4, leave="return")
        self.addCleanup(run.close)
        calls = 0

        def count(frame, event, _):
            nonlocal calls
            calls += event == "call" and "elastictrain" in frame.f_code.co_filename

        for (x,) in run:
            for bucket in run._gradients._buckets:
                bucket.takes_each = False
            loss = model(x).square().mean()
            calls = 0
            sys.setprofile(count)
            try:
                loss.backward()
            finally:
                sys.setprofile(None)
            run._optimizers[0].step()
            run._optimizers[0].zero_grad()
        run.close()
        return calls, len(list(model.parameters()))

    def test_the_host_makes_one_call_for_each_gradient_of_a_device(self):
        """It is what begins the operators of the pass."""
        (few, fewer), (calls, parameters) = self.calls_of_pass(1), self.calls_of_pass(6)
        self.assertLessEqual(calls - few, parameters - fewer)

    def test_a_worker_alone_compares_neither_elements_nor_small_values(self):
        model = Words(1)
        run = elastictrain.torch.elastic(model, torch.optim.SGD(model.parameters(), lr=0.01), TEXTS, batch=4, leave="return")
        self.addCleanup(run.close)
        with mock.patch.object(run._companion._likeness, "read") as read, \
                mock.patch.object(run._companion._state, "put_into") as put:
            steps = 0
            for (x,) in run:
                steps += 1
                model(x).square().mean().backward()
                run._optimizers[0].step()
                run._optimizers[0].zero_grad()
        self.assertGreater(steps, 0)
        self.assertFalse(read.called)
        self.assertFalse(put.called)

    def test_sums_are_as_many_as_those_of_ddp(self):
        """Of GPT-2 with 124 million parameters; that of the words, whose gradient comes last, is one of its own."""
        with torch.device("meta"):
            blocks = [Block(768, nn.LayerNorm) for _ in range(12)]
            model = nn.Sequential(nn.Embedding(50304, 768), nn.Embedding(1024, 768), *blocks, nn.LayerNorm(768))
        for dtype in (torch.float32, torch.bfloat16):
            with self.subTest(dtype):
                parameters = list(reversed(list(model.to(dtype).parameters())))
                ours = _gradients._filled([_gradients.Slot("", parameter, number) for number, parameter in enumerate(parameters)])
                limits = [_gradients.FIRST_BUCKET_BYTES, _gradients.BUCKET_BYTES]
                theirs, _ = distributed._compute_bucket_assignment_by_size(parameters, limits)
                self.assertLessEqual(len(ours), len(theirs) + 1)
                self.assertEqual(len(ours[-1]), 1)
                self.assertEqual(sum(map(len, ours)), len(parameters))

    def test_a_sparse_gradient_on_a_device_is_named(self):
        model = nn.Sequential(nn.Embedding(11, 8, sparse=True), nn.Linear(8, 4))
        run = elastictrain.torch.elastic(model, torch.optim.SGD(model.parameters(), lr=0.01), TEXTS, batch=4, leave="return")
        self.addCleanup(run.close)
        for bucket in run._gradients._buckets:
            bucket.takes_each = False
        (x,) = next(iter(run))
        with self.assertRaisesRegex(RuntimeError, "the gradient of '0.weight' is sparse"):
            model(x).square().mean().backward()

    def make_buckets_small(self):
        patch = mock.patch.object(_gradients, "BUCKET_BYTES", 1 << 20)
        patch.start()
        self.addCleanup(patch.stop)

    # --- Along the pass

    def left_at(self, model, compiled=False):
        """For each bucket of the last step: which share of the operators of the backward pass had run when it left."""
        self.make_buckets_small()
        net = torch.compile(model, backend="aot_eager") if compiled else model
        run = elastictrain.torch.elastic(model, torch.optim.SGD(model.parameters(), lr=0.01), WIDE, batch=4, leave="return",
                                         warm_up=lambda batch: net(batch[0]).square().mean().backward())
        self.addCleanup(run.close)
        counter, left = Counter(), []
        submit = _gradients.submit

        def noted_submit(session, values):
            left.append(sum(counter.operators.values()))
            submit(session, values)

        with mock.patch.object(_gradients, "submit", noted_submit):
            for (x,) in run:
                loss = net(x).square().mean()
                counter.operators.clear()
                left.clear()
                with counter:
                    loss.backward()
                run._optimizers[0].step()
                run._optimizers[0].zero_grad()
        run.close()
        return [count / sum(counter.operators.values()) for count in left]

    def assert_half_leave_by_half(self, left):
        self.assertGreater(len(left), 6)
        self.assertLess(left[len(left) // 2 - 1], 0.6, left)

    def test_buckets_leave_along_the_pass(self):
        self.assert_half_leave_by_half(self.left_at(layers(12)))

    def test_buckets_of_a_compiled_model_leave_along_the_pass(self):
        self.assert_half_leave_by_half(self.left_at(layers(12), compiled=True))

    def test_buckets_leave_along_the_pass_whatever_the_order_in_which_parameters_are_registered(self):
        self.assert_half_leave_by_half(self.left_at(Detour()))


if __name__ == "__main__":
    unittest.main(verbosity=2)
