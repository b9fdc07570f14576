"""A run whose slots a cluster leases to it: a stand-in speaks for the cluster, real processes do the rest."""

import os
import shlex
import signal
import tempfile
import shutil

import harness
from harness import BINARY, Case, Run, environ_of, is_alive, members, pids, synthetic, wait_until
from standin_cluster import StandinCluster, job


def by_slot(status):
    """The processes of the members, by their slots."""
    return {worker["slot"]: worker["pid"] for worker in members(status)}


def slow_program(before=0, after=0):
    """A trainer whose process takes long to begin, and long to be gone."""
    trainer = synthetic()
    options = " ".join(f"--{name.replace('_', '-')}={value}" for name, value in trainer.items())
    return ["sh", "-c", f"sleep {before}; {shlex.quote(BINARY)} worker {options}; sleep {after}"]


class LeaseCase(Case):
    def cluster(self, **settings):
        return StandinCluster(self, **settings).start()

    def wait_slots(self, run, *slots, timeout=60):
        wanted = sorted(slots)
        return run.wait_status(lambda s: s.get("phase") == "running" and sorted(by_slot(s)) == wanted
                               and all(w.get("step", 0) > 0 for w in members(s)), timeout, f"members on slots {wanted}")

    def ends(self, run, cluster, status=0):
        """The cluster ends the run: nothing is left, and the run's last word is its status."""
        cluster.send({"end": {"why": "cancelled by the test"}})
        self.assertEqual(run.wait(60), status)
        run.wait_no_processes()
        wait_until(lambda: cluster.messages("ended"), 30, "the last line")
        self.assertEqual(cluster.messages("ended")[-1], {"ended": {"status": status}})


