"""Workers that a shrink lets go stay warm, and growth takes their processes back: hosts.keep_warm_s."""

import os

import harness
from harness import Case, Run, is_alive, job, pids, synthetic, wait_until


def warm_pids(status):
    return [process["pid"] for host in status["hosts"] for process in host["warm"]]


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def warm_job(keep_warm_s=600, **hosts):
    return job(workers=(1, 3, 4), hosts={"list": ["localhost:4"], "keep_warm_s": keep_warm_s, **hosts},
               trainer=synthetic(startup_delay_ms=300))


class WarmWorkers(Case):
    def shrink(self, run, size=1):
        before = pids(run.wait_size(3))
        run.do("resize", run.name, size)
        run.wait_size(size)
        status = run.wait_status(lambda s: len(warm_pids(s)) == 3 - size, what="warm processes")
        self.assertEqual(sorted(warm_pids(status)), sorted(before[size:]))
        return before

    def test_growth_takes_back_the_processes_that_a_shrink_let_go(self):
        with Run(warm_job()) as run:
            before = self.shrink(run)
            spent = {pid: cpu_ticks(pid) for pid in before[1:]}
            run.wait_more_steps(50)
            for pid, ticks in spent.items():
                self.assertLessEqual(cpu_ticks(pid) - ticks, 3, "a process that waits computes")
            run.do("resize", run.name, 4)
            grown = pids(run.wait_size(4))
            self.assertEqual(sorted(grown[:3]), sorted(before))
            self.assertEqual(grown[0], before[0])
            self.assertEqual(warm_pids(run.status()), [])
            self.assertEqual(len({worker["id"] for worker in run.status()["workers"]}), 4)
            run.wait_more_steps(20)
            for size in (2, 4, 1, 3):  # again and again
                run.do("resize", run.name, size)
                run.wait_size(size)
                run.wait_more_steps(10)
            self.assertLessEqual(set(pids(run.status())), set(grown))
            self.assert_stops_clean(run)
            self.assert_steps_continue(run)

    def test_they_end_when_their_time_or_their_memory_is_over(self):
        for limits in ({"keep_warm_s": 1}, {"keep_warm_memory_percent": 0}):
            with self.subTest(limits), Run(warm_job(**limits)) as run:
                before = pids(run.wait_size(3))
                run.do("resize", run.name, 2)
                run.wait_size(2)
                run.wait_event("kept_warm")
                wait_until(lambda: not is_alive(before[2]), 30, "the process to end")
                run.wait_event("warm_ended")
                run.do("resize", run.name, 3)
                self.assertNotIn(before[2], pids(run.wait_size(3)))
                self.assert_stops_clean(run)

    def test_replaced_workers_end(self):
        with Run(warm_job()) as run:
            before = pids(run.wait_size(3))
            run.do("replace", run.name, 2)
            run.wait_status(lambda s: s["phase"] == "running" and before[2] not in pids(s), what="rank 2 replaced")
            wait_until(lambda: not is_alive(before[2]), 30, "its process to end")
            self.assertEqual(run.events("kept_warm"), [])
            self.assert_stops_clean(run)

    def test_a_lost_warm_process_costs_nothing_but_itself(self):
        with Run(warm_job()) as run:
            before = self.shrink(run)
            os.kill(before[1], 9)
            run.wait_event("warm_ended")
            run.do("resize", run.name, 3)
            grown = pids(run.wait_size(3))
            self.assertIn(before[2], grown)
            self.assertNotIn(before[1], grown)
            self.assertEqual(run.status()["failures"], [])
            self.assert_stops_clean(run)

    def test_they_outlive_the_supervisor(self):
        with Run(warm_job()) as run:
            before = self.shrink(run)
            run.lose_supervisor()
            run.wait_more_steps(10)
            run.resume()
            run.wait_status(lambda s: len(warm_pids(s)) == 2, what="warm processes")
            run.do("resize", run.name, 3)
            self.assertEqual(sorted(pids(run.wait_size(3))), sorted(before))
            self.assert_stops_clean(run)

    def test_they_end_with_the_run(self):
        with Run(warm_job()) as run:
            self.shrink(run)
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 0)
            run.wait_no_processes()


if __name__ == "__main__":
    harness.main()
