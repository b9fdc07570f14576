"""One test for each row of the table of signals."""

import os
import signal

import harness
from harness import Case, Run, is_alive, job, pids, synthetic, wait_until

STUBBORN = 'trap "" TERM INT; echo started; while :; do sleep 0.1; done'
REPORTS = 'trap "echo got-usr1" USR1; trap "echo got-usr2" USR2; echo started; while :; do sleep 0.05; done'
TERM_NOTE = "elastictrain.term"


class Signals(Case):
    def test_ctrl_c_drains_at_a_step_boundary_and_says_so(self):
        with Run(job()) as run:
            run.wait_size(2)
            run.signal(signal.SIGINT)
            self.assertEqual(run.wait(), 130)
            run.wait_no_processes()
            self.assert_audit_clean(run)
            self.assert_steps_continue(run)

    def test_ctrl_c_of_a_terminal_reaches_the_whole_group_and_still_drains(self):
        with Run(job()) as run:
            run.wait_size(2)
            os.killpg(run.process.pid, signal.SIGINT)
            self.assertEqual(run.wait(), 130)
            run.wait_no_processes()
            self.assert_audit_clean(run)

    def test_ctrl_c_twice_stops_programs_that_do_not_listen(self):
        with Run(arguments=["-n", "2", "--grace", "1", "--", "sh", "-c", STUBBORN]) as run:
            run.wait_text("started")
            run.signal(signal.SIGINT)
            run.signal(signal.SIGINT)
            self.assertEqual(run.wait(15), 130)
            run.wait_no_processes()

    def test_a_third_ctrl_c_does_not_wait_for_the_grace(self):
        with Run(arguments=["-n", "2", "--grace", "600", "--", "sh", "-c", STUBBORN]) as run:
            run.wait_text("started")
            run.signal(signal.SIGINT)
            run.wait_text("press Ctrl-C again to stop at once")
            run.signal(signal.SIGINT)
            run.wait_text("(--grace); press Ctrl-C again to kill them now")
            run.signal(signal.SIGINT)
            run.wait_text("killing the workers")
            self.assertEqual(run.wait(60), 130)
            run.wait_no_processes()

    def test_ctrl_c_while_starting_leaves_nothing(self):
        with Run(job(trainer=synthetic(startup_delay_ms=20_000))) as run:
            wait_until(lambda: len(run.processes()) >= 3, 15, "agent and workers")
            run.signal(signal.SIGINT)
            self.assertEqual(run.wait(15), 130)
            run.wait_no_processes()

    def test_term_is_a_preemption_within_the_grace(self):
        with Run(arguments=["-n", "2", "--grace", "1", "--", "sh", "-c", STUBBORN]) as run:
            run.wait_text("started")
            run.signal(signal.SIGTERM)
            self.assertEqual(run.wait(15), 75)
            run.wait_no_processes()

    def test_hangup_is_as_term(self):
        with Run(job()) as run:
            run.wait_size(2)
            run.signal(signal.SIGHUP)
            self.assertEqual(run.wait(), 69, "there is no checkpoint")
            run.wait_no_processes()

    def test_hangup_does_not_end_a_run_that_ignores_it(self):
        with Run(job(signals={"hup": "ignore"})) as run:
            before = pids(run.wait_size(2))
            os.killpg(run.process.pid, signal.SIGHUP)  # as a terminal that is closed
            run.wait_more_steps(20)
            self.assertEqual(pids(run.wait_size(2)), before)
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 0)
            run.wait_no_processes()

    def test_nohup_is_respected(self):
        run = Run(job())
        run.argv.insert(0, "nohup")
        with run:
            before = pids(run.wait_size(2))
            os.killpg(run.process.pid, signal.SIGHUP)
            run.wait_more_steps(20)
            self.assertEqual(pids(run.wait_size(2)), before)
            self.assert_stops_clean(run)

    def test_usr1_and_usr2_are_passed_on(self):
        with Run(arguments=["-n", "1", "--", "sh", "-c", REPORTS]) as run:
            run.wait_text("started")
            run.signal(signal.SIGUSR1)
            run.wait_text("got-usr1")
            run.signal(signal.SIGUSR2)
            run.wait_text("got-usr2")
            run.signal(signal.SIGINT)
            run.signal(signal.SIGINT)
            run.wait(40)

    def test_usr1_can_be_a_notice_to_leave(self):
        with Run(job(signals={"usr1": "drain"})) as run:
            run.wait_size(2)
            run.signal(signal.SIGUSR1)
            self.assertEqual(run.wait(), 69, "there is no checkpoint")
            run.wait_no_processes()

    def test_usr1_as_a_notice_is_not_passed_on(self):
        with Run(arguments=["-n", "1", "--set", "signals.usr1=drain", "--grace", "1", "--", "sh", "-c", REPORTS]) as run:
            run.wait_text("started")
            run.signal(signal.SIGUSR1)
            self.assertEqual(run.wait(), 75)
            self.assertNotIn("got-usr1", run.text())
            run.wait_no_processes()

    def test_usr1_and_usr2_do_nothing_to_the_built_in_trainer(self):
        with Run(job()) as run:
            before = pids(run.wait_size(2))
            run.signal(signal.SIGUSR1)
            run.signal(signal.SIGUSR2)
            run.wait_more_steps(20)
            self.assertEqual(pids(run.wait_size(2)), before)
            self.assert_stops_clean(run)

    def test_stop_now_does_not_wait_for_the_step(self):
        with Run(job(trainer=synthetic(compute_us_per_sample=60_000_000, compute="sleep")), arguments=["--grace", "600"]) as run:
            run.wait_status(lambda s: s["phase"] == "running" and s["world_size"] == 2, what="two workers")
            self.assertIn("stopping the workers now", run.do("stop", run.name, "--now"))
            self.assertEqual(run.wait(60), 0)
            self.assertEqual(run.events("ending")[-1]["now"], True)
            run.wait_no_processes()

    def test_stop_now_kills_after_the_grace_what_does_not_listen(self):
        with Run(arguments=["-n", "2", "--grace", "1", "--", "sh", "-c", STUBBORN]) as run:
            run.wait_text("started")
            run.do("stop", run.name, "--now")
            self.assertEqual(run.wait(60), 0)
            self.assertEqual({exited["signal"] for exited in run.events("exited")}, {signal.SIGKILL})
            run.wait_no_processes()

    def test_term_to_one_worker_replaces_it_without_a_loss(self):
        with Run(job(), arguments=["--spares", "1"]) as run:
            before = pids(run.wait_size(2))
            os.kill(before[1], signal.SIGTERM)
            run.wait_event("note", key=TERM_NOTE, value=f"from process {os.getpid()}")
            wait_until(lambda: before[1] not in pids(run.status()), 30, "the replacement")
            self.assertEqual(pids(run.wait_size(2))[0], before[0])
            wait_until(lambda: not is_alive(before[1]), 15, "the end of the worker that was replaced")
            self.assertEqual(run.events("loss"), [], run.text())
            run.wait_more_steps(20)
            self.assert_stops_clean(run)
            self.assert_audit_clean(run)

    def test_a_second_term_ends_a_worker(self):
        with Run(job(timeouts={"suspect_ms": 10_000, "dead_ms": 20_000})) as run:
            before = pids(run.wait_size(2))
            os.kill(before[1], signal.SIGTERM)
            run.wait_event("note", key=TERM_NOTE)
            run.wait_more_steps(20)
            self.assertEqual(pids(run.status()), before)
            os.kill(before[1], signal.SIGTERM)
            run.wait_event("loss", **{"class": "preemption"})
            run.wait_size(2)
            self.assert_stops_clean(run)

    def test_term_to_all_workers_alone_changes_nothing(self):
        with Run(job()) as run:
            before = pids(run.wait_size(2))
            for pid in before:
                os.kill(pid, signal.SIGTERM)
            wait_until(lambda: len(run.events("term_answered")) == 2, 20, "the answers to both notices")
            run.wait_more_steps(20)
            self.assertEqual(pids(run.status()), before)
            self.assert_stops_clean(run)

    def test_term_to_everybody_is_a_preemption_and_nobody_is_replaced(self):
        with Run(job()) as run:
            run.wait_size(2)
            harness.signal_all(run.processes() + [run.process.pid], signal.SIGTERM)
            self.assertEqual(run.wait(), 69, "there is no checkpoint")
            run.wait_no_processes()
            self.assertEqual(run.events("loss"), [], run.text())
            self.assertEqual(run.events("term_answered"), [], run.text())
            self.assert_audit_clean(run)

    def test_a_stopped_and_continued_run_goes_on_without_a_verdict(self):
        with Run(job()) as run:
            before = pids(run.wait_size(2))
            run.signal(signal.SIGTSTP)
            wait_until(lambda: harness.process_state(run.process.pid) == "T", 10, "the run stopped")
            harness.pause(4.5)  # longer than the time after which silence means death
            run.signal(signal.SIGCONT)
            step = run.last_step()
            run.wait_step(step + 20)
            status = run.wait_size(2)
            self.assertEqual(pids(status), before)
            self.assertTrue(all(is_alive(pid) for pid in before))
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 0)


if __name__ == "__main__":
    harness.main()
