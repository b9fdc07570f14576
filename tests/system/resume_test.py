"""A run survives the kill of its supervisor: it continues without it, and a later supervisor takes it over."""

import os
import re
import shutil
import signal
import tempfile

import harness
from harness import Case, Run, job, newest_checkpoint, pids, synthetic, wait_until


STORED_JOURNAL = os.path.join(os.path.dirname(__file__), "..", "data", "journals", "version-1.jsonl")


def try_to_resume(run):
    return run.command("run", "--resume", run.name)


def schema_of(run):
    """As the journal's first line has it."""
    with open(run.journal_path()) as file:
        return re.search(r'"schema":\d+,', file.readline()).group()


def rewrite_journal(run, replacements):
    with open(run.journal_path()) as file:
        text = file.read()
    for old, new in replacements.items():
        text = text.replace(old, new)
    with open(run.journal_path(), "w") as file:
        file.write(text)


class SupervisorLost(Case):
    def test_a_killed_supervisor_is_succeeded_without_a_restart_or_a_pause(self):
        with Run(job(workers=(1, 3, 4))) as run:
            before = run.wait_size(3)
            run.lose_supervisor()
            run.wait_more_steps(20)
            run.resume()
            after = run.wait_size(3)
            self.assertEqual(pids(after), pids(before))
            self.assertEqual(after["generation"], before["generation"])
            run.wait_more_steps(20)
            self.assertEqual(len(run.events("spawn")), 3)
            run.do("resize", run.name, 4)
            run.wait_size(4)
            self.assert_stops_clean(run)

    def test_a_notice_that_the_lost_supervisor_had_received_is_answered_by_the_next_one(self):
        # It waits twice the time to suspect a host before it answers: until then others may get the notice, too.
        with Run(job(timeouts={"suspect_ms": 4000, "dead_ms": 20000})) as run:
            victim = pids(run.wait_size(2))[1]
            os.kill(victim, signal.SIGTERM)
            run.wait_event("note", key="elastictrain.term")
            run.wait_more_steps(50)
            run.lose_supervisor()
            self.assertEqual(run.events("term_answered"), [])
            run.resume()
            run.wait_event("term_answered", timeout=60)
            wait_until(lambda: len(pids(run.status())) == 2 and victim not in pids(run.status()), 60, "the replacement")
            self.assert_ends_clean(run)

    def test_the_same_command_again_takes_the_run_over(self):
        with Run(job()) as run:
            before = pids(run.wait_size(2))
            run.lose_supervisor()
            run.start()
            run.wait_text("is taken over")
            self.assertEqual(pids(run.wait_size(2)), before)
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 0)
            run.wait_no_processes()

    def test_it_can_be_lost_again_and_again(self):
        with Run(job()) as run:
            before = pids(run.wait_size(2))
            for _ in range(3):
                run.lose_supervisor()
                run.resume()
                self.assertEqual(pids(run.wait_size(2)), before)
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 0)
            self.assert_audit_clean(run)

    def test_commands_beside_it_say_how_to_take_it_over(self):
        with Run(job()) as run:
            run.wait_size(2)
            run.lose_supervisor()
            status = run.command("status", run.name)
            self.assertEqual(status.returncode, 69)
            self.assertIn(f"elastictrain run --resume {run.name}", status.stderr)

    def test_a_torn_journal_is_read_and_reported(self):
        with Run(job()) as run:
            before = pids(run.wait_size(2))
            run.lose_supervisor()
            with open(run.journal_path(), "a") as journal:
                journal.write('{"seq":99,"t":1.0,"ev')
            run.resume()
            self.assertEqual(pids(run.wait_size(2)), before)
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 0)
            self.assertIn("was cut off", run.text("stderr"))
            with open(run.journal_path()) as journal:
                self.assertIn('"event":"journal_torn"', journal.read())

    def test_a_journal_of_the_version_before_is_taken_over(self):
        with Run(job()) as run:
            run.wait_size(2)
            run.do("topology", run.name, "ring")
            run.wait_event("plan_updated")
            run.do("resize", run.name, 3)
            before = pids(run.wait_size(3))
            run.lose_supervisor()
            rewrite_journal(run, {schema_of(run): "", '"plan_updated"': '"reshared"', '"target_topology"': '"wished_topology"',
                                 '"plan_update_requested"': '"reshare_requested"', '"kind":"update"': '"kind":"reshare"'})
            run.resume()
            self.assertEqual(pids(run.wait_size(3)), before)
            run.do("resize", run.name, 4)
            run.wait_size(4)
            self.assertEqual(run.events("prepare")[-1]["topology"], "ring")
            self.assert_stops_clean(run)

    def test_after_a_power_cut_of_its_machine_no_number_is_given_twice(self):
        with Run(job()) as run:
            before = pids(run.wait_size(2))
            run.lose_supervisor()
            with open("/proc/sys/kernel/random/boot_id") as boot:
                rewrite_journal(run, {boot.read().strip(): "the-boot-before"})
            run.resume()
            self.assertEqual(pids(run.wait_size(2)), before, "workers that live elsewhere train on")
            run.do("resize", run.name, 3)
            grown = run.wait_size(3)
            self.assertGreater(max(worker["id"] for worker in grown["workers"]), 10_000)
            self.assertGreater(grown["generation"], 10_000)
            self.assert_stops_clean(run)

    def test_a_stored_journal_of_the_version_before_continues_its_numbers(self):
        with Run(job(workers=(1, 2, 4), timeouts={"resume_timeout_ms": 500})) as run:
            run.wait_size(2)
            run.lose_everything()
            shutil.copy(STORED_JOURNAL, run.journal_path())
            rewrite_journal(run, {'"run":"before"': f'"run":"{run.name}"'})
            run.resume()
            run.wait_size(3)  # the target that the stored run had
            self.assertGreater(run.status()["generation"], 7)
            self.assertGreater(min(worker["id"] for worker in run.status()["workers"]), 6)
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 0)

    def test_a_journal_of_a_newer_version_is_refused_and_still_printed(self):
        with Run(job()) as run:
            run.wait_size(2)
            run.lose_supervisor()
            schema = schema_of(run)
            rewrite_journal(run, {schema: '"schema":99,"later":true,'})
            refused = try_to_resume(run)
            self.assertEqual(refused.returncode, 69)
            self.assertIn("schema version 99", refused.stderr)
            printed = run.command("events", run.name)
            self.assertEqual(printed.returncode, 0)
            self.assertIn("later=true", printed.stdout)
            rewrite_journal(run, {'"schema":99,"later":true,': schema})
            run.resume()
            run.wait_size(2)
            self.assert_stops_clean(run)

    def test_of_two_successors_one_is_refused(self):
        with Run(job()) as run:
            run.wait_size(2)
            run.lose_supervisor()
            run.resume()
            run.wait_size(2)
            refused = try_to_resume(run)
            self.assertEqual(refused.returncode, 69)
            self.assertIn("is live, and there is nothing to resume", refused.stderr)
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 0)

    def test_another_program_under_the_name_is_refused_with_what_differs(self):
        with Run(job()) as run:
            run.wait_size(2)
            run.lose_supervisor()
            other = run.command("run", "--name", run.name, "-n", "2", "--", "sleep", "60")
            self.assertEqual(other.returncode, 69)
            self.assertIn("command was nothing, is sleep 60", other.stderr)
            self.assertIn(f"elastictrain run --resume {run.name}", other.stderr)

    def test_a_run_that_has_finished_or_was_never_there_is_not_resumed(self):
        with Run(job(trainer=synthetic(epochs=1, samples=64))) as run:
            self.assertEqual(run.wait(), 0)
            done = try_to_resume(run)
            self.assertEqual(done.returncode, 69)
            self.assertIn("nothing to resume", done.stderr)
            unknown = run.command("run", "--resume", "no-such-run")
            self.assertEqual(unknown.returncode, 69)
            self.assertIn("no-such-run", unknown.stderr)


