"""`check` on hosts with stand-in GPUs: what each of them has, and where they differ."""

import os
import shlex

import harness
from harness import BINARY, Case
from lab import Lab


class Checks(Case):
    def test_what_hosts_have_is_told_and_what_differs_is_pointed_out(self):
        with Lab(hosts=3) as lab:
            home = lab.run_on_head(["ssh", "node1", "pwd"]).stdout.strip()
            names = ("CUDA", "NVRTC", "CUBLAS", "NCCL")
            libraries = {name: os.environ[f"ELASTICTRAIN_{name}_LIBRARY"] for name in names}
            for host, absent in (("node1", []), ("node2", ["NCCL"]), ("node3", ["CUDA"])):
                wanted = [path for name, path in libraries.items() if name not in absent]
                copied = lab.run_on_head(["ssh", host, "mkdir gpu && cp " + shlex.join(wanted) + " gpu"])
                self.assertEqual(copied.returncode, 0, copied.stderr)
            flags = [flag for name, path in libraries.items()
                     for flag in ("-x", f"ELASTICTRAIN_{name}_LIBRARY={home}/gpu/{os.path.basename(path)}")]
            done = lab.run_on_head([BINARY, "check", "-H", "node1:1,node2:1,node3:1", "--interface=eth0",
                                    "-x", "ET_STANDIN_GPUS=2", *flags, "--", "true"], timeout=60)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            for part in ("GPUs of node1,", "GPUs of node2,", "GPUs of node3,", f"2.28.9, {home}/gpu/", "GPU 1", "=eth0",
                         "warning: no GPU on node3, but on node1, node2.",
                         "warning: NCCL differs: 2.28.9 on node1; absent on node2.",
                         *(f"{host.name}  eth0       {host.address}" for host in lab.hosts)):
                self.assertIn(part, done.stdout)
            self.assertEqual(lab.wait_remote_pids_gone(), {})


if __name__ == "__main__":
    harness.main()
