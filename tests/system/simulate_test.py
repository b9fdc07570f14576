"""`elastictrain simulate` on real traces: published figures, formats, bad input."""

import csv
import gzip
import io
import json
import os
import subprocess
import tarfile
import tempfile
import unittest
import xml.etree.ElementTree

from harness import BINARY, Case

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")
MURI = os.path.join(DATA, "traces", "muri", "trace3_pr.csv")
JOBS = os.path.join(DATA, "traces", "elasticflow", "195job.csv")
CURVES = os.path.join(DATA, "curves", "elasticflow")
HEADER = ("trace,vc,policy,gpus,cost,seed,jobs,avg_jct_s,median_jct_s,p99_jct_s,max_jct_s,makespan_s,utilization,"
          "decisions,changes,finish_time_ratio_mean,finish_time_ratio_max,wall_s")
# Average, makespan and p99 of Muri's simulator (simulator/draw_fig9-10.py of Rivendile/Muri) on this file, 64 GPUs.
PUBLISHED = {"srtf": (844394.780, 7261795.828, 6363099.549), "srsf": (798057.6829, 6907790.403, 6228160.594),
             "tiresias-l": (2213110.128, 6761641.420, 6739568.999)}
UNPRIVILEGED = ("setpriv", "--reuid=65534", "--clear-groups") if os.geteuid() == 0 else ()
CLUSTER = os.path.join(DATA, "journals", "cluster-worth.jsonl")
NORMALISED = "job_id,arrival_s,work_iterations,requested_gpus,curve\n"


def simulate(*arguments, before=()):
    return subprocess.run([*before, BINARY, "simulate", *arguments], check=False, capture_output=True, text=True,
                          timeout=120)


def without_time(output):
    return [line.rsplit(",", 1)[0] for line in output.splitlines()]


