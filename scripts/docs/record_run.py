#!/usr/bin/env python3
"""Makes the run of the picture on the front page and keeps an extract of its records.

The run grows from 2 to 4 workers, shrinks to 3, replaces a worker and loses one to kill -9.

  record_run.py [--binary build/release/cli/elastictrain] [--extract tests/docs/data]
"""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import run_record

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CONFIG = ROOT / "scripts/docs/run.toml"
NAME = "picture"
PAUSE_S = 3  # between two changes, so that each has its place in the picture


class Recording:
    def __init__(self, binary, directory):
        self.binary = binary
        self.steps = os.path.join(directory, "steps")
        os.mkdir(self.steps)
        self.journal = os.path.join(directory, NAME, "journal.jsonl")
        self.environment = {**os.environ, "ELASTICTRAIN_STATE_DIR": directory, "ELASTICTRAIN_STEP_LOG": self.steps}

    def command(self, *arguments):
        done = subprocess.run([self.binary, *arguments], env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, text=True, timeout=30, check=True)
        return done.stdout

    def pid_of_rank(self, rank):
        status = json.loads(self.command("status", NAME, "--json"))
        return next(worker["pid"] for worker in status["workers"] if worker.get("rank") == rank)

    def make(self):
        run = subprocess.Popen([self.binary, "run", str(CONFIG), "--name", NAME], env=self.environment,
                               stdin=subprocess.DEVNULL)
        try:
            time.sleep(PAUSE_S)
            for change in (["resize", NAME, "4"], ["resize", NAME, "3"], ["replace", NAME, "1"]):
                print(self.command(*change), end="")
                time.sleep(PAUSE_S)
            os.kill(self.pid_of_rank(2), signal.SIGKILL)
            time.sleep(PAUSE_S)
            self.command("stop", NAME)
            return run.wait(timeout=60)
        finally:
            if run.poll() is None:
                run.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--binary", default=str(ROOT / "build/release/cli/elastictrain"))
    parser.add_argument("--extract", default=str(ROOT / "tests/docs/data"), help="directory for the extract")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="etpicture-") as directory:
        recording = Recording(os.path.abspath(arguments.binary), directory)
        status = recording.make()
        if status != 0:
            sys.exit(f"record_run.py: the run ended with status {status}")
        journal, steps = run_record.read_run(recording.journal, recording.steps)
    run_record.write_extract(arguments.extract, journal, steps)
    print(f"{len(steps)} committed steps; draw them with scripts/docs/draw_run.py")


if __name__ == "__main__":
    main()
