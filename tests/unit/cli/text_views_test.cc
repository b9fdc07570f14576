#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/output/cluster_text.h"
#include "cli/output/event_text.h"
#include "cli/output/explanation.h"
#include "cli/output/printable.h"
#include "cli/output/run_output.h"
#include "cli/output/status_text.h"
#include "cli/output/summary.h"
#include "tests/support/contains.h"

using namespace elastictrain;
using namespace elastictrain::cli;

namespace {

using elastictrain::test::contains;

nlohmann::json worker(int rank, double compute_ms) {
  return {{"id", rank + 1},
          {"rank", rank},
          {"host", "node" + std::to_string(rank)},
          {"slot", 0},
          {"phase", "member"},
          {"step", 120},
          {"step_ms", 20.0},
          {"compute_ms", compute_ms},
          {"share", 32},
          {"quiet_ms", 3},
          {"pid", 100 + rank}};
}

RunFigures figures(double uptime_s, std::uint32_t size, Step step) {
  RunFigures now;
  now.view.run_name = "job";
  now.view.phase = core::RunPhase::kRunning;
  now.view.world_size = size;
  now.uptime_s = uptime_s;
  now.step = step;
  now.samples_per_s = 100.0 * size;
  now.loss = 0.25;
  return now;
}

}  // namespace

TEST_CASE("what could change a terminal becomes visible, and other text stays") {
  CHECK(printable("plain\ttext\n") == "plain\ttext\n");
  CHECK(printable("a\n\tb", Lines::kOne) == "a\\x0a\\x09b");
  CHECK(printable("\x1b]0;title\x07\r\x7f") == "\\x1b]0;title\\x07\\x0d\\x7f");
  CHECK(printable("\xc2\x9b"
                  "2J") == "\\u009b2J");
  CHECK(printable("\xe2\x80\xae"
                  "exe.txt\xe2\x81\xa9") == "\\u202eexe.txt\\u2069");
  CHECK(printable("Größe 训练 €\xe2\x80\x93") == "Größe 训练 €\xe2\x80\x93");
  CHECK(printable("a\xe2\x80\xa8 b\xe2\x80\xa9 c\xc2\x85") == "a\\u2028 b\\u2029 c\\u0085");
  CHECK(printable(std::string("\0", 1)) == "\\x00");
}

TEST_CASE("no text of an answer makes a line of its own") {
  const nlohmann::json answer = {{"name", "a\nroot"}, {"hosts", {{{"host", "b\u2028c"}, {"slots", 2}}}}};
  CHECK(in_one_line(answer).dump() == R"({"hosts":[{"host":"b\\u2028c","slots":2}],"name":"a\\x0aroot"})");
}

TEST_CASE("a stream is made printable as long as it is wanted, also where text comes in pieces") {
  std::ostringstream out;
  {
    const PrintableStream safe(out);
    out << "\x1b[2J" << '\x07' << "\xc2";
    out << "\x9b"
        << "\xe2"
        << "\x80"
        << "\xae" << std::flush;
    out << "\xc2";
  }
  out << "\x1b";
  CHECK(out.str() == "\\x1b[2J\\x07\\u009b\\u202e\xc2\x1b");
}