class Simulate(Case):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def results(self, *arguments):
        done = simulate(*arguments, "--csv")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[0], HEADER)
        return {row["policy"]: row for row in csv.DictReader(io.StringIO(done.stdout))}

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "wb" if isinstance(text, bytes) else "w") as file:
            file.write(text)
        return path

    def test_the_published_figures_of_muri_are_reproduced(self):
        results = self.results(MURI, "--policy", ",".join(PUBLISHED), "--gpus", "64", "--cost", "muri")
        for policy, expected in PUBLISHED.items():
            for field, value in zip(("avg_jct_s", "makespan_s", "p99_jct_s"), expected):
                self.assertAlmostEqual(float(results[policy][field]) / value, 1, delta=1e-6, msg=(policy, field))

    def pollux_tables(self):
        """Of one model on one or two GPUs: global batches of 4 and 16, of which a GPU holds 4 samples."""
        os.mkdir(os.path.join(self.folder, "tables"))
        os.mkdir(os.path.join(self.folder, "tables", "m"))
        self.write("tables/m/placements.csv", "placement,local_bsz,step_time,sync_time\n"
                   "1,2,1.0,0.0\n1,4,1.5,0.1\n2,2,1.2,0.2\n2,4,2.0,0.2\n11,2,9,8\n")
        self.write("tables/m/scalability.csv", "num_nodes,num_replicas,local_bsz,step_time,sync_time\n")
        self.write("tables/m/validation-4.csv", "progress,iteration,metric,grad_sqr,grad_var\n1,50,0,1,1\n2,100,0,1,1\n")
        self.write("tables/m/validation-16.csv", "progress,iteration,metric,grad_sqr,grad_var\n1,15,0,1,1\n2,20,0,1,1\n")
        return os.path.join(self.folder, "tables")

    def test_workloads_of_pollux_at_the_batch_of_their_users_and_at_adapted_ones(self):
        tables = self.pollux_tables()
        workload = self.write("w.csv", "name,time,application,num_replicas,batch_size\na,0,m,1,4\n")
        results = self.results(workload, "--curves", tables, "--policy", "fifo,max-min,pollux", "--gpus", "2")
        # 100 steps of 1.5 s; of 1.2 s on two GPUs; 20 steps of 16 samples in two parts, 1.8 s and 2.0 s.
        for policy, seconds in (("fifo", 150), ("max-min", 120), ("pollux", 76)):
            self.assertAlmostEqual(float(results[policy]["avg_jct_s"]), seconds, places=6, msg=policy)
        # The same on two hosts: 100 steps of 9 s.
        results = self.results(workload, "--curves", tables, "--policy", "max-min", "--hosts", "2x1")
        self.assertAlmostEqual(float(results["max-min"]["avg_jct_s"]), 900, places=6)
        four = self.write("x.csv", "name,time,application,num_replicas,batch_size\na,0,m,1,16\n")
        results = self.results(four, "--curves", tables, "--policy", "fifo", "--gpus", "1")
        self.assertAlmostEqual(float(results["fifo"]["avg_jct_s"]), 20 * (1.5 + 3 * 1.4), places=6)

    def test_bad_tables_of_pollux(self):
        tables = self.pollux_tables()
        workload = self.write("w.csv", "name,time,application,num_replicas,batch_size\na,0,m,1,5\n")
        done = simulate(workload, "--curves", tables, "--policy", "pollux", "--gpus", "2")
        self.assertEqual(done.returncode, 78)
        self.assertIn("w.csv:2:1: job a: unknown curve 'jobs of m@5'; known are jobs of m@16", done.stderr)
        for name, text, part in (("validation-4.csv", "progress,iteration\n1,-3\n", "validation-4.csv:2:3"),
                                 ("validation-4.csv", "progress,iteration\n", "it has no epoch"),
                                 ("validation-x.csv", "progress,iteration\n1,1\n", "must end in a global batch"),
                                 ("placements.csv", "placement,local_bsz\n1,2\n", "placements.csv:2:1: there is no column step_time")):
            self.write("tables/m/validation-4.csv", "progress,iteration\n1,100\n")
            path = self.write("tables/m/" + name, text)
            done = simulate(workload, "--curves", tables, "--policy", "pollux", "--gpus", "2")
            self.assertEqual(done.returncode, 78, done.stderr)
            self.assertIn(part, done.stderr)
            os.unlink(path)

    def test_afs_has_the_least_average(self):
        policies = "fifo,srtf,srsf,max-min,tiresias-l,optimus,afs-l"
        results = self.results(JOBS, "--policy", policies, "--gpus", "64", "--curves", CURVES)
        averages = {policy: float(row["avg_jct_s"]) for policy, row in results.items()}
        self.assertEqual(min(averages, key=averages.get), "afs-l")

    def test_swaps_cost_less_than_restarts(self):
        times = {}
        for cost in ("none", "swap", "restart"):
            results = self.results(JOBS, "--policy", "afs-l", "--gpus", "64", "--curves", CURVES, "--cost", cost,
                                   "--time-scale", "60")
            times[cost] = float(results["afs-l"]["avg_jct_s"])
        self.assertLess(times["none"], times["swap"])
        self.assertLess(times["swap"], times["restart"])

    def test_hosts_that_are_shared_slow_or_failing_cost_time(self):
        averages = {}
        for name, flags in (("pool", ("--gpus", "64")), ("calm", ("--hosts", "8x8")),
                            ("shared", ("--hosts", "8x8", "--interference", "0.3")), ("slow", ("--hosts", "8x8", "--stragglers", "0.5")),
                            ("failing", ("--hosts", "8x8", "--failures", "20000", "--seed", "3"))):
            results = self.results(JOBS, "--policy", "srtf,afs-l", "--curves", CURVES, *flags)
            averages[name] = {policy: float(row["avg_jct_s"]) for policy, row in results.items()}
            self.assertEqual({row["gpus"] for row in results.values()}, {"64"})
        for policy in ("srtf", "afs-l"):
            for worse in ("shared", "slow", "failing"):
                self.assertGreater(averages[worse][policy], averages["calm"][policy] * 1.01, f"{worse} {policy}")
        for arguments, part in ((("--hosts", "8"), "HOSTSxSLOTS"), (("--hosts", "0x4"), "HOSTSxSLOTS"),
                                (("--gpus", "8", "--failures", "9"), "need hosts"),
                                (("--hosts", "2x4", "--interference", "1"), "--interference"),
                                (("--hosts", "2x4", "--gpus", "8"), "--gpus")):
            done = simulate(JOBS, "--policy", "srtf", "--curves", CURVES, *arguments)
            self.assertEqual(done.returncode, 64, done.stderr)
            self.assertIn(part, done.stderr)
        done = simulate(JOBS, "--policy", "max-min-fluid", "--curves", CURVES, "--hosts", "2x4")
        self.assertEqual(done.returncode, 78)
        self.assertIn("parts of slots", done.stderr)
        done = simulate(JOBS, "--policy", "srtf", "--curves", CURVES, "--gpus", "8", "--packing", "0.9")
        self.assertEqual(done.returncode, 78)
        self.assertIn("--policy gandiva", done.stderr)

    def test_pairs_that_gain_save_time_and_those_that_lose_cost_little(self):
        times = {}
        for speed in (None, "0.9", "0.3"):
            flags = () if speed is None else ("--packing", speed)
            row = self.results(JOBS, "--policy", "gandiva", "--gpus", "24", "--curves", CURVES, *flags)["gandiva"]
            times[speed] = float(row["avg_jct_s"])
        self.assertLess(times["0.9"], times[None] * 0.95)
        self.assertLess(times["0.3"], times[None] * 1.25)

    def test_the_output_does_not_depend_on_the_number_of_cores(self):
        arguments = (JOBS, "--policy", "srtf,max-min,afs-l,afs-p,worth,gandiva", "--gpus", "24,64", "--curves", CURVES, "--csv")
        core = str(min(os.sched_getaffinity(0)))
        one, many = simulate(*arguments, before=("taskset", "-c", core)), simulate(*arguments)
        self.assertEqual(many.returncode, 0, many.stderr)
        self.assertEqual(without_time(one.stdout), without_time(many.stdout))

    def test_moves_between_hosts_shorten_jobs_in_a_fragmented_cluster(self):
        common = (JOBS, "--curves", CURVES, "--policy", "srtf,max-min,afs-l", "--hosts", "16x4", "--cost", "swap", "--limit", "60")
        apart, together = (self.results(*common, "--spread", "0.8", *words) for words in ((), ("--migration",)))
        for policy in ("srtf", "max-min", "afs-l"):
            self.assertLess(float(together[policy]["avg_jct_s"]), 0.99 * float(apart[policy]["avg_jct_s"]), policy)
        self.assertIn("need hosts", simulate(JOBS, "--policy", "fifo", "--gpus", "2", "--migration").stderr)

    def test_what_is_not_known_of_speeds_on_several_hosts_is_said_or_told(self):
        jobs = self.write("jobs.csv", NORMALISED + "a,0,10,2,c\n")
        self.write("curves.csv", "curve,gpus,iterations_per_s\nc,1,1\nc,2,2\n")
        common = (jobs, "--policy", "fifo", "--csv", "--hosts")
        self.assertIn("nothing is known of speeds on more hosts", simulate(*common, "2x1").stderr)
        for words in (("1x2",), ("2x1", "--spread", "0.5")):
            self.assertEqual(simulate(*common, *words).stderr, "")
        for value in ("0", "1.1", "nan", "x"):
            done = simulate(*common, "2x1", "--spread", value)
            self.assertEqual(done.returncode, 64)
            self.assertIn("is not a number above 0 and at most 1", done.stderr)
        self.assertIn("need hosts", simulate(jobs, "--policy", "fifo", "--gpus", "2", "--spread", "0.5").stderr)

    def test_a_program_that_decides_as_max_min_gives_the_same_table(self):
        program = "python3 " + os.path.join(os.path.dirname(os.path.dirname(DATA)), "scripts", "policies", "sharing.py")
        jobs = self.write("jobs.csv", "job_id,arrival_s,work_iterations,requested_gpus,curve\n" + "".join(
            f"j{i},{7 * i},{300 + 41 * i % 500},2,{'ab'[i % 2]}\n" for i in range(30)))
        self.write("curves.csv", "curve,gpus,iterations_per_s\n" + "".join(
            f"{name},{gpus},{gpus ** power}\n" for name, power in (("a", 0.9), ("b", 0.5)) for gpus in (1, 2, 4)))
        # Without costs: those of starts are counted in what a built-in policy says, and a program has the last word.
        for cluster in (("--gpus", "7"), ("--hosts", "3x3")):
            results = self.results(jobs, "--policy", "max-min," + program, *cluster)
            for row in results.values():
                del row["policy"], row["wall_s"]
            self.assertEqual(results["sharing.py"], results["max-min"])

    def test_a_program_that_does_not_decide_ends_the_simulation_with_78(self):
        jobs = self.write("jobs.csv", "job_id,arrival_s,work_iterations,requested_gpus,curve\na,0,10,1,c\n")
        self.write("curves.csv", "curve,gpus,iterations_per_s\nc,1,1\nc,2,2\n")
        for text, part in (("read a; echo rubbish; read b", "the policy p.sh: the program wrote a line that is not a decision"),
                           ("read a; echo '{\"jobs\":[{\"id\":0,\"slots\":9}]}'; read b", "job 0 is given 9 slots, and there are 2"),
                           ("read a; echo '{\"jobs\":[]}'; read b", "the policy p.sh leaves 1 jobs waiting for ever"),
                           ("exit 3", "the program ended with exit status 3")):
            program = self.write("p.sh", text + "\n")
            done = simulate(jobs, "--policy", "sh " + program, "--gpus", "2")
            self.assertEqual(done.returncode, 78, done.stderr)
            self.assertIn(part, done.stderr)
        for name, part in (("/no/such/program", "there is no executable program"), ("/no/such.so", "there is no such file")):
            done = simulate(jobs, "--policy", name, "--gpus", "2")
            self.assertEqual(done.returncode, 78)
            self.assertIn(part, done.stderr)

    def test_archives_are_read_as_they_are(self):
        with open(MURI, "rb") as file:
            text = file.read()
        packed = self.write("trace3_pr.csv.gz", gzip.compress(text))
        archive = os.path.join(self.folder, "all.tar.gz")
        with tarfile.open(archive, "w:gz") as file:
            file.add(MURI, arcname="trace3_pr.csv")
        arguments = ("--policy", "srtf", "--gpus", "64", "--csv")
        plain = without_time(simulate(MURI, *arguments).stdout)
        self.assertEqual(len(plain), 2)
        for path in (packed, archive, archive + ":trace3_pr.csv"):
            self.assertEqual(without_time(simulate(path, *arguments).stdout), plain, path)

    def test_the_jobs_of_each_run_are_written(self):
        jobs = os.path.join(self.folder, "jobs")
        results = self.results(JOBS, "--policy", "srtf,afs-l", "--gpus", "64", "--curves", CURVES, "--jobs", jobs)
        self.assertEqual(sorted(os.listdir(jobs)), ["195job-afs-l-64.csv", "195job-srtf-64.csv"])
        with open(os.path.join(jobs, "195job-afs-l-64.csv"), newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 195)
        mean = sum(float(row["jct_s"]) for row in rows) / len(rows)
        self.assertAlmostEqual(mean / float(results["afs-l"]["avg_jct_s"]), 1, delta=1e-9)

    def test_the_drawing_is_well_formed_and_names_the_policies(self):
        path = os.path.join(self.folder, "out.svg")
        self.results(JOBS, "--policy", "srtf,afs-l", "--gpus", "64", "--curves", CURVES, "--svg", path)
        text = "".join(xml.etree.ElementTree.parse(path).getroot().itertext())
        self.assertIn("srtf", text)
        self.assertIn("afs-l", text)

    def test_rows_out_of_order_are_sorted_and_large_requests_capped(self):
        self.write("curves.csv", "curve,gpus,iterations_per_s\na,1,1\na,2,1.5\n")
        path = self.write("jobs.csv", NORMALISED + "x,5,10,2,a\ny,0,10,2,a\n")
        done = simulate(path, "--policy", "fifo", "--gpus", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("sorted"), 1)
        self.assertEqual(done.stderr.count("ask for more than 1 GPU"), 1)

    def refused(self, text, *expected, name="jobs.csv", status=78, policy="fifo"):
        path = self.write(name, text)
        done = simulate(path, "--policy", policy, "--gpus", "4")
        self.assertEqual(done.returncode, status, (text[:200], done.stderr))
        for part in expected:
            self.assertIn(part, done.stderr)

    def test_bad_traces_are_refused_with_their_place(self):
        self.write("curves.csv", "curve,gpus,iterations_per_s\na,1,1\n")
        for row, *expected in (("x,none,1,1,a", ":2:3:", "arrival_s 'none' is not a number"),
                               ("x,nan,1,1,a", ":2:3:", "nan"),
                               ("x,0,-1,1,a", ":2:5:", "negative"),
                               ("x,0,1e16,1,a", ":2:5:", "1e15"),
                               ("x,0,1,0,a", ":2:7:", "requested_gpus"),
                               ("x,0,1,1.5,a", ":2:7:", "whole number"),
                               ("x,0,1,1", ":2:1:", "4 values for 5 columns"),
                               ("x,0,1,1,b", ":2:1:", "unknown curve 'b'", "known are a"),
                               ("x,0,1,1,a\nx,0,1,1,a", ":3:1:", "twice")):
            with self.subTest(row):
                self.refused(NORMALISED + row + "\n", *expected)
        self.refused("job_id,arrival_s\nx,0\n", ":1:1:", "normalised")
        self.refused("", ":1:1:")
        self.refused(NORMALISED, "no jobs")
        self.refused("x" * 100_000, "a line of 100000 bytes")

    def test_a_philly_trace_names_its_virtual_clusters(self):
        path = self.write("philly.csv", "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,60,1,60,a\n"
                                        "2017-10-09 07:01:05,60,1,60,b\n")
        done = simulate(path, "--vc", "a,b", "--policy", "fifo", "--gpus", "4", "--curves", CURVES, "--csv")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([line.split(",")[1] for line in done.stdout.splitlines()[1:]], ["a", "b"])
        done = simulate(path, "--vc", "c", "--policy", "fifo", "--gpus", "4", "--curves", CURVES)
        self.assertEqual(done.returncode, 78)
        self.assertIn("'c'", done.stderr)

    def cluster_journal(self, *jobs):
        """(id, submitted at, least, most, samples or None for a job that has not ended); 25 samples/s on each slot."""
        lines = [{"event": "hosts", "hosts": [{"host": "h1", "slots": 4}]}]
        for job, at_s, least, most, samples in jobs:
            lines.append({"event": "submitted", "job": job, "user": "ann", "uid": 1, "of_cluster": True, "unix_s": at_s,
                          "name": f"name{job}", "arguments": [], "working_directory": "/", "environment": [], "min": least,
                          "max": most, "start": most, "priority": 0, "suspends": False, "one_host": False,
                          "most_hosts": 0, "hosts": []})
            if samples is not None:
                rates = [{"workers": size, "samples_per_s": 25 * size, "views": 5} for size in (1, most)]
                lines.append({"event": "ended", "job": job, "status": 0, "why": "", "samples": samples, "slot_s": 40,
                              "rates": rates})
        return "".join(json.dumps({"seq": place, "t": 1, "up": place, **line}) + "\n" for place, line in enumerate(lines))

    def test_the_jobs_of_a_clusters_journal_run_again(self):
        """Of two jobs on four slots the second one needs all four: it waits for the first, which keeps what is free."""
        folder = os.path.join(self.folder, "lab")
        os.mkdir(folder)
        jobs = ((1, 1000, 1, 4, 4000), (2, 1010, 4, 4, 2000), (3, 1020, 1, 4, None))
        self.write("lab/journal.jsonl", self.cluster_journal(*jobs) + '{"seq": 9, "torn')
        results = self.results(folder, "--policy", "max-min", "--gpus", "4", "--jobs", self.folder)
        self.assertEqual((results["max-min"]["trace"], results["max-min"]["jobs"]), ("lab", "2"))
        with open(os.path.join(self.folder, "lab-max-min-4.csv")) as file:
            ends_s = {row["job_id"]: float(row["completion_s"]) for row in csv.DictReader(file)}
        self.assertEqual(ends_s, {"j1": 40, "j2": 60})
        done = simulate(folder, "--policy", "max-min", "--gpus", "4")
        self.assertIn("lab: 1 job left out, without an end or a sample: j3", done.stderr)
        self.assertIn("lab: 1 line cannot be read", done.stderr)

    def test_a_journal_that_cannot_be_simulated_is_refused(self):
        for text, expected in (('{"seq": 1, "t": 1, "up": 1, "event": "run_begins"}\n', "no journal of a cluster"),
                               (self.cluster_journal((1, 1, 1, 4, None)), "no job of this cluster has ended yet"),
                               (self.cluster_journal((1, -5, 1, 4, 10)), "journal.jsonl:2:1: times, samples"),
                               (self.cluster_journal((1, 5, 1, 4, 10**16)), "journal.jsonl:3:1: times, samples")):
            with self.subTest(expected):
                done = simulate(self.write("journal.jsonl", text), "--policy", "max-min", "--gpus", "4")
                self.assertEqual(done.returncode, 78, done.stderr)
                self.assertIn(expected, done.stderr)

    def test_bad_curves_are_refused(self):
        self.write("jobs.csv", NORMALISED + "x,0,1,1,a\n")
        for text, expected in (("curve,gpus,iterations_per_s\na,1,-1\n", ":2:5:"), ("curve,gpus,iterations_per_s\na,1,0\n", "more than 0"),
                               ("curve,gpus,iterations_per_s\n", "curves.csv:1:1: the table has no curve"),
                               ("global_batch_size,1,2\n64,,\n", "empty")):
            with self.subTest(text):
                curves = self.write("curves.csv", text)
                done = simulate(os.path.join(self.folder, "jobs.csv"), "--policy", "fifo", "--gpus", "4", "--curves", curves)
                self.assertEqual(done.returncode, 78)
                self.assertIn(expected, done.stderr)

    def test_a_cut_archive_is_refused(self):
        with open(MURI, "rb") as file:
            packed = gzip.compress(file.read())
        self.refused(packed[: len(packed) // 2], "cut or damaged", name="cut.csv.gz")

    def test_a_policy_that_the_trace_does_not_suit_is_refused(self):
        done = simulate(MURI, "--policy", "max-min", "--gpus", "64")
        self.assertEqual(done.returncode, 78)
        self.assertIn("throughputs at several", done.stderr)
        done = simulate(JOBS, "--policy", "afs-l", "--gpus", "64", "--curves", CURVES, "--lengths", "unknown")
        self.assertEqual(done.returncode, 78)
        self.assertIn("needs the jobs' lengths", done.stderr)

    def test_a_cluster_that_cannot_be_is_78(self):
        for policy, gpus, expected in (("fifo", "0", "--gpus"), ("fifo", "4,-1", "'-1'"), ("fifo", "1000001", "1000000"),
                                       ("afs", "4", "did you mean afs-l"), ("fifo,zzz", "4", "there are fifo")):
            with self.subTest(policy=policy, gpus=gpus):
                done = simulate(MURI, "--policy", policy, "--gpus", gpus)
                self.assertEqual(done.returncode, 78, done.stderr)
                self.assertIn(expected, done.stderr)

    def test_wrong_usage_is_64_and_a_missing_file_66(self):
        for arguments, expected in ((("--policy", "fifo"), "--load"),
                                    (("--policy", "fifo", "--gpus", "4", "--cost", "free"), "restart"),
                                    (("--gpus", "4"), "--policy")):
            with self.subTest(arguments):
                done = simulate(MURI, *arguments)
                self.assertEqual(done.returncode, 64, done.stderr)
                self.assertIn(expected, done.stderr)
        done = simulate("/no/such/trace.csv", "--policy", "fifo", "--gpus", "4")
        self.assertEqual(done.returncode, 66)
        self.assertIn("/no/such/trace.csv", done.stderr)

    def test_a_folder_of_curves_without_permission_is_66(self):
        os.chmod(self.folder, 0o755)
        closed = os.path.join(self.folder, "closed")
        model = os.path.join(self.folder, "tables", "model")
        for folder in (closed, model):
            os.makedirs(folder)
            os.chmod(folder, 0)
        self.addCleanup(lambda: [os.chmod(folder, 0o755) for folder in (closed, model)])
        for curves, said in ((closed, closed), (f"{closed}/below", closed), (os.path.dirname(model), model)):
            with self.subTest(curves=curves):
                done = simulate(JOBS, "--policy", "afs-l", "--gpus", "4", "--curves", curves, before=UNPRIVILEGED)
                self.assertEqual(done.returncode, 66, done.stderr)
                self.assertIn(said, done.stderr)
                self.assertIn("Permission denied", done.stderr)



class Past(Case):
    """`simulate --journal`: the past of a cluster, from its journal, beside what is predicted for it."""

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def replayed(self, *arguments):
        done = simulate("--journal", CLUSTER, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def refused(self, lines, *arguments):
        path = os.path.join(self.folder, "journal.jsonl")
        with open(path, "w") as file:
            file.write("".join(line + "\n" for line in lines))
        done = simulate("--journal", self.folder, *arguments)
        self.assertEqual((done.returncode, done.stdout), (78, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr

    def test_a_prediction_is_near_to_what_happened_and_decides_the_same(self):
        (result,) = json.loads(self.replayed("--json"))
        self.assertEqual((result["sizes_as_live"], result["sizes"]), (11, 11))
        self.assertEqual(len(result["jobs"]), 7)
        for job in result["jobs"]:
            self.assertEqual(job["live_sizes"], job["predicted_sizes"])
            self.assertLess(abs(job["predicted_s"] / job["live_s"] - 1), 0.1, job)
        table = self.replayed().splitlines()
        self.assertEqual(table[0], "worth, as live")
        self.assertEqual(table[1].split(), "job name live s predicted s difference sizes live predicted".split())
        self.assertEqual(table[-1], "sizes: 11 of 11 as live")

    def test_another_policy_is_asked_about_the_same_jobs(self):
        own, other = json.loads(self.replayed("--policy", "worth,fifo", "--json"))
        self.assertEqual((own["policy"], other["policy"], other["live_policy"]), ("worth", "fifo", "worth"))
        self.assertTrue(all(job["predicted_sizes"] == [1] for job in other["jobs"]), other)
        rows = list(csv.DictReader(io.StringIO(self.replayed("--policy", "fifo", "--csv"))))
        self.assertEqual([row["predicted_sizes"] for row in rows], ["1"] * 7)
        self.assertIn("fifo; live: worth\n", self.replayed("--policy", "fifo"))

    def test_a_journal_that_cannot_be_replayed_is_refused_with_a_sentence(self):
        with open(CLUSTER) as file:
            lines = file.read().splitlines()
        self.assertIn("it is empty", self.refused([]))
        self.assertIn("this is no journal of a cluster", self.refused(["not a journal"]))
        self.assertIn("not that of a cluster", self.refused(['{"seq":1,"event":"run_opened"}']))
        self.assertIn("its beginning is missing", self.refused(lines[1:]))
        begun = json.loads(lines[0])
        del begun["rules"]
        self.assertIn("which did not record what a replay needs", self.refused([json.dumps(begun), *lines[1:]]))
        self.assertIn("no job was submitted", self.refused(lines[:2]))
        outside = json.loads(lines[0])
        outside["rules"]["outside"] = True
        self.assertIn("a program or library decided", self.refused([json.dumps(outside), *lines[1:]]))
        self.assertIn("max-min-fluid", self.refused(lines, "--policy", "max-min-fluid"))
        self.assertEqual(simulate("--journal", os.path.join(self.folder, "nowhere")).returncode, 66)
        self.assertEqual(simulate("--journal", CLUSTER, "--gpus", "4").returncode, 64)

    def test_a_damaged_journal_is_replayed_without_the_lines_that_cannot_be_read(self):
        with open(CLUSTER) as file:
            lines = file.read().splitlines()
        lines[5:5] = ['{"seq":', "rubbish"]
        path = os.path.join(self.folder, "journal.jsonl")
        with open(path, "w") as file:
            file.write("\n".join(lines)[:-20])
        done = simulate("--journal", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("3 lines cannot be read, the first is line 6", done.stderr)
        self.assertIn("worth, as live", done.stdout)


if __name__ == "__main__":
    unittest.main()
