"""Hosts beyond the first ones: a command gets them when slots are missing, and another gives them back."""

import os
import shutil
import signal
import tempfile

import harness
from harness import Case, Run, job, pids, wait_until

# The commands write their arguments to a file. The hosts are other names of this machine.
EXPAND = """#!/bin/sh
echo "expand job=$ELASTICTRAIN_JOB_ID wanted=$ELASTICTRAIN_WANTED_SLOTS missing=$ELASTICTRAIN_MISSING_SLOTS" >>"$0.log"
[ -e "$0.fails" ] && { rm "$0.fails"; echo "the queue is closed" >&2; exit 1; }
echo "127.0.0.2 slots=$ELASTICTRAIN_MISSING_SLOTS"
"""
SHRINK = """#!/bin/sh
echo "shrink job=$ELASTICTRAIN_JOB_ID hosts=$ELASTICTRAIN_HOSTS" >>"$(dirname "$0")/expand.log"
"""


class Expand(Case):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="etrun-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        for name, text in (("expand", EXPAND), ("shrink", SHRINK)):
            with open(os.open(self.path(name), os.O_WRONLY | os.O_CREAT, 0o755), "w") as file:
                file.write(text)

    def path(self, name):
        return os.path.join(self.directory, name)

    def log(self):
        try:
            with open(self.path("expand.log")) as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def config(self, **hosts):
        hosts = {"list": ["localhost:2"], "expand": self.path("expand"), **hosts}
        return job(workers=(1, 2, 4), hosts=hosts, launcher={"kind": "local"})

    def test_missing_slots_are_asked_for_and_idle_hosts_are_given_back(self):
        with Run(self.config(shrink=self.path("shrink"), shrink_after_ms=500)) as run:
            run.wait_size(2)
            self.assertEqual(self.log(), [], "nothing is missing")
            run.do("resize", run.name, 4)
            run.wait_size(4)
            asked = f"expand job={run.name} wanted=4 missing=2"
            self.assertEqual(self.log(), [asked])
            run.do("resize", run.name, 2)
            run.wait_size(2)
            given = f"shrink job={run.name} hosts=127.0.0.2"
            wait_until(lambda: self.log() == [asked, given], 15, "the host is given back")
            run.wait_event("host_vanished", host="127.0.0.2")
            run.wait_more_steps(20)
            self.assert_stops_clean(run)

    def test_a_run_that_ends_gives_back_what_it_has(self):
        with Run(self.config(shrink=self.path("shrink"))) as run:
            run.wait_size(2)
            run.do("resize", run.name, 4)
            run.wait_size(4)
            self.assert_stops_clean(run)
            self.assertEqual(self.log()[-1], f"shrink job={run.name} hosts=127.0.0.2")

    def test_a_later_supervisor_keeps_what_was_added_and_gives_it_back(self):
        with Run(self.config(shrink=self.path("shrink"), shrink_after_ms=500)) as run:
            run.wait_size(2)
            run.do("resize", run.name, 4)
            before = pids(run.wait_size(4))
            run.signal(signal.SIGKILL)
            run.process.wait()
            run.resume()
            self.assertEqual(pids(run.wait_size(4)), before)
            run.wait_more_steps(20)
            self.assertEqual(pids(run.wait_size(4)), before)
            self.assertEqual(len(self.log()), 1, "nothing is asked for again")
            run.do("resize", run.name, 2)
            given = f"shrink job={run.name} hosts=127.0.0.2"
            wait_until(lambda: self.log()[1:] == [given], 15, "the host is given back")
            run.wait_more_steps(20)
            self.assert_stops_clean(run)

    def test_a_command_that_fails_is_told_and_costs_no_step(self):
        with open(self.path("expand.fails"), "w"):
            pass
        with Run(self.config()) as run:
            run.wait_size(2)
            run.do("resize", run.name, 4)
            run.wait_text("the queue is closed")
            run.wait_more_steps(20)
            self.assertEqual(run.status()["world_size"], 2)
            self.assert_stops_clean(run)


if __name__ == "__main__":
    harness.main()
