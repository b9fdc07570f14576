"""Commands on another machine that sees a run's directory, as on a login node with a shared home.

The other machine is a UTS namespace with another name in which the control socket does not answer, as on a shared file
system.
"""

import json
import os
import subprocess
import unittest

import harness
import lab
from harness import BINARY, Case, Run, job, wait_until


def on_another_machine(run, *words):
    """The command as `login1` runs it."""
    script = 'hostname login1 && mount --bind "$0" "$1" && shift && exec "$@"'
    nothing = os.path.join(run.directory, "nothing")
    open(nothing, "a").close()
    socket = os.path.join(run.state, run.name, "control.sock")
    return subprocess.run([lab.find_tool("unshare"), "--uts", "--mount", "sh", "-c", script, nothing, socket, BINARY, *words],
                          env={**os.environ, **run.environment}, capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL)


class Elsewhere(Case):
    @classmethod
    def setUpClass(cls):
        lab.require_root()

    def assert_says(self, done, status, part):
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertIn(part, done.stdout + done.stderr)

    def test_it_is_said_where_the_supervisor_is_and_nobody_takes_the_run_over(self):
        with Run(job(), environment={"SLURM_JOB_ID": ""}) as run:
            run.wait_size(2)
            host = os.uname().nodename
            there = f"run {run.name} is supervised on {host} (process {run.process.pid}), and answers there only: ssh {host} "
            for words in (("status", run.name), ("resize", run.name, "3"), ("attach", run.name), ("top", run.name),
                          ("run", "--resume", run.name), run.argv[1:]):
                with self.subTest(words=words):
                    self.assert_says(on_another_machine(run, *words), 69, there)
            self.assert_says(on_another_machine(run, "status"), 69, there)
            self.assert_says(on_another_machine(run, "run", "--resume"), 69, "no run has lost its supervisor")
            listed = json.loads(on_another_machine(run, "list", "--json").stdout)
            self.assertEqual([one["state"] for one in listed], ["on " + host])
            run.wait_more_steps(20)
            self.assertEqual(run.status()["world_size"], 2)

    def test_a_supervisor_that_is_gone_is_nowhere(self):
        with Run(job()) as run:
            run.wait_size(2)
            run.lose_supervisor()
            self.assert_says(on_another_machine(run, "status", run.name), 69, "has lost its supervisor; take it over")
            run.resume()
            run.wait_size(2)

    def test_in_a_batch_job_the_way_is_through_it(self):
        with Run(job(), environment={"SLURM_JOB_ID": "4711"}, arguments=("--scheduler", "none")) as run:
            run.wait_size(2)
            place = os.path.join(run.state, run.name, "supervisor.json")
            wait_until(lambda: os.path.exists(place), 30, "the record of the supervisor's place")
            self.assert_says(on_another_machine(run, "status", run.name), 69,
                             f"srun --jobid 4711 --overlap -w {os.uname().nodename} -n 1 elastictrain status {run.name}")


if __name__ == "__main__":
    harness.main()
