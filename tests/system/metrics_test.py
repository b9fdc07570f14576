"""The figures of a run for Prometheus: over HTTP, as a file, checked by promtool and read by a real Prometheus."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request

import harness
from harness import Case, Run, job, pids, synthetic, wait_until

DASHBOARD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "monitoring", "grafana.json")


def get(url, accept=None):
    request = urllib.request.Request(url, headers={"Accept": accept} if accept else {})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode(), answer.headers["Content-Type"]


def value(text, name, **labels):
    """The value of the one sample with these labels; None: there is none."""
    for line in text.splitlines():
        found = re.match(rf"{name}\{{(.*)\}} (\S+)$", line)
        if found and all(f'{key}="{wanted}"' in found[1] for key, wanted in labels.items()):
            return float(found[2])
    return None


def url_of(run):
    run.wait_text("metrics: http://")
    return re.search(r"metrics: (http://\S+)", run.text("stderr"))[1]


class Metrics(Case):
    def test_a_run_is_scraped_while_it_changes_and_recovers(self):
        with tempfile.TemporaryDirectory(prefix="et-metrics-") as folder, Run(self.saving_job(folder)) as run:
            run.wait_size(2)
            url = url_of(run)
            self.assertTrue(url.startswith("http://127.0.0.1:"), "nobody else reaches it unless asked for")
            run.do("resize", "3")
            run.wait_size(3)
            wait_until(lambda: value(get(url)[0], "elastictrain_workers") == 3, 30, "three workers in the metrics")
            os.kill(pids(run.status())[1], signal.SIGKILL)
            run.wait_event("loss")
            wait_until(lambda: value(get(url)[0], "elastictrain_losses_total", **{"class": "crash"}) == 1, 30, "the loss")
            run.wait_size(3)
            before = value(get(url)[0], "elastictrain_steps_total")
            wait_until(lambda: value(get(url)[0], "elastictrain_steps_total") > before, 30, "more steps")
            wait_until(lambda: value(get(url)[0], "elastictrain_idle_seconds_total", change="grow") is not None, 30, "idle time")
            wait_until(lambda: value(get(url)[0], "elastictrain_checkpoint_age_seconds") is not None, 60, "a checkpoint")
            part = {"rank": "2", "part": "compute"}  # the new worker's first sample comes after its first step
            wait_until(lambda: (value(get(url)[0], "elastictrain_worker_step_part_seconds", **part) or 0) > 0, 30, "its times")
            text, kind = get(url)
            self.assertIn("version=0.0.4", kind)
            # Each has a note in the journal, and the figures follow it.
            written = {float(note["value"].split()[0]) for note in run.events("note", key="checkpoint_written")}
            self.assertIn(value(text, "elastictrain_checkpoint_step"), written)
            self.assertGreaterEqual(value(text, "elastictrain_checkpoint_age_seconds"), 0)
            self.assertEqual(value(text, "elastictrain_changes_total", change="grow"), len(run.events("generation", kind="grow")))
            self.assertGreater(value(text, "elastictrain_step_seconds_count"), 0)
            self.assertEqual(value(text, "elastictrain_run_info", run=run.name), 1)
            open_text, kind = get(url, "application/openmetrics-text; version=1.0.0")
            self.assertIn("openmetrics", kind)
            self.assertTrue(open_text.endswith("# EOF\n"))
            with self.assertRaises(urllib.error.HTTPError):
                get(url.replace("/metrics", "/"))
            self.promtool(text)
            self.assert_ends_clean(run)

    def saving_job(self, folder):
        return job(metrics={"listen": "0"}, checkpoint={"directory": folder, "interval_steps": 10})

    def promtool(self, text):
        if shutil.which("promtool") is None:
            print("SKIPPED: promtool check metrics: promtool is not installed", flush=True)
            return
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        wrong = text.replace("# TYPE elastictrain_steps_total counter", "# TYPE elastictrain_steps_total gauge")
        self.assertNotEqual(subprocess.run(["promtool", "check", "metrics"], input=wrong, capture_output=True, text=True,
                                           timeout=60).returncode, 0, "promtool finds a mistake")

    def test_clients_that_say_nothing_or_too_much_hold_nothing_up(self):
        with Run(job(metrics={"listen": "0"})) as run:
            url = url_of(run)
            run.wait_size(2)
            port = int(url.rsplit(":", 1)[1].split("/")[0])
            silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(12)]
            loud = socket.create_connection(("127.0.0.1", port))
            try:
                loud.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 100_000)
                loud.settimeout(60)
                self.assertEqual(loud.recv(1), b"", "closed without an answer")
            except ConnectionError:
                pass
            self.assertEqual(value(get(url)[0], "elastictrain_workers"), 2)
            for one in [*silent, loud]:
                one.close()
            run.wait_more_steps(20)
            self.assert_stops_clean(run)

    def test_an_address_in_use_is_said_and_the_run_trains(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with Run(job(trainer=synthetic(epochs=1, samples=64), metrics={"listen": str(port)})) as run:
                self.assertEqual(run.wait(), 0)
                self.assertIn(f"warning: the metrics are not served: metrics.listen: cannot listen on 127.0.0.1:{port}",
                              run.text("stderr"))
        with Run("metrics.listen = 'everywhere'") as run:
            self.assertEqual(run.wait(), 78)
            self.assertIn("is not a port", run.text("stderr"))

    def test_a_file_for_node_exporter_lasts_as_long_as_the_run(self):
        with tempfile.TemporaryDirectory(prefix="et-metrics-") as folder:
            path = os.path.join(folder, "job.prom")
            with Run(job(metrics={"file": path, "interval_ms": 100})) as run:
                run.wait_size(2)

                def steps():
                    with open(path) as file:
                        return value(file.read(), "elastictrain_steps_total") or 0

                wait_until(lambda: os.path.exists(path) and steps() > 0, 30, "steps in the file")
                before = steps()
                wait_until(lambda: steps() > before, 30, "a newer file")
                self.assert_stops_clean(run)
                self.assertEqual(os.listdir(folder), [])

    def test_a_file_that_cannot_be_written_is_said_once(self):
        with Run(job(metrics={"file": "/proc/none/job.prom", "interval_ms": 100})) as run:
            run.wait_size(2)
            run.wait_text("warning: metrics.file /proc/none/job.prom cannot be written")
            run.wait_more_steps(40)
            self.assert_stops_clean(run)
            self.assertEqual(run.text("stderr").count("cannot be written"), 1)

    def test_a_real_prometheus_reads_it_and_the_dashboard_asks_for_what_there_is(self):
        if shutil.which("prometheus") is None:
            self.skipTest("prometheus is not installed (scripts/setup.sh test)")
        with tempfile.TemporaryDirectory(prefix="et-prometheus-") as folder, \
                Run(self.saving_job(os.path.join(folder, "checkpoints"))) as run:
            run.wait_size(2)
            target = url_of(run).split("/")[2]
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            with open(os.path.join(folder, "prometheus.yml"), "w") as file:
                file.write("global: {scrape_interval: 200ms, scrape_timeout: 200ms}\nscrape_configs:\n"
                           f"  - {{job_name: elastictrain, static_configs: [{{targets: ['{target}']}}]}}\n")
            log = open(os.path.join(folder, "log"), "w")
            server = subprocess.Popen(["prometheus", f"--config.file={folder}/prometheus.yml",
                                       f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"],
                                      stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            try:
                self.ask_prometheus(run, port)
            finally:
                server.terminate()
                server.wait(60)
                log.close()
            self.assert_stops_clean(run)

    def ask_prometheus(self, run, port):
        def query(expression):
            try:
                text, _ = get(f"http://127.0.0.1:{port}/api/v1/query?query={urllib.request.quote(expression)}")
            except (OSError, urllib.error.URLError):
                return None
            return json.loads(text)["data"]["result"]

        wait_until(lambda: query("elastictrain_workers"), 120, "a scrape")
        self.assertEqual(query("elastictrain_workers")[0]["value"][1], "2")
        self.assertEqual(query("elastictrain_workers")[0]["metric"]["run"], run.name)
        wait_until(lambda: query("rate(elastictrain_steps_total[1m]) > 0"), 120, "a rate of steps")
        run.do("resize", "3")
        wait_until(lambda: query("elastictrain_idle_seconds_total"), 120, "idle time")
        wait_until(lambda: query("elastictrain_checkpoint_age_seconds"), 120, "a checkpoint")
        with open(DASHBOARD) as file:
            board = json.load(file)
        text, _ = get(url_of(run))
        present = set(re.findall(r"(?m)^(elastictrain_\w+)\{", text))
        not_yet = {"elastictrain_losses_total", "elastictrain_scaling_efficiency_ratio"}
        for panel in board["panels"]:
            for target in panel["targets"]:
                expression = target["expr"].replace("$run", run.name)
                self.assertIsNotNone(query(expression), f"{panel['title']}: {expression}")
                asked = set(re.findall(r"elastictrain_\w+", target["expr"]))
                self.assertLessEqual(asked - not_yet, present, f"{panel['title']} asks for what no run has")


if __name__ == "__main__":
    harness.main()
