"""The kinds of faults. Each is a function of (job, choice) that causes the fault, heals it if necessary, and returns the
pids of the workers that were lost. `choice` is a seeded random.Random: the same seed, the same schedule."""

import os
import signal
import time

from harness import members
from job import MAX_WORKERS, MIN_WORKERS, kill


def on_host(job, name):
    return [worker["pid"] for worker in job.members() if worker["host"] == name]


def a_member(job, choice):
    return choice.choice(job.members())["pid"]


def a_busy_host(job, choice):
    """A host with members, but with few enough that sufficiently many are left."""
    now = job.members()
    counts = {host.name: sum(w["host"] == host.name for w in now) for host in job.lab.hosts}
    fit = [host for host in job.lab.hosts if counts[host.name] and len(now) - counts[host.name] >= 1]
    return choice.choice(fit or job.lab.hosts)


def fill(path):
    filler = os.path.join(path, "filler")
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            pass
        try:
            while True:
                file.write(bytes(256))
        except OSError:
            return filler


# --- Workers


def worker_killed(job, choice):
    pid = a_member(job, choice)
    kill(pid, signal.SIGKILL)
    return [pid]


def worker_crashes(job, choice):
    pid = a_member(job, choice)
    kill(pid, choice.choice([signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE]))
    return [pid]


def worker_preempted(job, choice):
    """The first TERM is a notice, which it survives; the second one ends it before it is replaced."""
    pid = a_member(job, choice)
    for _ in range(2):
        kill(pid, signal.SIGTERM)
        time.sleep(0.5)
    return [pid]


def worker_hangs(job, choice):
    pid = a_member(job, choice)
    kill(pid, signal.SIGSTOP)
    job.wait(lambda: pid not in [w["pid"] for w in members(job.run.status())], "the verdict on a hang")
    return [pid]


def two_workers_killed(job, choice):
    lost = [w["pid"] for w in choice.sample(job.members(), 2)]
    for pid in lost:
        kill(pid, signal.SIGKILL)
    return lost


def all_but_one_killed(job, choice):
    now = job.members()
    stays = choice.choice(now)
    lost = [w["pid"] for w in now if w is not stays]
    for pid in lost:
        kill(pid, signal.SIGKILL)
    return lost


def killed_while_recovering(job, choice):
    lost = [w["pid"] for w in choice.sample(job.members(), 2)]
    kill(lost[0], signal.SIGKILL)
    time.sleep(choice.uniform(0.0, 0.3))
    kill(lost[1], signal.SIGKILL)
    return lost


def killed_while_resizing(job, choice):
    pid = a_member(job, choice)
    may_leave = resize(job, choice)
    time.sleep(choice.uniform(0.0, 0.5))
    kill(pid, signal.SIGKILL)
    return may_leave


def joiner_killed(job, choice):
    known = {w["pid"] for w in job.status()["workers"]}
    job.run.do("replace", job.run.name, choice.randrange(job.target))

    def newcomers():
        return [w["pid"] for w in job.status()["workers"] if w["pid"] not in known and w["pid"]]

    for pid in job.wait(newcomers, "a joiner"):
        kill(pid, signal.SIGKILL)
    return list(known)


# --- Hosts


def agent_killed(job, choice):
    host = a_busy_host(job, choice)
    lost = on_host(job, host.name)
    for pid in job.agent_pids_of(host):
        kill(pid, signal.SIGKILL)
    return lost


def agent_stopped(job, choice):
    host = a_busy_host(job, choice)
    lost = on_host(job, host.name)
    agents = job.agent_pids_of(host)
    for pid in agents:
        kill(pid, signal.SIGSTOP)
    time.sleep(choice.uniform(4, 6))
    for pid in agents:
        kill(pid, signal.SIGCONT)
    return lost


def host_powered_off(job, choice):
    host = a_busy_host(job, choice)
    lost = on_host(job, host.name)
    host.power_off()
    time.sleep(choice.uniform(0.2, 6))
    host.power_on()
    return lost


def link_down(job, choice):
    host = a_busy_host(job, choice)
    lost = on_host(job, host.name)
    host.set_link(False)
    time.sleep(choice.uniform(4, 7))
    host.set_link(True)
    return lost


def hears_nothing(job, choice):
    return cut_for_long(job, choice, incoming=True, outgoing=False)


def says_nothing(job, choice):
    return cut_for_long(job, choice, incoming=False, outgoing=True)


def cut_for_long(job, choice, **directions):
    host = a_busy_host(job, choice)
    lost = on_host(job, host.name)
    host.cut(**directions)
    time.sleep(choice.uniform(4, 7))
    host.heal()
    return lost


