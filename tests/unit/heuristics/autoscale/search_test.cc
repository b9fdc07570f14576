#include "heuristics/autoscale/search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <utility>

#include "heuristics/autoscale/search_state.h"
#include "heuristics/simulate/job_model.h"

namespace elastictrain::heuristics {
namespace {

using Curve = std::function<double(std::uint32_t)>;

// Tries the sizes that the search asks for until it asks for none. Returns the sizes in order, the best last.
std::vector<std::uint32_t> sizes_tried(const Curve& curve, const Objective& value, std::uint32_t start,
                                       const SearchLimits& limits) {
  std::vector<Measured> measured;
  std::vector<std::uint32_t> tried;
  std::optional<Probe> next = Probe{start, 0};
  while (next && tried.size() < 30) {
    const double log_rate = std::log(curve(next->workers));
    measured.push_back({next->workers, log_rate, value(next->workers, log_rate)});
    std::sort(measured.begin(), measured.end(), [](const auto& a, const auto& b) { return a.workers < b.workers; });
    tried.push_back(next->workers);
    next = next_probe(measured, value, limits);
  }
  tried.push_back(measured[best_of(measured)].workers);
  return tried;
}

std::vector<std::uint32_t> sizes_tried(const Curve& curve, double target, std::uint32_t start,
                                       const SearchLimits& limits) {
  return sizes_tried(curve, efficiency_objective(target), start, limits);
}

SearchLimits up_to(std::uint32_t max) {
  SearchLimits limits;
  limits.max = max;
  return limits;
}

// R = k / (1 + k/16): its marginal efficiency is 1 / (1 + k/16), so 1/2 at k = 16.
double saturating(std::uint32_t workers) {
  return workers / (1 + workers / 16.0);
}

TEST_CASE("from anywhere it comes close to where the marginal efficiency crosses the target") {
  const auto value = efficiency_objective(0.5);
  const double best = value(16, std::log(saturating(16)));
  for (std::uint32_t start : {1U, 2U, 5U, 16U, 40U, 100U, 128U}) {
    const auto tried = sizes_tried(saturating, 0.5, start, up_to(128));
    CAPTURE(start);
    CHECK(tried.size() <= 10);
    CHECK(best - value(tried.back(), std::log(saturating(tried.back()))) < 0.02);
  }
}

TEST_CASE("perfect scaling leads to the most that may be had, no scaling to the least") {
  CHECK(sizes_tried([](std::uint32_t k) { return 10.0 * k; }, 0.5, 3, up_to(100)).back() == 100);
  CHECK(sizes_tried([](std::uint32_t) { return 10.0; }, 0.5, 64, up_to(100)).back() == 1);
}

TEST_CASE("sizes on several hosts are tried although the second host made it slower") {
  // Four slots a host; the network costs half of the throughput, then it scales.
  const Curve cliff = [](std::uint32_t k) { return k <= 4 ? 10.0 * k : 5.0 * k; };
  SearchLimits limits = up_to(64);
  limits.host_slots = 4;
  for (std::uint32_t start : {1U, 2U, 4U, 8U}) {
    CAPTURE(start);
    CHECK(sizes_tried(cliff, 0.5, start, limits).back() == 64);
  }
}

TEST_CASE("a loss from the network between hosts does not affect the estimate within a host") {
  const Curve slow_network = [](std::uint32_t k) { return k <= 2 ? 10.0 * k : 3.0; };
  SearchLimits limits = up_to(4);
  limits.host_slots = 2;
  for (std::uint32_t start : {1U, 3U, 4U}) {
    CAPTURE(start);
    CHECK(sizes_tried(slow_network, 0.5, start, limits).back() == 2);
  }
}

TEST_CASE("shortly before the end nothing is tried any more") {
  const auto value = efficiency_objective(0.5);
  const std::vector<Measured> one{{8, std::log(80.0), value(8, std::log(80.0))}};
  SearchLimits limits = up_to(64);
  CHECK(next_probe(one, value, limits));
  limits.horizon_s = 10;
  CHECK_FALSE(next_probe(one, value, limits));
}

// A batch of 1120 samples that the workers share: 28 have 40 each. With 90 % of a step in the exchange, c = 0.1 t/40
// and r = 0.9 t: 56 workers take 0.95 t, an efficiency of at most ln(1/0.95)/ln 2 = 0.07; 14 take 1.1 t, 0.14.
TEST_CASE("what the parts of a step say bounds what is expected of sizes around the first one") {
  const auto value = efficiency_objective(0.1);
  const double rate = std::log(100.0);
  std::vector<Measured> sizes{{28, rate, value(28, rate)}};
  SearchLimits limits = up_to(60);
  limits.batch.per_worker = 40;
  limits.batch.max_global = 1120;
  const auto unbounded = next_probe(sizes, value, limits);
  REQUIRE(unbounded);
  sizes[0].parts = parts_of(limits.batch, 28, rate, 0.9);
  const auto bounded = next_probe(sizes, value, limits);
  CHECK((!bounded || bounded->improvement < unbounded->improvement / 2));
  sizes[0].parts = parts_of(limits.batch, 28, rate, 0.05);  // a bound above what is expected anyway
  CHECK(next_probe(sizes, value, limits)->improvement == doctest::Approx(unbounded->improvement));
}

// 16, 32 and 64 workers make 2200, 4000 and 5000 samples a second, with 128 each. One alone takes 0.931 s for them.
double talk(std::uint32_t k) {
  return k <= 16 ? 137.5 * k : k <= 32 ? 2200 + 112.5 * (k - 16) : 4000 + 31.25 * (k - 32);
}

Measured talk_at(std::uint32_t workers, const Objective& value, const BatchRule& batch) {
  const double log_rate = std::log(talk(workers));
  const double rest_share = 1 - talk(workers) / (137.5 * workers);
  return {workers, log_rate, value(workers, log_rate), 0.01, parts_of(batch, workers, log_rate, rest_share)};
}

SearchLimits hosts_of_eight() {
  SearchLimits limits = up_to(64);
  limits.min = 4;
  limits.host_slots = 8;
  limits.batch.per_worker = 128;
  return limits;
}

// 24 workers take 0.991 s for a step. However short the rest is, 8 make at most 8 x 128 / 0.931 = 1100 samples a
// second: ln 1100 - ln(8) / 2 = 5.96 beside 6.45.
TEST_CASE("a smaller size that its computation alone makes worse is not tried, however many sizes are measured") {
  const auto value = efficiency_objective(0.5);
  const auto limits = hosts_of_eight();
  std::vector<Measured> sizes{talk_at(24, value, limits.batch), talk_at(48, value, limits.batch)};
  const auto bounded = next_probe(sizes, value, limits);
  REQUIRE(bounded);
  CHECK(bounded->workers > 24);
  for (auto& size : sizes) size.parts.reset();
  CHECK(next_probe(sizes, value, limits)->workers == 8);
}

// Four may be as fast as eight, if eight compete for the processors of the host. A host each excludes that.
TEST_CASE("fewer workers on a host are tried although computation is all that a step does") {
  const auto value = efficiency_objective(0.5);
  SearchLimits limits = up_to(8);
  limits.batch.per_worker = 128;
  const double rate = std::log(1000.0);
  const std::vector<Measured> sizes{{8, rate, value(8, rate), 0.01, parts_of(limits.batch, 8, rate, 0)}};
  CHECK_FALSE(next_probe(sizes, value, limits));
  limits.host_slots = 8;
  const auto probe = next_probe(sizes, value, limits);
  REQUIRE(probe);
  CHECK(probe->workers == 4);
}

TEST_CASE("a job that began with hosts that it does not fill is tried with one that it fills") {
  const auto value = efficiency_objective(0.5);
  const auto limits = hosts_of_eight();
  std::vector<Measured> sizes{talk_at(36, value, limits.batch), talk_at(64, value, limits.batch)};
  std::vector<std::uint32_t> tried;
  while (const auto next = next_probe(sizes, value, limits)) {
    REQUIRE(tried.size() < 10);
    tried.push_back(next->workers);
    std::erase_if(sizes, [&](const Measured& size) { return size.workers == next->workers; });
    sizes.push_back(talk_at(next->workers, value, limits.batch));
    std::sort(sizes.begin(), sizes.end(), [](const auto& a, const auto& b) { return a.workers < b.workers; });
    if (next->workers == 32) break;
  }
  CHECK(!tried.empty());
  CHECK(sizes[best_of(sizes)].workers == 32);
}

// Four slots a host. The network between hosts costs most of the throughput at first; 32 and 64 workers make up for it.
double rugged(std::uint32_t k) {
  if (k <= 8) return 10 * std::min(k, 4U);
  return k <= 16 ? 40 + 1.75 * (k - 8) : k <= 32 ? 54 + 3.3 * (k - 16) : 106.8 + 2.3 * (k - 32);
}

// Four workers have the value ln 40 - ln(4)/2 = 3.00, 64 ln 180 - ln(64)/2 = 3.12. From 8 to 16 the efficiency is 0.43,
// so that 16, at 2.60, promise little more of 32 and 64.
TEST_CASE("a long job looks beyond sizes that promise little") {
  SearchLimits limits = up_to(64);
  limits.host_slots = 4;
  CHECK(sizes_tried(rugged, 0.5, 8, limits).back() == 4);
  limits.is_long = true;
  limits.horizon_s = 4 * 3600;
  CHECK(sizes_tried(rugged, 0.5, 8, limits).back() >= 56);
}

// ResNet-18 on CIFAR-10 with a batch of 91 on hosts of four T4, as Pollux measured it (tests/data/curves), without what
// falls. A second is worth as much as 16 workers: 56 lose 3.03 ms for a sample, 16 lose 3.25, 28 lose 3.26.
TEST_CASE("a long job tries one size after the other of a curve that smooth saturation does not describe") {
  const std::vector<std::pair<std::uint32_t, double>> points{
      {1, 1199},   {2, 2211},   {4, 4442},   {9, 5186},   {12, 6904},  {16, 9840},  {20, 9840},
      {24, 11335}, {28, 13480}, {32, 14445}, {40, 16885}, {48, 16885}, {56, 23760}, {64, 23760}};
  const ThroughputCurve curve(points);
  const Objective value = [](std::uint32_t workers, double log_rate) { return log_rate - std::log(16.0 + workers); };
  SearchLimits limits = up_to(64);
  limits.host_slots = 4;
  limits.is_long = true;
  limits.horizon_s = 4 * 3600;
  limits.least = 0.001;
  for (const std::uint32_t start : {16U, 24U, 64U}) {
    CAPTURE(start);
    CHECK(sizes_tried([&](std::uint32_t k) { return curve(k); }, value, start, limits).back() == 56);
  }
}

// Of 44, 52 and 64 workers the middle is best. Whole hosts between them have 48, 56 and 60.
TEST_CASE("a long job compares the sizes next to the best one") {
  const auto value = efficiency_objective(0.5);
  std::vector<Measured> sizes;
  for (const auto& [workers, rate] : {std::pair(44U, 140.0), std::pair(52U, 170.0), std::pair(64U, 180.0)}) {
    sizes.push_back({workers, std::log(rate), value(workers, std::log(rate))});
  }
  SearchLimits limits = up_to(64);
  limits.min = 44;
  limits.host_slots = 4;
  limits.horizon_s = 4 * 3600;
  limits.least = 0.0005;
  CHECK_FALSE(next_probe(sizes, value, limits));
  limits.is_long = true;
  const auto probe = next_probe(sizes, value, limits);
  REQUIRE(probe);
  CHECK(probe->workers == 56);
}

// x = a/(kb) = 13.7 for efficiency 0.95 over a doubling, since (2x+1)/(x+1) = 2^0.95; the next doubling gains
// (x+1)/(x/2+1) = 1.873: 0.905.
TEST_CASE("smooth saturation continues as t = a/k + b") {
  CHECK(efficiency_beyond(0.95, 2, 2) == doctest::Approx(0.905).epsilon(0.002));
  CHECK(efficiency_below(efficiency_beyond(0.95, 2, 2), 2, 2) == doctest::Approx(0.95).epsilon(0.002));
  CHECK(efficiency_beyond(1.1, 2, 4) == 1);
  CHECK(efficiency_beyond(-0.1, 2, 2) < -0.1);
}

// Of a standard normal variable: E[max(0, X)] = 1/sqrt(2 pi) = 0.3989; with mean 1: 1 x 0.8413 + 0.2420 = 1.0833.
TEST_CASE("expected improvement of a normal variable") {
  CHECK(expected_improvement(0, 1) == doctest::Approx(0.3989).epsilon(0.001));
  CHECK(expected_improvement(1, 1) == doctest::Approx(1.0833).epsilon(0.001));
  CHECK(expected_improvement(-1, 0) == 0);
}

TEST_CASE("of sizes that are as good the smallest is taken") {
  const std::vector<Measured> measured{{4, 0, 0.95}, {8, 0, 0.99}, {16, 0, 1.0}};
  CHECK(best_of(measured) == 2);
  CHECK(smallest_good(measured, 0.02) == 1);
  CHECK(smallest_good(measured, 0.0) == 2);
}

TEST_CASE("a lasting change is seen, noise and a passing one are not") {
  std::mt19937_64 rng(3);
  std::normal_distribution<double> normal(0, 0.1);
  ChangeDetector detector(0.1);
  for (int i = 0; i < 50000; ++i) detector.add(5 + normal(rng), 1, 0.1, 5);
  CHECK_FALSE(detector.changed());
  for (int i = 0; i < 3; ++i) detector.add(4.5 + normal(rng), 1, 0.1, 5);  // a passing one
  for (int i = 0; i < 500; ++i) detector.add(5 + normal(rng), 1, 0.1, 5);
  CHECK_FALSE(detector.changed());
  int steps = 0;
  while (!detector.changed() && steps < 1000) {
    detector.add(4.8 + normal(rng), 1, 0.1, 5);
    ++steps;
  }
  CHECK(steps < 40);  // threshold 25 x 0.01 / 0.1 = 2.5 over 0.2 - 0.05 a step: about 17
}

}  // namespace
}  // namespace elastictrain::heuristics
