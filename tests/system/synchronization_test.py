"""Real runs whose workers average models: through a loss, a growth and the change back to averaged gradients."""

import collections
import os
import signal

import harness
from harness import Case, Run, job, members, pids, synthetic
from sanitizer import SLOWDOWN

FAST = {"cool_down_ms": 500}


class Synchronization(Case):
    def wait_synchronization(self, run, name):
        return run.wait_status(lambda s: s["phase"] == "running" and s.get("synchronization") == name, what=name)

    def end(self, run):
        run.wait_more_steps(20)
        self.assert_stops_clean(run)

    def through_a_loss_and_a_growth(self, strategy):
        with Run(job(workers=(1, 3, 4), failures=FAST, synchronization={"strategy": strategy})) as run:
            before = pids(run.wait_size(3))
            self.wait_synchronization(run, strategy)
            run.wait_step(15)
            os.kill(before[1], signal.SIGKILL)
            run.wait_status(lambda s: s["phase"] == "running" and len(members(s)) == 3 and before[1] not in pids(s),
                            what="the replacement")
            run.do("resize", run.name, 4)
            run.wait_size(4)
            run.wait_more_steps(10)
            self.assertEqual([pid for pid in pids(run.status()) if pid in before], [before[0], before[2]])
            self.end(run)

    def test_models_are_averaged_with_all(self):
        self.through_a_loss_and_a_growth("averaging")

    def test_models_are_averaged_in_pairs(self):
        self.through_a_loss_and_a_growth("pair-averaging")

    def test_pairs_run_ahead_of_a_slow_worker_and_every_sample_counts_once(self):
        """A sanitizer's own work is small beside that of a step, so that it does not slow the fast ones more."""
        strategy = "pair-averaging"
        trainer = synthetic(slow="2:4", samples=2000, compute_us_per_sample=1000 * SLOWDOWN)
        config = job(workers=(1, 4, 4), trainer=trainer, failures=FAST,
                     synchronization={"strategy": strategy, "round_ms": 600 * SLOWDOWN})
        with Run(config) as run:
            before = pids(run.wait_size(4))
            run.wait_step(120, 60)
            batches = collections.Counter(record["pid"] for record in run.steps())
            for fast in (before[0], before[2], before[3]):
                self.assertGreater(batches[fast], 2 * batches[before[1]], batches)
            os.kill(before[2], signal.SIGKILL)
            run.wait_status(lambda s: s["phase"] == "running" and len(members(s)) == 4 and before[2] not in pids(s),
                            what="the replacement")
            run.wait_more_steps(60)
            run.do("resize", run.name, 2)
            run.wait_size(2)
            run.wait_more_steps(60)
            self.end(run)

    def test_a_policy_goes_back_to_gradients_and_the_workers_are_equal_again(self):
        config = job(workers=(1, 3, 3), synchronization={"strategy": "averaging"},
                     policy={"name": "adasgd", "interval_ms": 300})
        config["policy.adasgd"] = {"until_step": 60, "above_workers": 0}
        with Run(config) as run:
            self.wait_synchronization(run, "averaging")
            self.wait_synchronization(run, "s-sgd")
            self.assertEqual(run.events("decided")[-1]["code"], "gradients")
            self.assertGreaterEqual(run.last_step(), 60)
            self.end(run)


if __name__ == "__main__":
    harness.main()
