"""A cluster that grows by helper jobs, and gives them back: commands that stand in for a batch system."""

import os
import time

import harness
from cluster_lab import Cluster
from harness import Case, members, wait_until

# Helper jobs are files: `pending` holds back all of them, without an answer; a removed one is a job that was preempted or
# cancelled. Hosts are other names of this machine.
EXPAND = """#!/bin/sh
cd "$(dirname "$0")"
echo "expand missing=$ELASTICTRAIN_MISSING_SLOTS hosts=$ELASTICTRAIN_HOSTS" >>calls
trap 'echo withdrawn >>calls; exit 1' TERM
while [ -e pending ]; do sleep 0.1; done
[ -e fails ] && { rm fails; echo "the queue is closed" >&2; exit 1; }
number=$(($(cat last 2>/dev/null || echo 1) + 1))
echo $number >last
: >job-$number
echo "127.0.0.$number slots=$ELASTICTRAIN_MISSING_SLOTS job=$number"
"""
SHRINK = """#!/bin/sh
cd "$(dirname "$0")"
echo "shrink hosts=$ELASTICTRAIN_HOSTS jobs=$ELASTICTRAIN_HOST_JOBS" >>calls
for job in $ELASTICTRAIN_HOST_JOBS; do rm -f job-$job; done
"""
ALIVE = """#!/bin/sh
cd "$(dirname "$0")"
for job in $ELASTICTRAIN_HOST_JOBS; do [ ! -e job-$job ] || echo $job; done
"""


