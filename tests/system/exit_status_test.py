"""One test for each row of the table of exit statuses."""

import os
import shutil
import signal
import subprocess
import tempfile

import harness
from harness import BINARY, Case, Run, job


def shell(script, workers=2):
    """Arguments that run a shell script as the plain program of every worker."""
    return ["-n", str(workers), "--", "sh", "-c", script]


class ExitStatus(Case):
    def status_of(self, arguments=(), config=None, timeout=30):
        run = Run(config, arguments=arguments)
        with run:
            status = run.wait(timeout)
            run.wait_no_processes()
            self.said = run.text()
        return status

    def test_all_good_is_0(self):
        self.assertEqual(self.status_of(shell("exit 0")), 0)

    def test_a_failing_worker_gives_its_own_status(self):
        self.assertEqual(self.status_of(shell('[ "$RANK" = 1 ] && exit 3; exec sleep 60')), 3)
        self.assertIn("3", self.said)

    def test_a_worker_killed_by_a_signal_gives_128_plus_its_number(self):
        self.assertEqual(self.status_of(shell('[ "$RANK" = 1 ] && kill -SEGV $$; exec sleep 60')), 128 + signal.SIGSEGV)

    def test_a_killed_trainer_gives_137_where_no_crash_is_borne(self):
        with Run(job(failures={"max_crashes": 0})) as run:
            os.kill(harness.pids(run.wait_size(2))[1], signal.SIGKILL)
            self.assertEqual(run.wait(), 137)
            run.wait_no_processes()

    def test_a_wrong_flag_is_64(self):
        done = subprocess.run([BINARY, "run", "--no-such-flag"], capture_output=True, text=True, timeout=20)
        self.assertEqual(done.returncode, 64)
        self.assertIn("--no-such-flag", done.stderr)

    def test_a_mistake_in_the_config_is_78_with_file_line_and_suggestion(self):
        with Run("[workers]\nmin = 1\nstrat = 2\n") as run:
            self.assertEqual(run.wait(), 78)
            self.assertIn("config.toml:3", run.text("stderr"))
            self.assertIn("start", run.text("stderr"))

    def test_an_input_that_cannot_be_read_is_66(self):
        with tempfile.TemporaryDirectory() as directory:
            endless = os.path.join(directory, "endless.toml")
            os.symlink("/dev/zero", endless)
            folder = os.path.join(directory, "folder.toml")
            os.mkdir(folder)
            for path, why in ((endless, "it has more than"), (folder, "it is a directory")):
                for words in (["check", path], ["run", path], ["plan", path], ["cluster", path],
                              ["plan", "--profile", path], ["run", "--hostfile", path, "-n", "1", "--", "true"],
                              ["check", "--env-file", path, "-n", "1", "--", "true"]):
                    with self.subTest(words=words):
                        done = self.command(words)
                        self.assertEqual(done.returncode, 66, done.stderr)
                        self.assertIn(f"{path}: cannot be read: {why}", done.stderr)
            for words in (["worker", "--train", folder], ["simulate", endless, "--policy", "srtf", "--gpus", "4"]):
                self.assertEqual(self.command(words).returncode, 66)

    def test_data_that_are_not_what_they_must_be_are_65(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "data.csv")
            with open(path, "w") as file:
                file.write("1,2\n\x1b]0;evil\x07,1\n")
            done = self.command(["worker", "--train", path, "--format", "csv"])
            self.assertEqual(done.returncode, 65, done.stderr)
            self.assertIn(f"{path}:2: cell 1 is", done.stderr)

    def command(self, words):
        return subprocess.run([BINARY, *words], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)

    def test_a_config_may_come_from_a_pipe(self):
        config = "[workers]\nstart = 1\n[trainer]\nmodel = \"synthetic\"\nsamples = 64\nepochs = 1\n"
        done = subprocess.run([BINARY, "run", "/dev/stdin", "--name", "piped"], capture_output=True, text=True, timeout=60,
                              input=config, env={**os.environ, "ELASTICTRAIN_STATE_DIR": tempfile.mkdtemp()})
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_an_output_that_cannot_be_written_is_73(self):
        with tempfile.TemporaryDirectory() as directory:
            profile = os.path.join(directory, "profile.csv")
            with open(profile, "w") as file:
                file.write("workers,batch,step_s\n1,32,0.1\n2,64,0.11\n")
            self.assertEqual(self.command(["plan", "--profile", profile, "--svg", "/proc/nothing"]).returncode, 73)
        for variable, arguments in (("/proc/nothing", ["-n", "1"]), (None, ["-n", "1", "--log-dir", "/proc/nothing"])):
            environment = {**os.environ, **({"ELASTICTRAIN_STATE_DIR": variable} if variable else {})}
            done = subprocess.run([BINARY, "run", *arguments, "--", "true"], capture_output=True, text=True, timeout=60,
                                  env=environment)
            self.assertEqual(done.returncode, 73, done.stderr)
            self.assertIn("/proc/nothing", done.stderr)

    def test_a_program_that_cannot_be_started_is_127_or_126_and_told_once_for_a_host(self):
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "train.py"), "w") as file:
                file.write("print(1)\n")
            for program, status, text in (("no-such-program", 127, "no-such-program is not found in PATH (/"),
                                          ("./nothing", 127, "./nothing does not exist in "),
                                          ("./train.py", 126, "chmod +x ./train.py, or start its interpreter")):
                done = subprocess.run([BINARY, "run", "-n", "4", "--", program], capture_output=True, text=True, timeout=60,
                                      env={**os.environ, "ELASTICTRAIN_STATE_DIR": directory}, cwd=directory)
                self.assertEqual(done.returncode, status, done.stderr)
                found = [line for line in done.stderr.splitlines() if text in line]
            self.assertEqual([line.startswith("elastictrain: warning: ") for line in found].count(True), 1, done.stderr)
            self.assertTrue(any(line.startswith("  ended: ") for line in found), done.stderr)

    def test_a_program_whose_name_no_run_may_have_runs(self):
        with tempfile.TemporaryDirectory() as directory:
            for name in ("_train", "训练"):
                program = os.path.join(directory, name)
                os.symlink("/bin/true", program)
                done = subprocess.run([BINARY, "run", "-n", "1", "--", program], capture_output=True, text=True, timeout=60,
                                      env={**os.environ, "ELASTICTRAIN_STATE_DIR": directory})
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_no_reachable_host_is_69_with_the_tools_own_words(self):
        arguments = ["-n", "1", "-H", "unreachable.invalid:1", "--set", "timeouts.start_ms=5000", "--", "true"]
        self.assertEqual(self.status_of(arguments), 69)
        self.assertIn("unreachable.invalid", self.said)

    def test_preempted_is_75_where_the_state_is_saved_and_69_where_it_is_not(self):
        for checkpoint, status in (({"directory": tempfile.mkdtemp(prefix="etck-")}, 75), ({}, 69)):
            with self.subTest(status), Run(job(checkpoint=checkpoint)) as run:
                if checkpoint:
                    self.addCleanup(shutil.rmtree, checkpoint["directory"])
                run.wait_size(2)
                run.signal(signal.SIGTERM)
                self.assertEqual(run.wait(), status)
                run.wait_no_processes()
                self.assert_audit_clean(run)
                self.assertEqual(run.events("end")[0]["status"], status)
                said = run.text("stderr")
                self.assertEqual("its state is not saved: no checkpoint.directory is set" in said, status == 69)
                self.assertEqual(f"continue with: elastictrain run --resume {run.name}" in said, status == 75)

    def test_interrupted_is_130(self):
        with Run(job()) as run:
            run.wait_size(2)
            run.signal(signal.SIGINT)
            self.assertEqual(run.wait(), 130)
            run.wait_no_processes()
            self.assert_audit_clean(run)

    def test_stopped_by_command_is_0(self):
        with Run(job()) as run:
            run.wait_size(2)
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 0)

    def test_the_time_limit_is_75(self):
        with tempfile.TemporaryDirectory(prefix="etck-") as directory:
            with Run(job(checkpoint={"directory": directory}), arguments=["--time-limit", "2"]) as run:
                self.assertEqual(run.wait(), 75)
                run.wait_no_processes()

    def test_a_command_without_a_run_says_so(self):
        run = Run(job())
        try:
            done = run.command("status", "no-such-run")
            self.assertEqual(done.returncode, 69)
            self.assertIn("no-such-run", done.stderr)
        finally:
            run.kill()


if __name__ == "__main__":
    harness.main()
