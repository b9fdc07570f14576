"""No process of a run is left in any case of its end, and killing the supervisor does not stop training at once."""

import os
import shutil
import signal
import tempfile

import harness
from harness import Case, Run, command_of, is_alive, job, pids, signal_all, wait_until


def agents_of(run):
    return [pid for pid in run.processes() if " agent" in command_of(pid)]


class Orphans(Case):
    def test_workers_train_on_without_the_supervisor_and_stop_after_the_grace(self):
        config = job(timeouts={"orphan_grace_ms": 3000, "grace_ms": 2000})
        with Run(config) as run:
            workers = pids(run.wait_size(2))
            run.signal(signal.SIGKILL)
            run.process.wait()
            run.wait_more_steps(30, timeout=3)
            self.assertTrue(all(is_alive(pid) for pid in workers))
            run.wait_no_processes(timeout=12)

    def test_a_plain_program_is_stopped_after_the_grace_as_well(self):
        arguments = ["-n", "2", "--set", "timeouts.orphan_grace_ms=1000", "--set", "timeouts.grace_ms=1000", "--", "sh",
                     "-c", 'trap "" TERM; echo started; while :; do sleep 0.2; done']
        with Run(arguments=arguments) as run:
            run.wait_text("started")
            run.signal(signal.SIGKILL)
            run.process.wait()
            run.wait_no_processes(timeout=12)

    def test_grandchildren_are_ended_too(self):
        with Run(arguments=["-n", "1", "--grace", "1", "--", "sh", "-c", "sleep 300 & sleep 300 & echo started; wait"]) as run:
            run.wait_text("started")
            run.signal(signal.SIGINT)
            run.signal(signal.SIGINT)
            run.wait(15)
            run.wait_no_processes()

    def test_a_failing_worker_takes_the_others_along(self):
        with Run(arguments=["-n", "3", "--grace", "1", "--", "sh", "-c",
                            '[ "$RANK" = 2 ] && exit 5; trap "" TERM; while :; do sleep 0.2; done']) as run:
            self.assertEqual(run.wait(20), 5)
            run.wait_no_processes()

    def test_a_killed_agent_takes_its_workers_along_and_ends_the_run_by_name_where_that_is_not_borne(self):
        with Run(job(failures={"max_infrastructure": 0})) as run:
            run.wait_size(2)
            agents = wait_until(lambda: agents_of(run), 5, "an agent")
            signal_all(agents, signal.SIGKILL)
            self.assertNotEqual(run.wait(20), 0)
            run.wait_no_processes(timeout=10)
            self.assertIn("localhost", run.text("stderr"))

    def test_nothing_is_left_in_the_temporary_directory(self):
        base = tempfile.mkdtemp(prefix="et-orphans-")  # others on this machine have runs of their own
        self.addCleanup(shutil.rmtree, base)
        with Run(job(), environment={"XDG_RUNTIME_DIR": base}) as run:
            run.wait_size(2)
            self.assertTrue(os.listdir(base), "the sockets of the run's workers")
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 0)
            run.wait_no_processes()
            self.assertEqual(os.listdir(base), [])


if __name__ == "__main__":
    harness.main()
