"""A test network of hosts on one machine: network namespaces joined by a switch, each with a name and an sshd of its own.

    with Lab(hosts=3, rate="200mbit") as lab:
        lab.run_on_head(["ssh", "node1", "hostname"])

The head is a namespace too (10.77.0.1), so nothing of a test touches the machine's own network. Host N is node<N> at
10.77.0.(N+1). All hosts see the machine's file system, apart from the directories in `hide`, which are empty there, and
their own home directory. Everything that a lab makes is in one temporary directory and in namespaces with its token in
their name; close() ends their processes by pid. The next lab removes what a killed test has left.

It needs root; for a user with sudo the test restarts itself through sudo. If that is impossible, SkipTest gives the reason.
"""

import contextlib
import glob
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import sanitizer

PREFIX = "etlab"
SUBNET = "10.77.0."
SUBNET6 = "fd77::"


def require_root():
    """Continues as root: directly, or restarted through sudo; else skips the test."""
    if os.geteuid() == 0:
        return
    sudo = shutil.which("sudo")
    if not sudo or subprocess.run([sudo, "-n", "true"], capture_output=True).returncode != 0:
        raise unittest.SkipTest("network namespaces need root or password-less sudo")
    keep = [f"{name}={value}" for name, value in os.environ.items() if name.startswith(("ELASTICTRAIN_", "PATH"))]
    sys.stdout.flush()
    os.execv(sudo, [sudo, "-n", "env", *keep, sys.executable, *sys.argv])


def find_tool(name):
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/bin:/bin")
    if not path:
        raise unittest.SkipTest(f"{name} is not installed (scripts/setup.sh test)")
    return path


def call(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def pids_of_namespace(name):
    done = subprocess.run([find_tool("ip"), "netns", "pids", name], capture_output=True, text=True)
    return [int(pid) for pid in done.stdout.split()]


def kill_all(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Host:
    """One namespace with its sshd."""

    def __init__(self, lab, name, number):
        self.lab = lab
        self.name = name
        self.namespace = f"{PREFIX}-{lab.token}-{name}"
        self.address = f"{SUBNET}{number}"
        self.address6 = f"{SUBNET6}{number:x}"
        self.link = f"v{lab.token}{number}"
        self.sshd = None

    def prefix(self):
        return [find_tool("ip"), "netns", "exec", self.namespace]

    def popen(self, argv, **options):
        return subprocess.Popen(self.prefix() + argv, **options)

    def pids(self):
        """Processes of this host without its sshd listener."""
        listener = self.sshd.pid if self.sshd else 0
        return [pid for pid in pids_of_namespace(self.namespace) if pid != listener]

    def set_link(self, up):
        """Disconnects the host, or reconnects it and waits until it can be reached again."""
        ip = find_tool("ip")
        call(ip, "-n", self.lab.switch, "link", "set", self.link, "up" if up else "down")
        if up:
            # Hosts that did not answer meanwhile are cached as unreachable for a while.
            for host in [self.lab.head, *self.lab.hosts]:
                call(ip, "-n", host.namespace, "neigh", "flush", "all")
            self._wait_for_port()

    def power_off(self):
        """Disconnects the host first, so that no peer notices, then kills every process except the sshd."""
        self.set_link(False)
        deadline = time.monotonic() + 10
        while pids := self.pids():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} has processes that cannot be killed: {pids}")
            kill_all(pids)
            time.sleep(0.02)

    def power_on(self):
        self.set_link(True)

    def cut(self, incoming=True, outgoing=True):
        """Silently drops this host's incoming or outgoing packets; heal() ends it."""
        for chain, device, wanted in (("INPUT", "-i", incoming), ("OUTPUT", "-o", outgoing)):
            if wanted:
                call(*self.prefix(), find_tool("iptables"), "-w", "-A", chain, device, "eth0", "-j", "DROP")

    def heal(self):
        call(*self.prefix(), find_tool("iptables"), "-w", "-F")

    @contextlib.contextmanager
    def sends_to(self, other, bits_per_s):
        """Other traffic between two hosts, while the block lasts."""
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cross_traffic.py")
        sender = self.popen([sys.executable, script, other.address, str(bits_per_s)], stdin=subprocess.DEVNULL)
        try:
            yield
        finally:
            sender.kill()
            sender.wait()

    def _wait_for_port(self):
        program = "import socket, sys; socket.create_connection((sys.argv[1], 22), timeout=1).close()"
        deadline = time.monotonic() + 10
        while subprocess.run(self.lab.head.prefix() + [sys.executable, "-c", program, self.address],
                             capture_output=True).returncode != 0:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} cannot be reached after its link came back")
            time.sleep(0.05)


