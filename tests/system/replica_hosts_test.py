"""Workers whose processes lie on several hosts each: what they are given, how they end, and what becomes of their hosts."""

import json
import os
import shutil
import signal
import sys
import tempfile

import harness
from harness import Case, Run, is_alive, members, toml, wait_until
from lab import Lab, call, find_tool

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable  # that of a home is hidden on the hosts
PACKAGE = os.path.join(HERE, "..", "..", "train", "python")


class ReplicaHosts(Case):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(hosts=4)
        cls.addClassCleanup(cls.lab.close)
        cls.lab.__enter__()

    def tearDown(self):
        for host in self.lab.hosts:
            host.set_link(True)
        self.assertEqual(self.lab.wait_remote_pids_gone(20), {}, "the hosts are clean after every test")

    def start(self, hosts, workers=(1, 1, 2), environment=(), preload=("none",), **sections):
        low, start, high = workers
        variables = [f"PYTHONPATH={PACKAGE}", f"ELASTICTRAIN_LIBRARY={os.environ['ELASTICTRAIN_LIBRARY']}", *environment]
        sections.setdefault("timeouts", {"orphan_grace_ms": 4000, "grace_ms": 1000})
        config = {"command": [PYTHON, os.path.join(HERE, "replica_hosts_program.py")],
                  "workers": {"min": low, "start": start, "max": high, "per_replica": 4, "hosts_per_replica": 2,
                              "preload": list(preload)},
                  "environment": {"set": variables}, "hosts": hosts if isinstance(hosts, dict) else {"list": hosts}, "audit": {"every_steps": 1}, **sections}
        return Run(toml(config), lab=self.lab)

    @staticmethod
    def said(run):
        """The processes, by worker and host, as they introduced themselves."""
        told = {}
        for _, line in list(run.lines):
            begin = line.find('{"worker"')
            if begin >= 0:
                words = json.loads(line[begin:])
                told[words["worker"], words["host"]] = words
        return told

    def wait_said(self, run, count):
        wait_until(lambda: len(self.said(run)) >= count, 30, f"{count} processes")
        return self.said(run)

    def test_a_run_grows_over_pairs_of_hosts_and_leaves_nothing(self):
        with self.start(["node1", "node2", "node3", "node4"]) as run:
            run.wait_size(1)
            run.do("resize", run.name, 2)
            status = run.wait_size(2)
            self.assertEqual({worker["host"] for worker in members(status)}, {"node1+node2", "node3+node4"})
            told = self.wait_said(run, 4)
            for worker in {worker for worker, _ in told}:
                lead, part = told[worker, 0], told[worker, 1]
                self.assertEqual(lead["key"], part["key"])
                self.assertRegex(lead["key"], "^[0-9a-f]{64}$")
                self.assertEqual(lead["modes"], ["0o600", "0o700"])
                self.assertEqual(lead["given"]["ELASTICTRAIN_REPLICA_ADDRESS"], part["given"]["ELASTICTRAIN_REPLICA_ADDRESS"])
                self.assertEqual([one["given"]["ELASTICTRAIN_REPLICA_HOSTS"] for one in (lead, part)], ["2", "2"])
                self.assertEqual(lead["given"]["ELASTICTRAIN_REPLICA_INTERFACE"], "eth0")
                self.assertEqual(part["given"]["ELASTICTRAIN_PER_REPLICA"], "4")
                self.assertEqual(lead["given"]["RANK"], part["given"]["RANK"])
            self.assertEqual(len({words["key"] for words in told.values()}), 2)
            run.wait_more_steps(20)
            self.assert_ends_clean(run)

    def test_the_end_of_the_program_is_the_end_of_its_parts(self):
        with self.start(["node1", "node2"], environment=["ET_EPOCHS=1"]) as run:
            self.assertEqual(run.wait(60), 0)
            self.assertEqual(len(self.said(run)), 2)

    def test_a_part_that_is_killed_costs_its_worker_only(self):
        with self.start(["node1", "node2", "node3", "node4"], workers=(1, 2, 2)) as run:
            run.wait_size(2)
            told = self.wait_said(run, 4)
            os.kill(told[2, 1]["pid"], signal.SIGKILL)
            run.wait_event("exited", worker=2)
            exited = run.events("exited", worker=2)[0]
            self.assertEqual(exited["signal"], 9)
            self.assertEqual(exited["last_error_lines"][-1], f"(its process on host {exited['host'].split('+')[1]})")
            told = self.wait_said(run, 6)
            run.wait_size(2)
            run.wait_more_steps(20)
            self.assertEqual({worker for worker, _ in told}, {1, 2, 3})
            self.assertFalse(is_alive(told[2, 0]["pid"]))
            self.assertTrue(is_alive(told[1, 0]["pid"]) and is_alive(told[1, 1]["pid"]))
            self.assert_ends_clean(run)

    def test_a_first_process_that_is_killed_takes_its_parts_with_it(self):
        with self.start(["node1", "node2", "node3", "node4"], workers=(1, 2, 2)) as run:
            run.wait_size(2)
            told = self.wait_said(run, 4)
            os.kill(told[2, 0]["pid"], signal.SIGKILL)
            run.wait_event("exited", worker=2)
            self.assertEqual(run.events("exited", worker=2)[0]["signal"], 9)
            self.assertFalse(is_alive(told[2, 1]["pid"]))
            self.wait_said(run, 6)
            run.wait_size(2)
            self.assert_ends_clean(run)

    def test_a_host_that_is_lost_is_replaced_by_a_spare_one(self):
        with self.start(["node1", "node2", "node3"], workers=(1, 1, 1),
                        checkpoint={"directory": self.directory(), "interval_steps": 10}) as run:
            run.wait_text("host node3 is not used")
            run.wait_size(1)
            self.wait_said(run, 2)
            run.wait_more_steps(30)
            self.lab.host("node2").set_link(False)
            run.wait_event("agent_lost", timeout=60)
            run.wait_status(lambda s: s["phase"] == "running" and [w["host"] for w in members(s)] == ["node1+node3"], 90,
                            "a worker on node1 and node3")
            run.wait_more_steps(20)
            self.lab.host("node2").set_link(True)
            self.assert_ends_clean(run)

    def test_without_a_spare_host_its_group_waits_for_it(self):
        with self.start(["node1", "node2", "node3", "node4"], workers=(1, 2, 2)) as run:
            run.wait_size(2)
            told = self.wait_said(run, 4)
            self.lab.host("node4").set_link(False)
            run.wait_event("agent_lost", timeout=60, host="node3+node4")
            run.wait_size(1, 60)
            wait_until(lambda: not is_alive(told[2, 0]["pid"]), 20, "the end of the process on the host that is there")
            self.lab.host("node4").set_link(True)
            status = run.wait_size(2, 90)
            self.assertEqual({worker["host"] for worker in members(status)}, {"node1+node2", "node3+node4"})
            self.assertTrue(is_alive(told[1, 0]["pid"]) and is_alive(told[1, 1]["pid"]))
            run.wait_more_steps(20)
            self.assert_ends_clean(run)

    def test_a_run_is_taken_over_with_its_parts(self):
        with self.start(["node1", "node2", "node3", "node4"], workers=(1, 2, 2)) as run:
            run.wait_size(2)
            told = self.wait_said(run, 4)
            run.lose_supervisor()
            run.wait_more_steps(20)
            run.resume()
            run.wait_event("all_back")
            run.wait_size(2)
            run.wait_more_steps(20)
            os.kill(told[2, 1]["pid"], signal.SIGKILL)
            self.wait_said(run, 6)
            run.wait_size(2)
            self.assertTrue(is_alive(told[1, 0]["pid"]) and is_alive(told[1, 1]["pid"]))
            self.assert_ends_clean(run)

    def test_a_short_break_of_one_host_costs_nothing(self):
        with self.start(["node1", "node2", "node3", "node4"], workers=(1, 2, 2)) as run:
            run.wait_size(2)
            told = self.wait_said(run, 4)
            self.break_connection(run, "node2")
            run.wait_event("agent_cut_off", host="node1+node2")
            run.wait_event("agent_back", host="node1+node2")
            run.wait_more_steps(20)
            self.assertEqual(run.events("exited"), [])
            os.kill(told[1, 1]["pid"], signal.SIGKILL)
            run.wait_event("exited", worker=1, signal=9)
            run.wait_size(2)
            self.assert_ends_clean(run)

    def test_a_part_that_ends_while_the_supervisor_is_away_is_reported(self):
        with self.start(["node1", "node2", "node3", "node4"], workers=(1, 2, 2)) as run:
            run.wait_size(2)
            told = self.wait_said(run, 4)
            run.lose_supervisor()
            os.kill(told[2, 1]["pid"], signal.SIGKILL)
            wait_until(lambda: not is_alive(told[2, 0]["pid"]), 10, "the end of its first process")
            run.resume()
            run.wait_event("exited", worker=2)
            run.wait_size(2)
            self.assertTrue(is_alive(told[1, 0]["pid"]) and is_alive(told[1, 1]["pid"]))
            self.assert_ends_clean(run)

    def test_an_agent_that_is_killed_is_the_loss_of_its_group(self):
        with self.start(["node1", "node2", "node3", "node4"], workers=(1, 2, 2)) as run:
            run.wait_size(2)
            told = self.wait_said(run, 4)
            agent = harness.process_parent(told[2, 1]["pid"])
            os.kill(agent, signal.SIGKILL)
            run.wait_event("agent_lost")
            self.assertIn("its host node", str(run.events("agent_lost")[0]["reason"]))
            run.wait_size(2)
            wait_until(lambda: not is_alive(told[2, 0]["pid"]) and not is_alive(told[2, 1]["pid"]), 20, "the end of what it had")
            self.assertTrue(is_alive(told[1, 0]["pid"]) and is_alive(told[1, 1]["pid"]))
            self.assert_ends_clean(run)

    def test_a_host_that_does_not_answer_is_passed_over(self):
        self.lab.host("node2").set_link(False)
        with self.start(["node1", "node2", "node3"], workers=(1, 1, 1)) as run:
            run.wait_status(lambda s: [w["host"] for w in members(s)] == ["node1+node3"], 90, "a worker on node1 and node3")
            run.wait_size(1)
            self.assertIn("its host node2", run.events("agent_lost")[0]["reason"])
            self.lab.host("node2").set_link(True)
            self.assert_ends_clean(run)

    def test_a_host_that_is_about_to_go_empties_its_group(self):
        with self.start(["node1", "node2", "node3", "node4"], workers=(1, 2, 2)) as run:
            run.wait_size(2)
            told = self.wait_said(run, 4)
            self.assert_leaves(run, told[2, 1], worker=2)

    def test_a_first_host_that_is_about_to_go_empties_its_group(self):
        with self.start(["node1", "node2", "node3", "node4"], workers=(1, 2, 2)) as run:
            run.wait_size(2)
            told = self.wait_said(run, 4)
            self.assert_leaves(run, told[2, 0], worker=2)

    def assert_leaves(self, run, process, worker):
        os.kill(harness.process_parent(process["pid"]), signal.SIGTERM)
        run.wait_event("left", worker=worker)
        run.wait_event("host_released")
        run.wait_status(lambda s: len(members(s)) == 1, 30, "one worker")
        self.assertEqual((run.events("loss"), run.events("agent_lost")), ([], []))
        run.wait_more_steps(20)
        self.assert_ends_clean(run)

    def test_workers_that_are_forked_have_parts_too(self):
        with self.start(["node1", "node2"], workers=(1, 1, 1), preload=["decimal"], environment=["ET_IMPORTED=decimal"]) as run:
            run.wait_size(1)
            told = self.wait_said(run, 2)
            self.assertEqual(told[1, 0]["key"], told[1, 1]["key"])
            self.assertEqual([told[1, host]["imported"] for host in (0, 1)], [True, True])
            run.wait_more_steps(20)
            self.assert_ends_clean(run)

    def test_hosts_that_come_later_make_pairs(self):
        path = os.path.join(self.directory(), "hosts")
        with open(path, "w") as file:
            file.write("node1\nnode2\nnode3\n")
        with self.start({"discover": f"cat {path}", "discover_interval_ms": 200}, workers=(1, 2, 2)) as run:
            run.wait_size(1)
            run.wait_text("host node3 is not used: workers.hosts_per_replica = 2")
            with open(path, "a") as file:
                file.write("node4\n")
            run.wait_size(2)
            with open(path, "w") as file:
                file.write("node1\nnode3\nnode4\n")
            run.wait_size(1)
            self.assertEqual([w["host"] for w in members(run.status())], ["node3+node4"])
            self.assert_ends_clean(run)

    def break_connection(self, run, name):
        """Ends the connection of a host's agent to the supervisor, which both of them notice."""
        call(*self.lab.host(name).prefix(), find_tool("ss"), "-K", "dst", self.lab.head.address, "dport", "=",
             str(run.events("run_opened")[0]["port"]))

    def test_a_part_has_no_session(self):
        with self.start(["node1", "node2"], environment=["ET_SESSION_IN_PART=1"],
                        failures={"max_crashes": 0}) as run:
            self.assertNotEqual(run.wait(60), 0)
            self.assertIn("this process is a part of a replica over several hosts", run.text())

    def test_a_user_names_hosts_one_by_one(self):
        with self.start(["node1", "node2", "node3", "node4"], workers=(1, 2, 2)) as run:
            run.wait_size(2)
            run.do("drain", run.name, "node4")
            run.wait_status(lambda s: [w["host"] for w in members(s)] == ["node1+node2"], 30, "one pair of hosts")
            run.do("undrain", run.name, "node3")
            run.wait_size(2)
            self.assert_ends_clean(run)

    def directory(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        return made.name


if __name__ == "__main__":
    harness.main()
