"""One test for each row of the table of output."""

import glob
import os
import pty
import re

import harness
from harness import Case, Run, job, wait_until


def shell(script, workers=2, *flags):
    return ["-n", str(workers), *flags, "--", "sh", "-c", script]


def read_terminal(master):
    """All output until the other side is closed."""
    text = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # Linux's report that no process has the terminal open
            part = b""
        if not part:
            os.close(master)
            return text.decode(errors="replace")
        text += part


class Output(Case):
    def output_of(self, arguments):
        with Run(arguments=arguments) as run:
            self.assertEqual(run.wait(), 0, run.text())
            return run.text("stdout").splitlines()

    def test_lines_carry_host_and_rank(self):
        lines = self.output_of(shell('echo "I am $RANK"'))
        for rank in (0, 1):
            self.assertTrue(any(re.search(rf"^\[\S+:\s*{rank}\] I am {rank}$", line) for line in lines), lines)

    def test_a_template_names_its_keys(self):
        lines = self.output_of(shell("echo hello", 1, "--label=<{rank}/{local_rank}/{worker}/{stream}/{gen}/{host}> "))
        self.assertTrue(any(re.fullmatch(r"<0/0/1/(out|stdout)/\d+/\S+> hello", line.strip()) for line in lines), lines)

    def test_standard_error_stays_standard_error(self):
        with Run(arguments=shell("echo to-error >&2", 1)) as run:
            self.assertEqual(run.wait(), 0)
            self.assertIn("to-error", run.text("stderr"))
            self.assertNotIn("to-error", run.text("stdout"))

    def test_lines_are_whole_and_in_order(self):
        script = 'i=0; while [ $i -lt 400 ]; do printf "line-$RANK-"; printf "%d-end\\n" $i; i=$((i+1)); done'
        lines = [line for line in self.output_of(shell(script, 3)) if "line-" in line]
        for rank in range(3):
            own = [line for line in lines if f"line-{rank}-" in line]
            self.assertEqual([re.search(r"line-\d-(\d+)-end$", line).group(1) for line in own],
                             [str(i) for i in range(400)])
        self.assertEqual(len(lines), 1200)

    def test_the_last_line_without_its_end_is_shown(self):
        self.assertTrue(any("no newline" in line for line in self.output_of(shell('printf "no newline"', 1))))

    def test_a_progress_bar_is_collapsed_to_its_last_state(self):
        script = 'for i in 1 2 3 4 5 6 7 8 9; do printf "bar $i\\r"; done; printf "bar done\\n"'
        lines = [line for line in self.output_of(shell(script, 1)) if "bar" in line]
        self.assertTrue(lines[-1].endswith("bar done"), lines)
        self.assertLess(len(lines), 9)

    def test_a_bar_is_visible_before_its_line_ends(self):
        run = Run()
        go = os.path.join(run.directory, "go")
        bar = 'i=0; while [ ! -e $GO ]; do i=$((i+1)); printf "\\rbar at $i"; sleep 0.05; done; printf "\\rbar at end\\n"'
        run.argv += ["-x", f"GO={go}", *shell(bar, 1)]
        with run:
            run.wait_text("bar at ")
            harness.pause(3)
            open(go, "w").close()
            self.assertEqual(run.wait(), 0)
            kept = [line for line in run.do("logs", run.name).splitlines() if "bar at" in line]
        shown = [line for line in run.text("stdout").splitlines() if "bar at" in line]
        for lines in (shown, kept):
            self.assertEqual(len(lines), 2, "one state in ten seconds, and the end")
            self.assertTrue(lines[1].endswith("bar at end"), lines)

    def test_a_bar_is_drawn_again_on_a_terminal(self):
        master, slave = pty.openpty()
        bar = 'for i in 1 2 3; do printf "\\rbar at $i"; sleep 2.2; done; printf "\\rbar at end\\n"'
        with Run(arguments=shell(bar, 1), stdout=slave, stderr=slave) as run:
            os.close(slave)
            screen = read_terminal(master)
            self.assertEqual(run.wait(), 0)
        self.assertRegex(screen, r"bar at 1\r?\n[^\n]*\r\x1b\[K\x1b\[A\x1b\[K(?s:.*)bar at 2")
        self.assertEqual(len(re.findall(r"bar at end[^\n]*\n", screen)), 1)

    def test_a_reader_that_does_not_read_blocks_no_worker(self):
        reading, writing = os.pipe()
        noise = "i=0; while [ $i -lt 30000 ]; do echo " + "x" * 400 + "; i=$((i+1)); done; touch $DONE-$RANK"
        run = Run(stdout=writing)
        done = os.path.join(run.directory, "done")
        run.argv += ["-x", f"DONE={done}", *shell(noise, 2)]
        with run:
            os.close(writing)
            wait_until(lambda: all(os.path.exists(f"{done}-{rank}") for rank in (0, 1)), 40, "12 MB from each worker")
            os.close(reading)
            run.wait(30)

    def test_dropped_lines_are_counted_and_told(self):
        reading, writing = os.pipe()
        with Run(arguments=shell("i=0; while [ $i -lt 60000 ]; do echo " + "y" * 1000 + "; i=$((i+1)); done", 1),
                 stdout=writing) as run:
            os.close(writing)
            harness.pause(4)
            with os.fdopen(reading, errors="replace") as stream:
                text = stream.read()
            self.assertEqual(run.wait(), 0)
            kept = text.count("y" * 1000)
            self.assertTrue(kept == 60000 or "dropped" in text + run.text(), f"{kept} lines and no report about the rest")

    def test_each_rank_can_have_files_of_its_own(self):
        run = Run()
        logs = os.path.join(run.directory, "logs")
        run.argv += shell("echo out-$RANK; echo err-$RANK >&2", 2, "--log-dir", logs)
        with run:
            self.assertEqual(run.wait(), 0)
            text = {}
            for folder, _, files in os.walk(logs):
                for name in files:
                    with open(os.path.join(folder, name)) as file:
                        text[name] = file.read()
            for rank in (0, 1):
                self.assertTrue(any(f"out-{rank}" in value for value in text.values()), text)
                self.assertTrue(any(f"err-{rank}" in value for value in text.values()), text)
                self.assertFalse(any(f"out-{rank}" in value and f"out-{1 - rank}" in value for value in text.values()))

    def test_files_are_rotated(self):
        run = Run()
        logs = os.path.join(run.directory, "logs")
        script = "i=0; while [ $i -lt 3000 ]; do echo " + "z" * 100 + "; i=$((i+1)); done"
        run.argv += shell(script, 1, "--log-dir", logs, "--set", "log.max_size_bytes=65536", "--set", "log.keep=2")
        with run:
            self.assertEqual(run.wait(), 0)
            sizes = [os.path.getsize(path) for path in glob.glob(os.path.join(logs, "worker-*.log"))]
            self.assertGreater(len(sizes), 1)
            self.assertLessEqual(len([size for size in sizes if size > 0]), 3)
            self.assertLessEqual(max(sizes), 65536 + 200)

    def test_the_runs_own_messages_are_logged_with_time_and_level(self):
        run = Run()
        logs = os.path.join(run.directory, "logs")
        run.argv += shell('[ "$RANK" = 1 ] && exit 3; exec sleep 60', 2, "--log-dir", logs)
        with run:
            self.assertEqual(run.wait(), 3)
            with open(os.path.join(logs, "run.log")) as file:
                lines = file.read().splitlines()
        self.assertTrue(lines)
        for line in lines:
            self.assertRegex(line, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3} (info|warning|error) ")
            self.assertIn(line.split(" ", 2)[2], run.text("stderr"))
        self.assertTrue(any(" error " in line and "rank 1" in line for line in lines), lines)

    def test_only_the_wanted_ranks_are_shown(self):
        lines = self.output_of(shell('echo "I am $RANK"', 3, "--show-ranks", "0,2"))
        text = "\n".join(lines)
        self.assertIn("I am 0", text)
        self.assertIn("I am 2", text)
        self.assertNotIn("I am 1", text)

    def test_a_run_whose_reader_is_gone_goes_on(self):
        reading, writing = os.pipe()
        with Run(job(), stdout=writing) as run:
            os.close(writing)
            run.wait_size(2)
            os.close(reading)
            run.wait_more_steps(50)
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 0)
            run.wait_no_processes()

    def test_without_a_terminal_there_are_no_control_characters(self):
        with Run(job(trainer=harness.synthetic(samples=1600, epochs=1))) as run:
            self.assertEqual(run.wait(), 0)
            self.assertNotRegex(run.text(), r"[\x1b\r]")

    def test_a_terminal_gets_one_line_that_updates_and_never_cuts_workers_lines(self):
        master, slave = pty.openpty()
        script = "i=0; while [ $i -lt 40 ]; do echo whole-line-$i-end; sleep 0.02; i=$((i+1)); done"
        with Run(arguments=shell(script, 1), stdout=slave, stderr=slave) as run:
            os.close(slave)
            screen = read_terminal(master)
            self.assertEqual(run.wait(), 0)
        for number in range(40):
            self.assertRegex(screen, rf"whole-line-{number}-end(\x1b\[[0-9;]*[mK])*\r?\n")
        self.assertGreater(len(re.findall(r"\r(?!\n)", screen)), 2, "the progress line is written over")

    def test_the_failing_workers_last_words_are_shown(self):
        script = '[ "$RANK" = 1 ] || exec sleep 60; echo "cannot open data.csv" >&2; exit 9'
        with Run(arguments=shell(script)) as run:
            self.assertEqual(run.wait(), 9)
            told = [line for line in run.text("stderr").splitlines() if "rank 1" in line]
            self.assertTrue(told, run.text())
            self.assertIn("cannot open data.csv", run.text("stderr"))


if __name__ == "__main__":
    harness.main()
