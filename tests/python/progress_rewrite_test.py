"""Rewritten scripts compute what plain ones compute, in the same order, and look the same from outside."""

import os
import random
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import progress_python

progress_python.find_package()

from elastictrain.torch.progress import _frames, _hook, _loops, _rewrite  # noqa: E402

PROGRAMS = {
    "loops": """
        out = []
        for a in range(3):
            for b in [1, 2, 3]:
                if b == 2: continue
                out.append((a, b))
                if a == 1: break
            else:
                out.append("end")
        for key, value in {"x": 1, "y": 2}.items(): out.append(key * value)
        for out[0] in (5, 6): pass
    """,
    "order": """
        out = []
        def f(*a, **k):
            out.append((tuple(x for x in a if not callable(x)), tuple(sorted(k.items())))); return len(out)
        class O:
            def __getattr__(self, name): out.append(name); return f
        o, d, l = O(), {}, [0] * 50
        x = f(1) + f(2) * f(f(3), o.z(4), *[f(5)], k=f(6), **{"m": f(7)})
        x += f(8); d[f(9)] = f(10); d[9] = d.get(f(11), f(12)); l[f(13)] += f(14); l[f(0):f(2)] = [f(), f()]
        l[f(15) - 1:] += [f()]
        x = f(16) if f(17) < f(18) else f(19); y = f(20) and f(21) or f(22); z = f(23) < f(24) < f(25)
        t = f(26), [f(27), *[f(28)], f(29)], {f(30), f(31)}, {f(32): f(33), **{1: f(34)}, f(35): f(36)}
        s = f"{x} {f(37)!r:>5} {o.a(38):{f(39)}} {f(40)}"
        (o.b(f(41)), o)[1].c(f(42), f(43)); u = not f(44), -f(45); v = (w := f(46)) + f(w)
        if x + f(47) < f(48): pass
        elif f(49) > x - f(50): out.append("elif")
        else: out.append("else")
        a = b = l[f(51) * 0] = f(52); l[1], l[f(53) * 0] = f(54), f(55)
        q: int = x + f(56)
        e = f(*[1, f()], f(2), **{"a": f()}, b=f(3)); e = l[f() * 0] + l[x * 0:][f() * 0]; e = f(x, lambda: x + f(9))
        e = [i + f(i) for i in [f(1), f(2)]]; e = list(i + f(i) for i in range(f() % 3)); e = f(x, *l[:2], f(y))
        assert f(1) or f(2); del l[f(0) * 0]
    """,
    "scopes": """
        out, total = [], 0
        def step(): global total; total += 10; return 1
        def counter():
            n = 0
            def more():
                nonlocal n
                n += step(); return n
            return more
        c = counter(); total += c() + c(); out.append(total)
        class Kept:
            values = []
            for value in range(3): values.append(value)
            total = sum(v for v in values)
            def method(self): return [*super().__repr__()[:1], *(n for n in self.values)]
            @staticmethod
            def s(a, b=c()): return a + c()
            __private = 3
            def read(self): x = self.__private + c(); return x
        out += [sorted(n for n in vars(Kept) if n[0] != "_"), Kept().method(), Kept.s(1), Kept().read()]
        def recursive(n): return 0 if n == 0 else n + recursive(n - 1) + recursive(0)
        out.append(recursive(5))
    """,
    "generators": """
        import asyncio
        out = []
        def inner():
            try:
                got = yield 1
                out.append(got); yield 2
            except KeyError: out.append("thrown")
            finally: out.append("closed")
            return 7
        def outer(): value = yield from inner(); out.append(value); yield from [1, 2]; yield from range(2); return 8
        g = outer(); out += [next(g), g.send("sent")]; out += list(g)
        g = outer(); next(g); out.append(g.throw(KeyError())); g.close()
        def broken():
            try: yield 1
            finally: out.append("finally")
        for x in broken(): break
        out.append("after")
        try:
            for x in broken(): raise ValueError
        except ValueError: out.append("caught")
        async def numbers(n):
            for i in range(n): yield i; await asyncio.sleep(0)
        async def add(a): await asyncio.sleep(0); return a
        async def main():
            total = 1
            async for i in numbers(3): total += await add(i); total = total + await add(1)
            return total + sum([i async for i in numbers(3)])
        out.append(asyncio.run(main()))
        def back(): x = (yield 1) + (yield 2); out.append(x)
        g = back(); next(g); g.send(4); out += list(_ for _ in g)
    """,
    "errors": """
        out = []
        for text in ("x + f()", "f()(f())", "[a for a in 3]", "f().b(f(), g)"):
            try: exec(text)
            except Exception as error: out.append(repr(error))
        def f(): return 1
        try: out.append(undefined + f())
        except NameError as error: out.append(str(error))
        try:
            for x in 3: pass
        except TypeError as error: out.append(str(error))
        def late(): y = y + f()
        try: late()
        except UnboundLocalError as error: out.append(type(error).__name__)
        with open("/dev/null") as file: out.append(file.read() + str(f()))
        import functools
        @functools.lru_cache(maxsize=None)
        def cached(n): return n + (cached(n - 1) if n else 0) + f()
        out.append(cached(5)); out.append(cached.__wrapped__.__name__)
    """,
}


