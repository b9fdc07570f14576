"""The run's key is in no command line, environment, log or file that others could read."""

import os
import re
import stat
import subprocess

import harness
from harness import Case, Run, command_of, environ_of, job, pids

# ELASTICTRAIN_HOST_KEY is not secret: it identifies the workers that share memory.
HEX_KEY = re.compile(rb"(?<![0-9a-fA-F])[0-9a-fA-F]{64}(?![0-9a-fA-F])")


def listening_addresses(pids_wanted):
    """Local addresses on which one of these processes listens for TCP."""
    inodes = set()
    for pid in pids_wanted:
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            try:
                target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table) as file:
            for row in list(file)[1:]:
                fields = row.split()
                if fields[3] == "0A" and fields[9] in inodes:
                    found.append(fields[1].split(":")[0])
    return found


def own_variables(pid):
    """Its environment without variables inherited from the caller of this test."""
    inherited = {f"{name}={value}".encode() for name, value in os.environ.items()}
    return b"\0".join(variable for variable in environ_of(pid).split(b"\0") if variable not in inherited)


class Secrets(Case):
    def test_no_key_shows_up_in_command_lines_and_environments(self):
        with Run(job()) as run:
            run.wait_size(2)
            for pid in run.processes() + [run.process.pid]:
                for text in (command_of(pid).encode(), own_variables(pid)):
                    self.assertIsNone(HEX_KEY.search(text.replace(run.token.encode(), b"")), text)
                    self.assertNotRegex(text, rb"(?i)(psk|secret|(?<!HOST_)key)=[^\0]{16,}")
            run.do("stop", run.name)
            run.wait()

    def files_with_a_key(self, directory):
        """Checks that all files are accessible to the owner only. Returns the names of those that contain a key."""
        found = set()
        self.assertEqual(stat.S_IMODE(os.stat(directory).st_mode), 0o700)
        for folder, _, files in os.walk(directory):
            for name in files:
                path = os.path.join(folder, name)
                self.assertEqual(stat.S_IMODE(os.lstat(path).st_mode) & 0o077, 0, path)
                if stat.S_ISREG(os.lstat(path).st_mode):
                    with open(path, "rb") as file:
                        if HEX_KEY.search(file.read()):
                            found.add(name)
        return found

    def test_only_the_record_holds_the_key_and_only_while_the_run_lives(self):
        with Run(job()) as run:
            run.wait_size(2)
            directory = os.path.join(run.state, run.name)
            self.assertEqual(self.files_with_a_key(directory), {"run.json"})
            run.do("stop", run.name)
            run.wait()
            self.assertEqual(self.files_with_a_key(directory), set())

    def test_worker_sockets_are_in_private_directories(self):
        with Run(job()) as run:
            worker = pids(run.wait_size(2))[0]
            variables = dict(v.split(b"=", 1) for v in environ_of(worker).split(b"\0") if b"=" in v)
            folder = os.path.dirname(variables[b"ELASTICTRAIN_SOCKET"].decode())
            self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), 0o700)
            run.do("stop", run.name)
            run.wait()

    def test_a_local_run_listens_on_loopback_only(self):
        with Run(job()) as run:
            run.wait_size(2)
            found = listening_addresses(run.processes() + [run.process.pid])
            self.assertTrue(found)
            for address in found:
                self.assertIn(address, ("0100007F", "00000000000000000000000001000000"))
            run.do("stop", run.name)
            run.wait()

    def test_another_user_cannot_use_the_control_socket(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to become another user")
        with Run(job()) as run:
            run.wait_size(2)
            os.chmod(run.directory, 0o755)
            os.chmod(run.state, 0o755)
            done = subprocess.run([harness.BINARY, "stop", run.name], user=65534, group=65534, extra_groups=[],
                                  env={**os.environ, **run.environment}, capture_output=True, text=True, timeout=20)
            self.assertNotEqual(done.returncode, 0)
            run.wait_more_steps(10)
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 0)


if __name__ == "__main__":
    harness.main()
