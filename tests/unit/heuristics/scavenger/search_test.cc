#include "heuristics/scavenger/search.h"

#include <doctest/doctest.h>

#include <cmath>

namespace elastictrain::heuristics {
namespace {

using doctest::Approx;

const SearchSpace kSpace{{1, 2, 4, 8, 16}, {8, 16, 32, 64, 128}};

TEST_CASE("sizes grow by a factor between the ends") {
  CHECK(geometric_sizes(1, 16, 5) == std::vector<std::uint32_t>{1, 2, 4, 8, 16});
  CHECK(geometric_sizes(8, 20, 3) == std::vector<std::uint32_t>{8, 13, 20});
  CHECK(geometric_sizes(1, 3, 8) == std::vector<std::uint32_t>{1, 2, 3});
  CHECK(geometric_sizes(5, 5, 4) == std::vector<std::uint32_t>{5});
  CHECK(geometric_sizes(0, 0, 4) == std::vector<std::uint32_t>{1});
}

TEST_CASE("the full search measures everything, and changes the size as rarely as it can") {
  const auto plan = search_points(kSpace, SearchMode::kFull, {2, 8});
  REQUIRE(plan.size() == 25);
  CHECK(plan.front() == SearchPoint{1, 8});  // the nearer end
  int changes = 0;
  for (std::size_t i = 1; i < plan.size(); ++i) changes += plan[i].workers != plan[i - 1].workers;
  CHECK(changes == 4);
  CHECK(search_points(kSpace, SearchMode::kFull, {16, 128}).front() == SearchPoint{16, 128});
}

TEST_CASE("the partial search measures ends and middles") {
  const auto plan = search_points(kSpace, SearchMode::kPartial, {1, 8});
  CHECK(plan ==
        std::vector<SearchPoint>{{1, 8}, {1, 32}, {1, 128}, {4, 128}, {4, 32}, {4, 8}, {16, 8}, {16, 32}, {16, 128}});
}

TEST_CASE("no search goes past the limit of the global batch") {
  SearchSpace limited = kSpace;
  limited.max_global = 256;
  for (const auto mode : {SearchMode::kFull, SearchMode::kPartial, SearchMode::kUniversal})
    for (const auto& point : search_points(limited, mode, {16, 128})) CHECK(point.workers * point.local_batch <= 256);
  limited.max_global = 4;
  CHECK(search_points(limited, SearchMode::kFull, {1, 8}).empty());
}

TEST_CASE("the universal search measures where the job is") {
  CHECK(search_points(kSpace, SearchMode::kUniversal, {4, 32}) == std::vector<SearchPoint>{{4, 32}});
  CHECK(search_points(kSpace, SearchMode::kUniversal, {5, 30}) == std::vector<SearchPoint>{{4, 32}});
}

TEST_CASE("a search continues at the next unmeasured point and ends") {
  const std::vector<SearchPoint> plan{{1, 8}, {1, 32}, {4, 32}};
  CHECK(next_point(plan, {}) == SearchPoint{1, 8});
  CHECK(next_point(plan, {{1, 32}, {1, 8}}) == SearchPoint{4, 32});
  CHECK_FALSE(next_point(plan, plan));
}

TEST_CASE("universal coefficients keep what was measured and scale the rest") {
  const auto points = universal_points(kSpace, {4, 32, 0.7});
  REQUIRE(points.size() == 25);
  const auto at = [&](std::uint32_t workers, double batch) {
    for (const auto& candidate : points)
      if (candidate.workers == workers && candidate.local_batch == batch) return candidate.seconds;
    return 0.0;
  };
  CHECK(at(4, 32) == Approx(0.7));
  // One worker: (0.115 + 32/128) = 0.365 against (0.365^3 + (2 * 0.316 * 3/4)^3)^(1/3) = 0.5372 at four.
  CHECK(at(1, 32) == Approx(0.7 * 0.365 / std::cbrt(std::pow(0.365, 3) + std::pow(0.474, 3))));
}

}  // namespace
}  // namespace elastictrain::heuristics
