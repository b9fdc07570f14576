"""Three hosts with real sshd in network namespaces of their own; $LAB_RATE limits their links."""

import os
import signal

import harness
from harness import Case, Run, job, members, pids, synthetic, wait_until
from lab import Lab

RATE = os.environ.get("LAB_RATE")


def ssh_job(hosts, workers, trainer=None, **sections):
    return job(workers=workers, trainer=trainer, hosts={"list": hosts}, **sections)


class SshHosts(Case):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(hosts=3, rate=RATE)
        cls.addClassCleanup(cls.lab.close)
        cls.lab.__enter__()

    def setUp(self):
        self.unplugged = []

    def unplug(self, host):
        host.set_link(False)
        self.unplugged.append(host)

    def tearDown(self):
        for host in self.unplugged:
            host.set_link(True)
        self.assertEqual(self.lab.wait_remote_pids_gone(), {}, "the hosts are clean after every test")

    def start(self, config, **options):
        return Run(config, lab=self.lab, **options)

    def end(self, run, status=0):
        self.assertEqual(run.wait(), status)
        run.wait_no_processes()

    def test_a_host_that_boots_later_is_waited_for_where_it_is_needed(self):
        self.boots_later((3, 3, 3), lambda run: None)

    def test_a_host_that_boots_later_joins_a_run_that_can_begin_without_it(self):
        self.boots_later((1, 3, 3), lambda run: run.wait_size(2))

    def boots_later(self, workers, begin):
        late = self.lab.host("node3")
        late.power_off()
        try:
            with self.start(ssh_job(["node1:1", "node2:1", "node3:1"], workers)) as run:
                run.wait_text("host node3 could not be used: ")
                begin(run)
                late.power_on()
                run.wait_size(3, 60)
                self.assertEqual(run.text().count("host node3 could not be used: "), 1, "said once")
                self.assert_ends_clean(run)
        finally:
            late.power_on()

    def test_workers_of_three_hosts_train_together_and_change(self):
        config = ssh_job(["node1:2", "node2:2", "node3:2"], (1, 3, 6), synthetic(compute_us_per_sample=3000))
        with self.start(config) as run:
            before = pids(run.wait_size(3))
            run.do("resize", run.name, 6)
            grown = run.wait_size(6)
            self.assertEqual({worker["host"] for worker in members(grown)}, {"node1", "node2", "node3"})
            self.assertEqual(pids(grown)[:3], before)
            run.wait_more_steps(10)
            run.do("drain", run.name, "node1")
            drained = run.wait_status(lambda s: s["phase"] == "running"
                                      and "node1" not in {w["host"] for w in members(s)}, what="node1 drained")
            survivors = [w["pid"] for w in members(grown) if w["host"] != "node1"]
            self.assertEqual([pid for pid in pids(drained) if pid in survivors], survivors)
            run.do("resize", run.name, 2)
            run.wait_size(2)
            run.wait_more_steps(10)
            run.do("stop", run.name)
            self.end(run)
            self.assert_steps_continue(run)
            self.assert_audit_clean(run)

    def test_replacing_a_host_moves_its_workers(self):
        with self.start(ssh_job(["node1:1", "node2:1", "node3:1"], (1, 2, 3))) as run:
            before = members(run.wait_size(2))
            victim = before[1]["host"]
            run.do("replace", run.name, victim)
            after = run.wait_status(lambda s: s["phase"] == "running" and len(members(s)) == 2
                                    and before[1]["pid"] not in pids(s), what="the move")
            self.assertEqual(pids(after)[0], before[0]["pid"])
            run.do("stop", run.name)
            self.end(run)
            self.assert_audit_clean(run)

    def test_ctrl_c_leaves_no_process_on_any_host(self):
        with self.start(ssh_job(["node1:1", "node2:1", "node3:1"], (1, 3, 3))) as run:
            run.wait_size(3)
            run.signal(signal.SIGINT)
            self.end(run, 130)
            self.assert_audit_clean(run)

    def test_ctrl_c_twice_leaves_no_process_on_any_host(self):
        arguments = ["-n", "3", "-H", "node1,node2,node3", "--grace", "1", "--", "sh", "-c",
                     'trap "" TERM INT; echo started; while :; do sleep 0.2; done']
        with Run(arguments=arguments, lab=self.lab) as run:
            wait_until(lambda: run.text().count("started") == 3, 20, "three workers")
            run.signal(signal.SIGINT)
            run.signal(signal.SIGINT)
            self.end(run, 130)

    def test_a_killed_supervisor_leaves_no_process_after_the_grace(self):
        timeouts = {"orphan_grace_ms": 3000, "grace_ms": 2000}
        with self.start(ssh_job(["node1:1", "node2:1"], (1, 2, 2), timeouts=timeouts)) as run:
            run.wait_size(2)
            run.signal(signal.SIGKILL)
            run.process.wait()
            run.wait_more_steps(20, timeout=4)
            run.wait_no_processes(timeout=20)

    def test_a_host_that_does_not_answer_is_named_and_the_run_goes_on(self):
        self.unplug(self.lab.host("node2"))
        config = ssh_job(["node1:1", "node2:1", "node3:1"], (2, 3, 3), launcher={"connect_timeout_ms": 2000},
                         timeouts={"start_ms": 8000})
        with self.start(config) as run:
            status = run.wait_size(2)
            self.assertEqual({w["host"] for w in members(status)}, {"node1", "node3"})
            told = [line for line in run.text("stderr").splitlines() if "node2" in line]
            self.assertRegex("\n".join(told), "(?i)timed out|no route to host")
            run.do("stop", run.name)
            self.end(run)

    def test_too_few_hosts_end_the_run_with_69(self):
        for host in self.lab.hosts:
            self.unplug(host)
        config = ssh_job(["node1:1", "node2:1"], (2, 2, 2), launcher={"connect_timeout_ms": 1000},
                         timeouts={"start_ms": 6000})
        with self.start(config) as run:
            self.assertEqual(run.wait(), 69)
            for name in ("node1", "node2"):
                self.assertIn(name, run.text("stderr"))

    def test_an_unknown_host_key_is_refused_with_sshs_message(self):
        known = self.lab.path("known_hosts")
        with open(known) as file:
            before = file.read()
        try:
            with open(known, "w") as file:
                file.write("".join(line for line in before.splitlines(True) if not line.startswith("node3")))
            with self.start(ssh_job(["node3:1"], (1, 1, 1), timeouts={"start_ms": 6000})) as run:
                self.assertEqual(run.wait(), 69)
                self.assertIn("Host key verification failed", run.text("stderr"))
        finally:
            with open(known, "w") as file:
                file.write(before)

    def test_a_refused_key_is_said_with_the_command_to_try(self):
        allowed, identity = self.lab.path("authorized_keys"), self.lab.path("id")
        with open(allowed) as file:
            before = file.read()
        command = f"ssh -o BatchMode=yes -i {identity} node3 true"
        try:
            with open(allowed, "w") as file:
                file.write("")
            config = ssh_job(["node3:1"], (1, 1, 1), launcher={"ssh_identity": identity}, timeouts={"start_ms": 60_000})
            with self.start(config) as run:
                self.assertEqual(run.wait(60), 69)
                said = run.text("stderr")
                self.assertIn("Permission denied", said)
                self.assertIn("the host answers, but does not let you in with this key and user; try: " + command, said)
            self.assertEqual(self.lab.run_on_head(command.split()).returncode, 255)
        finally:
            with open(allowed, "w") as file:
                file.write(before)
        self.assertEqual(self.lab.run_on_head(command.split()).returncode, 0, "what is to be tried shows when it is mended")

    def test_host_names_cannot_smuggle_commands(self):
        marker = os.path.join(self.lab.directory, "smuggled")
        for name in (f"-oProxyCommand=touch {marker}", f"node1;touch {marker}", f"$(touch {marker})"):
            arguments = ["-n", "1", f"--hosts={name}", "--set", "timeouts.start_ms=5000", "--", "true"]
            with Run(arguments=arguments, lab=self.lab) as run:
                self.assertNotEqual(run.wait(), 0)
        self.assertFalse(os.path.exists(marker))

    def test_the_key_is_in_no_argument_of_ssh_or_the_remote_side(self):
        with self.start(ssh_job(["node1:1", "node2:1"], (1, 2, 2))) as run:
            run.wait_size(2)
            everything = [run.process.pid] + run.processes() + [pid for own in self.lab.remote_pids().values() for pid in own]
            for pid in everything:
                text = harness.command_of(pid) + harness.environ_of(pid).decode(errors="replace")
                self.assertNotRegex(text.replace(run.token, ""), r"(?<![0-9a-fA-F])[0-9a-fA-F]{64}(?![0-9a-fA-F])")
            run.do("stop", run.name)
            self.end(run)


if __name__ == "__main__":
    harness.main()
