"""A campaign on PyTorch programs, two of which know nothing of elastictrain: random resizes, replacements, kill -9 and pauses,
during changes too, while epochs have few steps. At the end of each run every worker must have counted each sample once in each epoch, the
audit must be clean, every worker must have ended by itself, and no process may be left."""

import argparse
import os
import random
import shutil
import signal
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system"))

import harness
from harness import Failed, Run, job, members, pids
from torch_test import PYTHON, WHY_NOT, torch_python

SCRIPTS = {"torch_ddp.py": ["-m", "elastictrain.torch"], "torch_accelerate.py": ["-m", "elastictrain.torch"],
           "torch_elastic.py": []}
MOST_WORKERS = 4
ACTIONS_PER_RUN = 12
COUNTED = "counted "


class Trial:
    """One run: its choices follow from the seed and its number."""

    def __init__(self, seed, number, deadline_s):
        self.choice = random.Random(f"{seed}-{number}")
        self.deadline_s = deadline_s
        self.script = list(SCRIPTS)[number % len(SCRIPTS)]
        self.target = self.choice.randint(1, MOST_WORKERS)
        self.fewest = self.target  # that the run may have had since it was at rest
        self.killed = set()
        self.done = {"resize": 0, "replace": 0, "kill": 0, "pause": 0}
        spares = self.choice.choice((0, 1, 1))
        variables = {"ET_LOADERS": self.choice.choice((0, 0, 1)),
                     "ET_PAUSE_S": self.choice.choice((0.005, 0.02, 0.05))}
        accumulation = self.choice.choice((1, 2)) if "accelerate" in self.script else 1
        if accumulation > 1:
            variables["ET_ACCUMULATION"] = accumulation
        chosen = {**{name[3:].lower(): value for name, value in sorted(variables.items())}, "spares": spares}
        self.what = " ".join([self.script, *(f"{name} {value}" for name, value in chosen.items())])
        milliseconds = int(1000 * deadline_s)
        config = job(workers=(1, self.target, MOST_WORKERS), audit={"every_steps": 1},
                     command=[PYTHON, *SCRIPTS[self.script], os.path.join(HERE, self.script)],
                     hosts={"list": [f"localhost:{MOST_WORKERS + 2}"]}, batch={"per_worker": 16},
                     failures={"max_crashes": "unlimited", "max_fruitless": 1000, "cool_down_ms": 100, "cool_down_max_ms": 500},
                     timeouts={"ready_ms": milliseconds, "start_ms": milliseconds})
        config["workers"]["spares"] = spares
        environment = {"PYTHONPATH": os.pathsep.join([torch_python.PACKAGE, HERE]), "OMP_NUM_THREADS": "1",
                       "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore",
                       **{name: str(value) for name, value in variables.items()}}
        self.run = Run(config, environment=environment)
        self.stop = self.run.environment["ET_STOP"] = os.path.join(self.run.directory, "stop")

    def go(self):
        """Raises Failed for whatever is wrong. Returns the closing audit."""
        self.rest()
        for _ in range(ACTIONS_PER_RUN):
            self.choice.choices((self.resize, self.replace, self.kill, self.kill_newcomer, self.pause), (5, 2, 4, 1, 1))[0]()
            if self.choice.random() < 0.5:
                self.rest()
            else:
                time.sleep(self.choice.uniform(0, 1))
        self.rest()
        self.ask_for_the_end()
        return self.check_end()

    # --- What happens

    def resize(self):
        self.target = self.choice.randint(1, MOST_WORKERS)
        self.fewest = min(self.fewest, self.target)
        self.run.do("resize", self.run.name, self.target)
        self.done["resize"] += 1

    def replace(self):
        """Any of the present workers; it may leave just then."""
        present = len(members(self.run.status()))
        if present:
            self.done["replace"] += self.run.command("replace", self.run.name, self.choice.randrange(present)).returncode == 0

    def kill(self):
        """Any of the workers, so that one is left whatever the others do."""
        present = self.present()
        if self.fewest > 1 and len(present) > 1:
            self.kill_one(self.choice.choice(present))

    def kill_newcomer(self):
        """One that has not joined when it is chosen; it may have when it is killed."""
        coming = [worker["pid"] for worker in self.run.status().get("workers", [])
                  if worker.get("rank") is None and worker.get("pid")]
        coming = [pid for pid in coming if pid not in self.killed and harness.is_alive(pid)]
        if self.fewest > 1 and coming:
            self.kill_one(self.choice.choice(coming))

    def kill_one(self, victim):
        self.fewest -= 1
        self.killed.add(victim)
        harness.signal_all([victim], signal.SIGKILL)
        self.done["kill"] += 1

    def pause(self):
        """A worker stands still, for less than a hang takes to be found."""
        present = self.present()
        if present:
            victim = self.choice.choice(present)
            harness.signal_all([victim], signal.SIGSTOP)
            time.sleep(self.choice.uniform(0, 0.5))
            harness.signal_all([victim], signal.SIGCONT)
            self.done["pause"] += 1

    def present(self):
        return [pid for pid in pids(self.run.status()) if pid not in self.killed]

    def rest(self):
        """Until all workers that are wanted train, and the killed ones are gone."""
        self.run.wait_status(lambda s: s.get("world_size") == self.target and s.get("phase") == "running"
                             and all(w.get("step", 0) > 0 for w in members(s)) and not self.killed & set(pids(s)),
                             self.deadline_s, f"{self.target} workers")
        self.fewest = self.target
        self.run.wait_more_steps(self.choice.randint(0, 8), self.deadline_s)

    # --- Its end

    def ask_for_the_end(self):
        """With an epoch that nobody has begun: a new worker passes through those that are over."""
        with open(self.stop + ".new", "w") as file:
            file.write(str(self.run.status()["epoch"] + 20))
        os.replace(self.stop + ".new", self.stop)

    def check_end(self):
        status = self.run.wait(self.deadline_s)
        self.require(status == 0, f"the run ended with status {status}")
        self.run.wait_no_processes(30)
        audit = self.run.audit()
        self.require(audit is not None and not any(int(audit[key]) for key in ("missing", "unaccounted", "repeated", "unequal_hashes")),
                     f"the audit says {audit}")
        counted = [text.split(COUNTED)[1] for _, text in self.run.lines if COUNTED in text]
        self.require(len(counted) == self.target and len(set(counted)) == 1, f"the workers counted {counted}")
        least, _, most, _, epochs, _ = counted[0].split()
        self.require(least == most == epochs, f"the workers counted {counted[0]}")
        trained = {member for record in self.run.events("generation") for member in record["members"]}
        # Workers that are no longer wanted before they have joined are ended by their agent.
        ends = [record for record in self.run.events("exited") if record["exit_code"] or record["signal"]
                and (record["signal"] != signal.SIGTERM or record["worker"] in trained)]
        self.require(len(ends) <= self.done["kill"] and all(end["signal"] == signal.SIGKILL for end in ends),
                     f"workers ended by {[(end['exit_code'], end['signal']) for end in ends]}, {self.done['kill']} were killed")
        self.require(not self.run.events("hang"), "a worker was taken for one that hangs")
        return audit

    def require(self, is_right, text):
        if not is_right:
            raise Failed(text)

    def keep(self, directory):
        """Journal, output and error of a run with a problem."""
        os.makedirs(directory, exist_ok=True)
        if os.path.exists(self.run.journal_path()):
            shutil.copy(self.run.journal_path(), directory)
        with open(os.path.join(directory, "output"), "w") as file:
            file.write(self.run.text())
        with open(os.path.join(directory, "traceback"), "w") as file:
            file.write(traceback.format_exc())


