"""Several members of one run, in one process: what a joiner takes over from whom, what stays its own, and what is compared."""

import collections
import os
import random
import sys
import tempfile
import types
import unittest
from unittest import mock

import torch_python

torch_python.run_this_test_there()
sys.path.insert(0, torch_python.PACKAGE)

import torch  # noqa: E402

from elastictrain.torch import _torchtitan  # noqa: E402
from elastictrain.torch.progress import Progress, RecordError, _hook, _rewrite  # noqa: E402

PROGRAM = '''
import random
import torch
class Saver:
    def __init__(self): self.files = []
def train(rank, steps, on_step, model=None, begin=0, fresh=None):
    device, count, meter, saver = f"cuda:{rank}", begin, 0.0, Saver() if rank == 0 else None
    own, common = random.Random(rank), random.Random(5)
    drawn, note = None, {"rank": rank, "count": 0}
    for step in range(steps):
        count += 1
        note["count"] += 2
        drawn = own.random(), common.random()
        if saver is not None: saver.files.append(step)
        if model is not None: model.seen = step
        batch = fresh(step) if fresh is not None else None
        on_step(step)
        meter += rank + 1
    return dict(device=device, count=count, meter=meter, saver=saver, drawn=drawn, note=note, step=step)
'''


class Member:
    """Runs the program with a progress of its own."""

    def __init__(self, train, rank, model=None, begin=0, fresh=None):
        self.progress, self.rank, self._train, self._model, self._begin = Progress([model]), rank, train, model, begin
        self._fresh = fresh
        self.record = self.table = self.report = None
        self.hashes = []

    def give(self, at, steps=12):
        """To the end; its record and table at a step."""
        def on_step(step):
            if step == 0:
                self.progress.note_first()
            if step == at:
                self.record, self.table = self.progress.record(step), self.progress.table()
        self.result = self._train(self.rank, steps, on_step, self._model, self._begin, self._fresh)
        return self

    def join(self, record, tables, steps=12, give_at=None, after=None):
        """From the first step on with another member's record."""
        self.step = None

        def on_step(step):
            if self.step is None:
                self.progress.note_first()
                self.problems = self.progress.check(record, tables)
                self.report = self.progress.apply(record, tables, self.rank)
                self.step = True
                if after is not None:
                    after(self.progress)
            elif step == give_at:
                self.record, self.table = self.progress.record(step), self.progress.table()
        self.result = self._train(self.rank, steps, on_step, self._model, self._begin, self._fresh)
        return self


