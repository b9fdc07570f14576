"""Scripts as others write them, on real processes that change: data, loops and files of a script's own, without a change for
elastictrain. A worker that joins goes on where the others are, or says why it cannot; those that train lose nothing by it."""

import os
import re
import signal
import subprocess
import tempfile
import unittest

import harness
from harness import Case, pids, wait_until
from torch_frameworks_test import ResumedCase, lacks, script_job
from torch_test import END_S, PYTHON, START_S, WHY_NOT, torch_python, torch_run

NEVER_AVERAGED = 95


class Changed(Case):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory, self.saved = directory.name, os.path.join(directory.name, "saved")

    def started(self, script, case, workers, **sections):
        return torch_run(script_job(script, workers, **sections), ET_CASE=case, ET_SAVED=self.saved)

    def resized(self, script, case, sizes, **sections):
        """Its output, after it trained with these numbers of workers, one after the other, to its own end."""
        with self.started(script, case, (1, sizes[0], max(sizes)), **sections) as run:
            run.wait_size(sizes[0], START_S)
            for size in sizes[1:]:
                run.wait_more_steps(8, START_S)
                run.do("resize", run.name, size)
                self.wait_size(run, size)
            run.wait_more_steps(8, START_S)
            self.ends(run)
            self.assertNotIn("Traceback", run.text())
            self.assertEqual(run.events("loss"), [])
            return run.text()

    def wait_size(self, run, size):
        """Fails at once where new workers did."""
        wait_until(lambda: run.status().get("world_size") == size or run.events("target_unmet"), START_S, f"{size} workers")
        self.assertEqual(run.events("target_unmet"), [], run.text()[-3000:])
        run.wait_size(size, START_S)

    def ends(self, run):
        with open(f"{self.saved}.stop", "w"):
            pass
        self.assertEqual(run.wait(END_S), 0, run.text()[-3000:])
        run.wait_no_processes()
        self.assert_audit_clean(run)

    def trains_on_without(self, script, case, reason):
        """A third worker cannot join. It says why, and the two that train do so to their own end."""
        with self.started(script, case, (1, 2, 3)) as run:
            run.wait_size(2, START_S)
            first = pids(run.status())
            run.do("resize", run.name, 3)
            run.wait_text(reason, START_S)
            self.assertIn(reason.removeprefix("could not join: "), run.wait_event("grow_refused", timeout=START_S)["reason"])
            run.wait_more_steps(8, START_S)
            self.assertEqual(pids(run.status()), first)
            self.assertEqual(run.events("loss") + run.events("abort"), [])
            self.ends(run)

    def sends_away(self, case, reason):
        """A third worker joins and turns out to be another than the two before it. They lose nothing but a step."""
        with self.started("torch_own_data.py", case, (1, 2, 3)) as run:
            run.wait_size(2, START_S)
            first = pids(run.status())
            run.do("resize", run.name, 3)
            self.assertIn(reason, run.wait_event("grow_refused", timeout=START_S)["reason"])
            run.wait_size(2, START_S)
            run.wait_more_steps(8, START_S)
            self.assertEqual(pids(run.status()), first)
            self.assertEqual(run.events("loss"), [])
            self.ends(run)

    def refuses(self, script, case, sentence, status=1):
        with self.started(script, case, (2, 2, 2)) as run:
            self.assertEqual(run.wait(END_S), status, run.text()[-3000:])
            run.wait_no_processes()
            self.assertIn(sentence, run.text())
            return run.text()


