"""Replicas whose processes are on several hosts: what torch_replicas_test.py says of one host is so there, and hosts come and go."""

import os
import signal
import tempfile
import unittest

import harness
import torch_hosts
import torch_replica_sizes_test
import torch_replicas_test
from harness import Case, Run, pids
from lab import Lab
from torch_replicas_test import apart_from_one_process, replica_job
from torch_test import END_S, PYTHON, START_S, WHY_NOT, torch_environment

CASES = {
    torch_replicas_test.Replicas: (
        "test_two_of_two_processes_train_the_model_of_one_process", "test_replicas_come_go_and_die_and_nobody_else_notices",
        "test_a_checkpoint_has_all_parts"),
    torch_replicas_test.Scripts: (
        "test_replicas_come_go_and_die", "test_two_replicas_with_data_of_their_own_train_the_model_of_one_process",
        "test_a_stopped_run_goes_on"),
    torch_replicas_test.TensorParallel: (
        "test_replicas_come_go_and_die",),
    torch_replica_sizes_test.Sizes: (
        "test_a_run_goes_on_with_replicas_of_another_size",)}


def setUpModule():
    if PYTHON is None:
        raise unittest.SkipTest(WHY_NOT)


class OnTwoHosts(unittest.TestSuite):
    """The agents are the tests' own."""

    def run(self, result, debug=False):
        os.environ[torch_hosts.HOSTS] = "2"
        try:
            return super().run(result, debug)
        finally:
            del os.environ[torch_hosts.HOSTS]


class Hosts(Case):
    """Real agents, each on a host of its own."""

    @classmethod
    def setUpClass(cls):
        home = os.path.expanduser("~root") + os.sep
        if os.path.realpath(PYTHON).startswith(home):
            raise unittest.SkipTest(f"{os.path.realpath(PYTHON)} is in a home directory, which the hosts of a lab do not see")
        cls.lab = Lab(hosts=5)
        cls.addClassCleanup(cls.lab.close)
        cls.lab.__enter__()

    def run_of(self, hosts, workers, preload=True, **variables):
        config = replica_job(workers, hosts={"list": [f"node{number}" for number in hosts]})
        if not preload:  # then the environment of its processes is not theirs
            del config["workers"]["preload"]
        config["workers"].update(per_replica=2, hosts_per_replica=2)
        own = {"ELASTICTRAIN_LIBRARY": os.environ["ELASTICTRAIN_LIBRARY"]} if "ELASTICTRAIN_LIBRARY" in os.environ else {}
        environment = {**torch_environment(**variables), **own}
        passed = [word for name, value in environment.items() for word in ("-x", f"{name}={value}")]
        return Run(config, passed, lab=self.lab)

    def part_on(self, name):
        """The process of a replica on this host that is not its first one."""
        return next(pid for pid in self.lab.host(name).pids() if b"ELASTICTRAIN_REPLICA_HOST=1" in harness.environ_of(pid))

    def test_two_replicas_on_four_hosts_train_the_model_of_one_process(self):
        with tempfile.TemporaryDirectory() as folder:
            saved = os.path.join(folder, "model.pt")
            with self.run_of((1, 2, 3, 4), (2, 2, 2), ET_SAVED=saved) as run:
                self.assertEqual(run.wait(END_S), 0, run.text()[-2000:])
                self.assert_audit_clean(run)
            self.assertLess(apart_from_one_process(saved), 1e-5)

    def test_a_replica_comes_and_its_processes_and_hosts_die(self):
        with self.run_of((1, 2, 3, 4, 5), (1, 1, 2), preload=False, ET_EPOCHS=1000000, ET_PAUSE_S=0.02) as run:
            run.wait_size(1, START_S)
            stays, = run.status()["workers"]
            run.do("resize", run.name, 2)
            run.wait_size(2, START_S)
            run.wait_more_steps(20)
            _, name = ({"node1+node2", "node3+node4"} - {stays["host"]}).pop().split("+")
            os.kill(self.part_on(name), signal.SIGKILL)
            self.wait_for_another(run, stays)
            self.assertIn(f"on host {name}", " ".join(run.events("exited")[-1]["last_error_lines"]))
            os.kill(self.part_on(name), signal.SIGSTOP)
            self.wait_for_another(run, stays)
            self.lab.host(name).power_off()
            self.addCleanup(self.lab.host(name).power_on)
            self.wait_for_another(run, stays)
            self.assertIn("node5", next(worker["host"] for worker in run.status()["workers"] if worker["pid"] != stays["pid"]).split("+"))
            self.assert_stops_clean(run)
            self.assert_audit_clean(run)

    def wait_for_another(self, run, stays):
        before = pids(run.status())
        run.wait_status(lambda s: s.get("world_size") == 2 and s.get("phase") == "running" and pids(s) != before, START_S, "another replica")
        self.assertIn(stays["pid"], pids(run.status()))
        run.wait_more_steps(20)


def load_tests(loader, *_):
    return unittest.TestSuite([OnTwoHosts(case(name) for case, names in CASES.items() for name in names),
                               loader.loadTestsFromTestCase(Hosts)])


if __name__ == "__main__":
    harness.main()
