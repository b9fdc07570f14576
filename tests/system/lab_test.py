"""The lab itself: hosts are separate, reachable by name, limited in rate, and removed afterwards."""

import os
import subprocess
import sys
import time
import unittest

import lab as laboratory
from lab import Lab


def names_of(token):
    spaces = os.listdir("/run/netns") if os.path.isdir("/run/netns") else []
    return [name for name in spaces if token in name]


class LabTest(unittest.TestCase):
    def test_each_host_has_a_name_and_files_of_its_own(self):
        with Lab(hosts=2, hide=["/var/lib"]) as lab:
            for host in lab.hosts:
                said = lab.run_on_head(["ssh", host.name, "hostname; ls /var/lib | wc -l"])
                self.assertEqual(said.stdout.split(), [host.name, "0"], said.stderr)
            self.assertEqual(lab.wait_remote_pids_gone(), {})
        self.assertEqual(names_of(lab.token), [])
        self.assertFalse(os.path.exists(lab.directory))

    def test_a_pulled_cable_cuts_a_host_off(self):
        with Lab(hosts=1) as lab:
            lab.host("node1").set_link(False)
            said = lab.run_on_head(["ssh", "-o", "ConnectTimeout=1", "node1", "true"])
            self.assertEqual(said.returncode, 255)
            lab.host("node1").set_link(True)
            self.assertEqual(lab.run_on_head(["ssh", "node1", "true"]).returncode, 0)

    def test_a_cut_in_either_direction_is_silent_and_heals(self):
        with Lab(hosts=1) as lab:
            for incoming in (True, False):
                lab.host("node1").cut(incoming=incoming, outgoing=not incoming)
                said = lab.run_on_head(["ssh", "-o", "ConnectTimeout=1", "node1", "true"])
                self.assertIn("timed out", said.stderr)
                lab.host("node1").heal()
                self.assertEqual(lab.run_on_head(["ssh", "node1", "true"]).returncode, 0)

    def test_a_host_without_power_loses_its_processes_and_nobody_hears_of_it(self):
        with Lab(hosts=1) as lab:
            session = lab.popen_on_head(["ssh", "node1", "echo up; sleep 60"], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
            self.assertEqual(session.stdout.readline(), "up\n")
            lab.host("node1").power_off()
            self.assertEqual(lab.host("node1").pids(), [])
            self.assertIsNone(session.poll())
            lab.host("node1").power_on()
            self.assertEqual(lab.run_on_head(["ssh", "node1", "true"]).returncode, 0)
            session.kill()
            session.communicate()

    def test_the_rate_limit_holds(self):
        with Lab(hosts=1, rate="80mbit") as lab:
            started = time.monotonic()
            lab.run_on_head(["ssh", "node1", "head -c 5000000 /dev/zero"])
            self.assertGreater(time.monotonic() - started, 0.4, "5 MB at 10 MB/s take half a second")

    def test_what_a_killed_test_leaves_is_swept(self):
        program = ("import os, lab; l = lab.Lab(hosts=1); l.__enter__(); print(l.token, flush=True); os._exit(1)")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30,
                              cwd=os.path.dirname(os.path.abspath(laboratory.__file__)))
        token = done.stdout.strip()
        self.assertTrue(names_of(token), done.stderr)
        laboratory.sweep()
        self.assertEqual(names_of(token), [])


if __name__ == "__main__":
    try:
        laboratory.require_root()
        with Lab(hosts=1):
            pass
    except unittest.SkipTest as reason:
        print(f"SKIPPED: {reason}")
        sys.exit(77)
    unittest.main(verbosity=2)
