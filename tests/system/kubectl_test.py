"""Hosts that a command of the user reaches (launcher.kind = "command"): a stand-in for kubectl, which runs programs on the
hosts of a lab that have no sshd. It is what a cluster in Kubernetes does: its hosts are pods. scripts/k8s makes and deletes
them."""

import glob
import json
import os
import shlex
import signal
import subprocess
import tempfile
import unittest

import harness
from cluster_lab import Cluster
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

# Pods that come and go: `create` runs a Job's command as process 1 of a process namespace on node2, after it was pending for
# two looks, as with a queue; `delete` sends it TERM, and KILL after its grace. Only what the real API would accept is.
KUBECTL_OF_JOBS = """#!/usr/bin/python3 -B
import glob, json, os, signal, subprocess, sys, yaml
PODS, NAMESPACE = {pods!r}, {namespace!r}
words = sys.argv[1:]

def read(path):
    with open(path) as file:
        return json.load(file)

def save(job):
    path = os.path.join(PODS, job["name"] + ".json")
    with open(path + ".part", "w") as file:
        json.dump(job, file)
    os.replace(path + ".part", path)  # others read it meanwhile

def start(job):
    pod = job["manifest"]["spec"]["template"]["spec"]["containers"][0]
    argv = ["ip", "netns", "exec", NAMESPACE + "-node2", "unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    nowhere = subprocess.DEVNULL
    unshare = subprocess.Popen([*argv, *pod["command"], *pod["args"]], stdin=nowhere, stdout=nowhere, stderr=nowhere,
                               start_new_session=True)
    children = f"/proc/{{unshare.pid}}/task/{{unshare.pid}}/children"
    while not open(children).read().split():
        if unshare.poll() is not None:
            sys.exit("error: the pod did not start")
    job["process_1"], job["unshare"], job["phase"] = int(open(children).read().split()[0]), unshare.pid, "Running"
    save(job)

if words[:1] == ["create"] and words[1:] == ["-f", "-", "-o", "name"]:
    manifest = yaml.safe_load(sys.stdin)
    meta = manifest["metadata"]
    assert manifest["kind"] == "Job" and meta["ownerReferences"][0]["uid"] == "uid-7", manifest
    name = meta["generateName"] + str(len(glob.glob(PODS + "/*.json")) + 1)
    save({{"name": name, "pod": name + "-x7k2p", "manifest": manifest, "looks": 0, "phase": "Pending", "labels": meta["labels"]}})
    print("job.batch/" + name)
elif words[:2] == ["get", "pods"] and words[2].startswith("--selector=job-name in ("):
    for name in words[2].removeprefix("--selector=job-name in (").removesuffix(")").split(","):
        job = read(os.path.join(PODS, name + ".json"))
        if job["phase"] != "Succeeded":
            print(name + "   " + job["phase"] + "   " + job.get("deleted", "<none>"))
elif words[:2] == ["get", "pods"]:
    job = read(os.path.join(PODS, words[2].removeprefix("--selector=job-name=") + ".json"))
    job["looks"] += 1
    save(job)
    if job["looks"] == 3:
        start(job)
    if job["looks"] > 1:
        print(job["pod"] + "   " + job["phase"])
elif words[:1] == ["delete"]:
    assert "--wait=false" in words, words
    for name in (word.removeprefix("job.batch/") for word in words[1:] if not word.startswith("-") and word != "job"):
        job = read(os.path.join(PODS, name + ".json"))
        if job["phase"] == "Succeeded":
            assert "--ignore-not-found" in words, words
            continue
        grace = job["manifest"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        os.kill(job["process_1"], signal.SIGTERM)
        subprocess.Popen(["timeout", "-s", "KILL", str(grace), "tail", f"--pid={{job['process_1']}}", "-f", "/dev/null"],
                         start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        save({{**job, "phase": "Succeeded"}})
elif words[:2] == ["exec", "-i"] and words[3] == "--":
    jobs = [job for job in map(read, glob.glob(PODS + "/*.json")) if job["pod"] == words[2] and job["phase"] == "Running"]
    if not jobs:
        os.execv({plain!r}, [{plain!r}, *words])
    process_1 = str(jobs[0]["process_1"])
    done = subprocess.run(["nsenter", "--target", process_1, "--pid", "--mount", "--root", "--net", "--", "setsid", *words[4:]])
    sys.exit(done.returncode if done.returncode >= 0 else 128 - done.returncode)
else:
    sys.exit(f"error: unknown command line: {{words}}")
"""


