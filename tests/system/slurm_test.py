"""A real Slurm: batch scripts that start runs over several hosts, are preempted, and are requeued."""

import json
import os
import re
import shlex
import signal
import subprocess
import tempfile
import unittest

import harness
from harness import Case, Run, members, newest_checkpoint, synthetic, wait_until
from lab import Lab
from replica_hosts_test import PACKAGE, PYTHON
from slurm_lab import Slurm

SCRIPT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", "scripts", "hpc", "slurm.sh"))
PROGRAM = os.path.join(os.path.dirname(os.path.realpath(__file__)), "replica_hosts_program.py")
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")


class BatchRun(Run):
    """A run that scripts/hpc/slurm.sh starts in a job. Its records are read like those of any other run."""

    def __init__(self, slurm, *options, **sections):
        config = {"workers": {"min": 1}, "batch": {"per_worker": 16}, "audit": {"every_steps": 10}, **sections}
        if "command" not in config:
            config["trainer"] = synthetic()
        super().__init__(config)
        self.slurm = slurm
        self.options = options
        self.output = os.path.join(self.directory, "job.out")
        self.number = None

    def start(self):
        config = os.path.join(self.directory, "config.toml")
        with open(config, "a") as file:
            file.write(harness.toml({"checkpoint": {"directory": os.path.join(self.directory, "checkpoints"),
                                                    "interval_steps": 50}}))
        self.number = self.slurm.submit([SCRIPT, config], *self.options, output=self.output,
                                        environment={**self.environment, "ELASTICTRAIN": harness.BINARY})
        self.name = f"slurm-{self.number}"
        return self

    def text(self, stream=None):
        try:
            with open(self.output, errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def signal_script(self, name):
        """Sends the signal of `--signal=B:NAME@SECONDS` and of a preemption, without waiting for the time."""
        self.slurm.run(["scancel", f"--signal={name}", "--batch", str(self.number)])

    def wait_generation(self, world_size):
        return wait_until(lambda: [g for g in self.events("generation") if int(g["world_size"]) == world_size], 60,
                          f"a generation with {world_size} workers")

    def newest_checkpoint(self):
        """The step of its newest checkpoint."""
        return newest_checkpoint(os.path.join(self.directory, "checkpoints"))

    def wait_ended(self):
        return self.slurm.wait_job(self.number, lambda job: job["JobState"] in ENDED)

    def kill(self):
        if self.number is not None and self.slurm.job(self.number)["JobState"] not in ENDED:
            self.slurm.run(["scancel", str(self.number)])
            self.slurm.wait_idle()
        super().kill()


class SlurmCase(Case):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(hosts=3, sshd_hosts=())
        cls.addClassCleanup(cls.lab.close)
        cls.lab.__enter__()
        cls.slurm = Slurm(cls.lab).__enter__()

    def assert_nothing_left(self):
        self.slurm.wait_idle()
        wait_until(lambda: not self.slurm.processes(), 10, "the end of all processes of the job")


class InAJob(SlurmCase):
    def script(self, text):
        path = os.path.join(self.lab.directory, "job.sh")
        with open(path, "w") as file:
            file.write(f"#!/bin/bash\n{text}\n")
        output = os.path.join(self.lab.directory, "job.out")
        number = self.slurm.submit([path], "--nodes=3", "--ntasks-per-node=2", "--open-mode=truncate", output=output)
        job = self.slurm.wait_job(number, lambda job: job["JobState"] in ENDED)
        with open(output) as file:
            return job, file.read()

    def test_a_dry_run_names_the_job_with_its_hosts_and_how_they_are_reached(self):
        job, text = self.script(f"{shlex.quote(harness.BINARY)} run --dry-run -- ./train")
        self.assertEqual(job["ExitCode"], "0:0", text)
        self.assertIn(f"job {job['JobId']} of slurm: 3 hosts with 6 slots (SLURM_TASKS_PER_NODE), agents by srun", text)
        self.assertRegex(text, rf"node1 +2 +{re.escape(shlex.quote(harness.BINARY))} agent")
        self.assertRegex(text, r"node2 +2 +srun .*--nodelist=node2")
        self.assertIn("6 workers to start with", text)

    def test_check_tries_every_host_by_srun(self):
        job, text = self.script(f"{shlex.quote(harness.BINARY)} check --np 6 -- /bin/true")
        self.assertEqual(job["ExitCode"], "0:0", text)
        for host in ("node1", "node2", "node3"):
            self.assertRegex(text, rf"{host} .*good|{host} .*more slots than cores")
        self.assert_nothing_left()

    def test_a_scheduler_that_is_not_wanted_is_left_alone(self):
        _, text = self.script(f"{shlex.quote(harness.BINARY)} run --dry-run --scheduler none -n 1 -- ./train")
        self.assertNotIn("of slurm", text)
        self.assertNotIn("srun", text)


class GivesWay(SlurmCase):
    def assert_comes_back(self, run, give_way, size=3):
        """Trains on all hosts, ends with a checkpoint and status 75, is requeued, and continues at that step."""
        run.wait_generation(size)
        run.wait_more_steps(60)
        give_way(run)
        run.slurm.wait_job(run.number, lambda job: job["Restarts"] == "1" and job["JobState"] == "RUNNING")
        self.assertEqual([int(end["exit_status"]) for end in run.events("run_closed")], [75])
        run.wait_more_steps(20)
        run.do("stop", run.name)
        job = run.wait_ended()
        self.assertEqual((job["JobState"], job["ExitCode"]), ("COMPLETED", "0:0"), run.text())
        self.assert_nothing_left()
        self.assert_audit_clean(run)
        self.assert_steps_continue(run)

    def test_a_notice_of_the_end_is_a_checkpoint_and_a_requeue(self):
        with BatchRun(self.slurm, "--nodes=3", "--ntasks-per-node=1") as run:
            self.assert_comes_back(run, lambda run: run.signal_script("USR1"))

    def test_a_preemption_is_as_well(self):
        def preempt(run):
            for name in ("CONT", "TERM"):
                run.slurm.run(["scancel", f"--signal={name}", "--full", str(run.number)])

        with BatchRun(self.slurm, "--nodes=3", "--ntasks-per-node=1") as run:
            self.assert_comes_back(run, preempt)

    @unittest.skipUnless("ELASTICTRAIN_LIBRARY" in os.environ, "an interpreter without a sanitizer's runtime cannot load the library")
    def test_a_preemption_of_workers_on_two_hosts_each_is_as_well(self):
        """Every process of the job gets TERM, parts and agents of all hosts too."""
        def preempt(run):
            self.assertEqual({record["host"] for record in run.events("spawn")}, {"node1+node2"})
            for name in ("CONT", "TERM"):
                run.slurm.run(["scancel", f"--signal={name}", "--full", str(run.number)])

        library = os.environ["ELASTICTRAIN_LIBRARY"]
        variables = [f"PYTHONPATH={PACKAGE}", f"ELASTICTRAIN_LIBRARY={library}"]
        workers = {"min": 1, "start": 1, "max": 1, "per_replica": 4, "hosts_per_replica": 2}
        with BatchRun(self.slurm, "--nodes=2", "--ntasks-per-node=1", command=[PYTHON, PROGRAM], workers=workers,
                      environment={"set": variables}) as run:
            self.assert_comes_back(run, preempt, size=1)

    def test_a_job_that_its_user_cancels_is_not_requeued(self):
        for options in ((), ("--full",)):
            with self.subTest(options), BatchRun(self.slurm, "--nodes=1", "--ntasks-per-node=2") as run:
                run.wait_generation(2)
                run.wait_more_steps(20)
                self.slurm.run(["scancel", *options, str(run.number)])
                run.slurm.wait_job(run.number, lambda job: job["JobState"] in ENDED)
                self.assert_nothing_left()
                job = self.slurm.job(run.number)
                self.assertEqual((job["JobState"], job["Restarts"]), ("CANCELLED", "0"), run.text())

    def test_term_to_every_process_is_a_checkpoint_of_the_newest_step(self):
        """As Slurm does at the time limit: workers and agents get the signal too, and no process may end from it."""
        with BatchRun(self.slurm, "--nodes=1", "--ntasks-per-node=2", "--no-requeue") as run:
            run.wait_generation(2)
            run.wait_more_steps(60)
            harness.signal_all(self.slurm.processes(), signal.SIGTERM)  # as scancel does if cgroups contain a job
            run.wait_ended()
            self.assertEqual([int(end["exit_status"]) for end in run.events("run_closed")], [75], run.text())
            self.assertEqual(run.events("loss"), [], run.text())
            self.assertEqual(run.newest_checkpoint(), run.last_step(), run.text())
            self.assert_nothing_left()
            self.assert_audit_clean(run)


class Grows(SlurmCase):
    def test_beyond_its_job_by_a_helper_job_and_back(self):
        scripts = os.path.dirname(SCRIPT)
        hosts = {"expand": shlex.quote(os.path.join(scripts, "slurm_expand.sh")),
                 "shrink": shlex.quote(os.path.join(scripts, "slurm_shrink.sh")), "shrink_after_ms": 500}
        with BatchRun(self.slurm, "--nodes=2", "--ntasks-per-node=1", workers={"min": 1, "start": 2, "max": 3},
                      hosts=hosts) as run:
            run.wait_generation(2)
            run.do("resize", run.name, 3)
            run.wait_generation(3)
            helper = run.number + 1
            self.assertEqual(self.slurm.job(helper)["JobState"], "RUNNING")
            run.wait_more_steps(20)
            run.do("resize", run.name, 2)
            self.slurm.wait_job(helper, lambda job: job["JobState"] == "CANCELLED")
            run.wait_more_steps(20)
            run.do("stop", run.name)
            self.assertEqual(run.wait_ended()["ExitCode"], "0:0", run.text())
            self.assert_nothing_left()
            self.assert_audit_clean(run)
            self.assert_steps_continue(run)


class ClusterCase(SlurmCase):
    """scripts/hpc/slurm_cluster.sh: many runs share the hosts of one job."""

    def prepare(self, sizes, **hosts):
        """`sizes`: (least, most) by name of a job of the cluster's file."""
        self.directory = tempfile.mkdtemp(prefix="etcluster-", dir=self.lab.directory)
        self.steps = {name: os.path.join(self.directory, name) for name in sizes}
        self.environment = {"ELASTICTRAIN_STATE_DIR": os.path.join(self.directory, "state"), "ELASTICTRAIN": harness.BINARY,
                            "IDLE_S": "3"}
        for name, (least, most) in sizes.items():
            self.write(f"{name}.toml", harness.toml({"workers": {"min": least, "start": least, "max": most},
                                                     "batch": {"per_worker": 16}, "trainer": synthetic(),
                                                     "audit": {"every_steps": 10},
                                                     "checkpoint": {"directory": self.steps[name] + "-checkpoints",
                                                                    "interval_steps": 50}}))
        jobs = "".join(f'[[job]]\nname = "{name}"\nconfig = "{name}.toml"\n' for name in self.steps)
        self.file = self.write("cluster.toml", harness.toml({"name": "lab", "policy": "max-min", "hosts": hosts}) + jobs)
        self.output = os.path.join(self.directory, "job.out")

    def write(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def submit(self, *options):
        script = os.path.join(os.path.dirname(SCRIPT), "slurm_cluster.sh")
        number = self.slurm.submit([script, self.file], *options, output=self.output, environment=self.environment)
        self.addCleanup(self.slurm.wait_idle)
        self.addCleanup(lambda: self.slurm.job(number)["JobState"] in ENDED or self.slurm.run(["scancel", str(number)]))
        return number

    def do(self, *words):
        return subprocess.run([harness.BINARY, *words], env={**os.environ, **self.environment}, capture_output=True, text=True,
                              timeout=60, stdin=subprocess.DEVNULL)

    def workers(self, name):
        """(host, pid) of each, once all train."""
        done = self.do("status", name, "--json")
        status = json.loads(done.stdout) if done.returncode == 0 and done.stdout.strip() else {}
        working = status.get("phase") == "running" and all(w.get("step", 0) > 0 for w in members(status))
        return sorted((worker["host"], worker["pid"]) for worker in members(status)) if working else []

    def newest_checkpoint(self, name):
        return newest_checkpoint(os.path.join(self.steps[name] + "-checkpoints", name))

    def hosts(self, name):
        return [host for host, _ in self.workers(name)]

    def text(self):
        with open(self.output) as file:
            return file.read()


class Shares(ClusterCase):
    def test_the_hosts_of_a_job_among_runs_which_go_on_after_a_requeue(self):
        self.prepare({"a": (1, 4), "b": (1, 4)})
        number = self.submit("--nodes=2", "--ntasks-per-node=2")
        wait_until(lambda: len(self.hosts("a")) == 2 and len(self.hosts("b")) == 2, 60, "two workers of each")
        self.assertEqual(len(set(self.hosts("a") + self.hosts("b"))), 2, "all hosts of the job are used")
        self.slurm.run(["scancel", "--signal=USR1", "--batch", str(number)])
        self.slurm.wait_job(number, lambda job: job["Restarts"] == "1" and job["JobState"] == "RUNNING")
        reached = {name: self.newest_checkpoint(name) for name in self.steps}
        self.assertGreater(min(reached.values()), 0)
        wait_until(lambda: len(self.hosts("a")) == 2 and len(self.hosts("b")) == 2, 60, "two workers of each, again")
        for name in self.steps:
            wait_until(lambda: self.newest_checkpoint(name) > reached[name], 60, "more steps")
            self.assertEqual(self.do("cancel", name).returncode, 0)
        job = self.slurm.wait_job(number, lambda job: job["JobState"] in ENDED)
        self.assertEqual((job["JobState"], job["ExitCode"]), ("COMPLETED", "0:0"), self.text())
        self.assert_nothing_left()


class Borrows(ClusterCase):
    """Hosts of helper jobs in a partition from which they are preempted."""

    def test_hosts_for_what_waits_which_may_be_preempted_and_are_given_back(self):
        scripts = {name: shlex.quote(os.path.join(os.path.dirname(SCRIPT), f"slurm_{name}.sh"))
                   for name in ("expand", "shrink", "alive")}
        self.prepare({"a": (1, 1), "b": (1, 2)}, most_slots=3, expand_after_ms=200, shrink_after_ms=1000,
                     alive_interval_ms=500, **scripts)
        self.environment |= {"EXPAND_OPTIONS": "--partition=spare", "PARTLY_AFTER_S": "5"}
        number = self.submit("--nodes=1", "--ntasks-per-node=1")
        self.wait(lambda: len(self.hosts("a")) == 1 and len(self.hosts("b")) == 2, "workers of both")
        first = self.workers("a")
        helpers = {job["host"]: job["job"] for job in self.helpers()}
        self.assertEqual(len(helpers), 2, self.text())
        gone = next(host for host in sorted(helpers) if host in self.hosts("b"))
        stronger = self.slurm.submit([self.write("stronger.sh", "#!/bin/bash\nexec sleep 300\n")], "--partition=lab",
                                     "--exclusive", f"--nodelist={gone}", output="/dev/null")
        self.addCleanup(lambda: self.slurm.job(stronger)["JobState"] in ENDED or self.slurm.run(["scancel", str(stronger)]))
        self.slurm.wait_job(stronger, lambda job: job["JobState"] == "RUNNING")
        self.wait(lambda: len(self.hosts("b")) == 1 and gone not in self.hosts("b"), "b on what is left")
        events = self.do("events", "b", "--json").stdout
        self.assertNotIn('"event":"loss"', events, "a notice was taken for a loss")
        self.slurm.run(["scancel", str(stronger)])
        self.wait(lambda: len(self.hosts("b")) == 2, "b as large as before")
        self.assertEqual(self.do("cancel", "b").returncode, 0)
        self.wait(lambda: not self.helpers(), "no helper")
        self.assertEqual(self.workers("a"), first, "a healthy worker was restarted\n" +
                         self.do("events", "--cluster", "lab").stdout)
        self.assertEqual(self.do("cancel", "a").returncode, 0)
        job = self.slurm.wait_job(number, lambda job: job["JobState"] in ENDED)
        self.assertEqual((job["JobState"], job["ExitCode"]), ("COMPLETED", "0:0"), self.text())
        self.assert_nothing_left()

    def wait(self, condition, what):
        try:
            wait_until(condition, 90, what)
        except harness.Failed as failed:
            jobs = self.slurm.run(["squeue", "--states=all"])
            raise harness.Failed(f"{failed}\n{self.text()}\n{self.do('queue', '--cluster', 'lab').stdout}{jobs}") from None

    def helpers(self):
        done = self.do("queue", "--json", "--cluster", "lab")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["helpers"]["hosts"]


class Goes(SlurmCase):
    def test_on_without_a_host_that_fails(self):
        with BatchRun(self.slurm, "--nodes=3", "--ntasks-per-node=1") as run:
            run.wait_generation(3)
            run.wait_more_steps(20)
            self.slurm.run(["scancel", "--signal=KILL", f"{run.number}.0"])
            run.wait_event("agent_lost")
            run.wait_more_steps(50)
            run.do("stop", run.name)
            self.assertEqual(run.wait_ended()["ExitCode"], "0:0")
            self.assert_nothing_left()
            self.assert_audit_clean(run)


if __name__ == "__main__":
    harness.main()
