"""A cluster whose sharing policy is the user's program: it decides, and one that does not work harms nobody."""

import json
import os
import signal
import subprocess
import sys

import harness
from cluster_lab import Cluster
from harness import Case, wait_until

# The first job gets what the others leave, which have one slot each.
FIRST = """
import json, os, sys
print("I am", os.getpid(), file=sys.stderr, flush=True)
for line in sys.stdin:
    view = json.loads(line)
    jobs, slots = view["jobs"], view["slots"]
    shares = [max(0, slots - len(jobs) + 1)] + [1] * (len(jobs) - 1)
    print(json.dumps({"jobs": [{"id": job["id"], "slots": share, "reason": f"the first of {len(jobs)}"}
                               for job, share in zip(jobs, shares)]}), flush=True)
"""
# Answers twice: when a job has come, and when it has joined.
THEN = """
read a; echo '{"jobs":[{"id":1,"slots":4}]}'; read b; echo '{"jobs":[]}'; read c
"""


class OwnPolicy(Case):
    def cluster(self, *program, timeout_ms=20000, **settings):
        return Cluster(self, policy={"program": list(program), "timeout_ms": timeout_ms}, **settings).start()

    def test_two_jobs_share_as_a_program_says_and_its_end_moves_only_what_it_must(self):
        cluster = self.cluster(sys.executable, "-c", FIRST)
        cluster.submit("a")
        cluster.wait_workers("a", 4)
        cluster.submit("b")
        of_a = cluster.wait_workers("a", 3)
        of_b = cluster.wait_workers("b", 1)
        self.assertIn(": the first of 2", cluster.job("b")["why"])
        self.assertNotIn("policy_problem", cluster.queue())
        asked = cluster.journal("policy_asked")
        self.assertEqual([record.get("problem") for record in asked], [None] * len(asked))
        again = subprocess.run([sys.executable, "-c", FIRST], input="".join(json.dumps(record["view"]) + "\n" for record in asked),
                               capture_output=True, text=True, check=True, timeout=60)
        self.assertEqual([json.loads(line) for line in again.stdout.splitlines()], [record["answer"] for record in asked])
        said = wait_until(lambda: cluster.text().partition("policy: I am ")[2], 30, "its line")
        pid = int(said.split()[0])
        os.kill(pid, signal.SIGKILL)
        cluster.wait_workers("a", 2)
        both = cluster.wait_workers("b", 2)
        self.assertLessEqual(set(cluster.wait_workers("a", 2).values()), set(of_a.values()), "a worker was restarted")
        self.assertLessEqual(set(of_b.values()), set(both.values()), "a worker was restarted")
        self.assertIn("max-min: an equal share", cluster.job("a")["why"])
        self.assertIn("the program ended with signal 9", cluster.do("queue"))
        self.assertIn("the policy does not work: the program ended with signal 9", cluster.do("explain", "--cluster", "test"))
        cluster.assert_slots_used_once()
        cluster.kill()
        cluster.start()
        cluster.wait_workers("a", 3)
        self.assertNotIn("policy_problem", cluster.queue())

    def test_a_program_that_hangs_holds_up_nobody(self):
        cluster = self.cluster("sh", "-c", THEN + "sleep 600", timeout_ms=3000)
        cluster.submit("a")
        of_a = cluster.wait_workers("a", 4)
        cluster.submit("b")
        wait_until(lambda: len(cluster.journal("policy_asked")) >= 3, 60, "the end of its patience")
        cluster.wait_workers("b", 2)
        self.assertLessEqual(set(cluster.wait_workers("a", 2).values()), set(of_a.values()), "a worker was restarted")
        self.assertIn("gave no decision within 3", cluster.queue()["policy_problem"])
        self.assertEqual(cluster.queue()["decides"], "max-min")
        cluster.do("cancel", "a")
        cluster.wait_workers("b", 4)

    def test_a_program_that_prints_nonsense_is_ended(self):
        for words, part in (("echo rubbish", "the decision is not JSON"),
                            ("""echo '{"jobs":[{"id":1,"slots":NaN}]}'""", "the decision is not JSON"),
                            ("""echo '{"jobs":[{"id":1,"slots":40}]}'""", "job 1 is given 40 slots, and there are 2"),
                            ("""echo '{"jobs":[{"id":77,"slots":1}]}'""", "there is no job 77 in the view"),
                            ("yes", "is not a decision")):
            cluster = self.cluster("sh", "-c", "read a; " + words + "; read b", slots=2)
            stand_in = cluster.stand_in().join()
            stand_in.wait_lease(2)
            self.assertIn(part, cluster.queue()["policy_problem"])
            self.assertIn("does not work", cluster.text())
            cluster.kill()

    def test_slots_follow_the_goodput_that_jobs_report(self):
        """A second worker brings one of them next to nothing. A young job is changed only where that brings very much."""
        cluster = Cluster(self, slots=3, policy="pollux").start()
        for name, of_two in (("flat", 1.01), ("steep", 1000)):
            said = {"jobs": [{"goodput": [{"workers": 1, "rate": 1}, {"workers": 2, "rate": of_two}]}]}
            program = ["sh", "-c", f"while read view; do echo '{json.dumps(said)}'; done"]
            cluster.submit(name, 1, 2, 1, policy={"program": program, "interval_ms": 200})
            job = cluster.wait_job(name, lambda job: job.get("goodput"), "goodput")
            self.assertEqual([at["rate"] for at in job["goodput"]], [1, of_two])
        cluster.wait_workers("steep", 2)
        cluster.wait_workers("flat", 1)
        self.assertIn("pollux: 1 times its goodput on its fair share", cluster.job("steep")["why"])

    def test_a_policy_that_cannot_be_used_is_refused_before_anything_starts(self):
        for policy, part in (({"program": ["/no/such/program"]}, "there is no executable program"),
                             ({"library": "/no/such.so"}, "there is no such file"),
                             ({"program": ["sh"], "name": "afs-p"}, "give one of policy.name, policy.library and policy.program"),
                             ({"argument": "1"}, "policy.argument needs policy.library"),
                             ({"programm": ["sh"]}, 'did you mean "program"')):
            cluster = Cluster(self, policy=policy)
            cluster.refused(78, part, "cluster", cluster.path)


if __name__ == "__main__":
    harness.main()
