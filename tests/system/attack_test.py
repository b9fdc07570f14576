"""Attackers at a run's sockets: floods of connections, wrong and old keys, other users of the machine."""

import os
import re
import resource
import secrets
import signal
import socket
import subprocess
import sys
import unittest

import harness
from harness import Case, HostList, Run, is_alive, job, members, pids, wait_until

NOBODY = 65534


def sockets_of(pid):
    """Inodes of a process's sockets."""
    found = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            match = re.match(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            continue
        if match:
            found.add(match.group(1))
    return found


def listening_at(pid):
    """(address, port) of a process's first listening TCP socket."""
    own = sockets_of(pid)
    with open("/proc/net/tcp") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    address, port = next(row[1].split(":") for row in rows if row[3] == "0A" and row[9] in own)
    address = socket.inet_ntoa(int(address, 16).to_bytes(4, sys.byteorder))
    return ("127.0.0.1" if address == "0.0.0.0" else address, int(port, 16))


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident_mb(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def unix_sockets_of(pid):
    """Names of a process's listening Unix sockets, abstract ones with a leading zero byte."""
    own = sockets_of(pid)
    with open("/proc/net/unix") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    names = [row[7] for row in rows if len(row) > 7 and row[6] in own and int(row[3], 16) & 0x10000]
    return ["\0" + name[1:] if name.startswith("@") else name for name in names]


def as_nobody(path, text=b"{}\n"):
    """The result of another user's access to a Unix socket: 'refused', 'closed', 'open' or the answer."""
    program = (
        "import os, socket, sys\n"
        f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
        "name = bytes.fromhex(sys.argv[1])\n"
        "s = socket.socket(socket.AF_UNIX); s.settimeout(5)\n"
        "try: s.connect(name)\n"
        "except OSError: print('refused'); sys.exit()\n"
        "try:\n"
        "  s.sendall(bytes.fromhex(sys.argv[2])); got = s.recv(100)\n"
        "except TimeoutError: print('open'); sys.exit()\n"
        "except OSError: got = b''\n"
        "print('closed' if not got else 'answered ' + repr(got))\n")
    done = subprocess.run([sys.executable, "-c", program, os.fsencode(path).hex(), text.hex()], capture_output=True,
                          text=True, timeout=20, check=True)
    return done.stdout.strip()


class Attacks(Case):
    @classmethod
    def setUpClass(cls):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most < 12_000:
            raise unittest.SkipTest(f"10,000 connections need as many file descriptors, {most} are allowed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    def start_with_one_host(self):
        self.hosts = HostList(self, "localhost:2")
        return Run(job(workers=(1, 2, 3), hosts=self.hosts.section()))

    def assert_another_agent_gets_in(self, run):
        self.hosts.offer("localhost:2", "127.0.0.1:1")
        run.do("resize", run.name, 3)
        self.assertEqual({w["host"] for w in members(run.wait_size(3))}, {"localhost", "127.0.0.1"})
        run.wait_more_steps(10)

    def connections(self, address, count, said=b""):
        flood = []
        for _ in range(count):
            flood.append(socket.create_connection(address, timeout=5))
            self.addCleanup(flood[-1].close)
            if said:
                flood[-1].sendall(said)
        return flood

    def test_ten_thousand_half_open_connections_take_little_and_real_agents_still_get_in(self):
        with self.start_with_one_host() as run:
            run.wait_size(2)
            memory = resident_mb(run.process.pid)
            self.connections(listening_at(run.process.pid), 10_000)
            self.assertLess(descriptors(run.process.pid), 2_000)
            self.assert_another_agent_gets_in(run)
            self.assertLess(resident_mb(run.process.pid) - memory, 64)
            refused = [line for line in run.text("stderr").splitlines() if "refused" in line]
            self.assertLess(len(refused), 200, "a flood does not fill the terminal")
            self.assert_ends_clean(run)

    def test_hundreds_of_slow_handshakes_do_not_keep_an_agent_out(self):
        with self.start_with_one_host() as run:
            run.wait_size(2)
            # The start of a TLS record of 512 bytes, one byte of it at a time.
            drips = self.connections(listening_at(run.process.pid), 500, said=b"\x16\x03\x01\x02\x00\x01")
            for drip in drips:
                try:
                    drip.sendall(b"\0")
                except OSError:
                    pass
            self.assert_another_agent_gets_in(run)
            self.assert_ends_clean(run)

    def test_a_peer_with_a_wrong_key_is_refused_and_named(self):
        with Run(job()) as run:
            run.wait_size(2)
            address, port = listening_at(run.process.pid)
            for _ in range(3):
                done = subprocess.run(["openssl", "s_client", "-connect", f"{address}:{port}", "-tls1_3", "-psk",
                                       secrets.token_hex(32), "-psk_identity", "elastictrain"], input="hello", text=True,
                                      capture_output=True, timeout=20)
                self.assertNotEqual(done.returncode, 0)
            wait_until(lambda: f"{address}:" in run.text("stderr"), 10, "the refusal in the output")
            run.wait_more_steps(10)
            self.assert_ends_clean(run)

    def test_agents_do_not_follow_another_supervisor_on_their_port(self):
        config = job(timeouts={"orphan_grace_ms": 4000, "grace_ms": 1000})
        with Run(config) as run:
            workers = pids(run.wait_size(2))
            address, port = listening_at(run.process.pid)
            run.signal(signal.SIGKILL)
            run.process.wait()
            impostor = subprocess.Popen(["openssl", "s_server", "-accept", f"{address}:{port}", "-tls1_3", "-nocert", "-psk",
                                         secrets.token_hex(32), "-psk_identity", "elastictrain"], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.addCleanup(impostor.kill)
            run.wait_more_steps(20, timeout=10)
            self.assertTrue(all(is_alive(pid) for pid in workers))
            run.wait_no_processes(timeout=20)
            impostor.terminate()
            said = impostor.communicate(timeout=10)[0]
            self.assertIn("ERROR", said, "the agents tried it")
            self.assertNotIn("CIPHER is", said, "a session came about without the run's key")

    def test_another_user_gets_nothing_from_any_socket(self):
        if os.geteuid() != 0:
            self.skipTest("only root can try another user's access")
        with Run(job()) as run:
            workers = pids(run.wait_size(2))
            agent = next(pid for pid in run.processes() if " agent" in harness.command_of(pid))
            control = os.path.join(run.state, run.name, "control.sock")
            self.assertEqual(as_nobody(control), "refused")
            doors = {name for pid in [agent, *workers] for name in unix_sockets_of(pid)}
            self.assertGreaterEqual(len(doors), 4, "a socket of the agent and one of the data plane for each worker")
            for name in doors:
                # A listener of the data plane accepts no connection between two generations: the attacker gets no answer.
                wanted = ("open", "closed") if name.startswith("\0") else ("refused",)
                self.assertIn(as_nobody(name), wanted, name)
            # The check of credentials must hold even if the directories do not protect the sockets.
            for directory in (run.directory, run.state, os.path.dirname(control)):
                os.chmod(directory, 0o755)
            os.chmod(control, 0o777)
            self.assertEqual(as_nobody(control, b'{"command":"stop","now":true}\n'), "closed")
            run.wait_more_steps(10)
            self.assert_ends_clean(run)

    def test_strangers_that_crowd_the_data_plane_keep_no_member_out(self):
        with Run(job()) as run:
            for pid in pids(run.wait_size(2)):
                self.crowd(socket.AF_INET, listening_at(pid))
                for name in unix_sockets_of(pid):
                    self.crowd(socket.AF_UNIX, name)
            run.do("resize", run.name, 4)
            run.wait_size(4)
            run.wait_more_steps(10)
            self.assert_ends_clean(run)

    def test_a_host_file_that_blocks_or_has_no_end_keeps_nobody_from_anything(self):
        hosts = HostList(self, "localhost:2")
        with Run(job(workers=(1, 2, 3), hosts={"file": hosts.path, "discover_interval_ms": 100})) as run:
            before = pids(run.wait_size(2))
            os.mkfifo(hosts.path + ".pipe")
            os.replace(hosts.path + ".pipe", hosts.path)
            reads = lambda pid: harness.command_of(pid).startswith("cat") and hosts.path in harness.command_of(pid)
            reader = wait_until(lambda: [pid for pid in run.processes() if reads(pid)], 20, "a reader that blocks")[0]
            run.wait_more_steps(20)
            run.do("status", run.name)
            self.assertTrue(is_alive(reader))
            os.symlink("/dev/zero", hosts.path + ".endless")
            with open(hosts.path, "w"):
                os.replace(hosts.path + ".endless", hosts.path)
            run.wait_text("bytes")
            self.assertRegex(run.text(), "cannot read the host file .*: it has more than [0-9]+ bytes")
            hosts.offer("localhost:2", "127.0.0.1:1")
            run.do("resize", run.name, 3)
            self.assertEqual(pids(run.wait_size(3))[:2], before)
            self.assert_ends_clean(run)

    def crowd(self, family, address):
        """As many connections as fit into the listener's queue."""
        for _ in range(1100):
            stranger = socket.socket(family)
            stranger.setblocking(False)
            self.addCleanup(stranger.close)
            try:
                stranger.connect(address)
            except BlockingIOError:
                if family == socket.AF_UNIX:
                    return


if __name__ == "__main__":
    harness.main()