class Growing(Case):
    def start(self, slots=1, most_slots=2, **hosts):
        cluster = Cluster(self)
        for name, text in (("expand", EXPAND), ("shrink", SHRINK), ("alive", ALIVE)):
            os.chmod(cluster.write(name, text), 0o755)
        self.directory = cluster.directory
        commands = {name: self.path(name) for name in ("expand", "shrink", "alive")}
        growth = {"list": [f"localhost:{slots}"], "most_slots": most_slots, "expand_after_ms": 200, "shrink_after_ms": 700,
                  "alive_interval_ms": 200, **commands, **hosts}
        cluster.write("cluster.toml", harness.toml({"name": "test", "policy": "max-min", "recall_timeout_ms": 60000,
                                                    "resume_timeout_ms": 20000, "hosts": growth}))
        return cluster.start()

    def path(self, name):
        return os.path.join(self.directory, name)

    def touch(self, name):
        open(self.path(name), "w").close()

    def log(self):
        try:
            with open(self.path("calls")) as file:
                return [line.strip() for line in file]
        except FileNotFoundError:
            return []

    def wait_log(self, last):
        wait_until(lambda: self.log()[-1:] == [last], 60, f"{last!r}, not {self.log()}")

    def hosts(self, cluster, name):
        return {worker["host"] for worker in members(cluster.status(name))}

    def submit(self, cluster, name, low, high, start=None):
        cluster.submit(name, low, high, start, launcher={"kind": "local"})

    def test_a_job_that_waits_brings_a_host_which_is_given_back_when_it_is_over(self):
        cluster = self.start()
        self.submit(cluster, "first", 1, 1)
        first = cluster.wait_workers("first", 1)
        self.assertIn("helper jobs: none", cluster.do("queue"))
        self.submit(cluster, "second", 1, 1)
        cluster.wait_workers("second", 1)
        self.assertEqual(self.log(), ["expand missing=1 hosts="])
        self.assertEqual(self.hosts(cluster, "second"), {"127.0.0.2"})
        self.assertIn("helper jobs: 1 slot on 127.0.0.2 (job 2)", cluster.do("queue"))
        asked, came = cluster.journal("helpers")
        self.assertEqual((asked["what"], asked["slots"], asked["why"]), ("asked", 1, "j2 waits"))
        self.assertEqual((came["what"], came["helpers"]), ("came", [{"host": "127.0.0.2", "slots": 1, "job": "2"}]))
        cluster.do("cancel", "second")
        self.wait_log("shrink hosts=127.0.0.2 jobs=2")
        self.assertEqual([record["what"] for record in cluster.journal("helpers")[2:]], ["left", "returned"])
        self.assertIn("helper jobs: asked, 1 slots", cluster.do("explain", "--cluster", "test"))
        self.assertEqual(cluster.wait_workers("first", 1), first, "a healthy worker was restarted")
        cluster.assert_slots_used_once()

    def test_a_job_grows_onto_it_as_far_as_that_pays_and_leaves_it_at_a_step_for_nobody(self):
        cluster = self.start(most_slots=3)
        self.submit(cluster, "grows", 1, 3, 1)
        before = cluster.wait_workers("grows", 1)
        cluster.wait_workers("grows", 3)
        self.assertEqual(self.hosts(cluster, "grows"), {"localhost", "127.0.0.2", "127.0.0.3"})
        self.assertIn("j1 would gain", cluster.journal("helpers")[0]["why"])
        cluster.do("resize", "grows", "1")
        cluster.wait_workers("grows", 1)
        wait_until(lambda: sum(line.startswith("shrink") for line in self.log()) > 0 and not self.jobs(), 60,
                   f"both helpers given back, not {self.log()}")
        self.assertEqual(cluster.wait_workers("grows", 1), before, "a healthy worker was restarted")
        self.assertEqual([], [line for line in cluster.text().splitlines() if "error" in line])

    def jobs(self):
        return [name for name in os.listdir(self.directory) if name.startswith("job-")]

    def test_a_cluster_that_is_killed_knows_its_helpers_again(self):
        cluster = self.start()
        self.submit(cluster, "first", 1, 1)
        self.submit(cluster, "second", 1, 1)
        first, second = cluster.wait_workers("first", 1), cluster.wait_workers("second", 1)
        cluster.kill()
        cluster.start()
        self.assertIn("helper jobs: 1 slot on 127.0.0.2 (job 2)", cluster.do("queue"))
        cluster.wait_job("second", lambda job: job["phase"] == "joined", "its return")
        time.sleep(1)  # in which it would ask again, or give back
        self.assertEqual(cluster.wait_workers("first", 1), first, "a healthy worker was restarted")
        self.assertEqual(cluster.wait_workers("second", 1), second, "a healthy worker was restarted")
        self.assertEqual(len(self.log()), 1, "nothing is asked for again")
        cluster.do("cancel", "second")
        self.wait_log("shrink hosts=127.0.0.2 jobs=2")

    def test_a_request_that_nobody_needs_any_more_is_withdrawn(self):
        cluster = self.start()
        self.touch("pending")
        self.submit(cluster, "first", 1, 1)
        first = cluster.wait_workers("first", 1)
        self.submit(cluster, "second", 1, 1)
        self.wait_log("expand missing=1 hosts=")
        self.assertRegex(cluster.do("queue"), r"helper jobs: none; 1 slot more asked for [\d.]+ \w+ ago; j2 waits")
        cluster.do("cancel", "second")
        self.wait_log("withdrawn")
        wait_until(lambda: "asked for" not in cluster.do("queue"), 30, "the end of the request")
        self.assertEqual(cluster.journal("helpers")[-1]["what"], "withdrawn")
        self.assertEqual(cluster.wait_workers("first", 1), first, "a healthy worker was restarted")

    def test_a_request_that_fails_is_told_and_made_again(self):
        cluster = self.start()
        self.touch("fails")
        self.submit(cluster, "first", 1, 1)
        self.submit(cluster, "second", 1, 1)
        wait_until(lambda: "the queue is closed" in cluster.text(), 60, "the reason")
        failed = [record for record in cluster.journal("helpers") if record["what"] == "failed"]
        self.assertIn("the queue is closed", failed[0]["text"])
        cluster.wait_workers("second", 1)

    def test_a_helper_job_that_is_lost_is_left_and_another_one_takes_its_place(self):
        cluster = self.start()
        self.submit(cluster, "first", 1, 1)
        first = cluster.wait_workers("first", 1)
        self.submit(cluster, "second", 1, 1)
        cluster.wait_workers("second", 1)
        os.unlink(self.path("job-2"))  # about to be preempted: its host is still there
        wait_until(lambda: self.hosts(cluster, "second") == {"127.0.0.3"}, 60, "a worker on another host")
        self.assertIn("lost", [record["what"] for record in cluster.journal("helpers")])
        wait_until(lambda: "shrink hosts=127.0.0.2 jobs=2" in self.log(), 30, "the end of the lost job, for certain")
        self.assertEqual(cluster.wait_workers("first", 1), first, "a healthy worker was restarted")

    def test_a_job_that_only_helpers_can_hold_is_taken_and_one_that_even_they_cannot_is_refused(self):
        cluster = self.start(most_slots=2)
        config = {"workers": {"min": 3, "start": 3, "max": 3}, "trainer": harness.synthetic()}
        path = cluster.write("three.toml", harness.toml(config))
        cluster.refused(69, "three needs 3 slots and the cluster has 2 slots at most", "submit", path, "--name", "three")
        self.submit(cluster, "two", 2, 2)
        cluster.wait_workers("two", 2)


if __name__ == "__main__":
    harness.main(processes=2)
