"""MPI launches over several hosts with their own sshd, reached with the configured ssh: agents by mpirun, and pools."""

import os
import shutil
import signal
import tempfile
import unittest

import harness
import lab
import sanitizer
from harness import Case, Run, command_of, job, members, pids, synthetic, wait_until


class MpiHosts(Case):
    command = None
    outlives_launch = False  # a worker that has joined MPI

    @classmethod
    def setUpClass(cls):
        if shutil.which(cls.command) is None:
            raise unittest.SkipTest(f"there is no {cls.command} here; scripts/setup.sh test installs it")
        cls.addClassCleanup(sanitizer.ignore_leaks())
        cls.lab = lab.Lab(hosts=2)
        cls.addClassCleanup(cls.lab.close)
        cls.lab.__enter__()
        cls.node1, cls.node2 = cls.lab.hosts

    def tearDown(self):
        self.node2.set_link(True)
        self.assertEqual(self.lab.wait_remote_pids_gone(30), {}, "the hosts are clean after every test")

    def start(self, backend, workers, **sections):
        """For UCX the lab's hosts are one machine, so it would not use their network."""
        sections.setdefault("timeouts", {"orphan_grace_ms": 6000, "grace_ms": 1000})
        config = job(workers=workers, trainer=synthetic(compute_us_per_sample=500, parameter_bytes=40_000),
                     hosts={"list": ["node1:2", "node2:2"]}, network={"backend": backend},
                     launcher={"kind": "mpi", "mpi_command": [self.command]},
                     environment={"set": ["UCX_TLS=tcp,self"]}, failures={"cool_down_ms": 500}, **sections)
        return Run(config, lab=self.lab)

    def on(self, host, status):
        here = set(host.pids())
        return [pid for pid in pids(status) if pid in here]

    def kill_commands(self):
        """MPI's launch processes, on the host that started them."""
        found = [pid for pid in self.lab.head.pids() if os.path.basename(command_of(pid).split(" ")[0]) == self.command]
        self.assertTrue(found)
        lab.kill_all(found)

    def bytes_sent(self, host):
        with open(f"/proc/{host.sshd.pid}/net/dev") as file:
            return next(int(line.split()[9]) for line in file if line.strip().startswith("eth0:"))

    def wait_survivors(self, run, survivors):
        return run.wait_status(lambda s: s["phase"] == "running" and set(pids(s)) == set(survivors),
                               what=f"a run of {survivors}")

    def test_agents_outlive_the_commands_that_started_them(self):
        with self.start("auto", (1, 2, 4)) as run:
            run.wait_size(2)
            run.do("resize", run.name, 4)
            before = run.wait_size(4)
            self.assertEqual([len(self.on(host, before)) for host in self.lab.hosts], [2, 2])
            self.kill_commands()
            wait_until(lambda: not any("orted" in command_of(pid) or "hydra" in command_of(pid)
                                       for host in self.lab.hosts for pid in host.pids()), 20, "the launches' end")
            run.wait_more_steps(20)
            self.assertEqual(pids(run.wait_size(4)), pids(before))
            self.assert_stops_clean(run)

    def test_a_pool_changes_and_loses_a_worker(self):
        with self.start("mpi", (1, 2, 4)) as run:
            run.wait_size(2)
            run.do("resize", run.name, 4)
            everyone = run.wait_size(4)
            self.assertEqual([len(self.on(host, everyone)) for host in self.lab.hosts], [2, 2])
            for worker in members(everyone):
                host = self.node1 if worker["pid"] in self.on(self.node1, everyone) else self.node2
                self.assertTrue(worker["host"].endswith("@" + host.name), worker)
            sent = self.bytes_sent(self.node2)
            run.wait_more_steps(10)
            self.assertGreater(self.bytes_sent(self.node2) - sent, 5 * 40_000, "sums do not cross the network")
            run.do("resize", run.name, 2)
            two = pids(run.wait_size(2))
            run.do("replace", run.name, 0)
            run.wait_status(lambda s: s["phase"] == "running" and len(members(s)) == 2 and two[0] not in pids(s),
                            what="rank 0 replaced")
            run.do("resize", run.name, 4)
            status = run.wait_size(4)
            lost = self.on(self.node2, status)[0]
            os.kill(lost, signal.SIGKILL)
            self.wait_survivors(run, set(pids(status)) - {lost})
            run.wait_more_steps(10)
            self.assert_stops_clean(run)

    def test_a_pool_outlives_a_host_that_loses_everything(self):
        with self.start("mpi", (1, 4, 4)) as run:
            before = run.wait_size(4)
            lab.kill_all(self.node2.pids())
            self.wait_survivors(run, self.on(self.node1, before))
            run.wait_more_steps(20)
            run.wait_text("@node2 is lost")
            self.assert_stops_clean(run)

    def test_a_host_that_does_not_answer_is_named_and_the_pool_starts_without_it(self):
        self.node2.set_link(False)
        with self.start("mpi", (1, 4, 4)) as run:
            run.wait_size(2)
            run.wait_text("node2 does not answer: ssh: connect to host")
            run.wait_more_steps(10)
            self.assert_stops_clean(run)

    def test_a_pool_outlives_a_host_that_is_cut_off_and_is_started_anew_once_all_is_lost(self):
        timeouts = {"orphan_grace_ms": 2000, "grace_ms": 1000, "resume_timeout_ms": 1000}
        with tempfile.TemporaryDirectory(prefix="et-pool-") as checkpoints:
            with self.start("mpi", (1, 4, 4), timeouts=timeouts,
                            checkpoint={"directory": checkpoints, "interval_steps": 5}) as run:
                before = run.wait_size(4)
                self.node2.set_link(False)
                self.wait_survivors(run, self.on(self.node1, before))
                run.wait_text("@node2 is lost")
                run.wait_more_steps(20)
                run.signal(signal.SIGKILL)
                lab.kill_all(self.node1.pids())
                run.resume()
                run.wait_status(lambda s: s["phase"] == "running" and len(self.on(self.node1, s)) == 2, 60,
                                "a new pool on node1")
                run.wait_more_steps(10)
                run.do("stop", run.name)
                self.assertEqual(run.wait(), 0)
                self.assert_audit_clean(run)

    def test_the_loss_of_the_launch_and_of_the_supervisor(self):
        with self.start("mpi", (1, 4, 4)) as run:
            before = run.wait_size(4)
            run.signal(signal.SIGKILL)
            self.kill_commands()
            run.resume()
            if self.outlives_launch:
                self.assertEqual(pids(run.wait_size(4)), pids(before))
            else:
                run.wait_status(lambda s: s["phase"] == "running" and len(members(s)) == 4
                                and not set(pids(before)) & set(pids(s)), 60, "a new pool")
            run.wait_more_steps(10)
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 0)
            self.assert_audit_clean(run)


class OpenMpi(MpiHosts):
    command = "mpirun.openmpi"


class Mpich(MpiHosts):
    command = "mpiexec.hydra"
    outlives_launch = True

    @classmethod
    def setUpClass(cls):
        sanitizer.skip_under_threads("MPICH")
        super().setUpClass()


del MpiHosts  # it is no test of its own

if __name__ == "__main__":
    harness.main()
