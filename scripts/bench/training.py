"""Whether changes of size cost anything in learning: accuracy and exactly-once."""

import os
import random
import statistics
import tempfile

import rows
from harness import Run, job, members, synthetic, wait_until

GLOBAL_BATCH = 64


def optdigits_job(seed):
    digits = os.path.join(rows.DATA, "optdigits", "optdigits")
    trainer = {"model": "mlp", "train": f"{digits}.tra", "test": f"{digits}.tes", "epochs": 500, "seed": seed,
               "eval_every_epochs": 0}
    batch = {"per_worker": GLOBAL_BATCH, "max_global": GLOBAL_BATCH, "at_limit": "split"}
    return job(workers=(1, 2, 4), trainer=trainer, batch=batch)


def accuracy_of(run):
    notes = [r for r in run.journal() if r["event"] == "note" and r.get("key") == "accuracy"]
    if not notes:
        raise AssertionError("the journal has no note of the accuracy")
    return 100 * float(notes[-1]["value"])


def fixed_accuracy(seed):
    with Run(optdigits_job(seed)) as run:
        if run.wait(300) != 0:
            raise AssertionError(f"the fixed run failed: {run.text()[-500:]}")
        return accuracy_of(run)


def elastic_accuracy(seed, changes=20):
    """Accuracy, and how many changes took place before training ended."""
    choice = random.Random(seed)
    done = 0
    with Run(optdigits_job(seed)) as run:
        run.wait_size(2, 60)
        size = 2
        while done < changes and run.process.poll() is None:
            size = choice.choice([n for n in (1, 2, 3, 4) if n != size])
            if run.command("resize", run.name, size).returncode != 0:
                break
            wait_until(lambda: run.process.poll() is not None or run.status().get("world_size") == size, 60, "the change")
            done += run.process.poll() is None
        if run.wait(300) != 0:
            raise AssertionError(f"the elastic run failed: {run.text()[-500:]}")
        return accuracy_of(run), done


def accuracy_elastic(repetitions):
    seeds = range(1, max(5, repetitions) + 1)
    fixed = [fixed_accuracy(seed) for seed in seeds]
    elastic, changes = zip(*(elastic_accuracy(seed) for seed in seeds))
    yield rows.at_least("accuracy-elastic/fixed", statistics.mean(fixed), "%", 96, rows.spread(fixed, 2) + " %")
    yield rows.at_least("accuracy-elastic/changing", statistics.mean(elastic), "%", 96, rows.spread(elastic, 2) + " %")
    difference = abs(statistics.mean(elastic) - statistics.mean(fixed))
    # Two standard errors of the difference of two means, from the seeds' own spread.
    noise = 2 * ((statistics.variance(fixed) + statistics.variance(elastic)) / len(fixed)) ** 0.5
    yield rows.below("accuracy-elastic/difference", difference, "points", round(noise, 3),
                     f"limit: two standard errors over {len(fixed)} seeds")
    yield rows.at_least("accuracy-elastic/changes", min(changes), "changes", 20, "fewest changes of a run")


def audit_100(repetitions):
    """100 random changes of every kind; one run, because each counts by itself."""
    del repetitions
    choice = random.Random(1)
    trainer = synthetic(compute_us_per_sample=300, samples=5000, parameter_bytes=1_000_000)
    config = job(workers=(1, 2, 5), trainer=trainer, hosts=HostPair.config())
    counts = {"grow": 0, "shrink": 0, "replace": 0, "drain": 0}
    with HostPair() as hosts, Run(config, environment={"HOSTS": hosts.path}) as run:
        run.wait_size(2, 60)
        for _ in range(100):
            counts[random_change(run, hosts, choice)] += 1
            run.wait_more_steps(3)
        run.do("stop", run.name)
        run.wait(60)
        audit = run.audit() or {}
    detail = ", ".join(f"{count} {kind}" for kind, count in counts.items()) + f"; {audit.get('steps')} steps audited, {audit.get('hashes_compared')} hashes compared"
    for key in ("missing", "repeated", "unequal_hashes"):
        yield rows.below(f"audit-100/{key}", float(audit.get(key, "nan")), "", 0, detail)


class HostPair:
    """Two names for this machine, offered by a script, so that one can be drained and come back."""

    NAMES = ("localhost:4", "127.0.0.1:4")

    @staticmethod
    def config():
        return {"discover": 'cat "$HOSTS"', "discover_interval_ms": 100}

    def __enter__(self):
        self.file = tempfile.NamedTemporaryFile("w", prefix="et-hosts-")
        self.path = self.file.name
        self.offer(self.NAMES)
        return self

    def __exit__(self, *unused):
        self.file.close()

    def offer(self, names):
        with open(self.path, "w") as file:
            file.write("\n".join(names) + "\n")


def settled(run, size):
    return run.wait_status(lambda s: s["phase"] == "running" and s["world_size"] == size
                           and all(w["step"] > 0 for w in members(s)), 60, f"size {size}")


def random_change(run, hosts, choice):
    status = run.status()
    size = status["world_size"]
    kind = choice.choice(["resize", "resize", "replace", "drain"])
    if kind == "replace":
        run.do("replace", run.name, choice.randrange(size))
        settled(run, size)
        return "replace"
    if kind == "drain":
        drain_and_return(run, hosts, choice, size)
        return "drain"
    target = choice.choice([n for n in (1, 2, 3, 4, 5) if n != size])
    run.do("resize", run.name, target)
    settled(run, target)
    return "grow" if target > size else "shrink"


def drain_and_return(run, hosts, choice, size):
    """Drains a host that has workers; its workers move; then the host vanishes and comes back as a new one."""
    if size > 4:  # what is left could not take them all
        run.do("resize", run.name, 4)
        settled(run, 4)
        size = 4
    victim = choice.choice(sorted({w["host"] for w in members(run.status())}))
    run.do("drain", run.name, victim)
    run.wait_status(lambda s: s["phase"] == "running" and s["world_size"] == size
                    and victim not in {w["host"] for w in members(s)}, 60, f"{victim} drained")
    seen = vanished(run, victim)
    hosts.offer([name for name in hosts.NAMES if not name.startswith(victim)])
    wait_until(lambda: vanished(run, victim) > seen, 30, f"{victim} gone from the list")
    hosts.offer(hosts.NAMES)
    run.wait_status(lambda s: any(h["host"] == victim and h["phase"] == "up" for h in s["hosts"]), 30, "its return")


def vanished(run, host):
    return sum(record["event"] == "host_vanished" and record["host"] == host for record in run.journal())
