"""Mistakes of users and operators as a table: the command, what is said, the exit status. The next step is in the message."""

import os
import shutil
import subprocess
import tempfile
import unittest

import harness
from harness import BINARY, Case, Run, job

FILES = {
    "unknown_key.toml": "[workers]\nstrat = 2\n",
    "wrong_type.toml": '[workers]\nstart = "two"\n',
    "not_closed.toml": "[workers\n",
    "policy.toml": '[policy]\nname = "efficency"\n[trainer]\nmodel = "synthetic"\n',
    "checkpoints.toml": '[trainer]\nmodel = "synthetic"\n[checkpoint]\ndirectory = "unknown_key.toml/below"\n',
    "no_program": "no program\n",
    "empty.txt": "# no host\n",
    "wrong_slots.txt": "h1 slots=two\n",
    "wrong_word.txt": "h1 slot=2\n",
    "negative.toml": "[workers]\nmin = -1\n",
    "section.toml": "[worker]\nmin = 1\n",
    "number.toml": "workers = 3\n",
    "twice.toml": "[workers]\nmin = 1\nmin = 2\n",
    "text.toml": 'command = "python3 train.py"\n',
    "no_directory.toml": '[checkpoint]\ninterval_steps = 5\n[trainer]\nsamples = 64\n',
    "gone": "#!/no/such/python3\n",
    "users": "bob@hostA slots=2\n",
    "traceback.py": "import os\nif os.environ['RANK'] == '1':\n    raise ValueError('an unknown mistake')\n"
                    "import time\ntime.sleep(60)\n",
}

