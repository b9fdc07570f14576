// Replicas that differ: the effect of a step on them, how they diverge and become equal again, and what remains after a
// loss. check_audit() compares the workers' state in every step with averaged gradients.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fake_run.h"
#include "supervisor/protocol/plan_messages.h"
#include "train/peers/pair_averaging.h"
#include "train/state/sampler.h"

namespace elastictrain::test {
namespace {

using protocol::Synchronization;

Step now(FakeRun& run) {
  return run[run.members().front()].heartbeat.step;
}

void train_some_steps(FakeRun& run) {
  const Step step = now(run);
  for (const WorkerId worker : run.members()) run.wait_step(worker, step + 5);
}

void switch_to(FakeRun& run, Synchronization synchronization) {
  run.synchronize_by(synchronization);
  run.change_to(run.members());
}

// With averaged gradients at the end, so that the audit compares the result.
void average_gradients_and_check(FakeRun& run) {
  switch_to(run, Synchronization::kGradients);
  train_some_steps(run);
  run.stop_and_check();
}

// The first weight after each step; the last entry is that of the end.
std::vector<std::pair<Step, double>> trace_of(const FakeRun& run, WorkerId worker) {
  std::ifstream file(trace_path(run.directory(), worker.value));
  std::vector<std::pair<Step, double>> trace;
  for (std::pair<Step, double> line; file >> line.first >> line.second;) trace.push_back(line);
  return trace;
}

// One worker's first weight, as a program of the test worker's kind changes it.
struct Replica {
  double weight = 0;
  double momentum = 0;

