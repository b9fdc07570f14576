"""A fault campaign on real processes: training runs on namespaced hosts with sshd, faults of all kinds in a seeded order,
with the audit on. After every fault the run must train at its desired size before a deadline, and every healthy worker
must still be a member. At the end of every run the audit must be clean and no process may be left. The progress is kept
in DIR/campaign.json, so that --resume continues an interrupted campaign."""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import faults
import harness
import report
from harness import pids
from job import Job, RunEnded, mount_small_disk, survivors_kept
from lab import Lab, require_root

FAULTS_PER_RUN = 25
SMALL_DISKS = ("state", "checkpoints")


class Campaign:
    def __init__(self, options):
        self.options = options
        self.work = options.directory
        self.state_path = os.path.join(self.work, "campaign.json")
        self.state = {"seed": options.seed, "hosts": options.hosts, "faults": [], "runs": []}

    # --- Progress

    def open(self):
        os.makedirs(self.work, exist_ok=True)
        if self.options.resume and os.path.exists(self.state_path):
            with open(self.state_path) as file:
                self.state = json.load(file)
        for name in SMALL_DISKS:
            path = os.path.join(self.work, name)
            if not os.path.ismount(path):
                mount_small_disk(path, 64)

    def save(self):
        with open(self.state_path + ".new", "w") as file:
            json.dump(self.state, file, indent=1)
        os.replace(self.state_path + ".new", self.state_path)

    def say(self, text):
        print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)

    # --- The campaign

    def run(self):
        self.open()
        try:
            self.all_runs()
        finally:
            for name in SMALL_DISKS:
                subprocess.run(["umount", "-l", os.path.join(self.work, name)], check=True)
        return report.show(self.state)

    def all_runs(self):
        with Lab(hosts=self.state["hosts"]) as lab:
            while len(self.state["faults"]) < self.options.faults and not self.is_late() and not self.is_stuck():
                workload = "optdigits" if self.options.data and len(self.state["runs"]) % 4 == 3 else "synthetic"
                self.one_run(lab, workload)
        if self.options.data:
            self.reference()

    def is_late(self):
        return self.options.minutes and time.monotonic() > self.options.started + self.options.minutes * 60

    def is_stuck(self):
        """Number of runs that ended before their first fault."""
        last = self.state["runs"][-3:]
        return len(last) == 3 and all(run["first_fault"] == len(self.state["faults"]) for run in last)

    def one_run(self, lab, workload):
        record = {"workload": workload, "first_fault": len(self.state["faults"]), "problems": []}
        job = Job(lab, self.work, workload, self.options.data, self.options.deadline)
        try:
            job.run.start()
            self.say(f"run {len(self.state['runs']) + 1}: {workload}, {job.run.name}")
            job.wait_training()
            self.strike(job, record)
            self.close_run(job, record)
        except Exception as error:  # noqa: BLE001: every error is recorded
            record["problems"].append(f"{type(error).__name__}: {error}"[:600])
            self.say(f"  PROBLEM {error}")
            self.keep(job, record)
        finally:
            job.close()
        self.state["runs"].append(record)
        self.save()

    def strike(self, job, record):
        for _ in range(FAULTS_PER_RUN):
            if len(self.state["faults"]) >= self.options.faults or job.is_over() or self.is_late():
                return
            try:
                self.one_fault(job)
            except RunEnded as end:
                if job.workload == "optdigits" and end.status == 0:
                    return
                raise

    def one_fault(self, job):
        number = len(self.state["faults"])
        choice = random.Random(f"{self.state['seed']}-{number}")
        kinds = [getattr(faults, name) for name in self.options.kinds] or list(faults.WEIGHTS)
        kind = choice.choices(kinds, [faults.WEIGHTS[kind] for kind in kinds])[0]
        time.sleep(choice.uniform(0.0, 1.0))
        before = pids(job.run.status())
        aborts = len(job.run.events("abort"))
        fault = {"number": number, "kind": kind.__name__, "run": job.run.name, "ok": False}
        begin = time.monotonic()
        self.say(f"  fault {number + 1}: {kind.__name__}")
        self.state["faults"].append(fault)
        try:
            victims, status = self.carry_out(kind, job, choice)
        except RunEnded as end:
            fault["ok"] = job.workload == "optdigits" and end.status == 0
            raise
        finally:
            end_of_wait = time.monotonic()
            fault["seconds"] = round(end_of_wait - begin, 2)
            fault["idle_ms"] = round(job.steps.idle_between(begin, end_of_wait) * 1000)
            self.save()
        fault["restarted"] = len(survivors_kept(before, victims, status))
        fault["disturbed"] = kind in faults.QUIET and (len(job.run.events("abort")) > aborts or pids(status) != before)
        fault["ok"] = not fault["restarted"] and not fault["disturbed"]
        if not fault["ok"]:
            self.say(f"  PROBLEM restarted {fault['restarted']}, disturbed {fault['disturbed']}")
            self.keep(job, {"first_fault": number})

    def carry_out(self, kind, job, choice):
        try:
            victims = kind(job, choice)
            return victims, job.wait_training()
        except harness.Failed:
            # A fault may find that the training has ended a moment before.
            if job.is_over():
                raise RunEnded(job.run.wait(5)) from None
            raise

    def close_run(self, job, record):
        """Ends a run that has survived all faults."""
        if job.workload == "synthetic":
            job.run.do("stop", job.run.name)
        status = job.run.wait(300)
        if status != 0:
            record["problems"].append(f"exit status {status}")
        try:
            job.run.wait_no_processes(30)
        except harness.Failed as left:
            record["orphans"] = str(left)[:600]
        audit = job.run.audit() or {}
        record["audit"] = {key: audit.get(key) for key in ("steps", "missing", "repeated", "unequal_hashes", "hashes_compared")}
        if not audit or any(int(audit.get(key, 1)) for key in ("missing", "unaccounted", "repeated", "unequal_hashes")):
            record["problems"].append(f"audit: {record['audit']}")
        record["accuracy"] = last_accuracy(job.run)
        self.say(f"  ended: audit {record['audit']}, accuracy {record['accuracy']}")
        if record["problems"] or record.get("orphans"):
            self.keep(job, record)

    def keep(self, job, record):
        """Journal, output and config of a run with a problem."""
        target = os.path.join(self.work, f"problem-{record['first_fault']}-{len(self.state['faults'])}")
        os.makedirs(target, exist_ok=True)
        if os.path.isdir(os.path.join(job.run.state, job.run.name)):
            shutil.copytree(os.path.join(job.run.state, job.run.name), target, dirs_exist_ok=True,
                            ignore=shutil.ignore_patterns("*.sock"))
        with open(os.path.join(target, "output"), "w") as file:
            file.write(job.run.text())
        shutil.copytree(job.run.steps_directory, os.path.join(target, "steps"), dirs_exist_ok=True)
        with open(os.path.join(target, "traceback"), "w") as file:
            file.write(traceback.format_exc())

    def reference(self):
        """The same training without a fault."""
        if "reference_accuracy" in self.state:
            return
        with Lab(hosts=self.state["hosts"]) as lab:
            job = Job(lab, self.work, "optdigits", self.options.data, self.options.deadline)
            try:
                shutil.rmtree(os.path.join(self.work, "slow"))
                job.run.start()
                job.run.wait(300)
                self.state["reference_accuracy"] = last_accuracy(job.run)
            finally:
                job.close()
        self.save()


def last_accuracy(run):
    notes = [record for record in run.events("note") if "accuracy" in str(record.get("key"))]
    return notes[-1].get("value") if notes else None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--hosts", type=int, default=4, choices=range(3, 7))
    parser.add_argument("--resume", action="store_true", help="continue the campaign in the directory")
    parser.add_argument("--directory", default="build/campaign", help="for the state and the files kept of problems")
    parser.add_argument("--deadline", type=float, default=90, help="seconds from a fault until training must continue")
    parser.add_argument("--minutes", type=float, default=0, help="stop after this time; 0: never")
    parser.add_argument("--data", default="", help="directory with optdigits.tra and .tes; empty: no accuracy is measured")
    parser.add_argument("--kinds", default="", help="only these kinds of faults, separated by commas")
    options = parser.parse_args()
    options.directory = os.path.abspath(options.directory)
    options.kinds = [name for name in options.kinds.split(",") if name]
    options.started = time.monotonic()
    if not harness.BINARY:
        sys.exit("ELASTICTRAIN_BINARY names the binary to try; scripts/campaign.sh sets it")
    require_root()
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit(143))
    sys.exit(Campaign(options).run())


if __name__ == "__main__":
    main()
