"""`elastictrain report`: the page of a run that grew, lost a worker and its supervisor, in a browser where there is one."""

import html
import html.parser
import json
import os
import shutil
import signal
import subprocess
import tempfile

import harness
from harness import Case, Run, job, pids, synthetic

PICTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "unit", "cli", "pictures")
# Writes each label that is outside of its window, or that meets another one of its chart, into the page.
FIND_WRONG_LABELS = """
addEventListener("load", () => {
  const wrong = [];
  const meets = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2;
  let labels = 0;
  for (const frame of document.querySelectorAll("iframe")) {
    const page = frame.contentDocument, width = frame.clientWidth;
    if (page.documentElement.scrollWidth > width) wrong.push(frame.title + ": wider than its window");
    for (const chart of page.querySelectorAll("svg:not(svg svg)")) {
      const seen = [];
      for (const text of chart.querySelectorAll("text")) {
        const box = text.getBoundingClientRect();
        if (box.width === 0) continue;
        ++labels;
        if (box.left < 0 || box.right > width) wrong.push(frame.title + ": outside: " + text.textContent);
        for (const [other, name] of seen)
          if (meets(box, other)) wrong.push(frame.title + ": " + text.textContent + " meets " + name);
        seen.push([box, text.textContent]);
      }
    }
  }
  document.body.innerHTML = "";
  document.body.textContent = JSON.stringify({labels: labels, wrong: wrong});
});
"""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SIZES = {"wide": (1280, 1600), "phone": (390, 1600)}


class Page(html.parser.HTMLParser):
    """Texts by heading, and everything that a page could load."""

    VOID = {"meta", "line", "polyline", "polygon", "rect", "path", "circle"}

    def __init__(self, text):
        super().__init__()
        self.open = []
        self.loads = []
        self.cells = []
        self.unbalanced = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        if tag in ("script", "link", "img", "iframe", "object", "embed", "base"):
            self.loads.append(tag)
        self.loads += [name for name, _ in attributes if name in ("src", "href") or name.startswith("on")]
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "td":
            self.cells.append("")

    def handle_endtag(self, tag):
        if tag in self.VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data):
        if self.open and self.open[-1] == "td":
            self.cells[-1] += data


def read(path):
    with open(path) as file:
        return file.read()


