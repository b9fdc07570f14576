"""Real kills, stops and full disks: the run continues with the survivors, no sample is lost or seen twice, and no healthy
worker is restarted. Tests that need several hosts are in partitions_test.py; the long campaign is in tests/campaign."""

import os
import random
import re
import shutil
import signal
import subprocess
import tempfile

import harness
from harness import BINARY, Case, HostList, Run, command_of, is_alive, job, members, pids, synthetic, wait_until

FAST = {"cool_down_ms": 500}


def agents_of(run):
    return [pid for pid in run.processes() if " agent" in command_of(pid)]


def small_disk(case, path, kilobytes):
    """A small file system that fills up quickly."""
    if os.geteuid() != 0:
        case.skipTest("a file system of a limited size needs root")
    os.makedirs(path, exist_ok=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k,mode=700", "none", path], capture_output=True)
    if mounted.returncode != 0:
        case.skipTest("no file system can be mounted here")
    case.addCleanup(subprocess.run, ["umount", "-l", path], check=True)


def fill(path):
    """Fills the rest of a file system; removing the file frees it."""
    filler = os.path.join(path, "filler")
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return filler


class WorkerLost(Case):
    def wait_replaced(self, run, size, lost):
        return run.wait_status(lambda s: s["phase"] == "running" and len(members(s)) == size
                               and not set(lost) & set(pids(s)), what=f"{lost} replaced")

    def test_killed_workers_are_replaced_and_the_others_stay(self):
        choice = random.Random(3)
        with Run(job(workers=(1, 3, 3), failures=FAST)) as run:
            now = pids(run.wait_size(3))
            for round_ in range(4):
                run.wait_step(run.last_step() + choice.randrange(1, 12))
                victim = now[choice.randrange(3)]
                os.kill(victim, signal.SIGKILL)
                after = pids(self.wait_replaced(run, 3, [victim]))
                self.assertEqual(after[:2], [pid for pid in now if pid != victim], "who was healthy stays, in its order")
                now = after
                run.wait_more_steps(10)
            self.assertEqual(len(run.events("loss")), 4)
            self.assert_stops_clean(run)

    def test_two_that_die_at_once_are_one_recovery(self):
        with Run(job(workers=(1, 4, 4), failures=FAST)) as run:
            before = pids(run.wait_size(4))
            for pid in before[:2]:
                os.kill(pid, signal.SIGKILL)
            self.assertEqual(pids(self.wait_replaced(run, 4, before[:2]))[:2], before[2:])
            run.wait_more_steps(10)
            self.assert_stops_clean(run)

    def test_all_but_one_may_die(self):
        with Run(job(workers=(1, 3, 3), failures=FAST)) as run:
            before = pids(run.wait_size(3))
            for pid in before[1:]:
                os.kill(pid, signal.SIGKILL)
            self.assertEqual(pids(self.wait_replaced(run, 3, before[1:]))[0], before[0])
            run.wait_more_steps(10)
            self.assert_stops_clean(run)

    def test_a_death_while_the_run_grows(self):
        with Run(job(workers=(1, 2, 4), trainer=synthetic(startup_delay_ms=400), failures=FAST)) as run:
            before = pids(run.wait_size(2))
            run.do("resize", run.name, 4)
            wait_until(lambda: len(run.events("hello")) > 2, 20, "a joiner")
            os.kill(before[1], signal.SIGKILL)
            self.assertIn(before[0], pids(self.wait_replaced(run, 4, [before[1]])))
            run.wait_more_steps(10)
            self.assert_stops_clean(run)

    def test_a_supervisor_that_was_frozen_finds_its_run_unharmed(self):
        with Run(job(workers=(1, 2, 2), timeouts={"heartbeat_ms": 50, "suspect_ms": 200, "dead_ms": 500})) as run:
            before = pids(run.wait_size(2))
            run.signal(signal.SIGSTOP)
            run.wait_more_steps(150)
            run.signal(signal.SIGCONT)
            run.do("status", run.name)
            run.wait_more_steps(20)
            self.assertEqual(pids(run.status()), before)
            for event in ("agent_lost", "loss", "abort"):
                self.assertEqual(run.events(event), [])
            self.assert_stops_clean(run)

    def test_a_stopped_worker_is_found_and_replaced_and_its_place_is_told(self):
        with Run(job(workers=(1, 3, 3), failures=FAST)) as run:
            before = pids(run.wait_size(3))
            run.wait_more_steps(20)
            os.kill(before[1], signal.SIGSTOP)
            after = pids(self.wait_replaced(run, 3, [before[1]]))
            self.assertEqual(after[:2], [before[0], before[2]])
            self.assertFalse(is_alive(before[1]))
            self.assertEqual(run.events("loss")[-1]["class"], "hang")
            self.assertTrue(run.events("stacks"), "where it hung is in the journal")
            self.assert_stops_clean(run)

    def test_without_a_budget_the_run_ends_as_the_worker_did(self):
        program = ["sh", "-c", f'"{BINARY}" worker --model=synthetic --compute-us-per-sample=1000 --epochs=1000 & echo $!;'
                   ' wait $!; echo out of luck >&2; exit 3']
        config = job(workers=(1, 2, 2), command=program, failures={"max_crashes": 0})
        with Run(config) as run:
            run.wait_size(2)
            told = wait_until(lambda: re.findall(r"(?m)^\[[^]]*:1\] (\d+)$", run.text()), 10, "the pid of rank 1")
            os.kill(int(told[0]), signal.SIGKILL)
            self.assertEqual(run.wait(), 3)
            run.wait_no_processes()
            self.assertIn("out of luck", run.text("stderr"))

    def test_a_lost_agent_takes_only_its_own_workers_along(self):
        config = job(workers=(1, 3, 3), hosts={"list": ["localhost:2", "127.0.0.1:2"]}, failures=FAST)
        with Run(config) as run:
            before = members(run.wait_size(3))
            lost = [w["pid"] for w in before if w["host"] == "127.0.0.1"]
            stayed = [w["pid"] for w in before if w["host"] == "localhost"]
            parents = {pid for pid in agents_of(run) for child in lost if self.parent_of(child) == pid}
            self.assertEqual(len(parents), 1)
            os.kill(parents.pop(), signal.SIGKILL)
            self.assertEqual(pids(self.wait_replaced(run, 3, lost))[:len(stayed)], stayed)
            self.assertEqual(run.events("loss")[-1]["class"], "infrastructure")
            run.wait_more_steps(10)
            self.assert_stops_clean(run)

    @staticmethod
    def parent_of(pid):
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rsplit(")", 1)[1].split()[1])


