"""Runs the real binary and observes it: status, journal, step logs, processes.

A test file holds unittest cases and ends with `harness.main()`. The binary comes from $ELASTICTRAIN_BINARY.
Every wait has a deadline. A failed wait prints the run's output so far.
"""

import collections
import glob
import json
import os
import re
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import sanitizer

sanitizer.collect_reports()
BINARY = os.environ.get("ELASTICTRAIN_BINARY", "")
MARK = "ELASTICTRAIN_TEST_MARK"
if os.geteuid() != 0:
    # What supervisors and agents hide from other processes of their user the tests have to see.
    os.environ.setdefault("ELASTICTRAIN_CORE_FILES", "1")


class Failed(AssertionError):
    pass


def toml(sections):
    """A config from {"key": value, "section": {"key": value}}."""

    def literal(value):
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(literal(item) for item in value) + "]"
        return json.dumps(value) if isinstance(value, str) else repr(value)

    lines = [f"{key} = {literal(value)}" for key, value in sections.items() if not isinstance(value, dict)]
    for name, section in sections.items():
        if isinstance(section, dict):
            lines.append(f"[{name}]")
            lines += [f"{key} = {literal(value)}" for key, value in section.items()]
    return "\n".join(lines) + "\n"


def synthetic(**changes):
    """The [trainer] section of a light job that runs until it is stopped; about 50 steps a second."""
    trainer = {"model": "synthetic", "compute_us_per_sample": 1000, "parameter_bytes": 400_000, "samples": 1_000_000,
               "epochs": 1000}
    trainer.update(changes)
    return trainer


def job(workers=(1, 2, 4), trainer=None, **sections):
    low, start, high = workers
    config = {"workers": {"min": low, "start": start, "max": high}, "batch": {"per_worker": 16},
              "hosts": {"list": [f"localhost:{high}"]}, "audit": {"every_steps": 10}}
    config.update(sections)
    if "command" not in config:
        config["trainer"] = trainer or synthetic()
    return config


