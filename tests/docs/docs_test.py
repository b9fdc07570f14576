"""The checks of the Markdown pages find what they are for, and the picture of the front page shows what its data say."""

import contextlib
import dataclasses
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts/docs"))
import check_links  # noqa: E402
import draw_run  # noqa: E402
import run_record  # noqa: E402

DATA = ROOT / "tests/docs/data"


@contextlib.contextmanager
def tree(**pages):
    """A directory with these pages; in a name `__` stands for `/`."""
    with tempfile.TemporaryDirectory(prefix="etdocs-") as directory:
        root = pathlib.Path(directory).resolve()
        for name, text in pages.items():
            path = root / (name.replace("__", "/") + ".md")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        yield root


class Links(unittest.TestCase):
    def offences(self, **pages):
        with tree(**pages) as root:
            return check_links.check(root)[1]

    def test_good_pages_have_no_offences(self):
        page = "# A title\n\n## `code`, and: more\n## Twice\n## Twice\n[up](../README.md) [own](#twice-1)\n"
        front = "[page](cli/page.md#code-and-more)\n[web](https://example.org/x#y)\n"
        self.assertEqual(self.offences(README=front, cli__page=page), [])

    def test_a_folder_stands_for_its_readme(self):
        self.assertEqual(self.offences(README="[cli](cli/README.md) [train](train)", cli__README="x", train__README="x"), [])

    def test_a_link_to_a_missing_file(self):
        self.assertEqual(len(self.offences(README="one\n[gone](gone.md)\n")), 1)
        self.assertIn("README.md:2", self.offences(README="one\n[gone](gone.md)\n")[0])

    def test_a_link_to_a_missing_heading(self):
        self.assertIn("no heading #other", self.offences(README="# Title\n[own](#other)")[0])
        self.assertEqual(len(self.offences(README="# Twice\n# Twice\n[third](#twice-2)")), 1)

    def test_a_missing_picture(self):
        self.assertEqual(len(self.offences(README="![drawing of\na run](run.svg)")), 1)

    def test_a_reference_definition(self):
        self.assertEqual(len(self.offences(README="[text][name]\n\n[name]: gone.md\n")), 1)

    def test_a_link_out_of_the_repository(self):
        self.assertIn("leads out", self.offences(README="[x](../README.md)")[0])

    def test_code_holds_no_links_and_no_headings(self):
        self.assertEqual(self.offences(README="`[a](gone.md)`\n\n    [b](gone.md)\n\n```\n[c](gone.md)\n```\n"), [])
        self.assertEqual(len(self.offences(README="```\n# Title\n```\n[x](#title)\n")), 1)

    def test_a_command_of_the_front_page_that_names_a_missing_file(self):
        text = ("# A\n[page](there.md)\n\n    tool run there.md \"./own\" --set a.b=1    # or none.toml\n"
                "    build/x/tool --at host:/none/path $HOME/none none/ other.csv\n")
        self.assertEqual(self.offences(README=text, there="x"),
                         [f"README.md:{line}: the command names {name}, which is not there"
                          for line, name in ((4, "./own"), (5, "none/"), (5, "other.csv"))])

    def test_a_page_that_the_front_page_does_not_link(self):
        pages = {"README": "[a](a.md)", "a": "[b](b.md)", "b": "x"}
        self.assertEqual(self.offences(**pages), ["README.md: does not link b.md"])

    def test_the_length_of_the_front_page(self):
        self.assertEqual(self.offences(README="line\n" * 250), [])
        self.assertIn("251 lines", self.offences(README="line\n" * 251)[0])