class Lab:
    def __init__(self, hosts=3, rate=None, hide=(), sshd_hosts=None, jump=None, sshd_limits=("MaxStartups 200", "MaxSessions 200")):
        require_root()
        for tool in ("ip", "tc", "unshare", "sshd", "ssh", "ssh-keygen"):
            find_tool(tool)
        sweep()
        self.token = secrets.token_hex(3)
        self.directory = tempfile.mkdtemp(prefix=f"{PREFIX}-{self.token}-")
        os.chmod(self.directory, 0o711)
        with open(os.path.join(self.directory, "owner"), "w") as file:
            file.write(f"{os.getpid()} {_start_time(os.getpid())}")
        self.rate = rate
        self.hide = list(hide)
        self.jump = jump  # the name of a host through which ssh reaches the others
        self.sshd_limits = list(sshd_limits)
        self.switch = f"{PREFIX}-{self.token}-switch"
        self.head = Host(self, "head", 1)
        self.hosts = [Host(self, f"node{number}", number + 1) for number in range(1, hosts + 1)]
        self.without_sshd = set() if sshd_hosts is None else {h.name for h in self.hosts} - set(sshd_hosts)

    def __enter__(self):
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *unused):
        self.close()

    def host(self, name):
        return next(host for host in self.hosts if host.name == name)

    def path(self, *parts):
        return os.path.join(self.directory, *parts)

    def environment(self):
        """The environment of commands on the head, in which plain `ssh node1` works: this lab's ssh comes first in PATH."""
        return {"PATH": self.path("bin") + ":" + os.environ["PATH"]}

    def popen_on_head(self, argv, env=None, **options):
        merged = {**os.environ, **(env or {}), **self.environment()}
        return self.head.popen(argv, env=merged, **options)

    def run_on_head(self, argv, timeout=30, **options):
        merged = {**os.environ, **self.environment()}
        return subprocess.run(self.head.prefix() + argv, env=merged, capture_output=True, text=True, timeout=timeout,
                              **options)

    def remote_pids(self):
        return {host.name: pids for host in self.hosts if (pids := host.pids())}

    def wait_remote_pids_gone(self, patience_s=10):
        """Processes left after a while: an sshd needs a moment to notice that its connection is closed, also that of our own
        probe when a link comes back."""
        deadline = time.monotonic() + patience_s
        while (left := self.remote_pids()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left

    def close(self):
        names = [self.switch] + [host.namespace for host in [self.head, *self.hosts]]
        _remove(names, self.directory)
        for host in self.hosts:
            if host.sshd:
                host.sshd.wait()

    def _open(self):
        ip = find_tool("ip")
        try:
            call(ip, "netns", "add", self.switch)
            call(ip, "-n", self.switch, "link", "add", "switch", "type", "bridge")
        except RuntimeError as error:
            raise unittest.SkipTest(f"network namespaces are not possible here: {error}") from None
        call(ip, "-n", self.switch, "link", "set", "switch", "up")
        for host in [self.head, *self.hosts]:
            self._connect(host)
        self._make_keys()
        for host in self.hosts:
            if host.name not in self.without_sshd:
                self._start_sshd(host)
        for host in self.hosts:
            if host.sshd:
                self._wait_for_sshd(host)

    def _connect(self, host):
        ip = find_tool("ip")
        call(ip, "netns", "add", host.namespace)
        call(ip, "-n", self.switch, "link", "add", host.link, "type", "veth", "peer", "name", "eth0", "netns",
             host.namespace)
        call(ip, "-n", self.switch, "link", "set", host.link, "master", "switch", "up")
        call(ip, "-n", host.namespace, "link", "set", "lo", "up")
        call(ip, "-n", host.namespace, "addr", "add", f"{host.address}/24", "dev", "eth0")
        call(ip, "-n", host.namespace, "addr", "add", f"{host.address6}/64", "dev", "eth0", "nodad")
        call(ip, "-n", host.namespace, "link", "set", "eth0", "up")
        if self.rate:
            for namespace, device in ((self.switch, host.link), (host.namespace, "eth0")):
                call(find_tool("tc"), "-n", namespace, "qdisc", "add", "dev", device, "root", "tbf", "rate", self.rate,
                     "burst", "128k", "latency", "100ms")

    def _make_keys(self):
        keygen = find_tool("ssh-keygen")
        call(keygen, "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", self.path("id"))
        shutil.copy(self.path("id.pub"), self.path("authorized_keys"))
        known = []
        for host in self.hosts:
            key = self.path(f"{host.name}.key")
            call(keygen, "-q", "-t", "ed25519", "-N", "", "-C", host.name, "-f", key)
            with open(key + ".pub") as file:
                known.append(f"{host.name},{host.address} {file.read()}")
        self._write("known_hosts", "".join(known))
        self._write("ssh_config", self._ssh_config())
        os.mkdir(self.path("bin"))
        self._write("bin/ssh", f'#!/bin/sh\nexec {find_tool("ssh")} -F {self.path("ssh_config")} "$@"\n', 0o755)

    def _ssh_config(self):
        lines = [f"IdentityFile {self.path('id')}", "IdentitiesOnly yes", f"UserKnownHostsFile {self.path('known_hosts')}",
                 "StrictHostKeyChecking yes", "User root"]
        for host in self.hosts:
            lines += [f"Host {host.name}", f"  HostName {host.address}"]
            lines += [f"  ProxyJump {self.jump}"] if self.jump not in (None, host.name) else []
        return "\n".join(lines) + "\n"

    def _start_sshd(self, host):
        home = pwd.getpwuid(0).pw_dir
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        self._write(f"{host.name}.sshd_config", "\n".join([
            f"ListenAddress {host.address}", f"HostKey {self.path(host.name + '.key')}", "PidFile none", "UsePAM no",
            "StrictModes no", "PermitRootLogin yes", "PasswordAuthentication no", *self.sshd_limits,
            f"AuthorizedKeysFile {self.path('authorized_keys')}", "LogLevel VERBOSE",
            *self._set_env()]) + "\n")
        covered = [*self.hide, home]
        script = "".join(f"mount -t tmpfs -o mode=700 none {directory}\n" for directory in covered)
        script = (f"set -e\nhostname {host.name}\n{script}"
                  f"exec {find_tool('sshd')} -D -E {self.path(host.name + '.log')}"
                  f" -f {self.path(host.name + '.sshd_config')}\n")
        # Not the test's own output: its reader would wait for an sshd that a killed test has left.
        with open(self.path(f"{host.name}.start"), "w") as log:
            host.sshd = host.popen([find_tool("unshare"), "--uts", "--mount", "sh", "-c", script],
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    @staticmethod
    def _set_env():
        """Variables of every session; sshd uses only the first SetEnv."""
        variables = [f"{name}={os.environ[name]}" for name in sanitizer.OPTIONS if name in os.environ]
        return ["SetEnv " + " ".join(variables)] if variables else []

    def _wait_for_sshd(self, host):
        log = self.path(host.name + ".log")
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if os.path.exists(log):
                with open(log) as file:
                    if "Server listening" in file.read():
                        return
            if host.sshd.poll() is not None:
                break
            time.sleep(0.02)
        raise unittest.SkipTest(f"sshd does not start on {host.name}; see {log}")

    def _write(self, name, text, mode=0o600):
        with open(os.open(self.path(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
            file.write(text)


def _start_time(pid):
    """Distinguishes a process from a later one with the same pid; None if it does not exist."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[19]
    except OSError:
        return None


def _remove(namespaces, directory):
    existing = set(os.listdir("/run/netns")) if os.path.isdir("/run/netns") else set()
    for name in namespaces:
        if name in existing:
            for _ in range(50):
                pids = pids_of_namespace(name)
                if not pids:
                    break
                kill_all(pids)
                time.sleep(0.01)
            call(find_tool("ip"), "netns", "del", name)
    shutil.rmtree(directory, ignore_errors=True)


def sweep():
    """Removes labs whose test has ended."""
    for directory in glob.glob(os.path.join(tempfile.gettempdir(), f"{PREFIX}-*")):
        try:
            with open(os.path.join(directory, "owner")) as file:
                pid, started = file.read().split()
        except (OSError, ValueError):
            continue
        if _start_time(int(pid)) == started:
            continue
        token = os.path.basename(directory).split("-")[1]
        prefix = f"{PREFIX}-{token}-"
        namespaces = os.listdir("/run/netns") if os.path.isdir("/run/netns") else []
        _remove([name for name in namespaces if name.startswith(prefix)], directory)
