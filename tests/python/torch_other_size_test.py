"""A checkpoint of replicas of one size as the state of replicas of another: boxes, units of data, small values, worked by hand."""

import ctypes
import json
import sys
import unittest
import zlib

import torch_python

torch_python.run_this_test_there()
sys.path.insert(0, torch_python.PACKAGE)

import torch  # noqa: E402

from elastictrain.errors import ElasticError  # noqa: E402
from elastictrain.session import OtherLayout  # noqa: E402
from elastictrain.torch._other_size import UNITS, Interval, Place, encode_units, place_in_other_units, take  # noqa: E402
from elastictrain.torch._state import Packed  # noqa: E402
from elastictrain.torch.checkpoint import PARTS  # noqa: E402

TYPES = {torch.float32: "F32", torch.uint8: "U8", torch.int64: "I64"}


def packed(values):
    made = Packed(512)
    made.write(json.dumps(values, sort_keys=True).encode())
    return made.bytes


def progress(samples):
    return {"progress": {"!": "dict", "v": [["samples", samples], ["steps", 7]]}}


def division(parts, size=10, unit=2):
    return {PARTS: zlib.compress(json.dumps(parts).encode()), UNITS: encode_units(size, unit, "in order")}


def checkpoint(tensors, divisions, attachments=(), **manifest):
    """(manifest, header, data) of what each process holds."""
    about, data = {}, b""
    for index, held in enumerate(tensors):
        for name, tensor in held.items():
            raw = bytes(tensor.contiguous().reshape(-1).view(torch.uint8).tolist())
            about[f"shard{index}/{name}"] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape),
                                             "data_offsets": [len(data), len(data) + len(raw)]}
            data += raw
    text = json.dumps(about).encode()
    early = [(f"shard{index}/{name}", value.hex()) for index, one in enumerate(divisions) for name, value in one.items()]
    made = {"early": early, "attachments": [(name, value.hex()) for name, value in attachments], "epoch": 3, "samples_used": 18,
            "sampler": {"cursor": 3, "returned": []}, **manifest}
    return made, len(text).to_bytes(8, "little") + text, (ctypes.c_ubyte * len(data)).from_buffer_copy(data)


def taken(written, shapes, divisions):
    """(what the run goes on with, what each process of this program holds then)."""
    own = [{name: make() for name, make in held.items()} for held in shapes]
    memory = {f"shard{index}/{name}": (ctypes.c_ubyte * (tensor.numel() * tensor.element_size())).from_address(tensor.data_ptr())
              for index, held in enumerate(own) for name, tensor in held.items()}
    return take(OtherLayout(*written, memory), divisions), own


WHOLE = torch.arange(15.0).reshape(5, 3)
BY_TWO = [division({"w": [[5, 3], [0, 0], [3, 3]]}), division({"w": [[5, 3], [3, 0], [2, 3]]})]
OF_TWO = [{"w": WHOLE[:3], "b": torch.ones(2), "python": packed(progress(3))}, {"w": WHOLE[3:], "b": torch.ones(2), "python": packed(progress(3))}]


def own(*shape):
    return {"w": lambda: torch.zeros(shape), "b": lambda: torch.zeros(2), "python": lambda: packed(progress(0))}


class Boxes(unittest.TestCase):
    def test_two_processes_become_three(self):
        parts = [[[5, 3], [0, 0], [2, 3]], [[5, 3], [2, 0], [2, 3]], [[5, 3], [4, 0], [1, 3]]]
        goes_on, held = taken(checkpoint(OF_TWO, BY_TWO), [own(2, 3), own(2, 3), own(1, 3)], [division({"w": part}, unit=3) for part in parts])
        self.assertTrue(torch.equal(torch.cat([one["w"] for one in held]), WHOLE))
        self.assertTrue(all(torch.equal(one["b"], torch.ones(2)) for one in held))
        self.assertEqual((goes_on.epoch, goes_on.cursor, goes_on.returned), (3, 2, []))
        self.assertEqual(goes_on.samples_used, 12)
        for one in held:
            self.assertEqual(json.loads(Packed.around(one["python"]).read())["progress"]["v"], [["samples", 2], ["steps", 7]])

    def test_rows_become_columns_in_two_dimensions(self):
        parts = [[[5, 3], [0, 0], [3, 2]], [[5, 3], [0, 2], [3, 1]], [[5, 3], [3, 0], [2, 2]], [[5, 3], [3, 2], [2, 1]]]
        _, held = taken(checkpoint(OF_TWO, BY_TWO), [own(*part[2]) for part in parts], [division({"w": part}) for part in parts])
        for part, one in zip(parts, held):
            (row, column), (rows, columns) = part[1:]
            self.assertTrue(torch.equal(one["w"], WHOLE[row:row + rows, column:column + columns]))

    def test_a_process_whose_part_is_empty_has_none(self):
        parts = [[[5, 3], [0, 0], [5, 3]], [[5, 3], [5, 0], [0, 3]]]
        nothing = {name: make for name, make in own(0, 3).items() if name != "w"}
        _, held = taken(checkpoint(OF_TWO, BY_TWO), [own(5, 3), nothing], [division({"w": part}) for part in parts])
        self.assertTrue(torch.equal(held[0]["w"], WHOLE))


