"""Slow workers of real runs: who is replaced, who gets a smaller share, and who is left alone and only reported."""

import os
import shutil
import tempfile

import harness
from harness import Case, Run, job, members, pause, pids, synthetic

INTERVAL_MS = 200
SLOT_TOO_FEW = "localhost:3"
ONE_MORE_SLOT = "localhost:4"


class Stragglers(Case):
    def setUp(self):
        self.slow = tempfile.mkdtemp(prefix="et-slow-")
        self.addCleanup(shutil.rmtree, self.slow)

    def set_file(self, name, number):
        path = os.path.join(self.slow, name)
        with open(path + ".new", "w") as file:
            file.write(f"{number}\n")
        os.replace(path + ".new", path)

    def run_of(self, hosts=ONE_MORE_SLOT, **trainer):
        config = job(workers=(1, 3, 3), trainer=synthetic(parameter_bytes=4_000, **trainer), hosts={"list": [hosts]},
                     policy={"interval_ms": INTERVAL_MS}, stragglers={"action": "replace", "least_seconds": 2})
        return Run(config, arguments=["-x", f"ELASTICTRAIN_SLOW_DIR={self.slow}"])

    def replaced(self, run):
        return [worker for record in run.events("decided") for worker in record.get("replace", [])]

    def slowed(self, run, name, number):
        """A healthy run in which a worker of rank 2 becomes slow: its id."""
        status = run.wait_size(3)
        run.wait_more_steps(150, timeout=60)
        self.assertEqual(self.replaced(run), [])
        worker = members(status)[2]["id"]
        self.set_file(f"{name}-{worker}", number)
        return worker

    def test_a_worker_that_is_slow_from_the_start_is_replaced_and_the_others_stay(self):
        with self.run_of(slow=["1:2"]) as run:
            before = members(run.wait_size(3))
            slow = next(worker for worker in before if worker["id"] == 1)
            run.wait_event("decided", timeout=60, replace=[1])
            run.wait_status(lambda s: slow["pid"] not in pids(s) and len(pids(s)) == 3, 60, "another worker in its place")
            healthy = {worker["pid"] for worker in before} - {slow["pid"]}
            self.assertTrue(healthy <= set(pids(run.status())))
            explained = run.do("explain", run.name)
            self.assertIn("stay, replace w1: ", explained)
            self.assertNotIn("go to", explained)
            self.assert_stops_clean(run)

    def test_of_two_workers_the_one_that_is_slow_from_the_start_is_reported_at_the_interval_that_is_set(self):
        config = job(workers=(2, 2, 2), trainer=synthetic(parameter_bytes=4_000, slow=["1:2"]),
                     policy={"interval_ms": INTERVAL_MS})
        with Run(config) as run:
            run.wait_size(2)
            run.wait_event("decided", timeout=60, code="pair_differs")
            observed = [record["t"] for record in run.events("observed")]
            self.assertLess(observed[-1] - observed[0], 9.9 * (len(observed) - 1), "more often than every 10 s")
            self.assertRegex(run.do("status", run.name), r"worker 1 \(rank 0 on localhost\) takes [12]\.\d\d times the time of worker 2")
            self.assert_stops_clean(run)

    def test_a_worker_that_waits_for_its_data_is_reported_and_stays(self):
        with self.run_of() as run:
            worker = self.slowed(run, "data", 20)
            run.wait_event("decided", timeout=60, code="data_bound")
            before = pids(run.status())
            run.wait_more_steps(150, timeout=60)
            self.assertIn("waits for its data", run.do("status", run.name))
            self.assertEqual(pids(run.status()), before, f"w{worker} stays")
            self.assertEqual(self.replaced(run), [])
            self.assert_stops_clean(run)

    def test_a_worker_that_was_slow_for_a_moment_stays(self):
        with self.run_of() as run:
            worker = self.slowed(run, "slow", 2)
            pause(0.8)
            self.set_file(f"slow-{worker}", 1)
            run.wait_more_steps(150, timeout=60)
            self.assertEqual(self.replaced(run), [])
            self.assert_stops_clean(run)

    def test_without_a_free_slot_a_slow_worker_gets_fewer_samples_and_later_as_many_as_the_others(self):
        with self.run_of(SLOT_TOO_FEW) as run:
            worker = self.slowed(run, "slow", 2)

            def shares(status):
                return {w["id"]: w["share"] for w in members(status)}

            run.wait_status(lambda s: shares(s)[worker] < 0.8 * max(shares(s).values()), 60, "a smaller share")
            self.assertEqual(self.replaced(run), [])
            self.set_file(f"slow-{worker}", 1)
            run.wait_status(lambda s: len(set(shares(s).values())) == 1, 60, "equal shares")
            self.assert_stops_clean(run)


if __name__ == "__main__":
    harness.main()
