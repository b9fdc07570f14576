"""`check` is right: what it calls good starts, and what it says cannot start does not. Each configuration goes through both."""

import concurrent.futures
import os
import shutil
import socket
import subprocess
import tempfile

import harness
from harness import BINARY, Case, Run, job, toml

# A host is a directory with programs of its own; one without a directory does not answer.
REACH = """#!/bin/sh
[ -d "$HOSTS/$1" ] || { echo "no route to host $1" >&2; exit 255; }
PATH=$HOSTS/$1:$PATH
shift
exec "$@"
"""
FILES = {
    "ends": "#!/bin/sh\nexit 0\n",
    "closed": "#!/bin/sh\n",
    "gone": "#!/no/such/python3\n",
    "unknown": "#!/usr/bin/env no-such-interpreter\n",
    "returns": "#!/bin/sh\r\nexit 0\r\n",
    "ends.py": "print('ends')\n",
    "data.csv": "0,1,0\n1,0,1\n" * 64,
    "names_none": "#!/bin/sh\n",
    "names_one": "#!/bin/sh\necho h1:1\n",
    "fails": "#!/bin/sh\nexit 3\n",
    "env": "GOOD=1\n",
    "hosts.txt": "h1 slots=1\nh2 slots=1\n",
    "empty.txt": "# no host\n",
    "hosts/h1/tool": "#!/bin/sh\nsleep 1\n",
    "hosts/h1/both": "#!/bin/sh\nexit 0\n",
    "hosts/h2/both": "#!/bin/sh\nexit 0\n",
}
PYTHON_FINDS_NO_SCRIPT = 2
NOT_EXECUTABLE = ("closed", "ends.py", "data.csv", "env", "hosts.txt")
HOSTS = {"launcher": {"kind": "command", "command": ["./reach", "{host}"]}}
TRAINS = {"trainer": {"samples": 64, "max_steps": 2, "hidden": "4"}}


def on_hosts(*hosts, **sections):
    return {**HOSTS, "hosts": {"list": list(hosts)}, **sections}


def trains(**trainer):
    return {"trainer": {**TRAINS["trainer"], **trainer}}


# What the configuration is about: its words, its file, and whether it starts.
CONFIGURATIONS = (
    ("a program of this directory", "-n 2 -- ./ends", {}, True),
    ("a program of PATH", "-n 2 -- true", {}, True),
    ("no such file", "-n 2 -- ./nothing", {}, False),
    ("no such program in PATH", "-n 1 -- no-such-program", {}, False),
    ("a file that may not be executed", "-n 1 -- ./closed", {}, False),
    ("a directory for a program", "-n 1 -- ./hosts", {}, False),
    ("an interpreter that is gone", "-n 2 -- ./gone", {}, False),
    ("an interpreter that is not in PATH", "-n 1 -- ./unknown", {}, False),
    ("line ends of Windows", "-n 1 -- ./returns", {}, False),
    ("an environment whose Python is gone", "-n 1 -- ./venv/bin/python3 ends.py", {}, False),
    ("a script of Python", "-n 2 -- python3 ends.py", {}, True),
    ("no such script of Python", "-n 1 -- python3 nothing.py", {}, False),
    ("another directory", "-n 1 --chdir hosts/h1 -- ./tool", {}, True),
    ("a directory that is not there", "-n 1 --chdir /no/such -- true", {}, False),
    ("an interface that is not there", "-n 1 --interface nosuch0 -- true", {}, False),
    ("fewer slots than workers.min", "-n 4 -H localhost:2 -- true", {}, False),
    ("fewer slots than workers.max", "-n 1:4 -H localhost:2 -- true", {}, True),
    ("the case of the report", "", {"command": ["./nothing"], "workers": {"min": 8, "max": 8}, "hosts": {"list": ["localhost:2"]}},
     False),
    ("two hosts", "-n 2 -- both", on_hosts("h1:1", "h2:1"), True),
    ("two of three hosts do not answer", "-n 1:3 -- both", on_hosts("h1:1", "h8:1", "h9:1"), True),
    ("two of three hosts do not answer, and two must", "-n 2:3 -- both", on_hosts("h1:1", "h8:1", "h9:1"), False),
    ("no host answers", "-n 1 -- true", on_hosts("h9:1"), False),
    ("one host lacks the program", "-n 1:2 -- tool", on_hosts("h1:1", "h2:1"), True),
    ("one host lacks the program, and both must", "-n 2 -- tool", on_hosts("h1:1", "h2:1"), False),
    ("a host file", "-n 2 --hostfile hosts.txt -- both", HOSTS, True),
    ("a host file without a host", "-n 2 --hostfile empty.txt -- both", HOSTS, False),
    ("a host file that is not there", "-n 2 --hostfile nothing.txt -- both", HOSTS, False),
    ("hosts that a program names", "-n 1 --discover ./names_one -- tool", HOSTS, True),
    ("a program that names no hosts", "-n 1 --discover ./names_none --start-timeout 2 -- tool", HOSTS, False),
    ("a program for hosts that fails", "-n 1 --discover ./fails --start-timeout 2 -- tool", HOSTS, False),
    ("generated data", "-n 2", trains(), True),
    ("data of a file", "-n 1", trains(train="data.csv"), True),
    ("data that are not there", "-n 1", trains(train="nothing.csv"), False),
    ("test data that are not there", "-n 1", trains(train="data.csv", test="nothing.csv"), False),
    ("a directory for checkpoints", "-n 1", {**trains(), "checkpoint": {"directory": "saved"}}, True),
    ("a file where checkpoints go", "-n 1", {**trains(), "checkpoint": {"directory": "env/saved"}}, False),
    ("another run's checkpoints", "-n 1", {**trains(), "checkpoint": {"directory": "others"}}, False),
    ("a directory for logs", "-n 1 --log-dir logs -- true", {}, True),
    ("a file where logs go", "-n 1 --log-dir env/logs -- true", {}, False),
    ("a name that is in use", "-n 1 --name {live} -- true", {}, False),
    ("a state directory that cannot be made", "-n 1 -- true", {"environment": {"STATE": "/dev/null/state"}}, False),
    ("a port that is in use", "-n 1 --set network.port={port} -- true", {}, False),
    ("a file of variables", "-n 1 --env-file env -- true", {}, True),
    ("a file of variables that is not there", "-n 1 --env-file nothing -- true", {}, False),
    ("an unknown policy", "-n 1 --set policy.name=nonsense -- true", {}, False),
    ("a batch launcher outside of a job", "-n 1 --launcher batch -- true", {}, False),
    ("a key of ssh that is not there", "-n 1 -H 127.0.0.2 --ssh-identity nothing -- true", {}, False),
    ("a cluster that is not there", "-n 1 --cluster nothing -- true", {}, False),
    ("limits that contradict each other", "-n 3:2 -- true", {}, False),
)


