"""W&B and MLflow in scripts that change nothing, with stand-ins for both: one run in them, whoever is the first worker."""

import os
import sys
import types
import unittest
from unittest import mock

import torch_python

torch_python.run_this_test_there()
sys.path.insert(0, torch_python.PACKAGE)

from elastictrain.torch import _trackers  # noqa: E402
from elastictrain.torch._script import script  # noqa: E402


def at_rank(rank):
    return mock.patch.object(type(script), "rank", rank)


class WandbServer:
    """Runs by id. A module of each worker writes to it, and puts its functions into itself as W&B's does."""

    def __init__(self):
        self.runs = {}

    def module(self):
        module = types.SimpleNamespace(run=None)

        def init(project=None, config=None, id=None, resume=None):
            if id in self.runs and resume != "allow":
                raise AssertionError("a second run of the same id")
            run = self.runs.setdefault(id, types.SimpleNamespace(config={}, summary={}, rows=[], ends=0))
            run.config.update(config or {})
            own = types.SimpleNamespace(id=id, config=run.config, summary=run.summary, log=run.rows.append,
                                        finish=lambda: setattr(run, "ends", run.ends + 1))
            module.run, module.log, module.config, module.finish = own, own.log, own.config, own.finish
            return own

        module.init = init
        _trackers._change_wandb(module)
        return module


class MlflowServer:
    def __init__(self):
        self.runs = []

    def module(self):
        module = types.SimpleNamespace(active=None)

        def start_run(run_id=None, run_name=None, tags=None):
            if run_id is None:
                self.runs.append(types.SimpleNamespace(info=types.SimpleNamespace(run_id=f"r{len(self.runs)}"), tags=tags or {},
                                                       name=run_name, metrics=[], ends=0))
                run_id = self.runs[-1].info.run_id
            module.active = next(run for run in self.runs if run.info.run_id == run_id)
            return module.active

        def search_runs(filter_string, output_format, max_results):
            key, value = filter_string[len("tags."):].split(" = ")
            return [run for run in self.runs if run.tags.get(key) == value.strip("'")][:max_results]

        module.start_run, module.search_runs = start_run, search_runs
        module.log_metric = lambda key, value, step=None: module.active.metrics.append((key, value, step))
        module.end_run = lambda status="FINISHED": setattr(module.active, "ends", module.active.ends + 1)
        _trackers._change_mlflow(module)
        return module


@mock.patch.dict(os.environ, {"ELASTICTRAIN_JOB_ID": "job7"})
class OneRun(unittest.TestCase):
    def test_wandb_gets_one_run_that_another_worker_continues(self):
        server = WandbServer()
        first, second = server.module(), server.module()
        for module, rank in ((first, 0), (second, 1)):
            with at_rank(rank):
                module.init(project="p", config={"lr": 0.1})
                self.assertEqual(module.config.lr, 0.1)
                module.log({"loss": 1})
                module.run.log({"loss": 2})
                module.config.update({"size": 3})
                module.summary["best"] = 5
        self.assertEqual(first.run.id, "job7")
        with at_rank(0):
            second.log({"loss": 3})
            second.finish()
        self.assertEqual(list(server.runs), ["job7"])
        run = server.runs["job7"]
        self.assertEqual(run.rows, [{"loss": 1}, {"loss": 2}, {"loss": 3}])
        self.assertEqual((run.config, run.summary, run.ends), ({"lr": 0.1, "size": 3}, {"best": 5}, 1))

    def test_wandb_in_a_worker_that_is_never_first_does_nothing(self):
        server = WandbServer()
        module = server.module()
        with at_rank(1), module.init(project="p") as run:
            run.log({"loss": 1})
            run.watch(None)
            module.finish()
        self.assertEqual(server.runs, {})

    def test_mlflow_gets_one_run_that_another_worker_continues(self):
        server = MlflowServer()
        first, second = server.module(), server.module()
        for module, rank in ((first, 0), (second, 1)):
            with at_rank(rank):
                module.start_run(run_name="n")
                module.log_metric("loss", 1.0, step=rank)
        with at_rank(0):
            second.log_metric("loss", 2.0, step=5)
            second.end_run()
        [run] = server.runs
        self.assertEqual((run.name, run.metrics, run.ends), ("n", [("loss", 1.0, 0), ("loss", 2.0, 5)], 1))

    def test_mlflow_without_a_begin_and_with_a_run_of_the_scripts_own(self):
        server = MlflowServer()
        module = server.module()
        with at_rank(0):
            module.log_metric("loss", 1.0)
            module.end_run()
            with module.start_run(run_id="r0") as run:
                module.log_metric("loss", 2.0)
                self.assertEqual(run.info.run_id, "r0")
        self.assertEqual(([len(run.metrics) for run in server.runs], server.runs[0].ends), ([2], 2))


if __name__ == "__main__":
    unittest.main(verbosity=2)
