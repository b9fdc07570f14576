"""Jobs of a live cluster that do not say how long they train: their losses tell it, and the policy goes by it."""

import os
import sys

import harness
from cluster_lab import Cluster
from harness import Case, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


class Lengths(Case):
    def test_lengths_that_losses_tell_decide_who_grows(self):
        cluster = Cluster(self, slots=3, policy="afs-l", lengths="estimated")
        cluster.environment.update(PYTHONPATH=os.path.join(ROOT, "train", "python"), PYTHONDONTWRITEBYTECODE="1")
        cluster.start()
        for name, half in (("short", 300), ("long", 10000)):
            cluster.do("submit", "--name", name, "-n", "1:2", "--start", "1", "--set", "convergence.window_samples=1000",
                       "--set", "timeouts.heartbeat_ms=50", "--set", "policy.interval_ms=200", "-x", harness.MARK, "--", sys.executable,
                       os.path.join(HERE, "endless_program.py"), f"--half={half}")
        told = cluster.wait_job("short", lambda job: job.get("expected_samples"), "a length")
        self.assertEqual(told["lengths"], "estimated")
        self.assertGreater(told["expected_error"], 0)
        cluster.wait_job("long", lambda job: job.get("expected_samples"), "a length")
        cluster.wait_job("long", lambda job: job["slots"] == 1 and cluster.job("short")["slots"] == 2, "its slot for the shorter job")
        self.assertRegex(cluster.do("queue"), r"short .*~\d+% ± \d+")
        self.assertRegex(cluster.do("status", "short"), r"length, by its loss: converges at \S+ samples ± ")
        wait_until(lambda: "length, by its loss: converges at " in cluster.do("explain", "short"), 30, "a view with its length")


if __name__ == "__main__":
    harness.main()
