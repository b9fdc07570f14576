#include "heuristics/autoscale/or_engine.h"

#include <doctest/doctest.h>

#include "heuristics/autoscale/format_text.h"
#include "heuristics/autoscale/provisioning.h"

namespace elastictrain::heuristics {
namespace {

using Sizes = std::map<std::uint32_t, SizeStatistics>;

// Rates with 100 steps each.
Sizes sizes(const std::map<std::uint32_t, double>& rates) {
  Sizes all;
  for (const auto& [workers, rate] : rates) {
    all[workers].mean_samples_per_s = rate;
    all[workers].steps = 100;
  }
  return all;
}

OrStep step(const Sizes& measured, std::uint32_t current, OrRules rules = {}) {
  return or_step(measured, current, rules, [&](std::uint32_t less, std::uint32_t more) {
    return scaling_efficiency(less, measured.at(less).mean_samples_per_s, more, measured.at(more).mean_samples_per_s) >
           0.1;
  });
}

TEST_CASE("with one size measured the second is the next larger, at the top the next smaller") {
  CHECK(step(sizes({{8, 100}}), 8).change == 4);
  CHECK(step(sizes({{60, 100}}), 60).change == -4);
}

TEST_CASE("it grows for as long as all sizes pass") {
  const auto found = step(sizes({{4, 100}, {8, 190}}), 8);
  CHECK(found.change == 4);
  CHECK(found.why == "keep growing");
}

// 20→24: (120-100)/4 / (100/20) = 1 passes; 24→28: (121-120)/4 / (120/24) = 0.05 fails: fewer than three passes.
TEST_CASE("after a failure it probes below until the three lowest pass") {
  const auto found = step(sizes({{20, 100}, {24, 120}, {28, 121}}), 28);
  CHECK(found.why == "probe below");
  CHECK(found.change == 16 - 28);
}

TEST_CASE("with three passes it settles before the first failure, once the size behind it has its batches") {
  auto measured = sizes({{8, 40}, {12, 60}, {16, 80}, {20, 100}, {24, 101}});
  CHECK(step(measured, 24).why == "settle");
  CHECK(step(measured, 24).change == -4);
  measured[24].steps = 99;
  CHECK(step(measured, 20).why == "collect more");
  CHECK(step(measured, 20).change == 4);
}

TEST_CASE("at the least size it settles without three passes, and all passing it stays at the top") {
  CHECK(step(sizes({{4, 100}, {8, 101}}), 8).change == -4);
  OrRules rules;
  rules.max = 12;
  CHECK(step(sizes({{4, 40}, {8, 80}, {12, 120}}), 12, rules).change == 0);
}

TEST_CASE("a target is never below the least or above the most") {
  OrRules rules;
  rules.min = 3;
  rules.max = 10;
  CHECK(step(sizes({{8, 80}}), 8, rules).change == 2);
  CHECK(step(sizes({{5, 100}, {9, 101}}), 9, rules).change == 3 - 9);
}

// Algorithms B7: T(1) = 100 needs T(2) >= 116.67; T(2) = 180 needs T(3) >= 200; equality passes.
TEST_CASE("a number is written with as many digits as tell it from the one that it is compared with") {
  CHECK(digits_apart(0.31, 0.5) == 2);
  CHECK(digits_apart(0.496, 0.5) == 3);
  CHECK(digits_apart(0.50003, 0.5) == 5);
  CHECK(digits_apart(0.5, 0.5) == 6);
}

TEST_CASE("provisioning needs the published gains") {
  const double alpha = 1.0 / 3;
  CHECK(worth_provisioning(2, 116.67, 100, alpha));
  CHECK_FALSE(worth_provisioning(2, 116.66, 100, alpha));
  CHECK(worth_provisioning(3, 200.0001, 180, alpha));
  CHECK_FALSE(worth_provisioning(3, 199.99, 180, alpha));
}

}  // namespace
}  // namespace elastictrain::heuristics