class KubectlCase(Case):
    def setUp(self):
        self.lab = Lab(hosts=2, sshd_hosts=())
        self.addCleanup(self.lab.close)
        self.lab.__enter__()
        self.namespace = self.lab.head.namespace.removesuffix("-head")
        self.kubectl = self.program("kubectl-of-nodes", KUBECTL.format(namespace=self.namespace))

    def program(self, name, text):
        path = self.lab.path(name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o755), "w") as file:
            file.write(text)
        return path

    def launcher(self):
        return {"kind": "command", "command": [self.kubectl, "exec", "-i", "{host}", "--"]}


class Helpers(KubectlCase):
    """scripts/k8s/expand.sh and shrink.sh, and what their helper pods do at TERM."""

    SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "k8s")

    def setUp(self):
        if subprocess.run(["/usr/bin/python3", "-c", "import yaml"], capture_output=True).returncode != 0:
            self.skipTest("no python3-yaml (scripts/setup.sh test installs it)")
        super().setUp()
        self.pods = self.lab.path("pods")
        os.mkdir(self.pods)
        self.addCleanup(self.end_pods)
        self.kubectl = self.program("kubectl", KUBECTL_OF_JOBS.format(pods=self.pods, namespace=self.namespace,
                                                                      plain=self.kubectl))

    def jobs(self):
        found = []
        for path in sorted(glob.glob(self.pods + "/*.json")):
            with open(path) as file:
                found.append(json.load(file))
        return found

    def is_there(self, number):
        return os.path.exists(f"/proc/{self.jobs()[number]['process_1']}")

    def end_pods(self):
        harness.signal_all([one["unshare"] for one in self.jobs() if "unshare" in one], signal.SIGKILL)

    def run_that_grows(self):
        words = f"env PATH={shlex.quote(self.lab.path())}:$PATH HEAD_POD=head HEAD_UID=uid-7 "
        hosts = {"list": ["node1:1"], "shrink_after_ms": 500,
                 "expand": words + shlex.quote(os.path.join(self.SCRIPTS, "expand.sh")),
                 "shrink": words + shlex.quote(os.path.join(self.SCRIPTS, "shrink.sh"))}
        config = job(workers=(1, 1, 2), hosts=hosts, launcher=self.launcher(), timeouts={"grace_ms": 20000})
        return Run(config, lab=self.lab)

    def test_a_run_grows_by_a_helper_pod_and_gives_it_back(self):
        with self.run_that_grows() as run:
            before = pids(run.wait_size(1))
            run.do("resize", run.name, 2)
            grown = run.wait_size(2)
            self.assertEqual({worker["host"] for worker in members(grown)}, {"node1", "help-1-x7k2p"})
            self.assertEqual(self.jobs()[0]["labels"]["elastictrain/run"], f"run.{run.name}")
            run.do("resize", run.name, 1)
            wait_until(lambda: not self.is_there(0), 60, "the end of the pod")
            self.assertEqual(pids(run.wait_size(1)), before, "a healthy worker was restarted")
            self.assert_ends_clean(run)

    def test_a_helper_pod_that_is_evicted_is_a_notice_and_another_one_takes_its_place(self):
        with self.run_that_grows() as run:
            run.wait_size(1)
            run.do("resize", run.name, 2)
            run.wait_size(2)
            subprocess.run([self.kubectl, "delete", "job", "--wait=false", "help-1"], check=True)
            wait_until(lambda: not self.is_there(0), 60, "the end of the pod")
            hosts = lambda: {worker["host"] for worker in members(run.status())}
            wait_until(lambda: "help-2-x7k2p" in hosts(), 60, "a worker on another pod")
            self.assertEqual(run.events("loss"), [], "a notice was taken for a loss")
            self.assert_ends_clean(run)


    def test_a_cluster_grows_by_helper_pods_leaves_one_that_is_deleted_and_gives_them_back(self):
        words = f"env PATH={shlex.quote(self.lab.path())}:$PATH HEAD_POD=head HEAD_UID=uid-7 "
        hosts = {name: words + shlex.quote(os.path.join(self.SCRIPTS, f"{name}.sh")) for name in ("expand", "shrink", "alive")}
        hosts |= {"list": ["node1:1"], "most_slots": 2, "expand_after_ms": 200, "shrink_after_ms": 1000,
                  "alive_interval_ms": 300}
        cluster = Cluster(self, prefix=self.lab.head.prefix(), hosts=hosts).start()
        cluster.submit("first", 1, 1, launcher=self.launcher())
        first = cluster.wait_workers("first", 1)
        cluster.submit("second", 1, 1, launcher=self.launcher(), checkpoint={"directory": os.path.join(cluster.directory, "kept")})
        cluster.wait_workers("second", 1)
        self.assertEqual(self.jobs()[0]["labels"]["elastictrain/run"], "run.test")
        self.mark_deleted(0)
        hosts_of = lambda: {worker["host"] for worker in members(cluster.status("second"))}
        wait_until(lambda: hosts_of() == {"help-2-x7k2p"}, 60, "a worker on another pod")
        wait_until(lambda: not self.is_there(0), 60, "the end of the pod that was deleted")
        cluster.do("cancel", "second")
        wait_until(lambda: not self.is_there(1), 60, "the end of the other one")
        self.assertEqual(cluster.wait_workers("first", 1), first, "a healthy worker was restarted")
        cluster.assert_slots_used_once()

    def mark_deleted(self, number):
        """As of a pod that is to end within its grace."""
        job = {**self.jobs()[number], "deleted": "2026-11-25T12:00:00Z"}
        with open(os.path.join(self.pods, job["name"] + ".json"), "w") as file:
            json.dump(job, file)


