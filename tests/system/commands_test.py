"""The client commands of a run."""

import json
import subprocess
import time

import harness
from harness import Case, Run, job, members, synthetic, wait_until


class Commands(Case):
    def test_status_answers_in_a_table_and_in_json(self):
        with Run(job()) as run:
            status = run.wait_size(2)
            for key in ("name", "phase", "generation", "world_size", "target_size", "global_batch", "size_reason",
                        "last_change", "uptime_s", "step", "samples_per_s", "idle_s", "workers", "hosts"):
                self.assertIn(key, status)
            self.assertEqual([w["rank"] for w in members(status)], [0, 1])
            table = run.do("status", run.name)
            self.assertIn(run.name, table)
            self.assertIn("localhost", table)
            self.assertIn(run.name, run.do("status"), "with one run no name is needed")
            run.do("stop")
            self.assertEqual(run.wait(), 0)

    def test_status_names_the_slow_worker(self):
        with Run(job(trainer=synthetic(slow="2:4"))) as run:
            run.wait_size(2)
            run.wait_more_steps(20)
            status = run.wait_status(lambda s: all(w["compute_ms"] > 0 for w in members(s)), what="timings")
            compute = [worker["compute_ms"] for worker in members(status)]
            self.assertGreater(compute[1], 2 * compute[0])
            run.do("stop", run.name)
            run.wait()

    def test_refusals_say_why(self):
        with Run(job(workers=(1, 2, 3))) as run:
            run.wait_size(2)
            for words, part in ((("resize", run.name, 9), "3"), (("replace", run.name, 7), "7"),
                                (("drain", run.name, "no-such-host"), "no-such-host")):
                done = run.command(*words)
                self.assertEqual(done.returncode, 1, words)
                self.assertIn(part, done.stderr + done.stdout)
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 0)

    def test_two_runs_are_told_apart_by_name(self):
        with Run(job(workers=(1, 1, 2))) as first:
            second = Run(job(workers=(1, 1, 2)))
            second.environment["ELASTICTRAIN_STATE_DIR"] = second.state = first.state
            with second:
                first.wait_size(1)
                second.wait_size(1)
                done = first.command("status")
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(first.name, done.stderr)
                self.assertIn(second.name, done.stderr)
                second.do("resize", second.name, 2)
                second.wait_size(2)
                self.assertEqual(first.status()["world_size"], 1)
                for run in (first, second):
                    run.do("stop", run.name)
                    self.assertEqual(run.wait(), 0)

    def test_a_second_run_of_the_same_name_is_refused(self):
        with Run(job()) as first:
            first.wait_size(2)
            second = Run(job(), name=first.name)
            second.environment["ELASTICTRAIN_STATE_DIR"] = second.state = first.state
            with second:
                self.assertNotEqual(second.wait(), 0)
                self.assertIn(first.name, second.text("stderr"))
            self.assertEqual(first.status()["world_size"], 2)
            first.do("stop", first.name)
            self.assertEqual(first.wait(), 0)

    def test_events_follow_the_journal(self):
        with Run(job()) as run:
            run.wait_size(2)
            follow = subprocess.Popen([harness.BINARY, "events", run.name, "--follow", "--json"], text=True,
                                      env={**harness.os.environ, **run.environment}, stdout=subprocess.PIPE)
            try:
                run.do("resize", run.name, 3)
                run.wait_size(3)
                run.do("stop", run.name)
                self.assertEqual(run.wait(), 0)
                wait_until(lambda: follow.poll() is not None, 15, "the end of `events --follow` with its run")
                events = [json.loads(line)["event"] for line in follow.stdout]
            finally:
                follow.kill()
                follow.wait()
                follow.stdout.close()
            for name in ("commit", "end"):
                self.assertIn(name, events)
            self.assertEqual(events, [record["event"] for record in run.journal()])

    def test_events_have_dates_and_begin_where_they_are_asked_to(self):
        def seconds(record):
            return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(record["t"]))

        with Run(job()) as run:
            run.wait_size(2)
            first = run.journal()[0]
            wait_until(lambda: int(time.time()) > int(first["t"]), 30, "another second than that of the first record")
            run.do("resize", run.name, 3)
            run.wait_size(3)
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 0)
            since = seconds(run.events("resize_requested")[0])
            later = [record["seq"] for record in run.journal() if seconds(record) >= since]
            shown = [json.loads(line)["seq"]
                     for line in run.do("events", run.name, "--json", "--since", since).splitlines()]
            self.assertEqual(shown, later)
            self.assertNotIn(first["seq"], shown)
            self.assertEqual(run.do("events", run.name, "--since", "1h"), run.do("events", run.name))
            for line in run.do("events", run.name, "--since", since).splitlines():
                self.assertRegex(line, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}  \w")
                self.assertGreaterEqual(line[:19], since)

    def test_the_journal_numbers_its_records(self):
        with Run(job(trainer=synthetic(samples=1600, epochs=1))) as run:
            self.assertEqual(run.wait(), 0)
            numbers = [record["seq"] for record in run.journal()]
            self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))

    def test_a_dry_run_shows_everything_and_starts_nothing(self):
        arguments = ["-n", "3", "-H", "hostA:2,hostB:2", "--dry-run", "--", "./train", "--epochs", "5"]
        with Run(arguments=arguments) as run:
            self.assertEqual(run.wait(), 0)
            for part in ("hostA", "hostB", "ssh", "./train --epochs 5", "WORLD_SIZE"):
                self.assertIn(part, run.text("stdout"))
            self.assertEqual(run.journal(), [])

    def test_check_accepts_a_good_config_and_reports_the_host(self):
        run = Run(job())
        try:
            done = run.command("check", run.argv[2])
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("localhost", done.stdout)
        finally:
            run.kill()

    def test_drain_of_the_only_host_is_refused_or_ends_nothing(self):
        with Run(job()) as run:
            run.wait_size(2)
            run.command("drain", run.name, "localhost")
            run.wait_more_steps(10)
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 0)


if __name__ == "__main__":
    harness.main()
