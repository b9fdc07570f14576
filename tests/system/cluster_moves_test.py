"""Workers that move between hosts although the size of their job stays. The hosts are one machine under several names."""

import harness
from cluster_lab import Cluster
from harness import Case, members, synthetic, wait_until

HOSTS = ["localhost:2", "127.0.0.1:2"]


class Moves(Case):
    def cluster(self, **settings):
        return Cluster(self, policy="fifo", hosts={"list": HOSTS}, **settings).start()

    def submit(self, cluster, name, size, **sections):
        """Its samples last for hours."""
        work = {**synthetic(), "samples": 20_000_000, "epochs": 1}
        cluster.submit(name, size, size, size, trainer=work, **sections)

    def place(self, cluster, name):
        return sorted((host["host"], slot) for host in cluster.job(name).get("leased", []) for slot in host["slots"])

    def holes(self, cluster):
        """a is on the first host and c on the second one; each has a free slot."""
        for name in ("a", "b", "c", "d"):
            self.submit(cluster, name, 1)
            cluster.wait_workers(name, 1)
        self.assertEqual([self.place(cluster, name)[0][0] for name in "abcd"], ["localhost"] * 2 + ["127.0.0.1"] * 2)
        for name in ("b", "d"):
            cluster.do("cancel", name)
            cluster.wait_job(name, lambda job: job["phase"] == "ended", "the end")

    def processes_of(self, cluster, name):
        return {(worker["host"], worker["pid"]) for worker in members(cluster.status(name))}

    def moved(self, cluster, outcome):
        return [record for record in cluster.journal("move_ended") if record["outcome"] == outcome]

    def audit(self, cluster, name):
        """Ends the job. No sample was lost or repeated, and all members had the same parameters."""
        cluster.do("cancel", name)
        cluster.wait_job(name, lambda job: job["phase"] == "ended", "the end")
        audits = cluster.run_journal(name, "audit")
        self.assertTrue(audits, "the journal has no audit record")
        for key in ("missing", "repeated", "unequal_hashes"):
            self.assertEqual(int(audits[-1][key]), 0, audits[-1])
        self.assertGreater(int(audits[-1]["steps"]), 0)

    def test_a_job_of_one_slot_makes_room_and_loses_nothing(self):
        cluster = self.cluster()
        self.holes(cluster)
        self.submit(cluster, "pair", 2, job={"one_host": True})
        cluster.wait_workers("pair", 2)
        self.assertEqual(len({host for host, _ in self.place(cluster, "pair")}), 1, "it asks for one host")
        done = self.moved(cluster, "done")
        self.assertEqual(len(done), 1, cluster.journal("move_ended"))
        name = {1: "a", 3: "c"}[done[0]["job"]]
        cluster.wait_workers(name, 1)
        self.assertIn("makes room for j5", cluster.do("explain", "--cluster", cluster.place + "/"))
        self.assertEqual(len(cluster.run_journal(name, "spawn")), 2, "the worker that was there, and its successor")
        self.assertEqual(cluster.run_journal(name, "checkpoint"), [])
        cluster.assert_slots_used_once()
        for one in ("a", "c", "pair"):
            self.audit(cluster, one)

    def test_a_job_on_two_hosts_comes_together_when_another_one_has_ended(self):
        cluster = self.cluster()
        self.holes(cluster)
        self.submit(cluster, "wide", 2)
        cluster.wait_workers("wide", 2)
        before = self.processes_of(cluster, "wide")
        self.assertEqual(len({host for host, _ in self.place(cluster, "wide")}), 2)
        supervisor = cluster.job("wide")["pid"]
        cluster.do("cancel", "a")
        moving = wait_until(lambda: cluster.journal("moving"), 120, "a move")[0]
        self.assertEqual(moving["why"], "1 host instead of 2")
        wait_until(lambda: self.moved(cluster, "done"), 60, "its end")
        cluster.wait_workers("wide", 2)
        after = self.processes_of(cluster, "wide")
        self.assertEqual({host for host, _ in self.place(cluster, "wide")}, {"localhost"})
        self.assertEqual(len(before & after), 1, "the other worker stays what it is")
        self.assertEqual([line["world_size"] for line in cluster.run_journal("wide", "commit")], [2, 2], "it never has fewer workers")
        self.assertEqual(cluster.job("wide")["pid"], supervisor)
        judged = wait_until(lambda: self.moved(cluster, "kept") + self.moved(cluster, "undone"), 120, "a judgement")
        self.assertIn("samples/s on 1 host", judged[0]["why"])
        cluster.assert_slots_used_once()
        self.audit(cluster, "wide")

    def test_a_cluster_that_is_killed_in_the_middle_of_a_move_goes_on_with_it(self):
        cluster = self.cluster()
        self.holes(cluster)
        self.submit(cluster, "pair", 2, job={"one_host": True})
        wait_until(lambda: cluster.journal("moving"), 60, "a move")
        cluster.kill()
        cluster.start()
        cluster.wait_workers("pair", 2)
        cluster.assert_slots_used_once()
        for one in ("a", "c", "pair"):
            self.audit(cluster, one)

    def test_where_it_is_switched_off_no_job_moves(self):
        cluster = self.cluster(migration=False)
        self.holes(cluster)
        self.submit(cluster, "pair", 2, job={"one_host": True})
        cluster.wait_job("pair", lambda job: job["phase"] == "queued", "its wait")
        steps = cluster.job("a")["step"]
        cluster.wait_job("a", lambda job: job["step"] > steps + 200, "two hundred steps")
        self.assertEqual(cluster.journal("moving"), [])
        cluster.do("cancel", "a")
        cluster.wait_workers("pair", 2)


if __name__ == "__main__":
    harness.main()
