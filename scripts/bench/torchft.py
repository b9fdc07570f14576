"""torchft on the same machine in the same run, with the events and the count of idle time of torchrun.py.

Each node is one process (torch_peer/train_torchft.py) beside one lighthouse. How long that waits for a worker that is late,
and so for a lost one until its heartbeats are missed for 5 s, is its flag --join_timeout_ms: JOIN_TIMEOUTS_MS has a short one,
a careful one and its default. torchft is optional: where the Python that has torch lacks it, a row says so.
"""

import os
import subprocess

import rows
import torchrun

TUNED = ["--min_replicas", "1", "--quorum_tick_ms", "50"]
JOIN_TIMEOUTS_MS = (300, 3_000, 60_000)


def require(python):
    done = subprocess.run([python, "-c", "import torchft"], capture_output=True, text=True)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason"])[-1]
        raise rows.Unavailable(f"{python} has no torchft ({reason}); pip install torchft-nightly")


class Launch(torchrun.Launch):
    """One job of torchft on loopback. Its options are none."""

    replaces_workers = False  # its launchers do
    join_timeout_ms = 3_000

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
            self.lighthouse = self.launched([program, *TUNED, "--join_timeout_ms", str(self.join_timeout_ms),
                                             "--bind", f"[::]:{self.port}"], "lighthouse")
        node = f"n{len(self.agents)}"
        argv = [self.python, os.path.join(torchrun.PEER, "train_torchft.py")]
        self.agents[node] = self.launched(argv, node, TORCHFT_LIGHTHOUSE=f"http://127.0.0.1:{self.port}")


def launch_with(timeout_ms):
    """The kind of job whose lighthouse has this --join_timeout_ms."""
    return type("Launch", (Launch,), {"join_timeout_ms": timeout_ms})
