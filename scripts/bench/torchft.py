"""torchft on the same machine in the same run, with the events and the count of idle time of torchrun.py.

Each node is one process (torch_peer/train_torchft.py) beside one lighthouse, which waits 3 s at most for a worker that is
late. torchft is optional: where the Python that has torch lacks it, a row says so.
"""

import os
import subprocess

import rows
import torchrun

TUNED = ["--min_replicas", "1", "--join_timeout_ms", "3000", "--quorum_tick_ms", "50"]


def require(python):
    done = subprocess.run([python, "-c", "import torchft"], capture_output=True, text=True)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason"])[-1]
        raise rows.Unavailable(f"{python} has no torchft ({reason}); pip install torchft-nightly")


class Launch(torchrun.Launch):
    """One job of torchft on loopback. Its options are none."""

    replaces_workers = False  # its launchers do

    def __init__(self, *unused, **others):
        require(torchrun.python_with_torch())
        super().__init__()
        self.lighthouse = None

    def __exit__(self, *unused):
        if self.lighthouse is not None:
            self.lighthouse.kill()
            self.lighthouse.wait()
        super().__exit__(*unused)

    def add_node(self):
        if self.lighthouse is None:
            program = os.path.join(os.path.dirname(self.python), "torchft_lighthouse")
            self.lighthouse = self.launched([program, *TUNED, "--bind", f"[::]:{self.port}"], "lighthouse")
        node = f"n{len(self.agents)}"
        argv = [self.python, os.path.join(torchrun.PEER, "train_torchft.py")]
        self.agents[node] = self.launched(argv, node, TORCHFT_LIGHTHOUSE=f"http://127.0.0.1:{self.port}")
