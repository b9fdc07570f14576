"""A real data set on stand-in GPUs: the model learns as well as on CPUs."""

import os

import harness
from harness import Case, Run, job

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "optdigits")


def accuracy_of(run):
    return float([r for r in run.journal() if r["event"] == "note" and r.get("key") == "accuracy"][-1]["value"])


class Digits(Case):
    def test_digits_are_learnt_as_well_as_on_a_cpu(self):
        accuracies = {}
        for device in ("cpu", "cuda"):
            trainer = {"model": "mlp", "train": os.path.join(DATA, "optdigits.tra"),
                       "test": os.path.join(DATA, "optdigits.tes"), "epochs": 15, "device": device,
                       "eval_every_epochs": 0}
            with Run(job(workers=(2, 2, 2), trainer=trainer)) as run:
                self.assertEqual(run.wait(120), 0)
                self.assert_audit_clean(run)
                accuracies[device] = accuracy_of(run)
        self.assertGreaterEqual(accuracies["cuda"], 0.95)
        self.assertAlmostEqual(accuracies["cuda"], accuracies["cpu"], delta=0.01)


if __name__ == "__main__":
    harness.main()