class Refusals(unittest.TestCase):
    """What kubectl says to expand.sh reaches the user, and no Job is left."""

    def test_a_head_that_may_not_look_at_pods_deletes_its_jobs_and_says_why(self):
        with tempfile.TemporaryDirectory() as folder:
            kubectl = os.path.join(folder, "kubectl")
            with open(os.open(kubectl, os.O_WRONLY | os.O_CREAT, 0o755), "w") as file:
                file.write("#!/bin/sh\n"
                           "case $1 in\n"
                           "  create) cat >/dev/null; echo job.batch/help-1 ;;\n"
                           "  get) echo 'Error from server (Forbidden): pods is forbidden' >&2; exit 1 ;;\n"
                           f"  delete) echo \"$@\" >{folder}/deleted ;;\n"
                           "esac\n")
            environment = {**os.environ, "PATH": folder + ":" + os.environ["PATH"], "HEAD_POD": "head", "HEAD_UID": "uid-7",
                           "ELASTICTRAIN_MISSING_SLOTS": "1", "ELASTICTRAIN_JOB_ID": "a"}
            done = subprocess.run([os.path.join(Helpers.SCRIPTS, "expand.sh")], env=environment, capture_output=True, text=True,
                                  timeout=30)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("pods is forbidden", done.stderr)
            with open(os.path.join(folder, "deleted")) as file:
                self.assertIn("job.batch/help-1", file.read())


class Pods(KubectlCase):

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
