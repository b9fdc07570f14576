"""The same command on every host: one holds the endpoint and trains, the others offer it their hosts. Here all are processes
of one machine."""

import os
import signal
import socket
import subprocess

import harness
from harness import BINARY, Case, Run, job, pids, synthetic, wait_until

PROGRAM = """
import os, sys
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID")
print("seen", *(os.environ[name] for name in names), "ELASTICTRAIN_SECRET" in os.environ, flush=True)
sys.exit(int(os.environ.get("STATUS_OF_" + os.environ["RANK"], "0")))
"""
UNTIL_A_FILE = """
import os, time
print("seen", os.environ["WORLD_SIZE"], flush=True)
while not os.path.exists(os.path.join(os.path.dirname(os.path.abspath(__file__)), "end")):
    time.sleep(0.05)
"""
WAIT_S = 60
SECRET = "8f3a91c07be25d4416e8a0b97f1c35d2"
OTHER = "b40de9127ac5836f21d7f09e64b8a35c"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Guest:
    """A second command with the same words as the run's."""

    def __init__(self, run, *more, **variables):
        self.process = subprocess.Popen([*run.argv, *more], env={**os.environ, **run.environment, **variables},
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        start_new_session=True)

    def wait(self, timeout=WAIT_S):
        text, _ = self.process.communicate(timeout=timeout)
        return self.process.returncode, text

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Torchrun(Case):
    """As `srun torchrun` and Kubernetes start it."""

    def torchrun(self, *words, nodes="2", program=PROGRAM, **variables):
        run = Run(environment=variables)
        script = os.path.join(run.directory, "train.py")
        with open(script, "w") as file:
            file.write(program)
        run.argv = [BINARY, "torchrun", "--nnodes", nodes, "--nproc-per-node", "2", "--rdzv-id", run.name, "--rdzv-endpoint",
                    f"127.0.0.1:{free_port()}", *words, script]
        return run

    def seen(self, text):
        return sorted(line.split("seen ")[1] for line in text.splitlines() if "seen " in line)

    def test_two_commands_are_one_run(self):
        with self.torchrun() as run, Guest(run) as guest:
            self.assertEqual(run.wait(WAIT_S), 0, run.text())
            status, text = guest.wait()
            self.assertEqual(status, 0, text)
            # Whichever came first holds the endpoint, and shows the output of all workers.
            shown = run.text() if self.seen(run.text()) else text
            self.assertEqual(self.seen(shown), [f"{rank} 4 {rank % 2} 2 {run.name} False" for rank in range(4)], run.text() + text)
            run.wait_no_processes()

    def test_a_program_of_fixed_size_waits_for_all_hosts(self):
        with self.torchrun(nodes="1:2") as run:
            harness.wait_until(lambda: "the run waits up to 1m 00s for more" in run.text(), WAIT_S, "the wait")
            self.assertFalse(run.events("spawn"))
            with Guest(run) as guest:
                self.assertEqual((run.wait(WAIT_S), guest.wait()[0]), (0, 0), run.text())
            self.assertEqual(self.seen(run.text()), [f"{rank} 4 {rank % 2} 2 {run.name} False" for rank in range(4)], run.text())

    def test_a_host_that_a_program_of_fixed_size_does_not_use_is_told_and_ends(self):
        with self.torchrun("--rdzv-conf", "last_call_timeout=1", nodes="1:2", program=UNTIL_A_FILE,
                           ELASTICTRAIN_TIMEOUTS_READY_MS="500") as run:
            run.wait_event("spawn", timeout=WAIT_S)
            with Guest(run) as late:
                status, text = late.wait()
                self.assertEqual(status, 0, text)
                self.assertIn("the run does not use this host: the program has a fixed size, and its 2 workers run on", text)
            harness.wait_until(lambda: self.seen(run.text()) == ["2", "2"], WAIT_S, "the output of a run that goes on")
            run.wait_event("host_unneeded")
            with open(os.path.join(run.directory, "end"), "w"):
                self.assertEqual(run.wait(WAIT_S), 0, run.text())

    def test_the_status_of_a_failing_worker_ends_both(self):
        with self.torchrun(STATUS_OF_3="7") as run, Guest(run) as guest:
            self.assertEqual((run.wait(WAIT_S), guest.wait()[0]), (7, 7), run.text())

    def test_a_command_with_another_secret_does_not_join(self):
        conf = ("--rdzv-conf", "is_host=1,last_call_timeout=1")
        with self.torchrun(*conf, ELASTICTRAIN_SECRET=SECRET) as run:
            harness.wait_until(lambda: "starts with 4 workers" in run.text(), WAIT_S, "the run")
            words = [word if word != conf[1] else "is_host=0,join_timeout=2" for word in run.argv]
            other = subprocess.run(words, env={**os.environ, **run.environment, "ELASTICTRAIN_SECRET": OTHER},
                                   capture_output=True, text=True, timeout=WAIT_S)
            self.assertEqual(other.returncode, 69, other.stderr)
            self.assertIn("do both have the same secret", other.stderr)
            harness.wait_until(lambda: "it needs the same secret" in run.text(), WAIT_S, "the refusal")
            for text in (run.text(), other.stderr):
                self.assertNotIn(SECRET, text)
                self.assertNotIn(OTHER, text)

    def test_a_weak_secret_is_refused(self):
        with self.torchrun(ELASTICTRAIN_SECRET="secret") as run:
            self.assertEqual(run.wait(WAIT_S), 78, run.text())
            self.assertIn("ELASTICTRAIN_SECRET: the secret is weak", run.text())
            self.assertIn("openssl rand -hex 32", run.text())