class Report(Case):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="et-report-")
        self.addCleanup(shutil.rmtree, self.folder)

    def check_page(self, text):
        page = Page(text)
        self.assertEqual(page.loads, [], "the page needs something from elsewhere")
        self.assertEqual((page.open, page.unbalanced), ([], []), "elements are not closed")
        self.assertLess(len(text), 2_000_000)
        return page

    def test_a_run_that_grew_lost_a_worker_and_was_resumed(self):
        with Run(job(cost={"price_per_worker_hour": 2.5})) as run:
            typed = " ".join(run.argv[1:])
            run.wait_size(2)
            run.do("resize", "3")
            run.wait_size(3)
            os.kill(pids(run.status())[1], signal.SIGKILL)
            run.wait_event("loss")
            run.wait_size(3)
            live = os.path.join(self.folder, "live.html")
            run.do("report", run.name, "-o", live)
            self.assertIn("<p>live</p>", read(live))
            self.check_page(read(live))
            run.lose_supervisor()
            run.resume()
            run.wait_size(3)
            run.wait_event("observed")
            self.assert_ends_clean(run)
            path = os.path.join(self.folder, "run.html")
            self.assertEqual(run.do("report", run.name, "-o", path).strip(), path)
            text = read(path)
            page = self.check_page(text)
            self.assertIn(f"Run {run.name}", text)
            self.assertTrue(f"<code>elastictrain {typed}</code>" in text, "the command as typed, not that of --resume")
            self.assertRegex(text, r"<b>2</b><span>supervisors</span>")
            self.assertRegex(text, r"0 missing, 0 repeated, 0 unequal")
            joined = "\n".join(page.cells)
            self.assertIn("another supervisor takes the run over", joined)
            self.assertRegex(joined, r"crash: .*(killed|KILL)")
            self.assertIn("2 to 3", joined)
            for event in run.events("generation"):
                self.assertIn(f"\n{event['generation']}\n", joined)
            self.assertEqual(run.do("report", run.name, "-o", "-"), text, "the same journal gives the same page")
            self.look(path)

    def test_a_run_writes_its_report_when_it_ends(self):
        path = os.path.join(self.folder, "made", "report.html")
        with Run(job(trainer=synthetic(epochs=1, samples=64), report={"on_end": path}), ["-x", "TOKEN=secret"]) as run:
            self.assertEqual(run.wait(), 0)
            self.assertIn(f"report: {path}", run.text("stderr"))
            text = read(path)
            self.assertIn("-x TOKEN=...</code>", text)
            self.assertNotIn("secret", text)
            self.check_page(text)
            self.assertIn("<p>ended: the program finished</p>", text)

    def test_a_report_that_cannot_be_written_is_said_and_the_run_ends_well(self):
        with Run(job(trainer=synthetic(epochs=1, samples=64), report={"on_end": "/proc/none/report.html"})) as run:
            self.assertEqual(run.wait(), 0)
            self.assertIn("warning: the report cannot be written to /proc/none/report.html", run.text("stderr"))
            done = run.command("report", run.name, "-o", "/proc/none/report.html")
            self.assertEqual(done.returncode, 73)
            self.assertEqual(run.command("report", "nothing-has-this-name").returncode, 69)

    def test_labels_of_pictures_are_inside_and_apart_at_each_width(self):
        browser = next((found for found in map(shutil.which, BROWSERS) if found), None)
        if browser is None:
            self.skipTest("none of " + ", ".join(BROWSERS) + " is installed")
        frames = [f'<iframe width="{width}" height="900" title="{name} at {width}" '
                  f'srcdoc="{html.escape(read(os.path.join(PICTURES, name)))}"></iframe>'
                  for name in sorted(os.listdir(PICTURES)) for width in (400, 800, 1600)]
        path = os.path.join(self.folder, "labels.html")
        with open(path, "w") as file:
            file.write(f'<!DOCTYPE html><meta charset="utf-8"><script>{FIND_WRONG_LABELS}</script>' + "".join(frames))
        done = subprocess.run([browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom",
                               f"--user-data-dir={self.folder}/profile", f"file://{path}"],
                              capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL)
        found = json.loads(html.unescape(done.stdout[done.stdout.index("<body>") + 6:done.stdout.index("</body>")]))
        self.assertGreater(found["labels"], 100)
        self.assertEqual(found["wrong"], [])

    def look(self, path):
        """No error in a browser's console, nothing wider than the window."""
        browser = next((found for found in map(shutil.which, BROWSERS) if found), None)
        if browser is None:
            print("SKIPPED: the look into a browser: none of " + ", ".join(BROWSERS) + " is installed", flush=True)
            return
        keep = os.environ.get("ELASTICTRAIN_SCREENSHOTS", self.folder)
        os.makedirs(keep, exist_ok=True)
        for name, (width, height) in SIZES.items():
            for scheme in ("light", "dark"):
                picture = os.path.join(keep, f"report-{name}-{scheme}.png")
                self.browse(browser, path, picture, width, height, scheme)
                self.assertGreater(os.path.getsize(picture), 10_000)

    def browse(self, browser, path, picture, width, height, scheme):
        argv = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr",
                "--v=0", f"--user-data-dir={self.folder}/profile", f"--window-size={width},{height}",
                f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}", f"--screenshot={picture}",
                f"file://{path}"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL)
        console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        self.assertEqual(console, [], "the browser's console has messages")
        self.assertTrue(os.path.exists(picture), done.stderr[-2000:])


if __name__ == "__main__":
    harness.main()
