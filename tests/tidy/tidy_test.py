#!/usr/bin/env python3
"""Lets tidy.py judge small trees that break one rule each, and one that breaks none: tidy_test.py TIDY."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

TIDY = pathlib.Path(sys.argv.pop(1)).resolve()


def judge(files):
    """Exit status and output for a tree of {path: text}."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            file = pathlib.Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        done = subprocess.run([sys.executable, TIDY, folder], stdout=subprocess.PIPE, text=True, check=False)
        return done.returncode, done.stdout


def including(*headers):
    return "".join(f'#include "{header}"\n' for header in headers)


class Tidy(unittest.TestCase):
    def accepts(self, files):
        self.assertEqual(judge(files)[0], 0, judge(files)[1])

    def refuses(self, files, *texts):
        status, output = judge(files)
        self.assertEqual(status, 1, output)
        for text in texts:
            self.assertIn(text, output)

    def test_arrows_in_one_direction(self):
        self.accepts({"supervisor/control/a.h": including("supervisor/core/b.h"), "supervisor/core/b.h": "",
                      "supervisor/c.h": including("supervisor/control/a.h", "launcher/launcher.h"),
                      "launcher/launcher.h": "", "heuristics/cost/d.h": including("heuristics/policy/e.h")})

    def test_include_that_no_arrow_allows(self):
        self.refuses({"train/comm/a.h": including("launcher/launcher.h")}, "train/comm/ may not include launcher/launcher.h")

    def test_edge_includes_only_the_interfaces_of_the_launcher(self):
        self.refuses({"supervisor/a.h": including("launcher/hostfile.h")}, "supervisor/ may not include launcher/hostfile.h")

    def test_two_subfolders_that_include_each_other(self):
        self.refuses({"heuristics/cost/a.h": including("heuristics/policy/b.h"),
                      "heuristics/policy/b.h": including("heuristics/cost/c.h")},
                     "folders include each other: heuristics/cost -> heuristics/policy -> heuristics/cost",
                     "heuristics/policy/b.h:1: includes heuristics/cost/c.h")

    def test_folder_and_its_subfolder_that_include_each_other(self):
        self.refuses({"launcher/a.cc": including("launcher/batch/b.h"), "launcher/batch/c.cc": including("launcher/a.h")},
                     "folders include each other: launcher -> launcher/batch -> launcher")

    def test_cycle_of_three_folders(self):
        self.refuses({"heuristics/a/x.h": including("heuristics/b/x.h"), "heuristics/b/x.h": including("heuristics/c/x.h"),
                      "heuristics/c/x.h": including("heuristics/a/x.h")},
                     "heuristics/a -> heuristics/b -> heuristics/c -> heuristics/a")

    def test_cycle_through_a_public_header(self):
        self.refuses({"train/include/elastictrain/a.hpp": including("train/session/b.h"),
                      "train/session/b.h": including("elastictrain/a.hpp")}, "folders include each other")

    def test_types_of_a_pure_folder_that_hold_or_take_each_other(self):
        self.refuses({"supervisor/core/a.h": "class B;\nclass A {\n  B& b_;  // held\n};\n",
                      "supervisor/core/b.h": "class C;\nstruct B {\n  void tell(C& c) { A::none(); }\n};\n",
                      "supervisor/core/c.h": "struct C {\n  struct Kept {\n    A* a = nullptr;\n  };\n};\n"},
                     "supervisor/core/a.h: types that hold or take each other: A -> B -> C -> A")

    def test_types_that_only_their_functions_or_comments_name(self):
        self.accepts({"supervisor/core/a.h": "struct A {\n  B b;\n};\n",
                      "supervisor/core/b.h": "struct B {  // of an A\n  int size() const { return sizeof(A); }\n};\n"})

    def test_clock_in_a_pure_folder(self):
        self.refuses({"supervisor/core/a.cc": "auto t = std::chrono::steady_clock::now();\n"}, "reads a clock")

    def test_python_functions_with_too_many_parameters(self):
        eight = "a, b, c, d, e, f, g, h"
        self.accepts({"train/a.py": f"class A:\n    def f(self, {eight}):\n        pass\n"})
        self.refuses({"scripts/a.py": f"def f({eight}, *, i=0):\n    pass\n"}, "scripts/a.py:1: f has 9 parameters (at most 8)")

    def test_headers_that_do_not_include_what_they_use(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder).resolve()
            entry = {"file": "a.cc", "command": f"c++ -DSTRUCT=struct -I{folder} -O2 -std=c++20 -o a.o -c a.cc"}
            files = {"scripts/tidy.py": TIDY.read_text(), "supervisor/a.h": "STRUCT A {};\n",
                     "supervisor/b.h": '#include "supervisor/a.h"\nA make();\n', "supervisor/needs_a.h": "A make();\n",
                     "tests/needs_a.h": "A make();\n", "build/compile_commands.json": json.dumps([entry])}
            for path, text in files.items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(text)
            done = subprocess.run([sys.executable, folder / "scripts/tidy.py", "--alone", folder / "build"],
                                  stdout=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("supervisor/needs_a.h:1", done.stdout)
        self.assertIn("tidy: 3 headers, 1 do not compile alone", done.stdout)


if __name__ == "__main__":
    unittest.main()
