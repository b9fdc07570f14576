"""Plans: a run that measures sizes and ends by itself, its journal and output used again, and refused arguments."""

import json
import os
import signal

import harness
from harness import BINARY, Case, Run, job, synthetic


def config(**trainer):
    # Simulated compute (sleeping) scales perfectly: each worker keeps its throughput at every size.
    return job(workers=(1, 1, 3), trainer=synthetic(**trainer), cost={"price_per_worker_hour": 2.5})


class PlanRun(Run):
    """`elastictrain plan` with the given arguments. Its run's name is its own plus -plan."""

    def __init__(self, *words, **options):
        super().__init__(**options)
        config_file = [word for word in self.argv if word.endswith("config.toml")]
        self.argv = [BINARY, "plan", *config_file, "--name", self.name, *map(str, words)]
        self.name += "-plan"

    def plan(self):
        return json.loads(self.text("stdout"))


class Plans(Case):
    def test_a_run_measures_and_ends_and_what_it_found_can_be_read_again(self):
        with PlanRun("--steps", 8, "--goal", "fastest", "--json", config=config()) as run:
            self.assertEqual(run.wait(120), 0, run.text())
            run.wait_no_processes()
            plan = run.plan()
            self.assertEqual({point["workers"] for point in plan["points"]}, {1, 2, 3})
            self.assertEqual({point["workers"] for point in plan["measured"]}, {1, 2, 3})
            for point in plan["measured"]:
                self.assertGreaterEqual(point["steps"], 8)
                self.assertGreater(point["step_s"], 0.016, "16 samples of a millisecond each")
            sizes = [record["world_size"] for record in run.events("generation") if record["kind"] != "stop"]
            self.assertEqual(sizes, [1, 2, 3])
            self.assertIn("fastest", plan["choice"]["is"])
            one = plan["points"][0]
            self.assertAlmostEqual(one["cost"], 2.5 * one["seconds"] / 3600, places=6)

            again = json.loads(run.do("plan", "--journal", run.name, "--json", "--goal", "fastest"))
            self.assertEqual(again["measured"], plan["measured"])
            self.assertEqual(again["points"], plan["points"])
            table = os.path.join(run.directory, "plan.json")
            with open(table, "w") as file:
                json.dump(plan, file)
            drawing = os.path.join(run.directory, "plan.svg")
            text = run.do("plan", "--profile", table, "--samples", 1_000_000, "--svg", drawing)
            self.assertIn("chosen", text)
            with open(drawing) as file:
                self.assertIn("</svg>", file.read())
            late = run.command("plan", "--profile", table, "--samples", 1_000_000, "--deadline", "1s")
            self.assertEqual(late.returncode, 1)
            self.assertIn("nothing ends within 1.0 s", late.stderr)

    def test_ctrl_c_ends_the_run_that_measures(self):
        with PlanRun("--steps", 100_000, config=config()) as run:
            run.wait_step(3)
            run.signal(signal.SIGINT)
            self.assertEqual(run.wait(), 130)
            run.wait_no_processes()
            self.assertIn("no plan was made", run.text())
            self.assertEqual(run.text("stdout"), "")

    def test_a_job_that_ends_too_early_is_said_to(self):
        with PlanRun("--steps", 100_000, "--json", config=config(samples=1600, epochs=1)) as run:
            self.assertEqual(run.wait(), 69, run.text())
            self.assertIn("the job ended before all sizes were measured", run.text())
            self.assertIn("only one size was measured, 1 worker:", run.text())

    def test_what_cannot_be_planned_is_said(self):
        with Run(config()) as run:
            table = os.path.join(run.directory, "table.csv")
            with open(table, "w") as file:
                file.write("workers,batch,step_s\n1,32,fast\n")
            for status, part, *words in (69, "no-such-run is not a file", "--journal", "no-such-run"), \
                                        (78, "table.csv:2: step_s 'fast' is not a number", "--profile", table), \
                                        (66, "/no/such/table: cannot be read", "--profile", "/no/such/table"), \
                                        (64, "excludes", "--profile", table, "--journal", run.name), \
                                        (64, "excludes", "--deadline", "1h", "--budget", "3"), \
                                        (64, "nothing to run", "--steps", "3"):
                done = run.command("plan", *words)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(part, done.stderr)


if __name__ == "__main__":
    harness.main()
