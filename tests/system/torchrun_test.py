"""torchrun's command line: the same words start the same workers, and what they print goes where torchrun puts it."""

import os
import subprocess

import harness
from harness import BINARY, Case, Run

PROGRAM = """
import os, sys
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE",
         "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE")
print("seen", *(os.environ[name] for name in names), *sys.argv[1:])
sys.exit(int(os.environ.get("STATUS_OF_" + os.environ["RANK"], "0")))
"""


class Torchrun(Case):
    def torchrun(self, *words, environment=None):
        run = Run(environment=environment)
        script = os.path.join(run.directory, "train.py")
        with open(script, "w") as file:
            file.write(PROGRAM)
        run.argv = [BINARY, "torchrun", *(script if word == "SCRIPT" else word for word in words)]
        return run

    def lines(self, run):
        return sorted(line.split("seen ")[1] for line in run.text().splitlines() if "seen " in line)

    def test_a_command_line_of_torchrun_starts_the_same_workers(self):
        run = self.torchrun("--standalone", "--nproc_per_node", "2", "--rdzv-id=job7", "--role", "trainer", "SCRIPT",
                            "--epochs", "5", "--nnodes")
        with run:
            self.assertEqual(run.wait(), 0, run.text())
            self.assertEqual(self.lines(run), [f"{rank} 2 {rank} 2 trainer {rank} 2 job7 False --epochs 5 --nnodes"
                                               for rank in (0, 1)])

    def test_options_come_from_the_environment_too(self):
        with self.torchrun("SCRIPT", environment={"PET_NPROC_PER_NODE": "2", "PET_RDZV_ID": "job8"}) as run:
            self.assertEqual(run.wait(), 0, run.text())
            self.assertEqual(self.lines(run), [f"{rank} 2 {rank} 2 default {rank} 2 job8 False" for rank in (0, 1)])

    def test_redirected_output_goes_to_files_only(self):
        run = self.torchrun("--nproc-per-node", "2", "--log-dir", "LOGS", "-r", "0:3", "SCRIPT")
        logs = os.path.join(run.directory, "logs")
        run.argv[run.argv.index("LOGS")] = logs
        with run:
            self.assertEqual(run.wait(), 0, run.text())
            self.assertEqual([line.split()[0] for line in self.lines(run)], ["1"])
            with open(os.path.join(logs, "worker-1.log")) as file:
                self.assertIn("seen 0 2", file.read())

    def test_the_status_of_a_failing_worker_is_passed_on(self):
        with self.torchrun("--nproc-per-node", "2", "SCRIPT", environment={"STATUS_OF_1": "3"}) as run:
            self.assertEqual(run.wait(), 3, run.text())

    def test_all_workers_start_again_as_often_as_allowed(self):
        script = ("import os, sys, time\n"
                  "count = int(os.environ['TORCHELASTIC_RESTART_COUNT'])\n"
                  "print('seen', count, os.environ['RANK'], os.environ['TORCHELASTIC_MAX_RESTARTS'], flush=True)\n"
                  "mark = os.path.join(os.environ['PYTHONPATH'], f'printed-{count}')\n"
                  "if os.environ['RANK'] == '0': open(mark, 'w').close()\n"
                  "if os.environ['RANK'] == '1' and count < int(os.environ['FAILURES']):\n"
                  "    while not os.path.exists(mark): time.sleep(0.01)\n"
                  "    sys.exit(4)\n"
                  "time.sleep(30 if count < int(os.environ['FAILURES']) else 0)\n")
        for failures, status in ((2, 0), (3, 4)):
            run = self.torchrun("--nproc-per-node", "2", "--max-restarts", "2", "-m", "program",
                                environment={"FAILURES": str(failures)})
            run.environment["PYTHONPATH"] = run.directory
            with open(os.path.join(run.directory, "program.py"), "w") as file:
                file.write(script)
            with run:
                self.assertEqual(run.wait(25), status, run.text())
                self.assertEqual(self.lines(run), [f"{count} {rank} 2" for count in range(3) for rank in (0, 1)])
                run.wait_no_processes()

    def test_an_unchanged_script_becomes_elastic_if_asked(self):
        with self.torchrun("--nproc-per-node", "2", "--torch", "SCRIPT", environment={"PYTHONPATH": ""}) as run:
            self.assertEqual(run.wait(60), 78, run.text())
            self.assertIn("--torch: python3 has no package elastictrain", run.text())

    def test_auto_counts_the_processors_that_the_command_may_use(self):
        one = str(min(os.sched_getaffinity(0)))
        done = subprocess.run(["taskset", "-c", one, BINARY, "torchrun", "--nproc-per-node", "cpu", "--dry-run", "a.py"],
                              capture_output=True, text=True, timeout=60)
        self.assertRegex(done.stdout, ": 1 workers? to start with", done.stderr)

    def test_what_cannot_be_followed_is_refused(self):
        for words, text in (((), "name the program"), (("--nnodes", "2", "a.py"), "-H hostA,hostB"),
                            (("--node-rank", "1", "a.py"), "one command starts the workers of all hosts"),
                            (("--virtual-local-rank", "a.py"), "not offered")):
            ended = subprocess.run([BINARY, "torchrun", *words], capture_output=True, text=True, timeout=60)
            self.assertEqual(ended.returncode, 64, ended.stderr)
            self.assertIn(text, ended.stderr)


if __name__ == "__main__":
    harness.main()