def environ_of(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:
        return b""


def command_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def process_state(pid):
    """The state letter in /proc: R, S, T, Z …; X if the process does not exist."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "X"


def process_parent(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rsplit(")", 1)[1].split()[1])


def is_alive(pid):
    return process_state(pid) not in "ZX"


def signal_all(pids, number):
    """A signal to each process; one that has ended meanwhile does not need it."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def pause(seconds):
    """For tests of something that must *not* happen within a time."""
    time.sleep(seconds)


def wait_until(condition, timeout, what, interval=0.02):
    """The first true value of condition(); raises Failed after `timeout` seconds (of a build without a sanitizer)."""
    timeout *= sanitizer.SLOWDOWN
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Failed(f"{timeout} s passed without: {what}")
        time.sleep(interval)


class Run:
    """One `elastictrain run`, started by start(); as a context manager it leaves no process behind."""

    def __init__(self, config=None, arguments=(), name=None, lab=None, environment=None, stdout=subprocess.PIPE,
                 stderr=subprocess.PIPE, state=None):
        self.token = secrets.token_hex(8)
        self.name = name or f"test-{self.token[:6]}"
        self.lab = lab
        self.directory = tempfile.mkdtemp(prefix="etrun-")
        self.state = state or os.path.join(self.directory, "state")
        self.steps_directory = os.path.join(self.directory, "steps")
        os.mkdir(self.steps_directory)
        self.environment = {"ELASTICTRAIN_STATE_DIR": self.state, "ELASTICTRAIN_STEP_LOG": self.steps_directory,
                            MARK: self.token, **(environment or {})}
        argv = [BINARY, "run"]
        if config is not None:
            path = os.path.join(self.directory, "config.toml")
            with open(path, "w") as file:
                file.write(config if isinstance(config, str) else toml(config))
            argv.append(path)
        if lab is not None:  # local agents inherit the environment, those of other hosts do not
            for variable in ("ELASTICTRAIN_STEP_LOG", MARK):
                argv += ["-x", f"{variable}={self.environment[variable]}"]
        arguments = list(arguments)
        self.argv = argv + ["--name", self.name] + arguments
        self.targets = {"stdout": stdout, "stderr": stderr}
        self.process = None
        self.lines = []  # of both streams, as (stream, text)
        self.readers = []

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, error, trace):
        if error is not None and not isinstance(error, unittest.SkipTest):
            print(f"--- {' '.join(self.argv)}\n{self.text()[-6000:]}\n--- journal tail", file=sys.stderr)
            for record in self.journal()[-15:]:
                print(json.dumps(record)[:300], file=sys.stderr)
        self.kill()

    # --- Life cycle

    def start(self):
        options = {"stdin": subprocess.DEVNULL, **self.targets, "text": True, "errors": "replace",
                   "start_new_session": True}
        self.started = time.monotonic()
        if self.lab:
            self.process = self.lab.popen_on_head(self.argv, env=self.environment, **options)
        else:
            self.process = subprocess.Popen(self.argv, env={**os.environ, **self.environment}, **options)
        for name in ("stdout", "stderr"):
            stream = getattr(self.process, name)
            if stream is not None:
                self.readers.append(threading.Thread(target=self._read, args=(name, stream), daemon=True))
                self.readers[-1].start()
        return self

    def lose_supervisor(self):
        self.signal(signal.SIGKILL)
        self.process.wait()

    def lose_everything(self):
        """Simulates a power loss of the only machine."""
        self.lose_supervisor()
        signal_all(self.processes(), signal.SIGKILL)
        self.wait_no_processes()

    def resume(self, *arguments):
        """Takes the run over by its name, or starts it again from its newest checkpoint."""
        self.process.wait(10 * sanitizer.SLOWDOWN)
        self.argv = [BINARY, "run", "--resume", self.name, *map(str, arguments)]
        return self.start()

    def _read(self, name, stream):
        for line in stream:
            self.lines.append((name, line.rstrip("\n")))

    def signal(self, number):
        os.kill(self.process.pid, number)

    def wait(self, timeout=30):
        """The exit status, negative for a signal as in subprocess."""
        timeout *= sanitizer.SLOWDOWN
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Failed(f"elastictrain run did not end within {timeout} s") from None
        for reader in self.readers:
            reader.join(5)
        return status

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        remote = self.lab.remote_pids() if self.lab else {}
        signal_all(self.processes() + [pid for pids_of_host in remote.values() for pid in pids_of_host], signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)

    # --- Output and status

    def text(self, stream=None):
        return "\n".join(text for name, text in list(self.lines) if stream in (None, name))

    def wait_text(self, part, timeout=30):
        wait_until(lambda: part in self.text() or self.process.poll() is not None, timeout, f"output with {part!r}")
        if part not in self.text():
            for reader in self.readers:
                reader.join(2)
        if part not in self.text():
            raise Failed(f"the run ended without the output {part!r}")

    def command(self, *words, timeout=30):
        """Runs `elastictrain WORDS` as a client of the run. Returns the completed process."""
        argv = [BINARY, *[str(word) for word in words]]
        environment = {**os.environ, **self.environment}
        return subprocess.run(argv, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=timeout * sanitizer.SLOWDOWN)

    def do(self, *words, timeout=30):
        done = self.command(*words, timeout=timeout)
        if done.returncode != 0:
            raise Failed(f"elastictrain {' '.join(map(str, words))}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def status(self):
        done = self.command("status", self.name, "--json")
        return json.loads(done.stdout) if done.returncode == 0 and done.stdout.strip() else {}

    def wait_status(self, condition, timeout=30, what="the expected status", interval=0.02):
        def look():
            if self.process.poll() is not None:
                raise Failed(f"the run ended with {self.process.returncode} while waiting for {what}")
            status = self.status()
            return status if status and condition(status) else None

        return wait_until(look, timeout, what, interval)

    def wait_size(self, size, timeout=30):
        return self.wait_status(lambda s: s.get("world_size") == size and s.get("phase") == "running"
                                and all(w.get("step", 0) > 0 for w in members(s)), timeout, f"world size {size}")

    def wait_step(self, step, timeout=30):
        return wait_until(lambda: self.last_step() >= step, timeout, f"step {step}")

    def wait_more_steps(self, count=10, timeout=30):
        return self.wait_step(self.last_step() + count, timeout)

    def wait_checkpoint(self, directory, step, timeout=60):
        """Waits for a complete checkpoint of that step or a later one: a slow disk skips some."""
        return wait_until(lambda: newest_checkpoint(directory) >= step, timeout, f"a checkpoint of step {step} or later")

    # --- Records

    def journal_path(self):
        return os.path.join(self.state, self.name, "journal.jsonl")

    def journal(self):
        """Its records, without lines torn by a killed supervisor or a full disk."""
        records = []
        try:
            with open(self.journal_path(), errors="replace") as file:
                for line in file:
                    try:
                        records.append(json.loads(line))
                    except ValueError:
                        continue
        except FileNotFoundError:
            pass
        return records

    def events(self, name, **fields):
        """Records of the journal with this event and these fields."""
        return [record for record in self.journal() if record.get("event") == name
                and all(record.get(key) == value for key, value in fields.items())]

    def wait_event(self, name, timeout=30, **fields):
        what = f"event {name} {fields}"
        return wait_until(lambda: self.events(name, **fields), timeout, what)[-1]

    def steps(self):
        return read_steps(self.steps_directory)

    def last_step(self):
        return max((step["step"] for step in self.steps()), default=0)

    def audit(self):
        """The closing audit record of the journal."""
        return next((record for record in reversed(self.journal()) if record.get("event") == "audit"), None)

    # --- Processes

    def processes(self):
        """Every process with this run's mark, on any host, except the run itself."""
        mark = f"{MARK}={self.token}".encode()
        own = {os.getpid(), self.process.pid if self.process else 0}
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                if pid not in own and mark in environ_of(pid) and is_alive(pid)]

    def wait_no_processes(self, timeout=10):
        def gone():
            return not self.processes() and not (self.lab and self.lab.remote_pids())

        try:
            wait_until(gone, timeout, "the end of all processes")
        except Failed:
            left = self.processes() + [pid for pids in (self.lab.remote_pids() if self.lab else {}).values() for pid in pids]
            raise Failed("processes left behind: " + "; ".join(f"{pid} {command_of(pid)}" for pid in left)) from None


