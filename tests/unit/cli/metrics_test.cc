#include <doctest/doctest.h>

#include <asio/buffer.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <limits>
#include <string>
#include <vector>

#include "cli/metrics/exporter.h"
#include "cli/metrics/exposition.h"
#include "cli/metrics/run_metrics.h"
#include "tests/support/contains.h"

using namespace elastictrain;
using namespace elastictrain::cli;
using namespace elastictrain::cli::metrics;
using elastictrain::test::contains;

namespace {

RunFigures figures_of(std::uint32_t workers, std::uint64_t sequence, double step_us) {
  RunFigures figures;
  figures.view.phase = core::RunPhase::kRunning;
  figures.view.world_size = workers;
  figures.view.target_size = workers + 1;
  figures.step = 10 * sequence;
  figures.loss = 0.5;
  figures.samples_per_s = 123.5;
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    core::WorkerView worker;
    worker.worker = WorkerId{rank + 1};
    worker.phase = core::WorkerPhase::kMember;
    worker.rank = rank;
    worker.host = "node\"1\\";
    worker.heartbeat.sequence = sequence;
    worker.heartbeat.steps = 10;
    worker.heartbeat.samples_used = 320 * sequence;
    worker.heartbeat.mean.step_us = step_us;
    worker.heartbeat.mean.compute_us = step_us / 2;
    figures.view.workers.push_back(worker);
  }
  return figures;
}

std::string all() {
  return "the metrics\n";
}

std::string asked(const std::string& head) {
  return http_answer(head + "\r\n\r\n",
                     [](Format format) { return all() + (format == Format::kText ? "text" : "open"); });
}

}  // namespace

TEST_CASE("metrics have their type, their help and escaped labels") {
  const std::vector<Family> families = {
      {"jobs", Kind::kCounter, "How many.", {{"", {{"name", "a\"b\\c\nd"}}, 3}}},
      {"size", Kind::kGauge, "How large.", {{"", {}, std::numeric_limits<double>::infinity()}}},
      {"none", Kind::kGauge, "Not known.", {}},
  };
  const std::string text = exposition(families, {{"run", "r"}}, Format::kText);
  CHECK(text ==
        "# HELP jobs_total How many.\n# TYPE jobs_total counter\njobs_total{run=\"r\",name=\"a\\\"b\\\\c\\nd\"} 3\n"
        "# HELP size How large.\n# TYPE size gauge\nsize{run=\"r\"} +Inf\n");
  const std::string open = exposition(families, {}, Format::kOpenMetrics);
  CHECK(contains(open, "# TYPE jobs counter\njobs_total{"));
  CHECK(open.ends_with("# EOF\n"));
}

TEST_CASE("a histogram counts each value below every limit that it does not exceed") {
  Histogram histogram({0.1, 1});
  histogram.add(0.1, 2);
  histogram.add(0.5);
  histogram.add(7);
  histogram.add(std::numeric_limits<double>::quiet_NaN());
  const std::string text = exposition({{"s", Kind::kHistogram, "Seconds.", histogram.samples()}}, {}, Format::kText);
  CHECK(
      contains(text, "s_bucket{le=\"0.1\"} 2\ns_bucket{le=\"1\"} 3\ns_bucket{le=\"+Inf\"} 4\ns_sum 7.7\ns_count 4\n"));
}

