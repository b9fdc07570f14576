"""The all-reduce topology changes while a run trains: no worker is restarted, no sample is lost or seen twice."""

import os
import signal

import harness
from harness import Case, Run, job, pids

# Two agents are two hosts to the data plane: shared memory within each, TCP between them.
HOSTS = {"list": ["localhost:2", "127.0.0.1:2"]}
SHAPES = ("star", "ring", "tree", "binary-tree", "binary-tree-star", "multi-star", "multi-binary-tree-star", "clique",
          "auto")


class Topologies(Case):
    def change(self, run, shape, expected=None):
        before = run.status()
        run.do("topology", run.name, shape)
        status = run.wait_status(lambda s: s["topology"] == (expected or shape) and s["phase"] == "running"
                                 and s["generation"] > before["generation"], what=f"topology {shape}")
        run.wait_more_steps(5)
        return status

    def test_every_shape_takes_its_turn_in_one_run_without_a_restart(self):
        with Run(job(workers=(1, 4, 4), hosts=HOSTS)) as run:
            before = pids(run.wait_size(4))
            for shape in SHAPES:
                self.assertEqual(pids(self.change(run, shape)), before)
            self.assertEqual(pids(self.change(run, "1,1,3,1")), before)
            kinds = {record["kind"] for record in run.events("generation") if record["generation"] > 1}
            self.assertEqual(kinds, {"update"})
            refused = run.command("topology", run.name, "1,1")
            self.assertIn("2 parents for 4 ranks", refused.stdout + refused.stderr)
            self.assertNotEqual(refused.returncode, 0)
            self.assert_stops_clean(run)

    def test_a_shape_outlives_a_killed_worker_and_a_change_of_size(self):
        with Run(job(workers=(1, 3, 4), hosts=HOSTS, network={"topology": "multi-binary-tree-star"})) as run:
            status = run.wait_size(3)
            self.assertEqual(status["topology"], "multi-binary-tree-star")
            self.change(run, "clique")
            victim = pids(run.status())[1]
            os.kill(victim, signal.SIGKILL)
            run.wait_status(lambda s: s["world_size"] == 3 and s["phase"] == "running" and victim not in pids(s),
                            what="three workers again")
            run.do("resize", run.name, 2)
            self.assertEqual(run.wait_size(2)["topology"], "clique")
            self.change(run, "1,1")
            run.do("resize", run.name, 4)
            # The tree had two ranks: the topology requested before is used again.
            self.assertEqual(run.wait_size(4)["topology"], "clique")
            run.wait_more_steps(10)
            run.do("stop", run.name)
            self.assertEqual(run.wait(), 0)
            self.assert_audit_clean(run)


if __name__ == "__main__":
    harness.main()
