"""Hosts with their own sshd lose power, links and directions of links: a host that is cut off neither stops the others
nor counts twice, and returns as a new host."""

import os
import tempfile

import harness
from harness import Case, Run, job, members, pids, synthetic, wait_until
from lab import Lab


class Partitions(Case):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(hosts=3)
        cls.addClassCleanup(cls.lab.close)
        cls.lab.__enter__()

    def tearDown(self):
        for host in self.lab.hosts:
            host.heal()
            host.set_link(True)
        self.assertEqual(self.lab.wait_remote_pids_gone(20), {}, "the hosts are clean after every test")

    def start(self, workers=(1, 3, 3), **sections):
        sections.setdefault("failures", {"cool_down_ms": 500})
        sections.setdefault("timeouts", {"orphan_grace_ms": 4000, "grace_ms": 1000})
        hosts = {"list": ["node1:2", "node2:2", "node3:2"]}
        return Run(job(workers=workers, trainer=synthetic(compute_us_per_sample=2000), hosts=hosts, **sections), lab=self.lab)

    def on(self, status, host):
        return [w["pid"] for w in members(status) if w["host"] == host]

    def one_with_workers(self, status):
        """A run starts as soon as enough agents are up, so the hosts with workers differ between starts."""
        host = members(status)[-1]["host"]
        return self.lab.host(host), self.on(status, host)

    def wait_without(self, run, lost, size=3, timeout=40):
        return run.wait_status(lambda s: s["phase"] == "running" and len(members(s)) == size
                               and not set(lost) & set(pids(s)), timeout, what=f"{lost} replaced")

    def test_a_host_that_loses_power_is_replaced_and_comes_back_fresh(self):
        with self.start() as run:
            before = run.wait_size(3)
            host, lost = self.one_with_workers(before)
            host.power_off()
            after = self.wait_without(run, lost)
            self.assertEqual(self.on(after, host.name), [])
            self.assertEqual([pid for pid in pids(before) if pid not in lost],
                             [pid for pid in pids(after) if pid in pids(before)])
            host.power_on()
            run.wait_status(lambda s: any(h["host"] == host.name and h["phase"] == "up" for h in s["hosts"]), 60,
                            f"{host.name} back")
            run.do("resize", run.name, 2)
            run.wait_size(2)
            self.assert_ends_clean(run)

    def test_a_pulled_cable_that_comes_back_brings_no_second_truth(self):
        with self.start() as run:
            before = run.wait_size(3)
            host, lost = self.one_with_workers(before)
            host.set_link(False)
            self.wait_without(run, lost)
            host.set_link(True)
            wait_until(lambda: not any(harness.is_alive(pid) for pid in lost), 30, "the end of the workers that were cut off")
            run.wait_more_steps(10)
            self.assert_ends_clean(run)

    def test_a_host_that_hears_nothing_or_says_nothing_is_lost(self):
        for incoming in (True, False):
            with self.subTest(incoming=incoming), self.start() as run:
                before = run.wait_size(3)
                host, lost = self.one_with_workers(before)
                host.cut(incoming=incoming, outgoing=not incoming)
                self.wait_without(run, lost)
                host.heal()
                run.wait_more_steps(10)
                self.assert_ends_clean(run)

    def test_a_short_cut_is_no_loss(self):
        with self.start() as run:
            before = run.wait_size(3)
            host, _ = self.one_with_workers(before)
            host.cut()
            harness.pause(0.8)
            host.heal()
            run.wait_more_steps(10)
            after = run.wait_size(3)
            self.assertEqual(pids(after), pids(before))
            self.assertEqual(after["generation"], before["generation"])
            self.assertEqual(run.events("abort"), [])
            self.assert_ends_clean(run)

    def test_a_notice_empties_its_host_without_a_failure(self):
        with tempfile.TemporaryDirectory(prefix="et-notice-") as directory:
            probe = {"probe": f"test -e {directory}/$(hostname)", "probe_interval_ms": 100}
            with self.start(preemption=probe) as run:
                before = run.wait_size(3)
                host, lost = self.one_with_workers(before)
                with open(os.path.join(directory, host.name), "w"):
                    pass
                after = self.wait_without(run, lost)
                self.assertEqual(self.on(after, host.name), [])
                self.assertTrue(run.events("notice"))
                self.assertEqual(run.events("loss"), [])
                self.assert_ends_clean(run)
                self.assert_steps_continue(run)


if __name__ == "__main__":
    harness.main()