TEST_CASE("status shows the failures, the remaining budget and the hosts that cool down") {
  nlohmann::json status = {{"name", "job"}, {"phase", "running"}, {"world_size", 2}, {"generation", 5}};
  CHECK(!contains(render_status(status), "failures"));
  status["recoveries"] = 2;
  status["last_recovery"] = "rank 1 (w2 on node1) was killed by signal 9";
  status["last_recovery_idle_s"] = 0.034;
  status["failures"] = {{{"class", "crash"}, {"total", 12}, {"within_window", 2}, {"limit", 10}},
                        {{"class", "hang"}, {"total", 1}, {"within_window", 1}, {"limit", 1}},
                        {{"class", "infrastructure"}, {"total", 3}, {"within_window", 3}, {"limit", nullptr}}};
  status["cooled_hosts"] = {
      {{"host", "node3"}, {"failures", 3}, {"left_ms", 20'000}, {"reason", "its agent did not connect"}}};
  const std::string text = render_status(status);
  CAPTURE(text);
  CHECK(
      contains(text, "failures: crash 12 (8 more are tolerated), hang 1 (no more are tolerated), infrastructure 3\n"));
  CHECK(contains(text, "recoveries: 2, the last: rank 1 (w2 on node1) was killed by signal 9, idle 34.0 ms\n"));
  CHECK(contains(text, "cooling down: node3 for 20.0 s after 3 failures in a row: its agent did not connect\n"));
  status["last_recovery_idle_s"] = nullptr;
  CHECK(contains(render_status(status), "signal 9\n"));
}

TEST_CASE("status shows why the run does not grow") {
  nlohmann::json status = {{"name", "job"}, {"phase", "running"}, {"world_size", 2}, {"target_size", 3}};
  CHECK(!contains(render_status(status), "grow refused"));
  status["grow_refused"] = "the others make their steps at train.py:12, this worker at train.py:9";
  CHECK(contains(render_status(status), "\ngrow refused: the others make their steps at train.py:12, this worker"));
}

TEST_CASE("status says of how many processes each worker is, where these are several") {
  nlohmann::json status = {{"name", "job"}, {"phase", "running"}, {"world_size", 2}, {"target_size", 3}};
  CHECK(contains(render_status(status), "job: running, 2 workers (target 3)"));
  status["per_replica"] = 4;
  CHECK(contains(render_status(status), "job: running, 2 workers of 4 processes each (target 3)"));
}

TEST_CASE("status shows the GPU with the least free memory, and what the run holds of it") {
  nlohmann::json status = {
      {"name", "job"}, {"phase", "running"}, {"world_size", 2}, {"workers", nlohmann::json::array()}};
  const auto worker = [&](int rank, nlohmann::json device) {
    status["workers"].push_back({{"rank", rank}, {"device", std::move(device)}});
  };
  worker(0, nullptr);
  CHECK(!contains(render_status(status), "GPU memory"));
  worker(1, {{"total_bytes", 80e9}, {"free_bytes", 30e9}, {"copies_bytes", 1e9}, {"sums_bytes", 0}});
  worker(2, {{"total_bytes", 80e9}, {"free_bytes", 21.5e9}, {"copies_bytes", 0.5e9}, {"sums_bytes", 0.25e9}});
  CHECK(
      contains(render_status(status),
               "GPU memory: 21.50 GB of 80.00 GB are free on that of rank 2, which has the least; 0.50 GB hold copies "
               "of gradients, from which a step is repeated after a loss, 0.25 GB sums"));
}

TEST_CASE("status shows what cannot be reached, which new worker failed, and why a host is lost") {
  nlohmann::json status = {{"name", "job"}, {"phase", "running"}, {"world_size", 1}, {"target_size", 3}};
  CHECK(!contains(render_status(status), "not reached"));
  status["unmet"] = "3 workers are requested and 1 can train: no other slot is free";
  status["start_failure"] = "w2 on node2 could not be started: ./train does not exist in /work";
  status["hosts"] = {{{"host", "node2"}, {"phase", "up"}, {"problem", ""}},
                     {{"host", "node3"}, {"phase", "lost"}, {"problem", "ssh: Connection refused"}},
                     {{"host", "node4"}, {"phase", "cooling"}, {"problem", "ssh: timed out"}}};
  const std::string text = render_status(status);
  CAPTURE(text);
  CHECK(contains(text, "\nnot reached: 3 workers are requested and 1 can train: no other slot is free\n"));
  CHECK(contains(text, "\nstart failed: w2 on node2 could not be started: ./train does not exist in /work\n"));
  CHECK(contains(text, "\nlost hosts: node3: ssh: Connection refused\n"));
}

TEST_CASE("the summary counts failures and recoveries, also those under an earlier supervisor") {
  Summary summary;
  summary.add_record(core::record::Commit{1, 3, "start"});
  summary.add_record(core::record::Commit{3, 2, "rank 1 was killed"});
  summary.add_record(core::record::GenerationComplete{3, protocol::ChangeKind::kRecover});
  RunFigures now = figures(10, 2, 50);
  now.recoveries = 1;
  now.last_recovery_idle_s = 0.05;
  now.view.failures = {{"crash", 1, 1, 10}};
  summary.add_figures(now);
  const std::string text = summary.render(0);
  CAPTURE(text);
  CHECK(contains(text, "failures: crash 1; recoveries: 1, the last idle 50.0 ms\n"));
  CHECK(contains(text, "recover"));
  CHECK(contains(text, "3 -> 2"));
}

TEST_CASE("status says everything once, in the order in which one looks for it") {
  nlohmann::json status = {{"name", "job"},
                           {"phase", "running"},
                           {"world_size", 3},
                           {"target_size", 4},
                           {"generation", 2},
                           {"uptime_s", 65.0},
                           {"step", 120},
                           {"epoch", 1},
                           {"epochs", 10},
                           {"epoch_fraction", 0.5},
                           {"time_left_s", 3720.0},
                           {"size_reason", "requested by a user"},
                           {"checkpoint", {{"step", 100}, {"age_s", 12.0}, {"failures", 0}}},
                           {"last_change", "generation 2: grow from 2 to 3 workers: a host came"},
                           {"last_change_age_s", 30.0},
                           {"idle_s", 0.012},
                           {"last_idle_s", nullptr},
                           {"workers", {worker(0, 10), worker(1, 31), worker(2, 11)}},
                           {"hosts", {{{"host", "node7"}, {"phase", "up"}, {"workers", 1}, {"slots", 2}}}},
                           {"protection", "between hosts: encrypted"}};
  status["workers"].push_back({{"id", 9}, {"host", "node7"}, {"phase", "starting"}, {"quiet_ms", 4000}});
  const std::string text = render_status(status);
  CAPTURE(text);
  std::size_t at = 0;
  for (const char* part :
       {"job: running, 3 workers (target 4), generation 2, up 1m 05s\n", "why this size: requested by a user\n",
        "training: epoch 2 of 10 50%, step 120, 1h 02m left, ", "checkpoint: step 100, 12.0 s ago\n",
        "last change: generation 2: grow from 2 to 3 workers: a host came, 30.0 s ago, 12.0 ms in all",
        "waits for: w9 on node7 to start\n", "w2      node1", "slow: computes 2.8 times as long as the others",
        "w3      node2", "w1      node0", "w9      node7", "\nnode7  up", "between hosts: encrypted\n"}) {
    const std::size_t found = text.find(part, at);
    CHECK_MESSAGE(found != std::string::npos, part);
    at = found == std::string::npos ? at : found;
  }
  CHECK(contains(text, "20.0 ms  31.0 ms"));  // times have their unit
  CHECK_FALSE(contains(text, "silent"));
}

TEST_CASE("status does not give the reason of the last change again, and tells silence where it matters") {
  nlohmann::json status = {{"phase", "running"},
                           {"generation", 3},
                           {"size_reason", "rank 1 was lost"},
                           {"last_change", "generation 3: rank 1 was lost"},
                           {"recoveries", 1},
                           {"last_recovery", "rank 1 was lost"},
                           {"last_recovery_idle_s", 0.034},
                           {"last_idle_s", 0.034},
                           {"idle_s", 0.1},
                           {"workers", {worker(0, 10), worker(1, 10)}},
                           {"hosts", {{{"host", "node0"}, {"phase", "suspect"}, {"quiet_ms", 2100}}}}};
  status["workers"][1]["quiet_ms"] = 2000;
  const std::string text = render_status(status);
  CAPTURE(text);
  CHECK(text.find("rank 1 was lost") == text.rfind("rank 1 was lost"));
  CHECK(contains(text, "rank 1 was lost, idle 34.0 ms, 100.0 ms in all changes\n"));
  CHECK(contains(text, "recoveries: 1\n"));
  CHECK(contains(text, "silent for 2.0 s\n"));
  CHECK(contains(text, "silent for 2.1 s\n"));
}

TEST_CASE("status and queue show the length that a loss says, with its error, or why there is none") {
  nlohmann::json status = {{"name", "job"}, {"step", 120}, {"expected_samples", 50'000}};
  status["expected_error_samples"] = 2'500;
  status["expected_left_s"] = 90;
  CHECK(contains(render_status(status), "length, by its loss: converges at 50.0k samples ± 2.50k, in 1m 30s\n"));
  status["expected_left_s"] = 0.0;
  CHECK(contains(render_status(status), "± 2.50k, which is over\n"));
  status.erase("expected_samples");
  status["no_expected_length"] = "the loss does not fall";
  CHECK(contains(render_status(status), "length: not known by its loss: the loss does not fall\n"));
  nlohmann::json job = {{"id", "j1"}, {"phase", "joined"}, {"samples", 10'000}, {"step", 300}};
  job["overdue"] = job["stands_on"] = nlohmann::json::array();
  const auto queue = [&] {
    return render_queue({{"name", "lab"}, {"waiting", nlohmann::json::array()}, {"jobs", {job}}}, false);
  };
  CHECK(contains(queue(), "step 300"));
  job["expected_samples"] = 50'000;
  job["expected_error"] = 5'000;
  CHECK(contains(queue(), "~20% ± 2"));
  job["samples_total"] = 40'000;
  CHECK(contains(queue(), " 25%"));
  CHECK(!contains(queue(), "~"));
}

TEST_CASE("tables of status and queue fit 80 columns; what identifies a worker or a job stays") {
  nlohmann::json status = {{"name", "job"}, {"phase", "running"}, {"world_size", 3}, {"generation", 2}};
  status["workers"] = {worker(0, 10), worker(1, 31), worker(2, 11)};
  status["workers"][1]["host"] = "gpu-node-17.cluster";
  status["hosts"] = {{{"host", "gpu-node-17.cluster"}, {"phase", "reconnecting"}, {"workers", 3}, {"slots", 4}}};
  nlohmann::json job = {{"id", "j12"},
                        {"name", "resnet-50-imagenet"},
                        {"user", "somebody"},
                        {"phase", "joined"},
                        {"run_phase", "training"},
                        {"slots", 12},
                        {"min", 1},
                        {"max", 64},
                        {"priority", -20},
                        {"left_s", 40'000.0},
                        {"overdue", nlohmann::json::array()},
                        {"stands_on", nlohmann::json::array()},
                        {"why", "afs-p: another job gains more from the slots that it would get"}};
  const nlohmann::json cluster = {{"name", "lab"}, {"waiting", nlohmann::json::array()}, {"jobs", {job}}};
  const std::string text = render_status(status, {80, true}) + render_queue(cluster, false, {80, true});
  CAPTURE(text);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(display_width(line) <= 80, line);
  for (const char* part :
       {"gpu-node-17.cluster", "compute", "slow: computes", "j12", "resnet-50-imagenet", "afs-p: another"})
    CHECK_MESSAGE(contains(text, part), part);
  CHECK(!contains(text, "slot "));
  CHECK(contains(render_status(status), "slot "));
}

TEST_CASE("a status with nothing in it is shown without a crash") {
  CHECK(contains(render_status(nlohmann::json::object()), "workers"));
  CHECK(!render_status({{"workers", {nlohmann::json::object()}}, {"hosts", 3}}).empty());
}

TEST_CASE("journal lines are read by people") {
  const std::string text =
      render_event(R"({"seq":7,"t":1700000000.25,"up":3.5,"event":"commit","generation":3,"reason":"a host came"})");
  CHECK(contains(text, ".250  commit  generation=3 reason=\"a host came\""));
  CHECK(text.starts_with("2023-11-1"));
  CHECK(text.substr(10, 1) == "T");
  CHECK(render_event(R"({"t":1700000000.25,"event":"hello"})", EventTime::kClock) ==
        text.substr(11, text.find("commit") - 11) + "hello");
  CHECK(render_event("not json") == "not json");
  CHECK(render_event(R"({"event":"hello"})") == "hello");
  CHECK(render_event(R"({"event":"hello","t":1e300})") == "hello");
}

TEST_CASE("an event has a level, and a warning says so") {
  CHECK(render_event(R"({"event":"loss","class":"crash"})") == "warning: loss  class=crash");
  CHECK(render_event(R"({"event":"failed","status":3})") == "error: failed  status=3");
  CHECK(event_level(R"({"event":"commit"})") == JournalLevel::kInfo);
  CHECK(event_level(R"({"event":"ready"})") == JournalLevel::kDetail);
  CHECK(event_level(R"({"event":"note","key":"accuracy"})") == JournalLevel::kDetail);
  CHECK(event_level(R"({"event":"note","key":"checkpoint_failed"})") == JournalLevel::kWarning);
  CHECK(event_level("torn") == JournalLevel::kInfo);
  for (const char* name : {"detail", "info", "warning", "error"}) CHECK(name_of(*journal_level_named(name)) == name);
  CHECK(!journal_level_named("fatal"));
}

TEST_CASE("explain shows what the run decided and why it changed otherwise, each once") {
  Explained start;
  start.up_s = 0.1;
  start.run_target = start.now_wants = 2;
  start.run_reason = "start with 2 workers";
  start.is_decision = start.is_change = true;
  Explained seen;
  seen.up_s = 65;
  seen.workers = seen.run_target = seen.now_wants = 2;
  const std::string text = render_explained({start, seen}, "fixed", false);
  CAPTURE(text);
  CHECK(contains(text, "100.0 ms        0  start with 2 workers\n"));
  CHECK(contains(text, "1 view of policy fixed, 0 decided differently\n"));
  seen.is_decision = true;  // of a policy that gave no reason and asked for nothing
  CHECK_FALSE(contains(render_explained({start, seen}, "fixed", true), "stay"));
  CHECK_FALSE(contains(render_explained_json({seen}, true), "{"));
  seen.is_decision = false;
  seen.now_wants = 4;
  seen.now_reason = "more";
  const std::string compared = render_explained({start, seen}, "fixed", false);
  CAPTURE(compared);
  CHECK(contains(compared, "  1m 05s        2  stay                  go to 4: more\n"));
}

TEST_CASE("--since takes a duration, or a date and its beginning") {
  const std::string ago = *parse_since("10m");
  CHECK(ago.size() == std::string("2026-01-31T14:03:05").size());
  CHECK(*parse_since("2026-01-31") == "2026-01-31");
  CHECK(!parse_since("yesterday").ok());
  CHECK(is_since("2026-01-31T14:03:05.123", "2026-01-31T14:03"));
  CHECK(is_since("2026-01-31T14:03:05.123", "2026-01-31T14:03:05"));
  CHECK_FALSE(is_since("2026-01-31T14:03:05.123", "2026-01-31T14:04"));
  CHECK_FALSE(is_since("", "2026-01-31"));  // a line that does not say when it was written
  CHECK(event_time(R"({"t":1700000000.25})").starts_with("2023-11-1"));
  CHECK(event_time("torn").empty());
}

TEST_CASE("control bytes in the journal do not reach the terminal") {
  CHECK(render_event(R"({"event":"exited","last":"\u001b[2J"})") == R"(exited  last=\x1b[2J)");
  CHECK(render_event(R"({"event":"a\nb\u009b"})") == R"(a\x0ab\u009b)");
  CHECK(render_event("torn \x1b[2J") == "torn \\x1b[2J");
}

TEST_CASE("only the last state of a progress bar is shown") {
  CHECK(collapse("10%\r20%\r100%") == "100%");
  CHECK(collapse("done\r") == "done");
  CHECK(collapse("plain") == "plain");
}

TEST_CASE("the summary shows speed by size, idle time of each change, notes and the end") {
  Summary summary;
  summary.add_record(core::record::Commit{1, 2, "start"});
  summary.add_figures(figures(1, 2, 10));
  summary.add_figures(figures(3, 2, 30));
  summary.add_record(core::record::Commit{2, 4, "asked for"});
  summary.add_record(core::record::GenerationComplete{2, protocol::ChangeKind::kGrow});
  summary.add_figures(figures(4, 4, 40));
  summary.add_figures(figures(6, 4, 60));
  summary.add_record(core::record::Idle{2, 12});
  summary.add_record(core::record::Commit{3, 3, "enough"});
  summary.add_record(core::record::GenerationComplete{3, protocol::ChangeKind::kShrink});
  summary.add_record(core::record::Note{WorkerId{1}, "accuracy", "0.97"});
  summary.add_record(core::record::Finished{WorkerId{1}, 64});
  summary.add_record(core::record::End{0, "all epochs are done"});
  const std::string text = summary.render(0);
  CHECK(contains(text, "ended: all epochs are done (status 0) after 6.0 s"));
  CHECK(contains(text, "trained: 64 steps, loss 0.25, idle for changes 12.0 ms"));
  CHECK(contains(text, "accuracy: 0.97"));
  CHECK(contains(text, "      2        200"));
  CHECK(contains(text, "      4        400"));
  CHECK(contains(text, "grow    2 -> 4   12.0 ms  asked for"));
  CHECK(contains(text, "shrink  4 -> 3         -  enough"));
  CHECK(!contains(text, "start"));
}
