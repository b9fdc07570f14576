// Rounds of pair averaging: how a worker takes its samples between two meetings, and that what it has not used by the
// meeting returns to the pool, so that each sample counts once whatever every worker has used.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "train/session/run_progress.h"

namespace elastictrain::session {
namespace {

using namespace std::chrono_literals;

RoundPace at(std::chrono::milliseconds now, bool must_meet = false) {
  return {
      .now = Clock::time_point(now), .length = 100ms, .own_step = 10ms, .must_meet = must_meet, .may_run_ahead = true};
}

std::vector<std::uint64_t> numbers(std::uint64_t count) {
  std::vector<std::uint64_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST_CASE("a round: batch by batch until its time is over") {
  Round round;
  round.begin(numbers(800), 800, 8, 0, at(0ms));
  std::uint64_t next = 0;
  for (int taken = 0; taken < 20; ++taken) {
    round.take_batch(at(10ms * taken));
    REQUIRE(round.samples().size() == 8);
    for (const auto sample : round.samples()) CHECK(sample == next++);
    CHECK(round.is_last() == (10 * taken + 15 >= 100));
    if (round.is_last()) break;
  }
  CHECK(round.is_last());
  const auto claim = round.claim(at(80ms));
  CHECK(claim.used == next);
  CHECK(claim.steps == next / 8);
  CHECK(claim.batches == 15);
}

TEST_CASE("a round ends with its samples, and where something waits until they meet") {
  Round round;
  round.begin(numbers(20), 20, 8, 0, at(0ms));
  round.take_batch(at(0ms));
  CHECK_FALSE(round.is_last());
  round.take_batch(at(1ms, true));
  CHECK(round.is_last());
  round.begin(numbers(20), 20, 8, 0, at(0ms));
  for (const std::size_t size : {8, 8, 4}) {
    round.take_batch(at(0ms));
    CHECK(round.samples().size() == size);
    CHECK(round.is_last() == (size == 4));
  }
  // No batch below the least number.
  round.begin(numbers(20), 20, 8, 5, at(0ms));
  for (const std::size_t size : {8, 12}) {
    round.take_batch(at(0ms));
    CHECK(round.samples().size() == size);
  }
  CHECK(round.is_last());
}

TEST_CASE("a round without samples, or without a batch, is one batch") {
  Round round;
  round.begin({}, 0, 8, 0, at(0ms));
  round.take_batch(at(0ms));
  CHECK(round.is_last());
  CHECK(round.claim(at(0ms)).used == 0);
  round.begin(numbers(9), 9, 0, 0, at(0ms));
  round.take_batch(at(0ms));
  CHECK(round.batch_samples() == 9);
  CHECK(round.is_last());
  auto unknown = at(0ms);
  unknown.own_step = {};
  CHECK(round.claim(unknown).batches == 1);
  unknown.may_run_ahead = false;
  CHECK(round.claim(unknown).batches == 0);
}

// Workers that use random parts of what they are allotted, with losses, until the epoch is over.
TEST_CASE("every sample counts once, whatever each worker has used by each meeting") {
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::uint64_t most) { return random() % (most + 1); };
    const DataOptions data{.sample_count = 1'000 + below(500), .epochs = 1, .seed = seed, .batch = 4};
    RunProgress run_progress(data);
    Assignment assignment;
    for (std::uint32_t worker = 1; worker <= 4; ++worker) assignment.shares.push_back({WorkerId{worker}, 4});
    run_progress.begin(assignment.shares, 1);
    std::multiset<std::uint64_t> seen;
    for (int met = 0; !run_progress.data_is_used_up(); ++met) {
      REQUIRE(met < 2'000);
      Assignment now = assignment;
      if (met % 7 == 3) {  // the third worker is lost in this round, and another takes its place
        now.repeats_step = true;
        now.holders = {WorkerId{1}, WorkerId{2}, WorkerId{4}};
      }
      auto division = divide_step(run_progress, now, WorkerId{1}, true);
      std::vector<std::uint64_t> used;
      for (std::size_t rank = 0; rank < division.counts.size(); ++rank) {
        used.push_back(std::min(division.cut.count(rank), 1 + below(division.cut.count(rank))));
      }
      division.keep_used(used);
      division.steps = 1 + below(9);
      std::uint64_t kept = 0;
      for (const auto& piece : division.used_cut().pieces) {
        kept += piece.count;
        for (std::uint64_t i = 0; i < piece.count; ++i) seen.insert(piece.first + i);
      }
      CHECK(kept == division.counted);
      const Step before = run_progress.committed_step();
      run_progress.commit(division, true, assignment.shares);
      CHECK(run_progress.committed_step() == before + division.steps);
      std::vector<Claim> claims;
      for (int rank = 0; rank < 4; ++rank) claims.push_back({.batches = static_cast<std::uint32_t>(1 + below(20))});
      run_progress.run_ahead(claims);
    }
    CHECK(seen.size() == data.sample_count);
    CHECK(std::set<std::uint64_t>(seen.begin(), seen.end()).size() == data.sample_count);
    CHECK(run_progress.progress().samples_used == data.sample_count);
  }
}

TEST_CASE("a round allots no more steps than are left, and a change begins with one batch for each") {
  const DataOptions data{.batch = 4, .max_steps = 5};
  RunProgress run_progress(data);
  Assignment assignment;
  assignment.shares = {{WorkerId{1}, 4}, {WorkerId{2}, 4}};
  run_progress.begin(assignment.shares, 1);
  run_progress.commit(divide_step(run_progress, assignment, WorkerId{1}, true), true, assignment.shares);
  const std::vector<Claim> claims{{.batches = 20}, {.batches = 3}};
  run_progress.run_ahead(claims);
  CHECK(run_progress.runs_ahead());
  CHECK(run_progress.next_shares()[0].samples == 4 * 4);
  CHECK(run_progress.next_shares()[1].samples == 4 * 3);
  CHECK(run_progress.latest_next_step() == 5);
  protocol::GenerationPlan plan;
  plan.members = {{.worker = WorkerId{1}, .share = 4}, {.worker = WorkerId{2}, .share = 4}};
  run_progress.change_with(plan);
  CHECK_FALSE(run_progress.runs_ahead());
  CHECK(run_progress.next_shares()[0].samples == 4);
}

}  // namespace
}  // namespace elastictrain::session
