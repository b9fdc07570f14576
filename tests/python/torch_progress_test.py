"""Programs of the kinds that people write: each is joined in the middle and goes on as the uninterrupted one, or is refused
with its line. And what one process alone shows of records, tables and what is taken."""

import array
import hashlib
import os
import pickle
import random
import sys
import textwrap
import unittest

import torch_python

torch_python.run_this_test_there()
sys.path.insert(0, torch_python.PACKAGE)

import torch  # noqa: E402

import progress_trial  # noqa: E402
from elastictrain.torch.progress import _first, _holders, _pickling, _randomness, _values  # noqa: E402

SHARED = '''
import torch
from torch.utils.data import DataLoader, TensorDataset
def make(n=48, batch=8, shuffle=True):
    torch.manual_seed(0)
    x = torch.randn(n, 4)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return model, optimizer, DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=batch, shuffle=shuffle)
def update(model, optimizer, batch):
    x, y = batch
    optimizer.zero_grad()
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    return loss.item()
'''
ENGINE = '''
from shared import update
total = 0
def run(model, optimizer, loader, epochs, log):
    global total
    for epoch in range(epochs):
        running = 0.0
        for i, batch in enumerate(loader):
            running += update(model, optimizer, batch)
            total += 1
        log.append(running / len(loader))
'''
BEGIN = "from shared import *\nmodel, optimizer, loader = make()\n"
CARRIED = {
    "a while loop that renews its iterator by hand": '''
        it, step, epoch = iter(loader), 0, 0
        while True:
            try: batch = next(it)
            except StopIteration:
                epoch += 1; it = iter(loader); batch = next(it)
            for group in optimizer.param_groups: group["lr"] = 0.1 / (1 + step * 0.1)
            loss = update(model, optimizer, batch); step += 1
        ''',
    "a loop in an imported module with a counter there": "import engine\nengine.run(model, optimizer, loader, 6, losses := [])",
    "a trainer that stops early, keeps its best weights and an average": '''
        import copy
        class Stop:
            def __init__(self): self.best, self.bad = None, 0
            def __call__(self, value):
                if self.best is None or value < self.best - 0.01: self.best, self.bad = value, 0
                else: self.bad += 1
                return self.bad > 3
        class Average:
            def __init__(self, model): self.shadow, self.n = {k: v.clone() for k, v in model.state_dict().items()}, 0
            def update(self, model):
                self.n += 1
                for k, v in model.state_dict().items(): self.shadow[k].mul_(0.9).add_(v, alpha=0.1)
        class Trainer:
            def __init__(self):
                self.epoch = self.step = 0; self.history = []; self.stop = Stop(); self.ema = Average(model); self.best = None
            def train(self, epochs):
                while self.epoch < epochs:
                    losses = []
                    for batch in loader: losses.append(self.one(batch))
                    mean = sum(losses) / len(losses); self.history.append(mean)
                    if self.best is None or mean < self.best[0]: self.best = (mean, copy.deepcopy(model.state_dict()))
                    self.epoch += 1
                    if self.stop(mean): break
            def one(self, batch):
                loss = update(model, optimizer, batch); self.step += 1; self.ema.update(model); return loss
        Trainer().train(12)
        ''',
    "an endless generator, a dataclass, a scheduler": '''
        from dataclasses import dataclass, field
        @dataclass
        class State: step: int = 0; best: float = 1e9; history: list = field(default_factory=list); epoch: int = 0
        def cycle(state):
            while True:
                for batch in loader: yield batch
                state.epoch += 1
        state = State(); batches = cycle(state); scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
        for step in range(40):
            loss = update(model, optimizer, next(batches)); scheduler.step()
            state.step, state.best = step + 1, min(state.best, loss)
            if step % 4 == 0: state.history.append((step, loss))
        ''',
    "closures, function and class attributes": '''
        def factory():
            calls, running = 0, 0.0
            def note(loss):
                nonlocal calls, running
                calls += 1; running = 0.9 * running + 0.1 * loss; note.last = loss; return calls, running
            return note
        class Counters: seen = 0
        def main():
            note, count, lowest = factory(), 0, 1e9
            def one_epoch():
                nonlocal count, lowest
                def inner(batch):
                    nonlocal count
                    loss = update(model, optimizer, batch); count += 1; Counters.seen += len(batch[0]); return loss
                for batch in loader: lowest = min(lowest, inner(batch)); calls, running = note(lowest)
            for epoch in range(6): one_epoch()
        main()
        ''',
    "an update from several micro batches": '''
        losses, updates, micro = [], 0, 0
        for epoch in range(20):
            for i, (x, y) in enumerate(loader, 1):
                for a, b in zip(x.chunk(2), y.chunk(2)):
                    loss = ((model(a) - b) ** 2).mean() / 6; loss.backward(); micro += 1; losses.append(loss.item())
                if i % 3 == 0: updates += 1; optimizer.step(); optimizer.zero_grad(); losses.clear()
        ''',
    "loops behind the first update, in the same function": '''
        class Meter:
            total = 0.0
        def main():
            meters = [Meter(), Meter()]
            for epoch in range(6):
                for batch in loader:
                    loss = update(model, optimizer, batch)
                    for meter in meters: meter.total += loss
        main()
        ''',
    "zip, count, reversed, the items of a dictionary": '''
        from itertools import count
        for name, lr in {"warm": 0.05, "main": 0.1, "cool": 0.01}.items():
            for group in optimizer.param_groups: group["lr"] = lr
            for repeat in reversed(range(2)):
                for batch, k, c in zip(loader, range(100), count(5)):
                    loss = update(model, optimizer, batch)
        ''',
    "objects that come into being later, a name that is deleted, an early end of an epoch": '''
        class Meter:
            def __init__(self): self.n = 0; self.total = 0.0
            def add(self, value): self.n += 1; self.total += value
        def numbered():
            for i, batch in enumerate(loader): yield i * 10, batch
        meters, first, results = {}, True, []
        for epoch in range(8):
            for k, (i, batch) in enumerate(numbered()):
                loss = update(model, optimizer, batch)
                if "first" in globals(): del first
                meters.setdefault(f"e{epoch}", Meter()).add(loss)
                if k == 4: break
            results.append({"epoch": epoch, "m": {"loss": loss}})
        ''',
    "an IterableDataset with an epoch of its own": '''
        class Stream(torch.utils.data.IterableDataset):
            epoch = 0
            def __iter__(self):
                generator = torch.Generator().manual_seed(self.epoch)
                for i in range(48): x = torch.randn(4, generator=generator); yield x, x.sum(0, keepdim=True)
        data = Stream(); stream = DataLoader(data, batch_size=8); seen = 0
        for epoch in range(8):
            data.epoch = epoch
            for batch in stream: seen += len(batch[0]); loss = update(model, optimizer, batch)
        ''',
    "random numbers of the script's own, a queue of fixed length, an enumeration, a counter": '''
        import collections, enum, random
        class Phase(enum.Enum): WARM = 0; MAIN = 1
        own, recent, seen, phase = random.Random(5), collections.deque(maxlen=5), collections.Counter(), Phase.WARM
        order, shuffler = iter(own.sample(range(100), 100)), torch.Generator().manual_seed(4)
        for step in range(40):
            x = torch.full((8, 4), next(order) / 100) + own.random() * torch.rand(1, generator=shuffler)
            loss = update(model, optimizer, (x, x.sum(1, keepdim=True))); recent.append(loss); seen[step % 3] += 8
            if step > 8: phase = Phase.MAIN
        ''',
    "a generator expression, map and a nested list": '''
        table = [[1, 2], [3, 4], [5, 6]] * 4; row = table[0]
        for row in table:
            for a in (abs(b) for b in map(int, row)):
                row.append(update(model, optimizer, next(iter(loader)))); row.pop()
        ''',
    "an exception that ended a loop, and a file that is written": '''
        import io
        log = open("log.txt", "w")
        for attempt in range(40):
            try:
                for part in range(3):
                    if part == 2: raise ValueError
            except ValueError: print(attempt, file=log)
            loss = update(model, optimizer, next(iter(loader)))
        ''',
    "what the standard library has for values that change in place": '''
        import array, collections, contextvars, ctypes, io, multiprocessing
        losses, log, parts, phase = array.array("d"), io.StringIO(), io.BytesIO(b"0123456789" * 9), contextvars.ContextVar("phase")
        table, layers, count = collections.UserDict(), collections.ChainMap({}, {"a": 1}), ctypes.c_int(3)
        epoch, bins = multiprocessing.Value("i", 0), multiprocessing.Array("d", 4)
        for epoch.value in range(6):
            for step, batch in enumerate(loader):
                losses.append(update(model, optimizer, batch)); log.write(f"{step} "); part = parts.read(2); phase.set(step)
                table[step] = layers[epoch.value] = step; count.value += 1; bins[step % 4] += 1
                seen = len(losses), log.getvalue(), phase.get(), sorted(table), len(layers), count.value, epoch.value, bins[:]
        ''',
    "a pool of threads that comes later, and what it has done": '''
        from concurrent.futures import ThreadPoolExecutor
        class Books:
            pool = last = None
            def put(self, value):
                if self.pool is None: self.pool = ThreadPoolExecutor(2, "books")
                self.last = self.pool.submit(float, value)
        books, total = Books(), 0.0
        for epoch in range(6):
            for batch in loader:
                loss = update(model, optimizer, batch)
                if books.last is not None: total += books.last.result()
                books.put(loss)
        ''',
}
REFUSED = {
    "losses = [update(model, optimizer, batch) for batch in loader for _ in range(5)]": "comprehension drives the training",
    "losses = sum(map(lambda batch: update(model, optimizer, batch), list(loader) * 4))": "gathers values",
    "losses = sum(update(model, optimizer, batch) for batch in list(loader) * 4)": "comprehension drives the training",
    "total = 0.0\nwhile total < total + 1 + update(model, optimizer, next(iter(loader))): pass": "a value waits here",
    "lines = open('shared.py')\nfor i in range(30): line = lines.readline(); update(model, optimizer, next(iter(loader)))":
        "is read by the script itself",
    "def fit(epochs):\n  for e in range(epochs):\n    for b in loader: update(model, optimizer, b)\nfit(2)\nfit(4)":
        "the others make",
    "import re\nw = re.finditer('.', 'a' * 50)\nfor i in range(40): next(w); update(model, optimizer, next(iter(loader)))":
        "an iterator whose place cannot be read",
    "import queue\nfor i in range(40):\n  update(model, optimizer, next(iter(loader)))\n  q = queue.Queue()":
        "q: cannot be handed over",
    "import time, concurrent.futures as c\np = None\nfor i in range(40):\n  update(model, optimizer, next(iter(loader)))\n"
    "  p = p or c.ThreadPoolExecutor(1, 'books'); p.submit(time.sleep, 1) if 11 < i < 15 else 0":
        "threads were started after the first step: books_0",
}