class Sizes(LeaseCase):
    def test_it_waits_in_the_queue_and_follows_its_lease_by_the_numbers_of_slots(self):
        cluster = self.cluster()
        with Run(job(cluster)) as run:
            join = cluster.wait_join()
            self.assertEqual((join["run"], join["job"], join["min"], join["max"], join["start"], join["lease"]),
                             (run.name, None, 1, 4, 2, 0))
            self.assertEqual((join["holds"], join["suspend"], join["pid"]), ([], ["host"], run.process.pid))
            cluster.send({"queue": {"place": 3, "of": 7, "why": "earlier jobs"}})
            run.wait_text("waiting for slots: place 3 of 7 in the queue of cluster")
            self.assertIn("place 3 of 7", run.do("status", run.name))
            self.assertEqual(run.events("spawn"), [])
            cluster.lease(0, 2)
            first = by_slot(self.wait_slots(run, 0, 2))
            for slot, pid in first.items():
                self.assertIn(f"ELASTICTRAIN_SLOT={slot}".encode(), environ_of(pid).split(b"\0"))
                self.assertIn(b"ELASTICTRAIN_SLOTS=4", environ_of(pid).split(b"\0"))
            cluster.lease(0, 1, 2, 3)
            grown = by_slot(self.wait_slots(run, 0, 1, 2, 3))
            self.assertEqual({slot: grown[slot] for slot in first}, first, "a healthy worker was restarted")
            cluster.wait_report(lambda r: cluster.held(r) == [0, 1, 2, 3] and r["workers"] == 4 and r["lease"] == 2)
            cluster.lease(1, 3)
            shrunk = by_slot(self.wait_slots(run, 1, 3))
            self.assertEqual(shrunk, {slot: grown[slot] for slot in (1, 3)}, "a healthy worker was restarted")
            cluster.wait_report(lambda r: cluster.held(r) == [1, 3] and r["workers"] == 2 and r["lease"] == 3)
            self.assertEqual(len(run.events("spawn")), 4)
            self.assertEqual(run.events("target_unmet"), [])
            self.ends(run, cluster)
            self.assert_audit_clean(run)
            self.assert_steps_continue(run)

    def test_more_than_it_can_use_changes_nothing(self):
        cluster = self.cluster(of=8)
        with Run(job(cluster, workers=(1, 1, 2))) as run:
            cluster.wait_join()
            cluster.lease(0, 1, 2, 3, 4)
            self.wait_slots(run, 0, 1)
            cluster.wait_report(lambda r: cluster.held(r) == [0, 1])
            self.ends(run, cluster)

    def test_a_slot_is_held_until_its_process_has_ended(self):
        cluster = self.cluster()
        with Run(job(cluster, command=slow_program(after=3))) as run:
            cluster.wait_join()
            cluster.lease(0, 1)
            self.wait_slots(run, 0, 1)
            shells = by_slot(run.status())
            self.assertTrue(harness.command_of(shells[0]).startswith("sh -c"), harness.command_of(shells[0]))
            lies = []
            cluster.on_report = lambda report: lies.extend(
                slot for slot, pid in shells.items() if slot not in cluster.held(report) and is_alive(pid))
            cluster.lease(1)
            self.wait_slots(run, 1)
            cluster.wait_report(lambda r: cluster.held(r) == [1])
            self.assertEqual(lies, [])
            self.ends(run, cluster)

    def test_a_newer_lease_cancels_the_older_while_its_workers_start(self):
        cluster = self.cluster()
        with Run(job(cluster, command=slow_program(before=2))) as run:
            cluster.wait_join()
            cluster.lease(0, 1)
            before = by_slot(self.wait_slots(run, 0, 1))
            cluster.lease(0, 1, 2, 3)
            wait_until(lambda: len(run.events("spawn")) == 4, 30, "joiners")
            cluster.lease(1)
            self.assertEqual(by_slot(self.wait_slots(run, 1)), {1: before[1]})
            cluster.wait_report(lambda r: cluster.held(r) == [1])
            sizes = [record["world_size"] for record in run.events("generation")]
            self.assertEqual(sizes, [2, 1])
            self.ends(run, cluster)

    def test_taken_slots_do_not_wait_for_workers_that_start(self):
        cluster = self.cluster()
        with Run(job(cluster, command=slow_program(before=4))) as run:
            cluster.wait_join()
            cluster.lease(0, 1, 2)
            before = by_slot(self.wait_slots(run, 0, 1, 2))
            cluster.lease(0, 2, 3)
            after = by_slot(self.wait_slots(run, 0, 2, 3))
            self.assertEqual({slot: after[slot] for slot in (0, 2)}, {slot: before[slot] for slot in (0, 2)})
            sizes = [record["world_size"] for record in run.events("generation")]
            self.assertEqual(sizes, [3, 2, 3])
            self.ends(run, cluster)

    def test_two_runs_share_a_host_without_meeting(self):
        cluster, other = self.cluster(), self.cluster()
        with Run(job(cluster)) as one, Run(job(other)) as two:
            cluster.wait_join(), other.wait_join()
            cluster.lease(0, 1, 2)
            other.lease(3)
            self.wait_slots(one, 0, 1, 2)
            self.wait_slots(two, 3)
            cluster.lease(0)
            cluster.wait_report(lambda r: cluster.held(r) == [0])
            other.lease(1, 2, 3)
            self.wait_slots(two, 1, 2, 3)
            self.assertEqual(cluster.held(), [0])
            self.ends(one, cluster)
            self.ends(two, other)


class Reports(LeaseCase):
    def test_it_reports_its_progress_and_its_speed_at_each_size(self):
        cluster = self.cluster()
        with Run(job(cluster)) as run:
            cluster.wait_join()
            cluster.lease(0)
            self.wait_slots(run, 0)
            first = cluster.wait_report(lambda r: any(rate["workers"] == 1 for rate in r["rates"]))
            cluster.lease(0, 1)
            report = cluster.wait_report(lambda r: {rate["workers"] for rate in r["rates"]} == {1, 2})
            self.assertTrue(all(rate["samples_per_s"] > 0 and rate["hosts"] == 1 for rate in report["rates"]), report)
            self.assertGreater(report["samples"], first["samples"])
            self.assertEqual(report["phase"], "training")
            self.assertEqual(report["samples_total"], 1_000_000 * 1000)
            self.assertIsNone(report["wants"])
            run.do("resize", run.name, 1)
            cluster.wait_report(lambda r: r["wants"] == 1 and cluster.held(r) == [0])
            self.ends(run, cluster)


