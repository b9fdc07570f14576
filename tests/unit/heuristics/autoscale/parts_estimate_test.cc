#include "heuristics/autoscale/search.h"

#include <doctest/doctest.h>

#include <cmath>

namespace elastictrain::heuristics {
namespace {

// 1024 samples, which up to 64 workers share; 1 ms for each.
BatchRule shared_batch() {
  return {.per_worker = 256, .max_global = 1024};
}

constexpr SizeParts kParts{.sample_s = 0.001, .rest_s = 0.016};

double log_rate(double step_s) {
  return std::log(1024 / step_s);
}

TEST_CASE("the parts of a size follow from its rate and the share of the rest") {
  const auto found = parts_of(shared_batch(), 16, log_rate(0.08), 0.2);  // 64 samples each
  CHECK(found.sample_s == doctest::Approx(0.001));
  CHECK(found.rest_s == doctest::Approx(0.016));
}

// 16 workers: 64 + 16 = 80 ms, 32: 32 + 16 = 48 ms, 8: 128 + 16 = 144 ms.
TEST_CASE("an efficiency is at most that with a rest of the same length") {
  CHECK(efficiency_bound(shared_batch(), kParts, 16, 32) == doctest::Approx(std::log2(80.0 / 48)));
  CHECK(efficiency_bound(shared_batch(), kParts, 8, 16) == doctest::Approx(std::log2(144.0 / 80)));
  BatchRule grows;
  grows.per_worker = 64;  // each worker has its own batch: steps are of the same length
  CHECK(efficiency_bound(grows, kParts, 16, 32) == doctest::Approx(1));
}

// Eight workers compute for 128 ms. With the rest of 16 ms a step takes 144 ms.
TEST_CASE("without its rest a step is as short as its computation") {
  CHECK(rest_gain(shared_batch(), kParts, 8) == doctest::Approx(std::log(144.0 / 128)));
}

}  // namespace
}  // namespace elastictrain::heuristics