class EverythingLost(Case):
    def checkpointed(self, run_directory, **changes):
        return job(trainer=synthetic(**changes), checkpoint={"directory": os.path.join(run_directory, "ck"),
                                                              "interval_steps": 10},
                   timeouts={"resume_timeout_ms": 1000})

    def test_the_run_goes_on_from_its_newest_checkpoint(self):
        with tempfile.TemporaryDirectory(prefix="resume-") as directory:
            with Run(self.checkpointed(directory)) as run:
                run.wait_size(2)
                checkpoints = os.path.join(directory, "ck")
                run.wait_checkpoint(checkpoints, 30)
                run.lose_everything()
                continued = newest_checkpoint(checkpoints)
                generation = run.events("generation")[-1]["generation"]
                run.resume()
                after = run.wait_size(2)
                self.assertGreater(after["generation"], generation)
                first = min(r["step"] for r in run.steps() if r["pid"] in pids(after))
                self.assertEqual(first, continued + 1)
                self.assert_ends_clean(run)

    def test_a_stopped_run_says_the_way_back_and_goes_on(self):
        with tempfile.TemporaryDirectory(prefix="resume-") as directory:
            with Run(self.checkpointed(directory)) as run:
                run.wait_size(2)
                run.wait_step(25)
                self.assertIn(f"continue later with: elastictrain run --resume {run.name}", run.do("stop", run.name))
                self.assertEqual(run.wait(), 0)
                way_back = f"continue with: elastictrain run --resume {run.name}"
                self.assertIn(way_back, run.text("stderr"))
                self.assertIn(way_back, run.do("status", run.name))
                last = run.last_step()
                run.resume()
                after = run.wait_size(2)
                run.wait_step(last + 5)
                first = min(r["step"] for r in run.steps() if r["pid"] in pids(after))
                self.assertEqual(first, last + 1)
                self.assert_ends_clean(run)

    def test_a_preempted_run_goes_on_with_another_number_of_workers(self):
        with tempfile.TemporaryDirectory(prefix="resume-") as directory:
            with Run(self.checkpointed(directory)) as run:
                run.wait_size(2)
                run.wait_step(25)
                run.signal(signal.SIGTERM)
                self.assertEqual(run.wait(), 75)
                self.assertIn(f"continue with: elastictrain run --resume {run.name}", run.text("stderr"))
                last = run.last_step()
                run.resume("--start", "3")
                after = run.wait_size(3)
                first = min(r["step"] for r in run.steps() if r["pid"] in pids(after))
                self.assertEqual(first, last + 1)
                run.do("stop", run.name)
                self.assertEqual(run.wait(), 0)
                self.assert_audit_clean(run)

    def test_the_time_limit_counts_from_each_new_start(self):
        with tempfile.TemporaryDirectory(prefix="resume-") as directory:
            with Run(self.checkpointed(directory), arguments=["--time-limit", "4"]) as run:
                self.assertEqual(run.wait(), 75)
                for _ in range(2):
                    last = run.last_step()
                    run.resume()
                    run.wait_step(last + 20)
                    self.assertEqual(run.wait(), 75)


class Output(Case):
    def test_the_run_goes_on_when_nobody_reads_any_more(self):
        with tempfile.TemporaryDirectory(prefix="resume-") as directory:
            logs = os.path.join(directory, "logs")
            arguments = ["-n", "1", "--log-dir", logs, "--", "sh", "-c",
                         "i=0; while [ $i -lt 30 ]; do echo line $i; i=$((i+1)); sleep 0.05; done"]
            read_end, write_end = os.pipe()
            with Run(arguments=arguments, stdout=write_end, stderr=write_end) as run:
                os.close(write_end)
                os.read(read_end, 64)
                os.close(read_end)
                self.assertEqual(run.wait(20), 0)
                log = os.path.join(logs, "worker-1.log")
                with open(log) as file:
                    self.assertEqual(file.read().split("\n")[:-1], [f"line {i}" for i in range(30)])


if __name__ == "__main__":
    harness.main()
