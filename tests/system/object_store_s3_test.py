"""Checkpoints in a server of S3's interface, through the clients that people have."""

import os
import shutil
import socket
import subprocess
import time
import unittest
import urllib.request

import harness
from harness import Run
from object_store_test import SOURCE, Places

TOOLS = os.path.join(SOURCE, "build", "torch-venv", "bin")


def tool(name):
    return shutil.which(name, path=f"{TOOLS}:{os.environ['PATH']}")


class S3(Places):
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
