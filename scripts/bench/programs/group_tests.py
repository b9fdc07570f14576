"""PyTorch's own tests of torch.distributed, those of the installed torch or of a checkout (ET_TESTS: its folder), on the process
group of a run. group_tests.py RESULTS NAMES: one after the other, each in a step of its own; each rank writes what came of them
to its file in the folder RESULTS. Nothing of the tests is here."""

import itertools
import json
import os
import re
import sys
import tempfile
import traceback
import unittest

os.environ.update(BACKEND="gloo", TEMP_DIR=sys.argv[1])
os.environ.setdefault("WORLD_SIZE", "1")
sys.path[:0] = [folder for folder in (os.environ.get("ET_TESTS"),) if folder]

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from elastictrain import ElasticError, Session  # noqa: E402
from elastictrain.torch import _collectives  # noqa: E402
from elastictrain.torch._exchange import Plane  # noqa: E402
from elastictrain.torch._script import script  # noqa: E402
from torch.testing._internal import common_utils  # noqa: E402


class Run:
    """Of a script, as the process group sees it."""

    is_started, takeover, is_in_pass = True, None, False

    def __init__(self, session):
        self.session, self._plane = session, Plane(session)

    place = property(lambda self: (self.session.rank, self.session.world_size))

    def plane(self):
        return self._plane

    def stop(self):
        """The tests go on."""


def tests():
    from torch.testing._internal.distributed import distributed_test
    distributed_test.PROFILING_SUPPORTED_BACKENDS.clear()  # events of its profiler are made by compiled back ends

    class Tests(common_utils.TestCase, distributed_test.DistributedTest._DistTestBase):
        rank = property(lambda self: dist.get_rank())
        world_size = property(lambda self: dist.get_world_size())
        file_name = os.path.join(tempfile.gettempdir(), "unused")
        init_method = property(lambda self: f"file://{self.file_name}")

        def _barrier(self, *_, **__):
            script.run.session.barrier()  # also where there is no group

    return Tests


def names():
    """Those that need no GPU."""
    return [name for name in sorted(dir(tests())) if name.startswith("test_") and not re.search("cuda|nccl|gpu", name)]


def outcome(kind, name):
    torch.manual_seed(0)
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    test = kind(name)
    try:
        test.setUp()
        getattr(test, name)()
        return "pass", ""
    except unittest.SkipTest as skipped:
        return "skip", str(skipped)
    except SystemExit as end:
        return "skip", f"exit {end.code}"
    except BaseException as error:
        chain = itertools.chain([error], (cause for cause in (error.__cause__, error.__context__) if cause is not None))
        refused = next((one for one in chain if isinstance(one, ElasticError)), None)
        place = traceback.extract_tb(error.__traceback__)[-1]
        return ("refused", str(refused)) if refused else ("fail", f"{type(error).__name__}: {error} ({place.name})")


def main():
    folder, chosen = sys.argv[1], sys.argv[2].split(",")
    for name in ("barrier", "test_dir"):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    _collectives.install()
    kind = tests()
    session, weights = Session(), torch.zeros(1)
    session.share_state("weights", weights)
    session.set_data()
    session.start()
    script.run = Run(session)
    with open(os.path.join(folder, f"{session.rank}.jsonl"), "a") as file:
        for name in chosen:
            session.next_batch()
            print(json.dumps({"name": name, "begun": True}), file=file, flush=True)
            result, why = outcome(kind, name)
            print(json.dumps({"name": name, "result": result, "why": why[:300]}), file=file, flush=True)
            session.barrier()
            session.all_reduce(torch.zeros(1))
            session.commit_step()
    session.end_data()
    while session.next_batch() is not None:
        session.all_reduce(torch.zeros(1))
        session.commit_step()


if __name__ == "__main__":
    if sys.argv[2:] == ["--list"]:
        print(",".join(names()))
    else:
        main()