@unittest.skipIf(PYTHON is None, WHY_NOT)
class OwnData(Changed):
    """torch_own_data.py"""

    def averages(self, case, sizes):
        text = self.resized("torch_own_data.py", case, sizes)
        ends = re.findall(r"ends after (\d+) with ([\d.]+), (\d+) unheard, (.+)", text)
        self.assertEqual(len(ends), sizes[-1], text[-2000:])
        self.assertEqual(len(set(ends)), 1, f"weights and rates are equal on all workers: {ends}")
        iteration, rate, unheard, _ = ends[0]
        self.assertEqual(unheard, "0", "all are averaged in each step")
        self.assertAlmostEqual(float(rate), 0.1 / (1 + 0.01 * (int(iteration) - 1)), 8, "as without a change")
        self.assertIn("data: carried: each worker's position in its StatefulDataLoader is part of the state" if case == "stateful"
                      else "data: not counted; each worker trains", text)

    def test_random_batches_and_a_rate_made_by_hand(self):
        self.averages("random", (2, 3, 1, 2))

    def test_no_sync(self):
        self.averages("no-sync", (2, 3))

    def test_the_flag_of_no_sync(self):
        self.averages("flag", (2, 3))

    def test_a_stateful_loader(self):
        why = lacks("torchdata")
        if why:
            self.skipTest(why)
        self.averages("stateful", (2, 3))

    def test_a_model_that_is_never_averaged_is_an_error_at_the_end(self):
        self.refuses("torch_own_data.py", "own-gradients", "updated it with gradients that were never averaged", NEVER_AVERAGED)

    def test_updates_without_an_optimizer_are_refused(self):
        self.refuses("torch_own_data.py", "own-update", "the gradients of this backward pass would not be averaged")

    def test_a_new_worker_with_another_rate_goes(self):
        self.sends_away("odd-rate", "small state is not equal on all workers")

    def test_a_new_worker_with_another_count_goes(self):
        self.sends_away("odd-count", "the new worker's script holds another value than the others' in train().rounds")

    def test_a_new_worker_with_another_collective_goes(self):
        self.sends_away("odd-call", "ranks disagree")

    def test_a_loop_that_cannot_be_set_lets_nobody_join(self):
        self.trains_on_without("torch_own_data.py", "comprehension", "could not join: ")

    def test_a_setup_that_fails_when_it_is_run_again_lets_nobody_join(self):
        self.trains_on_without("torch_own_data.py", "new-folder", "FileExistsError: ")

    def test_a_worker_that_takes_another_way_does_not_join(self):
        self.trains_on_without("torch_own_data.py", "branch", "could not join: the others make their steps at")


