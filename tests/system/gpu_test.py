"""The built-in trainer on stand-in GPUs: the same run as on CPUs, with state and gradients in a device's memory, through
changes and losses."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile

import harness
from harness import BINARY, Case, Run, job, pids, synthetic

ABSENT = {"ELASTICTRAIN_CUDA_LIBRARY": "/nonexistent/libcuda.so.1"}


def worker(*arguments, environment=None):
    argv = [BINARY, "worker", *arguments]
    return subprocess.run(argv, env={**os.environ, **(environment or {})}, capture_output=True, text=True, timeout=60)


def small(device):
    return [f"--device={device}", "--samples=256", "--hidden=16", "--epochs=5"]


def loss_of(done):
    """The loss of the last epoch."""
    return float(next(line for line in done.stdout.splitlines() if line.startswith("epoch 5/5: loss")).split()[3].rstrip(","))


class OneWorker(Case):
    def test_alone_it_learns_what_a_cpu_learns(self):
        losses = {device: loss_of(worker(*small(device))) for device in ("cpu", "cuda", "auto")}
        self.assertAlmostEqual(losses["cuda"], losses["cpu"], delta=0.001)
        self.assertEqual(losses["auto"], losses["cuda"], "here is a GPU, so auto is cuda")

    def test_without_a_gpu_it_says_what_is_missing(self):
        done = worker(*small("cuda"), environment=ABSENT)
        self.assertEqual(done.returncode, 69, done.stdout + done.stderr)
        self.assertIn("ELASTICTRAIN_CUDA_LIBRARY", done.stderr)

    def test_auto_is_the_cpu_where_no_gpu_is(self):
        self.assertEqual(loss_of(worker(*small("auto"), environment=ABSENT)), loss_of(worker(*small("cpu"))))


class Runs(Case):
    def change_and_lose(self, trainer):
        config = job(workers=(1, 2, 3), trainer={**trainer, "device": "cuda"}, failures={"cool_down_ms": 500})
        with Run(config, environment={"ET_STANDIN_GPUS": "2"}) as run:
            before = pids(run.wait_size(2))
            run.do("resize", run.name, 3)
            grown = pids(run.wait_size(3))
            self.assertEqual(grown[:2], before)
            run.do("replace", run.name, 1)
            replaced = pids(run.wait_status(lambda s: s["phase"] == "running" and s["world_size"] == 3
                                            and before[1] not in pids(s), what="rank 1 replaced"))
            run.wait_more_steps(10)
            os.kill(replaced[1], signal.SIGKILL)
            run.wait_status(lambda s: s["phase"] == "running" and s["world_size"] == 3 and replaced[1] not in pids(s),
                            what="the killed worker replaced")
            run.wait_more_steps(10)
            run.do("resize", run.name, 1)
            run.wait_size(1)
            self.assert_stops_clean(run)

    def test_a_perceptron_through_changes_and_a_loss(self):
        self.change_and_lose({"model": "mlp", "samples": 4096, "hidden": [32], "epochs": 10_000})

    def test_many_buckets_beside_the_computation(self):
        self.change_and_lose(synthetic())


class FullDevices(Case):
    """Three GPUs that their workers fill to more than a half, in three slots."""

    BYTES = 2_000_000  # a worker needs 1.2 million

    def trains(self, least):
        directory = tempfile.mkdtemp(prefix="etmemory-")
        self.addCleanup(shutil.rmtree, directory)
        config = job(workers=(least, 3, 3), trainer={**synthetic(), "device": "cuda"})
        return Run(config, environment={"ET_STANDIN_GPUS": "3", "ET_STANDIN_MEMORY_DIR": directory,
                                        "ET_STANDIN_MEMORY_BYTES": str(self.BYTES)})

    def wait_known(self, run):
        status = run.wait_status(lambda s: s["world_size"] == 3 and all(w["device"] for w in s["workers"]), 30, "the memory")
        for worker in status["workers"]:
            self.assertEqual(worker["device"], {"total_bytes": self.BYTES, "free_bytes": self.BYTES - 1_200_064,
                                                "copies_bytes": 400_064, "sums_bytes": 0})
        return pids(status)

    def test_a_worker_that_is_replaced_makes_room_for_its_successor(self):
        with self.trains(least=1) as run:
            before = self.wait_known(run)
            run.do("replace", run.name, 1)
            after = pids(run.wait_status(lambda s: s["generation"] == 3 and s["world_size"] == 3, 30, "the successor"))
            self.assertEqual(after[:2], [before[0], before[2]])
            self.assertEqual([event["exit_code"] for event in run.events("exited")], [0], "only the replaced one has ended")
            run.wait_more_steps(10)
            self.assert_stops_clean(run)

    def test_a_worker_alone_has_no_copies_of_its_gradients(self):
        config = job(workers=(1, 1, 1), trainer={**synthetic(), "device": "cuda"})
        with Run(config) as run:
            device = run.wait_status(lambda s: any(w["device"] for w in s["workers"]), 30, "the memory")["workers"][0]["device"]
            self.assertEqual((device["copies_bytes"], device["sums_bytes"]), (0, 0))
            self.assert_stops_clean(run)

    def test_where_all_must_train_it_stays_and_the_run_says_why(self):
        with self.trains(least=3) as run:
            before = self.wait_known(run)
            run.do("replace", run.name, 1)
            run.wait_text("its device has no memory for a second one, and at least 3 workers must train", 30)
            run.wait_more_steps(10)
            self.assertEqual(pids(run.status()), before)
            self.assertEqual(run.events("exited"), [])
            self.assert_stops_clean(run)


class Faults(Case):
    """Runs whose NCCL (a stand-in) gets faults while they train."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="etras-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.control = os.path.join(self.directory, "faults")
        self.inject("")
        os.mkdir(os.path.join(self.directory, "ras"))
        self.environment = {"ET_STANDIN_GPUS": "2", "ET_STANDIN_NCCL_CONTROL": self.control,
                            "ET_STANDIN_NCCL_RAS_DIR": os.path.join(self.directory, "ras")}

    def inject(self, faults):
        with open(self.control + ".new", "w") as file:
            file.write(faults)
        os.replace(self.control + ".new", self.control)

    @contextlib.contextmanager
    def trains(self, failures=None, **environment):
        """A run that has learned its step time."""
        config = job(workers=(1, 3, 3), trainer={**synthetic(), "device": "cuda"},
                     failures={"cool_down_ms": 500, **(failures or {})})
        with Run(config, environment={**self.environment, **environment}) as run:
            run.wait_size(3)
            run.wait_more_steps(100)
            yield run

    def goes_on(self, run):
        self.inject("")
        run.wait_more_steps(10)
        run.wait_size(3)
        self.assert_stops_clean(run)