def dedented(text):
    return "\n".join(line[8:] for line in text.splitlines())


def run(source, is_rewritten):
    made = _rewrite.rewritten(source, "program.py")
    if is_rewritten and made.notes is None:
        raise AssertionError(made.reason)
    names = {"__name__": "program"}
    try:
        exec(made.code if is_rewritten else compile(source, "program.py", "exec", dont_inherit=True), names)
    except (ArithmeticError, LookupError, TypeError, ValueError, MemoryError) as error:  # of a random program
        names["out"].append(type(error))
    return names["out"]


class Expressions:
    """Random statements whose calls are logged."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def valid_program(self, in_function):
        """`:=` cannot be everywhere."""
        while True:
            program = self.program(in_function)
            try:
                compile(program, "program.py", "exec", dont_inherit=True)
                return program
            except SyntaxError:
                continue

    def expression(self, depth):
        r, e = self.random, self.expression
        if depth == 0:
            return r.choice(["a", "b", "f(a)", "o.n", "f()", "3", "l[1]"])
        n = depth - 1
        return r.choice([
            lambda: f"({e(n)} + {e(n)})", lambda: f"f({e(n)}, {e(n)})", lambda: f"f({e(n)}, k={e(n)}, *[{e(n)}])",
            lambda: f"o.m({e(n)}, **{{'z': {e(n)}}})", lambda: f"[{e(n)}, {e(n)}][0]", lambda: f"l[{e(n)} % 3]",
            lambda: f"({e(n)} if {e(n)} else {e(n)})", lambda: f"({e(n)} or {e(n)})", lambda: f"({e(n)} < {e(n)})",
            lambda: f"len(f'{{{e(0)}}} {{f({e(0)})}}')", lambda: f"{{{e(n)}: {e(n)}, **{{1: {e(n)}}}}}[1]",
            lambda: f"sum([{e(n)} for i in range(2)])", lambda: f"sum({e(n)} for i in range({e(n)} % 3))",
            lambda: f"(w := {e(n)})", lambda: f"(lambda: {e(n)})()",
            lambda: f"l[{e(n)} % 2:{e(n)}][0:1].count({e(n)})", lambda: f"-{e(n)}", lambda: f"(1 < {e(n)} < {e(n)})"])()

    def statement(self):
        e = self.expression
        return self.random.choice([
            lambda: f"a = {e(3)}", lambda: f"b += {e(2)}", lambda: f"l[{e(1)} % 3] += {e(2)}", lambda: f"o.n -= {e(2)}",
            lambda: f"if {e(2)}: b = {e(1)}\nelif {e(1)}: a = {e(1)}\nelse: a = {e(2)}", lambda: f"f({e(2)})",
            lambda: f"for i in range({e(1)} % 4):\n  a = {e(2)}\n  if f(i) % 3 == 0: break",
            lambda: f"l[{e(1)} % 3] = {e(2)}", lambda: f"a, (b, *c) = {e(1)}, [{e(2)}, {e(1)}]"])()

    def program(self, in_function):
        lines = "\n".join(self.statement() for _ in range(8)).splitlines()
        begin = ["a, b, w, l = 1, 2, 0, [5, 6, 7]"]
        if in_function:
            lines = ["  " + line for line in [*begin, *lines, "out.append((a, b, w, l))"]] + ["program()"]
            begin = ["def program():"]
        return "\n".join([BEGIN, *begin, *lines, "out.append(o.n)"])


BEGIN = """out = []
def f(*a, **k): out.append((a, k)); return (sum(map(int, a)) + len(out)) % 11
class O:
    n = 4
    def m(self, *a, **k): out.append(("m", a, k)); self.n = (self.n + 1) % 7; return self.n
