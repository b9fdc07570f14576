"""A cluster of four hosts of four slots, each with its own network, host name and sshd: what becomes of its jobs when hosts,
supervisors and the cluster process are lost."""

import os
import signal

import harness
from cluster_lab import Cluster
from harness import Case, members, process_state, wait_until
from lab import Lab
from sanitizer import SLOWDOWN

# Within it workers end at a step boundary, with the account of their last samples.
GRACE_MS = 1000 * SLOWDOWN


class Hosts(Case):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(hosts=4).__enter__()
        cls.addClassCleanup(cls.lab.close)

    def tearDown(self):
        for host in self.lab.hosts:
            host.set_link(True)
        super().tearDown()

    def start(self, **settings):
        self.cluster = Cluster(self, lab=self.lab, **settings).start()
        self.addCleanup(lambda: self.assertEqual(self.lab.wait_remote_pids_gone(), {}))
        return self.cluster

    def workers(self, name):
        return {worker["pid"]: worker["host"] for worker in members(self.cluster.status(name))}

    def submit(self, name, low, most, start, **sections):
        """A host is given up soon, and the slots of its workers with it."""
        sections.setdefault("timeouts", {"orphan_grace_ms": 4000, "grace_ms": GRACE_MS})
        self.cluster.submit(name, low, most, start, **sections)

    def wait_shares(self, what, patience_s=90, **shares):
        """Shares by job: a number, or a range. Two jobs on several hosts do not share a network card, so that slots may be left
        over. Returns the workers of each job."""
        def fits(size, wanted):
            return size in wanted if isinstance(wanted, range) else size == wanted

        def look():
            workers = {name: self.workers(name) for name in shares}
            return workers if all(fits(len(workers[name]), wanted) for name, wanted in shares.items()) else None
        try:
            return wait_until(look, patience_s, f"{shares}, {what}")
        except harness.Failed as failed:
            states = "\n".join(self.cluster.do("status", name) for name in shares)
            raise harness.Failed(f"{failed}\n{self.cluster.do('queue', '--all')}{self.cluster.text()}{states}") from None

    def wait_recalled(self, name, slots):
        """Its newest lease is smaller than so many; it may still hold them."""
        number = int(self.cluster.job(name)["id"][1:])

        def look():
            leased = [record for record in self.cluster.journal("leased") if record["job"] == number][-1]
            return sum(len(host["slots"]) for host in leased["slots"]) < slots
        wait_until(look, 30, f"a smaller lease of {name}", interval=0.001)

    def end(self, *names):
        """Each sample was counted once, whatever happened, and nothing is left."""
        for name in names:
            self.cluster.wait_job(name, lambda job: job["step"] > 0, "a step")  # a run without one has no audit
            self.cluster.do("cancel", name)
        for name in names:
            self.cluster.wait_job(name, lambda job: job["phase"] == "ended", "the end")
            audit = self.cluster.run_journal(name, "audit")[-1]
            self.assertEqual([audit[what] for what in ("missing", "repeated", "unequal_hashes")], [0, 0, 0], audit)
        wait_until(lambda: self.cluster.processes() == [self.cluster.process.pid], 30, "the end of all processes")
        self.cluster.assert_slots_used_once()

    def test_a_lost_host_costs_its_own_workers_only_and_is_used_again(self):
        cluster = self.start()
        self.submit("a", 1, 16, 16)
        self.wait_shares("alone", a=16)
        self.submit("b", 1, 16, 8)
        before = self.wait_shares("shared", a=8, b=8)
        host = self.lab.host(sorted(before["b"].values())[-1])
        host.power_off()
        self.wait_shares("without the host", a=6, b=6)
        for name, workers in before.items():
            left = {pid for pid, where in workers.items() if where != host.name}
            self.assertGreaterEqual(len(left & self.workers(name).keys()), min(6, len(left)), "a healthy worker was restarted")
        host.power_on()
        self.wait_shares("the host is back", a=8, b=range(6, 9))
        self.end("a", "b")

    def test_a_job_that_needs_a_lost_host_goes_on_when_it_is_back(self):
        cluster = self.start()
        self.submit("all", 16, 16, 16, checkpoint={"directory": os.path.join(cluster.directory, "checkpoints"),
                                                   "interval_steps": 20})
        self.wait_shares("at first", all=16)
        self.lab.host("node2").power_off()
        cluster.wait_job("all", lambda job: job["slots"] == 0, "that it waits")
        self.lab.host("node2").power_on()
        self.wait_shares("again", all=16)
        self.end("all")

    def test_a_job_that_ends_for_want_of_a_host_waits_for_it_in_the_queue(self):
        """The cluster is stopped meanwhile, so that it does not take back the lease first."""
        self.lab.host("node2").power_off()
        cluster = self.start()
        self.submit("all", 16, 16, 16, timeouts={"start_ms": 6000, "orphan_grace_ms": 4000, "grace_ms": GRACE_MS})
        run = cluster.wait_job("all", lambda job: job["phase"] == "joined", "its run")["pid"]
        cluster.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: process_state(run) in "XZ", 60, "the end of its run")
        cluster.process.send_signal(signal.SIGCONT)
        wait_until(lambda: cluster.journal("left"), 30, "that it is in the queue again")
        left = cluster.journal("left")[0]
        self.assertEqual((left["status"], left["why"]), (69, "too few of its workers could start"))
        self.lab.host("node2").power_on()
        self.wait_shares("with the host", all=16)
        self.end("all")

    def test_the_cluster_and_a_supervisor_are_killed_while_slots_pass_on(self):
        cluster = self.start()
        self.submit("a", 1, 16, 16)
        alone = self.wait_shares("alone", a=16)["a"]
        self.submit("b", 1, 16, 8)
        self.wait_recalled("a", 16)
        cluster.kill()
        cluster.start()
        before = self.wait_shares("after the cluster's death", a=8, b=8)
        self.assertLessEqual(before["a"].keys(), alone.keys(), "a healthy worker was restarted")
        self.submit("c", 1, 5, 5)
        self.wait_recalled("a", 8)
        os.kill(cluster.job("a")["pid"], signal.SIGKILL)
        self.wait_shares("after the supervisor's death", a=6, b=range(4, 6), c=range(3, 6))
        for name, workers in before.items():
            self.assertLessEqual(self.workers(name).keys(), workers.keys(), "a healthy worker was restarted")
        self.end("a", "b", "c")


if __name__ == "__main__":
    harness.main()
