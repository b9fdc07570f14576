"""A run on this machine changes its size while it trains: no worker is restarted, no sample is lost or seen twice."""

import random

import harness
from harness import Case, HostList, Run, job, members, pids, synthetic, wait_until


class LocalChanges(Case):
    def test_grow_and_shrink_leave_the_survivors_alone(self):
        with Run(job(workers=(1, 2, 4))) as run:
            before = pids(run.wait_size(2))
            run.do("resize", run.name, 4)
            grown = pids(run.wait_size(4))
            self.assertEqual(grown[:2], before, "the first ranks are the processes that were there before")
            run.wait_more_steps(20)
            run.do("resize", run.name, 1)
            self.assertEqual(pids(run.wait_size(1)), before[:1])
            run.wait_more_steps(20)
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 0)
            run.wait_no_processes()
            self.assert_steps_continue(run)
            self.assert_audit_clean(run)

    def test_a_replaced_rank_is_a_new_process_and_the_others_stay(self):
        with Run(job(workers=(1, 3, 4))) as run:
            before = pids(run.wait_size(3))
            run.do("replace", run.name, 1)
            after = pids(run.wait_status(lambda s: s["phase"] == "running" and len(members(s)) == 3
                                         and before[1] not in pids(s), what="rank 1 replaced"))
            self.assertEqual(after[:2], [before[0], before[2]])
            self.assertNotIn(after[2], before)
            run.wait_more_steps(20)
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 0)
            self.assert_steps_continue(run)
            self.assert_audit_clean(run)

    def test_rank_zero_can_be_replaced(self):
        with Run(job(workers=(1, 2, 2))) as run:
            before = pids(run.wait_size(2))
            run.do("replace", run.name, 0)
            after = pids(run.wait_status(lambda s: s["phase"] == "running" and len(members(s)) == 2
                                         and before[0] not in pids(s), what="rank 0 replaced"))
            self.assertEqual(after[0], before[1])
            run.wait_more_steps(20)
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 0)
            self.assert_audit_clean(run)

    def test_a_spare_joins_within_a_few_steps(self):
        config = job(workers=(1, 2, 3), hosts={"list": ["localhost:4"]})
        config["workers"]["spares"] = 1
        with Run(config) as run:
            status = run.wait_status(lambda s: s.get("world_size") == 2
                                     and any(w["phase"] == "spare" for w in s["workers"]), what="a ready spare")
            spare = next(w["pid"] for w in status["workers"] if w["phase"] == "spare")
            run.wait_more_steps(10)
            run.do("resize", run.name, 3)
            self.assertIn(spare, pids(run.wait_size(3)))
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 0)
            run.wait_no_processes()

    def test_a_newer_request_takes_the_place_of_an_unfinished_one(self):
        slow_start = synthetic(startup_delay_ms=1500)
        with Run(job(workers=(1, 1, 4), trainer=slow_start)) as run:
            before = pids(run.wait_size(1))
            run.do("resize", run.name, 4)
            run.do("resize", run.name, 2)
            status = run.wait_size(2)
            self.assertEqual(pids(status)[:1], before)
            self.assertEqual(status["generation"], 2, "the cancelled plan never became a generation")
            self.assert_ends_clean(run)

    def test_random_changes_lose_and_repeat_no_sample(self):
        choice = random.Random(7)
        trainer = synthetic(compute_us_per_sample=300, samples=3000)
        with Run(job(workers=(1, 2, 4), trainer=trainer)) as run:
            run.wait_size(2)
            for _ in range(12):
                size = run.status()["world_size"]
                if choice.random() < 0.3:
                    run.do("replace", run.name, choice.randrange(size))
                    run.wait_status(lambda s: s["phase"] == "running" and s["world_size"] == size, what="replacement")
                else:
                    size = choice.choice([n for n in (1, 2, 3, 4) if n != size])
                    run.do("resize", run.name, size)
                    run.wait_size(size)
                run.wait_more_steps(5)
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 0)
            run.wait_no_processes()
            self.assert_steps_continue(run)
            self.assert_audit_clean(run)

    def test_a_run_waits_for_hosts_that_a_script_may_still_offer(self):
        hosts = HostList(self, "localhost:1")
        with Run(job(workers=(2, 2, 2), hosts=hosts.section())) as run:
            wait_until(lambda: any(r["event"] == "agent_connected" for r in run.journal()), 10, "the first host")
            hosts.offer("localhost:1", "127.0.0.1:1")
            self.assertEqual({w["host"] for w in members(run.wait_size(2))}, {"localhost", "127.0.0.1"})
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 0)
            run.wait_no_processes()

    def test_a_job_that_comes_to_its_end_finishes_with_success(self):
        with Run(job(trainer=synthetic(samples=640, epochs=2))) as run:
            self.assertEqual(run.wait(), 0)
            run.wait_no_processes()
            self.assertEqual(run.last_step(), 40)
            self.assert_audit_clean(run)


if __name__ == "__main__":
    harness.main()
