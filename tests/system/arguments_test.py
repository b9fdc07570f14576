"""Missing, surplus and malformed arguments of every command: status 64, and a message that says what to write."""

import os
import subprocess
import tempfile

import harness
from harness import BINARY, Case

TOPOLOGIES = "auto, star, ring, tree"

# Arguments, and parts of the message.
MISTAKES = [
    ("", "say what to do", "elastictrain run config.toml", "resize"),
    ("fly", "unknown command 'fly'", "status"),
    ("resiz 4", "unknown command 'resiz'", "did you mean resize?"),
    ("--vresion", "unknown flag --vresion", "did you mean --version?"),
    ("resize", "say how many workers, e.g. elastictrain resize 4"),
    ("resize many", "'many' is not a number of workers", "elastictrain resize 4"),
    ("resize job 2.5", "'2.5' is not a number of workers"),
    ("resize -3", "'-3'", "say how many workers"),
    ("resize 0", "the minimum is 1 worker", "elastictrain stop"),
    ("resize job 4 5", "unexpected argument '5'", "write [NAME] N"),
    ("resize --workers 4", "unknown flag --workers"),
    ("replace", "say which rank or host to replace, e.g. elastictrain replace 1"),
    ("replace -1", "'-1'", "say which rank or host to replace"),
    ("replace job 1 2", "unexpected argument '2'", "write [NAME] RANK|HOST"),
    ("drain", "say which host to drain, e.g. elastictrain drain hostA"),
    ("drain job a b", "unexpected argument 'b'", "write [NAME] HOST"),
    ("undrain", "say which host to use again, e.g. elastictrain undrain hostA"),
    ("undrain job a b", "unexpected argument 'b'", "write [NAME] HOST"),
    ("topology", "say which topology, e.g. elastictrain topology ring"),
    ("topology circle", "'circle' is not a topology", TOPOLOGIES, "the parent of each rank"),
    ("topology job ring star", "unexpected argument 'star'", "write [NAME] SHAPE"),
    ("stop one two", "unexpected argument 'two'", "stop takes only [NAME]"),
    ("stop --nwo", "unknown flag --nwo", "did you mean --now?"),
    ("status one two", "unexpected argument 'two'", "status takes only [NAME]"),
    ("status --interval", "--interval needs a value: --interval SECONDS"),
    ("status --interval soon", "'soon' is not a number of seconds from 0.1 to 3600"),
    ("status --interval 0", "'0' is not a number of seconds"),
    ("list all", "unexpected argument 'all'", "list takes no arguments"),
    ("list --jsno", "unknown flag --jsno", "did you mean --json?"),
    ("logs one two", "unexpected argument 'two'", "logs takes only [NAME]"),
    ("logs --rank all-but-one", "--rank: "),
    ("logs --since yesterday", "--since: 'yesterday' is neither a duration, e.g. 10m, nor a time"),
    ("logs --tail few", "--tail: 'few' is not a number of lines"),
    ("attach one two", "unexpected argument 'two'", "attach takes only [NAME]"),
    ("prune --older soon", "--older: 'soon' is not a duration"),
    ("events one two", "unexpected argument 'two'", "events takes only [NAME]"),
    ("events --since yesterday", "--since: 'yesterday' is neither a duration, e.g. 10m, nor a time"),
    ("explain one two", "unexpected argument 'two'", "explain takes only [NAME]"),
    ("explain --set threshold", "--set threshold: write --set KEY=VALUE"),
    ("explain --journal", "--journal needs a value: --journal FILE"),
    ("completion", "say which shell", "elastictrain completion bash"),
    ("completion tcsh", "'tcsh' is not bash, zsh or fish"),
    ("completion bash zsh", "unexpected argument 'zsh'"),
    ("worker config.toml", "unexpected argument 'config.toml'", "worker takes no arguments"),
    ("worker --epochs", "--epochs needs a value"),
    ("worker --epochs=none", "--epochs: 'none' is not a whole number of 1 to 1000000"),
    ("worker --epoch 3", "unknown flag --epoch", "did you mean --epochs?"),
    ("worker --model tree", "--model: 'tree' is not one of: mlp"),
    ("run", "elastictrain run: nothing to run", "elastictrain run -n 4 -- ./train"),
    ("run config.toml ./train", "unexpected argument './train'", "a program after --"),
    ("run /etc/hostname.none/a", "/etc/hostname.none/a: cannot be read", "is no program here",
     "-- /etc/hostname.none/a"),
    ("run ./no-such-program", "./no-such-program: cannot be read: No such file or directory",
     "-- ./no-such-program"),
    ("run -n", "--np needs a value: --np N|MIN:MAX"),
    ("run -n few -- true", "elastictrain run: -n few: write a number of workers, or MIN:MAX"),
    ("run -n 4:2 -- true", "workers.min = 4 (-n 4:2) must be at most workers.max = 2"),
    ("run --grace -- true", "--grace needs a value: --grace TIME"),
    ("run --grace soon -- true", "--grace: 'soon' is not a duration", "5m"),
    ("run --name one --name two -- true", "--name is given more than once"),
    ("run --launcher pigeon -- true", "--launcher pigeon: launcher.kind must be one of", "ssh"),
    ("run --set batch -- true", "--set batch: write --set KEY=VALUE"),
    ("run --set batch.per_workr=3 -- true", "unknown key \"per_workr\"", "did you mean \"per_worker\""),
    ("run -x 1A=2 -- true", "-x 1A=2", "write NAME=value"),
    ("run --max-restarts often -- true", "--max-restarts often: write a number"),
    ("run --hots a -- true", "unknown flag --hots", "did you mean --hosts?"),
    ("check", "elastictrain check: nothing to run"),
    ("check --script", "--script: name a Python script"),
    ("check --script -- true", "--script: name a Python script"),
    ("check config.toml more.toml", "unexpected argument 'more.toml'"),
    ("plan", "elastictrain plan: nothing to run"),
    ("plan --goal", "--goal needs a value: --goal GOAL"),
    ("plan --goal best -- true", "--goal best", "\"fastest\""),
    ("plan --deadline soon", "--deadline: 'soon' is not a duration"),
    ("plan --deadline 1h --budget 3", "--deadline excludes --budget", "remove one"),
    ("plan --noise-scale loud", "'loud' is not a number of samples above 0"),
    ("plan --noise-scale -1", "'-1' is not a number of samples above 0"),
]