  double update(std::uint64_t first_position, const state::Permutation& order) {
    double gradient = 0.001 * weight;
    for (std::uint64_t i = 0; i < 8; ++i) gradient += sample_gradient(order.at(first_position + i), 0) / 8;
    momentum = 0.9 * momentum + gradient;
    return -0.01 * momentum;
  }
};

double average(const std::vector<Replica>& replicas) {
  double sum = 0;
  for (const auto& replica : replicas) sum += replica.weight;
  return sum / static_cast<double>(replicas.size());
}

void check_near(double value, double expected) {
  CHECK(std::abs(value - expected) <= 2e-6 * std::max(1.0, std::abs(expected)));
}

TEST_CASE("synchronous averaging: a tenth of the way to the average, and the worker's own update; equal at the end") {
  for (const bool overlap : {true, false}) {
    const TestWorkerOptions options{
        .sample_count = 3000, .max_steps = 60, .parameters = 30, .overlap = overlap, .traces_weight = true};
    FakeRun run(options);
    run.synchronize_by(Synchronization::kAveraging);
    const auto workers = run.spawn_ready(3, options);
    run.change_to(workers);
    run.wait_all_exited();
    std::vector<Replica> replicas(3, Replica{static_cast<double>(run[workers[0]].pid % 1000)});
    std::vector<std::vector<std::pair<Step, double>>> traces;
    for (const WorkerId worker : workers) {
      CHECK(run[worker].exit_code == kExitFinished);
      traces.push_back(trace_of(run, worker));
      REQUIRE(traces.back().size() == 61);
    }
    const state::Permutation order(3000, 5, 0);
    for (std::uint64_t step = 0; step < 60; ++step) {
      const double mean = average(replicas);
      for (std::size_t i = 0; i < 3; ++i) {
        const double update = replicas[i].update(24 * step + 8 * i, order);
        replicas[i].weight = 0.9 * replicas[i].weight + 0.1 * mean + update;
        check_near(traces[i][step].second, replicas[i].weight);
      }
    }
    CHECK(replicas[0].weight != replicas[1].weight);
    for (const auto& trace : traces) {
      CHECK(trace.back().second == traces[0].back().second);
      check_near(trace.back().second, average(replicas));
    }
    run.check_audit();
  }
}

// The ranks that each rank reaches, as rows of zeros and ones.
peers::Reach reach_of(const std::vector<std::string>& rows) {
  std::vector<std::byte> bytes;
  for (const auto& row : rows) {
    std::vector<std::byte> bits(peers::Reach::row_bytes(static_cast<std::uint32_t>(rows.size())));
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (row[i] == '1') bits[i / 8] |= std::byte{1} << (i % 8);
    }
    bytes.insert(bytes.end(), bits.begin(), bits.end());
  }
  return {bytes, static_cast<std::uint32_t>(rows.size())};
}

TEST_CASE("pair averaging: halfway to a partner's model, and the worker's own update; equal at the end") {
  for (const bool tcp : {false, true}) {
    const TestWorkerOptions options{.sample_count = 3000, .max_steps = 60, .parameters = 30, .traces_weight = true};
    FakeRun run(options);
    if (tcp) run.set_environment("ELASTICTRAIN_TRANSPORT", "tcp");
    run.synchronize_by(Synchronization::kPairAveraging);
    const auto workers = run.spawn_ready(3, options);
    run.change_to(workers);
    run.wait_all_exited();
    std::vector<Replica> replicas(3, Replica{static_cast<double>(run[workers[0]].pid % 1000)});
    const auto reach = reach_of({"011", "101", "110"});  // also a ring of three
    const state::Permutation order(3000, 5, 0);
    for (std::uint64_t step = 0; step < 60; ++step) {
      const auto partner = peers::match_pairs(reach, step + 1);
      const auto before = replicas;
      for (std::size_t i = 0; i < 3; ++i) {
        const double update = replicas[i].update(24 * step + 8 * i, order);
        replicas[i].weight = (before[i].weight + before[partner[i]].weight) / 2 + update;
        check_near(trace_of(run, workers[i]).at(step).second, replicas[i].weight);
      }
    }
    for (const WorkerId worker : workers) {
      CHECK(run[worker].exit_code == kExitFinished);
      check_near(trace_of(run, worker).back().second, average(replicas));
      CHECK(trace_of(run, worker).back().second == trace_of(run, workers[0]).back().second);
    }
    run.check_audit();
  }
}

TEST_CASE("pairs are equal on all ranks, only of ranks that reach each other, and no rank is unpaired without need") {
  // Two hosts of three, joined by one link: 2 and 3. Rank 5 assumes that it reaches 0, which does not know of it.
  const auto reach = reach_of({"011000", "101000", "110100", "001011", "000101", "100110"});
  std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
  for (std::uint64_t step = 1; step <= 500; ++step) {
    const auto partner = peers::match_pairs(reach, step);
    CHECK(partner == peers::match_pairs(reach, step));
    for (std::uint32_t rank = 0; rank < 6; ++rank) {
      CHECK(partner[partner[rank]] == rank);
      if (partner[rank] > rank) seen.insert({rank, partner[rank]});
      const auto is_free = [&](std::uint32_t peer) { return partner[peer] == peer; };
      const auto& peers = reach.peers(rank);
      if (is_free(rank)) CHECK(std::none_of(peers.begin(), peers.end(), is_free));
    }
  }
  CHECK(seen ==
        std::set<std::pair<std::uint32_t, std::uint32_t>>{{0, 1}, {0, 2}, {1, 2}, {2, 3}, {3, 4}, {3, 5}, {4, 5}});
}

TEST_CASE("a run goes over to averaging and back at step boundaries, and grows and shrinks in both") {
  for (const auto averaging : {Synchronization::kAveraging, Synchronization::kPairAveraging}) {
    const bool overlap = averaging == Synchronization::kAveraging;
    const TestWorkerOptions options{.sample_count = 333, .parameters = 20'003, .overlap = overlap};
    FakeRun run(options);
    auto workers = run.spawn_ready(2, options);
    run.change_to(workers);
    train_some_steps(run);
    switch_to(run, averaging);
    train_some_steps(run);
    workers.push_back(run.spawn_ready());
    run.change_to(workers);
    train_some_steps(run);
    run.change_to({workers[1], workers[2]});
    train_some_steps(run);
    // A joiner at the very boundary at which gradients are averaged again.
    run.synchronize_by(Synchronization::kGradients);
    run.change_to({workers[1], workers[2], run.spawn_ready()});
    train_some_steps(run);
    switch_to(run, averaging);
    train_some_steps(run);
    switch_to(run,
              averaging == Synchronization::kAveraging ? Synchronization::kPairAveraging : Synchronization::kAveraging);
    train_some_steps(run);
    average_gradients_and_check(run);
  }
}

TEST_CASE("a program that shares no model trains with averaged gradients, and the reason is reported") {
  const TestWorkerOptions options{.max_steps = 20, .parameters = 30, .shares_model = false};
  FakeRun run(options);
  run.synchronize_by(Synchronization::kAveraging);
  const auto workers = run.spawn_ready(2, options);
  run.change_to(workers);
  run.wait_all_exited();
  CHECK(run[workers[0]].notes["synchronization"].find("share_model()") != std::string::npos);
  CHECK_FALSE(run[workers[1]].notes.contains("synchronization"));
  REQUIRE(run[workers[0]].audit.size() == 20);
  for (std::size_t step = 0; step < 20; ++step) {
    CHECK(run[workers[0]].audit[step].hashed);
    CHECK(run[workers[0]].audit[step].state_hash == run[workers[1]].audit[step].state_hash);
  }
}

TEST_CASE("a joiner gets one worker's replica, not slices of several") {
  const TestWorkerOptions options{.parameters = 3000, .traces_weight = true};
  FakeRun run(options);
  run.synchronize_by(Synchronization::kAveraging);
  auto workers = run.spawn_ready(3, options);
  run.change_to(workers);
  train_some_steps(run);
  workers.push_back(run.spawn_ready());
  run.change_to(workers);
  run.wait_step(workers[3], run[workers[3]].active.at(2).first_step + 5);
  CHECK(run[workers[0]].active.at(2).state_transfer_bytes == 24'000);
  CHECK(run[workers[1]].active.at(2).state_transfer_bytes == 0);
  CHECK(run[workers[2]].active.at(2).state_transfer_bytes == 0);
  average_gradients_and_check(run);
}

TEST_CASE("a worker dies while replicas differ: no worker computes anything twice, every sample counts once") {
  for (const auto where : {Moment::kComputing, Moment::kBetweenBuckets, Moment::kUpdating, Moment::kOutside}) {
    for (const auto averaging : {Synchronization::kAveraging, Synchronization::kPairAveraging}) {
      CAPTURE(where);
      CAPTURE(averaging);
      const bool overlap = where != Moment::kBetweenBuckets || averaging == Synchronization::kAveraging;
      const TestWorkerOptions options{.sample_count = 333, .parameters = 20'003, .overlap = overlap};
      FakeRun run(options);
      run.synchronize_by(averaging);
      auto workers = run.spawn_ready(2, options);
      workers.push_back(run.spawn_ready(dying(options, {where, 5})));
      run.change_to(workers);
      run.wait_exit(workers[2]);
      run.recover();
      // Replicas that average in pairs do not commit at the same instant: the one that is ahead is the donor, and
      // first.
      std::vector<WorkerId> members = run.members();
      std::sort(members.begin(), members.end());
      CHECK(members == std::vector<WorkerId>{workers[0], workers[1]});
      train_some_steps(run);
      average_gradients_and_check(run);
    }
  }
}

// Workers of different speeds, which meet every 20 ms; one dies, one is replaced, and the run shrinks.
TEST_CASE("rounds of pair averaging, through losses and changes: every sample counts once") {
  for (const auto where : {Moment::kComputing, Moment::kBetweenBuckets, Moment::kUpdating, Moment::kOutside}) {
    for (const bool overlap : {true, false}) {
      CAPTURE(where);
      CAPTURE(overlap);
      TestWorkerOptions options{.sample_count = 3333, .parameters = 2003, .overlap = overlap, .runs_ahead = true};
      FakeRun run(options);
      run.take_rounds(20);
      run.synchronize_by(Synchronization::kPairAveraging);
      auto workers = run.spawn_ready(1, options);
      options.step_time_us = 3000;
      workers.push_back(run.spawn_ready(options));
      options.step_time_us = 700;
      workers.push_back(run.spawn_ready(dying(options, {where, 60})));
      run.change_to(workers);
      run.wait_exit(workers[2]);
      run.recover();
      run.wait_step(workers[0], now(run) + 60);
      run.change_to({workers[0], workers[1], run.spawn_ready(options)});
      run.wait_step(workers[0], now(run) + 60);
      run.change_to({workers[0], workers[1]});
      run.wait_step(workers[0], now(run) + 60);
      CHECK(run[workers[0]].heartbeat.step > run[workers[0]].audit.size());  // commits of several steps
      average_gradients_and_check(run);
    }
  }
}

TEST_CASE("a program whose workers exchange data of their own in every step meets in every step") {
  const TestWorkerOptions options{.sample_count = 333, .max_steps = 60, .parameters = 30, .shares_own_data = true};
  FakeRun run(options);
  run.set_environment("ELASTICTRAIN_ROUND_MS", "20");
  run.synchronize_by(Synchronization::kPairAveraging);
  run.change_to(run.spawn_ready(3, options));
  run.wait_all_exited();
  for (const WorkerId worker : run.members()) CHECK(run[worker].exit_code == kExitFinished);
  run.check_audit();
}

TEST_CASE("a worker dies in the step that makes all replicas equal, or while it is repeated") {
  for (const auto where : {Moment::kComputing, Moment::kBetweenBuckets, Moment::kUpdating}) {
    for (const bool overlap : {true, false}) {
      CAPTURE(where);
      CAPTURE(overlap);
      TestWorkerOptions options{.sample_count = 333, .parameters = 20'003, .step_time_us = 3000, .overlap = overlap};
      FakeRun run(options);
      run.synchronize_by(Synchronization::kAveraging);
      auto workers = run.spawn_ready(2, options);
      options.dies_in_generation = 2;
      workers.push_back(run.spawn_ready(dying(options, {where, 0})));
      run.change_to(workers);
      train_some_steps(run);
      run.synchronize_by(Synchronization::kGradients);
      const auto equal = run.plan(workers);
      run.prepare(equal);
      run.wait_prepared(equal);
      run.commit(equal);
      run.wait_exit(workers[2]);
      run.recover();
      train_some_steps(run);
      run.stop_and_check();
    }
  }
}

TEST_CASE("who is behind by one step finishes it with its own gradient and keeps its replica") {
  const TestWorkerOptions options{.parameters = 30, .traces_weight = true};
  FakeRun run(options);
  run.synchronize_by(Synchronization::kAveraging);
  auto pausing = options;
  pausing.waits = Moment{Moment::kOutside, 5};
  auto workers = run.spawn_ready(1, pausing);
  workers.push_back(run.spawn_ready());
  workers.push_back(run.spawn_ready(dying(options, {Moment::kComputing, 5})));
  run.change_to(workers);
  run.wait_exit(workers[2]);
  // The second worker stays halted in its step 5, which the first alone commits, and no more than that.
  auto alone = run.recovery_plan(run.abort());
  alone.members.pop_back();
  alone.donors.pop_back();
  run.recover_with(alone);
  run.wait_until([&] { return run[workers[0]].heartbeat.step >= 5; }, "step 5");
  run.set_members({workers[0], workers[1]});
  run.recover();
  const auto& plan = run.committed().at(run.generation());
  REQUIRE(plan.members[1].joiner);
  REQUIRE(plan.resume_step == 5);
  run.let_go();
  train_some_steps(run);
  const state::Permutation order(1000, 5, 0);
  std::vector<Replica> replicas(3, Replica{static_cast<double>(run[workers[0]].pid % 1000)});
  for (std::uint64_t step = 0; step < 5; ++step) {
    const double mean = average(replicas);
    for (std::size_t i = 0; i < 3; ++i) {
      const double way = step < 4 ? 0.1 * (mean - replicas[i].weight) : 0;
      replicas[i].weight += way + replicas[i].update(24 * step + 8 * i, order);
    }
  }
  const auto trace = trace_of(run, workers[1]);
  REQUIRE(trace.size() >= 6);
  check_near(trace[4].second, replicas[1].weight);
  const double mean = (replicas[0].weight + replicas[1].weight) / 2;
  replicas[1].weight += 0.1 * (mean - replicas[1].weight) - 0.01 * 0.9 * replicas[1].momentum;
  check_near(trace[5].second, replicas[1].weight);
  average_gradients_and_check(run);
}

TEST_CASE("a joiner that gives up its first step has nothing in its gradient") {
  for (const bool overlap : {true, false}) {
    const TestWorkerOptions options{.parameters = 3000, .overlap = overlap};
    FakeRun run(options);
    run.synchronize_by(Synchronization::kAveraging);
    auto in_second = dying(options, {Moment::kComputing, 0});
    in_second.dies_in_generation = 2;
    const WorkerId stays = run.spawn_ready();
    const WorkerId dies = run.spawn_ready(in_second);
    run.change_to({stays, dies});
    train_some_steps(run);
    const WorkerId joiner = run.spawn_ready();
    const auto grown = run.plan({stays, dies, joiner});
    run.prepare(grown);
    run.wait_prepared(grown);
    run.commit(grown);
    run.wait_exit(dies);
    // The first worker goes on alone while the joiner is halted in the step of its empty batch.
    auto alone = run.recovery_plan(run.abort());
    std::erase_if(alone.members, [&](const auto& member) { return member.worker != stays; });
    alone.donors = {stays};
    run.recover_with(alone);
    run.wait_step(stays, alone.resume_step + 5);
    run.set_members({stays, joiner});
    run.recover();
    train_some_steps(run);
    average_gradients_and_check(run);
  }
}

}  // namespace
}  // namespace elastictrain::test