class Hosts(Case):
    """A run that trains, and hosts that come and go."""

    def endpoint_run(self):
        sections = {**job(workers=(1, 3, 3), trainer=synthetic()),
                    "hosts": {"endpoint": f"127.0.0.1:{free_port()}", "slots": 1, "join_timeout_ms": 60000},
                    "timeouts": {"start_ms": 1000, "grace_ms": 3000}}
        return Run(sections)

    def test_hosts_join_and_leave_while_it_trains(self):
        with self.endpoint_run() as run:
            run.wait_size(1, WAIT_S)
            with Guest(run) as first, Guest(run) as second:
                run.wait_size(3, WAIT_S)
                run.wait_more_steps(5)
                first.process.send_signal(signal.SIGTERM)
                self.assertEqual(first.wait()[0], 128 + signal.SIGTERM)
                run.wait_size(2, WAIT_S)
                self.assertFalse(run.events("worker_lost"), "its worker left at the end of a step")
                run.wait_more_steps(5)
                self.assert_stops_clean(run)
                self.assertEqual(second.wait()[0], run.process.returncode)

    def test_a_command_that_is_killed_takes_its_host_with_it(self):
        with self.endpoint_run() as run:
            run.wait_size(1, WAIT_S)
            with Guest(run) as guest:
                run.wait_size(2, WAIT_S)
                guest.process.kill()
                run.wait_size(1, WAIT_S)
                run.wait_more_steps(5)
            with Guest(run):
                run.wait_size(2, WAIT_S)
            self.assert_stops_clean(run)

    def test_a_command_outlives_the_loss_of_the_supervisor(self):
        with self.endpoint_run() as run:
            run.wait_size(1, WAIT_S)  # whichever command comes first holds the endpoint
            with Guest(run) as guest:
                run.wait_size(2, WAIT_S)
                before = pids(run.status())
                run.lose_supervisor()
                run.resume()
                run.wait_size(2, WAIT_S)
                wait_until(lambda: run.text().count("joins with 1 slot") == 1 and run.events("all_back"), WAIT_S, "its agents")
                run.wait_more_steps(20)
                self.assertEqual(pids(run.status()), before, "no worker was restarted")
                self.assert_stops_clean(run)
                self.assertEqual(guest.wait()[0], run.process.returncode)


if __name__ == "__main__":
    harness.main()
