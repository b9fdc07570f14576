"""A training program adapts its own run: its requests are carried out, and the journal records that the program made them."""

import os

import harness
from harness import Case, Run, job

PROGRAM = os.environ.get("ELASTICTRAIN_ADAPTING_PROGRAM", "")


class Program(Case):
    def test_it_asks_for_another_size_and_for_averaged_gradients_and_gets_both(self):
        config = job(workers=(1, 2, 3), command=[PROGRAM], synchronization={"strategy": "averaging"})
        with Run(config) as run:
            self.assertEqual(run.wait(60), 0)
            run.wait_no_processes()
            self.assert_audit_clean(run)
            kinds = [change["kind"] for change in run.events("generation")]
            self.assertEqual(kinds[:3], ["start", "grow", "update"])
            self.assertIn(kinds[3:], ([], ["recover"]), "a newcomer that ends a moment before the others ended early, as far as is known")
            self.assertEqual([asked["target"] for asked in run.events("program_requested")], [3, 0])
            self.assertTrue(run.events("resize_requested", target=3, reason="requested by the program"))
            self.assertTrue(run.events("plan_updated", target_synchronization="s-sgd"))
            notes = {note["key"]: note["value"] for note in run.events("note")}
            self.assertEqual(notes["samples_of_all"], "48", "16 of each of three workers")
            self.assertEqual(notes["read_from_a_peer"], "yes")
            self.assertGreater(float(notes["gradient_variance"]), 0)
            self.assertAlmostEqual(float(notes["weight"]), 3, delta=0.2)


if __name__ == "__main__":
    harness.main()