@unittest.skipIf(PYTHON is None, WHY_NOT)
class Carried(Changed):
    """torch_own_data.py with a stream of numbers for each worker, which has a state."""

    def numbers(self, run):
        """What each process trained on, by process: [(stream, number)]. A pass that counts nowhere draws a number as well."""
        found = {}
        for name in os.listdir(self.directory):
            if name.startswith("saved.stop-"):
                with open(os.path.join(self.directory, name)) as file:
                    found[int(name.rpartition("-")[2])] = [tuple(map(int, line.split())) for line in file]
        return found

    def stopped(self, case, directory):
        """A run of two that has stopped, and what its processes trained on."""
        run = self.started("torch_own_data.py", case, (1, 2, 3), checkpoint={"directory": os.path.join(self.directory, directory)})
        run.__enter__()
        self.addCleanup(run.__exit__, None, None, None)
        run.wait_size(2, START_S)
        run.wait_more_steps(30, START_S)
        run.do("stop", run.name, timeout=60)
        run.wait(END_S)
        before = self.numbers(run)
        self.assertEqual(sorted(rows[0] for rows in before.values()), [(0, 1), (1, 1)])
        self.assert_consecutive(before.values())
        return run, before

    def assert_consecutive(self, processes):
        for rows in processes:
            self.assertEqual(rows, [(rows[0][0], rows[0][1] + place) for place in range(len(rows))])

    def resumed(self, run, before, size, *arguments):
        """What the processes of the resumed run trained on, without what each drew in the pass before it took part."""
        run.resume(*arguments)
        run.wait_size(size, START_S)
        run.wait_more_steps(8, START_S)
        self.ends(run)
        self.assertNotIn("Traceback", run.text())
        self.assertIn("data: carried: each worker's position in its ", run.text())
        after = {process: rows[1:] for process, rows in self.numbers(run).items() if process not in before}
        self.assertEqual(len(after), size)
        self.assert_consecutive(after.values())
        return after

    def ends_of(self, processes):
        return dict(rows[-1] for rows in processes.values())

    def goes_on(self, case):
        run, before = self.stopped(case, "checkpoints")
        after = self.resumed(run, before, 2)
        ends = self.ends_of(before)
        self.assertEqual({rows[0] for rows in after.values()}, {(stream, ends[stream] + 1) for stream in ends})

    def test_each_worker_of_a_run_that_resumes_goes_on_with_its_stream(self):
        self.goes_on("carried")

    def test_a_stream_that_is_its_own_iterator(self):
        self.goes_on("carried-next")

    def test_a_loader_over_a_dataset_with_a_state(self):
        self.goes_on("carried-loader")

    def test_a_stateful_loader_over_a_dataset_with_a_state(self):
        why = lacks("torchdata")
        if why:
            self.skipTest(why)
        self.goes_on("carried-stateful")

    def test_a_run_that_resumes_with_fewer_workers_says_what_it_closes(self):
        run, before = self.stopped("carried", "checkpoints")
        [rows] = self.resumed(run, before, 1, "--set", "workers.start=1").values()
        ends = self.ends_of(before)
        self.assertEqual(rows[0], (0, ends[0] + 1))
        self.assertIn(f"stream 1 (after {ends[1]} batches) is closed: there is no worker for it", run.text())

    def lose(self, run, number):
        """Kills a worker of two, and checks with what the new one goes on. Returns the new one."""
        run.wait_size(2, START_S)
        run.wait_more_steps(100, START_S)
        first = pids(run.status())
        lost = first[number]
        os.kill(lost, signal.SIGKILL)
        run.wait_status(lambda s: s.get("world_size") == 2 and lost not in pids(s), START_S, "the replacement")
        run.wait_more_steps(8, START_S)
        [successor] = set(pids(run.status())) - set(first)
        numbers = self.numbers(run)
        self.assert_consecutive([numbers[process] for process in first])
        (name, last), own = numbers[lost][-1], numbers[successor][2:]  # its pass before it was a member, and its first step
        self.assert_consecutive([own])
        self.assertEqual(own[0][0], name)
        self.assertIn(own[0][1], range(2, last + 2), "some are repeated, none is left out")
        run.wait_text(f"stream {name} (after {own[0][1] - 1} batches) of a lost worker goes on in a new one", START_S)
        return successor

    def test_the_successor_of_a_lost_worker_goes_on_with_its_stream(self):
        with self.started("torch_own_data.py", "carried", (1, 2, 3)) as run:
            self.lose(run, 1)
            known = pids(run.status())
            run.do("resize", run.name, 3)
            self.wait_size(run, 3)
            run.wait_more_steps(8, START_S)
            [third] = set(pids(run.status())) - set(known)
            run.do("resize", run.name, 2)
            self.wait_size(run, 2)
            wait_until(lambda: [note for note in run.events("note", key="data_streams") if "its worker has left" in note["value"]],
                       START_S, "the stream of the worker that left is closed")
            self.ends(run)
            self.assertIn("stream 2 begins anew", run.text())
            rows = self.numbers(run)[third]
            self.assertEqual(rows[2], (rows[0][0], 1), "without what it drew in passes that count nowhere")
            self.assert_consecutive([rows[2:]])

    def test_the_successor_of_the_first_worker_goes_on_with_its_stream(self):
        with self.started("torch_own_data.py", "carried", (1, 2, 3)) as run:
            self.lose(run, 0)
            self.ends(run)