class TooFewLeft(Case):
    def start(self, **failures):
        directory = tempfile.mkdtemp(prefix="et-failures-")
        self.addCleanup(shutil.rmtree, directory)
        self.checkpoints = os.path.join(directory, "checkpoints")
        self.hosts = HostList(self, "localhost:1", "127.0.0.1:1")
        return job(workers=(2, 2, 2), hosts=self.hosts.section(), failures={**FAST, **failures})

    def lose_second_host(self, run):
        second = next(w["pid"] for w in members(run.wait_size(2)) if w["host"] == "127.0.0.1")
        run.wait_more_steps(10)
        self.hosts.offer("localhost:1")
        run.wait_event("host_vanished")
        os.kill(second, signal.SIGKILL)
        run.wait_event("below_min")

    def test_an_only_agent_that_is_killed_before_it_connects_is_started_again(self):
        for _ in range(20):  # where it had connected, it is lost with its workers, which is another story
            with Run(job()) as run:
                agent = wait_until(lambda: next((pid for pid in run.processes()
                                                 if command_of(pid).split()[1:2] == ["agent"]), None),
                                   20, "the agent", interval=0.001)
                os.kill(agent, signal.SIGKILL)
                wait_until(lambda: run.events("agent_lost") or run.events("agent_connected"), 20, "what became of it")
                if run.events("agent_lost") and not run.events("agent_connected", agent=1):
                    run.wait_size(2)
                    return self.assert_ends_clean(run)
        self.fail("the agent connected before it was killed, twenty times")

    def test_below_the_minimum_the_survivors_wait_for_a_host(self):
        with Run(self.start()) as run:
            first = pids(run.wait_size(2))[0]
            self.lose_second_host(run)
            self.hosts.offer("localhost:1", "127.0.0.1:1")
            self.assertEqual(pids(run.wait_size(2))[0], first)
            run.wait_more_steps(10)
            self.assert_ends_clean(run)

    def test_whoever_waits_in_vain_leaves_a_checkpoint_and_status_75(self):
        config = self.start(wait_for_min_s=1)
        config["checkpoint"] = {"directory": self.checkpoints}
        with Run(config) as run:
            self.lose_second_host(run)
            self.assertEqual(run.wait(), 75)
            run.wait_no_processes()
            self.assertTrue([name for name in os.listdir(self.checkpoints) if name.endswith(".safetensors")])

    def test_without_checkpoints_it_is_69(self):
        with Run(self.start(wait_for_min_s=1)) as run:
            self.lose_second_host(run)
            self.assertEqual(run.wait(), 69)
            run.wait_no_processes()


