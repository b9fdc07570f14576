#include "heuristics/batch_plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace elastictrain::heuristics;

TEST_CASE("without a limit the global batch grows with the workers") {
  const BatchPlan plan = plan_batch({.per_worker = 32}, 4);
  CHECK(plan.global == 128);
  CHECK(plan.shares == std::vector<std::uint32_t>{32, 32, 32, 32});
  CHECK(max_workers({.per_worker = 32}) == 0xffffffffU);
}

TEST_CASE("at the limit shares shrink and their sum is the limit") {
  const BatchPlan plan = plan_batch({.per_worker = 32, .max_global = 100}, 7);
  CHECK(plan.global == 100);
  CHECK(plan.shares == std::vector<std::uint32_t>{15, 15, 14, 14, 14, 14, 14});
}

TEST_CASE("below the limit shares stay what the user asked for") {
  CHECK(plan_batch({.per_worker = 32, .max_global = 100}, 3).shares == std::vector<std::uint32_t>{32, 32, 32});
}

TEST_CASE("growing stops where one more full share would pass the limit") {
  CHECK(max_workers({.per_worker = 32, .max_global = 100, .at_limit = AtLimit::kStop}) == 3);
  CHECK(max_workers({.per_worker = 32, .max_global = 128, .at_limit = AtLimit::kStop}) == 4);
  CHECK(max_workers({.per_worker = 32, .max_global = 8, .at_limit = AtLimit::kStop}) == 1);
}

TEST_CASE("splitting ends at one sample for each worker") {
  CHECK(max_workers({.per_worker = 32, .max_global = 5}) == 5);
  CHECK(plan_batch({.per_worker = 32, .max_global = 5}, 5).shares == std::vector<std::uint32_t>{1, 1, 1, 1, 1});
}

TEST_CASE("shares always add up and differ by at most one") {
  for (std::uint64_t limit : {0, 1, 17, 64, 1000}) {
    for (std::uint32_t workers = 1; workers < 70; ++workers) {
      const BatchPlan plan = plan_batch({.per_worker = 16, .max_global = limit}, workers);
      CHECK(std::accumulate(plan.shares.begin(), plan.shares.end(), std::uint64_t{0}) == plan.global);
      CHECK(plan.shares.front() - plan.shares.back() <= 1);
    }
  }
}

TEST_CASE("every worker gets at least one sample") {
  CHECK(plan_batch({}, 0).shares.empty());
}

namespace {

// The time at which the last worker finishes its share.
double end_of(const std::vector<std::uint32_t>& shares, const std::vector<double>& speeds) {
  double end = 0;
  for (std::size_t rank = 0; rank < shares.size(); ++rank) end = std::max(end, shares[rank] / speeds[rank]);
  return end;
}

// The minimum such time over all ways to share out, by exhaustive search.
double best_end(std::uint32_t global, const std::vector<double>& speeds, std::size_t rank, double end) {
  if (rank + 1 == speeds.size()) return std::max(end, global / speeds[rank]);
  double best = 1e9;
  for (std::uint32_t share = 1; share + (speeds.size() - rank - 1) <= global; ++share) {
    best = std::min(best, best_end(global - share, speeds, rank + 1, std::max(end, share / speeds[rank])));
  }
  return best;
}

}  // namespace

TEST_CASE("uneven shares let everyone arrive together") {
  // 128 samples, speeds 1 1 1 1/2: exact shares 36.57 three times and 18.29.
  const BatchPlan plan = plan_batch({.per_worker = 32}, {1, 1, 1, 0.5});
  CHECK(plan.global == 128);
  CHECK(plan.shares == std::vector<std::uint32_t>{37, 37, 36, 18});
}

TEST_CASE("samples left over by rounding go to the worker that finishes them first") {
  // 13 samples, speeds 4 and 1: exact shares 10.4 and 2.6. Rounding by remainder gives 10 and 3, which ends at 3;
  // 11 and 2 ends at 2.75.
  CHECK(share_out(13, {4, 1}, 0) == std::vector<std::uint32_t>{11, 2});
}

TEST_CASE("no other whole shares let the last worker finish sooner") {
  const std::vector<std::vector<double>> all{{1, 1, 1}, {1, 0.5, 0.3}, {1, 0.83, 0.83}, {0.1, 1, 1}, {3, 1, 0.9}};
  for (const auto& speeds : all) {
    for (std::uint32_t global = 3; global < 40; ++global) {
      CAPTURE(global);
      CHECK(end_of(share_out(global, speeds, 0), speeds) == doctest::Approx(best_end(global, speeds, 0, 0)));
    }
  }
}

TEST_CASE("uneven shares add up, and every worker gets at least one sample") {
  for (std::uint32_t workers : {1U, 2U, 3U, 64U}) {
    std::vector<double> speeds(workers, 1.0);
    speeds.back() = 0.001;
    for (std::uint64_t global = workers; global < 3 * workers + 40; ++global) {
      const auto shares = share_out(global, speeds, 0);
      CHECK(std::accumulate(shares.begin(), shares.end(), std::uint64_t{0}) == global);
      CHECK(*std::min_element(shares.begin(), shares.end()) >= 1);
    }
  }
}

TEST_CASE("equal speeds give equal shares, and so do speeds that are none") {
  const auto equal = plan_batch({.per_worker = 32, .max_global = 100}, 7).shares;
  CHECK(plan_batch({.per_worker = 32, .max_global = 100}, std::vector<double>(7, 0.3)).shares == equal);
  CHECK(share_out(100, {1, 1, 1, 0, 1, 1, 1}, 0) == equal);
  CHECK(share_out(100, {1, 1, 1, std::nan(""), 1, 1, 1}, 0) == equal);
  CHECK(share_out(2, {1, 2, 3}, 0) == std::vector<std::uint32_t>{1, 1, 0});
}

TEST_CASE("no share is larger than memory allows, unless the batch would not fit at all") {
  CHECK(share_out(128, {1, 1, 1, 0.5}, 34) == std::vector<std::uint32_t>{34, 34, 34, 26});
  CHECK(share_out(128, {1, 1, 1, 0.5}, 20) == std::vector<std::uint32_t>{32, 32, 32, 32});
}
