// The journal of a cluster on a disk that is full for a while.
#include "supervisor/cluster/cluster_journal.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "supervisor/cluster/core/cluster.h"
#include "tests/support/contains.h"
#include "tests/support/temporary_directory.h"

namespace elastictrain::cluster {
namespace {

// No file can grow beyond this. Without a limit again at the end.
class LargestFile {
 public:
  explicit LargestFile(rlim_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~LargestFile() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_CASE("a journal whose disk was full is written again once there is space, without another record") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.file("journal.jsonl");
  std::vector<std::string> said;
  const auto say = [&](const std::string& text) { said.push_back(text); };
  const auto ignore = [](const cluster_core::Record&, double) {};
  {
    auto journal = ClusterJournal::open(path, ignore, say);
    REQUIRE(journal.ok());
    (*journal)->write(cluster_core::record::Lost{1}, 1, 1);
    {
      const LargestFile full(std::filesystem::file_size(path) + 10);
      (*journal)->write(cluster_core::record::Lost{2}, 2, 2);
      CHECK((*journal)->failing());
      CHECK_FALSE((*journal)->try_again());
    }
    CHECK((*journal)->try_again());
    CHECK_FALSE((*journal)->failing());
    (*journal)->write(cluster_core::record::Lost{3}, 3, 3);
  }
  CHECK(said.size() == 2);
  std::vector<cluster_core::JobId> read;
  const auto take = [&](const cluster_core::Record& record, double) {
    read.push_back(std::get<cluster_core::record::Lost>(record).job);
  };
  REQUIRE(ClusterJournal::open(path, take, say).ok());
  CHECK(read == std::vector<cluster_core::JobId>{1, 3});
}

TEST_CASE("a long journal is shortened to what is needed, and the whole one stays beside it") {
  using namespace cluster_core::record;
  const test::TemporaryDirectory directory;
  const std::string path = directory.file("journal.jsonl"), whole = directory.file("journal.1.jsonl");
  const auto silent = [](const std::string&) {};
  std::vector<cluster_core::Record> read;
  const auto take = [&](const cluster_core::Record& record, double) { read.push_back(record); };
  {
    auto journal = ClusterJournal::open(path, take, silent);
    REQUIRE(journal.ok());
    (*journal)->write(Hosts{{{"h1", 2}}}, 1, 1);
    (*journal)->write(Leased{1, 1, {{0, 1}}, "", false}, 2, 2);
    (*journal)->write(Hosts{{{"h1", 2}, {"h2", 1}}}, 3, 3);
    (*journal)->write(Leased{2, 1, {{1, 0}}, "", false}, 4, 4);
    (*journal)->write(Lost{1}, 5, 5);
    const std::uint64_t before = std::filesystem::file_size(path);
    CHECK((*journal)->is_longer_than(before - 1));
    const auto needs = [](const cluster_core::Record& record) {
      const auto* const lease = std::get_if<Leased>(&record);
      return std::holds_alternative<Hosts>(record) || (lease != nullptr && lease->job == 2);
    };
    REQUIRE((*journal)->shorten(needs).ok());
    CHECK(std::filesystem::file_size(whole) == before);
    CHECK(std::filesystem::file_size(path) < before);
    // Shortening again would gain little.
    CHECK_FALSE((*journal)->is_longer_than(std::filesystem::file_size(path) - 1));
    (*journal)->write(Lost{2}, 6, 6);
  }
  auto again = ClusterJournal::open(path, take, silent);
  REQUIRE(again.ok());
  CHECK((*again)->unreadable() == 0);
  CHECK((*again)->last_up_s() == 6);
  REQUIRE(read.size() == 5);  // the last line before it was shortened is among them, for its time
  CHECK(std::get<Leased>(read[2]).slots == cluster_core::Slots{{1, 0}});
  CHECK(std::get<Lost>(read[3]).job == 1);
  CHECK(std::get<Lost>(read[4]).job == 2);
}

TEST_CASE("a journal that cannot be shortened stays as it is") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.file("journal.jsonl");
  std::vector<cluster_core::Record> read;
  const auto take = [&](const cluster_core::Record& record, double) { read.push_back(record); };
  const auto all = [](const cluster_core::Record&) { return true; };
  auto journal = ClusterJournal::open(path, take, [](const std::string&) {});
  REQUIRE(journal.ok());
  for (const cluster_core::JobId job : {1, 2, 3}) (*journal)->write(cluster_core::record::Lost{job}, 1, 1);
  {
    const LargestFile full(std::filesystem::file_size(path) / 2);
    const Status done = (*journal)->shorten(all);
    REQUIRE_FALSE(done.ok());
    CHECK(test::contains(done.error().message, path));
  }
  CHECK_FALSE(std::filesystem::exists(path + ".new"));
  (*journal)->write(cluster_core::record::Lost{4}, 1, 1);
  REQUIRE(ClusterJournal::open(path, take, [](const std::string&) {}).ok());
  CHECK(read.size() == 4);
}

TEST_CASE("each kind of record has a name of its own") {
  auto names = event_names();
  CHECK(names.size() == std::variant_size_v<cluster_core::Record>);
  std::sort(names.begin(), names.end());
  CHECK(std::unique(names.begin(), names.end()) == names.end());
  CHECK(std::binary_search(names.begin(), names.end(), "leased"));
}

TEST_CASE("a line with a number that is none of its field is no record") {
  const std::string line = journal_line(cluster_core::record::Lost{1}, {}, 7, 1, 1);
  REQUIRE(read_journal_line(line, {}));
  for (const char* number : {"7.5", "1e30", "-1e300"}) {
    std::string changed = line;
    changed.replace(line.find(":7") + 1, 1, number);
    CHECK_FALSE(read_journal_line(changed, {}));
  }
}

TEST_CASE("a list of hosts keeps the earlier ones, and no number of slots is larger than a host can have") {
  const std::vector<cluster_core::HostLine> hosts = {{"h1", 2}, {"h2", 2}};
  const auto is_read = [&](const cluster_core::Record& record) {
    return read_journal_line(journal_line(record, hosts, 1, 1, 1), hosts).has_value();
  };
  using cluster_core::record::Hosts;
  CHECK(is_read(Hosts{{{"h1", 1024}, {"h2", 0}, {"h3", 1}}}));
  CHECK_FALSE(is_read(Hosts{{{"h1", 2}}}));
  CHECK_FALSE(is_read(Hosts{{{"h2", 2}, {"h1", 2}}}));
  CHECK_FALSE(is_read(Hosts{{{"h1", 1025}, {"h2", 2}}}));
  CHECK(is_read(cluster_core::record::Leased{1, 1, {{0, 1023}}, "", false}));
  CHECK_FALSE(is_read(cluster_core::record::Leased{1, 1, {{0, 4'000'000'000U}}, "", false}));
}

TEST_CASE("lines that cannot be read are left out, and the first one is named") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.file("journal.jsonl");
  const auto line = [](cluster_core::JobId job) {
    return journal_line(cluster_core::record::Lost{job}, {}, job, 1, 1) + "\n";
  };
  directory.write("journal.jsonl", line(1) + "\n{\"seq\":2,\"ev\n" + line(3) + std::string(5, '\0') + "\n" + line(5));
  std::vector<cluster_core::JobId> read;
  std::vector<std::string> said;
  const auto take = [&](const cluster_core::Record& record, double) {
    read.push_back(std::get<cluster_core::record::Lost>(record).job);
  };
  REQUIRE(ClusterJournal::open(path, take, [&](const std::string& text) { said.push_back(text); }).ok());
  CHECK(read == std::vector<cluster_core::JobId>{1, 3, 5});
  REQUIRE(said.size() == 1);
  CHECK(test::contains(said.front(), "2 lines of the journal " + path + " cannot be read, the first is line 3"));
}

TEST_CASE("the process that has joined can be told from a later one of its pid after a restart, too") {
  const cluster_core::record::HasJoined joined{1, "/runs/a", 7, true, 2, {}, "boot:7:99"};
  const auto read = read_journal_line(journal_line(joined, {}, 1, 1, 1), {});
  REQUIRE(read);
  CHECK(std::get<cluster_core::record::HasJoined>(read->record).process_mark == "boot:7:99");
}

TEST_CASE("what was measured of a job is in the record of its end, for simulations of the same jobs") {
  const cluster_core::record::HasEnded ended{7, 0, "it ended", 4000, 80, {{2, 50, 9}, {4, 87.5, 3}}};
  const auto line = read_journal_line(journal_line(ended, {}, 1, 2, 3), {});
  REQUIRE(line);
  const auto& read = std::get<cluster_core::record::HasEnded>(line->record);
  REQUIRE(read.rates.size() == 2);
  CHECK(read.rates[0].workers == 2);
  CHECK(read.rates[1].samples_per_s == 87.5);
  CHECK(read.rates[1].views == 3);
  CHECK_FALSE(read_journal_line(R"({"seq":1,"up":1,"event":"ended","job":1,"status":0,"why":"","samples":1,"slot_s":1,)"
                                R"("rates":[{"workers":"two","samples_per_s":1,"views":1}]})",
                                {}));
}

TEST_CASE("a journal keeps what a job has said that decisions count with, and by which rules they are made") {
  const auto again = [](const cluster_core::Record& record) {
    const auto line = read_journal_line(journal_line(record, {}, 1, 2, 3), {});
    REQUIRE(line);
    return line->record;
  };
  cluster_core::record::Learned learned{.job = 7,
                                        .start_s = 3.25,
                                        .workers = 2,
                                        .samples_total = 400,
                                        .expected_samples = 500,
                                        .expected_error = 20,
                                        .rates = {{2, 50.5, 3, false, 2}, {1, 30, 4}}};
  const auto read = std::get<cluster_core::record::Learned>(again(learned));
  CHECK(read.job == 7);
  CHECK(read.start_s == 3.25);
  CHECK(read.workers == 2);
  CHECK(read.samples_total == 400U);
  CHECK(read.expected_samples == 500);
  CHECK(read.expected_error == 20);
  REQUIRE(read.rates.size() == 2);
  CHECK(read.rates[0].samples_per_s == 50.5);
  CHECK(read.rates[0].hosts == 2);
  CHECK(read.rates[1].hosts == 1);
  CHECK(std::get<cluster_core::record::Learned>(again(cluster_core::record::Learned{.job = 8})).empty());
  cluster_core::Settings settings;
  settings.slice_s = 5;
  settings.packing = true;
  settings.seed = 9;
  const auto began =
      std::get<cluster_core::record::Began>(again(cluster_core::record::Began{"1", "gandiva", rules_of(settings)}));
  REQUIRE(began.rules);
  CHECK(began.rules->slice_s == 5);
  CHECK(began.rules->packing);
  CHECK(began.rules->seed == 9);
  const auto older =
      read_journal_line(R"({"seq":1,"up":0,"event":"cluster_begins","version":"0.1","policy":"fifo"})", {});
  REQUIRE(older);
  CHECK_FALSE(std::get<cluster_core::record::Began>(older->record).rules);
}

TEST_CASE("a journal keeps what a policy from outside was asked and has answered") {
  const auto again = [](const cluster_core::record::PolicyAsked& written) {
    const auto line = read_journal_line(journal_line(written, {}, 1, 2, 3), {});
    REQUIRE(line);
    return std::get<cluster_core::record::PolicyAsked>(line->record);
  };
  const auto good = again({-3, R"({"jobs":[{"id":1,"throughput":[1.5,2.0]}],"slots":4})", R"({"jobs":[]})", ""});
  CHECK(good.priority == -3);
  CHECK(good.view == R"({"jobs":[{"id":1,"throughput":[1.5,2.0]}],"slots":4})");
  CHECK(good.answer == R"({"jobs":[]})");
  CHECK(good.problem.empty());
  const auto bad = again({0, "", "rub\"bish\n", "the program wrote rubbish"});
  CHECK(bad.view.empty());
  CHECK(bad.answer == "rub\"bish\n");
  CHECK(bad.problem == "the program wrote rubbish");
  // As deep as a program likes.
  again({0, "{}", std::string(100'000, '[') + std::string(100'000, ']'), ""});
}

TEST_CASE("a journal keeps what helper jobs do, and which hosts are theirs") {
  const std::vector<cluster_core::HostLine> helpers = {{"h2", 4, "77"}, {"h3", 1}};
  using What = cluster_core::HelpersChanged::What;
  for (const What what :
       {What::kAsked, What::kWithdrawn, What::kFailed, What::kCame, What::kLeft, What::kLost, What::kReturned}) {
    const cluster_core::record::Helpers written{{what, 5, "h2 h3", helpers}, 9, "j2 waits"};
    const auto line = read_journal_line(journal_line(written, {}, 1, 2, 3), {});
    REQUIRE(line);
    const auto& read = std::get<cluster_core::record::Helpers>(line->record);
    CHECK(read.change.what == what);
    CHECK(read.change.slots == 5);
    CHECK(read.change.text == "h2 h3");
    CHECK(read.change.helpers == helpers);
    CHECK(read.needed == 9);
    CHECK(read.why == "j2 waits");
  }
  const auto line = read_journal_line(journal_line(cluster_core::record::Hosts{helpers}, {}, 1, 2, 3), {});
  REQUIRE(line);
  CHECK(std::get<cluster_core::record::Hosts>(line->record).hosts == helpers);
  CHECK_FALSE(read_journal_line(R"({"seq":1,"up":1,"event":"helpers","what":"sold","slots":1,"text":"","needed":1,)"
                                R"("why":"","helpers":[]})",
                                {}));
}

TEST_CASE("a journal keeps that a job stands still, beside whom it works, and its deadline") {
  const std::vector<cluster_core::HostLine> hosts = {{"h1", 2}};
  const auto again = [&](const cluster_core::Record& record) {
    const auto line = read_journal_line(journal_line(record, hosts, 1, 2, 3), hosts);
    REQUIRE(line);
    return line->record;
  };
  const auto leased =
      std::get<cluster_core::record::Leased>(again(cluster_core::record::Leased{3, 4, {{0, 1}}, "waits", true}));
  CHECK(leased.hold);
  CHECK(leased.slots == cluster_core::Slots{{0, 1}});
  CHECK_FALSE(
      std::get<cluster_core::record::Leased>(again(cluster_core::record::Leased{3, 5, {{0, 1}}, "turn", false})).hold);
  cluster_core::record::Leased packed{3, 6, {{0, 1}}, "packing_tried", false};
  packed.beside = 7;
  CHECK(std::get<cluster_core::record::Leased>(again(packed)).beside == 7);
  packed.moves = true;
  CHECK(std::get<cluster_core::record::Leased>(again(packed)).moves);
  const auto moving =
      std::get<cluster_core::record::Moving>(again(cluster_core::record::Moving{3, {{0, 0}}, {{0, 1}}, "1 host"}));
  CHECK(moving.from == cluster_core::Slots{{0, 0}});
  CHECK(moving.to == cluster_core::Slots{{0, 1}});
  CHECK(moving.why == "1 host");
  CHECK(moving.kept.empty());
  CHECK_FALSE(moving.undoes);
  const auto room = std::get<cluster_core::record::Moving>(
      again(cluster_core::record::Moving{3, {{0, 0}}, {{0, 1}}, "makes room for j4", {{0, 2}}, true}));
  CHECK(room.kept == cluster_core::Slots{{0, 2}});
  CHECK(room.undoes);
  using Outcome = cluster_core::record::MoveOutcome;
  for (const auto outcome :
       {Outcome::kDone, Outcome::kSuperseded, Outcome::kTakenBack, Outcome::kKept, Outcome::kUndone}) {
    const auto ended =
        std::get<cluster_core::record::MoveEnded>(again(cluster_core::record::MoveEnded{3, outcome, "because"}));
    CHECK(ended.outcome == outcome);
    CHECK(ended.why == "because");
  }
  cluster_core::record::Decided decided;
  decided.shares = {{3, 0, 1, "packing_tried", 7}, {4, 1, 0, "waits"}};
  const auto shares = std::get<cluster_core::record::Decided>(again(decided)).shares;
  CHECK(shares[0].beside == 7);
  CHECK(shares[1].beside == 0);
  CHECK(std::get<cluster_core::record::Stood>(again(cluster_core::record::Stood{3, {{0, 1}}})).slots ==
        cluster_core::Slots{{0, 1}});
  cluster_core::record::Submitted submitted{.job = 3, .owner = {}, .spec = {}, .unix_s = 1};
  submitted.spec.name = "r";
  submitted.spec.deadline_s = 90;
  submitted.spec.priority = -2;
  const auto spec = std::get<cluster_core::record::Submitted>(again(submitted)).spec;
  CHECK(spec.deadline_s == 90.0);
  CHECK(spec.priority == -2);
}

}  // namespace
}  // namespace elastictrain::cluster