class Joining(unittest.TestCase):
    def tried(self, program, at=14, steps=24):
        files = (("shared.py", SHARED), ("engine.py", ENGINE))
        return progress_trial.tried(BEGIN + textwrap.dedent(program), at, steps, files)

    def test_a_joined_program_goes_on_as_the_uninterrupted_one(self):
        for name, program in CARRIED.items():
            with self.subTest(name):
                outcome = self.tried(program)
                self.assertEqual(outcome.verdict, "equal", "\n".join(outcome.lines))
                self.assertGreater(outcome.figures["steps"], 9)

    def test_what_cannot_be_carried_is_refused_with_its_place(self):
        for program, reason in REFUSED.items():
            with self.subTest(program):
                outcome = self.tried(program)
                self.assertEqual(outcome.verdict, "refused", "\n".join(outcome.lines))
                self.assertIn(reason, "\n".join(outcome.lines))

    def test_without_rewriting_a_loop_is_refused(self):
        os.environ["ELASTICTRAIN_REWRITE"] = "0"
        self.addCleanup(os.environ.pop, "ELASTICTRAIN_REWRITE")
        outcome = self.tried("for batch in list(loader) * 4: update(model, optimizer, batch)")
        self.assertEqual(outcome.verdict, "refused")
        self.assertIn("a loop that was not rewritten drives the training (ELASTICTRAIN_REWRITE=0)", outcome.lines[0])