class Lies(LeaseCase):
    def test_what_makes_no_sense_changes_nothing(self):
        cluster = self.cluster()
        with Run(job(cluster)) as run:
            cluster.wait_join()
            cluster.lease(0, 1, version=5)
            before = by_slot(self.wait_slots(run, 0, 1))
            slots = [{"host": "localhost", "slots": [0, 1, 2], "of": 4}]
            for line in (b"garbage\n", b"[]\n", b"\xff\xfe\n", b"{}\n", b'{"lease":null}\n',
                         b'{"lease":{"version":1e300,"slots":[]}}\n', b'{"lease":{"version":-1,"slots":[]}}\n',
                         b'{"lease":{"version":9,"slots":[{"host":"localhost","slots":[4],"of":4}]}}\n',
                         b'{"lease":{"version":9,"slots":[{"host":"localhost","slots":[1,1]}]}}\n',
                         b'{"lease":{"version":9,"slots":[{"host":"","slots":[1]}]}}\n',
                         b'{"lease":{"version":9,"slots":[{"host":"--kubeconfig=x","slots":[1]}]}}\n',
                         b'{"lease":{"version":9,"slots":[{"host":"localhost","slots":[1],"job":"--help"}]}}\n',
                         b'{"lease":{"version":9,"slots":[{"host":"localhost","slots":[-1]}]}}\n'):
                cluster.send_bytes(line)
            for many in ([{"host": "localhost", "slots": list(range(1025))}],
                         [{"host": f"h{i}", "slots": [0]} for i in range(17_000)]):
                cluster.send({"lease": {"version": 9, "slots": many, "reason": "too many"}})
            cluster.send({"lease": {"version": 4, "slots": slots, "reason": "old"}})
            cluster.send({"lease": {"version": 5, "slots": slots, "reason": "the same number"}})
            run.wait_text("which is older than 5")
            run.wait_more_steps(30)
            self.assertEqual(by_slot(run.status()), before)
            # A line without an end costs the connection, and nothing else.
            try:
                cluster.send_bytes(b"x" * (1 << 20) + b"x")
            except OSError:
                pass  # the run has hung up before the end
            cluster.wait_join(2)
            self.assertEqual(by_slot(run.status()), before)
            cluster.lease(0, 1, 3, version=6)
            self.wait_slots(run, 0, 1, 3)
            self.ends(run, cluster)

    def test_a_cluster_that_is_not_there_or_refuses_ends_a_fresh_run(self):
        cluster = StandinCluster(self)
        with Run(job(cluster)) as run:
            self.assertEqual(run.wait(), 69)
            self.assertIn(f"cannot join cluster {cluster.path}", run.text())
            self.assertIn("elastictrain cluster", run.text())
        cluster.answer = {"ok": False, "text": "you may have 0 jobs"}
        cluster.start()
        with Run(job(cluster)) as run:
            self.assertEqual(run.wait(), 69)
            self.assertIn("you may have 0 jobs", run.text())
        cluster.answer = None
        with Run(job(cluster, timeouts={"cluster_ms": 300})) as run:
            self.assertEqual(run.wait(), 69)
            self.assertIn("it does not answer", run.text())

    def test_hosts_and_a_cluster_exclude_each_other(self):
        with Run(job(self.cluster()), arguments=["-H", "localhost:2"]) as run:
            self.assertEqual(run.wait(), 78)
            self.assertIn("leases the run its hosts", run.text())


