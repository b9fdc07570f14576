"""A worker that does wrong: it violates an assertion and is survived as any loss, it spoils its parameters and the audit
says so, it sums in another order than the others, or it floods its agent and loses nobody."""

import os

import harness
from harness import Case, Run, job

PROGRAM = os.environ.get("ELASTICTRAIN_VIOLATING_PROGRAM", "")
ENDED = 70
AUDIT_FAILED = 94


class Violation(Case):
    def test_the_worker_ends_with_its_place_and_status_and_the_others_finish(self):
        config = job(workers=(1, 3, 3), command=[PROGRAM, "20", "replicas"], failures={"cool_down_ms": 500})
        with Run(config) as run:
            self.assertEqual(run.wait(60), 0)
            run.wait_no_processes()
            self.assert_audit_clean(run)
            self.assert_steps_continue(run)
            self.assertEqual(len(run.events("loss")), 1)
            self.assertEqual(len(run.events("exited", exit_code=ENDED)), 1)
            self.assertIn("session/state_handover.cc:", run.text())
            self.assertIn("must hold: only a complete replica", run.text())

    def test_a_run_whose_workers_hold_different_parameters_does_not_succeed(self):
        config = job(workers=(3, 3, 3), command=[PROGRAM, "20", "parameters"])
        with Run(config) as run:
            self.assertEqual(run.wait(60), AUDIT_FAILED)
            run.wait_no_processes()
            self.assertGreater(run.events("audit")[0]["unequal_hashes"], 0)
            summary = run.text().split("summary of ")[1].splitlines()
            self.assertIn("AUDIT FAILED: ", summary[1])
            self.assertIn("but the audit failed: ", summary[2])

    def test_ranks_that_sum_in_another_order_are_told_both_sizes(self):
        config = job(workers=(3, 3, 3), command=[PROGRAM, "20", "order"], failures={"max_crashes": 0})
        with Run(config) as run:
            self.assertNotEqual(run.wait(60), 0)
            run.wait_no_processes()
            self.assertRegex(run.text(), r"ranks disagree about a collective operation: here number \d+ with \d+ bytes, at "
                                         r"[a-z ]*rank \d number \d+ with \d+ bytes")

    def survives(self, mode):
        """The text of a run of three workers that ends as if nothing had happened."""
        with Run(job(workers=(3, 3, 3), command=[PROGRAM, "20", mode])) as run:
            self.assertEqual(run.wait(120), 0)
            run.wait_no_processes()
            self.assert_audit_clean(run)
            for event in ("agent_lost", "loss", "recovery_begun"):
                self.assertEqual(run.events(event), [])
            return run.text(), run

    def test_a_program_with_too_many_notes_loses_the_rest_of_them_and_nothing_else(self):
        text, run = self.survives("notes")
        self.assertIn("notes were dropped: a worker may write 1000 at once and 50 a second", text)
        self.assertLess(len(run.events("note", key="count")), 2000)

    def test_a_worker_that_floods_its_agent_costs_nobody_a_connection(self):
        self.survives("flood")


if __name__ == "__main__":
    harness.main()
