"""However a run ends, everything that says how far it came names the same step, and the same loss."""

import json
import os
import re
import shutil
import signal
import tempfile

import harness
from harness import Case, Run, job, newest_checkpoint, pids, synthetic


def listed(run):
    return next(one for one in json.loads(run.do("list", "--json")) if one["name"] == run.name)


def summary_of(text):
    """(steps, loss as it is written) of the last summary."""
    found = re.findall(r"trained: (\d+) steps?(?:, loss (\S+?))?(?:,|\n)", text)
    return int(found[-1][0]), found[-1][1]


class Ends(Case):
    def end(self, status, act=lambda run: None, arguments=(), **sections):
        """Runs, acts, waits for the end with this status; returns the run and the directory of its checkpoints."""
        directory = tempfile.mkdtemp(prefix="et-ends-")
        self.addCleanup(shutil.rmtree, directory, True)
        config = job(workers=(1, 2, 2), checkpoint={"directory": directory}, audit={"every_steps": 1}, **sections)
        run = Run(config, arguments)
        self.addCleanup(run.kill)
        run.start()
        act(run)
        self.assertEqual(run.wait(60), status, run.text())
        return run, directory

    def train(self, run, steps=20):
        run.wait_size(2)
        run.wait_more_steps(steps)

    def assert_same_figures(self, run, directory, is_saved=True):
        """`is_saved`: it has ended in good order, and so with the last step of all."""
        step, closed, in_list = run.last_step(), run.journal()[-1], listed(run)
        said = {"list": in_list["step"], "status": run.status()["step"], "journal": closed.get("step"),
                "summary": summary_of(run.text())[0],
                "later summary": summary_of(run.do("status", run.name))[0]}
        audited = run.audit()["steps"]
        if is_saved:
            said.update(checkpoint=newest_checkpoint(directory), audit=audited)
        # Workers tell of a step in two messages, and a sudden end may come between them.
        self.assertLessEqual(abs(audited - said["list"]), 1)
        self.assertEqual(said, dict.fromkeys(said, step if is_saved else said["list"]))
        self.assertLessEqual(said["list"], step)
        self.assertGreater(closed.get("loss", 0), 0)
        self.assertAlmostEqual(in_list["loss"], closed["loss"])
        for text in (run.text(), run.do("status", run.name)):
            self.assertAlmostEqual(float(summary_of(text)[1]) / closed["loss"], 1, places=3)

    def test_finished(self):
        self.assert_same_figures(*self.end(0, trainer=synthetic(samples=1600, epochs=2)))

    def test_stopped(self):
        def stop(run):
            self.train(run)
            run.do("stop", run.name)

        self.assert_same_figures(*self.end(0, stop))

    def test_out_of_time(self):
        self.assert_same_figures(*self.end(75, arguments=["--time-limit", "3"]))

    def test_taken_over(self):
        def lose_and_stop(run):
            self.train(run)
            run.lose_supervisor()
            run.wait_more_steps(20)
            run.resume()
            self.train(run)
            run.do("stop", run.name)

        self.assert_same_figures(*self.end(0, lose_and_stop))

    def test_failed(self):
        def lose_a_worker(run):
            self.train(run)
            os.kill(pids(run.status())[1], signal.SIGKILL)

        run, directory = self.end(128 + signal.SIGKILL, lose_a_worker, failures={"max_crashes": 0})
        self.assert_same_figures(run, directory, is_saved=False)


if __name__ == "__main__":
    harness.main(5)
