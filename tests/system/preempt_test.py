"""Everything that may be saved is saved when a run is told to go: TERM to every process of a job, in any order."""

import os
import random
import signal
import sys
import tempfile
import unittest

import harness
from harness import Case, HostList, Run, command_of, job, members, newest_checkpoint, process_parent, signal_all, synthetic

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "python"))

import torch_python  # noqa: E402

PYTHON, WHY_NOT = torch_python.find()
REPEATS = int(os.environ.get("ET_REPEATS", "2"))
START_S = 600  # until workers with torch take part, beside other work
END_S = 120


def torch_run(directory, **variables):
    config = job(workers=(1, 2, 2), command=[PYTHON, os.path.join(HERE, "torch_loading.py")], audit={"every_steps": 1},
                 checkpoint={"directory": directory}, batch={"per_worker": 8})
    config["workers"].update(preload=["torch"])
    config["timeouts"] = {"ready_ms": 1000 * START_S, "start_ms": 1000 * START_S}
    environment = {"PYTHONPATH": torch_python.PACKAGE, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1",
                   "PYTHONWARNINGS": "ignore", **{name: str(value) for name, value in variables.items()}}
    return Run(config, environment=environment)


def everyone(run, seed):
    processes = [run.process.pid, *run.processes()]
    random.Random(seed).shuffle(processes)
    return processes


def agents_of(run):
    """In the order in which they came, which is not that of their pids where those have begun anew."""
    came = {event["pid"]: order for order, event in enumerate(run.events("agent_hello"))}
    agents = [pid for pid in run.processes() if command_of(pid).split()[1:2] == ["agent"] and process_parent(pid) == run.process.pid]
    return sorted(agents, key=came.__getitem__)


class EveryHost(Case):
    """All hosts of a run are told to go, one after the other or at once."""

    def config(self, directory, hosts):
        config = job(workers=(1, 2, 4), checkpoint={"directory": directory}, hosts=hosts)
        return config

    def test_the_only_host_saves_and_leaves(self):
        self.leaves(1, lambda: None)

    def test_all_hosts_at_once(self):
        self.leaves(2, lambda: None)

    def test_host_by_host(self):
        self.leaves(2, lambda: self.run_.wait_size(1))

    def leaves(self, hosts, between):
        """Their agents get TERM, as at a shutdown; the supervisor's machine stays."""
        with tempfile.TemporaryDirectory() as directory:
            names = ["localhost:1", "127.0.0.1:1"] if hosts == 2 else ["localhost:2"]
            with Run(self.config(directory, {"list": names})) as run:
                self.run_ = run
                run.wait_size(2)
                run.wait_more_steps(5)
                agents = agents_of(run)
                self.assertEqual(len(agents), hosts)
                os.kill(agents[0], signal.SIGTERM)
                between()
                for agent in agents[1:]:
                    os.kill(agent, signal.SIGTERM)
                self.assertEqual(run.wait(), 75)
                run.wait_no_processes()
                self.assertEqual(newest_checkpoint(directory), run.last_step())
                self.assertIn("every host is about to go away", run.text())
                run.resume()
                run.wait_size(2)
                self.assert_ends_clean(run)

    def test_usr1_to_all_agents_and_workers_is_a_notice(self):
        """Slurm's --signal=USR1@120 goes to all steps of a job, and not to its script."""
        with tempfile.TemporaryDirectory() as directory:
            config = job(workers=(1, 2, 2), command=[sys.executable, os.path.join(HERE, "python_program.py")],
                         checkpoint={"directory": directory}, signals={"usr1": "drain"})
            config["workers"].update(preload=["none"])
            environment = {"PYTHONPATH": torch_python.PACKAGE, "PYTHONDONTWRITEBYTECODE": "1", "ET_EPOCHS": "1000"}
            with Run(config, environment=environment) as run:
                run.wait_size(2)
                run.wait_more_steps(5)
                signal_all(run.processes(), signal.SIGUSR1)
                self.assertEqual(run.wait(), 75, run.text())
                self.assertIn("its agent got signal USR1", run.text())
                self.assertIn("every host is about to go away", run.text())
                self.assertNotIn("killed by signal", run.text())
                run.wait_no_processes()
                self.assertEqual(newest_checkpoint(directory), run.last_step())

    def test_a_host_that_may_take_over_does_not_keep_the_state_from_being_saved(self):
        """It is offered when the other one goes, and its worker starts for long."""
        with tempfile.TemporaryDirectory() as directory:
            hosts = HostList(self, "localhost:1")
            config = self.config(directory, hosts.section())
            config["trainer"] = synthetic(startup_delay_ms=8000)
            with Run(config) as run:
                run.wait_size(1)
                run.wait_more_steps(5)
                hosts.offer("localhost:1", "127.0.0.1:1")
                run.wait_status(lambda s: len(s["hosts"]) == 2 and len(s["workers"]) == 2, what="the other host")
                before = run.last_step()
                os.kill(agents_of(run)[0], signal.SIGTERM)
                run.wait_event("generation", kind="update")
                run.wait_checkpoint(directory, before)
                self.assertEqual(len(run.status()["workers"]), 2, "the other one still starts")
                run.wait_status(lambda s: [w["host"] for w in members(s)] == ["127.0.0.1"], what="the move")
                self.assert_ends_clean(run)


@unittest.skipIf(PYTHON is None, WHY_NOT)
class TermToAll(Case):
    def saves_and_resumes(self, seed, **variables):
        with tempfile.TemporaryDirectory() as directory, torch_run(directory, **variables) as run:
            run.wait_size(2, START_S)
            run.wait_more_steps(10)
            before = run.last_step()
            signal_all(everyone(run, seed), signal.SIGTERM)
            self.assertEqual(run.wait(END_S), 75, run.text()[-3000:])
            run.wait_no_processes()
            self.assertGreaterEqual(newest_checkpoint(directory), before, "the last step is saved")
            run.resume()
            self.assertEqual(run.wait(END_S), 0, run.text()[-3000:])
            self.assertIn("counted 2 to 2 after 2 epochs", run.text())
            self.assert_audit_clean(run)

    def repeated(self, **variables):
        for seed in range(REPEATS):
            with self.subTest(seed=seed):
                self.saves_and_resumes(seed, **variables)

    def test_without_loader_processes(self):
        self.repeated()

    def test_with_loader_processes(self):
        self.repeated(ET_LOADERS=2)

    def test_with_a_loader_of_the_programs_own(self):
        self.repeated(ET_OWN_LOADER="fork")


if __name__ == "__main__":
    harness.main()
