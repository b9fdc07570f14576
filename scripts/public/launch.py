"""Starts a script under torchrun or elastictrain, watches its folder, and takes it through changes, losses, stop and resume."""

import contextlib
import fcntl
import fnmatch
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
OBSERVER = os.path.join(HERE, "observer")
ENTRY_POINT = "[torch.backends]\nelastictrain = elastictrain._torch_autoload:activate\n"
END_S = 480  # of one start
CHANGE_S = 180  # of one change of size, or of the replacement of a lost worker
SLOW_S, SLOWER_S, SLOWEST_S = 0.25, 1.0, 2.0  # pauses after a step while something is awaited
POLL_S = 0.25


FIXED = re.compile(r"(?i)(?:fixed size|grow refused|cannot grow|stays at)[^\n]*")  # said where the size cannot change
FACTS = ("command", "status", "notes", "killed", "size_notes", "pids_before", "refusals", "finished")


class Timeout(Exception):
    pass


class Files:
    """When the files of a folder that match were written, by polling."""

    def __init__(self, folder, patterns):
        self.folder, self.patterns = folder, patterns
        self.writes = {}  # path -> times at which a new content was finished
        self._seen = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def look(self):
        for path in self.paths():
            try:
                status = os.stat(os.path.join(self.folder, path))
            except OSError:
                continue
            if self._seen.get(path) == (status.st_mtime_ns, status.st_size):
                continue
            earlier = self._seen.get(path)
            self._seen[path] = (status.st_mtime_ns, status.st_size)
            times, at = self.writes.setdefault(path, []), status.st_mtime_ns / 1e9
            if earlier is not None and times and at - times[-1] < 1.0:
                times[-1] = at  # one write, seen twice
            else:
                times.append(at)

    def paths(self):
        found = []
        for place, folders, names in os.walk(self.folder):
            folders[:] = [one for one in folders if one not in ("images", "__pycache__", "watch", "state")]
            for name in names:
                path = os.path.relpath(os.path.join(place, name), self.folder)
                if any(fnmatch.fnmatch(path, pattern) for pattern in self.patterns):
                    found.append(path)
        return sorted(found)

    def _poll(self):
        while not self._stop.wait(POLL_S):
            self.look()

    def close(self):
        self._stop.set()
        self._thread.join()
        self.look()