class Losses(LeaseCase):
    def test_it_trains_on_without_its_cluster_and_finds_it_again(self):
        cluster = self.cluster()
        with Run(job(cluster)) as run:
            cluster.wait_join()
            cluster.lease(0, 1)
            before = by_slot(self.wait_slots(run, 0, 1))
            cluster.stop()
            run.wait_text("trains on with the slots that it has")
            run.wait_more_steps(30)
            cluster.start()
            join = cluster.wait_join(2)
            self.assertEqual((join["job"], join["lease"]), ("job-7", 1))
            self.assertEqual(cluster.held(join), [0, 1])
            self.assertEqual(by_slot(run.status()), before)
            cluster.lease(0, 1, 2)
            after = by_slot(self.wait_slots(run, 0, 1, 2))
            self.assertEqual({slot: after[slot] for slot in before}, before)
            self.ends(run, cluster)

    def test_a_supervisor_that_succeeds_another_is_the_same_job(self):
        cluster = self.cluster()
        with Run(job(cluster)) as run:
            cluster.wait_join()
            cluster.lease(1, 3)
            before = by_slot(self.wait_slots(run, 1, 3))
            run.lose_supervisor()
            run.wait_more_steps(20)
            run.resume()
            join = cluster.wait_join(2)
            self.assertEqual((join["job"], join["lease"], cluster.held(join)), ("job-7", 1, [1, 3]))
            self.assertEqual(by_slot(self.wait_slots(run, 1, 3)), before)
            cluster.lease(3)
            self.assertEqual(by_slot(self.wait_slots(run, 3)), {3: before[3]})
            cluster.wait_report(lambda r: cluster.held(r) == [3])
            self.assertEqual(len(run.events("spawn")), 2)
            self.ends(run, cluster)

    def test_a_worker_that_dies_is_replaced_on_its_slots(self):
        cluster = self.cluster()
        with Run(job(cluster)) as run:
            cluster.wait_join()
            cluster.lease(0, 3)
            before = by_slot(self.wait_slots(run, 0, 3))
            os.kill(before[3], signal.SIGKILL)
            wait_until(lambda: by_slot(run.status()).get(3) not in (None, before[3]), 60, "another worker on slot 3")
            self.assertEqual(by_slot(self.wait_slots(run, 0, 3))[0], before[0])
            self.ends(run, cluster)


def cpu_ticks(processes):
    ticks = 0
    for pid in processes:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks


class StandsStill(LeaseCase):
    def test_its_workers_stand_still_in_memory_and_go_on(self):
        cluster = self.cluster()
        with Run(job(cluster)) as run:
            self.assertIn("host", cluster.wait_join()["suspend"])
            cluster.lease(0, 1)
            before = by_slot(self.wait_slots(run, 0, 1))
            cluster.lease(0, 1, hold=True)
            report = cluster.wait_report(lambda r: r["phase"] == "suspended")
            self.assertEqual(cluster.held(report), [0, 1])
            self.assertIn("suspended in memory", run.do("status", run.name))
            step, ticks = run.last_step(), cpu_ticks(before.values())
            harness.pause(2)
            self.assertEqual(run.last_step(), step)
            self.assertLess(cpu_ticks(before.values()) - ticks, 20, "hundredths of a second, of both in two seconds")
            cluster.lease(0, 1)
            run.wait_step(step + 20)
            self.assertEqual(by_slot(self.wait_slots(run, 0, 1)), before)
            self.ends(run, cluster)
            self.assert_audit_clean(run)
            self.assert_steps_continue(run)

    def test_losses_meanwhile_are_repaired_when_it_goes_on(self):
        cluster = self.cluster()
        with Run(job(cluster)) as run:
            cluster.wait_join()
            cluster.lease(0, 1, 2)
            before = by_slot(self.wait_slots(run, 0, 1, 2))
            cluster.lease(0, 1, 2, hold=True)
            cluster.wait_report(lambda r: r["phase"] == "suspended")
            os.kill(before[1], signal.SIGKILL)
            cluster.wait_report(lambda r: cluster.held(r) == [0, 2])
            run.lose_supervisor()
            run.resume()
            cluster.wait_join(2)
            cluster.wait_report(lambda r: r["phase"] == "suspended")
            step = run.last_step()
            cluster.lease(0, 1, 2)
            run.wait_step(step + 20)
            after = by_slot(self.wait_slots(run, 0, 1, 2))
            self.assertEqual({slot: after[slot] for slot in (0, 2)}, {slot: before[slot] for slot in (0, 2)})
            self.ends(run, cluster)


