"""What calls of the library promise, in real runs of a small C program."""

import glob
import json
import os
import shutil
import signal
import struct
import tempfile

import harness
import sanitizer
from harness import Case, Run, job, members

PROGRAM = os.environ.get("ELASTICTRAIN_LIBRARY_PROGRAM", "")


def program(mode, workers=(1, 3, 3), **sections):
    return job(workers=workers, command=[PROGRAM, mode], **sections)


class Library(Case):
    def test_a_program_that_ends_its_data_ends_the_run_with_status_0(self):
        with Run(program("end")) as run:
            self.assertEqual(run.wait(60), 0)
            run.wait_no_processes()
            self.assert_audit_clean(run)
            self.assertEqual({event["last_step"] for event in run.events("finished")}, {40})

    def test_workers_that_shuffle_with_other_seeds_do_not_train_together(self):
        with Run(program("own_seed", workers=(2, 2, 2))) as run:
            self.assertNotEqual(run.wait(60), 0)
            run.wait_no_processes()
            self.assertRegex(run.text(), r"has the data option seed = \d+, the rest of the run \d+")
            self.assertEqual(run.events("generation"), [])

    def test_forked_children_destroy_their_session_and_the_run_goes_on_through_a_change(self):
        # The search for leaks of a child finds its parent's threads.
        with Run(program("fork", workers=(1, 2, 3)), environment=sanitizer.without_leaks(os.environ)) as run:
            run.wait_step(30)
            run.do("resize", "3")
            self.assertEqual(run.wait(60), 0)
            run.wait_no_processes()
            self.assert_audit_clean(run)
            self.assertEqual([change["kind"] for change in run.events("generation")], ["start", "grow"])

    def test_a_joiner_starts_with_the_early_values_of_the_last_committed_step(self):
        with Run(program("early", workers=(1, 2, 3))) as run:
            run.wait_step(30)
            run.do("resize", "3")
            run.wait_size(3)
            os.kill(harness.pids(run.status())[1], signal.SIGKILL)
            self.assertEqual(run.wait(60), 0)
            run.wait_no_processes()
            self.assert_audit_clean(run)

    def test_evaluations_between_steps_and_at_the_end_survive_a_loss(self):
        config = program("evaluate", workers=(1, 3, 3), failures={"on_failure": "shrink"})  # a joiner would not know of them
        with Run(config) as run:
            run.wait_step(20)
            os.kill(harness.pids(run.status())[1], signal.SIGKILL)
            self.assertEqual(run.wait(90), 0)
            run.wait_no_processes()
            self.assert_audit_clean(run)
            self.assertEqual([note["value"] for note in run.events("note", key="evaluated")], ["at the end"])

    def test_after_a_replacement_no_two_members_have_one_local_rank(self):
        with Run(job(workers=(1, 2, 3))) as run:
            run.wait_size(2)
            first = set(harness.pids(run.status()))
            run.do("replace", "0")
            run.wait_status(lambda status: len(members(status)) == 2 and not first.issubset(harness.pids(status))
                            and status["phase"] == "running", what="the replacement")
            variables = [harness.environ_of(pid).split(b"\0") for pid in harness.pids(run.status())]
            ranks = [entry for entry in sum(variables, []) if entry.startswith(b"LOCAL_RANK=")]
            self.assertEqual(len(set(ranks)), 2, ranks)
            self.assert_stops_clean(run)

    def test_a_checkpoint_is_a_safetensors_file_with_types_and_shapes_and_a_run_continues_from_it(self):
        directory = tempfile.mkdtemp(prefix="etckpt-")
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        checkpoint = {"directory": directory, "interval_steps": 0}
        with Run(program("tensors", workers=(1, 2, 2), checkpoint=checkpoint)) as run:
            self.assertEqual(run.wait(60), 0)
        path, = glob.glob(directory + "/*.safetensors")
        with open(path, "rb") as file:
            length, = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
            data = file.read()
        weight = header["model.weight"]
        self.assertEqual((weight["dtype"], weight["shape"], header["mask"]["shape"]), ("F32", [8, 8], [3]))
        begin, end = weight["data_offsets"]
        self.assertEqual(begin % 4, 0)
        values = struct.unpack("<64f", data[begin:end])
        self.assertEqual(len(set(values)), 1)
        self.assertNotEqual(values[0], 0)
        with Run(program("tensors", workers=(1, 2, 2), checkpoint={**checkpoint, "resume": True})) as run:
            self.assertEqual(run.wait(60), 0)
            self.assertEqual({event["last_step"] for event in run.events("finished")}, {300})

    HASTE = {"hang_min_ms": 300, "hang_steps": 3, "hang_max_ms": 1500}

    def phase(self, phase_ms, timeout_ms):
        config = program("phase", failures={**self.HASTE, "phase_timeout_ms": timeout_ms},
                         timeouts={"heartbeat_ms": 100})
        return Run(config, environment={"PHASE_MS": str(phase_ms)})

    def test_a_worker_asleep_in_a_phase_is_not_taken_for_hung_and_status_names_the_phase(self):
        with self.phase(6000, 60000) as run:
            run.wait_status(lambda status: any(worker["program_phase"] == "data" for worker in status["workers"]))
            self.assertIn("data for", run.do("status"))
            self.assertEqual(run.wait(60), 0)
            self.assert_audit_clean(run)
            self.assertEqual(run.events("hang") + run.events("hang_suspected"), [])

    def test_a_phase_beyond_its_own_deadline_is_a_hang(self):
        with self.phase(60000, 1000) as run:
            hang = run.wait_event("hang")
            self.assertIn("phase", hang["reason"])
            self.assertEqual(run.wait(60), 0)


if __name__ == "__main__":
    harness.main()
