"""Each policy on a real run whose speed is known: it ends at the right size or batch, in few changes; a user's size holds."""

import contextlib
import os
import re
import tempfile

import harness
from harness import Case, Run, job, pause, synthetic, wait_until

# Sleeps 1 ms for each sample: each worker keeps its throughput at every size.
LINEAR = {"parameter_bytes": 4_000}
# With steps of 48 ms, beside which a busy machine's delays are short.
STEADY = {**LINEAR, "compute_us_per_sample": 3000}
# Learns so slowly that the noise of its gradients stays what it is.
NOISY = {"model": "mlp", "samples": 4096, "epochs": 100_000, "learning_rate": 1e-7, "eval_every_epochs": 100_000}
# Its gradients have a known noise scale, of 90 samples: a sample's gradient is (x + 0.1 s) times a pattern, with x uniform
# between -1 and 1, and s from the seed. Its steps take no time of their own, because one in 16 of many thousands counts.
KNOWN_NOISE = {"parameter_bytes": 4_000, "compute_us_per_sample": 0, "learning_rate": 1e-7, "seed": 3}


def config(name, workers=(1, 1, 3), trainer=None, batch=16, **settings):
    return job(workers=workers, trainer=trainer or synthetic(**LINEAR), batch={"per_worker": batch},
               policy={"name": name, "interval_ms": 200}, **{f"policy.{name}": settings})