@unittest.skipIf(PYTHON is None, WHY_NOT)
class Loops(Changed):
    """torch_loops.py"""

    def counts(self, case, exactly=True, sizes=(1, 2)):
        """All workers end alike. Each sample was in an update of each epoch, once."""
        text = self.resized("torch_loops.py", case, sizes)
        ends = re.findall(r"ends in epoch (\d+), (-?\d+), counted (\d+) to (\d+)", text)
        self.assertEqual((len(ends), len(set(ends))), (sizes[-1], 1), ends)
        epochs, _, least, most = map(int, ends[0])
        self.assertGreater(least, 0)
        self.assertLessEqual(most - least, 0 if exactly else 1, ends)
        if exactly:
            self.assertEqual(least, epochs)
        return text

    def test_the_length_of_the_loader(self):
        text = self.counts("length", sizes=(2, 3))
        lengths = re.findall(r"epoch of (\d+) batches has (\d+)", text)
        changed = [pair for pair in lengths if pair[0] != pair[1]]  # behind the epoch of the change: that of the next one
        self.assertIn((len(changed), len(set(changed))), ((0, 0), (3, 1)), "it is equal on all workers")
        self.assertIn(("8", "8"), lengths)
        self.assertIn(("5", "5"), lengths)

    def test_a_loop_has_no_more_batches_than_it_was_told_at_its_begin(self):
        text = self.counts("announced", sizes=(2, 1))
        lengths = [(int(told), int(had)) for told, had in re.findall(r"epoch of (\d+) batches had (\d+)", text)]
        self.assertEqual([pair for pair in lengths if pair[1] != pair[0]], [])
        self.assertIn((8, 8), lengths)
        self.assertGreater(lengths[-1][0], 8, "the loops behind it have what was left, and more batches for one worker")

    def test_a_loop_in_an_imported_module_with_exchanges(self):
        self.counts("module")

    def test_updates_from_several_batches_as_a_setting_says(self):
        text = self.counts("accumulate", sizes=(2, 3, 1))
        self.assertIn("a step has 2 of them, as 'ACCUMULATION_STEPS' says", text)

    def test_the_batch_of_the_run_is_that_of_one_of_the_batches(self):
        with self.started("torch_loops.py", "accumulate", (1, 1, 1)) as run:
            run.wait_more_steps(4, START_S)
            self.assertEqual(run.status()["batch_per_worker"], 64, "of an update, from two batches of the run's 32")
            self.ends(run)

    def test_updates_from_fewer_batches_than_a_setting_says(self):
        self.refuses("torch_loops.py", "accumulate-else", "this script makes an update from 2 batches where a step has 4")

    def test_updates_from_several_batches_that_no_setting_names(self):
        self.trains_on_without("torch_loops.py", "accumulate-unnamed", "could not join: it makes an update from 2 batches")

    def test_an_average_that_is_too_large_for_the_progress(self):
        checkpoint = {"directory": os.path.join(self.directory, "checkpoints")}
        with self.started("torch_loops.py", "average", (1, 2, 3), checkpoint=checkpoint) as run:
            run.wait_text("made elastic: Counts, SGD, Average", START_S)
            run.wait_more_steps(4, START_S)
            run.do("resize", run.name, 3)
            self.wait_size(run, 3)
            run.wait_more_steps(4, START_S)
            run.do("stop", run.name, timeout=60)
            run.wait(END_S)
            run.resume()
            run.wait_size(2, START_S)
            run.wait_more_steps(4, START_S)
            self.ends(run)
            self.assertNotIn("Traceback", run.text())

    def test_a_prefetcher_of_its_own_is_refused_before_the_first_step(self):
        text = self.refuses("torch_loops.py", "prefetch", "this script took a batch and made no backward pass with it")
        self.assertRegex(text, r"torch_loops\.py:\d+ \(preload\): this script took a batch")
        self.assertNotIn("step 1", text)

    def test_batches_that_all_workers_leave_out(self):
        text = self.resized("torch_loops.py", "skip", (2, 3, 1))
        [(epochs, total)] = set(re.findall(r"ends in epoch (\d+), .*, (\d+) in all", text))
        left_out = int(re.findall(r"left out: (\d+) samples", text)[-1])
        self.assertGreater(left_out, 0)
        self.assertEqual(int(total) + left_out, int(epochs) * 480)

    def test_a_batch_that_one_worker_leaves_out(self):
        with self.started("torch_loops.py", "skip-alone", (1, 2, 2)) as run:
            run.wait_text("elastictrain: left out: 32 samples", START_S)
            first = pids(run.status())[0]
            run.wait_event("loss", timeout=START_S)
            run.wait_size(2, START_S)
            run.wait_more_steps(8, START_S)
            self.assertEqual(pids(run.status())[0], first)
            self.ends(run)
            self.assertRegex(run.text(), r"torch_loops\.py:\d+ \(train\): this worker's script made no backward pass with a batch, and others did")
            ends = set(re.findall(r"ends in epoch (\d+), .*, (\d+) in all", run.text()))
            self.assertEqual([int(epochs) * 480 - int(total) for epochs, total in ends], [32])

    def test_a_loss_over_the_batches_of_all_workers(self):
        text = self.resized("torch_loops.py", "contrast", (2, 3, 1, 2))
        self.assertEqual(len(re.findall(r"ends in epoch", text)), 2, text[-3000:])

    def test_data_in_order(self):
        self.counts("ordered")

    def test_a_sampler_of_its_own(self):
        self.counts("descending")

    def test_a_batch_that_is_looked_at_before_the_training(self):
        self.counts("peek")

    def test_epochs_that_end_early(self):
        self.counts("break", exactly=False)

    def test_cycle(self):
        self.counts("cycle", exactly=False)

    def test_an_accuracy_of_the_training_data(self):
        self.counts("accuracy")

    def test_workers_of_its_own_are_refused(self):
        self.refuses("torch_loops.py", "spawn", "this script starts its own workers (torch.multiprocessing.spawn)")


