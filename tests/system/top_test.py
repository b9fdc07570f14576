"""`elastictrain top` in a real terminal (tmux): what it shows, its keys, and what it does without a terminal."""

import os
import shlex
import shutil
import subprocess
import tempfile
import unittest

import harness
from harness import BINARY, Case, Run, job, pids, wait_until


class Screen:
    """A tmux session of its own server."""

    def __init__(self, folder, columns, rows, command, environment):
        self.socket = os.path.join(folder, "tmux")
        env = {**os.environ, **environment, "LC_ALL": "C.UTF-8"}
        for variable in ("TMUX", harness.MARK):  # its server is no process of the run
            env.pop(variable, None)
        subprocess.run(["tmux", "-S", self.socket, "-f", "/dev/null", "-u", "new-session", "-d", "-x", str(columns), "-y",
                        str(rows), "-s", "top", *command], env=env, check=True, timeout=60)
        self.do("set-option", "-g", "remain-on-exit", "on")

    def do(self, *words):
        return subprocess.run(["tmux", "-S", self.socket, *words], capture_output=True, text=True, timeout=60).stdout

    def text(self):
        return self.do("capture-pane", "-p", "-t", "top")

    def press(self, *keys):
        self.do("send-keys", "-t", "top", *keys)

    def is_over(self):
        return self.do("list-panes", "-t", "top", "-F", "#{pane_dead}").strip() in ("1", "")

    def close(self):
        self.do("kill-server")


@unittest.skipUnless(shutil.which("tmux"), "tmux is not installed (scripts/setup.sh test)")
class Top(Case):
    def screen(self, run, columns=80, rows=24, environment=None):
        folder = tempfile.mkdtemp(prefix="et-top-")
        self.addCleanup(shutil.rmtree, folder)
        made = Screen(folder, columns, rows, [BINARY, "top", run.name], {**run.environment, **(environment or {})})
        self.addCleanup(made.close)
        return made

    def wait_screen(self, screen, part):
        try:
            wait_until(lambda: part in screen.text(), 60, f"{part!r} on the screen", 0.2)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{screen.text()}") from None

    def test_keys_change_the_run_after_a_confirmation_and_quitting_leaves_it_alone(self):
        with Run(job()) as run:
            run.wait_size(2)
            screen = self.screen(run)
            self.wait_screen(screen, "2 workers")
            self.wait_screen(screen, "samples/s")
            self.assertIn("q quit", screen.text())
            screen.press("+")
            self.wait_screen(screen, "resize from 2 to 3 workers?")
            screen.press("n")
            self.wait_screen(screen, "nothing was changed")
            self.assertEqual(run.events("resize_requested"), [])
            screen.press("+")
            self.wait_screen(screen, "to 3 workers?")
            screen.press("y")
            run.wait_size(3)
            self.wait_screen(screen, "3 workers")
            before = set(pids(run.status()))
            screen.press("r")
            self.wait_screen(screen, "replace rank")
            screen.press("y")
            wait_until(lambda: len(set(pids(run.status())) - before) == 1, 60, "a new worker")
            screen.press("s")
            self.wait_screen(screen, "by rank")
            screen.press("q")
            wait_until(screen.is_over, 30, "the end of top")
            run.wait_size(3)
            self.assert_stops_clean(run)

    def test_a_wide_and_tall_terminal_and_one_that_changes_its_size(self):
        with Run(job()) as run:
            run.wait_size(2)
            screen = self.screen(run, 200, 60)
            self.wait_screen(screen, "hosts: 1 up")
            self.wait_screen(screen, "generation")
            self.wait_screen(screen, "█ compute ▒ data ░ comm")
            self.assertTrue(any("█" in line for line in screen.text().splitlines()))
            screen.do("resize-window", "-t", "top", "-x", "60", "-y", "15")
            wait_until(lambda: len(screen.text().splitlines()) <= 15 and "q quit" in screen.text(), 60, "a small screen")
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 0)
            self.wait_screen(screen, "the run has ended with status 0")
            screen.press("q")
            wait_until(screen.is_over, 30, "the end of top")

    def test_a_terminal_without_a_cursor_gets_plain_lines(self):
        with Run(job()) as run:
            run.wait_size(2)
            screen = self.screen(run)
            errors = os.path.join(os.path.dirname(screen.socket), "errors")
            for terminal, reason in (("no-such-terminal", "this machine knows no terminal of the kind TERM=no-such-terminal"),
                                     ("dumb", "a terminal with TERM=dumb has no cursor that moves")):
                screen.do("respawn-pane", "-k", "-t", "top",
                          f"TERM={terminal} {shlex.quote(BINARY)} top {run.name} 2> {errors}; sleep 1000")
                self.wait_screen(screen, "last change: ")
                self.assertLessEqual(max(map(len, screen.text().splitlines())), 80)
                with open(errors) as file:
                    self.assertIn(reason, file.read())
            self.assert_stops_clean(run)


class WithoutATerminal(Case):
    def test_it_prints_the_status_until_the_run_ends(self):
        with Run(job()) as run:
            run.wait_size(2)
            watching = subprocess.Popen([BINARY, "top", run.name], env={**os.environ, **run.environment}, text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertIn(f"{run.name}: running, 2 workers", watching.stdout.readline())
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 0)
            _, error = watching.communicate(timeout=60)
            self.assertIn("is no terminal", error)
            self.assertEqual(run.command("top", run.name).returncode, 69)


if __name__ == "__main__":
    harness.main()
