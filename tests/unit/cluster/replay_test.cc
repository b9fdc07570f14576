// The past of a cluster from its journal, and the same jobs again.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "supervisor/cluster/replay/replay.h"

namespace elastictrain::cluster::replay {
namespace {

namespace record = cluster_core::record;

record::Submitted submitted(cluster_core::JobId id, std::uint32_t most) {
  record::Submitted one;
  one.job = id;
  one.owner = {0, "root", true};
  one.spec.name = "job-" + std::to_string(id);
  one.spec.arguments = {"--"};
  one.spec.max = most;
  return one;
}

// One slot: a job that starts in 3 s and trains on 100 samples, 10 a second; another one of 50 behind it, in 2 s.
std::vector<Line> two_jobs() {
  const cluster_core::Slots slot = {{0, 0}};
  return {{record::Began{"1", "fifo", record::Rules{.decide_after_s = 0.05, .recall_timeout_s = 60}}, 0},
          {record::Hosts{{{"h", 1}}}, 0},
          {submitted(1, 1), 1},
          {record::Decided{"j1 arrives", "fifo", 1, 1, 0, {{1, 0, 1, "", 0}}}, 1.05},
          {record::Leased{1, 1, slot, ""}, 1.05},
          {record::Started{1, false}, 1.05},
          {submitted(2, 1), 1.1},
          {record::HasJoined{.job = 1, .suspends = true}, 1.15},
          {record::Learned{.job = 1, .start_s = 3, .workers = 1, .samples_total = 100}, 4.05},
          {record::Learned{.job = 1, .rates = {{1, 10, 1}}}, 5.05},
          {record::Learned{.job = 1, .rates = {{1, 10, 3}}}, 7.05},
          {record::HasEnded{1, 0, "done", 100, 13.1, {{1, 10, 8}}}, 14.15},
          {record::Decided{"j1 ends", "fifo", 1, 1, 0, {{2, 0, 1, "", 0}}}, 14.2},
          {record::Leased{2, 1, slot, ""}, 14.2},
          {record::Started{2, false}, 14.2},
          {record::HasJoined{.job = 2, .suspends = true}, 14.3},
          {record::Learned{.job = 2, .start_s = 2, .workers = 1, .samples_total = 50}, 16.2},
          {record::HasEnded{2, 0, "done", 50, 7.1, {{1, 10, 4}}}, 21.3}};
}

Past past() {
  auto read = past_of(two_jobs());
  REQUIRE(read.ok());
  return *read;
}

TEST_CASE("the past has of each job how long it was, how fast, and what its workers took to start") {
  const Past read = past();
  REQUIRE(read.jobs.size() == 2);
  CHECK(read.jobs[0].work == 100.0);
  CHECK(read.jobs[0].first_starts_s == std::vector<double>{3});
  CHECK(read.jobs[1].work == 50.0);
  CHECK(rate_of(read.jobs[1], 1) == 10);
  CHECK(read.delays.join_s == doctest::Approx(0.1));
  CHECK(read.delays.first_view_s == doctest::Approx(1));
  CHECK(read.delays.measured_s == doctest::Approx(3));
  CHECK(read.delays.end_s == doctest::Approx(0.1));
  CHECK(read.given == std::vector<Given>{{1.05, 1, 1}, {14.2, 2, 1}});
  CHECK(*trained_share(read) == doctest::Approx(15 / 20.2));
}

TEST_CASE("the same policy ends the same jobs when they have ended, and gives them the same sizes") {
  const Past read = past();
  const Prediction again = replay(read, "fifo");
  CHECK(again.problem == "");
  REQUIRE(again.ended_s.size() == 2);
  CHECK(again.ended_s.at(1) == doctest::Approx(14.15).epsilon(0.01));
  CHECK(again.ended_s.at(2) == doctest::Approx(21.3).epsilon(0.01));
  CHECK(agreement_of(read.given, again.given).all());
  CHECK(*again.trained_share == doctest::Approx(15 / 20.2).epsilon(0.02));
}

// As their lengths are said only by the runs, nobody knows before j2 has trained that it is the shorter one.
TEST_CASE("another policy knows in the replay only what was known then") {
  CHECK(replay(past(), "srtf").ended_s.at(1) < 15);
  auto lines = two_jobs();
  for (Line& line : lines) {
    if (auto* one = std::get_if<record::Submitted>(&line.record); one != nullptr && one->job == 2) {
      one->spec.samples_total = 5;
      line.at_s = 1.01;
    }
  }
  auto told = past_of(lines);
  REQUIRE(told.ok());
  CHECK(replay(*told, "srtf").ended_s.at(2) < replay(*told, "srtf").ended_s.at(1));
}

TEST_CASE("what users ordered happens again; a job that would never end is not waited for") {
  auto lines = two_jobs();
  lines.insert(lines.begin() + 8, {record::Ordered{1, cluster_core::Order::kCancel, 0, "root"}, 3});
  lines.push_back({submitted(3, 1), 22});
  auto read = past_of(lines);
  REQUIRE(read.ok());
  const Prediction again = replay(*read, "fifo");
  CHECK(again.problem == "");
  CHECK(again.ended_s.at(1) < 4);
  CHECK(again.ended_s.at(2) < 12);
  CHECK_FALSE(again.ended_s.contains(3));
}

TEST_CASE("a journal that is not enough for a replay is refused with the reason") {
  const auto problem = [](std::vector<Line> lines) { return past_of(lines).error().message; };
  auto lines = two_jobs();
  CHECK(problem({lines.begin() + 1, lines.end()}).find("its beginning is missing") == 0);
  CHECK(problem({lines.begin(), lines.begin() + 2}) == "no job was submitted to this cluster yet");
  std::get<record::Began>(lines[0].record).rules.reset();
  CHECK(problem(lines).find("version 1 of elastictrain wrote it, which did not record what a replay needs") == 0);
}

TEST_CASE("a job that a damaged journal has twice is one job") {
  auto lines = two_jobs();
  lines.push_back({submitted(1, 4), 30});
  auto read = past_of(lines);
  REQUIRE(read.ok());
  CHECK(read->jobs.size() == 2);
  CHECK(replay(*read, "fifo").ended_s.size() == 2);
}

TEST_CASE("sizes agree job by job, whatever the order among jobs") {
  const std::vector<Given> live = {{1, 1, 4}, {2, 2, 1}, {2, 1, 3}, {5, 2, 2}};
  CHECK(agreement_of(live, {{1, 1, 4}, {1.9, 1, 3}, {2, 2, 1}, {6, 2, 2}}).all());
  const Agreement other = agreement_of(live, {{1, 1, 4}, {2, 2, 1}, {2, 1, 2}, {4, 2, 4}, {5, 2, 2}});
  CHECK(other.equal == 3);
  CHECK(other.of == 5);
  CHECK(other.first_live == Given{2, 1, 3});
  CHECK(other.first_predicted == Given{2, 1, 2});
  const Agreement shorter = agreement_of(live, {{1, 1, 4}, {2, 1, 3}});
  CHECK(shorter.equal == 2);
  CHECK_FALSE(shorter.first_predicted);
}

}  // namespace
}  // namespace elastictrain::cluster::replay
