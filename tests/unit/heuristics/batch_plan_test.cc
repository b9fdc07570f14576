#include "heuristics/batch_plan.h"

#include <doctest/doctest.h>

#include <numeric>

using namespace elastictrain::heuristics;

TEST_CASE("without a limit the global batch grows with the workers") {
  const BatchPlan plan = plan_batch({.per_worker = 32}, 4);
  CHECK(plan.global == 128);
  CHECK(plan.shares == std::vector<std::uint32_t>{32, 32, 32, 32});
  CHECK(most_workers({.per_worker = 32}) == 0xffffffffU);
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
  CHECK(most_workers({.per_worker = 32, .max_global = 100, .at_limit = AtLimit::kStop}) == 3);
  CHECK(most_workers({.per_worker = 32, .max_global = 128, .at_limit = AtLimit::kStop}) == 4);
  CHECK(most_workers({.per_worker = 32, .max_global = 8, .at_limit = AtLimit::kStop}) == 1);
}

TEST_CASE("splitting ends at one sample for each worker") {
  CHECK(most_workers({.per_worker = 32, .max_global = 5}) == 5);
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

TEST_CASE("nobody gets nothing") {
  CHECK(plan_batch({}, 0).shares.empty());
}
