// Simulated hosts: who is where, what fails, what is slow.
#include "heuristics/simulate/cluster/hosts.h"

#include <doctest/doctest.h>

#include <map>
#include <random>

#include "heuristics/simulate/cluster/migration.h"
#include "tests/unit/heuristics/sharing/sharing_jobs.h"

namespace elastictrain::heuristics::cluster {
namespace {

using sharing::job_of;
using sharing::outcome_of;
using sharing::trace_of;

Options on_hosts(HostOptions hosts) {
  Options options;
  options.slots = hosts.hosts * hosts.slots;
  options.hosts = hosts;
  return options;
}

double end_of(const Outcome& outcome, std::size_t job) {
  REQUIRE(outcome.problem == "");
  return outcome.jobs[job].completion_s;
}

Trace two_jobs(std::uint32_t slots) {
  const auto curve = sharing::curve_of({1, 2, 3, 4});
  return trace_of({job_of(100, curve, slots, 0), job_of(100, curve, slots, 0)});
}

TEST_CASE("no host has more workers than slots, and who keeps a size stays where it is") {
  std::mt19937_64 rng(7);
  Hosts hosts({.hosts = 6, .slots = 4, .failure_every_s = 50}, 3);
  std::map<std::uint64_t, std::uint32_t> shares;
  double now_s = 0;
  for (int round = 0; round < 400; ++round) {
    now_s += static_cast<double>(rng() % 20);
    bool failed = false;
    for (const auto& lost : hosts.pass(now_s)) failed = failed || lost.slots > 0;
    std::uint32_t left = hosts.slots();
    std::vector<Hosts::Wanted> wanted;
    std::map<std::uint64_t, std::vector<placement::Piece>> before;
    for (std::uint64_t job = 0; job < 8; ++job) {
      auto& share = shares[job];
      if (rng() % 3 == 0) share = static_cast<std::uint32_t>(rng() % 7);
      const std::uint32_t slots = std::min(share, left);
      left -= slots;
      wanted.push_back({job, slots});
      before[job] = hosts.pieces(job);
    }
    const auto given = hosts.place(wanted);
    std::map<std::uint32_t, std::uint32_t> used;
    for (std::size_t place = 0; place < wanted.size(); ++place) {
      CHECK(given[place] <= wanted[place].slots);
      std::uint32_t had = 0, stayed = 0;
      for (const auto& piece : before[wanted[place].job]) had += piece.slots;
      for (const auto& piece : hosts.pieces(wanted[place].job)) {
        used[piece.host] += piece.slots;
        for (const auto& old : before[wanted[place].job]) {
          if (old.host == piece.host) stayed += std::min(old.slots, piece.slots);
        }
      }
      if (!failed && had > 0 && had == wanted[place].slots) CHECK(stayed == had);
    }
    for (const auto& [host, slots] : used) CHECK(slots <= 4);
  }
}

// Two hosts of two slots, on each of which one is free from 10 s on; then job 3 comes, for two slots.
Trace one_in_two_pieces(const std::shared_ptr<const sharing::Curve>& curve) {
  const auto one = sharing::linear_curve(1);
  return trace_of({job_of(10, one), job_of(100, one), job_of(100, one), job_of(10, curve, 2, 10)});
}

TEST_CASE("a job on twice the hosts that it needs keeps the part of its speed that is told, or what its curve says") {
  const std::vector<sharing::Curve::Point> points = {{1, 1}, {2, 2}};
  const auto plain = std::make_shared<const sharing::Curve>(points);
  const auto measured =
      std::make_shared<const sharing::Curve>(points, "measured", sharing::Curve::OnHosts{{2, {{1, 1.0}, {2, 0.8}}}});
  Options options = on_hosts({.hosts = 2, .slots = 2});
  CHECK(end_of(outcome_of(one_in_two_pieces(plain), "fifo", options), 3) == 15);
  CHECK(end_of(outcome_of(one_in_two_pieces(measured), "fifo", options), 3) == 16.25);
  options.hosts.spread = 0.5;
  CHECK(end_of(outcome_of(one_in_two_pieces(plain), "fifo", options), 3) == 20);
  CHECK(end_of(outcome_of(one_in_two_pieces(measured), "fifo", options), 3) == 16.25);
  // Four slots need two hosts; that is what their speed was measured on.
  const auto four = trace_of({job_of(40, sharing::linear_curve(4), 4)});
  CHECK(end_of(outcome_of(four, "fifo", options), 0) == 10);
  CHECK(measured->on_hosts(2, 5) == 0.8);
  CHECK(measured->on_hosts(1, 1) == std::nullopt);
}

TEST_CASE("a job in two pieces comes together when that pays") {
  const auto plain = std::make_shared<const sharing::Curve>(std::vector<sharing::Curve::Point>{{1, 1}, {2, 2}});
  Trace trace = one_in_two_pieces(plain);
  trace.jobs[1].work = trace.jobs[2].work = 60;  // both end at 60 s, then all is free
  trace.jobs[3].work = 200;
  Options options = on_hosts({.hosts = 2, .slots = 2, .spread = 0.5});
  // 50 of 200 are done at 60 s, on two hosts. On one the rest takes 75 s.
  CHECK(end_of(outcome_of(trace, "fifo", options), 3) == 210);
  options.hosts.migration = true;
  const Outcome moved = outcome_of(trace, "fifo", options);
  CHECK(end_of(moved, 3) == 135);
  CHECK(moved.moves == 1);
  // A new worker starts beside training: 55 of 200 are done at 65 s.
  options.cost = {Cost::Kind::kSwap, 5};
  trace.jobs[3].work = 200;
  const double plain_s = end_of(outcome_of(trace, "fifo", options), 3);
  CHECK(plain_s < 215);
  CHECK(plain_s > 135);
  options.hosts.spread = 1;
  CHECK(outcome_of(trace, "fifo", options).moves == 0);
}

Migration::Subject subject(std::uint64_t job, const std::shared_ptr<const sharing::Curve>& curve) {
  return {job, curve.get(), true, -1000, 1000};
}

TEST_CASE("a job makes room for one that waits for a host, and nobody takes the slots meanwhile") {
  Hosts hosts({.hosts = 2, .slots = 4}, 1);
  hosts.place({{1, 2}, {3, 3}, {4, 1}});
  hosts.place({{1, 2}, {2, 1}, {3, 3}, {4, 1}});
  hosts.place({{1, 2}, {2, 1}, {3, 3}});  // job 3 on one host, 1 and 2 on the other
  REQUIRE(hosts.free() == std::vector<std::uint32_t>{1, 1});
  const auto curve = sharing::linear_curve(4);
  const std::vector<Migration::Subject> subjects = {subject(1, curve), subject(2, curve), subject(3, curve)};
  Migration migration({Cost::Kind::kSwap, 5});
  migration.look(hosts, subjects, {}, 0);
  CHECK(migration.next_event_s() == sharing::kNever);
  migration.look(hosts, subjects, {{2, {}}}, 0);
  CHECK(migration.next_event_s() == 5);
  CHECK(hosts.free() == std::vector<std::uint32_t>{0, 0});
  CHECK(hosts.place({{1, 2}, {2, 1}, {3, 3}, {5, 1}}) == std::vector<std::uint32_t>{2, 1, 3, 0});
  CHECK(migration.pass(hosts, 4).empty());
  CHECK(migration.pass(hosts, 5) == std::vector<std::uint64_t>{2});
  CHECK(hosts.free() == std::vector<std::uint32_t>{0, 2});
  // It rests now for ten starts.
  migration.look(hosts, subjects, {{4, {}}}, 6);
  CHECK(migration.next_event_s() == 55);
}

TEST_CASE("a job that has another size does not move any more, and the slots are free again") {
  Hosts hosts({.hosts = 2, .slots = 2, .spread = 0.5}, 1);
  hosts.place({{1, 1}, {2, 1}});
  hosts.place({{1, 1}, {2, 1}, {3, 1}});
  hosts.place({{2, 1}, {3, 1}});
  hosts.place({{2, 1}, {3, 1}, {4, 2}});
  REQUIRE(hosts.pieces(4).size() == 2);
  hosts.place({{2, 1}, {4, 2}});
  const auto curve = sharing::linear_curve(4);
  Migration migration({Cost::Kind::kSwap, 5});
  migration.look(hosts, {subject(2, curve), subject(4, curve)}, {}, 0);
  REQUIRE(migration.next_event_s() == 5);
  CHECK(hosts.free() == std::vector<std::uint32_t>{0, 0});
  migration.overtake(hosts, 4);
  CHECK(migration.pass(hosts, 5).empty());
  CHECK(hosts.free() == std::vector<std::uint32_t>{0, 1});
}

TEST_CASE("no slot is used or reserved twice, whatever moves") {
  std::mt19937_64 rng(11);
  const auto curve = sharing::linear_curve(8);
  Hosts hosts({.hosts = 6, .slots = 4, .failure_every_s = 300, .spread = 0.5}, 3);
  Migration migration({Cost::Kind::kSwap, 2});
  std::map<std::uint64_t, std::uint32_t> shares;
  double now_s = 0;
  for (int round = 0; round < 6000; ++round) {
    now_s += static_cast<double>(rng() % 10);
    std::map<std::uint64_t, std::uint32_t> lost;
    for (const auto& one : hosts.pass(now_s)) lost[one.job] += one.slots;
    migration.pass(hosts, now_s);
    std::vector<Hosts::Wanted> wanted;
    std::vector<Migration::Subject> subjects;
    std::uint32_t left = hosts.slots();
    for (std::uint64_t job = 0; job < 9; ++job) {
      const std::uint32_t before = placement::Placed{hosts.pieces(job)}.slots();
      if (rng() % 30 == 0) shares[job] = static_cast<std::uint32_t>(rng() % 6);
      const std::uint32_t slots = std::min(shares[job], left);
      left -= slots;
      wanted.push_back({job, slots});
      if (slots != before) migration.overtake(hosts, job);
      subjects.push_back({job, curve.get(), true, now_s - 100, 500});
    }
    hosts.place(wanted);
    std::erase_if(subjects, [&](const auto& one) { return hosts.pieces(one.job).empty(); });
    migration.look(hosts, subjects, {{3, {}}}, now_s);
    std::vector<std::uint32_t> used(6, 0);
    for (std::uint64_t job = 0; job < 9; ++job) {
      for (const auto& piece : hosts.pieces(job)) used[piece.host] += piece.slots;
    }
    const auto free = hosts.free();  // what is reserved is neither
    for (std::size_t host = 0; host < used.size(); ++host) CHECK(used[host] + free[host] <= 4);
  }
  CHECK(migration.moves() > 50);
  MESSAGE(migration.moves() << " moves");
}

TEST_CASE("migration saves time where jobs span hosts, and changes nothing where none does") {
  std::mt19937_64 rng(5);
  const auto curve = sharing::curve_of({1, 1.9, 2.7, 3.4, 4, 4.5, 4.9, 5.2});
  std::uint64_t moves = 0;
  double with_s = 0, without_s = 0;
  for (int round = 0; round < 60; ++round) {
    std::vector<TraceJob> jobs;
    double at_s = 0;
    for (int job = 0; job < 40; ++job) {
      at_s += static_cast<double>(rng() % 20);
      jobs.push_back(job_of(20 + static_cast<double>(rng() % 600), curve, 1 + rng() % 6, at_s));
    }
    const Trace trace = trace_of(jobs);
    for (const char* const policy : {"fifo", "srtf", "max-min", "afs-l"}) {
      Options options =
          on_hosts({.hosts = 6, .slots = 4, .failure_every_s = round % 3 == 0 ? 500.0 : 0, .spread = 0.6});
      options.cost = {round % 2 == 0 ? Cost::Kind::kSwap : Cost::Kind::kRestart, 3};
      const Outcome before = outcome_of(trace, policy, options);
      options.hosts.migration = true;
      const Outcome after = outcome_of(trace, policy, options);
      for (std::size_t job = 0; job < trace.jobs.size(); ++job) {
        without_s += end_of(before, job);
        with_s += end_of(after, job);
      }
      moves += after.moves;
      Options one_host = on_hosts({.hosts = 1, .slots = 24, .spread = 0.6});
      const Outcome single = outcome_of(trace, policy, one_host);
      one_host.hosts.migration = true;
      const Outcome same = outcome_of(trace, policy, one_host);
      CHECK(same.moves == 0);
      for (std::size_t job = 0; job < trace.jobs.size(); ++job) CHECK(end_of(same, job) == end_of(single, job));
    }
  }
  CHECK(moves > 1000);
  CHECK(with_s < without_s);
  MESSAGE("completion with moves over that without: " << with_s / without_s);
}

TEST_CASE("one host is one pool of slots, and so are many where nothing depends on them") {
  const auto curve = sharing::curve_of({1, 1.8, 2.4, 2.8});
  std::vector<TraceJob> jobs;
  for (int job = 0; job < 12; ++job) jobs.push_back(job_of(50 + 20 * job, curve, 1U << (job % 3), 10 * job));
  const Trace trace = trace_of(jobs);
  for (const char* const policy : {"srtf", "max-min", "afs-l", "worth"}) {
    Options pool;
    pool.slots = 8;
    const Outcome expected = outcome_of(trace, policy, pool);
    const Outcome placed = outcome_of(trace, policy, on_hosts({.hosts = 1, .slots = 8}));
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      CAPTURE(policy);
      CHECK(end_of(placed, job) == end_of(expected, job));
    }
  }
}

TEST_CASE("jobs that share a host disturb each other, those on hosts of their own do not") {
  const Trace trace = two_jobs(2);
  CHECK(end_of(outcome_of(trace, "fifo", on_hosts({.hosts = 2, .slots = 2, .interference = 0.5})), 1) == 50);
  CHECK(end_of(outcome_of(trace, "fifo", on_hosts({.hosts = 1, .slots = 4, .interference = 0.5})), 1) == 100);
  CHECK(end_of(outcome_of(trace, "fifo", on_hosts({.hosts = 1, .slots = 4})), 1) == 50);
}

TEST_CASE("a job is as slow as the slowest of its hosts") {
  CHECK(end_of(outcome_of(two_jobs(2), "fifo", on_hosts({.hosts = 2, .slots = 2, .stragglers = 0.99})), 0) == 100);
  const Outcome half = outcome_of(two_jobs(2), "fifo", on_hosts({.hosts = 2, .slots = 2, .stragglers = 0.5}));
  CHECK(std::min(end_of(half, 0), end_of(half, 1)) == 50);
  CHECK(std::max(end_of(half, 0), end_of(half, 1)) == 100);
  const auto curve = sharing::curve_of({1, 2, 3, 4});
  const Trace wide = trace_of({job_of(100, curve, 4, 0)});
  CHECK(end_of(outcome_of(wide, "fifo", on_hosts({.hosts = 2, .slots = 2, .stragglers = 0.5})), 0) == 50);
}

TEST_CASE("hosts that fail cost time, no job is lost, and the same seed fails the same hosts") {
  const auto curve = sharing::curve_of({1, 2, 3, 4});
  std::vector<TraceJob> jobs;
  for (int job = 0; job < 10; ++job) jobs.push_back(job_of(4000, curve, 2, 100.0 * job));
  const Trace trace = trace_of(jobs);
  for (const char* const policy : {"fifo", "max-min", "afs-p", "gandiva"}) {
    CAPTURE(policy);
    const HostOptions calm{.hosts = 4, .slots = 2}, rough{.hosts = 4, .slots = 2, .failure_every_s = 2000};
    const Outcome without = outcome_of(trace, policy, on_hosts(calm)),
                  with = outcome_of(trace, policy, on_hosts(rough));
    double calm_s = 0, rough_s = 0;
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      calm_s += end_of(without, job);
      rough_s += end_of(with, job);
    }
    CHECK(rough_s > calm_s * 1.02);
    CHECK(end_of(outcome_of(trace, policy, on_hosts(rough)), 9) == end_of(with, 9));
  }
}

TEST_CASE("a host that has failed is back after its repair") {
  Hosts hosts({.hosts = 1, .slots = 3, .failure_every_s = 100}, 1);
  CHECK(hosts.place({{5, 2}}) == std::vector<std::uint32_t>{2});
  const double at_s = hosts.next_event_s();
  const auto lost = hosts.pass(at_s);
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].job == 5);
  CHECK(lost[0].slots == 2);
  CHECK(hosts.slots() == 0);
  CHECK(hosts.next_event_s() == at_s + kRepair_s);
  CHECK(hosts.pass(at_s + kRepair_s).empty());
  CHECK(hosts.slots() == 3);
}

}  // namespace
}  // namespace elastictrain::heuristics::cluster