class HostList:
    """The hosts of a discovery command, which a test changes during the run."""

    def __init__(self, case, *names):
        directory = tempfile.mkdtemp(prefix="et-hosts-")
        case.addCleanup(shutil.rmtree, directory)
        self.path = os.path.join(directory, "hosts")
        self.offer(*names)

    def offer(self, *names):
        with open(self.path + ".new", "w") as file:
            file.write("".join(name + "\n" for name in names))
        os.replace(self.path + ".new", self.path)

    def section(self):
        return {"discover": f"cat {self.path}", "discover_interval_ms": 100}


def members(status):
    """Workers with a rank, ordered by rank. None of a run that has ended: its summary has the number of workers."""
    workers = status.get("workers", [])
    if not isinstance(workers, list):
        return []
    return sorted((w for w in workers if w.get("rank") is not None), key=lambda w: w["rank"])


def pids(status):
    return [worker["pid"] for worker in members(status)]


def read_steps(directory):
    """Records of committed steps from all workers' step logs, in the order of time."""
    records = []
    for path in glob.glob(os.path.join(directory, "w-*.jsonl")):
        with open(path) as file:
            for line in file:
                try:
                    record = json.loads(line)
                except ValueError:
                    continue  # the torn last line of a killed worker
                if record.get("ev") == "step":
                    records.append(record)
    return sorted(records, key=lambda record: record["t"])