class Tools:
    """Programs and paths that all starts share."""

    def __init__(self, repositories, work):
        self.repositories, self.work = repositories, work
        self.python = os.environ.get("ELASTICTRAIN_TORCH_PYTHON", os.path.join(ROOT, "build", "torch-venv", "bin", "python3"))
        self.binary = os.environ.get("ELASTICTRAIN_BINARY", os.path.join(ROOT, "build", "release", "cli", "elastictrain"))
        self.package = os.environ.get("ELASTICTRAIN_PYTHON_PACKAGE", os.path.join(ROOT, "train", "python"))
        information = os.path.join(work, "site", "elastictrain-0.dist-info")
        os.makedirs(information, exist_ok=True)
        with open(os.path.join(information, "entry_points.txt"), "w") as file:
            file.write(ENTRY_POINT)
        self.site = os.path.dirname(information)

    @contextlib.contextmanager
    def alone_with(self, case):
        """Two commands with one --work would end each other's processes."""
        with open(os.path.join(self.work, f"{case.name}.lock"), "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise SystemExit(f"another command runs {case.name} in {self.work}") from None
            yield


class Start:
    """One script in a folder of its own: started once, or again with `run --resume`."""

    def __init__(self, tools, case, name, seed=0, is_earlier=False):
        self.tools, self.case = tools, case
        self.name = f"{case.name}-{name}".replace(".", "-").replace("_", "-")
        self.folder = os.path.join(tools.work, case.name, name)
        self.watch = os.path.join(self.folder, "watch")
        if not is_earlier:
            self._make_folder()
        self.environment = self._environment(seed)
        self.process, self.status, self.text, self.notes = None, None, "", []
        self.killed, self.size_notes, self.pids_before, self.refusals, self.finished = [], [], None, [], None
        self.files = Files(self.folder, [*case.rewritten, *case.once])

    def _make_folder(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        case = self.case
        source = os.path.join(self.tools.repositories, case.repository, case.folder)
        shutil.copytree(source, self.folder, symlinks=True, ignore=shutil.ignore_patterns(".git", "*.ipynb", "docs", "tests"))
        case.make(self.folder)
        os.makedirs(self.watch)
        self.pace(0)

    def _environment(self, seed):
        repository = os.path.join(self.tools.repositories, self.case.repository)
        paths = [OBSERVER, os.path.join(self.folder, "stubs"), *(os.path.join(repository, one) for one in self.case.paths),
                 self.tools.package, self.tools.site]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PUBLIC_WATCH": self.watch, "PUBLIC_SEED": str(seed),
                "PUBLIC_NO_GPU": "1" if self.case.needs_gpu else "0", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONWARNINGS": "ignore", "PYTHONUNBUFFERED": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1",
                "HF_HOME": os.path.join(self.folder, "hf"), "PYTHON_EXEC": self.tools.python, "TORCH_CPP_LOG_LEVEL": "ERROR",
                "ELASTICTRAIN_STATE_DIR": os.path.join(self.folder, "state"), "HYDRA_FULL_ERROR": "1",
                **self.case.environment}

    def pace(self, seconds):
        """Atomically: a worker may be reading it."""
        path = os.path.join(self.watch, "pace")
        with open(path + ".new", "w") as file:
            file.write(str(seconds))
        os.replace(path + ".new", path)

    def arguments(self, is_elastic):
        words, replaced = [], self.case.elastic_arguments if is_elastic else {}
        given = iter(self.case.arguments)
        for word in given:
            if word in replaced:
                next(given)
                words += [word, *replaced[word]] if replaced[word] else []
            else:
                words.append(word)
        return [*self.case.script, *words]

    # --- Ways to start

    def torchrun(self):
        self._start([self.tools.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                     *self.arguments(False)])

    def elastictrain_torchrun(self):
        self._start([self.tools.binary, "torchrun", "--standalone", "--nproc-per-node", "2", "--rdzv-id", self.name,
                     *self.arguments(False)])

    def torch(self, *options):
        batch = ["--batch", str(self.case.batch)] if self.case.batch else []
        self._start([self.tools.binary, "run", "--name", self.name, "-n", "1:3", "--start", "2", "-H", "localhost:3", *batch,
                     "--start-timeout", f"{CHANGE_S}s", *options, "--torch", "--", self.tools.python, *self.arguments(True)])

    def resume(self):
        self._start([self.tools.binary, "run", "--resume", self.name])

    def _start(self, command):
        self.command, self.started = command, time.time()
        self.deadline = time.monotonic() + END_S
        self.log = open(os.path.join(self.folder, "output.txt"), "ab")
        self.process = subprocess.Popen(command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True)

    def wait(self):
        """Its exit status; None, and everything ended, where it is not over in time."""
        try:
            self.status = self.process.wait(max(1, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.notes.append(f"not over after {END_S} s")
            self.end()
            self.status = None
        self.text = self.output()
        return self.status

    def output(self):
        with open(os.path.join(self.folder, "output.txt"), errors="replace") as file:
            return file.read()

    def end(self):
        """Ends what this start left, by process id: workers are known from their records."""
        if self.process is not None and self.process.poll() is None:
            if self.process.args[0] == self.tools.binary:
                self.client("stop", self.name, "--now", timeout_s=20)
            self._signal(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self._signal(-self.process.pid, signal.SIGKILL)
                self.process.wait()
        for pid in self.own_processes():
            self._signal(pid, signal.SIGKILL)

    def own_processes(self):
        """Processes that carry this start's folder in their environment."""
        mark, found = f"PUBLIC_WATCH={self.watch}".encode() + b"\0", []
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid():
                try:
                    with open(f"/proc/{name}/environ", "rb") as file:
                        if mark in file.read():
                            found.append(int(name))
                except OSError:
                    pass
        return found

    def close(self):
        self.end()
        self.files.close()
        self.text = self.output()
        facts = {name: getattr(self, name) for name in FACTS}
        with open(os.path.join(self.folder, "facts.json"), "w") as file:
            json.dump({**facts, "writes": self.files.writes}, file)

    def read_earlier(self):
        """Whether an earlier start in this folder was over; what it left is this one's."""
        self.files.close()
        try:
            with open(os.path.join(self.folder, "facts.json")) as file:
                facts = json.load(file)
            self.text = self.output()
        except OSError:
            return False
        self.files.writes = facts.pop("writes")
        for name, value in facts.items():
            setattr(self, name, value)
        return True

    @staticmethod
    def _signal(pid, number):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    # --- What it does

    def client(self, *words, timeout_s=30):
        """A command of elastictrain: (status, output)."""
        try:
            done = subprocess.run([self.tools.binary, *words], env=self.environment, capture_output=True, text=True,
                                  timeout=timeout_s, cwd=self.folder)
            return done.returncode, (done.stdout + done.stderr).strip()
        except subprocess.TimeoutExpired:
            return None, f"no answer within {timeout_s} s"

    def view(self):
        status, text = self.client("status", self.name, "--json")
        try:
            return json.loads(text) if status == 0 else {}
        except ValueError:
            return {}

    def is_over(self):
        return self.process.poll() is not None

    def steps(self):
        """The most steps that one process has made."""
        return max((len(records) for records in self.records().values()), default=0)

    def records(self):
        """Of each process that made a step: its records."""
        found = {}
        for name in sorted(os.listdir(self.watch)):
            if name.endswith(".jsonl"):
                with open(os.path.join(self.watch, name)) as file:
                    lines = [line for line in file.read().split("\n")[:-1] if line]
                found[int(name[:-6])] = [json.loads(line) for line in lines]
        return found

    def wait_for(self, condition, what, expected_steps, timeout_s=CHANGE_S):
        """Waits with slow steps. False where the run ended before; raises Timeout."""
        deadline = min(time.monotonic() + timeout_s, self.deadline)
        while not self.is_over():
            if condition():
                return True
            if time.monotonic() > deadline:
                raise Timeout(f"{timeout_s} s passed without: {what}")
            part = self.steps() / max(1, expected_steps)
            self.pace(SLOW_S if part < 0.5 else SLOWER_S if part < 0.75 else SLOWEST_S)
            time.sleep(POLL_S)
        return False

    def more_steps(self, count, expected_steps):
        goal = self.steps() + count
        return self.wait_for(lambda: self.steps() >= goal, f"{count} more steps", expected_steps)

    def workers(self):
        """rank -> process id of the members."""
        return {worker["rank"]: worker["pid"] for worker in self.view().get("workers", [])
                if worker.get("rank", -1) is not None and worker.get("rank", -1) >= 0}


def resize_through(start, expected_steps):
    """2 -> 3 -> 1 -> 2; notes what was said where a change was not made."""
    if not start.more_steps(6, expected_steps):
        return
    for size in (3, 1, 2):
        answer = {}

        def ask(wanted=size):
            answer["is"] = start.client("resize", start.name, str(wanted), "--wait", timeout_s=CHANGE_S)

        thread = threading.Thread(target=ask)
        thread.start()
        is_running = start.wait_for(lambda: not thread.is_alive(), f"resize {size}", expected_steps, CHANGE_S + 10)
        thread.join(CHANGE_S)
        start.size_notes.append(f"resize {size}: {answer.get('is')}")
        if not is_running:
            return
        if answer["is"][0] != 0:
            start.refusals.append(answer["is"][1])
        if not start.more_steps(4, expected_steps):
            return


def kill_through(start, expected_steps):
    """kill -9 of another rank than 0, then of rank 0; a replacement is awaited each time."""
    for rank in (1, 0):
        if not start.more_steps(6, expected_steps):
            return
        before = start.workers()
        if rank not in before:
            raise Timeout(f"no worker of rank {rank} in {before}")
        start.killed.append(before[rank])
        os.kill(before[rank], signal.SIGKILL)

        def is_replaced(lost=before[rank]):
            now = start.workers()
            return len(now) == 2 and lost not in now.values()

        try:
            if not start.wait_for(is_replaced, f"the replacement of rank {rank}", expected_steps):
                return
        except Timeout:
            said = FIXED.findall(start.output())
            if not said:
                raise
            start.refusals.append(said[-1])
    start.more_steps(4, expected_steps)


def stop_and_resume(start, expected_steps):
    """Stops in the middle and continues; notes the files that were finished before."""
    start.wait_for(lambda: start.steps() >= 0.55 * expected_steps, "half of the steps", expected_steps, END_S / 2)
    start.size_notes.append(f"stop: {start.client('stop', start.name, timeout_s=60)}")
    start.wait()
    start.files.look()
    start.pids_before = list(start.records())
    start.finished = {path: list(times) for path, times in start.files.writes.items()}
    start.pace(0)
    start.resume()
    start.wait()