@unittest.skipIf(PYTHON is None, WHY_NOT)
class Saving(Changed):
    """torch_saving.py"""

    def test_a_run_that_resumes_leaves_the_files_of_finished_epochs_alone(self):
        checkpoint = {"directory": os.path.join(self.directory, "checkpoints")}
        with self.started("torch_saving.py", "per-epoch", (2, 2, 2), checkpoint=checkpoint) as run:
            run.wait_text("saved epoch 2 ", START_S)
            run.wait_more_steps(4, START_S)
            run.do("stop", run.name, timeout=60)
            run.wait(END_S)
            before = self.files()
            self.assertLess(len(before), 8)
            run.resume()
            self.assertEqual(run.wait(END_S), 0, run.text()[-3000:])
            after = self.files()
            self.assertEqual({name: after[name] for name in before}, before)
            self.assertEqual(sorted(after), [f"saved-{epoch}.pt" for epoch in range(8)])
            self.assert_saved_once(run, range(8))
            changes = re.findall(r"the rate has changed (\d+) times in (\d+) epochs", run.text())
            self.assertEqual({int(times) % int(epochs) for times, epochs in changes}, {0}, f"as often in each epoch: {changes}")

    def files(self):
        """Their contents and times."""
        found = {}
        for name in os.listdir(self.directory):
            if name.startswith("saved-"):
                path = os.path.join(self.directory, name)
                with open(path, "rb") as file:
                    found[name] = (file.read(), os.stat(path).st_mtime_ns)
        return found

    def assert_saved_once(self, run, epochs=None):
        saved = re.findall(r"process \d+ saved epoch (\d+) with (\d+) to (\d+)", run.text())
        self.assertEqual([row for row in saved if row[1:] != (str(int(row[0]) + 1),) * 2], [], "each file has a trained model")
        numbers = [int(epoch) for epoch, _, _ in saved]
        self.assertEqual(numbers, sorted(set(numbers)), "no epoch is saved twice")
        if epochs is not None:
            self.assertEqual(numbers, list(epochs))

    def test_the_file_of_the_first_worker_is_always_that_of_a_trained_model(self):
        self.is_saved_by_another("local-rank")

    def test_the_successor_of_the_first_worker_has_its_rank_its_file_and_its_best_score(self):
        text = self.is_saved_by_another("environment")
        seen = [tuple(map(int, row)) for row in re.findall(r"the best of (\d+) is (\d+)", text)]
        saved = [int(epoch) for epoch in re.findall(r"saved epoch (\d+) ", text)]
        self.assertEqual([best for _, best in seen], [100 + epoch for epoch in saved])
        self.assertGreater([count for count, _ in seen][-1], 4, text[-3000:])
        self.assertEqual(text.count(" saves\n"), 1, "what was printed before the training is printed once")
        with open(os.path.join(f"{self.saved}.log", "table.csv")) as file:
            heading, *rows = file.read().splitlines()
        self.assertEqual(heading, "epoch,best")
        logged = [int(row.partition(",")[0]) for row in rows]
        self.assertEqual(logged, sorted(set(logged)), "each epoch once, by whom it may be")
        self.assertLessEqual(set(saved), set(logged))

    def is_saved_by_another(self, case):
        """Its output, after rank 0 was lost."""
        with torch_run(script_job("torch_saving.py", (1, 2, 2)), ET_CASE=case, ET_SAVED=self.saved, ET_EPOCHS=1000) as run:
            run.wait_text("saved epoch 25 " if case == "environment" else "saved epoch 2 ", START_S)
            run.wait_more_steps(4, START_S)
            first = pids(run.status())[0]
            os.kill(first, signal.SIGKILL)
            joined = run.wait_status(lambda s: s.get("world_size") == 2 and first not in pids(s), START_S, "the replacement")
            run.wait_size(2, START_S)
            wait_until(lambda: any(f"process {pid} saved" in run.text() for pid in pids(joined)), START_S, "another that saves")
            run.wait_more_steps(4, START_S)
            run.do("stop", run.name, timeout=60)
            run.wait(END_S)
            run.wait_no_processes()
            self.assert_audit_clean(run)
            self.assert_saved_once(run)
            return run.text()