class LivePolicies(Case):
    def assert_holds(self, run, most_changes):
        """Settles: no further generation begins for two seconds, and there were few until then."""
        def rests():
            before = run.status()["generation"]
            pause(2)
            return before if run.status()["generation"] == before or before - 1 > most_changes else None

        generation = wait_until(rests, 60, "two seconds without a change")
        self.assertLessEqual(generation - 1, most_changes, run.events("decided"))
        self.assert_stops_clean(run)

    def assert_reaches_size(self, name, size, most_changes, **settings):
        with Run(config(name, trainer=synthetic(**STEADY), **settings)) as run:
            run.wait_event("decided", timeout=60, workers=size)
            run.wait_status(lambda s: s["phase"] == "running" and s["world_size"] == size, 60, f"{size} workers")
            run.wait_more_steps(60, timeout=60)
            self.assertEqual(run.status()["world_size"], size)
            self.assert_holds(run, most_changes)

    def test_or_grows_to_all_slots_of_a_job_that_scales(self):
        self.assert_reaches_size("or", 3, 3, increment=1, decide_every_steps=10)

    def test_provisioning_grows_to_all_slots_of_a_job_that_scales(self):
        self.assert_reaches_size("provisioning", 3, 2, every_steps=40)

    def test_efficiency_grows_to_all_slots_of_a_job_that_scales(self):
        self.assert_reaches_size("efficiency", 3, 4)

    @contextlib.contextmanager
    def growing(self, name, start, most, trainer=None, **settings):
        """A run that shares 32 samples a step, and a function that writes a file of those that slow its workers down.

        One worker takes 16 ms for its 16 samples, two 17 ms, which share them with up to `most`. Workers start in 12 s.
        """
        exchanges = ["1:0", "2:1000", "4:1000"]
        slots = config(name, workers=(min(start, 2), start, most), **settings,
                       trainer=synthetic(**LINEAR, startup_delay_ms=12_000, exchange_us=exchanges, **(trainer or {})))
        slots["batch"]["max_global"] = 32
        with tempfile.TemporaryDirectory(prefix="et-slow-") as slow:
            def write(file, number):
                with open(os.path.join(slow, file + ".new"), "w") as written:
                    written.write(f"{number}\n")
                os.replace(os.path.join(slow, file + ".new"), os.path.join(slow, file))

            with Run(slots, arguments=["-x", f"ELASTICTRAIN_SLOW_DIR={slow}"]) as run:
                yield run, write

    def assert_takes_growth_back(self, name, exchange_ms, start=2, most=4, ends_at=2, **settings):
        """While workers beside two others start, the exchange takes longer."""
        with self.growing(name, start, most, **settings) as (run, write):
            run.wait_event("decided", timeout=60, workers=most)
            write("exchange", exchange_ms)
            run.wait_event("decided", timeout=60, code="taken_back", workers=ends_at)
            run.wait_status(lambda s: s["phase"] == "running" and s["world_size"] == ends_at, 60, f"{ends_at} workers")
            sizes = [record["world_size"] for record in run.events("generation")]
            self.assertEqual(max(sizes), 2, "nobody joined")
            self.assert_holds(run, 2)

    def test_a_growth_whose_workers_still_start_is_taken_back_once_it_no_longer_pays(self):
        self.assert_takes_growth_back("efficiency", 200)

    @harness.long
    def test_goodput_takes_a_growth_back_as_well(self):
        self.assert_takes_growth_back("goodput", 40, adapt_batch=False, refit_s=1, min_s=0, settle_steps=15)

    @harness.long
    def test_or_takes_a_growth_back_as_well(self):
        """Two workers made 1882 samples a second, one 1000. At 148 the mean of all steps falls below the efficiency of 0.5."""
        self.assert_takes_growth_back("or", 200, start=1, most=3, increment=1, efficiency=0.5, decide_every_steps=10)

    @harness.long
    def test_provisioning_takes_a_growth_back_and_the_worker_that_no_longer_pays(self):
        self.assert_takes_growth_back("provisioning", 200, start=1, most=3, ends_at=1, every_steps=20)

    @harness.long
    def test_scavenger_takes_a_growth_back_that_its_deadline_no_longer_needs(self):
        """Two workers need 530 s for a million samples. While their steps take 2.5 times as long, 900 s need more workers."""
        with self.growing("scavenger", 2, 4, {"samples": 1_000_000, "epochs": 1}, goal="deadline", deadline_s=900,
                          search="universal", reconsider_s=2) as (run, write):
            run.wait_event("decided", timeout=60, code="settled")
            write("slow-all", 2.5)
            asked = wait_until(lambda: [r for r in run.events("decided") if (r.get("workers") or 0) > 2], 60, "more workers")
            write("slow-all", 1)
            run.wait_event("decided", timeout=60, code="taken_back", workers=2)
            status = run.wait_status(lambda s: s["phase"] == "running" and s["world_size"] == 2, 60, "two workers")
            self.assertEqual(status["generation"], 1, f"nobody joined after {asked}")
            self.assert_stops_clean(run)

    def test_a_batch_that_follows_the_noise_comes_with_the_workers_that_still_start(self):
        """At an efficiency of 0.05 the largest batch is the best one; each change at most doubles it."""
        slots = config("noise-batch", workers=(2, 2, 3), trainer={**NOISY, "startup_delay_ms": 12_000},
                       efficiency=0.05, min_steps=50, max_per_worker=64)
        slots["policy"]["interval_ms"] = 3000  # the first decision comes after the order of the third worker
        with Run(slots) as run:
            run.wait_size(2, timeout=60)
            run.do("resize", run.name, 3)
            run.wait_event("decided", timeout=60, code="noise_grew")
            self.assertEqual(run.status()["generation"], 1, "the third worker still starts")
            status = run.wait_status(lambda s: s["phase"] == "running" and s["world_size"] == 3, 60, "three workers")
            self.assertEqual(status["generation"], 2)
            self.assertGreater(status["batch_per_worker"], 16)
            self.assert_stops_clean(run)

    def test_cost_takes_all_slots_where_time_is_dear(self):
        self.assert_reaches_size("cost", 3, 4, utility="linear:1000000,3600", price_per_worker_hour=1)

    def test_cost_takes_one_worker_where_only_workers_cost(self):
        exchanges = synthetic(**LINEAR, exchange_us=["1:0", "3:16000"])  # which double the step of three workers
        with Run(config("cost", workers=(1, 2, 3), trainer=exchanges, utility="linear:1,3600",
                        price_per_worker_hour=100)) as run:
            run.wait_event("decided", timeout=60, workers=1)
            run.wait_size(1, timeout=60)
            run.wait_more_steps(150, timeout=60)
            self.assert_holds(run, 4)

    def test_status_tells_what_the_workers_are_worth_and_what_they_cost(self):
        exchanges = synthetic(**LINEAR, exchange_us=["1:0", "2:160000"])  # a step of eleven times the length
        with Run(job(workers=(1, 1, 2), trainer=exchanges, cost={"price_per_worker_hour": 100.0})) as run:
            run.wait_size(1)
            run.wait_more_steps(60)
            self.assertNotIn("scaling efficiency", run.do("status", run.name))
            run.do("resize", run.name, 2)
            status = run.wait_status(lambda s: s["scaling_efficiency"] is not None and s["cost"] > 0, 60, "an efficiency")
            self.assertLess(status["scaling_efficiency"], 0.5)
            self.assertEqual(status["efficiency_of_size"], 1)
            text = run.do("status", run.name)
            self.assertIn(" against 1 worker", text)
            self.assertIn("worker-hours", text)
            self.assert_stops_clean(run)

    def test_goodput_grows_to_all_slots_of_a_job_that_scales(self):
        self.assert_reaches_size("goodput", 3, 3, adapt_batch=False, refit_s=1, min_s=0, settle_steps=15)

    def test_the_batch_follows_the_noise_to_its_limit_and_stays_there(self):
        settings = {"efficiency": 0.05, "min_steps": 50, "max_per_worker": 64}
        with Run(config("noise-batch", workers=(2, 2, 2), trainer=NOISY, **settings)) as run:
            run.wait_status(lambda s: s["batch_per_worker"] == 64 and s["global_batch"] == 128, 60, "the largest batch")
            run.wait_more_steps(100, timeout=60)
            self.assert_holds(run, 3)

    def test_the_batch_of_a_single_worker_becomes_its_noise_scale(self):
        """By halves of its batch; at an efficiency of one half the best batch is the noise scale."""
        settings = {"efficiency": 0.5, "horizon_steps": 100_000, "min_steps": 1000, "growth": 8}

        def is_known(status):
            """Within three standard errors: so many steps leave one of about a tenth."""
            said = re.search(r"noise scale ([\d.]+)", status["policy_reason"] or "")
            return said and status["step"] > 20_000 and 63 < float(said[1]) < 130 and 56 <= status["batch_per_worker"] <= 136

        with Run(config("noise-batch", workers=(1, 1, 1), trainer=synthetic(**KNOWN_NOISE), batch=48, **settings)) as run:
            run.wait_event("decided", timeout=120, code="noise_grew")
            run.wait_status(is_known, 120, "a noise scale and a batch of about 90")
            self.assert_stops_clean(run)

    def test_kungfus_batch_grows_beyond_twice_the_first_one(self):
        settings = {"mode": "kungfu", "epoch_samples": 4096, "max_per_worker": 128}
        with Run(config("noise-batch", workers=(2, 2, 2), trainer=NOISY, **settings)) as run:
            run.wait_status(lambda s: s["batch_per_worker"] >= 64, 90, "four times the first batch")
            self.assert_stops_clean(run)

    def test_goodput_changes_the_batch_and_compares_with_the_one_in_force(self):
        """How long it keeps one depends on how steady the machine's real steps are; scripts/bench measures that."""
        settings = {"adapt_size": False, "refit_s": 1, "min_s": 1, "settle_steps": 10, "max_per_worker": 64}
        with Run(config("goodput", workers=(2, 2, 2), trainer=NOISY, **settings)) as run:
            run.wait_event("decided", timeout=60, code="batch")
            run.wait_status(lambda s: s["phase"] == "running" and s["batch_per_worker"] != 16, 60, "another batch")

            def considered_again():
                codes = [event["code"] for event in run.events("decided")]
                return "settled" in codes[codes.index("batch"):]

            wait_until(considered_again, 60, "a decision at the new batch")
            changes = [re.search(r"(\d+) samples per worker instead of (\d+)", event["reason"])
                       for event in run.events("decided", code="batch")]
            in_force = ["16", *(change[1] for change in changes[:-1])]
            self.assertEqual([change[2] for change in changes], in_force)
            self.assert_stops_clean(run)

    def test_goodput_knows_the_noise_of_a_single_worker(self):
        """As long as one batch has been measured, half of a step's time is taken to depend on it. So the best one is the root of
        24 times the noise, about 46."""
        settings = {"adapt_size": False, "refit_s": 1, "min_s": 1, "settle_steps": 10, "max_per_worker": 64}
        trainer = synthetic(**KNOWN_NOISE)
        with Run(config("goodput", workers=(1, 1, 1), trainer=trainer, batch=24, **settings)) as run:
            run.wait_event("decided", timeout=120, code="batch")
            run.wait_status(lambda s: s["phase"] == "running" and s["batch_per_worker"] > 24, 60, "a larger batch")
            self.assert_stops_clean(run)

    def test_scavenger_measures_sizes_and_batches_and_settles(self):
        settings = {"goal": "fastest", "vary_batch": True, "min_per_worker": 8, "max_per_worker": 32, "sizes": 2, "steps_per_point": 10}
        with Run(config("scavenger", workers=(1, 1, 2), **settings)) as run:
            run.wait_event("decided", timeout=90, code="settled")
            self.assert_holds(run, 6)

    def test_scavengers_theta_decides_with_the_measured_noise_how_large_the_batch_may_be(self):
        """Until the noise of the gradients is known, the batch is the user's, of 16 samples.

        Workers sleep 0.3 ms for each sample and 0.6 ms a step, so a large batch is a fifth faster. The gradients' own
        noise makes the number of samples differ by half and more.
        """
        trainer = synthetic(**LINEAR, gradient="samples", learning_rate=1e-9, compute_us_per_sample=300, exchange_us=["2:600"])
        settings = {"goal": "fastest", "vary_batch": True, "min_per_worker": 8, "max_per_worker": 64, "sizes": 2,
                    "steps_per_point": 30, "epochs": "sgd-noise"}
        for workers, theta, is_right in ((2, 0.5, lambda batch: batch > 32), (2, -0.4, lambda batch: batch < 16),
                                         (1, 0.5, lambda batch: batch > 32)):
            with self.subTest(workers=workers, theta=theta), \
                    Run(config("scavenger", workers=(workers,) * 3, trainer=trainer, theta=theta, **settings)) as run:
                run.wait_event("decided", timeout=90, code="settled")
                run.wait_status(lambda s: s["phase"] == "running" and is_right(s["batch_per_worker"]), 60, "another batch")
                self.assert_holds(run, 6)