class Members(unittest.TestCase):
    def setUp(self):
        self.folder = folder = tempfile.mkdtemp(prefix="et-members-")
        path = os.path.join(folder, "program.py")
        names = {"__name__": "program"}
        exec(_rewrite.code_of(PROGRAM, path), names)
        self.train = names["train"]
        for target, name, value in ((_hook, "is_own_file", lambda file: os.path.dirname(file) == folder),):
            patch = mock.patch.object(target, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        random.seed(1)
        torch.manual_seed(1)

    def test_values_of_each_rank_stay_its_own_and_the_others_are_taken(self):
        veterans = [Member(self.train, rank).give(at=5) for rank in (0, 1)]
        joiner = Member(self.train, 2).join(veterans[1].record, [veteran.table for veteran in veterans])
        self.assertEqual(joiner.problems, [])
        result = joiner.result
        self.assertEqual((result["device"], result["step"], result["count"]), ("cuda:2", 11, 12))
        self.assertEqual(result["note"], {"rank": 2, "count": 24})
        self.assertEqual(result["meter"], 5 * 2 + 7 * 3)  # the donor's, then its own
        self.assertIsNone(result["saver"])
        self.assertIn("train().device ('cuda:2')", joiner.report.kept_own)

    def registry(self, entries):
        """A module beside the program with a large table."""
        module = types.ModuleType("registry_of_program")
        module.__file__ = os.path.join(self.folder, "registry_of_program.py")
        module.KNOWN = {f"entry {number}": {f"size {part}": number + part for part in range(20)} for number in range(entries)}
        patch = mock.patch.dict(sys.modules, {module.__name__: module})
        patch.start()
        self.addCleanup(patch.stop)
        return module

    def test_large_tables_of_modules_travel_only_where_they_changed(self):
        empty = len(Member(self.train, 0).give(at=5).record)
        module = self.registry(200)
        constant = Member(self.train, 0).give(at=5)
        self.assertLess(len(constant.record), empty + 2000)
        self.assertEqual(Member(self.train, 1).join(constant.record, [constant.table]).problems, [])

        def changing(rank, steps, on_step, *rest):
            def changed(step):
                if step == 1 and rank == 0:
                    module.KNOWN["entry 7"]["size 0"] = 70
                on_step(step)
            return self.train(rank, steps, changed, *rest)
        donor = Member(changing, 0).give(at=5)
        self.assertGreater(len(donor.record), empty + 2000)
        module.KNOWN["entry 7"]["size 0"] = 7
        joiner = Member(changing, 1).join(donor.record, [donor.table])
        self.assertEqual((joiner.problems, module.KNOWN["entry 7"]["size 0"]), ([], 70))

    def test_what_a_role_has_is_not_given_to_one_without_it(self):
        donor = Member(self.train, 0).give(at=5)
        joiner = Member(self.train, 1).join(donor.record, [donor.table])
        self.assertEqual(joiner.problems, [])
        self.assertIsNone(joiner.result["saver"])
        self.assertEqual(joiner.result["count"], 12)
        successor = Member(self.train, 0).join(donor.record, [donor.table])
        self.assertEqual(successor.result["saver"].files, list(range(12)))

    def test_a_successor_takes_what_only_the_lost_worker_of_its_role_had(self):
        lost, veteran = Member(self.train, 0).give(at=3), Member(self.train, 1).give(at=5)
        taken = []

        def take_role(progress):
            taken.extend(progress.apply_role(lost.record, [veteran.table]))
        successor = Member(self.train, 0).join(veteran.record, [veteran.table], after=take_role)
        self.assertEqual(successor.problems, [])
        self.assertEqual(successor.result["saver"].files, [0, 1, 2, 3, *range(6, 12)], "those of the lost worker, then its own")
        self.assertEqual(successor.result["count"], 12, "nothing that all have is taken from an earlier step")
        self.assertTrue(all("saver" in name for name in taken), taken)

    def test_streams_that_differ_stay_different_and_equal_ones_stay_equal(self):
        veterans = [Member(self.train, rank).give(at=5) for rank in (0, 1)]
        joiner = Member(self.train, 2).join(veterans[0].record, [veteran.table for veteran in veterans])
        own = {member.result["drawn"][0] for member in (*veterans, joiner)}
        common = {member.result["drawn"][1] for member in (*veterans, joiner)}
        self.assertEqual((len(own), len(common)), (3, 1))

    def test_a_joiner_hands_on_what_it_took_over(self):
        first = Member(self.train, 1).give(at=5)
        second = Member(self.train, 2, begin=3).join(first.record, [first.table], give_at=8)
        third = Member(self.train, 3, begin=7).join(second.record, [second.table])
        self.assertEqual(first.result["count"], 12)
        self.assertEqual(second.result["count"], 12)
        self.assertEqual(third.result["count"], 12)

    def test_a_joiner_that_went_wrong_finds_it_among_what_the_others_hold_alike(self):
        veterans = [Member(self.train, rank).give(at=5) for rank in (0, 1)]
        tables = [veteran.table for veteran in veterans]
        strayed = []

        def look(progress):
            strayed.append(progress.strayed(tables))
            self.assertEqual(progress.strayed(tables[:1]), {}, "one cannot tell what is its own")
        for record in (veterans[0].record, veterans[1].record, Member(self.train, 0, begin=1).give(at=5).record):
            Member(self.train, 2).join(record, tables, after=look)
        self.assertEqual(strayed[:2], [{}, {}])
        self.assertIn("train().count", strayed[2])

    def test_models_of_the_caller_are_not_carried_but_for_their_plain_attributes(self):
        models = [torch.nn.Linear(200, 200) for _ in range(2)]
        for model in models:
            model.seen = -1
        donor = Member(self.train, 1, models[0]).give(at=5)
        self.assertLess(len(donor.record), 30000)
        before = models[1].weight.clone()
        seen = []
        joiner = Member(self.train, 2, models[1])
        joiner.join(donor.record, [donor.table], after=lambda progress: seen.append(models[1].seen))
        self.assertEqual((joiner.problems, seen), ([], [5]))
        self.assertTrue(torch.equal(models[1].weight, before))

    def test_a_model_that_the_caller_does_not_know_is_carried_up_to_a_limit(self):
        def give(size):
            model = torch.nn.Linear(size, size)
            model.seen = -1
            member = Member(self.train, 1)
            member._model = model

            def change(step):
                if step == 0:
                    member.progress.note_first()
                torch.nn.init.constant_(model.weight, float(step))
                if step == 5:
                    member.record = member.progress.record(step)
                    member.large = member.progress.large()
            self.train(1, 8, change, model)
            return member
        other = torch.nn.Linear(30, 30)
        other.seen = -1
        small = give(30)
        joiner = Member(self.train, 2)
        joiner._model = other
        weights = []
        joiner.join(small.record, [], after=lambda progress: weights.append(float(other.weight.detach()[0, 0])))
        self.assertEqual(weights, [5.0])
        large = give(1200)
        self.assertEqual(list(large.large), ["train().model"])
        joiner = Member(self.train, 2)
        joiner._model = torch.nn.Linear(1200, 1200)
        with self.assertRaisesRegex(RecordError, r"train\(\).model: takes 562. KiB; at most 2048 KiB of one thing"):
            joiner.join(large.record, [])

    def test_an_iterator_of_a_library_is_placed_by_its_own_methods(self):
        class Reader:
            """As those of grain: a thread would read ahead."""
            __module__ = "grain.of_a_test"

            def __init__(self):
                self._place = self._ahead = 0

            def __iter__(self):
                return self

            def __next__(self):
                self._place += 1
                self._ahead = self._place + 2
                return self._place

            def get_state(self):
                return {"place": self._place}

            def set_state(self, state):
                self._place, self._ahead = state["place"], -1

        readers = []

        def drawing(reader):
            readers.append(reader)

            def draw(step, reader=reader):
                return next(reader), reader
            return draw

        donor = Member(self.train, 1, fresh=drawing(Reader())).give(at=5)
        joiner = Member(self.train, 2, fresh=drawing(Reader()))
        seen = []
        joiner.join(donor.record, [donor.table], after=lambda progress: seen.append(vars(readers[1]).copy()))
        self.assertEqual((joiner.problems, seen), ([], [{"_place": 6, "_ahead": -1}]))
        self.assertEqual(readers[1]._place, readers[0]._place)

    def test_a_state_dict_that_is_kept_does_not_travel(self):
        """Its tensors are the model's, which the caller takes care of."""
        models = [torch.nn.Linear(1200, 1200) for _ in range(2)]
        members = []
        for rank, model in enumerate(models, 1):
            held = model.state_dict()

            def keep(step, model=model, held=held):
                torch.nn.init.constant_(model.weight, float(step))
                return held
            members.append(Member(self.train, rank, model, fresh=keep))
        donor = members[0].give(at=5)
        self.assertLess(len(donor.record), 30000)
        joiner = members[1].join(donor.record, [donor.table])
        self.assertEqual((joiner.problems, joiner.result["count"]), ([], 12))

    def test_what_torchtitans_checkpointer_keeps_does_not_travel(self):
        class ModelWrapper:
            __module__ = "program"

            def __init__(self):
                self.cached_state_dict = {"made anew": torch.zeros(1200, 1200)}

        base = types.ModuleType("torchtitan.components.checkpointer.base")
        base.ModelWrapper = ModelWrapper
        with mock.patch.dict(sys.modules, {base.__name__: base}):
            _torchtitan.install()

        def keeping(wrapper):
            def keep(step):
                wrapper.cached_state_dict["made anew"].fill_(step)
                return wrapper
            return keep

        donor = Member(self.train, 1, fresh=keeping(ModelWrapper())).give(at=5)
        self.assertLess(len(donor.record), 30000)
        joiner = Member(self.train, 2, fresh=keeping(ModelWrapper())).join(donor.record, [donor.table])
        self.assertEqual((joiner.problems, joiner.result["count"]), ([], 12))

    def test_a_record_that_is_too_large_names_its_largest_part(self):
        def fresh(step):
            return [random.Random(part + step).randbytes(1 << 20) for part in range(5)]

        member = Member(self.train, 1, fresh=lambda step: types.SimpleNamespace(
            **{f"part{number}": part for number, part in enumerate(fresh(step))}))
        with self.assertRaisesRegex(RecordError, r"at most 4096 KiB can be handed over. The largest part is train\(\).batch.part\d \(1024 KiB\)"):
            member.give(at=5)

    def test_a_batch_in_a_container_is_left_to_each_worker(self):
        def fresh(step):
            return {"inputs": {"x": torch.full((600, 600), float(step))}, "names": ["a"], "y": torch.zeros(3)}

        def at_one_address(step, kept=[], held={}):
            held["x"] = torch.full((600, 600), float(step))
            kept[:] = [collections.UserDict(x=torch.full((600, 600), float(step))), held, torch.full((600, 600), float(step))]
            return kept

        for batch_of in (fresh, at_one_address):
            with self.subTest(batch_of.__name__):
                donor = Member(self.train, 1, fresh=batch_of).give(at=5)
                self.assertLess(len(donor.record), 30000)
                joiner = Member(self.train, 2, fresh=batch_of).join(donor.record, [donor.table])
                self.assertEqual((joiner.problems, joiner.result["count"]), ([], 12))

    def test_a_bar_of_progress_that_came_later_is_not_handed_over(self):
        class Bar:
            __module__ = "tqdm.std"

            def __init__(self):
                self.file = sys.stderr

        def bar_of(step):
            return Bar() if step else None

        donor = Member(self.train, 1, fresh=bar_of).give(at=5)
        joiner = Member(self.train, 2, fresh=bar_of).join(donor.record, [donor.table])
        self.assertEqual((joiner.problems, joiner.result["count"]), ([], 12))
        self.assertIn("train().batch (Bar)", joiner.report.not_looked_into)

    def test_a_damaged_record_is_a_problem_and_nothing_is_set(self):
        donor = Member(self.train, 1).give(at=5)

        def on_step(step):
            progress = Progress()
            progress.note_first()
            self.assertEqual(progress.check(donor.record[:-1]), ["the record cannot be read: it is damaged"])
            with self.assertRaisesRegex(RecordError, "it is damaged"):
                progress.apply(donor.record[:-1])
        self.assertEqual(self.train(1, 3, on_step)["count"], 3)


if __name__ == "__main__":
    unittest.main()
