"""Programs with elastictrain.Session on real processes: changes, and errors that end a worker with their traceback."""

import os
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

import harness
import lab
from harness import Case, Run, job, pids

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MAY_RAISE_PRIORITY = os.geteuid() == 0 or resource.getrlimit(13)[1] >= 20  # RLIMIT_NICE, which the module does not name
PROGRAM = os.path.join(HERE, "python_program.py")


def python_run(workers=(1, 2, 3), batch=8, preload=(), path="", **variables):
    environment = {"PYTHONPATH": os.pathsep.join([os.path.join(ROOT, "train", "python"), path]), "PYTHONDONTWRITEBYTECODE": "1",
                   **variables}
    batches = {"per_worker": batch} if batch else {"max_global": 0}
    config = job(workers=workers, command=[sys.executable, PROGRAM], batch=batches, audit={"every_steps": 1})
    config["workers"]["preload"] = list(preload) or ["none"]
    return Run(config, environment=environment)


def started(run):
    return {worker["pid"] for worker in run.status()["workers"] if worker["pid"]}


def priority(pid):
    """The nice value."""
    return os.getpriority(os.PRIO_PROCESS, pid)


LINGERS = """
import array, time, elastictrain
session = elastictrain.Session()
session.share_model("weights", array.array("f", [0.0] * 4))
session.set_data(sample_count=64, epochs=1, batch=8)
if session.start():
    while session.next_batch() is not None:
        session.all_reduce(array.array("f", [1.0] * 4))
        session.commit_step(loss=1.0)
print("trained", flush=True)
time.sleep(1000)
"""


HOGS = """
import array, os, time, elastictrain
session = elastictrain.Session()
session.share_model("weights", array.array("f", [0.0] * 4))
session.set_data(sample_count=400000, epochs=1, batch=8)
taken, steps = [], 0
if session.start():
    while session.next_batch() is not None:
        session.all_reduce(array.array("f", [1.0] * 4))
        session.commit_step(loss=1.0)
        time.sleep(0.01)
        steps += 1
        if int(os.environ["ELASTICTRAIN_WORKER_ID"]) > 2 and steps > 10:
            taken.append(bytearray(b"x" * (20 << 20)))
"""
MEMORY_MIB = 400


def limited_memory(case):
    """A cgroup with a limit, and the words with which a shell puts a command there."""
    for base, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = os.path.join(base, f"elastictrain-test-{os.getpid()}")
        try:
            os.mkdir(group)
            case.addCleanup(os.rmdir, group)
            with open(os.path.join(group, limit), "w") as file:
                file.write(str(MEMORY_MIB << 20))
            return ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
        except OSError:
            continue
    raise unittest.SkipTest("no cgroup with a limit can be made here")


PAUSES = """
import array, os, time, elastictrain
session = elastictrain.Session()
session.share_model("weights", array.array("f", [0.0] * 4))
session.set_data(sample_count=4000, epochs=1, batch=8)
if session.start():
    while (batch := session.next_batch()) is not None:
        session.all_reduce(array.array("f", [1.0] * 4))
        if session.rank == 0 and batch.step in (60, 120):
            pause = 6 if os.environ.get("ET_BUSY") else 3
            end = time.monotonic() + pause
            while time.monotonic() < end:
                if not os.environ.get("ET_BUSY"):
                    time.sleep(pause)
        session.commit_step(loss=1.0)
        time.sleep(0.01)
"""


ADAPTS = """
import array, time, elastictrain
sizes = {20: 3, 60: 2}
session = elastictrain.Session()

def adapt():
    step = session.committed_step
    seen = array.array("q", [step])
    session.reduce_values(seen, "max")
    assert seen[0] == step, f"behind step {step}, another worker behind {seen[0]}"
    if session.rank == 0 and step in sizes:
        session.request_resize(sizes[step])

session.share_model("weights", array.array("f", [0.0] * 4))
session.set_data(sample_count=2000, epochs=1, batch=8)
session.step_hooks(after=adapt)
if session.start():
    while session.next_batch() is not None:
        session.all_reduce(array.array("f", [1.0] * 4))
        session.commit_step(loss=1.0)
        time.sleep(0.01)
"""


