"""Odd surroundings of a process: closed standard streams, a small stack, a config made to exhaust it, core files."""

import json
import os
import resource
import subprocess
import tempfile

import harness
import sanitizer
from harness import BINARY, Case, job, pids, synthetic, wait_until

NOBODY = 65534


class Surroundings(Case):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="etsurroundings-")
        self.environment = {**os.environ, "ELASTICTRAIN_STATE_DIR": os.path.join(self.directory, "state")}

    def write(self, text):
        return self.write_as("config.toml", text)

    def write_as(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def short_job(self):
        return self.write(harness.toml(job(workers=(2, 2, 2), trainer=synthetic(samples=640, epochs=1))))

    def test_closed_standard_streams_are_no_place_for_a_file_or_a_socket(self):
        def close_streams():
            for stream in (0, 1, 2):
                os.close(stream)

        journal = os.path.join(self.directory, "state", "closed", "journal.jsonl")
        # Every line of the run goes to descriptor 2, whatever that is.
        run = subprocess.Popen([BINARY, "run", self.short_job(), "--name", "closed"], env=self.environment,
                               preexec_fn=close_streams)
        self.addCleanup(run.kill)
        wait_until(lambda: os.path.exists(journal), 60, "the journal")
        self.assertEqual({os.readlink(f"/proc/{run.pid}/fd/{stream}") for stream in (0, 1, 2)}, {"/dev/null"})
        self.assertEqual(run.wait(120), 0)
        with open(journal) as file:
            records = [json.loads(line) for line in file]
        self.assertEqual([record["seq"] for record in records], list(range(1, len(records) + 1)))
        self.assertEqual(records[-1]["event"], "run_closed")

    def test_a_stack_that_is_too_small_is_refused(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_STACK, (128 << 10, resource.RLIM_INFINITY))

        done = subprocess.run([BINARY, "run", self.short_job()], env=self.environment, preexec_fn=limit,
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertIn("the stack is limited to 128 KiB", done.stderr)
        self.assertIn("ulimit -s 8192", done.stderr)

    def test_a_directory_that_was_removed_is_said_before_anything_starts(self):
        config = self.short_job()
        for words in (["run", config, "--set", "checkpoint.directory=saved"], ["run", "-n", "1", "--", "sh", "-c", "true"],
                      ["check", config], ["plan", "-n", "1", "--", "true"]):
            with self.subTest(command=words[0]):
                removed = tempfile.mkdtemp(dir=self.directory)
                # Not by `cwd`: the directory is removed once the shell is in it.
                done = subprocess.run(["sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', removed, BINARY, *words],
                                      env=self.environment, capture_output=True, text=True, timeout=120)
                self.assertEqual(done.returncode, 69, done.stderr)
                self.assertIn("the directory in which this command was started has been removed", done.stderr)

    def test_a_run_that_ends_on_a_full_disk_has_ended(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to have a disk of its own")
        disk = os.path.join(self.directory, "disk")
        os.mkdir(disk)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", disk], check=True)
        self.addCleanup(subprocess.run, ["umount", "--lazy", disk], check=True)
        self.environment["ELASTICTRAIN_STATE_DIR"] = os.path.join(disk, "state")
        run = subprocess.Popen([BINARY, "run", self.write(harness.toml(job(audit={"every_steps": 0}))), "--name", "full"],
                               env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(run.kill)

        def command(*words):
            return subprocess.run([BINARY, *words], env=self.environment, capture_output=True, text=True, timeout=120)

        wait_until(lambda: '"phase":"running"' in command("status", "full", "--json").stdout.replace(" ", ""), 60, "training")
        with open(os.path.join(disk, "filling"), "wb", buffering=0) as file, self.assertRaisesRegex(OSError, "No space"):
            while True:
                file.write(bytes(512))
        stopped = command("stop", "full", "--wait")
        self.assertEqual((stopped.returncode, run.wait(60)), (0, 0), stopped.stderr)
        self.assertNotIn("lost its supervisor", command("list").stdout)
        with open(os.path.join(disk, "state", "full", "run.json")) as file:
            self.assertNotIn("key", json.load(file))

    def test_too_few_processes_or_threads_end_with_a_sentence(self):
        if os.geteuid() != 0:
            self.skipTest("root is needed for a user of whom nobody else has processes")
        os.chmod(self.directory, 0o777)
        user = 70_000 + os.getpid() % 50_000
        config = self.short_job()
        for limit in (1, 3, *range(17, 31, 2)):
            with self.subTest(limit=limit):
                done = subprocess.run([BINARY, "run", config, "--name", f"few-{limit}"], user=user, group=user,
                                      extra_groups=[], env={**sanitizer.without_leaks(self.environment), "HOME": self.directory},
                                      preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit)),
                                      capture_output=True, text=True, timeout=120)
                self.assertIn(done.returncode, (0, 69), done.stderr)
                if done.returncode != 0:
                    self.assertIn("Resource temporarily unavailable", done.stderr)
                    self.assertNotIn("terminate called", done.stderr)

    def test_a_name_of_half_a_million_parts_is_a_mistake_in_the_config(self):
        deep = "a" + ".a" * 500_000
        for text in (f"{deep} = 1\n", f"[{deep}]\n", f"name = \"x\"\nb = {{{deep} = 1}}\n"):
            done = subprocess.run([BINARY, "check", self.write(text)], env=self.environment, capture_output=True, text=True,
                                  timeout=120)
            self.assertEqual(done.returncode, 78, done.stderr[-300:])
            self.assertIn(f"config.toml:{text.count(chr(10), 0, text.index(deep)) + 1}: a name has more than 32 parts",
                          done.stderr)

    def test_no_command_passes_on_what_would_change_a_terminal(self):
        evil = "\x1b]0;evil\x07\u009b2J\u202e"
        script = os.path.join(self.directory, "script")
        with open(script, "w") as file:
            file.write(f"#!/bin/sh\nprintf '{evil}\\n' >&2\nexit 3\n")
        os.chmod(script, 0o700)
        config = self.write(f"[log]\nlabel = {json.dumps(evil)}\n")
        commands = [["run", "--name", "evil", "-n", "1", "--batch", "1", "--show-ranks", "none", "--", script],
                    ["events", "evil"], ["events", "evil", "--json"], ["explain", "evil"],
                    ["check", config, "-n", "1", "--batch", "1", "--", script], ["run", evil + ".toml"],
                    ["plan", evil + ".toml"], ["check", evil + ".toml"], ["run", "--resume", evil], ["torchrun", evil],
                    ["worker", "--" + evil], [evil]]
        commands += [[command, evil, *words] for command, words in
                     {"status": [], "resize": ["2"], "replace": ["1"], "drain": ["h"], "undrain": ["h"], "stop": [], "events": [],
                      "explain": [], "topology": ["ring"], "completion": [], "logs": [], "attach": [], "report": [],
                      "prune": [], "top": [], "cluster": [], "submit": [], "queue": [], "cancel": [], "pause": [],
                      "resume": [], "priority": ["2"], "init": [], "man": [], "list": [],
                      "simulate": ["--policy", "srtf", "--gpus", "4"]}.items()]
        table = self.write_as("table.csv", f"{evil},{evil}\n1,2\n{evil},1\n")
        commands += [["simulate", table, "--policy", "srtf", "--gpus", "4"], ["plan", "--profile", table],
                     ["worker", "--train", table, "--format", "csv"], ["queue", "--cluster", evil],
                     ["check", "--hostfile", table, "-n", "1", "--", "true"],
                     ["cluster", self.write_as("cluster.toml", f"name = {json.dumps(evil)}\n")]]
        for words in commands:
            with self.subTest(command=words[0]):
                done = subprocess.run([BINARY, *words], cwd=self.directory, env=self.environment, capture_output=True, text=True,
                                      timeout=120, stdin=subprocess.DEVNULL)
                said = done.stdout + done.stderr
                self.assertNotRegex(said, "[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f\u202a-\u202e]")
                if words[0] == "run" and "-n" in words:
                    self.assertEqual(done.returncode, 3)
                    self.assertIn(r"\x1b]0;evil\x07\u009b2J\u202e", said)

    def test_the_key_is_in_memory_that_no_core_file_holds(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to see whose a process is")
        os.chmod(self.directory, 0o777)
        config = self.write(harness.toml(job()))
        run = subprocess.Popen([BINARY, "run", config, "--name", "private"], user=NOBODY, group=NOBODY, extra_groups=[],
                               env={**self.environment, "HOME": self.directory}, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(run.kill)

        def status():
            done = subprocess.run([BINARY, "status", "private", "--json"], env=self.environment, user=NOBODY, group=NOBODY,
                                  extra_groups=[], capture_output=True, text=True, timeout=20)
            return json.loads(done.stdout) if done.returncode == 0 else {"workers": []}

        def both():
            now = status()
            return pids(now) if now.get("phase") == "running" and len(pids(now)) == 2 else None

        workers = wait_until(both, 60, "two workers")
        agent = harness.process_parent(workers[0])
        # What a process keeps from core files is root's in /proc.
        self.assertEqual([os.stat(f"/proc/{pid}/environ").st_uid for pid in (run.pid, agent)], [0, 0])
        self.assertEqual([os.stat(f"/proc/{pid}/environ").st_uid for pid in workers], [NOBODY, NOBODY])
        subprocess.run([BINARY, "stop", "private"], env=self.environment, user=NOBODY, group=NOBODY, extra_groups=[],
                       capture_output=True, timeout=20)
        self.assertEqual(run.wait(60), 0)


if __name__ == "__main__":
    harness.main()
