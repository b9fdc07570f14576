"""Other traffic between hosts: the workers detect it, and the run changes to another topology."""

import harness
from harness import Case, Run, job, pids, synthetic
from lab import Lab


class Interference(Case):
    def test_the_run_leaves_a_disturbed_topology_while_all_train_on(self):
        # The link is so slow that other load on the machine does not look like a busy network.
        sections = {"trainer": synthetic(compute_us_per_sample=100), "policy": {"name": "interference", "interval_ms": 500},
                    "policy.interference": {"below": 0.65, "views": 4}}
        with Lab(hosts=3, rate="20mbit") as lab:
            first, _, last = lab.hosts
            config = job(workers=(1, 3, 3), hosts={"list": [f"{host.name}:1" for host in lab.hosts]}, **sections)
            with Run(config, lab=lab) as run:
                before = pids(run.wait_size(3))
                run.wait_event("decided", code="undisturbed")
                run.wait_more_steps(20)
                self.assertEqual(run.status()["topology"], "auto")
                # Two of the ring's three connections lose two thirds of their links.
                with first.sends_to(last, bits_per_s=13e6):
                    status = run.wait_status(lambda s: s["topology"] == "1,1,1", timeout=60, what="the star at rank 1")
                    self.assertEqual(pids(status), before)
                    run.wait_more_steps(10)
                self.assertTrue(run.events("decided", code="disturbed"))
                chosen = [record["topology"] for record in run.events("prepare") if "topology" in record]
                self.assertEqual(chosen, ["1,1,1"])
                self.assert_stops_clean(run)


if __name__ == "__main__":
    harness.main()