def newest_checkpoint(directory):
    """The step of the newest complete checkpoint there; 0: none yet."""
    names = os.listdir(directory) if os.path.isdir(directory) else []
    return max((int(found[1]) for name in names if (found := re.match(r"step-(\d+)\.gen-\d+\.json$", name))), default=0)


def step_interval(records):
    """Median time between two steps of one worker."""
    times = collections.defaultdict(list)
    for record in records:
        times[record["pid"]].append(record["t"])
    gaps = [b - a for own in times.values() for a, b in zip(own, own[1:])]
    return statistics.median(gaps) if gaps else 0.0


class Case(unittest.TestCase):
    maxDiff = 4000

    def run(self, result=None):
        self.addCleanup(self.assert_no_reports)  # the first one runs last
        return super().run(result)

    def assert_no_reports(self):
        reports = sanitizer.take_reports()
        if reports:
            raise Failed(f"{len(reports)} processes have reports of a sanitizer:\n" + "\n".join(reports))

    def assert_audit_clean(self, run):
        audit = run.audit()
        self.assertIsNotNone(audit, "the journal has no audit record")
        for key in ("missing", "unaccounted", "repeated", "unequal_hashes"):
            self.assertEqual(int(audit[key]), 0, f"audit: {audit}")
        self.assertGreater(int(audit["steps"]), 0)

    def assert_stops_clean(self, run):
        """Stops the run: status 0, nothing left, every sample once, every step once."""
        self.assert_ends_clean(run)
        self.assert_steps_continue(run)

    def assert_ends_clean(self, run):
        """The same where the steps of lost workers or hosts may be missing in the logs."""
        run.do("stop", run.name)
        self.assertEqual(run.wait(), 0)
        run.wait_no_processes()
        self.assert_audit_clean(run)

    def assert_steps_continue(self, run):
        """Committed step numbers have no hole and no worker commits a step twice."""
        records = run.steps()
        self.assertEqual(sorted({r["step"] for r in records}), list(range(1, max(r["step"] for r in records) + 1)))
        own = collections.Counter((r["pid"], r["step"]) for r in records)
        self.assertEqual(max(own.values()), 1)


SKIPPED = 77  # the status that ctest takes for a skipped test, unless a case failed


class _Result(unittest.TextTestResult):
    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print(f"SKIPPED: {test.id()}: {reason}", flush=True)


def long(case):
    """A case that takes half a minute, next to one of its kind that stays: only `scripts/test.sh --long` has it."""
    return case if os.environ.get("ELASTICTRAIN_LONG_TESTS") else None


def in_parallel(processes):
    """The cases of this file, each in one of so many processes: for those that mostly wait."""
    found = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    names = [case.id().split(".", 1)[1] for group in found for case in group]
    running = [subprocess.Popen([sys.executable, *sys.argv, *names[first::processes]]) for first in range(processes)]
    try:
        statuses = [process.wait() for process in running]
    finally:
        for process in running:
            process.terminate()
    return next((status for status in statuses if status not in (0, SKIPPED)), max(statuses))


def main(processes=1):
    if not BINARY or not os.access(BINARY, os.X_OK):
        print(f"ELASTICTRAIN_BINARY is not an executable: '{BINARY}'", file=sys.stderr)
        sys.exit(1)
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit(143))
    if processes > 1 and len(sys.argv) == 1:
        sys.exit(in_parallel(processes))
    runner = unittest.TextTestRunner(verbosity=2, resultclass=_Result)
    try:
        result = unittest.main(testRunner=runner, exit=False).result
    finally:
        late = sanitizer.take_reports()
        if late:
            print("reports of a sanitizer after the last case:\n" + "\n".join(late), file=sys.stderr)
            sys.exit(1)
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if result.skipped else 0)
