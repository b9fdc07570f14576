"""Logs of unmodified scripts: written once, also after the first worker was lost."""

import glob
import os
import signal
import subprocess
import tempfile
import unittest

import harness
from harness import Case, pids
from torch_frameworks_test import PYTHON, lacks, script_job
from torch_test import END_S, START_S, torch_run

READ = """
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
for path in sys.argv[1:]:
    events = EventAccumulator(path).Reload()
    if "epoch" in events.Tags()["scalars"]:
        print(*(int(event.value) for event in events.Scalars("epoch")))
"""


class Logs(Case):
    @classmethod
    def setUpClass(cls):
        why = lacks("tensorboard")
        if why:
            raise unittest.SkipTest(why)

    def test_each_value_is_written_once_whoever_is_first(self):
        with tempfile.TemporaryDirectory() as directory:
            with torch_run(script_job("logging_script.py", (1, 3, 3)), ET_EPOCHS=40, ET_SAVED=directory) as run:
                run.wait_size(3, START_S)
                run.wait_more_steps(100)
                victim = pids(run.status())[0]
                os.kill(victim, signal.SIGKILL)
                run.wait_status(lambda s: s.get("world_size") == 3 and victim not in pids(s), 60, "the replacement")
                self.assertEqual(run.wait(END_S), 0, run.text()[-2000:])
                run.wait_no_processes()
                self.assert_audit_clean(run)
            files = glob.glob(os.path.join(directory, "events*"))
            self.assertEqual(len(files), 2, "of the first worker, and of the one that became it")
            done = subprocess.run([PYTHON, "-c", READ, *files], capture_output=True, text=True, timeout=100)
            values = sorted(int(value) for value in done.stdout.split())
            # What the lost worker had not flushed when it was killed is lost with it; nothing is written twice.
            self.assertEqual(len(values), len(set(values)), values)
            self.assertGreaterEqual(len(values), 39, values)
            self.assertEqual(values[-1], 39)


if __name__ == "__main__":
    harness.main()