o = O()"""


class Semantics(unittest.TestCase):
    def test_programs_compute_the_same(self):
        for name, program in PROGRAMS.items():
            with self.subTest(name):
                self.assertEqual(run(dedented(program), True), run(dedented(program), False))

    def test_random_programs_compute_the_same_in_the_same_order(self):
        for seed in range(int(os.environ.get("ET_SEEDS", "300"))):
            program = Expressions(seed).valid_program(in_function=seed % 2 == 0)
            with self.subTest(seed=seed):
                self.assertEqual(run(program, True), run(program, False), program)

    def test_what_cannot_be_rewritten_runs_as_it_is(self):
        with mock.patch.object(_rewrite._Rewriter, "visit_For", side_effect=ValueError("no")):
            made = _rewrite.rewritten("x = 0\nfor i in range(3): x += i\n", "a.py")
        self.assertEqual((made.notes, made.reason), (None, "a.py could not be rewritten: ValueError: no"))
        names = {}
        exec(made.code, names)
        self.assertEqual(names["x"], 3)
        with self.assertRaises(SyntaxError):
            _rewrite.rewritten("for", "a.py")

    def test_methods_called_forward_and_class_bodies_are_left(self):
        made = _rewrite.rewritten("class A:\n  for i in []: pass\n  def forward(s):\n    for i in []: pass\n", "a.py")
        self.assertEqual(made.notes.loops, set())
        self.assertNotIn("__et_mark__", made.code.co_names)


class Places(unittest.TestCase):
    def names(self, program, **given):
        made = _rewrite.rewritten(program, "a.py")
        names = dict(given)
        exec(made.code, names)
        return names

    def test_a_loop_can_be_set_to_another_place(self):
        names = {}

        def note():
            mark = names["_et_loop1"]
            self.assertIsInstance(mark, _loops.Mark)
            if len(names["out"]) == 2:
                mark.loop.place_at(iter([7, 8]))
        names.update(note=note, out=[])
        exec(_rewrite.rewritten("for i in range(9): out.append(i); note()", "a.py").code, names)
        self.assertEqual(names["out"], [0, 1, 7, 8])
        self.assertIsNone(names["_et_loop1"].loop)

    def test_a_loop_and_what_it_iterates_over_end_together(self):
        names = self.names("def g():\n  try: yield 1\n  finally: out.append('end')\nout = []\n"
                           "for i in g(): break\nout.append('after')\n")
        self.assertEqual(names["out"], ["end", "after"])

    def test_a_generator_expression_can_be_set_to_another_place(self):
        names = self.names("g = (i * 2 for i in range(5))\nfirst = next(g)\n")
        loop = names["g"].gi_frame.f_locals[".0"]
        self.assertIsInstance(loop, _loops.Loop)
        loop.place_at(iter([10]))
        self.assertEqual([names["first"], *names["g"]], [0, 20])

    @unittest.skipIf(sys.version_info < (3, 12), "its comprehensions are functions")
    def test_the_loops_around_a_call_are_known_as_rewritten_ones(self):
        """Where an interpreter compiles comprehensions into their function, other loops there are refused."""
        source = "for a in range(2):\n    for b, c in enumerate([1]): call()\nd = [call() for e in [1]]\n"
        made, unknown = _rewrite.rewritten(source, "loops.py"), []

        def call():
            frame = sys._getframe(1)
            unknown.append(bool(set(_frames._open_loops(frame.f_code, frame.f_lasti)) - made.notes.loops))

        exec(made.code, {**vars(_loops), "call": call})
        self.assertEqual(unknown, [False, False, True], "two turns of the loop, and the comprehension")

    def test_operands_do_not_wait_on_the_stack(self):
        names = {}

        def step():
            for name in [name for name in names if name.startswith("_et_") and names[name] == 1]:
                names[name] = 100
            return 5
        for text, expected in (("x += step()", 105), ("x = x + step()", 105), ("x = [x, step()]", [100, 5]),
                               ("x = max(x, step())", 100), ("x = f'{x:d} {step()}'", None), ("x = x < step()", False)):
            names.clear()
            names.update(step=step, x=1)
            exec(_rewrite.rewritten(text, "a.py").code, names)
            if expected is not None:
                self.assertEqual(names["x"], expected, text)
            self.assertTrue(all(names[name] is None for name in names if name.startswith("_et_")), text)

    def test_the_receiver_of_a_method_is_a_variable(self):
        names = {}
        other = []

        def step():
            names["_et_1"] = other.append
            return 5
        names.update(step=step, x=[])
        exec(_rewrite.rewritten("x.append(step())", "a.py").code, names)
        self.assertEqual((names["x"], other), ([], [5]))

    def test_what_still_waits_is_noted(self):
        notes = _rewrite.rewritten("while a < f():\n  pass\nx = [a + f()\n  for i in y]\nx = a + f()\nwhile f(): pass\n"
                                   "z = a or b + f()\nwith c(a, f()): pass\nz.append(f())\n", "a.py").notes
        self.assertEqual(sorted(line for line, *_ in notes.waiting), [1, 3, 7, 8])

    def test_lines_in_which_a_function_of_the_language_alone_waits_may_train(self):
        notes = _rewrite.rewritten("a[len(a):] = [f()]\na[g(a):] = [f()]\n", "a.py").notes
        self.assertEqual(notes.waiting_lines, [(2, 2)])

    def test_functions_that_gather_are_noted(self):
        notes = _rewrite.rewritten("sum(map(f, x))\nsum(x)\nf(map(x))\n", "a.py").notes
        self.assertEqual(notes.lazily_driven, [(1, 1)])
        self.assertEqual(sorted(line for line, *_ in notes.drivers), [1, 2])


SCRIPT = '''
import inspect, multiprocessing, pickle, sys
class Thing:
    def __init__(self, n): self.n = n
def double(x):
    for _ in range(1): x = x * 2
    return x
def fail():
    for i in [1]:
        raise ValueError("as expected")
if __name__ == "__main__":
    print(__file__, __spec__, __package__, sys.argv[1:], sys.path[0])
    print(inspect.getsource(double))
    print(pickle.loads(pickle.dumps(Thing(3))).n, Thing.__module__)
    with multiprocessing.get_context("spawn").Pool(1) as pool: print(pool.map(double, [1, 2]))
    if "fail" in sys.argv: fail()
    if "exit" in sys.argv: sys.exit(7)
'''
RUN = ("import progress_python, sys; progress_python.find_package(); from elastictrain.torch import progress; "
       "from elastictrain.torch.progress import _rewrite; import atexit; atexit.register(lambda: print(len(_rewrite.NOTES))); "
       "progress.run_main(sys.argv[2], sys.argv[3:], is_module=sys.argv[1] == '-m')")


class MainModule(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.mkdir(os.path.join(self.folder, "pack"))
        other = "def f():\n  for i in [1]: pass\n"
        for name, text in (("script.py", SCRIPT), ("pack/__init__.py", ""), ("pack/other.py", other),
                           ("pack/main.py", SCRIPT.replace("import inspect", "from . import other; import inspect"))):
            with open(os.path.join(self.folder, name), "w") as file:
                file.write(text)

    def outputs(self, *arguments, is_module=False, **environment):
        """Of the plain interpreter and of run_main()."""
        words = [*(["-m"] if is_module else []), *arguments]
        shared = {"cwd": self.folder, "capture_output": True, "text": True, "timeout": 120,
                  "env": {**os.environ, "PYTHONPATH": os.path.dirname(os.path.abspath(__file__)), "PYTHONWARNINGS": "ignore",
                          "ET_UNDER_TORCH": "1", **environment}}
        plain = subprocess.run([sys.executable, *words], **shared)
        ours = subprocess.run([sys.executable, "-c", RUN, *([] if is_module else ["file"]), *words], **shared)
        return plain, ours

    def assert_equal(self, plain, ours, files):
        *lines, count = ours.stdout.splitlines()
        expected = (plain.returncode, plain.stdout.splitlines(), str(files))
        self.assertEqual((ours.returncode, lines, count), expected, ours.stderr)
        self.assertEqual([line for line in ours.stderr.splitlines() if "runpy" not in line and "return _run" not in line],
                         [line for line in plain.stderr.splitlines() if "runpy" not in line and "return _run" not in line])

    def test_a_file_runs_as_the_interpreter_runs_it(self):
        for words in ((), ("fail",), ("exit",)):
            with self.subTest(words):
                self.assert_equal(*self.outputs("script.py", *words), files=1)

    def test_a_module_runs_as_the_interpreter_runs_it(self):
        plain, ours = self.outputs("pack.main", "fail", is_module=True)
        for one in (plain, ours):  # the loader is another object
            one.stdout = "\n".join(line.partition(" loader=")[0] for line in one.stdout.splitlines())
            one.stderr = "\n".join(line for line in one.stderr.splitlines() if "^^" not in line and "exec(" not in line)
        self.assert_equal(plain, ours, files=3)

    def test_a_missing_file_is_said_as_the_interpreter_says_it(self):
        plain, ours = self.outputs("none.py")
        self.assertEqual((ours.returncode, ours.stderr), (plain.returncode, plain.stderr))

    def test_it_can_be_switched_off(self):
        self.assert_equal(*self.outputs("script.py", ELASTICTRAIN_REWRITE="0"), files=0)

    def test_a_single_module_of_an_installed_package_may_be_named(self):
        installed = os.path.join(self.folder, "site-packages")
        os.mkdir(installed)
        os.rename(os.path.join(self.folder, "pack"), os.path.join(installed, "pack"))
        with open(os.path.join(installed, "pack", "loops.py"), "w") as file:
            file.write("from . import other\ndef g():\n  for i in [1]: pass\n")
        with open(os.path.join(self.folder, "script.py"), "w") as file:
            file.write(f"import sys; sys.path.append({installed!r})\nimport pack.loops\npack.loops.g()\nprint(1)\n")
        for names, files in (("pack.loops", 2), ("pack", 4)):
            with self.subTest(names):
                self.assert_equal(*self.outputs("script.py", ELASTICTRAIN_REWRITE_PACKAGES=names), files=files)

    def test_files_are_told_apart(self):
        _hook.install(os.path.join(self.folder, "script.py"))
        self.assertTrue(_hook.is_own_file(os.path.join(self.folder, "pack/other.py")))
        self.assertFalse(_hook.is_own_file(os.path.join(self.folder, "venv/lib/site-packages/other.py")))
        self.assertFalse(_hook.is_own_file(os.__file__))
        self.assertFalse(_hook.is_own_file(_hook.__file__))
        self.assertFalse(_hook.is_own_file("<string>"))
        self.assertEqual(_hook.short_name(os.path.join(self.folder, "pack/other.py")), os.path.join("pack", "other.py"))


if __name__ == "__main__":
    unittest.main()
