// What other versions of this program write and read, each kind with all of its fields, byte for byte as formats.txt
// has it: a line for each, behind the name of its format.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "supervisor/cluster/cluster_journal.h"
#include "supervisor/cluster/lease_protocol.h"
#include "supervisor/policy/view_json.h"
#include "supervisor/run_record.h"
#include "tests/support/temporary_directory.h"

namespace elastictrain {
namespace {

namespace record = cluster_core::record;

std::vector<std::string> kept(const std::string& format) {
  std::ifstream file(ELASTICTRAIN_SOURCE_DIR "/tests/unit/supervisor/formats.txt");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(format + " ")) lines.push_back(line.substr(format.size() + 1));
  }
  return lines;
}

cluster_core::JobSpec whole_spec() {
  cluster_core::JobSpec spec;
  spec.name = "digits";
  spec.arguments = {"--name", "digits"};
  spec.working_directory = "/home/u";
  spec.environment = {"A=b"};
  spec.min = 1;
  spec.max = 8;
  spec.start = 2;
  spec.priority = -3;
  spec.samples_total = 1000;
  spec.deadline_s = 60;
  spec.suspends = true;
  spec.one_host = true;
  spec.most_hosts = 3;
  spec.hosts = {"h1"};
  return spec;
}

cluster_core::JobSpec small_spec() {
  cluster_core::JobSpec spec;
  spec.name = "r";
  return spec;
}

std::vector<cluster_core::Record> records_of_cluster(const std::vector<cluster_core::HostLine>& hosts) {
  using What = cluster_core::HelpersChanged::What;
  return {record::Began{"0.1", "fifo", {}},
          record::Began{"0.1", "afs-l", record::Rules{1, 0.5, 30, 2, true, true, false, true, 9}},
          record::Hosts{hosts},
          record::Helpers{{What::kAsked, 5, "h2", hosts}, 9, "j2 waits"},
          record::Decided{"tick", "fifo", 6, 2, 1, {{3, 0, 1, "gain", 7}, {4, 1, 0, "waits", 0}}},
          record::PolicyAsked{-3, R"({"jobs":[1.5],"slots":4})", "rub\"bish", "it wrote rubbish"},
          record::PolicyAsked{0, "", R"({"jobs":[]})", ""}};
}

std::vector<cluster_core::Record> records_of_job() {
  const cluster_core::Slots slots = {{0, 1}, {0, 3}, {1, 0}};
  record::Learned little{.job = 3};
  little.workers = 5;
  return {record::Submitted{3, {1000, "u", true}, whole_spec(), 12.5},
          record::Submitted{3, {1000, "u", false}, small_spec(), 12.5},
          record::Leased{3, 4, slots, "gain", true, 7, true},
          record::Leased{3, 4, {}, "", false, 0, false},
          record::Moving{3, {{0, 1}}, {{1, 0}}, "1 host", {{0, 2}}, true},
          record::Moving{3, {{0, 1}}, {{1, 0}}, "1 host", {}, false},
          record::MoveEnded{3, record::MoveOutcome::kTakenBack, "slow"},
          record::Stood{3, slots},
          record::Returned{3, slots},
          record::Started{3, true},
          record::HasJoined{3, "/runs/d", 4711, true, 2, slots, "boot:1:2"},
          record::Lost{3},
          record::Ordered{3, cluster_core::Order::kPriority, -5, "u"},
          record::Ordered{3, cluster_core::Order::kPause, 0, "u"},
          record::Overdue{3, slots},
          record::Left{3, 75, "preempted", false},
          record::HasEnded{3, 1, "failed", 4000, 80.5, {{2, 50, 9, false, 2}, {4, 87.5, 3}}},
          record::Learned{3, 3.25, 2, 400, 500, 20, {{2, 50.5, 3, false, 2}}},
          little};
}

std::vector<cluster::FromRun> messages_of_run() {
  using namespace cluster;
  Join join{.job = "j7", .run = "digits", .directory = "/runs/d", .pid = 4711, .min = 1, .max = 8, .start = 2};
  join.lease = 6;
  join.holds = {{"h1", {0, 1}, 4}, {"h2", {3}, 0, "77"}};
  join.samples_total = 30720;
  join.suspends_to_file = join.suspends_in_memory = join.moves = true;
  join.demand = {true, 2, {"h1"}};
  join.priority = -7;
  join.deadline_s = 7200;
  Report report{.lease = 7, .holds = {{"h1", {0}}}, .phase = JobPhase::kSuspended, .workers = 4, .step = 120};
  report.samples = 30720;
  report.samples_total = 5;
  report.expected_samples = 50'000;
  report.goodput = {{1, 120.5}};
  report.rates = {{4, 1, 812.25, 12}};
  report.packed_rates = {{4, 2, 400.5, 3}};
  report.memory_bytes = 10;
  report.wants = 3;
  report.lost_hosts = {"h3"};
  return {join, Join{.run = "r", .directory = "/r", .pid = 1}, report, Report{}, Ended{75}};
}

