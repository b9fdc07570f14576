"""A worker that violates an assertion ends at once, names the place, and is survived as any loss."""

import os

import harness
from harness import Case, Run, job

PROGRAM = os.environ.get("ELASTICTRAIN_VIOLATING_PROGRAM", "")
ENDED = 70


class Violation(Case):
    def test_the_worker_ends_with_its_place_and_status_and_the_others_finish(self):
        config = job(workers=(1, 3, 3), command=[PROGRAM, "20"], failures={"cool_down_ms": 500})
        with Run(config) as run:
            self.assertEqual(run.wait(60), 0)
            run.wait_no_processes()
            self.assert_audit_clean(run)
            self.assert_steps_continue(run)
            self.assertEqual(len(run.events("loss")), 1)
            self.assertEqual(len(run.events("exited", exit_code=ENDED)), 1)
            self.assertIn("session/replicas.cc:", run.text())
            self.assertIn("must hold: only a complete replica", run.text())


if __name__ == "__main__":
    harness.main()
