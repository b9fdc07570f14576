"""The page of figures is what the table of benchmarks and their results make of it, and recording changes nothing else."""

import contextlib
import copy
import io
import pathlib
import re
import subprocess
import sys
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts/bench"))
import bench  # noqa: E402
import rows  # noqa: E402

bench.import_drivers()
PAGE = pathlib.Path(bench.PAGE).read_text(encoding="utf-8")
RESULTS = bench.load()
MARKS = [found[2] for found in bench.MARKED.finditer(PAGE)]


class Page(unittest.TestCase):
    def test_it_is_what_the_results_make(self):
        self.assertEqual(bench.written(PAGE, RESULTS), PAGE, "scripts/bench.sh --page writes it")

    def test_each_part_has_one_table_and_each_table_is_there(self):
        self.assertEqual(sorted(mark for mark in MARKS if mark.startswith("rows ")), sorted(f"rows {part}" for part in rows.SECTIONS))
        with_table = [f"table {line}" for line, result in RESULTS["lines"].items() if "table" in result]
        self.assertEqual(sorted(mark for mark in MARKS if mark.startswith("table ")), sorted(with_table))
        self.assertEqual(MARKS.count("machines"), 1)

    def test_each_line_is_of_a_row_of_the_table(self):
        known = {line for row in rows.TABLE.values() for line in row.lines}
        self.assertEqual(set(RESULTS["lines"]) - known, set())

    def test_each_row_is_whole(self):
        for name, row in rows.TABLE.items():
            with self.subTest(name):
                self.assertNotIn("/", name)
                self.assertTrue(row.about and all(target for _, target in row.lines.values()))

    def test_dates_machines_and_verdicts(self):
        for line, result in RESULTS["lines"].items():
            with self.subTest(line):
                self.assertIn(result.get("machine", "A"), RESULTS["machines"])
                self.assertRegex(result["command"], rf"scripts/bench\.sh {line.partition('/')[0]}( |$)")
                if "measured" in result:
                    self.assertEqual("**not met**" in result["measured"], result["met"] is False)
                if result.get("measured") != "not yet measured":
                    self.assertRegex(result["date"], r"^\d{4}-\d\d-\d\d$")

    def test_tables_of_results_have_equal_lines(self):
        for line, result in RESULTS["lines"].items():
            self.assertEqual(len({len(cells) for cells in result.get("table", [[]])}), 1, line)

    def test_the_front_page_names_rows_that_are_there(self):
        front = (ROOT / "README.md").read_text(encoding="utf-8")
        for name in re.findall(r"scripts/bench\.sh ([a-z0-9-]+)", front):
            self.assertIn(name, rows.TABLE)


class Declaring(unittest.TestCase):
    def test_a_row_without_a_part_of_the_page_is_refused(self):
        with self.assertRaisesRegex(ValueError, "new: the page has no part 'elsewhere'"):
            rows.row("new", "elsewhere", "about", "target")

    def test_two_rows_of_one_name_are_refused(self):
        with self.assertRaisesRegex(ValueError, "two rows are called cold-start"):
            rows.row("cold-start", "operation", "about", "target")(lambda repetitions: [])


class Recording(unittest.TestCase):
    def record(self, name, values):
        results = copy.deepcopy(RESULTS)
        left = bench.record(results, name, values, f"scripts/bench.sh {name}", "X")
        return results, left

    def test_a_line_has_what_was_measured_and_where(self):
        results, left = self.record("cold-start", [rows.below("cold-start", [0.1, 0.7, 0.8], "s", 0.5, "generated data")])
        line = results["lines"]["cold-start"]
        self.assertEqual((left, line["met"], line["machine"]), ([], False, "X"))
        self.assertEqual(line["measured"], "0.7 s [0.100–0.800], 3 times; generated data (**not met**)")
        self.assertIn(f"| {line['measured']} | {line['date']}, X, {line['commit']} |", bench.written(PAGE, results))
        self.assertEqual({**results["lines"], "cold-start": None}, {**RESULTS["lines"], "cold-start": None})

    def test_values_go_to_the_line_whose_name_they_begin_with(self):
        results, left = self.record("sim-ours", [rows.below("sim-ours/known/mean", 0.9, "x", 1), rows.shown("sim-ours/wrong-by-1", 1.1, "x")])
        self.assertEqual(left, ["sim-ours/unknown"])
        self.assertEqual(results["lines"]["sim-ours/known"]["measured"], "mean 0.9 x")
        self.assertEqual(results["lines"]["sim-ours/wrong"]["met"], None)
        self.assertEqual(results["lines"]["sim-ours/unknown"], RESULTS["lines"]["sim-ours/unknown"])

    def test_what_was_not_measured_changes_nothing(self):
        results, left = self.record("torch-grow", [rows.not_measured("torch-grow", "no Python has torch")])
        self.assertEqual((results, left), (RESULTS, ["torch-grow"]))

    def test_many_values_are_counted_and_those_that_miss_are_named(self):
        values = [rows.below(f"policies-live/{n}", n, "%", 8) for n in range(10)]
        self.assertEqual(self.record("policies-live", values)[0]["lines"]["policies-live"]["measured"],
                         "10 values, 9 of 10 targets met; 9 9 % (**not met**)")

    def test_a_table_of_a_row_has_its_values(self):
        results, _ = self.record("allreduce", [rows.Value("allreduce/2-ranks", 1.5, "times", "> 1 times", True, "a | b")])
        self.assertIn("| allreduce/2-ranks | 1.5 times | > 1 times | a / b |\n", bench.written(PAGE, results))

    def test_results_are_written_as_they_are_read(self):
        self.assertEqual(bench.dumped(RESULTS), pathlib.Path(bench.RESULTS).read_text(encoding="utf-8"))

    def test_a_machine_is_known_by_what_it_has(self):
        self.assertEqual(bench.machine_key(RESULTS, "2 cores, AMD EPYC 9B14, Linux 6.18"), "A")
        self.assertEqual(bench.machine_key(RESULTS, "16 cores, Intel(R) Xeon(R), Linux 6.18; NVIDIA H200, 580.159"), "G")
        with self.assertRaisesRegex(SystemExit, "this machine is none of the page's: 12 cores, AMD EPYC"):
            bench.machine_key(RESULTS, "12 cores, AMD EPYC")


class Command(unittest.TestCase):
    def told(self, *words):
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as told, \
                unittest.mock.patch.object(sys, "argv", ["bench.py", *words]), self.assertRaises(SystemExit) as ended:
            bench.parse()
        return ended.exception.code, out.getvalue() + told.getvalue()

    def test_the_list_has_each_row(self):
        out = subprocess.run([sys.executable, "-B", bench.__file__, "--list"], capture_output=True, text=True, check=True).stdout
        self.assertEqual([line.split()[0] for line in out.splitlines()], list(rows.TABLE))

    def test_an_unknown_row_is_refused_and_a_near_one_is_named(self):
        status, text = self.told("cold-strat")
        self.assertEqual(status, 64)
        self.assertIn("unknown benchmark cold-strat; did you mean cold-start? --list shows the names", text)

    def test_help_tells_how_figures_are_kept(self):
        status, text = self.told("--help")
        self.assertEqual(status, 0)
        self.assertIn("--record", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