# Nothing trains. Words of the command, what is said, the exit status.
WITHOUT_A_RUN = (
    ("run", "e.g. elastictrain run -n 4 -- ./train", 64),
    ("rnu job.toml", "did you mean run?", 64),
    ("run --bacth 3 true", "did you mean --batch?", 64),
    ("run -n 5:2 true", "workers.min = 5 (-n 5:2) must be at most workers.max = 2", 64),
    ("run -n 0 true", "a whole number of workers from 1", 64),
    ("run --set nonsense true", "write --set KEY=VALUE, e.g. --set batch.per_worker=64", 64),
    ("run --set batch.per_wroker=3 true", 'did you mean "per_worker"', 64),
    ("run --set checkpoint.every=3 true", 'unknown key "every" in [checkpoint]; its keys: directory, interval_steps', 64),
    ("run --on-failure retry true", 'must be one of "replace", "shrink", "stop"', 64),
    ("run -n 2 no-such-program", "one that only the hosts have is written after --", 64),
    ("run -n 2 -- ./no_program", "allow it: chmod +x ./no_program", 126),
    ("run -n 2 -- no-such-program", "is not found in PATH (", 127),
    ("run -n 2 -- ./gone", "on localhost could not be started: ./gone asks for the interpreter /no/such/python3", 127),
    ("run -n 2 --chdir /no/such -- true", "the directory in which it is to start, /no/such, does not exist", 69),
    ("run -n 2 --interface nosuch0 -- true", 'has no network interface "nosuch0"; there are: ', 69),
    ("run -n two true", "write a number of workers, or MIN:MAX, e.g. -n 4 or -n 2:8", 64),
    ("run --grace soon true", "write 90 (seconds), 250ms, 5m or 1h30m", 64),
    ("run --name ../x true", "use up to 64 letters, digits", 64),
    ("run --bind socket true", 'must be one of "none", "core", "numa", "auto"', 64),
    ("run -x A-B=1 true", "write NAME=value", 64),
    ("run --forward-signals FOO true", "use USR1, USR2, ABRT", 64),
    ("run --max-restarts crash:x true", "optionally with a window (crash:3/10m)", 64),
    ("run --endpoint 127.0.0.1:99999 true", "is not HOST:PORT", 64),
    ("run --env-file nothing true", "environment.file nothing: cannot be read: No such file", 66),
    ("run --hostfile empty.txt true", "host file empty.txt names no host; write one on each line, e.g. hostA slots=4", 78),
    ("run --hostfile wrong_slots.txt true", 'wrong_slots.txt:1: slots must be a number from 1 to 4096, not "two"', 78),
    ("run --hostfile wrong_word.txt true", '"slot=2" is not known; write slots=N', 78),
    ("run negative.toml", "negative.toml:2:1: workers.min must be a whole number of workers from 1", 78),
    ("run section.toml", 'section.toml:1:2: unknown section [worker]; did you mean "workers"?', 78),
    ("run number.toml", 'number.toml:1:1: "workers" is a section: write [workers]', 78),
    ("run twice.toml", "twice.toml:3:7: ", 78),
    ("run text.toml", "text.toml:1:1: command must be a list of strings", 78),
    ("run no_directory.toml", "(no_directory.toml:2:1) needs checkpoint.directory", 78),
    ("explain --journal nothing", "nothing: cannot be read: No such file or directory", 66),
    ("run missing.toml", "missing.toml: cannot be read: No such file", 66),
    ("run unknown_key.toml", 'unknown_key.toml:2:1: unknown key "strat" in [workers]; did you mean "start"', 78),
    ("run wrong_type.toml", "wrong_type.toml:2:1: workers.start must be a whole number", 78),
    ("check not_closed.toml", "not_closed.toml:1:9: ", 78),
    ("run folder.toml", "folder.toml: cannot be read: it is a directory", 66),
    ("run policy.toml", 'did you mean "efficiency"?', 78),
    ("run checkpoints.toml", "choose another directory, or make this one writable", 73),
    ("run --log-dir /proc/nothing true", "log.directory /proc/nothing cannot be created", 73),
    ("run -n 4 -H localhost:2 true", "Add hosts or slots, or lower workers.min", 69),
    ("run -n 1 -H no-such-host.invalid:1 true", "host no-such-host.invalid could not be used: ssh", 69),
    ("run -n 1 -H bob@hostA:1 true", "name it once: --ssh-user bob (launcher.ssh_user)", 64),
    ("run -n 1 --hostfile users true", "name it once: --ssh-user bob (launcher.ssh_user)", 78),
    ("run -n 1 -H 127.0.0.2:1 --ssh-identity no-such-key true", "launcher.ssh_identity no-such-key: No such file", 78),
    ("run -n 2 python3 traceback.py", "exited with status 1: ValueError: an unknown mistake", 1),
    ("run -n 1 -- sh -c 'kill -SEGV $$'", "was killed by signal 11 (SIGSEGV)", 139),
    ("run --name done true", "all processes of the program exited (status 0)", 0),
    ("run --resume done", "there is nothing to resume. To start it again from the beginning, omit --resume", 69),
    ("events done --level loud", "must be one of detail, info, warning, error", 64),
    ("events done --type nosuch", "no event is named nosuch; elastictrain events --reference", 64),
    ("events done --type comit", "did you mean commit?", 64),
    ("events --cluster c --type leesed", "did you mean leased?", 64),
    ("resize done 4", "run done has ended: all processes of the program exited (status 0), ", 69),
    ("stop done", "; its summary: elastictrain status done", 69),
    ("attach done", "run done has ended", 69),
    ("stop dnoe", "no live run is named dnoe; did you mean done?", 69),
    ("logs dnoe", "did you mean done?", 69),
    ("prune dnoe", "did you mean done?", 69),
    ("run --resume dnoe", "did you mean done?", 69),
    ("prune --force", "prune --force NAME", 64),
    ("status done > /dev/full", "standard output cannot be written", 1),
    ("completion bash > /dev/full", "standard output cannot be written", 1),
    ("run --help > /dev/full", "standard output cannot be written", 1),
    ("run --resume nowhere", "elastictrain list names all runs", 69),
    ("resize 4", "start one with: elastictrain run config.toml; the last one: run ", 69),
    ("status nowhere", "no live run is named nowhere; elastictrain list names all", 69),
    ("logs nowhere", "elastictrain list names all", 69),
    ("prune nowhere", "elastictrain list names all", 69),
    ("completion tcsh", "e.g. source <(elastictrain completion bash)", 64),
    ("queue", "start one with: elastictrain cluster cluster.toml", 69),
    ("simulate missing.csv --policy srtf --gpus 4", "missing.csv: there is no such file", 66),
)

