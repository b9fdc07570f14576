"""A real Slurm on the hosts of a lab: munge and slurmctld on its head, a slurmd on each host, all of Debian's packages.

    with Lab(hosts=3, sshd_hosts=()) as lab, Slurm(lab) as slurm:
        job = slurm.submit(["job.sh"], "--nodes=3")
        slurm.wait_job(job, lambda job: job["JobState"] == "COMPLETED")

Jobs of the partition "spare" are preempted by those of "lab", 30 s after a TERM to their processes.
Key, sockets, state and logs are in the lab's directory, and every daemon in one of its namespaces, so that the lab ends
them all. The system's own Slurm, if there is one, is not touched. If it cannot start, SkipTest gives the reason.
"""

import os
import re
import secrets
import subprocess
import time
import unittest

import sanitizer
from lab import find_tool

TOOLS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "scancel", "sinfo", "unshare")

# No cgroups, no accounting, no binding. A requeued job may start again after seconds (cred_expire).
CONFIG = """
ClusterName=lab
SlurmctldHost=head({head})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket,cred_expire=5
CredType=cred/munge
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd-%n.log
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=10
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,batch_sched_delay=0
MailProg=/bin/true
{nodes}
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=lab Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=2 PreemptMode=OFF
PartitionName=spare Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=CANCEL GraceTime=30
"""


class Slurm:
    def __init__(self, lab, cpus=4):
        for tool in TOOLS:
            find_tool(tool)
        self.lab = lab
        self.cpus = cpus
        self.directory = lab.path("slurm")

    def __enter__(self):
        os.mkdir(self.directory, 0o755)
        os.chmod(self.lab.directory, 0o755)  # munge must be able to traverse it
        for name in ["state"] + [f"spool-{host.name}" for host in self.lab.hosts]:
            os.mkdir(self._path(name), 0o755)
        self._start_munge()
        self._write_config()
        self._start(self.lab.head, "head", ["slurmctld", "-D", "-i", "-f", self._path("slurm.conf")])
        for host in self.lab.hosts:
            self._start(host, host.name, ["slurmd", "-D", "-N", host.name, "-f", self._path("slurm.conf")])
        self._wait_for_hosts()
        return self

    def __exit__(self, *unused):
        """The lab ends the processes in its namespaces."""

    def environment(self):
        return {"SLURM_CONF": self._path("slurm.conf")}

    def run(self, argv, timeout=30):
        """Runs a command of Slurm on the head. Returns its output."""
        done = subprocess.run(self.lab.head.prefix() + list(argv), env={**os.environ, **self.environment()},
                              capture_output=True, text=True, timeout=timeout * sanitizer.SLOWDOWN)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def submit(self, script, *options, output, environment=None):
        """Submits `script` (with its arguments) and returns the job's number."""
        variables = {**os.environ, **self.environment(), **(environment or {})}
        argv = ["sbatch", "--parsable", f"--output={output}", "--chdir", self.lab.directory, *options, *script]
        done = subprocess.run(self.lab.head.prefix() + argv, env=variables, capture_output=True, text=True, timeout=30)
        if done.returncode != 0:
            raise RuntimeError(f"sbatch: {done.stderr.strip()}")
        return int(done.stdout.split(";")[0])

    def job(self, number):
        """The fields of a job as scontrol shows them, by name."""
        text = self.run(["scontrol", "show", "job", "-o", str(number)])
        return dict(re.findall(r"(\w+)=(\S*)", text))

    def wait_job(self, number, condition, timeout=60):
        deadline = time.monotonic() + timeout * sanitizer.SLOWDOWN
        while not condition(job := self.job(number)):
            if time.monotonic() > deadline:
                raise AssertionError(f"job {number} is not as expected after {timeout} s: {job}\n{self.logs()}")
            time.sleep(0.1)
        return job

    def wait_idle(self, timeout=30):
        """Waits until no host has a job."""
        deadline = time.monotonic() + timeout * sanitizer.SLOWDOWN
        while self._idle_hosts() < len(self.lab.hosts):
            if time.monotonic() > deadline:
                raise AssertionError(f"hosts are still in use after {timeout} s\n{self.logs()}")
            time.sleep(0.1)

    def processes(self):
        """Processes of jobs: those on the hosts other than slurmd."""
        return [pid for host in self.lab.hosts for pid in host.pids() if _name_of(pid) not in ("slurmd", "slurmstepd")]

    def logs(self):
        names = ["start.log", "slurmctld.log"] + [f"slurmd-{host.name}.log" for host in self.lab.hosts]
        return "\n".join(f"--- {name}\n{_tail(self._path(name))}" for name in names)

    def _path(self, name):
        return os.path.join(self.directory, name)

    def _start_munge(self):
        with open(os.open(self._path("munge.key"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(128))
        files = {"key": "munge.key", "socket": "munge.socket", "pid": "munge.pid", "log": "munge.log",
                 "seed": "munge.seed"}
        self._start(self.lab.head, "head", ["munged", "--foreground", "--force"] + [
            f"--{name}{'' if name == 'socket' else '-file'}={self._path(path)}" for name, path in files.items()])
        deadline = time.monotonic() + 10
        while not os.path.exists(self._path("munge.socket")):
            if time.monotonic() > deadline:
                raise unittest.SkipTest(f"munged does not start: {_tail(self._path('start.log'))}")
            time.sleep(0.02)

    def _write_config(self):
        nodes = "\n".join(f"NodeName={host.name} NodeAddr={host.address} CPUs={self.cpus} State=UNKNOWN"
                          for host in self.lab.hosts)
        with open(self._path("slurm.conf"), "w") as file:
            file.write(CONFIG.format(head=self.lab.head.address, directory=self.directory, nodes=nodes))
        with open(self._path("cgroup.conf"), "w") as file:  # else slurmd looks for a mounted hierarchy
            file.write("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")

    def _start(self, host, name, argv):
        script = f"hostname {name}\nexec \"$@\"\n"
        with open(self._path("start.log"), "a") as log:
            host.popen([find_tool("unshare"), "--uts", "sh", "-c", script, name, find_tool(argv[0]), *argv[1:]],
                       stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def _idle_hosts(self):
        done = subprocess.run(self.lab.head.prefix() + ["sinfo", "-h", "-N", "-o", "%T"],
                              env={**os.environ, **self.environment()}, capture_output=True, text=True, timeout=30)
        return done.stdout.split().count("idle")

    def _wait_for_hosts(self):
        deadline = time.monotonic() + 30 * sanitizer.SLOWDOWN
        while self._idle_hosts() < len(self.lab.hosts):
            if time.monotonic() > deadline:
                raise unittest.SkipTest(f"Slurm does not come up here:\n{self.logs()}")
            time.sleep(0.1)


def _name_of(pid):
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return "slurmstepd"  # gone


def _tail(path):
    try:
        with open(path, errors="replace") as file:
            return file.read()[-2000:]
    except OSError:
        return ""
