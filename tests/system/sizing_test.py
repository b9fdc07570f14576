"""Runs on several hosts, joined by slow links, find the most economical size, and leave a host that has become slow."""

import os
import tempfile

import harness
from harness import Case, Run, job, members, pids, synthetic
from lab import Lab


class Sizing(Case):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(hosts=3, rate="20mbit")
        cls.addClassCleanup(cls.lab.close)
        cls.lab.__enter__()

    def tearDown(self):
        self.assertEqual(self.lab.wait_remote_pids_gone(), {}, "the hosts are clean after every test")

    def test_a_run_stays_on_one_host_where_the_network_eats_what_a_second_one_brings(self):
        # A step computes for 16 ms. Two workers of a host sum through shared memory; with one more on another host the
        # sum takes some 200 ms of the link.
        config = job(workers=(1, 1, 4), trainer=synthetic(), hosts={"list": ["node1:2", "node2:2"]},
                     policy={"name": "efficiency", "interval_ms": 300})
        with Run(config, lab=self.lab) as run:
            first = pids(run.wait_size(1))
            run.wait_event("decided", timeout=120, code="settled")
            status = run.wait_status(lambda s: s["phase"] == "running" and len(members(s)) == 2, 60, "two workers")
            self.assertEqual(len({worker["host"] for worker in members(status)}), 1)
            self.assertEqual(pids(status)[:1], first, "the first worker was never restarted")
            tried = {record.get("workers") for record in run.events("decided")}
            self.assertTrue(tried & {3, 4}, "a second host was tried")
            self.assert_ends_clean(run)

    def test_a_host_that_becomes_slow_is_left_by_all_of_its_workers(self):
        with tempfile.TemporaryDirectory(prefix="et-slow-") as slow:
            config = job(workers=(1, 4, 4), trainer=synthetic(parameter_bytes=4_000),
                         hosts={"list": ["node1:2", "node2:2", "node3:2"]},
                         policy={"interval_ms": 300}, stragglers={"action": "replace"})
            with Run(config, arguments=["-x", f"ELASTICTRAIN_SLOW_DIR={slow}"], lab=self.lab) as run:
                before = run.wait_size(4)
                run.wait_more_steps(100)
                host = members(before)[-1]["host"]
                for worker in members(before):
                    if worker["host"] == host:
                        with open(os.path.join(slow, f"slow-{worker['id']}"), "w") as file:
                            file.write("2\n")
                after = run.wait_status(
                    lambda s: s["phase"] == "running" and len(members(s)) == 4
                    and host not in {worker["host"] for worker in members(s)}, 120, f"nobody on {host}")
                healthy = [worker["pid"] for worker in members(before) if worker["host"] != host]
                self.assertTrue(set(healthy) <= set(pids(after)), "who was not slow is the same process")
                self.assertIn(host, run.events("decided")[0]["reason"])
                self.assert_ends_clean(run)


if __name__ == "__main__":
    harness.main()