class Refused(unittest.TestCase):
    def refused(self, sentence, tensors=OF_TWO, divisions=BY_TWO, part=([5, 3], [0, 0], [5, 3]), shape=None, size=10, attachments=()):
        mine = division({"w": part}, size, 1)
        if size == 0:
            del mine[UNITS]
        memory = torch.full((5, 3), 9.0)
        with self.assertRaises(ElasticError) as raised:
            taken(checkpoint(tensors, divisions, attachments), [{**own(*part[2]), **(shape or {}), "w": lambda: memory}], [mine])
        self.assertIn(sentence, str(raised.exception))
        self.assertTrue((memory == 9).all(), "nothing is written")

    def test_what_was_each_processs_own(self):
        tensors = [OF_TWO[0], {**OF_TWO[1], "b": torch.zeros(2)}]
        self.refused("'b' is another one in each process of the replicas that wrote it", tensors)
        tensors = [OF_TWO[0], {**OF_TWO[1], "python": packed(progress(4))}]
        self.refused("'state 'progress'' is another one in each process", tensors)

    def test_another_program(self):
        self.refused("'w' has the shape [5, 3] in it, and [5, 4] in this program", part=([5, 4], [0, 0], [5, 3]))
        self.refused("this program has a tensor 'c', and it has none of this name", shape={"c": lambda: torch.zeros(1)})
        self.refused("'b' has the shape [2] in it, and another one in this program", shape={"b": lambda: torch.zeros(3)})
        self.refused("the samples of its data: 10; of this program's: 11", size=11)
        self.refused("it has other optimizers, schedulers or objects of state= than this program",
                     shape={"python": lambda: packed({**progress(0), "scheduler": 1})})

    def test_what_is_not_there(self):
        self.refused("it has not all parts of 'w'", [OF_TWO[0], {name: value for name, value in OF_TWO[1].items() if name != "w"}])
        self.refused("it is of workers that hold whole models", divisions=[{}, {}])
        self.refused("it does not say how its data were divided", divisions=[{PARTS: one[PARTS]} for one in BY_TWO])

    def test_a_script_with_data_of_its_own(self):
        self.refused("it is of replicas of 2 processes, whose script has data of its own", divisions=[{PARTS: one[PARTS]} for one in BY_TWO],
                     attachments=[("progress", b"record"), ("shard1/progress", b"record")], size=0)
        self.refused("it does not say of all processes how far their script was", attachments=[("progress", b"record")])
        self.refused("how far its script was cannot be read", attachments=[("progress", b"record"), ("shard1/progress", b"record")])


class Units(unittest.TestCase):
    def test_larger_ones_begin_behind_what_is_used(self):
        self.assertEqual(place_in_other_units(1, 5, [], 20, 2, 3), Place(1, 4, [], 4, 6, 2))  # 12 to 17 go on
        self.assertEqual(place_in_other_units(1, 5, [], 18, 2, 3), Place(1, 4, [], 4, 6, 2))

    def test_smaller_ones_take_up_what_was_left_out(self):
        self.assertEqual(place_in_other_units(0, 2, [], 20, 6, 4), Place(0, 3, [], 3, 5, 0))
        self.assertEqual(place_in_other_units(0, 3, [], 20, 6, 1), Place(0, 18, [], 18, 20, 0))

    def test_an_epoch_that_is_over_goes_on_with_the_next_one(self):
        self.assertEqual(place_in_other_units(4, 9, [], 20, 2, 4), Place(5, 0, [], 5, 5, 2))

    def test_what_was_returned_is_used_before(self):
        self.assertEqual(place_in_other_units(0, 8, [Interval(1, 4)], 20, 2, 3), Place(0, 6, [Interval(1, 2)], 4, 6, 4))
        self.assertEqual(place_in_other_units(0, 8, [Interval(6, 2)], 20, 2, 3), Place(0, 4, [], 4, 6, 0))

    def test_no_sample_counts_twice_and_few_are_left_out(self):
        for size in range(6, 40):
            for before in range(1, 5):
                for now in range(1, 5):
                    for cursor in range(size // before + 1):
                        for returned in ([], [Interval(0, cursor // 2)] if cursor // 2 else []):
                            place = place_in_other_units(0, cursor, returned, size, before, now)
                            free = {sample for first, count in returned for sample in range(first * before, (first + count) * before)}
                            free |= set(range(cursor * before, size))
                            units = [unit for first, count in place.returned for unit in range(first, first + count)]
                            units += range(place.cursor, size // now) if place.epoch == 0 else []
                            again = [sample for unit in units for sample in range(unit * now, unit * now + now)]
                            self.assertEqual(len(again), len(set(again)))
                            self.assertLessEqual(set(again), free)
                            self.assertLess(len(free) - len(again), 3 * now + before)
                            self.assertEqual(place.used, size // now - len(units))


if __name__ == "__main__":
    unittest.main()
