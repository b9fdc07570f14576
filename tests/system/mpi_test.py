"""Runs whose workers are ranks of one MPI launch and sum over MPI: processes stay while workers join and leave."""

import os
import shutil
import signal

import harness
import sanitizer
from harness import Case, Run, is_alive, job, members, pids, synthetic, wait_until


def pool(command, workers=(1, 2, 4), slots=4, **changes):
    """A light job in a pool of `slots` ranks on this machine."""
    return job(workers=workers, hosts={"list": [f"localhost:{slots}"]},
               launcher={"kind": "mpi", "mpi_command": [command]}, network={"backend": "mpi"}, **changes)


class MpiPool(Case):
    command = None

    def setUp(self):
        if shutil.which(self.command) is None:
            self.skipTest(f"there is no {self.command} here; scripts/setup.sh test installs it")
        self.addCleanup(sanitizer.ignore_leaks())

    def test_processes_stay_while_workers_come_and_go(self):
        with Run(pool(self.command)) as run:
            before = pids(run.wait_size(2))
            run.do("resize", run.name, 4)
            everyone = pids(run.wait_size(4))
            self.assertEqual(everyone[:2], before)
            run.wait_more_steps(10)
            run.do("resize", run.name, 2)
            self.assertEqual(pids(run.wait_size(2)), before)
            run.wait_more_steps(10)
            self.assertTrue(all(map(is_alive, everyone)), "a process that left has not ended")
            run.do("resize", run.name, 3)
            self.assertLess(set(pids(run.wait_size(3))), set(everyone))
            run.wait_more_steps(10)
            run.do("replace", run.name, 0)
            after = pids(run.wait_status(lambda s: s["phase"] == "running" and len(members(s)) == 3
                                         and before[0] not in pids(s), what="rank 0 replaced"))
            self.assertLess(set(after), set(everyone))
            run.wait_more_steps(10)
            self.assert_stops_clean(run)

    def test_the_data_ends_for_members_and_those_that_wait(self):
        trainer = synthetic(compute_us_per_sample=300, samples=30_000, epochs=1)
        with Run(pool(self.command, trainer=trainer)) as run:
            run.wait_size(2)
            run.do("resize", run.name, 3)
            run.wait_event("generation", generation=2)
            self.assertEqual(run.wait(60), 0, run.text()[-2000:])
            run.wait_no_processes()
            self.assert_audit_clean(run)
            self.assert_steps_continue(run)

    def test_a_lost_rank_costs_the_run_that_rank(self):
        with Run(pool(self.command, workers=(1, 3, 3))) as run:
            before = pids(run.wait_size(3))
            run.wait_more_steps(10)
            os.kill(before[1], signal.SIGKILL)
            after = pids(run.wait_status(lambda s: s["phase"] == "running" and len(members(s)) == 3
                                         and before[1] not in pids(s), what="one that waited in the place of the lost"))
            self.assertLess({before[0], before[2]}, set(after))
            run.wait_more_steps(20)
            self.assert_stops_clean(run)


class OpenMpi(MpiPool):
    command = "mpirun.openmpi"


class Mpich(MpiPool):
    command = "mpiexec.hydra"

    def setUp(self):
        sanitizer.skip_under_threads("MPICH")
        super().setUp()


del MpiPool  # it is no test of its own

if __name__ == "__main__":
    harness.main()