def short_cut(job, choice):
    host = a_busy_host(job, choice)
    host.cut(*choice.choice([(True, True), (True, False), (False, True)]))
    time.sleep(choice.uniform(0.1, 0.8))
    host.heal()
    return []


def below_the_minimum(job, choice):
    """All hosts except one lose power and return."""
    stays = a_busy_host(job, choice)
    others = [host for host in job.lab.hosts if host is not stays]
    lost = [pid for host in others for pid in on_host(job, host.name)]
    for host in others:
        host.power_off()
    time.sleep(choice.uniform(2, 5))
    for host in others:
        host.power_on()
    return lost


def notice(job, choice):
    host = a_busy_host(job, choice)
    lost = on_host(job, host.name)
    path = os.path.join(job.work, "notices", host.name)
    with open(path, "w"):
        pass
    wait_host_empty(job, host)
    job.withdraw(host.name)
    wait_host_gone(job, host)
    os.remove(path)
    job.take_back(host.name)
    return lost


def host_vanishes(job, choice):
    host = a_busy_host(job, choice)
    lost = on_host(job, host.name)
    job.withdraw(host.name)
    wait_host_empty(job, host)
    wait_host_gone(job, host)
    job.take_back(host.name)
    return lost


def host_drained(job, choice):
    host = a_busy_host(job, choice)
    lost = on_host(job, host.name)
    job.run.do("drain", job.run.name, host.name)
    wait_host_empty(job, host)
    job.withdraw(host.name)
    wait_host_gone(job, host)
    job.take_back(host.name)
    return lost


def wait_host_empty(job, host):
    job.wait(lambda: host.name not in {w["host"] for w in members(job.run.status())},
             f"{host.name} empty")


def wait_host_gone(job, host):
    job.wait(lambda: not job.agent_pids_of(host), f"no agent on {host.name}")


# --- Supervisor and disks


def supervisor_killed(job, choice):
    job.run.process.kill()
    job.run.process.wait()
    time.sleep(choice.uniform(0.0, 2.5))
    job.run.resume()
    return []


def supervisor_stopped(job, choice):
    job.run.signal(signal.SIGSTOP)
    time.sleep(choice.uniform(0.5, 5))
    job.run.signal(signal.SIGCONT)
    return []


def journal_disk_full(job, choice):
    filler = fill(os.path.join(job.work, "state"))
    pid = a_member(job, choice)
    kill(pid, signal.SIGKILL)
    time.sleep(choice.uniform(0.5, 2))
    os.remove(filler)
    return [pid]


def checkpoint_disk_full(job, choice):
    filler = fill(os.path.join(job.work, "checkpoints"))
    step = job.steps.look()
    job.wait(lambda: job.steps.look() > step + 60, "a checkpoint on a full disk")
    os.remove(filler)
    return []


def everything_lost(job, choice):
    lost = [w["pid"] for w in job.members()]
    job.lose_everything()
    job.run.resume()
    job.target = choice.randrange(MIN_WORKERS, MAX_WORKERS + 1)
    job.wait(lambda: job.run.command("resize", job.run.name, job.target).returncode == 0, "another size for the new start")
    return lost


# --- Changes


def resize(job, choice):
    may_leave = [w["pid"] for w in job.members()]
    job.target = choice.choice([n for n in range(MIN_WORKERS, MAX_WORKERS + 1) if n != job.target])
    job.run.do("resize", job.run.name, job.target)
    return may_leave


def replace(job, choice):
    rank = choice.randrange(job.target)
    lost = [w["pid"] for w in job.members() if w["rank"] == rank]
    job.run.do("replace", job.run.name, rank)
    job.wait(lambda: not set(lost) & {w["pid"] for w in members(job.run.status())}, "the replacement")
    return lost


# The relative frequency of each kind.
WEIGHTS = {
    worker_killed: 7, worker_crashes: 3, worker_preempted: 2, worker_hangs: 3, two_workers_killed: 3, all_but_one_killed: 2,
    killed_while_recovering: 3, killed_while_resizing: 3, joiner_killed: 2, agent_killed: 3, agent_stopped: 1,
    host_powered_off: 3, link_down: 2, hears_nothing: 2, says_nothing: 2, short_cut: 3, below_the_minimum: 1, notice: 2,
    host_vanishes: 1, host_drained: 1, supervisor_killed: 4, supervisor_stopped: 2, journal_disk_full: 1,
    checkpoint_disk_full: 1, everything_lost: 2, resize: 3, replace: 2,
}
# Kinds after which nothing may have changed.
QUIET = {short_cut, supervisor_killed, supervisor_stopped, checkpoint_disk_full}
