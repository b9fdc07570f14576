"""Checkpoints in an object store: written through a client program, found again from another machine, refused by name."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.request

import harness
from harness import Case, Run, job, synthetic

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLIENT = os.path.join(SOURCE, "tests", "unit", "checkpoint", "client.sh")
TOOLS = os.path.join(SOURCE, "build", "torch-venv", "bin")


class Places(Case):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="et-objects-")
        self.addCleanup(shutil.rmtree, self.directory)

    def config(self, trainer=None, **checkpoint):
        return job(trainer=trainer, checkpoint={**self.place(), "interval_steps": 5, **checkpoint})

    def wait_good(self, run):
        return run.wait_status(lambda s: s["checkpoint"]["step"], what="a good checkpoint", timeout=60)["checkpoint"]

    def goes_on_by_name_and_from_another_machine(self):
        with Run(self.config()) as run:
            self.wait_good(run)
            run.signal(signal.SIGTERM)
            self.assertEqual(run.wait(60), 75, run.text())
            last = run.last_step()
            run.lines.clear()
            run.resume()
            run.wait_text(f"continues from the checkpoint of step {last} in {self.place()['directory']} (the newest)")
            run.wait_step(last + 5)
            run.signal(signal.SIGTERM)
            self.assertEqual(run.wait(60), 75, run.text())
        with Run(self.config(resume=True, adopt=True)) as elsewhere:  # another run, which knows nothing of the first one
            elsewhere.wait_text("continues from the checkpoint of step ")
            elsewhere.do("stop", elsewhere.name)
            self.assertEqual(elsewhere.wait(60), 0, elsewhere.text())


class Client(Places):
    def setUp(self):
        super().setUp()
        self.broken = os.path.join(self.directory, "broken")
        self.client = os.path.join(self.directory, "client")
        with open(self.client, "w") as file:
            file.write(f"#!/bin/sh\n[ ! -e {self.broken} ] || {{ echo 'SlowDown: reduce your request rate' >&2; exit 1; }}\n"
                       f"exec {CLIENT} \"$@\"\n")
        os.chmod(self.client, 0o755)

    def place(self):
        return {"directory": f"dir://{self.directory}/objects", "client": self.client}

    def test_a_run_goes_on_by_its_name_and_from_another_machine(self):
        self.goes_on_by_name_and_from_another_machine()
        names = os.listdir(f"{self.directory}/objects")
        self.assertLessEqual(len([name for name in names if name.endswith(".safetensors")]), 3)  # checkpoint.keep
        self.assertFalse([name for name in names if "tries" in name or ".tmp" in name], names)

    def test_what_ends_with_the_supervisor_continues_from_the_store(self):
        with Run(self.config()) as run:
            good = self.wait_good(run)["step"]
            run.lose_everything()
            run.resume("--set", "timeouts.resume_timeout_ms=1000")
            run.wait_text("continues from the checkpoint of step ")
            run.wait_step(good + 5)
            self.assert_stops_clean(run)

    def test_a_store_that_refuses_costs_checkpoints_and_nothing_else(self):
        with Run(self.config()) as run:
            self.wait_good(run)
            open(self.broken, "w").close()
            bad = run.wait_status(lambda s: s["checkpoint"]["failures"] > 1, what="failures")["checkpoint"]
            self.assertIn("SlowDown: reduce your request rate", bad["reason"])
            self.assertEqual(run.text().count("warning: no checkpoint was written: "), 1)
            os.remove(self.broken)
            run.wait_text("checkpoints are written again: step ")
            self.assert_stops_clean(run)

    def test_a_place_belongs_to_one_run_at_a_time(self):
        with Run(self.config()) as first:
            self.wait_good(first)
            second = Run(self.config())
            with second:
                self.assertNotEqual(second.wait(), 0)
                self.assertIn(f"belongs to run {first.name}, which trains on ", second.text("stderr"))
            self.assert_stops_clean(first)

    def test_mistakes_are_named_before_anything_starts(self):
        for checkpoint, expected in (
                ({"client": "/nonexistent"}, "the client /nonexistent cannot be run: No such file or directory; install it on each host"),
                ({"directory": "gs://bucket/x", "client": ""}, "needs checkpoint.client, a program that reaches it"),
                ({"directory": f"{self.directory}/plain"}, "is for a checkpoint.directory in an object store")):
            with self.subTest(expected), Run(self.config(**checkpoint)) as run:
                self.assertNotEqual(run.wait(), 0)
                self.assertIn(expected, run.text("stderr"))
        open(self.broken, "w").close()
        with Run(self.config()) as run:
            self.assertEqual(run.wait(), 73)
            self.assertIn("checkpoints cannot be written to checkpoint.directory dir://", run.text("stderr"))
            self.assertIn("the client " + self.client + " ended with status 1: SlowDown", run.text("stderr"))


def tool(name):
    return shutil.which(name, path=f"{TOOLS}:{os.environ['PATH']}")


class S3(Places):
    """A server of S3's interface, with the clients that people have."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not tool("moto_server"):
            raise unittest.SkipTest("no server of S3's interface is installed: scripts/setup.sh torch")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        cls.server = subprocess.Popen([tool("moto_server"), "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL)
        cls.addClassCleanup(cls.end_server)
        cls.url = f"http://127.0.0.1:{port}"
        cls.variables = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": "us-east-1",
                         "AWS_ENDPOINT_URL": cls.url, "PATH": f"{os.environ['PATH']}:{TOOLS}", "RCLONE_CONFIG": "/dev/null",
                         "RCLONE_CONFIG_STORE_TYPE": "s3", "RCLONE_CONFIG_STORE_PROVIDER": "Other",
                         "RCLONE_CONFIG_STORE_ENDPOINT": cls.url, "RCLONE_CONFIG_STORE_ACCESS_KEY_ID": "testing",
                         "RCLONE_CONFIG_STORE_SECRET_ACCESS_KEY": "testing"}
        before = dict(os.environ)
        cls.addClassCleanup(lambda: (os.environ.clear(), os.environ.update(before)))
        os.environ.update(cls.variables)
        os.environ.pop("AWS_CA_BUNDLE", None)
        cls.make_bucket()

    @classmethod
    def end_server(cls):
        cls.server.kill()
        cls.server.wait()

    @classmethod
    def make_bucket(cls):
        for _ in range(200):
            try:
                urllib.request.urlopen(urllib.request.Request(f"{cls.url}/models", method="PUT")).close()
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError("the server of S3's interface does not answer")

    def place(self):
        return {"directory": f"{self.scheme}/{self.id().rpartition('.')[2]}"}

    def test_with_the_aws_command_line(self):
        if not tool("aws"):
            self.skipTest("aws is not installed: scripts/setup.sh torch")
        self.scheme = "s3://models"
        self.goes_on_by_name_and_from_another_machine()
        with Run(self.config(directory="s3://none/run")) as run:
            self.assertEqual(run.wait(), 73)
            self.assertIn("The specified bucket does not exist", run.text("stderr"))

    def test_with_rclone(self):
        if not tool("rclone"):
            self.skipTest("rclone is not installed")
        self.scheme = "rclone://STORE/models"
        self.goes_on_by_name_and_from_another_machine()


if __name__ == "__main__":
    harness.main()
