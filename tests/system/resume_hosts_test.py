"""Agents of other hosts outlive the supervisor and come back to the next one."""

import harness
from harness import Case, Run, job, pids
from lab import Lab


class Hosts(Case):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(hosts=2)
        cls.addClassCleanup(cls.lab.close)
        cls.lab.__enter__()

    def test_agents_of_other_hosts_come_back_to_the_later_supervisor(self):
        config = job(workers=(1, 2, 4), hosts={"list": ["node1:2", "node2:2"]})
        with Run(config, lab=self.lab) as run:
            before = pids(run.wait_size(2))
            run.lose_supervisor()
            run.wait_more_steps(20)
            run.resume()
            self.assertEqual(pids(run.wait_size(2)), before)
            run.do("resize", run.name, 4)
            run.wait_size(4)
            self.assert_stops_clean(run)


if __name__ == "__main__":
    harness.main()
