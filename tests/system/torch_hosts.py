"""Stands for the agents of several hosts, on this one: runs a worker's command once for each of them, with the environment that agents give
it. Nothing ends the processes of the other hosts but themselves.

    torch_hosts.py COUNT COMMAND…"""

import os
import secrets
import socket
import subprocess
import sys
import tempfile

HOSTS = "ET_TORCH_HOSTS"  # of each replica in a test's programs; none: one


def count():
    return int(os.environ.get(HOSTS, "1"))


def spread(command):
    """The command of a program whose replicas are on as many hosts as the test says."""
    return [sys.executable, os.path.abspath(__file__), str(count()), *command] if count() > 1 else command


def main(hosts, command):
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    held.bind(("127.0.0.1", 0))
    held.set_inheritable(True)
    key, folder = secrets.token_hex(32), tempfile.mkdtemp()
    environments = []
    for number in range(hosts):
        path = os.path.join(folder, str(number))
        with open(path, "w", encoding="ascii") as file:
            file.write(key)
        environments.append({
            **os.environ, "ELASTICTRAIN_REPLICA_HOSTS": str(hosts), "ELASTICTRAIN_REPLICA_HOST": str(number),
            "ELASTICTRAIN_REPLICA_ADDRESS": f"127.0.0.1:{held.getsockname()[1]}", "ELASTICTRAIN_REPLICA_KEY_FILE": path,
            "ELASTICTRAIN_REPLICA_INTERFACE": "lo", "ELASTICTRAIN_REPLICA_TIMEOUT_MS": "60000"})
    for environment in environments[1:]:
        environment.pop("ELASTICTRAIN_SOCKET", None)
        subprocess.Popen(command, env=environment)
    os.execvpe(command[0], command, environments[0])


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