class Records(unittest.TestCase):
    def test_a_damaged_record_is_an_error(self):
        record = _pickling.sealed(("a", 1))
        self.assertEqual(_pickling.opened(record), ("a", 1))
        for seed in range(200):
            changed = bytearray(record)
            place = random.Random(seed).randrange(len(changed))
            changed[place] ^= 1 << seed % 8
            with self.assertRaises(_pickling.RecordError):
                _pickling.opened(bytes(changed))
            with self.assertRaises(_pickling.RecordError):
                _pickling.opened(record[:place])

    def test_a_record_that_is_too_large_is_refused_with_its_size(self):
        with self.assertRaisesRegex(_pickling.RecordError, "takes 9 KiB; at most 4 KiB can be handed over"):
            _pickling.sealed(random.Random(1).randbytes(9300), 4 << 10)

    def test_what_is_alike_takes_less_room(self):
        self.assertEqual(_pickling.opened(_pickling.sealed(bytes(93000), 4 << 10)), bytes(93000))

    def test_a_record_of_an_earlier_version_is_read(self):
        data = pickle.dumps("content")
        header = _pickling._header.pack(_pickling.MAGIC, 1, len(data), hashlib.blake2b(data, digest_size=16).digest())
        self.assertEqual(_pickling.opened(header + data), "content")

    def test_tensors_travel_as_they_are(self):
        for tensor in (torch.randn(3, 2).bfloat16(), torch.randn(2, 4).t(), torch.empty(0, 3), torch.tensor(True),
                       torch.randn(2, dtype=torch.complex64).conj(), torch.nn.Parameter(torch.randn(3))):
            made = _pickling.unpickled(_pickling.pickled(tensor, lambda value: None), None)
            self.assertTrue(torch.equal(made, tensor) and made.dtype == tensor.dtype and type(made) is type(tensor))
            self.assertEqual(made.requires_grad, tensor.requires_grad)