class Ends(Faults):
    """What becomes of the survivors' communicators after a loss."""

    def test_free_no_memory_that_another_still_reads(self):
        """The first rank meets an error of the network, while the kernels of the others wait for it."""
        with self.trains() as run:
            before = pids(run.status())
            self.inject("mapped-memory,joint-revoke,async-error@0")
            run.wait_event("abort")
            self.inject("mapped-memory,joint-revoke")
            run.wait_more_steps(50)
            self.assertCountEqual(pids(run.wait_size(3)), before, "a rank that could not finish the step comes behind those that did")
            self.assertEqual(run.events("loss"), [])
            self.goes_on(run)

    def test_that_wait_for_network_threads_cost_nobody_who_holds_the_state(self):
        with self.trains() as run:
            before = pids(run.status())
            self.inject("launch-late@1,stall-revoke,join-abort")
            run.wait_more_steps(5)
            os.kill(before[2], signal.SIGKILL)
            run.wait_status(lambda s: s["phase"] == "running" and s["world_size"] == 3, what="the successor")
            run.wait_more_steps(10)
            self.assertEqual(pids(run.status())[:2], before[:2])
            self.assertEqual(len(run.events("loss")), 1)
            self.goes_on(run)

    def test_that_are_late_on_all_devices_lose_no_state(self):
        with self.trains(failures={"halt_timeout_ms": 1000}) as run:
            before = pids(run.status())
            self.inject("stall-run,wedge-abort")
            note = run.wait_event("note", key="elastictrain.held")
            self.assertIn("NCCL did not end", note["value"])
            self.assertIn("none is ended before one has", run.text())
            self.inject("")
            run.wait_more_steps(10)
            self.assertEqual(pids(run.wait_size(3)), before)
            self.assertEqual(run.events("loss"), [])
            self.assert_stops_clean(run)


class Hangs(Faults):
    """The report of NCCL's RAS service (a stand-in) about a hang is in the journal as plain text."""

    def test_a_rank_that_did_not_call_is_named(self):
        with self.trains() as run:
            late = pids(run.status())[1]
            self.inject("never-called@1")
            told = run.wait_event("collectives")
            self.assertEqual(told["host"], "localhost")
            self.assertIn(f"the others wait for rank 1 (process {late} on 127.0.0.1, GPU 0)", told["lines"][-1])
            self.goes_on(run)

    def test_a_network_that_stands_still_is_told_from_a_rank_that_did_not_call(self):
        with self.trains() as run:
            self.inject("stall-run")
            told = run.wait_event("collectives")
            self.assertIn("1 communicator of 3 ranks on 1 host: running", told["lines"])
            self.assertIn("all ranks started the same collectives", told["lines"][-1])
            self.goes_on(run)

    def test_a_stopped_worker_is_named_by_one_that_is_not(self):
        with self.trains() as run:
            stopped = pids(run.status())[1]
            os.kill(stopped, signal.SIGSTOP)
            told = run.wait_event("collectives")
            self.assertIn(f"no data arrived from rank 1 (process {stopped} on 127.0.0.1, GPU 0)", told["lines"][-1])
            self.goes_on(run)

    def test_where_it_is_switched_off_nobody_is_asked(self):
        crashes_in_it = {"ET_STANDIN_NCCL_VERSION": "22602"}
        for environment in ({"NCCL_RAS_ENABLE": "0"}, crashes_in_it):
            with self.trains(**environment) as run:
                self.inject("stall-run")
                run.wait_event("stuck")
                self.goes_on(run)
                self.assertEqual(run.events("collectives"), [])


if __name__ == "__main__":
    harness.main()
