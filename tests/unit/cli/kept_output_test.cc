#include "cli/output/run_log.h"

#include <doctest/doctest.h>

#include "cli/output/status_text.h"
#include "tests/support/temporary_directory.h"

using namespace elastictrain;
using namespace elastictrain::cli;

namespace {

using Lines = std::vector<std::string>;

using Folder = test::TemporaryDirectory;

OutputLine written_by(std::int64_t rank, bool is_stderr = false) {
  OutputLine line;
  line.worker = WorkerId{static_cast<std::uint32_t>(rank < 0 ? 7 : rank + 1)};
  line.host = "hostA";
  line.rank = rank;
  line.is_stderr = is_stderr;
  return line;
}

RunLog open_log(const Folder& folder, std::uint64_t bytes = 1U << 20, bool fresh = true) {
  auto log = RunLog::open(folder.path, bytes, fresh);
  REQUIRE(log.ok());
  return std::move(*log);
}

Lines all_of(const Folder& folder, KeptChoice choice = {}) {
  Lines lines;
  KeptOutput(folder.path, std::move(choice)).print_all([&](const std::string& line) { lines.push_back(line); });
  return lines;
}

}  // namespace

TEST_CASE("what was written is read back with its label") {
  const Folder folder;
  RunLog log = open_log(folder);
  CHECK(log.add_message("2026-01-31T14:03:05.123", LogLevel::kInfo, "run job starts").ok());
  CHECK(log.add_line("2026-01-31T14:03:06.000", written_by(0), "loss 0.1").ok());
  CHECK(log.add_line("2026-01-31T14:03:07.000", written_by(-1, true), "").ok());
  CHECK(log.add_message("2026-01-31T14:03:08.000", LogLevel::kWarning, "host b is lost").ok());
  CHECK(all_of(folder) == Lines{"elastictrain: run job starts", "[hostA:0] loss 0.1", "[hostA:w7] ",
                                "elastictrain: warning: host b is lost"});
  CHECK(all_of(folder, {.last = 1}) == Lines{"elastictrain: warning: host b is lost"});
  CHECK(all_of(folder, {.last = 0}).empty());
  CHECK(all_of(folder, {.ranks = *RankSet::parse("0"), .times = true}) ==
        Lines{"2026-01-31T14:03:06.000 [hostA:0] loss 0.1"});
  CHECK(all_of(folder, {.since = "2026-01-31T14:03:07"}).size() == 2);
}

TEST_CASE("the end of a run is its last line, and belongs to nobody's output") {
  const Folder folder;
  RunLog log = open_log(folder);
  KeptOutput output(folder.path, {});
  Lines lines;
  const auto use = [&](const std::string& line) { lines.push_back(line); };
  CHECK(log.add_message("t", LogLevel::kInfo, "end 3").ok());
  CHECK(!output.print_new(use));
  CHECK(log.add_end("t", 3).ok());
  CHECK(output.print_new(use) == 3);
  CHECK(lines == Lines{"elastictrain: end 3"});
  CHECK(log.add_message("t", LogLevel::kInfo, "taken over").ok());
  CHECK(!output.print_new(use));
}

TEST_CASE("a run that has ended before its lines are read has ended with its status") {
  const Folder folder;
  RunLog log = open_log(folder);
  KeptOutput output(folder.path, {.ranks = *RankSet::parse("0")});
  const auto use = [](const std::string&) {};
  CHECK(log.add_message("t", LogLevel::kInfo, "begins").ok());
  CHECK(log.add_end("t", 3).ok());
  output.print_all(use);
  CHECK(output.ended() == 3);
  CHECK(!output.print_new(use));
  CHECK(output.ended() == 3);
  CHECK(log.add_message("t", LogLevel::kInfo, "taken over").ok());  // which this reader does not show
  CHECK(!output.print_new(use));
  CHECK(!output.ended());
}

TEST_CASE("a log that was rotated is read on in the new file, and a fresh run starts it anew") {
  const Folder folder;
  RunLog log = open_log(folder, 400);
  KeptOutput output(folder.path, {});
  std::size_t seen = 0;
  for (int i = 0; i < 40; ++i) {
    CHECK(log.add_line("2026-01-31T14:03:06.000", written_by(0), std::to_string(i)).ok());
    output.print_new([&](const std::string& line) { CHECK(line == "[hostA:0] " + std::to_string(seen++)); });
  }
  CHECK(seen == 40);
  CHECK(all_of(folder).size() < 12);
  CHECK(all_of(folder).back() == "[hostA:0] 39");
  RunLog fresh = open_log(folder);
  CHECK(all_of(folder).empty());
}

TEST_CASE("a torn or foreign line is not read") {
  for (const char* text : {"", " ", "2026", "t w1 0 host", "t w1 0 host out", "t  w1 0 host out text"}) {
    CHECK_MESSAGE(!read_kept_line(text), text);
  }
  CHECK(read_kept_line("t w1 0 host out ")->text.empty());
}

TEST_CASE("runs are listed with the live ones first, then the newest") {
  std::vector<ListedRun> runs = {
      {.name = "old", .state = "ended", .ended_unix_s = 10, .exit_status = 0, .reason = "finished"},
      {.name = "new", .state = "ended", .ended_unix_s = 20, .exit_status = 75},
      {.name = "live", .state = "running", .workers = 4, .started_unix_s = 5},
      {.name = "torn", .state = "unreadable"},
  };
  sort_runs(runs);
  Lines names;
  for (const ListedRun& run : runs) names.push_back(run.name);
  CHECK(names == Lines{"live", "new", "old", "torn"});
  CHECK(render_runs({}).empty());
  CHECK(render_runs({runs[0]}).find("live  running        4") != std::string::npos);
  CHECK(
      run_json(runs[1]) ==
      R"({"ended":20.0,"epoch":null,"exit_status":75,"loss":null,"name":"new","reason":"","started":null,"state":"ended","step":null,"workers":null})");
}