# A run of two workers on one host trains.
BESIDE_A_RUN = (
    ("resize 9", "workers.max", 1),
    ("replace 7", "rank 7", 1),
    ("drain nowhere", "there is no host nowhere in this run", 1),
    ("drain localhost", "at least 1 worker must train", 1),
    ("drain localhots", "there is no host localhots in this run; did you mean localhost?", 1),
    ("replace localhots", "there is no host localhots in this run; did you mean localhost?", 1),
    ("undrain nowhere", "there is no host nowhere in this run", 1),
    ("undrain localhost", "host localhost is not drained", 1),
    ("topology pentagon", "pentagon", 64),
    ("prune {name}", "has not ended (running); end it with: elastictrain stop {name}", 1),
    ("prune --force {name}", "has not ended", 1),
    ("status {name} > /dev/full", "standard output cannot be written", 1),
    ("run --resume {name}", "run {name} is live, and there is nothing to resume", 69),
    ("run -n 1 --name {name} true", "{name}", 69),
)


NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")

# By a user who may not read the state directory.
OF_ANOTHER_USER = ("list", "status", "status work", "logs work", "stop", "report work", "run --resume", "prune", "queue",
                   "run -n 1 true")


class Mistakes(Case):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="et-mistakes-")
        self.addCleanup(shutil.rmtree, self.directory)
        for name, text in FILES.items():
            with open(os.path.join(self.directory, name), "w") as file:
                file.write(text)
        os.chmod(os.path.join(self.directory, "gone"), 0o755)
        os.mkdir(os.path.join(self.directory, "folder.toml"))

    def ask(self, line, environment, user=()):
        return subprocess.run([*user, "sh", "-c", f'exec "$ELASTICTRAIN_BINARY" {line}'], cwd=self.directory, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=120,
                              env={**os.environ, "ELASTICTRAIN_BINARY": BINARY, **environment})

    def check(self, table, environment, name=""):
        for line, said, status in table:
            line, said = line.replace("{name}", name), said.replace("{name}", name)
            with self.subTest(line):
                done = self.ask(line, environment)
                self.assertIn(said, done.stderr + done.stdout)
                self.assertEqual(done.returncode, status, done.stderr)

    def test_without_a_run(self):
        self.check(WITHOUT_A_RUN, {"ELASTICTRAIN_STATE_DIR": os.path.join(self.directory, "state")})

    def test_beside_a_run(self):
        with Run(job()) as run:
            run.wait_size(2)
            self.check(BESIDE_A_RUN, run.environment, run.name)
            self.assert_stops_clean(run)

    @unittest.skipUnless(os.geteuid() == 0, "only root can be another user as well")
    def test_a_state_directory_of_another_user(self):
        os.chmod(self.directory, 0o755)
        state = os.path.join(self.directory, "state")
        environment = {"ELASTICTRAIN_STATE_DIR": state}
        self.assertEqual(self.ask("run --name work -n 1 true", environment).returncode, 0)
        os.chmod(state, 0o700)
        for line in OF_ANOTHER_USER:
            with self.subTest(line):
                done = self.ask(line, environment, NOBODY)
                self.assertEqual(done.returncode, 77, done.stderr)
                self.assertRegex(done.stderr, "belongs to user root, and user .* may not read it; set ELASTICTRAIN_STATE_DIR")
        os.chmod(state, 0o755)  # the directory of the run is closed
        self.assertRegex(self.ask("list", environment, NOBODY).stdout, r"(?m)^work +unreadable ")
        for line in ("status work", "stop work", "events work", "prune --force work"):
            with self.subTest(line):
                done = self.ask(line, environment, NOBODY)
                self.assertEqual(done.returncode, 77, done.stderr)
                self.assertIn("belongs to ", done.stderr)

    def test_a_misspelt_variable_is_named(self):
        environment = {"ELASTICTRAIN_STATE_DIR": self.directory, "ELASTICTRAIN_BATCH_PER_WROKER": "3"}
        self.assertIn("ELASTICTRAIN_BATCH_PER_WORKER", self.ask("run -n 1 true", environment).stderr)

    def test_a_traceback_is_shown_once(self):
        done = self.ask("run -n 2 python3 traceback.py", {"ELASTICTRAIN_STATE_DIR": self.directory})
        self.assertEqual((done.stderr + done.stdout).count("Traceback"), 1)
        self.assertNotIn("last error output", done.stderr + done.stdout)


if __name__ == "__main__":
    harness.main()