COMMANDS = ("run", "check", "plan", "status", "resize", "replace", "drain", "undrain", "topology", "stop", "list", "logs",
            "attach",
            "events", "explain", "prune", "worker", "completion")

# What CLI11 prints by itself: internal names of arguments, and texts that do not help.
FOREIGN = ("words", "is required", " required ", "not in range", "not expected", "Could not convert")


class Arguments(Case):
    def elastictrain(self, line):
        with tempfile.TemporaryDirectory() as state:
            return subprocess.run([BINARY, *line.split()], capture_output=True, text=True, timeout=60, cwd=state,
                                  stdin=subprocess.DEVNULL, env={**os.environ, "ELASTICTRAIN_STATE_DIR": state})

    def test_a_mistake_is_named_with_what_would_be_right(self):
        for line, *parts in MISTAKES:
            with self.subTest(line):
                done = self.elastictrain(line)
                self.assertEqual(done.returncode, 64, done.stderr)
                self.assertEqual(done.stdout, "")
                command = line.split()[0] if line.split()[:1] and line.split()[0] in COMMANDS else ""
                self.assertTrue(done.stderr.startswith(f"elastictrain {command}".strip() + ": "), done.stderr)
                self.assertIn("--help", done.stderr)
                for part in parts:
                    self.assertIn(part, done.stderr)
                for part in FOREIGN:
                    self.assertNotIn(part, done.stderr)

    def test_what_people_try_first_works(self):
        version = self.elastictrain("--version").stdout
        for line in ("version", "-V"):
            self.assertEqual(self.elastictrain(line).stdout, version)
        self.assertEqual(self.elastictrain("help").stdout, self.elastictrain("--help").stdout)
        self.assertEqual(self.elastictrain("help resize").stdout, self.elastictrain("resize --help").stdout)
        self.assertEqual(self.elastictrain("ps").returncode, 0)

    def test_every_command_is_in_the_table(self):
        self.assertEqual(set(COMMANDS), {line.split()[0] for line, *_ in MISTAKES if line} & set(COMMANDS))
        help_text = self.elastictrain("--help").stdout
        for command in COMMANDS:
            self.assertRegex(help_text, rf"(?m)^  {command} ")

    def test_help_names_arguments_as_users_do(self):
        for command, usage in (("resize", "[NAME] N"), ("replace", "[NAME] RANK|HOST"), ("drain", "[NAME] HOST"),
                               ("undrain", "[NAME] HOST"),
                               ("topology", "[NAME] SHAPE"), ("status", "[NAME]"), ("run", "[CONFIG.toml]"),
                               ("completion", "bash|zsh|fish")):
            with self.subTest(command):
                first = self.elastictrain(f"{command} --help").stdout.split("Usage: ")[1].splitlines()[0]
                self.assertEqual(first, f"elastictrain {command} [OPTIONS] {usage}")

    def test_a_command_without_a_run_says_how_to_start_one(self):
        for line in ("resize 4", "replace 0", "drain hostA", "undrain hostA", "topology ring", "stop", "status", "attach"):
            with self.subTest(line):
                done = self.elastictrain(line)
                self.assertEqual(done.returncode, 69)
                self.assertIn("no run is live; start one with: elastictrain run config.toml", done.stderr)


if __name__ == "__main__":
    harness.main()
