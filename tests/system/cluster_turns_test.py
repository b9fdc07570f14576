"""What a live cluster decides as time passes: deadlines, turns in memory, two jobs in the same slots."""

import os
import signal

import harness
from cluster_lab import Cluster, Contention
from harness import Case, synthetic, wait_until


class Deadlines(Case):
    """A deadline is a least share."""

    def test_a_job_is_given_the_slots_that_it_needs_to_end_in_time(self):
        cluster = Cluster(self).start()
        # At most 200 samples a second on one worker: two or three workers are needed for all of them in an hour.
        work = {**synthetic(), "compute_us_per_sample": 5000, "epochs": 1, "samples": 972_000}
        self.assertIn("is known when it has been measured", cluster.submit("first", 1, 4, 1, "--job-deadline", "1h", trainer=work))
        cluster.wait_job("first", lambda job: job["in_time"] and job["deadline_slots"] > 1, "its slots")
        for name in ("a", "b", "c"):
            cluster.submit(name, 1, 4)
        job = cluster.wait_job("first", lambda job: 1 < job["slots"] == job["deadline_slots"] and cluster.job("a")["slots"] == 1,
                               "its least share")
        self.assertIn("for its deadline", job["why"])
        self.assertIn("cannot be kept", cluster.submit("late", 1, 4, 1, "--job-deadline", "1m", trainer=work))
        unknown = cluster.do("submit", "-n", "1", "--job-deadline", "1m", "--name", "unknown", "--", "sleep", "1000")
        self.assertIn("its length is not known", unknown)
        cluster.kill()
        cluster.start()
        cluster.wait_job("first", lambda job: 1 < job["slots"] == job["deadline_slots"], "its least share, also after a restart")

    def test_a_config_says_what_a_job_asks_of_a_cluster(self):
        cluster = Cluster(self).start()
        cluster.submit("low", 1, 4, 1, job={"priority": -5, "most_slots": 2})
        cluster.wait_job("low", lambda job: (job["priority"], job["max"], job["slots"]) == (-5, 2, 2), "its wishes")
        cluster.submit("high", 1, 4, 1, "--priority", "7", job={"priority": 3})
        cluster.wait_job("high", lambda job: job["priority"] == 7, "the flag's priority")
        for text, part in (("[job]\npriority = 0.5\n", "job.priority"), ("[job]\nmost_slots = 1\n[workers]\nmin = 2\n", "job.most_slots"),
                           ("[job]\ndeadline_s = -1\n", "job.deadline_s")):
            cluster.refused(78, part, "submit", cluster.write("bad.toml", "command = ['true']\n" + text))


class Turns(Case):
    """More jobs than slots: those whose turn is over stand still in memory."""

    JOBS = ("a", "b", "c", "d")

    def turns(self, cluster):
        """How often each job has gone on after it stood still."""
        turns, stood = dict.fromkeys(range(1, len(self.JOBS) + 1), 0), set()
        for record in cluster.journal():
            if record["event"] == "stands":
                stood.add(record["job"])
            elif record["event"] == "leased" and record["job"] in stood and not record.get("hold"):
                stood.discard(record["job"])
                turns[record["job"]] += 1
        return turns

    def wait_turns(self, cluster, count):
        wait_until(lambda: min(self.turns(cluster).values()) >= count, 90, f"{count} turns of each job")

    def spawned(self, cluster):
        return [len(cluster.do("events", name, "--type", "spawn").splitlines()) for name in self.JOBS]

    def test_all_jobs_take_turns_and_none_is_restarted(self):
        cluster = Cluster(self, slots=2, slice_ms=1000, suspended_per_slot=1).start()
        for name in self.JOBS:
            cluster.submit(name, 1, 1)
        self.wait_turns(cluster, 1)
        cluster.kill()
        cluster.start()
        self.wait_turns(cluster, 3)
        self.assertEqual(self.spawned(cluster), [1, 1, 1, 1], "a worker was restarted")
        cluster.assert_slots_used_once()
        self.assertIn("suspended", cluster.do("queue"))
        waiting = wait_until(lambda: next((job["name"] for job in cluster.queue()["jobs"] if job["stands_on"]), None), 30,
                             "a job that stands still")
        for name in (waiting, *self.JOBS):
            cluster.command("cancel", name)
            cluster.wait_job(name, lambda job: job["phase"] == "ended", "the end")
        wait_until(lambda: cluster.processes() == [cluster.process.pid], 60, "the end of all processes")
        cluster.assert_slots_used_once()

    def test_a_supervisor_that_is_lost_while_its_job_stands_still_is_taken_up(self):
        cluster = Cluster(self, slots=1, suspended_per_slot=1).start()
        cluster.submit("a", 1, 1)
        worker = cluster.wait_workers("a", 1)
        self.assertIn("is paused", cluster.do("pause", "a"))
        job = cluster.wait_job("a", lambda job: job["stands_on"] and job["slots"] == 0, "its rest")
        cluster.submit("b", 1, 1)
        cluster.wait_workers("b", 1)
        os.kill(job["pid"], signal.SIGKILL)
        cluster.wait_job("a", lambda now: now["phase"] == "joined" and now["pid"] != job["pid"], "its next supervisor")
        self.assertTrue(cluster.job("a")["stands_on"])
        self.assertIn("goes on", cluster.do("resume", "a"))
        cluster.do("cancel", "b")
        self.assertEqual(cluster.wait_workers("a", 1), worker, "a healthy worker was restarted")
        cluster.assert_slots_used_once()