class EverythingLost(Case):
    def test_the_newest_checkpoint_is_taken_up_with_another_number_of_workers(self):
        directory = tempfile.mkdtemp(prefix="et-failures-")
        self.addCleanup(shutil.rmtree, directory)
        config = job(workers=(1, 3, 4), trainer=synthetic(samples=7200, epochs=3),
                     checkpoint={"directory": directory, "interval_steps": 10}, batch={"per_worker": 16})
        with Run(config) as run:
            run.wait_size(3)
            run.wait_checkpoint(directory, 10)
            run.lose_everything()
            run.resume()
            wait_until(lambda: run.command("resize", run.name, 2).returncode == 0, 20, "another size for the new start")
            self.assertEqual(run.wait(60), 0)
            run.wait_no_processes()
            self.assert_audit_clean(run)
            self.assertEqual(int(run.audit()["samples"]), 3 * 7200, "every sample once in each of three epochs")
            self.assertEqual(run.events("generation")[-1]["world_size"], 2)


class DiskFull(Case):
    def test_a_full_disk_under_the_journal_stops_nobody(self):
        state = tempfile.mkdtemp(prefix="et-failures-")
        self.addCleanup(os.rmdir, state)
        small_disk(self, state, 512)
        with Run(job(), state=state) as run:
            run.wait_size(2)
            filler = fill(state)
            run.do("resize", run.name, 3)
            run.wait_status(lambda s: s["world_size"] == 3, what="a change on a full disk")
            run.wait_more_steps(10)
            os.remove(filler)
            run.do("resize", run.name, 2)
            run.wait_size(2)
            self.assertTrue(run.events("journal_gap"), "the journal says how much is missing")
            self.assertIn("cannot be written", run.text("stderr"))
            self.assert_ends_clean(run)

    def test_a_full_disk_under_the_checkpoints_stops_nobody(self):
        checkpoints = tempfile.mkdtemp(prefix="et-failures-")
        self.addCleanup(os.rmdir, checkpoints)
        small_disk(self, checkpoints, 512)
        config = job(checkpoint={"directory": checkpoints, "interval_steps": 10})
        with Run(config) as run:  # 400 kB a checkpoint: the second one does not fit
            run.wait_size(2)
            run.wait_event("note", key="checkpoint_failed")
            run.wait_more_steps(20)
            whole = [name for name in os.listdir(checkpoints) if name.endswith(".safetensors")]
            self.assertEqual(len(whole), 1, "the first one stays")
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 74, "the last state is on no disk")
            run.wait_no_processes()
            self.assert_audit_clean(run)


if __name__ == "__main__":
    harness.main()