class Campaign:
    def __init__(self, options):
        self.options = options
        self.totals = {"resize": 0, "replace": 0, "kill": 0, "pause": 0, "steps": 0, "samples": 0}
        self.problems = []
        self.runs = 0

    def go(self):
        begun = time.monotonic()
        number = self.options.first
        while self.runs < self.options.runs and time.monotonic() - begun < 60 * self.options.minutes:
            self.one(number)
            self.runs, number = self.runs + 1, number + 1
        done = ", ".join(f"{count} {kind}" for kind, count in self.totals.items())
        print(f"seed {self.options.seed}: {self.runs} runs, {done}; {len(self.problems)} runs with problems")
        for problem in self.problems:
            print(problem)
        return 1 if self.problems else 0

    def one(self, number):
        trial = Trial(self.options.seed, number, self.options.deadline)
        trial.run.start()
        try:
            audit = trial.go()
            self.totals["steps"] += int(audit["steps"])
            self.totals["samples"] += int(audit["samples"])
            result = f"{audit['samples']} samples in {audit['steps']} steps"
        except Exception as error:  # every error is recorded
            kept = os.path.join(self.options.directory, f"problem-{self.options.seed}-{number}")
            trial.keep(kept)
            result = f"PROBLEM {error} ({kept})"
            self.problems.append(f"run {number}, --seed {self.options.seed} --first {number} --runs 1: {error}")
        finally:
            trial.run.kill()
        for kind, count in trial.done.items():
            self.totals[kind] += count
        done = ", ".join(f"{count} {kind}" for kind, count in trial.done.items())
        print(f"{time.strftime('%H:%M:%S')} run {number}: {trial.what}: {done}: {result}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10, help="no run begins after this time")
    parser.add_argument("--runs", type=int, default=1 << 30)
    parser.add_argument("--first", type=int, default=0, help="the number of the first run, to repeat one")
    parser.add_argument("--directory", default="build/campaign_torch", help="for the files kept of problems")
    parser.add_argument("--deadline", type=float, default=300, help="seconds until a change must be carried out")
    options = parser.parse_args()
    if not harness.BINARY:
        sys.exit("ELASTICTRAIN_BINARY names the binary to try; scripts/campaign_torch.sh sets it")
    if PYTHON is None:
        sys.exit(WHY_NOT)
    options.directory = os.path.abspath(options.directory)
    os.makedirs(options.directory, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit(143))
    sys.exit(Campaign(options).go())


if __name__ == "__main__":
    main()
