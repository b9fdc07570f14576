"""A cluster that many runs share: the real cluster process, real runs on slots of this machine, and stand-ins of runs
that lie or stall."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import unittest

import harness
from cluster_lab import Cluster
from harness import BINARY, Case, synthetic, toml, wait_until


class Sharing(Case):
    def test_a_second_job_shrinks_the_first_and_its_end_grows_it_again(self):
        cluster = Cluster(self).start()
        self.assertIn("j1 (a) is queued", cluster.submit("a"))
        alone = cluster.wait_workers("a", 4)
        cluster.submit("b")
        shared = cluster.wait_workers("a", 2)
        other = cluster.wait_workers("b", 2)
        self.assertLessEqual(shared.items(), alone.items(), "a healthy worker was restarted")
        self.assertEqual(sorted([*shared, *other]), [0, 1, 2, 3], "two runs met on a slot")
        self.assertIn("max-min", cluster.do("queue"))
        self.assertIn("is to end", cluster.do("cancel", "b"))
        again = cluster.wait_workers("a", 4)
        self.assertLessEqual(shared.items(), again.items(), "a healthy worker was restarted")
        ended = cluster.wait_job("b", lambda job: job["phase"] == "ended", "the end")
        self.assertIn("cancelled by", ended["why"])
        cluster.do("cancel", "j1")
        cluster.wait_job("a", lambda job: job["phase"] == "ended", "the end")
        wait_until(lambda: cluster.processes() == [cluster.process.pid], 60, "the end of all processes")
        cluster.assert_slots_used_once()
        decided = cluster.journal("decided")
        self.assertTrue(all(record["policy"] == "max-min" and record["trigger"] for record in decided))
        self.look_back_at(cluster)

    def look_back_at(self, cluster):
        """Its history can be read while it runs and after it has ended."""
        cluster.kill()
        events = cluster.do("events", "--cluster", "test")
        self.assertIn("submitted  job=1 user=", events)
        self.assertNotIn("environment=", events)
        self.assertEqual(len(cluster.do("events", "--cluster", "test", "--type", "submitted").splitlines()), 2)
        explained = cluster.do("explain", "--cluster", "test")
        self.assertRegex(explained, r"(?m): 4 slots for 2 jobs, 0 wait \(max-min\)\n(  j2: .*\n)?  j1: 4 -> 2: ")
        cluster.refused(69, "cannot be read", "events", "--cluster", "nowhere")
        again = json.loads(cluster.do("simulate", cluster.place, "--policy", "max-min", "--gpus", "4", "--json"))[0]
        self.assertEqual(again["trace"], "test")

    def test_a_job_waits_for_its_least_and_higher_priorities_go_first(self):
        cluster = Cluster(self, slots=2).start()
        cluster.submit("first", 2, 2)
        cluster.wait_workers("first", 2)
        cluster.submit("second", 2, 2)
        cluster.submit("third", 2, 2, 2, "--priority", "5")
        cluster.wait_job("third", lambda job: job["phase"] == "queued" and "no slot" in job["why"], "its reason")
        self.assertEqual(cluster.queue()["waiting"], ["j3", "j2"])
        self.assertIn("has priority 9", cluster.do("priority", "second", "9"))
        wait_until(lambda: cluster.queue()["waiting"] == ["j2", "j3"], 30, "the new order")
        cluster.do("cancel", "first")
        cluster.wait_workers("second", 2)
        self.assertIn("is cancelled", cluster.do("cancel", "third"))

    def test_a_job_with_checkpoints_is_paused_and_goes_on(self):
        cluster = Cluster(self, slots=2).start()
        checkpoints = os.path.join(cluster.directory, "checkpoints")
        cluster.submit("a", 1, 2, 2, checkpoint={"directory": checkpoints})
        cluster.wait_workers("a", 2)
        cluster.wait_job("a", lambda job: job["samples"] > 0, "samples")
        self.assertIn("is paused", cluster.do("pause", "a"))
        cluster.wait_job("a", lambda job: job["slots"] == 0 and job["run_phase"] == "waiting", "suspension")
        self.assertGreater(harness.newest_checkpoint(os.path.join(checkpoints, "a")), 0)
        cluster.submit("b", 2, 2, checkpoint={"directory": checkpoints})
        cluster.wait_workers("b", 2)
        before = cluster.job("a")["samples"]
        cluster.do("cancel", "b")
        self.assertIn("goes on", cluster.do("resume", "a"))
        cluster.wait_workers("a", 2)
        cluster.wait_job("a", lambda job: job["samples"] > before, "progress")
        cluster.submit("c", 1, 1)
        cluster.wait_workers("c", 1)
        cluster.refused(78, "writes no checkpoints", "pause", "c")
        cluster.assert_slots_used_once()


class JobsOfTheFile(Case):
    def test_they_are_submitted_once_and_status_shows_the_hosts(self):
        cluster = Cluster(self, slots=3)
        cluster.write("a.toml", toml({"workers": {"min": 1, "max": 2}, "batch": {"per_worker": 16}, "trainer": synthetic()}))
        with open(cluster.path, "a") as file:
            file.write('[[job]]\nname = "a"\nconfig = "a.toml"\narguments = ["--start", "2"]\n'
                       '[[job]]\nname = "wrong"\nconfig = "absent.toml"\n'
                       '[[job]]\nname = "b"\npriority = -3\narguments = ["-n", "1", "--", "sleep", "1000"]\n')
        cluster.start()
        before = cluster.wait_workers("a", 2)
        cluster.wait_job("b", lambda job: job["phase"] == "joined" and job["slots"] == 1, "the second job")
        self.assertEqual([(job["name"], job["priority"]) for job in cluster.queue()["jobs"]], [("a", 0), ("b", -3)])
        self.assertIn("job wrong of the cluster's file was not submitted", cluster.text())
        self.assertIn("absent.toml", cluster.text())
        self.assertRegex(cluster.do("status", "--cluster", "test"), r"(?m)^localhost +3 +3 +0 +j1: 2, j2: 1$")
        self.assertEqual(json.loads(cluster.do("status", "--cluster", "test", "--json"))["leased"], 3)
        cluster.refused(64, "leave out the run a", "status", "a", "--cluster", "test")
        cluster.do("cancel", "b")
        cluster.wait_job("b", lambda job: job["phase"] == "ended", "the end")
        cluster.kill()
        cluster.refused(69, "no cluster is running", "status", "--cluster", "test")
        cluster.start()
        cluster.wait_job("a", lambda job: job["phase"] == "joined", "return")
        wait_until(lambda: cluster.text().count("job wrong of the cluster's file was not submitted") == 2, 60, "the next start")
        self.assertEqual([job["name"] for job in cluster.queue()["jobs"]], ["a", "b"])
        self.assertEqual(cluster.wait_workers("a", 2), before)

    def test_a_request_that_cannot_be_fulfilled_is_refused_at_once(self):
        cluster = Cluster(self, slots=2).start()
        cluster.refused(78, "asks for the host elsewhere", "submit", "-n", "1", "--job-hosts", "elsewhere", "--", "true")

    def test_a_word_of_a_program_is_not_taken_for_a_word_of_the_protocol(self):
        cluster = Cluster(self, slots=2).start()
        self.assertIn("is queued", cluster.do("submit", "-n", "1", "--name", "a", "--", "true", "join"))


class Failures(Case):
    def test_runs_train_on_without_the_cluster_and_are_taken_up_again(self):
        cluster = Cluster(self).start()
        cluster.submit("a")
        cluster.submit("b")
        before = cluster.wait_workers("a", 2), cluster.wait_workers("b", 2)
        leases = [(job["name"], job["leased"], job["version"]) for job in cluster.queue()["jobs"]]
        cluster.kill()
        cluster.refused(69, "no cluster is running", "queue", "--cluster", "test")
        step = cluster.status("a")["step"]
        wait_until(lambda: cluster.status("a")["step"] > step + 5, 60, "steps without the cluster")
        cluster.start()
        for name in ("a", "b"):
            cluster.wait_job(name, lambda job: job["phase"] == "joined", "return")
        wait_until(lambda: not cluster.queue()["resuming"], 60, "the end of the wait")
        self.assertEqual([(job["name"], job["leased"], job["version"]) for job in cluster.queue()["jobs"]], leases)
        self.assertEqual((cluster.wait_workers("a", 2), cluster.wait_workers("b", 2)), before)
        cluster.do("cancel", "b")
        after = cluster.wait_workers("a", 4)
        self.assertLessEqual(before[0].items(), after.items(), "a healthy worker was restarted")
        cluster.assert_slots_used_once()

    def test_a_journal_that_was_shortened_says_all_that_is_needed(self):
        cluster = Cluster(self, slots=2, journal_max_bytes=4096).start()
        cluster.submit("a", 1, 1)
        workers = cluster.wait_workers("a", 1)
        whole = os.path.join(cluster.place, "journal.1.jsonl")
        for number in range(20):
            cluster.do("submit", "-n", "1", "--name", f"bad-{number}", "--", "/no/such/program")
            cluster.wait_job(f"bad-{number}", lambda job: job["phase"] == "ended", "the end")
        wait_until(lambda: os.path.exists(whole), 30, "a shortened journal")
        before = [(job["name"], job["phase"], job["leased"], job["version"]) for job in cluster.queue()["jobs"]]
        cluster.kill()
        cluster.start()
        cluster.wait_job("a", lambda job: job["phase"] == "joined", "return")
        after = [(job["name"], job["phase"], job["leased"], job["version"]) for job in cluster.queue()["jobs"]]
        self.assertEqual(after, before)
        self.assertEqual(cluster.wait_workers("a", 1), workers, "a healthy worker was restarted")
        self.assertNotIn("cannot be read", cluster.text())
        cluster.assert_slots_used_once()

    def test_a_supervisor_that_is_killed_is_taken_up(self):
        cluster = Cluster(self, slots=2).start()
        cluster.submit("a", 1, 2)
        workers = cluster.wait_workers("a", 2)
        supervisor = cluster.job("a")["pid"]
        os.kill(supervisor, signal.SIGKILL)
        cluster.wait_job("a", lambda job: job["phase"] == "joined" and job["pid"] != supervisor, "a new supervisor")
        self.assertEqual(cluster.wait_workers("a", 2), workers, "a healthy worker was restarted")
        step = cluster.status("a")["step"]
        cluster.wait_job("a", lambda job: job["step"] > step and job["samples"] > 0, "the new supervisor's reports", 30)
        cluster.do("cancel", "a")
        cluster.wait_job("a", lambda job: job["phase"] == "ended", "the end")

    def test_a_job_that_cannot_start_ends_with_its_status(self):
        cluster = Cluster(self, slots=2).start()
        cluster.do("submit", "-n", "1", "--name", "bad", "--", "/no/such/program")
        ended = cluster.wait_job("bad", lambda job: job["phase"] == "ended", "the end")
        self.assertNotEqual(ended["status"], 0)
        cluster.submit("good", 1, 2)
        cluster.wait_workers("good", 2)

    def test_runs_that_come_back_keep_their_leases(self):
        cluster = Cluster(self).start()
        first = cluster.stand_in(run="a", directory="/nowhere/a").join()
        first.report(*first.wait_lease(4))
        second = cluster.stand_in(run="b", directory="/nowhere/b").join()
        leases = {"j1": first.wait_lease(2)}
        first.report(*leases["j1"])
        leases["j2"] = second.wait_lease(2)
        second.report(*leases["j2"])
        cluster.kill()
        cluster.start()
        self.assertIn("waits for its runs; nothing is decided yet", cluster.do("queue"))
        back = {}
        for name, job in (("a", "j1"), ("b", "j2")):
            version, slots = leases[job]
            back[job] = cluster.stand_in(run=name, directory=f"/nowhere/{name}", job=job, lease=version,
                                         holds=[{"host": "localhost", "slots": slots}]).join()
        wait_until(lambda: not cluster.queue()["resuming"], 60, "the end of the wait")
        for job, run in back.items():
            self.assertEqual(run.wait_lease(2), leases[job])
        back["j2"].send({"ended": {"status": 0}})
        self.assertEqual(back["j1"].wait_lease(4)[1], [0, 1, 2, 3])
        cluster.do("cancel", "a")
        wait_until(lambda: back["j1"].said("end"), 30, "the end")
        cluster.assert_slots_used_once()

    def test_slots_that_are_not_given_back_are_shown_and_not_granted(self):
        cluster = Cluster(self, slots=2, recall_timeout_ms=500).start()
        keeper = cluster.stand_in(run="keeper").join()
        version, slots = keeper.wait_lease(2)
        keeper.report(version, slots)
        other = cluster.stand_in(run="other", directory="/nowhere/other").join()
        wait_until(lambda: len(keeper.leased()[1]) == 1, 30, "the recall")
        cluster.wait_job("keeper", lambda job: job["overdue"], "overdue slots")
        self.assertIn("overdue", cluster.do("queue"))
        self.assertEqual(other.leased()[1], [])
        keeper.report(keeper.leased()[0], keeper.leased()[1])
        other.wait_lease(1)
        self.assertNotEqual(other.leased()[1], keeper.leased()[1])


@unittest.skipUnless(os.geteuid() == 0, "needs root, to be two users")
class Users(Case):
    """Another user of this machine, by a real uid."""

    UID = 65534

    def setUp(self):
        sections = {"limits": {"slots": 3}, f"limits.users.{pwd.getpwuid(self.UID).pw_name}": {"slots": 2}}
        self.cluster = Cluster(self, access="everyone", directory="shared", **sections)
        self.cluster.write("job.toml", toml({"workers": {"min": 1, "start": 1, "max": 4}, "batch": {"per_worker": 16},
                                             "trainer": synthetic()}))
        self.home = os.path.join(self.cluster.directory, "home")
        os.mkdir(self.home)
        os.chown(self.home, self.UID, self.UID)
        # Others may be unable to reach the build.
        self.binary = shutil.copy(BINARY, self.cluster.directory)
        os.chmod(self.cluster.directory, 0o755)
        self.cluster.start()

    def other(self, *words):
        environment = {"PATH": "/usr/bin:/bin", "HOME": self.home, "ELASTICTRAIN_STATE_DIR": os.path.join(self.home, "state"),
                       "ELASTICTRAIN_CLUSTER": self.cluster.place + "/", harness.MARK: self.cluster.token}
        return subprocess.run([self.binary, *words], env=environment, capture_output=True, text=True, timeout=60, cwd=self.home,
                              stdin=subprocess.DEVNULL, user=self.UID, group=self.UID, extra_groups=[])

    def test_two_users_share_the_slots_and_keep_their_hands_off_each_other(self):
        theirs = self.other("submit", os.path.join(self.cluster.directory, "job.toml"), "--name", "theirs")
        self.assertEqual(theirs.returncode, 0, theirs.stderr + self.cluster.text())
        self.cluster.submit("mine")
        workers = self.cluster.wait_workers("mine", 2)
        job = self.cluster.wait_job("theirs", lambda job: job["slots"] == 2 and job["samples"] > 0, "its slots")
        with open(f"/proc/{job['pid']}/status") as file:
            uid = next(int(line.split()[1]) for line in file if line.startswith("Uid:"))
        self.assertEqual((job["user"], uid), (pwd.getpwuid(self.UID).pw_name, self.UID))
        for part, words in (("belongs to user root", ("cancel", "mine")),
                            ("limits.slots", ("submit", "-n", "3", "--", "true")),
                            ("limits.priority", ("priority", "theirs", "5"))):
            refused = self.other(*words)
            self.assertEqual(refused.returncode, 77, refused.stdout + refused.stderr)
            self.assertIn(part, refused.stderr)
        self.assertIn("is to end", self.other("cancel", "theirs").stdout)
        self.cluster.wait_job("theirs", lambda job: job["phase"] == "ended", "the end")
        self.assertLessEqual(workers.items(), self.cluster.wait_workers("mine", 3).items(), "a healthy worker was restarted")
        self.cluster.assert_slots_used_once()


# A cluster's socket of another user: prints what it is sent, one line each, and lets every run wait for itself.
FAKE = """
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1] + "/cluster.sock")
os.chmod(sys.argv[1] + "/cluster.sock", 0o666)
listener.listen()
print("ready", flush=True)
while True:
    connection, _ = listener.accept()
    line = connection.makefile().readline()
    print(line.strip(), flush=True)
    answer = b'{"ok":true,"start":"self"}' if '"submit"' in line else b'{"ok":false,"text":"no"}'
    connection.sendall(answer + b"\\n")
    connection.close()
