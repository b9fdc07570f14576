"""Which signals put a job of SGE or LSF back into the queue. The batch system and elastictrain are stand-ins."""

import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]

# Leaves with status 75 at a notice, as `elastictrain run` does. The line says that its traps are set.
RUN = """#!/bin/bash
trap 'exit 75' TERM USR1
echo ready
while :; do sleep 0.05; done
"""


class Requeue(unittest.TestCase):
    def status_after(self, script, *numbers):
        with tempfile.TemporaryDirectory() as directory:
            program = os.path.join(directory, "elastictrain")
            with open(program, "w") as file:
                file.write(RUN)
            os.chmod(program, 0o755)
            environment = {**os.environ, "ELASTICTRAIN": program, "CONFIG": "job.toml", "JOB_ID": "7", "LSB_JOBID": "7"}
            with subprocess.Popen(["bash", ROOT / "scripts" / "hpc" / script], env=environment, text=True,
                                  stdout=subprocess.PIPE) as job:
                self.assertEqual(job.stdout.readline(), "ready\n")
                for number in numbers:
                    job.send_signal(number)
                try:
                    return job.wait(30)
                finally:
                    job.kill()

    def test_sge_takes_a_job_back_after_a_notice_and_not_after_qdel(self):
        self.assertEqual(self.status_after("sge.sh", signal.SIGUSR1), 99)
        self.assertEqual(self.status_after("sge.sh", signal.SIGUSR2), 75)
        self.assertEqual(self.status_after("sge.sh", signal.SIGTERM), 75)

    def test_lsf_takes_a_job_back_after_a_notice_and_not_after_bkill(self):
        self.assertEqual(self.status_after("lsf.sh", signal.SIGUSR1), 75)
        self.assertEqual(self.status_after("lsf.sh", signal.SIGINT), 143)
        self.assertEqual(self.status_after("lsf.sh", signal.SIGTERM), 143)


if __name__ == "__main__":
    unittest.main()