class Values(unittest.TestCase):
    def test_equal_values_have_equal_digests(self):
        pairs = [(1, 1.0), (True, 1), ("a", b"a"), ([1], (1,)), ({1: 2}, {1: 3}), ([1, [2]], [1, [3]]), (0.0, -0.0),
                 (torch.zeros(2), torch.zeros(2, 1)), ({1, 2}, frozenset((1, 2)))]
        for one, other in pairs:
            self.assertNotEqual(_values.digest_of(one), _values.digest_of(other), (one, other))
        self.assertEqual(_values.digest_of({"b", "a"}), _values.digest_of({"a", "b"}))
        self.assertEqual(_values.digest_of(float("nan")), _values.digest_of(float("nan")))
        self.assertIsNone(_values.digest_of([object()]))

    def test_a_change_in_the_middle_of_something_large_is_one(self):
        held = array.array("d", bytes(4 << 20))
        before = _holders.digest_of(_holders.content_of(held))
        held[len(held) // 2] = 1.0
        self.assertNotEqual(_holders.digest_of(_holders.content_of(held)), before)

    def test_a_number_from_a_clock_is_set_to_the_same_age(self):
        clocks = _values._CLOCKS
        for name in clocks:
            clock = _values.clock_of(clocks[name]())
            self.assertIsNotNone(clock)
            self.assertAlmostEqual(pickle.loads(pickle.dumps(clock)).here(), clocks[name](), delta=5)
        for number in (1.5, 0.1, 3e300, float("nan"), float("inf"), clocks["time"]() + 1000, clocks["perf_counter"]() / 3 * 2):
            self.assertIsNone(_values.clock_of(number))

    def test_a_graph_is_open_until_its_backward_pass(self):
        loss = (torch.nn.Linear(3, 3)(torch.randn(2, 3)).relu() ** 2).mean()
        self.assertTrue(_values.has_open_graph(loss))
        loss.backward()
        self.assertFalse(_values.has_open_graph(loss))

    def test_streams_of_random_numbers_differ_by_rank_and_step(self):
        seeds = {_randomness.derived_seed(b"a", rank, step) for rank in range(4) for step in range(4)}
        self.assertEqual(len(seeds), 16)
        for generator in (random.Random(1), torch.Generator()):
            state = _randomness.state_of(generator)
            _randomness.reseed(generator, 7)
            self.assertNotEqual(_randomness.state_of(generator), state)
            _randomness.set_state(generator, state)
            self.assertEqual(_randomness.state_of(generator), state)

    def test_paths_have_keys_of_their_own(self):
        self.assertNotEqual(_first.key_of((("m", "a"), (".", "b"))), _first.key_of((("m", "a"), ("[", "b"))))


if __name__ == "__main__":
    unittest.main()