class Suspends(LeaseCase):
    def test_without_slots_it_leaves_a_checkpoint_and_goes_on_later(self):
        directory = tempfile.mkdtemp(prefix="et-checkpoints-")
        self.addCleanup(shutil.rmtree, directory, True)
        cluster = self.cluster()
        with Run(job(cluster, checkpoint={"directory": directory})) as run:
            self.assertEqual(cluster.wait_join()["suspend"], ["file", "host"])
            cluster.lease(0, 1)
            workers = pids(self.wait_slots(run, 0, 1))
            cluster.lease(reason="others first")
            cluster.wait_report(lambda r: r["holds"] == [] and r["phase"] == "waiting" and r["lease"] == 2)
            self.assertFalse([pid for pid in workers if is_alive(pid)])
            reached = harness.newest_checkpoint(os.path.join(directory, run.name))
            self.assertGreater(reached, 0)
            self.assertIsNone(run.process.poll())
            cluster.send({"queue": {"place": 1, "of": 1, "why": "others first"}})
            run.wait_status(lambda s: "place 1 of 1" in s.get("waits", ""))
            cluster.lease(2, 3)
            self.wait_slots(run, 2, 3)
            run.wait_status(lambda s: members(s) and all(worker["step"] > reached for worker in members(s)),
                            what="steps after the checkpoint")
            self.ends(run, cluster)
            self.assert_audit_clean(run)
            self.assert_steps_continue(run)

    def test_a_supervisor_lost_while_it_waits_is_succeeded(self):
        directory = tempfile.mkdtemp(prefix="et-checkpoints-")
        self.addCleanup(shutil.rmtree, directory, True)
        cluster = self.cluster()
        with Run(job(cluster, checkpoint={"directory": directory})) as run:
            cluster.wait_join()
            cluster.lease(0, 1)
            self.wait_slots(run, 0, 1)
            cluster.lease()
            cluster.wait_report(lambda r: r["holds"] == [] and r["phase"] == "waiting")
            reached = harness.newest_checkpoint(os.path.join(directory, run.name))
            run.lose_supervisor()
            run.resume()
            join = cluster.wait_join(2)
            self.assertEqual((join["job"], join["lease"], join["holds"]), ("job-7", 2, []))
            cluster.lease(1)
            after = self.wait_slots(run, 1)
            self.assertGreater(min(worker["step"] for worker in members(after)), reached)
            self.ends(run, cluster)

    def test_without_a_checkpoint_directory_it_keeps_what_it_needs(self):
        cluster = self.cluster()
        with Run(job(cluster)) as run:
            cluster.wait_join()
            cluster.lease(0, 1)
            before = by_slot(self.wait_slots(run, 0, 1))
            cluster.lease()
            run.wait_text("there is no checkpoint.directory")
            kept = by_slot(run.wait_size(1))
            self.assertLessEqual(kept.items(), before.items())
            self.ends(run, cluster)

    def test_an_end_while_it_waits_ends_it(self):
        cluster = self.cluster()
        with Run(job(cluster)) as run:
            cluster.wait_join()
            self.ends(run, cluster)


if __name__ == "__main__":
    harness.main()