class Check(Case):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="et-check-")
        self.addCleanup(shutil.rmtree, self.directory)
        for name, text in {**FILES, "reach": REACH}.items():
            self.write(name, text)
            if name not in NOT_EXECUTABLE:
                os.chmod(self.path(name), 0o755)
        os.makedirs(self.path("venv/bin"))
        os.symlink("/no/such/python3", self.path("venv/bin/python3"))
        os.mkdir(self.path("others"))

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", newline="") as file:
            file.write(text)

    def ask(self, command, number, environment):
        """Both see the same words, and a file if it says anything."""
        _, words, sections, _ = CONFIGURATIONS[number]
        if "STATE" in sections.get("environment", ()):
            environment = {**environment, "ELASTICTRAIN_STATE_DIR": sections["environment"]["STATE"]}
            sections = {}
        head, mark, program = words.partition("-- ")
        if mark:
            sections = {**sections, "command": program.split()}
        self.write(f"{number}.toml", toml(sections))
        argv = [BINARY, command, f"{number}.toml", *head.format_map(self.values).split()]
        done = subprocess.run(argv, cwd=self.directory, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=120, env=environment)
        return done.returncode, done.stdout

    def disagreement(self, number, environment):
        """Nothing, or what does not fit."""
        what, _, _, starts = CONFIGURATIONS[number]
        said, text = self.ask("check", number, environment)
        ended, output = self.ask("run", number, environment)
        agrees = said == ended or ended == PYTHON_FINDS_NO_SCRIPT
        if agrees and (said == 0) == (ended == 0) == starts == ("verdict: good" in text):
            return None
        return f"{what}: check said {said}, run ended with {ended}\n{text}\n{output}"

    def test_verdict_and_outcome_agree(self):
        live = job(workers=(1, 1, 1), command=["sleep", "1000"], checkpoint={"directory": self.path("others")})
        with Run(live) as run, socket.socket() as taken:
            run.wait_status(lambda status: status["workers"], what="the run beside which the others start")
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.values = {"live": run.name, "port": taken.getsockname()[1]}
            environment = {**os.environ, **run.environment, "HOSTS": self.path("hosts")}
            with concurrent.futures.ThreadPoolExecutor(3) as pool:
                found = list(pool.map(lambda number: self.disagreement(number, environment), range(len(CONFIGURATIONS))))
            run.do("stop", "--now", run.name)
            run.wait()
        self.assertEqual([text for text in found if text], [], "\n\n".join(text for text in found if text))


if __name__ == "__main__":
    harness.main()