@unittest.skipIf(PYTHON is None, WHY_NOT)
class Tails(ResumedCase):
    """torch_tails.py: what a script does behind its update is done once in each step, also in the one at which it was stopped."""

    def test_averages_a_scaler_and_sums(self):
        self.resumes_as_undisturbed("torch_tails.py")

    def test_an_exchange_in_the_middle(self):
        self.resumes_as_undisturbed("torch_tails.py", ET_CASE="exchange")

    def test_two_optimizers(self):
        self.resumes_as_undisturbed("torch_tails.py", ET_CASE="two-optimizers")

    def test_an_optimizer_that_keeps_a_sum_in_its_groups(self):
        self.resumes_as_undisturbed("torch_tails.py", ET_CASE="adding")


@unittest.skipIf(PYTHON is None, WHY_NOT)
class Checked(Changed):
    """Without a run."""

    def check(self, case, *words):
        environment = {**os.environ, "PYTHONPATH": torch_python.PACKAGE, "ET_CASE": case, "ET_SAVED": self.saved}
        done = subprocess.run([harness.BINARY, "check", "--script", PYTHON, *words, os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_own_data.py")],
                              env=environment, capture_output=True, text=True, timeout=START_S)
        return done.returncode, done.stdout + done.stderr

    def test_a_script_that_can_be_taken_over(self):
        status, text = self.check("random")
        self.assertEqual(status, 0, text[-3000:])
        self.assertIn("train().iteration", text)

    def test_a_script_that_cannot_says_where(self):
        status, text = self.check("comprehension")
        self.assertEqual(status, 3, text[-3000:])
        self.assertIn("torch_own_data.py", text)

    def test_a_python_without_the_package_is_told_so(self):
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run([harness.BINARY, "check", "--script", "train.py"], env=environment, capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 78)
        self.assertIn("has no package elastictrain", done.stderr)


if __name__ == "__main__":
    harness.main()