std::vector<cluster::FromCluster> messages_of_cluster() {
  using namespace cluster;
  return {Joined{"j7"},
          Refused{"no\nslots"},
          Lease{7, {{"h1", {0, 1}, 8}, {"h3", {0}, 1, "77"}}, true, "gain", "j2", true},
          Lease{.version = 8, .slots = {}, .hold = false, .reason = ""},
          QueuePlace{3, 7, "earlier jobs"},
          End{"cancelled"}};
}

TEST_CASE("a cluster's journal is written and read as ever") {
  const std::vector<cluster_core::HostLine> hosts = {{"h1", 4}, {"h2", 2, "77"}};
  const std::vector<std::string> lines = kept("journal");
  std::vector<cluster_core::Record> records = records_of_cluster(hosts);
  for (auto& one : records_of_job()) records.push_back(one);
  std::vector<bool> kinds(std::variant_size_v<cluster_core::Record>);
  REQUIRE(records.size() == lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    kinds[records[i].index()] = true;
    CHECK(cluster::journal_line(records[i], hosts, 7, 1.5, 0.25) == lines[i]);
    const auto read = cluster::read_journal_line(lines[i], hosts);
    REQUIRE_MESSAGE(read, lines[i]);
    CHECK(cluster::journal_line(read->record, hosts, 7, 1.5, 0.25) == lines[i]);
  }
  CHECK(std::count(kinds.begin(), kinds.end(), false) == 0);
}

TEST_CASE("the messages between a run and its cluster are as ever") {
  std::vector<std::string> written;
  for (const auto& message : messages_of_run()) written.push_back(cluster::to_line(message));
  for (const auto& message : messages_of_cluster()) written.push_back(cluster::to_line(message));
  CHECK(written == kept("lease"));
}

TEST_CASE("the record of a run is written and read as ever") {
  const std::vector<std::string> lines = kept("run");
  REQUIRE(lines.size() == 2);
  const test::TemporaryDirectory directory;
  // One line each in formats.txt, several in the file.
  const auto text = [&] {
    std::string found = test::read_file(run_record_path(directory.path));
    found.pop_back();
    std::replace(found.begin(), found.end(), '\n', '~');
    return found;
  };
  RunRecord written{"r", "0.1", {}, 4321, {"127.0.0.1"}, {"h1"}, "command = []", {}};
  for (std::size_t i = 0; i < written.key.size(); ++i) written.key[i] = static_cast<std::uint8_t>(7 * i);
  REQUIRE(save_run_record(directory.path, written).ok());
  CHECK(text() == lines[0]);
  CHECK(load_run_record(directory.path)->key == written.key);
  written.end = RunRecord::End{1, "failed", 12.5, 3.5, 4, 2, 120, 0.75, true};
  REQUIRE(save_run_record(directory.path, written).ok());
  CHECK(text() == lines[1]);
  const auto read = load_run_record(directory.path);
  REQUIRE(read.ok());
  REQUIRE(save_run_record(directory.path, *read).ok());
  CHECK(text() == lines[1]);
}

TEST_CASE("what a policy is shown and what it answers are as ever") {
  const std::vector<std::string> lines = kept("policy");
  REQUIRE(lines.size() == 2);
  heuristics::ClusterView view;
  view.now_s = 12.5;
  view.hosts = {{.name = "h1", .host_class = "fast", .slots = 4, .free_slots = 1, .price_per_worker_hour = 0.5}};
  heuristics::JobView job;
  job.name = "j";
  job.workers = 2;
  job.samples_total = 100;
  job.topology = "ring";
  job.intervals = {{.begin_s = 1, .end_s = 2, .workers = 2, .steps = 3, .samples = 4}};
  job.members.resize(1);
  job.expected_length = heuristics::ExpectedLength{100, 3};
  job.utility = {{1, 0.5}};
  view.jobs = {job};
  CHECK(policy::to_json(view) == lines[0]);
  CHECK(policy::to_json(*policy::view_from_json(lines[0])) == lines[0]);
  heuristics::Decision decision;
  decision.jobs.resize(2);
  decision.jobs[0].workers = 3;
  decision.jobs[0].replacements = {{.worker = 1, .reason = {}, .other_host = true}};
  decision.jobs[0].reason = {.code = "grow", .text = "it pays", .numbers = {{"gain", 1.5}}};
  CHECK(policy::to_json(decision) == lines[1]);
  CHECK(policy::to_json(*policy::decision_from_json(lines[1])) == lines[1]);
}

}  // namespace
}  // namespace elastictrain
