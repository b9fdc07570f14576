"""Starts under a real Slurm on three namespaced hosts."""

import os
import shutil
import statistics
import tempfile
import unittest

import rows

import harness
from lab import Lab
from slurm_lab import Slurm

HOSTS = 3
LIMIT_S = 1.0
# Beside each other in one job: our start, and what srun takes for nothing at all on the same hosts.
SCRIPT = """#!/bin/bash
now() { read -r uptime _ </proc/uptime; echo "$uptime" >>"{directory}/times"; }
now
{binary} run {directory}/config.toml
now
srun --nodes={hosts} --ntasks={hosts} /bin/true
now
"""


def one_start(slurm):
    """Seconds from the job's start to the first committed step, and of srun for /bin/true."""
    directory = tempfile.mkdtemp(prefix="etrun-")
    try:
        steps = os.path.join(directory, "steps")
        os.mkdir(steps)
        trainer = harness.synthetic(max_steps=5)
        with open(os.path.join(directory, "config.toml"), "w") as file:
            file.write(harness.toml({"workers": {"min": HOSTS}, "log": {"step_directory": steps}, "trainer": trainer}))
        script = os.path.join(directory, "job.sh")
        with open(script, "w") as file:
            text = SCRIPT.replace("{directory}", directory).replace("{binary}", harness.BINARY)
            file.write(text.replace("{hosts}", str(HOSTS)))
        output = os.path.join(directory, "out")
        job = slurm.submit([script], f"--nodes={HOSTS}", "--ntasks-per-node=1", output=output,
                           environment={"ELASTICTRAIN_STATE_DIR": os.path.join(directory, "state")})
        slurm.wait_job(job, lambda job: job["JobState"] in ("COMPLETED", "FAILED"))
        slurm.wait_idle()
        with open(os.path.join(directory, "times")) as file:
            begin, before, after = map(float, file.read().split())
        first = min(step["t"] for step in harness.read_steps(steps))
        return first - begin, after - before
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def slurm_start(repetitions):
    try:
        with Lab(hosts=HOSTS, sshd_hosts=()) as lab, Slurm(lab) as slurm:
            pairs = [one_start(slurm) for _ in range(repetitions)]
    except unittest.SkipTest as reason:
        raise rows.Unavailable(str(reason)) from None
    ours = [start for start, _ in pairs]
    srun = [own for _, own in pairs]
    beyond = statistics.median(start - own for start, own in pairs)
    yield rows.below("slurm-start", beyond, "s", LIMIT_S,
                     f"{HOSTS} hosts: to the first step {rows.spread(ours, 2)} s, srun /bin/true {rows.spread(srun, 2)} s")