class AUsersWord(Case):
    def test_a_users_size_holds_against_a_policy_until_it_is_given_back(self):
        with Run(config("efficiency")) as run:
            run.wait_size(3, timeout=60)
            self.assertIn("held against the policy until `resize auto`", run.do("resize", run.name, 2))
            run.wait_size(2)
            self.assertIn("held: 2 by a user", run.do("status", run.name))
            run.wait_more_steps(100, timeout=60)
            self.assertEqual(run.status()["world_size"], 2)
            self.assertIn("the policy decides on the size again", run.do("resize", run.name, "auto"))
            run.wait_size(3, timeout=60)
            self.assertNotIn("held", run.do("status", run.name))
            self.assertIn("for 1m 00s", run.do("resize", run.name, 1, "--for", "1m"))
            self.assertIn("for another", run.do("status", run.name))
            self.assert_stops_clean(run)

    def test_the_time_of_a_held_size_goes_on_while_no_supervisor_runs(self):
        with Run(config("efficiency")) as run:
            run.wait_size(3, timeout=60)
            run.do("resize", run.name, 1, "--for", "1m")
            run.wait_size(1)
            run.lose_supervisor()
            pause(2)
            run.resume()
            left_ms = run.wait_status(lambda s: s["held"] and s["phase"] == "running", 30, "a held size")["held_left_ms"]
            self.assertLess(left_ms, 58_000)
            first, again = run.events("size_held")
            self.assertLess(again["for_ms"], first["for_ms"])
            self.assertIn("the policy decides", run.do("resize", run.name, "auto"))
            run.wait_size(3, timeout=60)
            self.assert_stops_clean(run)

    def test_without_a_policy_there_is_nobody_to_give_the_size_back_to(self):
        with Run(job()) as run:
            run.wait_size(2)
            self.assertNotIn("held", run.do("resize", run.name, 3))
            refused = run.command("resize", run.name, "auto")
            self.assertEqual(refused.returncode, 1)
            self.assertIn("no policy decides on the size", refused.stderr)
            self.assert_stops_clean(run)


if __name__ == "__main__":
    harness.main(processes=2)
