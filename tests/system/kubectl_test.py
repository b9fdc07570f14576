"""Hosts that a command of the user reaches (launcher.kind = "command"): a stand-in for kubectl, which runs programs on the
hosts of a lab that have no sshd. It is what a cluster in Kubernetes does: its hosts are pods."""

import os

import harness
from cluster_test import Cluster
from harness import Case, Run, job, members, pids, wait_until
from lab import Lab

# As with the real one: the program is not our child process, it outlives us, it gets its words as they are, and our exit status
# is its own, or 1 for what went wrong here.
KUBECTL = """#!/bin/sh
[ "$1 $2 $4" = "exec -i --" ] || {{ echo "error: unknown command line: $*" >&2; exit 1; }}
pod=$3
shift 4
case $pod in
  node[12]) ;;
  *) echo "Error from server (NotFound): pods \\"$pod\\" not found" >&2; exit 1 ;;
esac
exec 3<&0
ip netns exec "{namespace}-$pod" setsid "$@" <&3 3<&- &
exec 3<&-
wait $!
status=$?
[ $status = 0 ] || echo "command terminated with exit code $status" >&2
exit $status
"""


class Pods(Case):
    def setUp(self):
        self.lab = Lab(hosts=2, sshd_hosts=())
        self.addCleanup(self.lab.close)
        self.lab.__enter__()
        self.kubectl = self.lab.path("kubectl")
        with open(os.open(self.kubectl, os.O_WRONLY | os.O_CREAT, 0o755), "w") as file:
            file.write(KUBECTL.format(namespace=self.lab.head.namespace.removesuffix("-head")))

    def launcher(self):
        return {"kind": "command", "command": [self.kubectl, "exec", "-i", "{host}", "--"]}

    def test_a_run_trains_in_pods_and_grows_there(self):
        config = job(workers=(1, 2, 4), hosts={"list": ["node1:2", "node2:2"]}, launcher=self.launcher())
        with Run(config, lab=self.lab) as run:
            before = pids(run.wait_size(2))
            run.do("resize", run.name, 4)
            grown = run.wait_size(4)
            self.assertEqual({worker["host"] for worker in members(grown)}, {"node1", "node2"})
            self.assertLessEqual(set(before), set(pids(grown)), "a healthy worker was restarted")
            self.assert_ends_clean(run)
        self.lab.wait_remote_pids_gone(10)

    def test_a_pod_that_is_not_there_is_named_with_the_command_s_words(self):
        config = job(workers=(1, 1, 1), hosts={"list": ["node9:1"]}, launcher=self.launcher(), timeouts={"start_ms": 3000})
        with Run(config, lab=self.lab) as run:
            self.assertEqual(run.wait(60), 69)
            self.assertIn('pods "node9" not found', run.text("stderr"))

    def test_jobs_of_a_cluster_share_pods(self):
        cluster = Cluster(self, prefix=self.lab.head.prefix(), hosts={"list": ["node1:2", "node2:2"]}).start()

        def hosts_of(name, count):
            def look():
                status = cluster.status(name)
                ready = status.get("phase") == "running" and len(members(status)) == count
                return members(status) if ready and all(w.get("step", 0) > 0 for w in members(status)) else None
            return {worker["pid"]: worker["host"] for worker in wait_until(look, 90, f"{count} workers of {name}")}

        cluster.submit("a", 1, 4, 4, launcher=self.launcher())
        alone = hosts_of("a", 4)
        self.assertEqual(sorted(alone.values()), ["node1", "node1", "node2", "node2"])
        cluster.submit("b", 1, 2, 2, launcher=self.launcher())
        shared, other = hosts_of("a", 2), hosts_of("b", 2)
        self.assertLessEqual(shared.items(), alone.items(), "a healthy worker was restarted")
        self.assertEqual((len(set(shared.values())), len(set(other.values()))), (1, 1), "a job spans hosts for nothing")
        cluster.do("cancel", "a")
        cluster.do("cancel", "b")
        for name in ("a", "b"):
            cluster.wait_job(name, lambda one: one["phase"] == "ended", "the end")
        cluster.assert_slots_used_once()
        self.lab.wait_remote_pids_gone(20)


if __name__ == "__main__":
    harness.main()