"""


class Strangers(Case):
    @unittest.skipUnless(os.geteuid() == 0, "needs root, to be two users")
    def test_a_cluster_of_another_user_learns_neither_program_nor_environment(self):
        cluster = Cluster(self)  # for its directories; it is not started
        os.chmod(cluster.directory, 0o755)
        place = os.path.join(cluster.directory, "fake")
        os.mkdir(place)
        os.chown(place, Users.UID, Users.UID)
        fake = subprocess.Popen(["/usr/bin/python3", "-c", FAKE, place], stdout=subprocess.PIPE, text=True, user=Users.UID,
                                group=Users.UID, extra_groups=[])
        self.addCleanup(lambda: (fake.kill(), fake.wait(), fake.stdout.close()))
        self.assertEqual(fake.stdout.readline().strip(), "ready")
        cluster.environment.update(ELASTICTRAIN_SECRET="sixteen-letters-", HF_TOKEN="hf_1", ELASTICTRAIN_CLUSTER=place + "/")
        self.assertIn("waits for slots as process", cluster.do("submit", "-n", "1:2", "--name", "a", "--", "./program", "word"))
        job = json.loads(fake.stdout.readline())["job"]
        self.assertEqual((job["name"], job["min"], job["max"]), ("a", 1, 2))
        self.assertEqual(job.keys() & {"arguments", "working_directory", "environment"}, set())


class BadInput(Case):
    def test_the_cluster_file(self):
        cluster = Cluster(self)
        for text, part in (("naem = 'x'", 'cluster.toml:1:1: unknown key "naem"; did you mean "name"?'),
                           ("name = 'x'\npolicy = 'afs-q'", 'cluster.toml:2:10: there is no policy "afs-q"; did you mean'),
                           ("name = 'x'\npolicy = 'max-min-fluid'", "cluster.toml:2:10: policy max-min-fluid is a bound that no"),
                           ("name = 'x'\nlengths = 'guessed'", 'lengths must be "said" or "estimated"'),
                           ("name = 'x'\nrecall_timeout_ms = -1", "recall_timeout_ms must be a whole number from 100 to"),
                           ("name = 'x'\n[limits.users.u]\nslot = 3", 'unknown key "slot" in [limits.users.u]; did you mean "slots"?'),
                           ("name = 'x'\npacking = true", 'packing = true needs a policy that packs'),
                           ("name = 'x'", "give either hosts.list or hosts.file"),
                           ("name = 'x'\n[hosts]\nlist = ['a:0']", "hosts.list"),
                           ("name = 'x'\n[hosts]\nlist = ['a']\nfile = 'b'", "give either hosts.list or hosts.file"),
                           ("name = 'x'\n[hosts]\nlist = ['a']\nexpand = 'b'", "hosts.expand needs hosts.most_slots"),
                           ("name = 'x'\n[hosts]\nlist = ['a']\nshrink = 'b'", "hosts.shrink needs hosts.expand"),
                           ("name = 'x'\n[hosts]\nleast_gain = 2", "hosts.least_gain must be a number from 0 to 1"),
                           ("name = 'x'\n[hosts]\nleast_gain = nan", "hosts.least_gain must be a number from 0 to 1"),
                           ("name = 'x'\n[[job]]\nconfig = 'a'", "cluster.toml:2:1: job.name is missing"),
                           ("name = 'x'\n[[job]]\nname = 'a'", "job a needs a config, or arguments"),
                           ("name = 'x'\n[[job]]\nname = 'a/b'\nconfig = 'a'", "job.name: "),
                           ("name = 'x'\n[[job]]\nname = 'a'\nconfg = 'a'", 'unknown key "confg" in [job]; did you mean "config"?'),
                           ("name = 'x'\n[[job]]\nname = 'a'\nconfig = 'a'\n[[job]]\nname = 'a'\nconfig = 'b'", "another job of this file"),
                           ("name = 'x'\n[job]\nname = 'a'", "write [[job]] followed by its keys"),
                           ("name = [", "cluster.toml:1:")):
            cluster.refused(78, part, "cluster", cluster.write("cluster.toml", text + "\n"))
        cluster.refused(66, "cannot be read", "cluster", os.path.join(cluster.directory, "absent.toml"))
        cluster.refused(64, "name the cluster's file", "cluster")

    def test_orders(self):
        cluster = Cluster(self, slots=2)
        cluster.refused(69, "no cluster is running", "queue")
        cluster.start()
        cluster.refused(69, "already running", "cluster", cluster.path)
        cluster.refused(69, "no job j7", "cancel", "j7")
        cluster.refused(64, "name a job", "cancel")
        cluster.refused(64, "whole number from -1000", "priority", "j1", "high")
        cluster.refused(69, "needs 3 slots and the cluster has 2 slots", "submit", "-n", "3", "--", "true")
        cluster.submit("a", 1, 2)
        cluster.refused(78, "the name a is in use by job j1", "submit", "-n", "1", "--name", "a", "--", "true")
        cluster.refused(78, "./absent.py does not exist here", "submit", "-n", "1", "./absent.py")
        cluster.refused(78, "absent.py does not exist here", "submit", "-n", "1", "python3", "-u", "absent.py", "--steps", "3")
        cluster.refused(78, "workrs", "submit", cluster.write("bad.toml", "[workrs]\nmin = 1\n"))
        cluster.refused(69, "no cluster is running", "queue", "--cluster", "nowhere")

    def test_limits_of_a_user(self):
        limits = {"slots": 1, "queued": 2, "priority": 3}
        cluster = Cluster(self, slots=4, limits=limits).start()
        cluster.refused(77, "needs 2 slots and user", "submit", "-n", "2", "--", "true")
        cluster.submit("a", 1, 4, 1)
        cluster.wait_workers("a", 1)
        cluster.submit("b", 1, 4, 1)
        cluster.wait_job("b", lambda job: job["phase"] == "queued" and "no slot" in job["why"], "its reason")
        cluster.refused(75, "limits.queued", "submit", "-n", "1", "--", "true")

    def test_runs_that_lie_are_refused_and_harm_nobody(self):
        cluster = Cluster(self, slots=2).start()
        cluster.submit("a", 1, 2)
        workers = cluster.wait_workers("a", 2)
        for line in ("nonsense", "{}", '{"report":{}}', "[" * 100_000, '{"command":"submit"}',
                     '{"command":"join","protocol":1}', '{"command":"queue"', "\0" * 100):
            stranger = cluster.stand_in()
            stranger.send(line)
            wait_until(lambda: stranger.said("ok") or stranger.closed.is_set(), 30, f"an answer to {line[:20]!r}")
            self.assertNotIn(True, stranger.said("ok"))
        flood = cluster.stand_in()
        try:
            flood.socket.sendall(b"x" * (4 << 20))
        except OSError:
            pass
        self.assertTrue(flood.closed.wait(30))
        for holds in ([{"host": "elsewhere", "slots": [0]}], [{"host": "localhost", "slots": [9]}],
                      [{"host": "localhost", "slots": [0]}]):
            liar = cluster.stand_in(holds=holds).join()
            wait_until(lambda: liar.said("ok"), 30, "an answer")
            self.assertEqual(liar.said("ok")[0], False, holds)
        for number in (float("nan"), 1e300, -1, "3", None):
            liar = cluster.stand_in().join()
            wait_until(lambda: liar.said("ok"), 30, "an answer")
            liar.report(0, [], rates=[{"workers": 1, "hosts": 1, "samples_per_s": number, "views": 3}])
            self.assertTrue(liar.closed.wait(30), f"{number} was taken")
        liar = cluster.stand_in().join()
        wait_until(lambda: liar.said("ok"), 30, "an answer")
        liar.report(99, [])
        self.assertTrue(liar.closed.wait(30), "a lease that was never given")
        # A run that joins may get a slot until it lies, but the job is never started again.
        self.assertEqual(cluster.wait_workers("a", 2)[0], workers[0])


if __name__ == "__main__":
    harness.main()