TEST_CASE("the metrics of a run follow its figures and its journal") {
  RunMetrics metrics("job", "1.2.3");
  metrics.add_figures(figures_of(2, 1, 20'000));
  metrics.add_figures(figures_of(2, 1, 20'000));  // the same heartbeat again
  metrics.add_figures(figures_of(2, 2, 30'000));
  core::record::GenerationComplete complete;
  complete.generation = 2;
  complete.kind = protocol::ChangeKind::kGrow;
  metrics.add_record(complete);
  metrics.add_record(core::record::Idle{2, 250});
  metrics.add_record(core::record::Idle{9, 500});
  metrics.add_record(core::record::Loss{"crash", 1, "w2"});
  metrics.add_record(core::record::Note{WorkerId{1}, "checkpoint_failed", "no space"});
  const std::string text = metrics.text(Format::kText);
  CHECK(contains(text, "elastictrain_workers{run=\"job\"} 2\n"));
  CHECK(contains(text, "elastictrain_workers_target{run=\"job\"} 3\n"));
  CHECK(contains(text, "elastictrain_run_phase{run=\"job\",phase=\"running\"} 1\n"));
  CHECK(contains(text, "elastictrain_steps_total{run=\"job\"} 20\n"));
  CHECK(contains(text, "elastictrain_samples_total{run=\"job\"} 640\n"));
  CHECK(contains(text, "elastictrain_step_seconds_bucket{run=\"job\",le=\"0.02\"} 10\n"));
  CHECK(contains(text, "elastictrain_step_seconds_count{run=\"job\"} 20\n"));
  CHECK(contains(text, "elastictrain_changes_total{run=\"job\",change=\"grow\"} 1\n"));
  CHECK(contains(text, "elastictrain_idle_seconds_total{run=\"job\",change=\"grow\"} 0.25\n"));
  CHECK(contains(text, "elastictrain_idle_seconds_total{run=\"job\",change=\"other\"} 0.5\n"));
  CHECK(contains(text, "elastictrain_losses_total{run=\"job\",class=\"crash\"} 1\n"));
  CHECK(contains(text, "elastictrain_checkpoint_failures_total{run=\"job\"} 1\n"));
  CHECK(contains(text, "rank=\"1\",host=\"node\\\"1\\\\\",part=\"compute\"} 0.015\n"));
  CHECK(!contains(text, "scaling_efficiency"));
}

TEST_CASE("the newest good checkpoint has a step and an age where they are known") {
  RunMetrics metrics("job", "1");
  RunFigures figures = figures_of(2, 1, 20'000);
  metrics.add_figures(figures);
  CHECK(!contains(metrics.text(Format::kText), "elastictrain_checkpoint_step"));
  figures.checkpoint = {.step = 40, .age_s = std::nullopt, .failures = 0, .reason = ""};
  metrics.add_figures(figures);
  CHECK(contains(metrics.text(Format::kText), "elastictrain_checkpoint_step{run=\"job\"} 40\n"));
  CHECK(!contains(metrics.text(Format::kText), "elastictrain_checkpoint_age_seconds"));
  figures.checkpoint.age_s = 2.5;
  metrics.add_figures(figures);
  CHECK(contains(metrics.text(Format::kText), "elastictrain_checkpoint_age_seconds{run=\"job\"} 2.5\n"));
}

TEST_CASE("a change that cost no time is counted") {
  RunMetrics metrics("job", "1");
  core::record::GenerationComplete complete;
  complete.generation = 2;
  complete.kind = protocol::ChangeKind::kGrow;
  metrics.add_record(complete);
  metrics.add_record(core::record::Idle{2, 0});
  CHECK(contains(metrics.text(Format::kText), "elastictrain_idle_seconds_total{run=\"job\",change=\"grow\"} 0\n"));
}

TEST_CASE("of a large run there are no series for single workers") {
  RunMetrics metrics("job", "1");
  metrics.add_figures(figures_of(kMaxSingleWorkers + 1, 1, 1000));
  CHECK(!contains(metrics.text(Format::kText), "worker_step_part"));
}

TEST_CASE("only a scrape gets the metrics, in the format that it takes") {
  CHECK(contains(asked("GET /metrics HTTP/1.1\r\nHost: a"), "the metrics\ntext"));
  CHECK(contains(asked("GET /metrics?x=1 HTTP/1.0"), "version=0.0.4"));
  CHECK(contains(asked("GET /metrics HTTP/1.1\r\naccept: application/OpenMetrics-text;version=1.0.0"),
                 "the metrics\nopen"));
  CHECK(contains(asked("HEAD /metrics HTTP/1.1"), "Content-Length: 16"));
  CHECK(!contains(asked("HEAD /metrics HTTP/1.1"), "the metrics"));
  CHECK(contains(asked("GET / HTTP/1.1"), "404"));
  CHECK(contains(asked("POST /metrics HTTP/1.1"), "405"));
  CHECK(contains(asked("garbage"), "400"));
  CHECK(contains(asked(""), "400"));
  CHECK(contains(asked("GET  "), "400"));
}

TEST_CASE("clients that ask half, or do not read, keep no scrape out") {
  for (const std::string request : {"GET /metr", "GET /metrics HTTP/1.1\r\n\r\n"}) {
    CAPTURE(request);
    asio::io_context io;
    const auto server = HttpServer::open(io, {"127.0.0.1", 0}, [](Format) { return std::string(16u << 20, 'x'); });
    REQUIRE(server.ok());
    const std::string url = (*server)->url();
    const auto port = static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
    std::vector<asio::ip::tcp::socket> clients;
    const auto ask = [&](const std::string& text) {
      clients.emplace_back(io).connect({asio::ip::make_address("127.0.0.1"), port});
      asio::write(clients.back(), asio::buffer(text));
      io.poll();
    };
    for (int i = 0; i < 50; ++i) ask(request);
    ask("GET /metrics HTTP/1.1\r\n\r\n");
    std::string head(15, '\0');
    std::size_t heard = 0;
    asio::async_read(clients.back(), asio::buffer(head), [&](asio::error_code, std::size_t count) { heard = count; });
    for (int i = 0; i < 1000 && heard == 0; ++i) io.run_one_for(std::chrono::milliseconds(10));
    CHECK(head.substr(0, heard) == "HTTP/1.1 200 OK");
  }
}

TEST_CASE("an address to listen on is a port, with a numeric address or without") {
  CHECK(parse_listen("9400")->port == 9400);
  CHECK(parse_listen("9400")->address == "127.0.0.1");
  CHECK(parse_listen("0.0.0.0:0")->address == "0.0.0.0");
  CHECK(parse_listen("[::1]:80")->address == "::1");
  for (const char* wrong : {"", ":", "x", "70000", "-1", "host:80", "1.2.3:80", "80 ", "[::1]"}) {
    CHECK_MESSAGE(!parse_listen(wrong).ok(), wrong);
  }
}
