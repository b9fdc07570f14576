#include "heuristics/autoscale/throughput_table.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

namespace elastictrain::heuristics {
namespace {

Interval interval(std::uint32_t workers, std::uint64_t steps, double seconds, std::uint64_t samples) {
  Interval made;
  made.end_s = seconds;
  made.workers = workers;
  made.steps = steps;
  made.samples = samples;
  return made;
}

// Algorithms A, tests: s(4,1;400,480) = 0.8; s(4,4;400,720) = 0.8; the talk's table s(16,16;2200,4000) = 0.818,
// s(32,32;4000,5000) = 0.25.
TEST_CASE("scaling efficiency is that of the worked numbers, at any distance") {
  CHECK(scaling_efficiency(4, 400, 5, 480) == doctest::Approx(0.8));
  CHECK(scaling_efficiency(4, 400, 8, 720) == doctest::Approx(0.8));
  CHECK(scaling_efficiency(16, 2200, 32, 4000) == doctest::Approx(0.818).epsilon(0.001));
  CHECK(scaling_efficiency(32, 4000, 64, 5000) == doctest::Approx(0.25));
  CHECK(scaling_efficiency(4, 400, 8, 800) == doctest::Approx(1));     // perfect
  CHECK(scaling_efficiency(4, 400, 8, 400) == doctest::Approx(0));     // no gain
  CHECK(scaling_efficiency(4, 400, 8, 360) == doctest::Approx(-0.1));  // slower: (-40/4)/100
  CHECK(scaling_efficiency(4, 400, 4, 400) == 0);
  CHECK(scaling_efficiency(4, 0, 8, 400) == 0);
}

// By hand: ln(1.8)/ln(2) = 0.848; from 100 to 101 workers with s = 0.5 it is ln(1.005)/ln(1.01) = 0.501.
TEST_CASE("marginal efficiency is transitive, and that of A3 for small steps") {
  CHECK(marginal_efficiency(4, std::log(400), 8, std::log(720)) == doctest::Approx(0.848).epsilon(0.001));
  CHECK(marginal_efficiency(100, std::log(1000), 101, std::log(1005)) == doctest::Approx(0.501).epsilon(0.001));
  CHECK(scaling_efficiency(100, 1000, 101, 1005) == doctest::Approx(0.5));
  const double lower = marginal_efficiency(4, std::log(400), 8, std::log(720));
  const double upper = marginal_efficiency(8, std::log(720), 16, std::log(900));
  CHECK(marginal_efficiency(4, std::log(400), 16, std::log(900)) == doctest::Approx((lower + upper) / 2));
}

TEST_CASE("warm-up and intervals without a step do not count") {
  ThroughputTable table;
  Interval warm = interval(4, 3, 9, 96);
  warm.warm_up = true;
  table.add({warm, interval(4, 0, 5, 0)});
  CHECK(table.sizes().empty());
  table.add(interval(4, 2, 1, 64));
  REQUIRE(table.at(4));
  CHECK(table.at(4)->mean_samples_per_s == doctest::Approx(64));
  CHECK(table.at(4)->steps == 2);
}

// 10 steps at 100/s and 30 at 200/s: (10 x 100 + 30 x 200) / 40 = 175.
TEST_CASE("the faithful mean is over all samples ever seen") {
  ThroughputTable table;
  table.add(interval(4, 10, 10, 1000));
  table.add(interval(4, 30, 10, 2000));
  CHECK(table.at(4)->mean_samples_per_s == doctest::Approx(175));
}

TEST_CASE("old steps fade out of the recent rate, not out of the faithful one") {
  ThroughputTable table;
  for (int i = 0; i < 100; ++i) table.add(interval(4, 10, 10, 1000));
  for (int i = 0; i < 150; ++i) table.add(interval(4, 10, 10, 2000));
  CHECK(std::exp(table.log_rate(4)->value) == doctest::Approx(2000.0 / 10).epsilon(0.03));
  CHECK(table.at(4)->mean_samples_per_s == doctest::Approx(160));
}

TEST_CASE("the scatter between intervals is the noise of a step, whatever their length") {
  ThroughputTable table;
  std::mt19937_64 rng(7);
  std::normal_distribution<double> normal;
  for (int i = 0; i < 400; ++i) {
    const auto steps = static_cast<std::uint64_t>(1 + i % 9);
    const double took = static_cast<double>(steps) * (1 + 0.1 * normal(rng) / std::sqrt(static_cast<double>(steps)));
    table.add(interval(4, steps, took, 1000 * steps));
  }
  CHECK(table.step_deviation() == doctest::Approx(0.1).epsilon(0.1));
  CHECK(table.log_rate(4)->deviation == doctest::Approx(0.1 / std::sqrt(400)).epsilon(0.1));
  CHECK_FALSE(table.log_rate(5));
}

// Of twelve intervals of five steps two hold a step that takes eight times as long: their rate is 5/12 of the others'.
TEST_CASE("a few steps that take many times as long do not decide on a rate") {
  ThroughputTable table;
  for (int i = 0; i < 12; ++i) table.add(interval(4, 5, (i % 6 == 1 ? 12 : 5) * (1 + 0.01 * (i % 3 - 1)), 500));
  CHECK(std::exp(table.log_rate(4)->value) == doctest::Approx(100).epsilon(0.02));
  CHECK(table.intervals_needed() > 1);
  CHECK(table.robust_deviation() < table.step_deviation());
}

TEST_CASE("steps that are far off one after the other are a change of the job") {
  ThroughputTable table;
  for (int i = 0; i < 20; ++i) table.add(interval(2, 14, 0.25, 448));
  for (int i = 0; i < 6; ++i) table.add(interval(2, 1, 0.2, 32));
  CHECK(std::exp(table.log_rate(2)->value) == doctest::Approx(448 / 0.25).epsilon(0.02));
  table.add(interval(2, 1, 0.2, 32));
  CHECK(std::exp(table.log_rate(2)->value) == doctest::Approx(32 / 0.2).epsilon(0.02));
}

// Huber's location gives up 5 % of the precision where noise is normal, so its deviation is 1.03 times as large.
TEST_CASE("where noise is normal little is lost to steps that count less") {
  std::mt19937_64 rng(11);
  std::normal_distribution<double> normal;
  double squares = 0;
  double claimed = 0;
  constexpr int kRuns = 400;
  for (int run = 0; run < kRuns; ++run) {
    ThroughputTable table;
    for (int i = 0; i < 40; ++i) table.add(interval(4, 10, 10 * std::exp(0.05 * normal(rng)), 1000));
    squares += std::pow(table.log_rate(4)->value - std::log(100), 2) / kRuns;
    claimed += table.log_rate(4)->deviation / kRuns;
  }
  CHECK(std::sqrt(squares) == doctest::Approx(1.03 * 0.05 / std::sqrt(40)).epsilon(0.1));
  CHECK(claimed == doctest::Approx(std::sqrt(squares)).epsilon(0.15));
}

}  // namespace
}  // namespace elastictrain::heuristics
