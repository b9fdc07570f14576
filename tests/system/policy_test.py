"""External policies decide on the size of a real run: a program, a shared object, and one with malformed output."""

import json
import os
import shutil
import sys
import tempfile

import harness
from harness import Case, Run, job, synthetic

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "policies")
EXAMPLE = os.environ.get("ELASTICTRAIN_EXAMPLE_POLICY", "")


def config(policy, trainer=None):
    # Simulated compute (sleeping) scales perfectly: each worker keeps its throughput at every size.
    return job(workers=(1, 1, 3), trainer=trainer, policy={"interval_ms": 300, **policy})


class Policies(Case):
    def assert_grows_to_three(self, policy, name):
        with Run(config(policy)) as run:
            status = run.wait_size(3, timeout=60)
            self.assertEqual(status["policy"], name)
            run.wait_event("decided", code="at_limit", timeout=60)
            decided = [(record["code"], record.get("workers")) for record in run.events("decided")]
            self.assertIn(("grow", 2), decided)
            self.assertIn(("grow", 3), decided)
            self.assertIn(name, run.do("status", run.name))
            self.assert_stops_clean(run)
            return self.explained(run)

    def explained(self, run, *words):
        lines = run.do("explain", run.name, "--all", "--json", *words).splitlines()
        return [line for line in map(json.loads, lines) if not line["change"]]  # changes for other reasons are no views

    def test_a_program_grows_the_run_and_explain_asks_it_again(self):
        script = os.path.join(SCRIPTS, "policy.py")
        # A share that noise cannot reach: this tests growing.
        policy = {"program": [sys.executable, script, "0.2"], "timeout_ms": 60_000}
        views = self.assert_grows_to_three(policy, f"{sys.executable} {script} 0.2")
        self.assertGreaterEqual(sum(view["now"]["code"] == "grow" for view in views), 2)
        self.assertFalse([view for view in views if view["differs"]], "the same views give the same decisions")

    def test_a_python_class_decides(self):
        package = os.path.join(os.path.dirname(SCRIPTS), "..", "train", "python")
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "grows.py")
            with open(path, "w") as file:
                file.write("from elastictrain.policy import Decision\n"
                           "print('not an answer')\n"
                           "class Grows:\n"
                           "    def __init__(self, most): self.most = int(most)\n"
                           "    def decide(self, view):\n"
                           "        return Decision(workers=min(self.most, view.job.workers + 1), code='one_more')\n")
            policy = {"program": [sys.executable, "-m", "elastictrain.policy", path + ":Grows", "2"], "timeout_ms": 60_000}
            with Run(config(policy), environment={"PYTHONPATH": package}) as run:
                run.wait_size(2, timeout=60)
                run.wait_event("decided", code="one_more", timeout=60)
                self.assertIn("policy: not an answer", run.text())
                self.assert_stops_clean(run)

    def test_a_journal_that_was_taken_elsewhere_is_explained_as_well(self):
        with Run(config({"name": "efficiency"})) as run:
            run.wait_event("decided")
            self.assert_stops_clean(run)
            elsewhere = os.path.join(run.directory, "elsewhere.jsonl")
            shutil.copy(run.journal_path(), elsewhere)
            for path, policy in (run.journal_path(), "efficiency"), (elsewhere, "fixed"):
                self.assertIn(f"policy {policy}", run.do("explain", "--journal", path, "--all"))
            words = ("explain", "--journal", elsewhere, "--all", "--json", "--policy", "efficiency")
            views = [json.loads(line) for line in run.do(*words).splitlines()]
            self.assertTrue(views)
            self.assertFalse([view for view in views if view["differs"]], "the same policy decides the same")

    def test_a_shared_object_grows_the_run_and_explain_asks_it_again(self):
        views = self.assert_grows_to_three({"library": EXAMPLE, "argument": "0.2"}, os.path.basename(EXAMPLE))
        self.assertFalse([view for view in views if view["differs"]])

    def test_a_program_that_talks_rubbish_keeps_the_size_and_the_run_ends_well(self):
        script = "echo on my way >&2; while read -r view; do echo I would say three; done"
        policy = {"program": ["sh", "-c", script], "timeout_ms": 60_000}
        with Run(config(policy, synthetic(samples=4000, epochs=1))) as run:
            run.wait_event("decided", code="policy_failed")
            status = run.wait_status(lambda s: s.get("policy_reason"))
            self.assertIn("wrote a line that is not a decision", status["policy_reason"])
            self.assertEqual(run.wait(60), 0)
            run.wait_no_processes()
            reason = run.events("decided")[0]["reason"]
            self.assertIn("the size stays", reason)
            self.assertEqual(len(run.events("decided")), 1, "it is said once")
            warnings = [line for line in run.text().splitlines() if "wrote a line that is not a decision" in line]
            self.assertEqual(len(warnings), 1, run.text())
            self.assertIn(f"policy sh -c {script}: the program wrote a line", warnings[0])
            self.assertIn("policy: on my way", run.text())
            self.assert_audit_clean(run)
            sizes = {view["workers"] for view in self.explained(run, "--policy", "fixed")}
            self.assertEqual(sizes, {1})
            self.assertIn("policy_failed", {view["now"]["code"] for view in self.explained(run)})

    def test_the_learning_rate_follows_the_noise_of_the_gradients(self):
        # Learns so slowly that its gradients do not change.
        trainer = {"model": "mlp", "samples": 4096, "epochs": 100_000, "learning_rate": 1e-7, "eval_every_epochs": 1000}
        with Run(job(workers=(2, 2, 4), trainer=trainer, batch={"per_worker": 16}, policy={"interval_ms": 300},
                     learning_rate={"rule": "adascale"})) as run:
            noise = run.wait_event("plan_updated", timeout=60)["target_noise_scale"]
            self.assertGreater(noise, 0)
            self.assertEqual(run.events("generation"), run.events("generation", generation=1), "the batch is the same")
            run.do("resize", run.name, 4)
            run.wait_size(4)
            plan = run.events("prepare", generation=2)[-1]
            told = [record["target_noise_scale"] for record in run.events("plan_updated")]
            gains = [(scale / 32 + 1) / (scale / 64 + 1) for scale in told]
            self.assertTrue(any(abs(plan["learning_rate_factor"] - gain) < 1e-3 for gain in gains), (plan, gains))
            self.assertGreater(plan["learning_rate_factor"], 1.02)
            self.assertLess(plan["learning_rate_factor"], 2)
            self.assert_stops_clean(run)

    def test_what_cannot_be_used_is_said_before_anything_starts(self):
        for policy, part in ({"library": "/no/such.so"}, "there is no such file"), \
                            ({"program": ["no-such-program-here"]}, "no executable program"), \
                            ({"library": EXAMPLE, "argument": "7"}, "write a share above 0"), \
                            ({"library": EXAMPLE, "program": ["sh"]}, "exclude each other"):
            with Run(config(policy)) as run:
                self.assertEqual(run.wait(), 78, run.text())
                self.assertIn(part, run.text())
                checked = run.command("check", os.path.join(run.directory, "config.toml"))
                self.assertEqual(checked.returncode, 78)
                self.assertIn(part, checked.stderr)


if __name__ == "__main__":
    harness.main()