class Picture(unittest.TestCase):
    def setUp(self):
        self.journal, self.steps = run_record.read_run(DATA / "journal.jsonl", DATA / "steps.jsonl")

    def test_the_committed_picture_is_drawn_from_the_committed_data(self):
        self.assertEqual(draw_run.draw(self.journal, self.steps), draw_run.FRONT_PAGE_PICTURE.read_text(encoding="utf-8"))

    def test_it_is_well_formed_and_shows_every_change(self):
        texts = [node.text for node in xml.fromstring(draw_run.draw(self.journal, self.steps)).iter()
                 if node.tag.endswith("text")]
        for label in ("resize 4", "resize 3", "replace 1", "kill -9", "world size", "samples/s"):
            self.assertIn(label, texts)

    def test_all_steps_are_there_and_their_samples_are_those_of_the_audit(self):
        audit = next(record for record in self.journal if record["event"] == "audit")
        self.assertEqual([step.step for step in self.steps], list(range(1, audit["steps"] + 1)))
        self.assertEqual(sum(draw_run.samples_per_step(self.journal, self.steps)), audit["samples"])

    def test_every_step_stands_between_the_marks_of_its_time(self):
        drawn = xml.fromstring(draw_run.draw(self.journal, self.steps))
        dots = [node for node in drawn.iter() if node.get("class") == "gap"]
        self.assertEqual(len(dots), len(self.steps) - 1)

    def test_a_pause_of_the_run_is_visible(self):
        late = [dataclasses.replace(step, up_s=step.up_s + 1) if step.step > 200 else step for step in self.steps]
        self.assertGreater(max(gap for _, gap in draw_run.gaps_ms(late)), 1000)
        rates = draw_run.rates(late, draw_run.samples_per_step(self.journal, late))
        self.assertLess(min(rate for _, rate in rates), 1000)

    def test_labels_that_would_overlap_take_two_rows(self):
        changes = [draw_run.Change("resize 4", False, time, time + 0.1, 0.0) for time in (1.0, 1.2)]
        parts = draw_run.draw_changes(changes, draw_run.Axis(0, 15, 56, 776), 118, 468)
        rows = [node.get("y") for part in parts for node in xml.fromstring(f"<g>{part}</g>") if node.get("class") == "change"]
        self.assertNotEqual(rows[0], rows[1])

    def test_step_logs_give_each_step_once_at_its_first_commit(self):
        log = '{{"ev":"step","t":{},"step":{},"world":2,"rank":0,"generation":1}}\n'
        with tempfile.TemporaryDirectory(prefix="etdocs-") as directory:
            pathlib.Path(directory, "w-a-1.jsonl").write_text('{"ev":"proc","t":9}\n' + log.format(10.5, 1) + log.format(12, 2))
            pathlib.Path(directory, "w-a-2.jsonl").write_text(log.format(10, 1) + log.format(12.25, 2) + '{"ev":"st')
            first, second = run_record.read_step_logs(directory, self.journal)
        self.assertEqual((first.step, second.step), (1, 2))
        self.assertAlmostEqual(second.up_s - first.up_s, 2, places=3)

    def test_an_extract_gives_the_same_picture(self):
        with tempfile.TemporaryDirectory(prefix="etdocs-") as directory:
            run_record.write_extract(directory, self.journal, self.steps)
            again = run_record.read_run(f"{directory}/journal.jsonl", f"{directory}/steps.jsonl")
        self.assertEqual(draw_run.draw(*again), draw_run.draw(self.journal, self.steps))

    def test_what_cannot_be_drawn_is_named(self):
        with tempfile.TemporaryDirectory(prefix="etdocs-") as directory:
            path = pathlib.Path(directory) / "journal.jsonl"
            for text in ("", "no json\n{}\n", '{"event":"spawn"}\n'):
                path.write_text(text, encoding="utf-8")
                with self.assertRaisesRegex(run_record.RecordError, "journal.jsonl"):
                    run_record.read_run(path, DATA / "steps.jsonl")

    def test_a_torn_last_line_is_left_out(self):
        with tempfile.TemporaryDirectory(prefix="etdocs-") as directory:
            path = pathlib.Path(directory) / "journal.jsonl"
            path.write_text((DATA / "journal.jsonl").read_text(encoding="utf-8") + '{"seq":', encoding="utf-8")
            self.assertEqual(run_record.read_journal(path), self.journal)


class Scripts(unittest.TestCase):
    def test_help_is_help_and_an_unknown_flag_is_refused(self):
        for name in ("build.sh", "package.sh", "wheel.sh", "release.sh"):
            asked = subprocess.run([ROOT / "scripts" / name, "--help"], capture_output=True, text=True, timeout=60)
            self.assertEqual(asked.returncode, 0, asked.stderr)
            self.assertIn(f"Usage: scripts/{name}", asked.stdout)
            wrong = subprocess.run([ROOT / "scripts" / name, "--nosuch"], capture_output=True, text=True, timeout=60)
            self.assertEqual(wrong.returncode, 64)
            self.assertIn("unknown flag --nosuch", wrong.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
