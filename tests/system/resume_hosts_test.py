"""Agents of other hosts outlive the supervisor and come back to the next one."""

import harness
from harness import Case, Run, job, pids
from lab import Lab


class Hosts(Case):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(hosts=2)
        cls.addClassCleanup(cls.lab.close)
        cls.lab.__enter__()

    def test_agents_of_other_hosts_come_back_to_the_later_supervisor(self):
        config = job(workers=(1, 2, 4), hosts={"list": ["node1:2", "node2:2"]})
        with Run(config, lab=self.lab) as run:
            before = pids(run.wait_size(2))
            run.lose_supervisor()
            run.wait_more_steps(20)
            run.resume()
            self.assertEqual(pids(run.wait_size(2)), before)
            run.do("resize", run.name, 4)
            run.wait_size(4)
            self.assert_stops_clean(run)

    def test_a_supervisor_that_is_lost_while_its_hosts_start_is_succeeded(self):
        node2 = self.lab.host("node2")
        self.addCleanup(node2.set_link, True)
        node2.set_link(False)
        config = job(workers=(4, 4, 4), hosts={"list": ["node1:2", "node2:2"]}, timeouts={"resume_timeout_ms": 3000})
        with Run(config, lab=self.lab) as run:
            run.wait_event("agent_connected", host="node1")
            run.lose_supervisor()
            self.assertEqual(run.events("spawn"), [])
            node2.set_link(True)
            run.resume()
            self.assertEqual(len(pids(run.wait_size(4))), 4)
            self.assert_stops_clean(run)

    def test_a_drain_stays_through_a_takeover_until_it_is_undrained(self):
        with Run(job(workers=(1, 4, 4), hosts={"list": ["node1:2", "node2:2"]}), lab=self.lab) as run:
            run.wait_size(4)
            run.do("drain", run.name, "node2")
            before = pids(self.wait_drained(run))
            run.lose_supervisor()
            run.resume()
            run.wait_event("all_back")
            self.assertEqual(pids(self.wait_drained(run)), before)
            self.assertIn("no other slot is free, host node2 is drained", run.text())
            run.wait_more_steps(20)
            self.assertEqual(pids(self.wait_drained(run)), before)
            self.assertEqual(self.started_on(run, "node2"), 2)
            self.assert_refused(run, "undrain", "node1", "host node1 is not drained")
            self.assert_refused(run, "undrain", "node22", "no host node22 in this run; did you mean node2?")
            run.do("undrain", run.name, "node2")
            self.assertEqual([pid for pid in pids(run.wait_size(4)) if pid in before], before)
            self.assertEqual(self.started_on(run, "node2"), 4)
            self.assert_stops_clean(run)

    def test_status_tells_hosts_apart_that_are_away(self):
        node2 = self.lab.host("node2")
        self.addCleanup(node2.set_link, True)
        patient = {"orphan_grace_ms": 600_000, "resume_timeout_ms": 600_000}
        config = job(workers=(1, 1, 4), hosts={"list": ["node1:2", "node2:2"]}, timeouts=patient)
        with Run(config, lab=self.lab) as run:
            self.wait_phases(run, 1, {"up"})
            run.lose_supervisor()
            node2.set_link(False)
            run.resume()
            run.wait_status(lambda s: self.phases(s) == {"node1": "up", "node2": "reconnecting"}, 60, "node2 reconnecting")
            node2.set_link(True)
            self.wait_phases(run, 1, {"up"})
            node2.set_link(False)
            self.wait_phases(run, 1, {"lost", "cooling"})  # the latter if it was tried again in vain meanwhile
            node2.set_link(True)
            self.wait_phases(run, 1, {"up"})
            self.assert_stops_clean(run)

    @staticmethod
    def phases(status):
        return {host["host"]: host["phase"] for host in status.get("hosts", [])}

    def wait_phases(self, run, size, of_node2):
        return run.wait_status(lambda s: s["world_size"] == size and s["phase"] == "running"
                               and self.phases(s).get("node1") == "up" and self.phases(s).get("node2") in of_node2,
                               120, f"node2 {of_node2}")

    def wait_drained(self, run):
        return self.wait_phases(run, 2, {"drained"})

    def started_on(self, run, host):
        return len(run.events("spawn", host=host))

    def assert_refused(self, run, command, host, text):
        done = run.command(command, run.name, host)
        self.assertEqual(done.returncode, 1)
        self.assertIn(text, done.stderr)


if __name__ == "__main__":
    harness.main()
