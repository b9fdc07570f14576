#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/output/event_text.h"
#include "cli/output/printable.h"
#include "cli/output/run_output.h"
#include "cli/output/since.h"
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
  CHECK(printable(std::string("\0", 1)) == "\\x00");
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
  CHECK(contains(render_status(status), "signal 9, idle -\n"));
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

TEST_CASE("status shows slow workers, the reason for the size and the last events") {
  const nlohmann::json status = {{"name", "job"},
                                 {"phase", "running"},
                                 {"world_size", 3},
                                 {"target_size", 4},
                                 {"generation", 2},
                                 {"uptime_s", 65.0},
                                 {"step", 120},
                                 {"size_reason", "asked for"},
                                 {"last_change", "grew from 2 to 3"},
                                 {"idle_s", 0.012},
                                 {"last_idle_s", nullptr},
                                 {"workers", {worker(0, 10), worker(1, 31), worker(2, 10)}},
                                 {"hosts", {{{"host", "node0"}, {"phase", "up"}, {"workers", 1}, {"slots", 2}}}}};
  const std::string text = render_status(status);
  CHECK(contains(text, "job: running, 3 workers (target 4), generation 2, up 1m 05s"));
  CHECK(contains(text, "why this size: asked for"));
  CHECK(contains(text, "last change: grew from 2 to 3"));
  CHECK(contains(text, "idle for changes: 12.0 ms, the last -"));
  CHECK(contains(text, "slow: computes 3.1 times as long as the others"));
  CHECK(std::count(text.begin(), text.end(), '\n') > 8);
  const std::size_t slow = text.find("slow:");
  CHECK(contains(text.substr(text.rfind('\n', slow) + 1, 40), "node1"));
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