class Python(Case):
    def test_a_policy_of_the_program_averages_behind_each_step_and_asks_for_sizes(self):
        environment = {"PYTHONPATH": os.path.join(ROOT, "train", "python"), "PYTHONDONTWRITEBYTECODE": "1"}
        with Run(arguments=["-n", "1:4", "--start", "2", "--audit", "1", "--", sys.executable, "-c", ADAPTS],
                 environment=environment) as run:
            self.assertEqual(run.wait(), 0, run.text())
            self.assertEqual([event["world_size"] for event in run.events("generation")][:3], [2, 3, 2], run.text())
            self.assert_audit_clean(run)

    def test_a_worker_that_saves_behind_the_sums_of_a_step_is_no_hang(self):
        """Waiting, as for an upload, and computing, as in an evaluation."""
        environment = {"PYTHONPATH": os.path.join(ROOT, "train", "python"), "PYTHONDONTWRITEBYTECODE": "1"}

        def pausing(workers, busy):
            arguments = ["-n", str(workers), "--set", "failures.hang_min_ms=300", "--", sys.executable, "-c", PAUSES]
            return Run(arguments=arguments, environment={**environment, "ET_BUSY": busy})

        for busy in ("", "1"):
            with self.subTest(busy=busy), pausing(1, busy) as alone, pausing(2, busy) as two:
                for run in (alone, two):
                    self.assertEqual(run.wait(90), 0, run.text())
                    self.assertEqual([event["event"] for event in run.journal() if "hang" in event["event"]], [])

    def test_workers_that_the_kernel_kills_for_want_of_memory_are_named_and_not_started_for_ever(self):
        environment = {"PYTHONPATH": os.path.join(ROOT, "train", "python"), "PYTHONDONTWRITEBYTECODE": "1"}
        run = Run(arguments=["-n", "1:3", "--start", "3", "--audit", "1", "--", sys.executable, "-c", HOGS], environment=environment)
        run.argv = limited_memory(self) + run.argv
        with run:
            before = pids(run.wait_size(3))
            refused = run.wait_event("grow_refused", timeout=60)
            self.assertEqual(refused["size"], 2)
            exits = run.events("exited", signal=9)
            self.assertEqual([exited["worker"] for exited in exits], [3, 4, 5])
            for exited in exits:
                self.assertTrue(exited["out_of_memory"])
                self.assertEqual(exited["memory_limit_bytes"], MEMORY_MIB << 20)
                self.assertGreater(exited["peak_bytes"], 100 << 20)
            run.wait_text(f"by the kernel's OOM killer: its cgroup has a limit of {MEMORY_MIB} MiB, and the worker held up to ")
            run.wait_text("grow refused: 3 workers in a row were killed for want of memory at a size of 3")
            self.assertEqual(pids(run.wait_size(2)), before[:2])
            run.wait_more_steps(20)
            self.assert_stops_clean(run)

    def test_the_grace_holds_for_a_program_that_has_finished_and_lives_on(self):
        environment = {"PYTHONPATH": os.path.join(ROOT, "train", "python"), "PYTHONDONTWRITEBYTECODE": "1"}
        with Run(arguments=["-n", "2", "--grace", "1", "--", sys.executable, "-c", LINGERS], environment=environment) as run:
            run.wait_text("trained")
            run.wait_event("ending", reason="the program finished")
            run.signal(signal.SIGTERM)
            self.assertEqual(run.wait(), 0, "its training is complete")
            self.assertIn("the program has finished, but its processes did not end within the grace time", run.text())
            run.wait_no_processes()

    def test_it_grows_and_survives_a_loss(self):
        with python_run(ET_EPOCHS="10") as run:
            run.wait_size(2)
            run.do("resize", run.name, 3)
            run.wait_size(3)
            run.wait_more_steps(3)
            os.kill(pids(run.status())[1], signal.SIGKILL)
            self.assertEqual(run.wait(60), 0)
            run.wait_no_processes()
            self.assert_audit_clean(run)
            self.assertIn("finished at step", run.text())

    def test_the_programs_batch_counts_where_the_run_has_none_and_after_the_supervisor_was_lost(self):
        with python_run(batch=None, ET_EPOCHS="10000") as run:
            self.assertEqual(run.wait_size(2)["global_batch"], 2 * 8)
            run.wait_more_steps(5)
            run.lose_supervisor()
            run.resume()
            run.wait_size(2)
            run.do("resize", run.name, 3)
            grown = run.wait_size(3)
            self.assertEqual((grown["global_batch"], grown["batch_per_worker"]), (3 * 8, 8))
            self.assert_stops_clean(run)
        with python_run(batch=4, ET_EPOCHS="10000") as run:
            self.assertEqual(run.wait_size(2)["global_batch"], 2 * 4)
            self.assert_stops_clean(run)

    @unittest.skipUnless(MAY_RAISE_PRIORITY, "this user may not give a process its priority back (RLIMIT_NICE)")
    def test_a_worker_that_starts_or_leaves_takes_no_time_from_those_that_train(self):
        usual = os.getpriority(os.PRIO_PROCESS, 0)
        with python_run(ET_EPOCHS="10000", ET_EDGE_S="3") as run:
            run.wait_size(2, 30)
            before = set(pids(run.status()))
            run.do("resize", run.name, 3)
            harness.wait_until(lambda: started(run) - before, 10, "the start of another worker")
            joiner, = started(run) - before
            harness.wait_until(lambda: priority(joiner) > usual, 2, "its low priority")
            run.wait_size(3, 30)
            harness.wait_until(lambda: priority(joiner) == usual, 2, "its usual priority")
            self.assertEqual({priority(pid) for pid in before}, {usual})
            run.do("resize", run.name, 2)
            harness.wait_until(lambda: priority(joiner) > usual, 10, "the low priority of the worker that leaves")
            run.wait_size(2, 30)
            before = started(run)
            os.kill(pids(run.status())[1], signal.SIGKILL)
            harness.wait_until(lambda: started(run) - before, 20, "the start of the replacement")
            replacement, = started(run) - before
            self.assertEqual(priority(replacement), usual, "one in the place of a lost worker takes no time from others")
            run.do("stop", run.name)
            self.assertEqual(run.wait(60), 0)

    def test_an_error_ends_the_worker_with_its_traceback_and_the_status_of_the_program(self):
        for place in ("loop", "callback"):
            with self.subTest(place), python_run((1, 1, 1), ET_RAISE=place) as run:
                self.assertEqual(run.wait(60), 1)
                run.wait_no_processes()
                self.assertIn(f"ArithmeticError: an error of the {place}", run.text())
                self.assertEqual(run.text("stdout").count("Traceback (most recent call last)") +
                                 run.text("stderr").count("] Traceback (most recent call last)"), 1)
                self.assertIn("the end", run.text(), "what the program registered for its end is done")

    def test_a_machine_without_a_network_trains(self):
        """It has a loopback interface only."""
        if os.geteuid() != 0:
            self.skipTest("root is needed for a network namespace")
        environment = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "train", "python"), "ET_EPOCHS": "1"}
        with tempfile.TemporaryDirectory() as state:
            script = f'"{lab.find_tool("ip")}" link set lo up && exec "$@"'
            done = subprocess.run([lab.find_tool("unshare"), "--net", "sh", "-c", script, "sh", harness.BINARY, "run", "-n", "2", "--",
                                   sys.executable, PROGRAM], env={**environment, "ELASTICTRAIN_STATE_DIR": state},
                                  capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("finished at step", done.stdout + done.stderr)

    def test_an_unchanged_script_needs_a_torch_that_loads_the_package(self):
        """Before 2.5 it does not, and the script would train at a fixed size without a word."""
        with tempfile.TemporaryDirectory() as installed:
            self.install(installed, "elastictrain", "0.1.0")
            with open(os.path.join(installed, "elastictrain-0.1.0.dist-info", "entry_points.txt"), "w") as file:
                file.write("[torch.backends]\nelastictrain = elastictrain._torch_autoload:activate\n")
            self.install(installed, "torch", "2.4.1+cpu")
            with Run(arguments=["-n", "1:1", "--torch", "--", sys.executable, PROGRAM], environment={"PYTHONPATH": installed}) as run:
                self.assertEqual(run.wait(60), 78)
                self.assertIn(f"--torch: {sys.executable} has a PyTorch older than 2.5", run.text())

    def install(self, directory, name, version):
        """Its metadata alone."""
        information = os.path.join(directory, f"{name}-{version}.dist-info")
        os.mkdir(information)
        with open(os.path.join(information, "METADATA"), "w") as file:
            file.write(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


class Preload(Case):
    """workers.preload: a module that writes a line each time that a process imports it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path, self.imports_file = folder.name, os.path.join(folder.name, "imports")
        with open(os.path.join(folder.name, "preloaded.py"), "w") as file:
            file.write(f"import os\nopen({self.imports_file!r}, 'a').write(f'{{os.getpid()}}\\n')\n")

    def imports(self):
        with open(self.imports_file) as file:
            return [int(line) for line in file]

    def start(self):
        return python_run(preload=["preloaded"], path=self.path, ET_EPOCHS="10000")

    def change_size(self, run, *sizes):
        for size in sizes:
            run.do("resize", run.name, size)
            run.wait_size(size)
            run.wait_more_steps(3)

    def test_all_workers_of_a_host_are_forked_from_one_process_also_after_a_loss_and_a_takeover(self):
        with self.start() as run:
            run.wait_size(2)
            self.change_size(run, 3)
            victim = pids(run.status())[0]
            os.kill(victim, signal.SIGKILL)
            run.wait_status(lambda s: s.get("world_size") == 3 and victim not in pids(s), 60, "the replacement")
            run.lose_supervisor()
            run.resume()
            run.wait_size(3)
            self.change_size(run, 1, 3)
            self.assertEqual(len(self.imports()), 1)
            self.assertNotIn(self.imports()[0], started(run))
            self.assert_stops_clean(run)
            run.wait_no_processes()
            self.assert_audit_clean(run)

    def kill_while_asked(self, run):
        """It is stopped first, so that it ends with a request unanswered."""
        process = self.imports()[0]
        os.kill(process, signal.SIGSTOP)
        run.do("resize", run.name, 3)
        run.wait_event("spawn", worker=3)
        os.kill(process, signal.SIGKILL)

    def test_without_the_process_the_run_goes_on_and_says_why(self):
        with self.start() as run:
            before = run.wait_size(2)
            self.kill_while_asked(run)
            self.change_size(run, 3)
            self.assertEqual(pids(run.status())[:2], pids(before))
            run.wait_text("no worker of this host is forked from a process that has imported preloaded: it ended by signal 9")
            self.assert_stops_clean(run)
            run.wait_no_processes()
            self.assert_audit_clean(run)


if __name__ == "__main__":
    harness.main()
