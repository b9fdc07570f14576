#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "supervisor/journal.h"
#include "supervisor/journal_history.h"

namespace elastictrain {
namespace {

using Json = nlohmann::json;

const core::Record kAny = core::record::StopNowRequested{};

struct JournalFile {
  JournalFile() {
    char name[] = "/tmp/elastictrain-journal-XXXXXX";
    directory = ::mkdtemp(name);
    path = directory + "/journal.jsonl";
  }
  ~JournalFile() { std::filesystem::remove_all(directory); }

  std::unique_ptr<Journal> open() {
    auto opened = Journal::open(path, [this](core::Tell::Level, const std::string& text) { reports.push_back(text); });
    REQUIRE(opened.ok());
    return std::move(opened).value();
  }
  std::vector<std::string> lines() const {
    std::ifstream file(path);
    std::vector<std::string> found;
    for (std::string line; std::getline(file, line);) found.push_back(line);
    return found;
  }

  std::string directory;
  std::string path;
  std::vector<std::string> reports;
};

TEST_CASE("records are numbered JSON lines with time and fields, readable by the owner only") {
  JournalFile file;
  auto journal = file.open();
  journal->write(core::record::AgentSuspect{"node \"x\"", 2}, true);
  journal->write(core::record::StopNowRequested{}, false);
  const auto lines = file.lines();
  REQUIRE(lines.size() == 2);
  const Json first = Json::parse(lines[0]);
  CHECK(first["seq"] == 1);
  CHECK(first["event"] == "agent_suspect");
  CHECK(first["silent_ms"] == 2);
  CHECK(first["host"] == "node \"x\"");
  CHECK(first["t"].get<double>() > 1.6e9);
  CHECK(first["up"].get<double>() >= 0);
  CHECK(Json::parse(lines[1])["seq"] == 2);
  struct stat found {};
  REQUIRE(::stat(file.path.c_str(), &found) == 0);
  CHECK((found.st_mode & 0777) == 0600);
}

TEST_CASE("a later run numbers on from the records that are there") {
  JournalFile file;
  for (int run = 0; run < 3; ++run) {
    auto journal = file.open();
    for (int i = 0; i < 4; ++i) journal->write(kAny, false);
  }
  const auto lines = file.lines();
  REQUIRE(lines.size() == 12);
  for (std::size_t i = 0; i < lines.size(); ++i) CHECK(Json::parse(lines[i])["seq"] == i + 1);
  CHECK(file.reports.empty());
}

TEST_CASE("a torn last line is kept apart from what follows, and reported") {
  JournalFile file;
  std::ofstream(file.path) << R"({"seq":7,"event":"whole"})"
                           << "\n"
                           << R"({"seq":8,"eve)";
  auto journal = file.open();
  REQUIRE(file.reports.size() == 1);
  CHECK(file.reports[0].find("was cut off") != std::string::npos);
  journal->write(kAny, true);
  const auto lines = file.lines();
  REQUIRE(lines.size() == 4);
  CHECK(lines[1] == R"({"seq":8,"eve)");
  CHECK(Json::parse(lines[2])["event"] == "journal_torn");
  CHECK(Json::parse(lines[2])["bytes"] == 13);
  CHECK(Json::parse(lines[2])["seq"] == 9);
  CHECK(Json::parse(lines[3])["event"] == "stop_now_requested");
  CHECK(Json::parse(lines[3])["seq"] == 10);
}

TEST_CASE("a torn line that lost digits of its number does not make numbers repeat") {
  JournalFile file;
  std::ofstream(file.path) << R"({"seq":122,"event":"whole"})"
                           << "\n"
                           << R"({"seq":12)";
  auto journal = file.open();
  journal->write(kAny, true);
  CHECK(Json::parse(file.lines().back())["seq"] == 124);
}

TEST_CASE("a later supervisor reads the records of the newest run and counts its time on") {
  JournalFile file;
  {
    auto journal = file.open();
    for (const core::Record& record : std::initializer_list<core::Record>{
             core::record::RunOpened{}, kAny, core::record::RunClosed{}, core::record::RunOpened{}}) {
      journal->write(record, false);
    }
    journal->count_up_from(100);
    journal->write(core::record::Idle{2, 12.5}, false);
  }
  std::ofstream(file.path, std::ios::app) << R"({"seq":6,"ev)";
  std::vector<core::Record> seen;
  const auto history = read_journal_history(file.path, [&](const core::Record& record) { seen.push_back(record); });
  REQUIRE(history.ok());
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].is<core::record::RunOpened>());
  REQUIRE(seen[1].is<core::record::Idle>());
  CHECK(seen[1].as<core::record::Idle>()->idle_ms == 12.5);
  CHECK(history->up_s >= 100);
  CHECK(!read_journal_history("/nowhere/journal.jsonl", [](const core::Record&) {}).ok());
}

TEST_CASE("a full disk is reported once, and recording resumes with a record of the gap") {
  JournalFile file;
  auto journal = file.open();
  journal->write(kAny, false);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  rlimit full = old;
  full.rlim_cur = std::filesystem::file_size(file.path) + 20;
  ::setrlimit(RLIMIT_FSIZE, &full);
  for (int i = 0; i < 5; ++i) CHECK_FALSE(journal->write(kAny, true));
  ::setrlimit(RLIMIT_FSIZE, &old);
  CHECK(file.reports.size() == 1);
  CHECK(journal->write(core::record::HostBack{"A"}, true));
  CHECK_FALSE(journal->write(kAny, true));
  REQUIRE(file.reports.size() == 2);
  CHECK(file.reports[1].find("5 records are lost") != std::string::npos);
  const auto lines = file.lines();
  REQUIRE(lines.size() == 5);
  CHECK(Json::parse(lines[2])["event"] == "host_back");
  CHECK(Json::parse(lines[3])["event"] == "journal_gap");
  CHECK(Json::parse(lines[3])["lost"] == 5);
}

TEST_CASE("a journal that cannot be opened is an error with its path") {
  const auto opened = Journal::open("/nowhere/journal.jsonl", [](core::Tell::Level, const std::string&) {});
  REQUIRE(!opened.ok());
  CHECK(opened.error().message.find("/nowhere/journal.jsonl") != std::string::npos);
}

}  // namespace
}  // namespace elastictrain