class Packing(Case):
    """Two jobs in one slot: tried where they would take turns, kept where both together then do more, else undone."""

    def cluster(self, **environment):
        cluster = Cluster(self, slots=1, slice_ms=4000, suspended_per_slot=1, packing=True)
        cluster.environment.update(environment)
        cluster.start()
        for name in ("a", "b"):
            cluster.submit(name, 1, 1, None)
        return cluster

    def decided(self, cluster, part):
        return [share for record in cluster.journal("decided") for share in record["shares"] if part in share["why"]]

    def spawned(self, cluster):
        return [len(cluster.do("events", name, "--type", "spawn").splitlines()) for name in ("a", "b")]

    def both(self, cluster):
        jobs = [cluster.job(name) for name in ("a", "b")]
        together = [job["beside"] for job in jobs] == ["j2", "j1"] and all(job["workers"] for job in jobs)
        return jobs if together else None

    def test_a_pair_that_gains_is_kept(self):
        cluster = self.cluster()
        kept = wait_until(lambda: self.decided(cluster, "packing_kept"), 120, "a pair that is kept")
        self.assertGreater(float(kept[0]["why"].split("together ")[1].split()[0]), 1, kept)
        wait_until(lambda: self.both(cluster), 30, "both in one slot")
        self.assertIn("shares its slots with j", cluster.do("queue"))
        self.assertIn("packing_kept", cluster.do("explain", "--cluster", cluster.place + "/"))
        cluster.kill()
        cluster.start()
        before = [job["step"] for job in wait_until(lambda: self.both(cluster), 60, "both, after a restart of the cluster")]
        wait_until(lambda: all(job["step"] > step + 20 for job, step in zip(self.both(cluster) or [], before)) and self.both(cluster),
                   60, "steps of both")
        self.assertEqual(self.spawned(cluster), [1, 1], "a worker was restarted")
        cluster.assert_slots_used_once()
        host = cluster.job("a" if kept[0]["beside"] == 1 else "b")["name"]
        cluster.do("cancel", host)
        guest = "b" if host == "a" else "a"
        cluster.wait_job(guest, lambda job: job["beside"] is None and job["slots"] == 1, "the slot for itself")
        self.assertEqual(self.spawned(cluster), [1, 1], "a worker was restarted")

    def test_a_pair_that_loses_is_undone_and_takes_turns(self):
        contention = Contention(5)
        self.addCleanup(contention.stop)
        cluster = self.cluster(ELASTICTRAIN_SLOW_DIR=contention.directory)
        contention.follow(cluster)
        wait_until(lambda: self.decided(cluster, "undone"), 120, "a pair that is undone")
        why = self.decided(cluster, "undone")[0]["why"]
        self.assertLess(float(why.split("together ")[1].split()[0]), 1, why)
        self.assertLessEqual(int(why.split("look ")[1].split()[0]), 3, why)
        turns = len(self.decided(cluster, "gandiva: its turn"))
        wait_until(lambda: len(self.decided(cluster, "gandiva: its turn")) > turns + 3, 60, "turns")
        self.assertEqual(len(self.decided(cluster, "packing_tried")), 1, "a pair that lost was tried again")
        self.assertEqual(self.spawned(cluster), [1, 1], "a worker was restarted")
        cluster.assert_slots_used_once()


if __name__ == "__main__":
    harness.main()
