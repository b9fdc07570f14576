"""A program without our library runs with a fixed size, as it does under torchrun."""

import json
import os

import harness
from harness import Case, Run, job, pids, wait_until

SHOW = 'env | sort > "$OUT/$ELASTICTRAIN_WORKER_ID"; pwd >> "$OUT/$ELASTICTRAIN_WORKER_ID.cwd"'


class Environment(Case):
    def environments(self, workers, *flags, environment=None):
        run = Run(environment=environment)
        run.argv += ["-n", str(workers), "-x", f"OUT={run.directory}", *flags, "--", "sh", "-c", SHOW]
        with run:
            self.assertEqual(run.wait(), 0, run.text())
            found = []
            for worker in range(1, workers + 1):
                with open(os.path.join(run.directory, str(worker))) as file:
                    found.append(dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line))
            return sorted(found, key=lambda variables: int(variables["RANK"])), run.name

    def test_torchs_names_are_set(self):
        found, name = self.environments(3)
        for rank, variables in enumerate(found):
            wanted = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3",
                      "GROUP_RANK": "0", "NODE_RANK": "0", "GROUP_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
                      "TORCHELASTIC_RESTART_COUNT": "0"}
            self.assertEqual({key: variables.get(key) for key in wanted}, wanted)
            self.assertIn("TORCHELASTIC_RUN_ID", variables)
            self.assertIn("TORCHELASTIC_MAX_RESTARTS", variables)
            self.assertIn("TORCHELASTIC_ERROR_FILE", variables)
        self.assertEqual(len({variables["MASTER_PORT"] for variables in found}), 1)
        self.assertTrue(0 < int(found[0]["MASTER_PORT"]) < 65536)

    def test_our_own_names_are_set(self):
        found, name = self.environments(2)
        self.assertEqual(sorted(v["ELASTICTRAIN_WORKER_ID"] for v in found), ["1", "2"])
        for variables in found:
            self.assertIn("ELASTICTRAIN_SOCKET", variables)
            self.assertIn("ELASTICTRAIN_JOB_ID", variables)
            self.assertIn("ELASTICTRAIN_GENERATION", variables)

    def test_threads_are_limited_only_where_nobody_chose(self):
        found, _ = self.environments(2, "-x", "OMP_NUM_THREADS=7")
        self.assertEqual({v["OMP_NUM_THREADS"] for v in found}, {"7"})
        if "OMP_NUM_THREADS" not in os.environ:
            found, _ = self.environments(2)
            self.assertEqual({v.get("OMP_NUM_THREADS") for v in found}, {"1"})
            found, _ = self.environments(1)
            self.assertEqual({v.get("OMP_NUM_THREADS") for v in found}, {None})

    def test_variables_are_passed_by_name_and_by_value(self):
        found, _ = self.environments(1, "-x", "ET_SEEN", "-x", "ET_GIVEN=a b", environment={"ET_SEEN": "yes"})
        self.assertEqual((found[0]["ET_SEEN"], found[0]["ET_GIVEN"]), ("yes", "a b"))

    def test_each_worker_sees_a_mig_instance_of_its_own(self):
        found, _ = self.environments(3, "-x", "CUDA_VISIBLE_DEVICES=MIG-a,MIG-b,MIG-c")
        self.assertEqual([variables["CUDA_VISIBLE_DEVICES"] for variables in found], ["MIG-a", "MIG-b", "MIG-c"])

    def test_arguments_arrive_as_they_were_typed(self):
        words = ["", "a b", "$HOME", "--flag=1", "quo'te", "star*", "--", "-n"]
        run = Run()
        script = "import json,os,sys; json.dump(sys.argv[1:], open(os.environ['OUT'] + '/argv', 'w'))"
        run.argv += ["-n", "1", "-x", f"OUT={run.directory}", "--", "python3", "-c", script, *words]
        with run:
            self.assertEqual(run.wait(), 0, run.text())
            with open(os.path.join(run.directory, "argv")) as file:
                self.assertEqual(json.load(file), words)

    def test_a_torch_style_program_meets_its_peers_by_the_environment(self):
        script = """
import os, socket
rank, size, port = (int(os.environ[n]) for n in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
if rank == 0:
    server = socket.create_server((os.environ["MASTER_ADDR"], port))
    server.settimeout(20)
    seen = sorted(int(server.accept()[0].recv(16)) for _ in range(size - 1))
    assert seen == list(range(1, size)), seen
    print("all met")
else:
    import time
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection((os.environ["MASTER_ADDR"], port), timeout=5).send(str(rank).encode())
            break
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
"""
        with Run(arguments=["-n", "3", "--", "python3", "-c", script]) as run:
            self.assertEqual(run.wait(), 0, run.text())
            self.assertIn("all met", run.text())


def cores(processors):
    """The cores that these processors are threads of, each by the list of its threads."""
    found = set()
    for processor in processors:
        with open(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list") as file:
            found.add(file.read())
    return found


def processors_of(pid):
    """The processors that every thread of the process may use."""
    found = {frozenset(os.sched_getaffinity(int(thread))) for thread in os.listdir(f"/proc/{pid}/task")}
    return found.pop() if len(found) == 1 else found


class Processors(Case):
    def test_each_worker_keeps_to_its_share_and_so_does_who_takes_its_slot(self):
        allowed = os.sched_getaffinity(0)
        if len(cores(allowed)) < 2:
            self.skipTest("there is one core only")
        with Run(job(workers=(1, 2, 2)), arguments=["--bind", "core"]) as run:
            before = pids(run.wait_size(2))
            shares = [processors_of(pid) for pid in before]
            self.assertEqual(shares[0] | shares[1], allowed)
            self.assertFalse(shares[0] & shares[1])
            run.do("replace", run.name, 1)
            wait_until(lambda: pids(run.status())[1:] not in ([], before[1:]), 30, "the replacement")
            after = pids(run.wait_size(2))
            self.assertEqual([processors_of(pid) for pid in after], shares)
            self.assert_stops_clean(run)


if __name__ == "__main__":
    harness.main()
