"""Replicas whose processes compute on devices: what torch_replicas_test.py and torch_replica_sizes_test.py say of processors is so there."""

import os
import tempfile
import unittest

import harness
import torch_device
import torch_replica_sizes_test
import torch_replicas_test
from harness import Case
from torch_test import PYTHON, START_S, WHY_NOT, torch_run

CASES = {
    torch_replicas_test.Replicas: (
        "test_two_of_two_processes_train_the_model_of_one_process", "test_an_update_is_made_from_several_batches",
        "test_replicas_come_go_and_die_and_nobody_else_notices", "test_a_checkpoint_has_all_parts",
        "test_a_checkpoint_is_read_as_those_of_torch_by_another_number_of_processes"),
    torch_replicas_test.Scripts: (
        "test_two_of_two_processes_train_the_model_of_one_process", "test_replicas_come_go_and_die",
        "test_two_replicas_with_data_of_their_own_train_the_model_of_one_process", "test_a_stopped_run_goes_on"),
    torch_replicas_test.TensorParallel: (
        "test_two_replicas_train_the_model_of_one_process", "test_replicas_come_go_and_die"),
    torch_replica_sizes_test.Sizes: (
        "test_a_run_goes_on_with_replicas_of_another_size",)}


def setUpModule():
    if PYTHON is None:
        raise unittest.SkipTest(WHY_NOT)
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    try:
        os.environ[torch_device.PATH] = torch_device.find(PYTHON, folder.name)
    except FileNotFoundError as missing:
        raise unittest.SkipTest(f"there is no {missing}") from None
    unittest.addModuleCleanup(os.environ.pop, torch_device.PATH)


class Devices(Case):
    def setUp(self):
        self.is_standin = torch_device.kind_of_programs() == torch_device.KIND

    def test_status_shows_the_memory_of_the_fullest_device(self):
        with torch_run(torch_replicas_test.replica_job((1, 1, 1)), ET_EPOCHS=1000000, ET_PAUSE_S=0.02) as run:
            run.wait_size(1, START_S)
            found = run.wait_status(lambda s: s["workers"] and s["workers"][0]["device"], START_S, "the memory of its devices")
            if self.is_standin:
                self.assertEqual(found["workers"][0]["device"], {"total_bytes": 1 << 30, "free_bytes": 400 << 20, "copies_bytes": 0,
                                                                 "sums_bytes": 0})
            run.do("stop", run.name, timeout=60)

    def test_a_replica_is_replaced_by_one_that_starts_when_it_has_left(self):
        """As its devices are more than half full."""
        if not self.is_standin:
            self.skipTest("how full a GPU is is not the test's to say")
        with torch_run(torch_replicas_test.replica_job((1, 2, 2)), ET_EPOCHS=1000000, ET_PAUSE_S=0.02) as run:
            run.wait_size(2, START_S)
            run.wait_status(lambda s: all(worker["device"] for worker in s["workers"]), START_S, "the memory of their devices")
            before = harness.pids(run.status())
            run.do("replace", run.name, "1")
            run.wait_status(lambda s: s.get("world_size") == 1, START_S, "one that has left")
            run.wait_status(lambda s: s.get("world_size") == 2 and harness.pids(s) != before, START_S, "its successor")
            run.do("stop", run.name, timeout=60)
            run.wait(START_S)
            run.wait_no_processes()
            self.assert_audit_clean(run)

    def test_a_run_that_does_not_know_the_size_of_its_replicas_ends_with_a_sentence(self):
        config = torch_replicas_test.replica_job((1, 1, 1))
        del config["workers"]["per_replica"]
        with torch_run(config) as run:
            self.assertEqual(run.wait(START_S), 1)
            self.assertIn("the run gives each replica GPUs of its own where it knows how many these are: start it with --per-replica",
                          run.text())


def load_tests(loader, *_):
    of_processors = (case(name) for case, names in CASES.items() for name in names)
    return unittest.TestSuite([*of_processors, loader.loadTestsFromTestCase(Devices)])


if __name__ == "__main__":
    harness.main()
