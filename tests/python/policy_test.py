"""Policies in Python: what they see, what their answers become, how they are named."""

import io
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGE = os.path.join(ROOT, "train", "python")
sys.path.insert(0, PACKAGE)

from elastictrain import policy  # noqa: E402

VIEW = {"now_s": 2.5, "hosts": [{"name": "a", "slots": 4, "free_slots": 1, "to_come": 1}],
        "jobs": [{"workers": 3, "max_workers": 8, "reachable": 4, "to_come": [2], "held": True,
                  "batch": {"per_worker": 32, "at_limit": "split"}, "intervals": [
            {"begin_s": 0.0, "end_s": 1.0, "samples": 100, "workers": 2, "steps": 1},
            {"begin_s": 1.0, "end_s": 2.0, "samples": 5, "workers": 3, "warm_up": True},
            {"begin_s": 2.0, "end_s": 2.5, "samples": 300, "workers": 3, "steps": 4}],
            "members": [{"id": 7, "rank": 0, "step_s": 0.1}],
            "norms": {"count": 4, "local_batch": 32.0, "global_batch": 96.0, "local_square": 4.0, "global_square": 2.0}}]}
POLICY = """
import elastictrain.policy

print("a line that is no answer")

class Limit:
    def __init__(self, most):
        self.most = int(most)

    def decide(self, view):
        return elastictrain.policy.Decision(workers=min(self.most, view.job.limit), code="limit", numbers={"most": self.most})

def fails(view):
    raise ArithmeticError("no idea")
"""


class Views(unittest.TestCase):
    def test_known_fields_are_there_and_unknown_ones_do_no_harm(self):
        view = policy.view_of(json.dumps(VIEW))
        self.assertEqual((view.now_s, view.hosts[0].free_slots, view.job.members[0].id), (2.5, 1, 7))
        self.assertEqual((view.job.limit, view.job.samples_per_s, view.job.samples_per_s_each), (4, 600.0, 200.0))
        self.assertEqual((view.job.batch.per_worker, view.job.batch.at_limit, view.job.held), (32, "split", True))
        self.assertEqual(view.job.raw["to_come"], [2])

    def test_the_noise_scale_is_that_of_the_norms(self):
        """With |G|^2 = 1 and S = 96: the mean square norm of a batch of b is |G|^2 + S / b."""
        noise = policy.NoiseScale()
        self.assertIsNone(noise.add(policy.Norms()))
        self.assertAlmostEqual(noise.add(policy.view_of(json.dumps(VIEW)).job.norms), 96.0)

    def test_the_variance_of_a_samples_gradient_is_a_number(self):
        norms = policy.view_of(json.dumps(VIEW)).job.norms
        self.assertAlmostEqual(norms.variance, 96.0)
        self.assertAlmostEqual(norms.gradient_square, 1.0)
        self.assertIsNone(policy.Norms(count=1, local_batch=32, global_batch=32).variance)

    def test_answers_become_decisions(self):
        for answer, job in ((None, {}), (5, {"workers": 5}), ({"topology": "ring"}, {"topology": "ring"}),
                            (policy.Decision(per_worker_batch=8, code="noise", reason="why"),
                             {"per_worker_batch": 8, "reason": {"code": "noise", "text": "why", "numbers": {}}})):
            self.assertEqual(json.loads(policy.line_of(answer)), {"jobs": [job]})
        for wrong in (True, 2.5, "four"):
            self.assertRaises(TypeError, policy.line_of, wrong)

    def test_a_function_is_asked_for_each_view(self):
        answers = io.StringIO()
        policy.serve(lambda view: view.job.workers + 1, io.StringIO(2 * (json.dumps(VIEW) + "\n")), answers)
        self.assertEqual(answers.getvalue(), 2 * (json.dumps({"jobs": [{"workers": 4}]}) + "\n"))


class Program(unittest.TestCase):
    def run_policy(self, *words):
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "mine.py"), "w") as file:
                file.write(POLICY)
            return subprocess.run([sys.executable, "-m", "elastictrain.policy", *words], input=json.dumps(VIEW) + "\n",
                                  cwd=directory, env={**os.environ, "PYTHONPATH": PACKAGE}, capture_output=True, text=True,
                                  timeout=100)

    def test_a_class_gets_its_arguments_and_what_it_prints_is_no_answer(self):
        for name in ("mine.py:Limit", "mine:Limit"):
            done = self.run_policy(name, "2")
            self.assertEqual(done.returncode, 0, done.stderr)
            job = json.loads(done.stdout)["jobs"][0]
            self.assertEqual((job["workers"], job["reason"]["code"], job["reason"]["numbers"]), (2, "limit", {"most": 2}))
            self.assertIn("a line that is no answer", done.stderr)

    def test_an_error_of_the_policy_is_its_traceback(self):
        done = self.run_policy("mine.py:fails")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("ArithmeticError: no idea", done.stderr)

    def test_what_is_no_policy_is_said_in_a_line(self):
        for words, text in (((), "usage"), (("mine.py",), "is FILE.py:NAME"), (("none.py:x",), "none.py: there is no such file"),
                            (("mine.py:absent",), "no function or class 'absent'"),
                            (("mine.py:fails", "3"), "takes no arguments")):
            done = self.run_policy(*words)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(text, done.stderr)
            self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
