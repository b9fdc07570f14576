"""Hosts without our binary, or with another version, get it once; a discovery script adds and removes hosts."""

import os

import harness
from harness import BINARY, Case, Run, job, members, pids
from lab import Lab


class Copy(Case):
    def setUp(self):
        self.lab = Lab(hosts=2, hide=[os.path.dirname(os.path.realpath(BINARY))])
        self.addCleanup(self.lab.close)
        self.lab.__enter__()

    def job(self, **sections):
        return job(workers=(1, 2, 2), hosts={"list": ["node1:1", "node2:1"]}, **sections)

    def copies_on(self, host):
        found = self.lab.run_on_head(["ssh", host, "ls $HOME/.cache/elastictrain/*/elastictrain"])
        return found.stdout.split()

    def test_a_missing_binary_is_copied_once(self):
        for _ in range(2):
            with Run(self.job(), lab=self.lab) as run:
                run.wait_size(2)
                run.do("stop", run.name)
                self.assertEqual(run.wait(), 0)
                run.wait_no_processes()
            self.assertEqual(len(self.copies_on("node1")), 1)

    def test_copying_can_be_switched_off(self):
        config = self.job(launcher={"copy_binary": False}, timeouts={"start_ms": 8000})
        with Run(config, lab=self.lab) as run:
            self.assertEqual(run.wait(), 69)
            self.assertIn("node1", run.text("stderr"))
            self.assertEqual(self.copies_on("node1"), [])


class Discovery(Case):
    def setUp(self):
        self.lab = Lab(hosts=3)
        self.addCleanup(self.lab.close)
        self.lab.__enter__()

    def offer(self, *lines):
        path = self.lab.path("hosts.txt")
        with open(path + ".new", "w") as file:
            file.write("".join(line + "\n" for line in lines))
        os.replace(path + ".new", path)

    def test_hosts_appear_and_vanish_while_training(self):
        self.offer("node1:1", "node2:1")
        hosts = {"discover": f"cat {self.lab.path('hosts.txt')}", "discover_interval_ms": 200}
        with Run(job(workers=(1, 3, 3), hosts=hosts, timeouts={"start_ms": 3000}), lab=self.lab) as run:
            before = pids(run.wait_size(2))
            self.offer("node1:1", "node2:1", "node3:1")
            grown = run.wait_size(3)
            self.assertEqual(pids(grown)[:2], before)
            self.offer("node2:1", "node3:1")
            left = run.wait_size(2)
            self.assertEqual({worker["host"] for worker in members(left)}, {"node2", "node3"})
            survivors = [w["pid"] for w in members(grown) if w["host"] != "node1"]
            self.assertEqual(pids(left), survivors)
            harness.wait_until(lambda: not self.lab.host("node1").pids(), 10, "the vanished host to be left alone")
            run.wait_more_steps(10)
            self.assert_ends_clean(run)


if __name__ == "__main__":
    harness.main()
