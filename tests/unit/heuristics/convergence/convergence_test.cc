#include "heuristics/convergence/convergence.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

namespace elastictrain::heuristics {
namespace {

constexpr double kEpoch = 1000;

// A loss of 2.3 at first that ends at 0.3, and half of the way is gone after three epochs.
constexpr LossCurve kTruth{2.0 * 3 * kEpoch, 3 * kEpoch, 0.3};

// Where that job has converged: by counting epochs.
double true_end(const LossCurve& curve, const ConvergenceSettings& settings) {
  const auto mean = [&](double epoch) {
    double sum = 0;
    for (int i = 0; i < 100; ++i) sum += curve((epoch + (i + 0.5) / 100) * kEpoch) / 100;
    return sum;
  };
  std::uint32_t in_row = 0;
  for (double epoch = 0;; epoch += 1) {
    const bool small = mean(epoch) - mean(epoch + 1) < settings.threshold * curve(0);
    in_row = small ? in_row + 1 : 0;
    if (in_row == settings.windows) return (epoch + 2) * kEpoch;
  }
}

Convergence seen_until(double samples, double noise, const ConvergenceSettings& settings = {}) {
  Convergence convergence(settings);
  std::mt19937_64 rng(7);
  std::normal_distribution<double> normal(0, noise);
  for (double at = 20; at <= samples; at += 20) convergence.add(at, kTruth(at) + normal(rng));
  return convergence;
}

TEST_CASE("the fit finds the curve that the points lie on") {
  std::vector<LossPoint> points;
  for (double at = 50; at <= 9000; at += 50) points.push_back({at, kTruth(at)});
  const auto curve = fit_loss_curve(points);
  REQUIRE(curve.has_value());
  CHECK(curve->gain == doctest::Approx(kTruth.gain).epsilon(0.01));
  CHECK(curve->shift == doctest::Approx(kTruth.shift).epsilon(0.01));
  CHECK(curve->floor == doctest::Approx(kTruth.floor).epsilon(0.01));
}

TEST_CASE("no part of the curve is negative, and a loss that does not fall has none") {
  std::vector<LossPoint> line, rising;
  for (double at = 1; at <= 40; at += 1) {
    line.push_back({at, 5 - 0.1 * at});
    rising.push_back({at, 1 + 0.1 * at});
  }
  const auto curve = fit_loss_curve(line);
  REQUIRE(curve.has_value());
  CHECK(curve->floor >= 0);
  CHECK(curve->shift >= 0);
  CHECK_FALSE(fit_loss_curve(rising).has_value());
}

TEST_CASE("a spike between its neighbours is an outlier; a steep start and noise are none") {
  std::vector<LossPoint> points;
  for (double at = 1; at <= 60; at += 1) points.push_back({at, 4 / at + 0.01 * std::sin(at * 7)});
  CHECK(without_outliers(points).size() >= 58);
  points[30].loss = 50;
  points[45].loss = 9;
  points[59].loss = 5;
  const auto kept = without_outliers(points);
  for (const LossPoint& point : kept) CHECK(point.loss <= 4.1);
  CHECK(kept.front().samples == 1);
}

TEST_CASE("the end of a job is foreseen within its error at a quarter, half and three quarters of its way") {
  const ConvergenceSettings settings;
  const double end = true_end(kTruth, settings);
  for (const double noise : {0.0, 0.01}) {
    for (const double share : {0.25, 0.5, 0.75}) {
      CAPTURE(noise);
      CAPTURE(share);
      const auto convergence = seen_until(share * end, noise);
      const auto found = convergence.estimate(kEpoch);
      CAPTURE(convergence.why_not(kEpoch));
      REQUIRE(found.has_value());
      CHECK(std::abs(found->samples - end) <= std::max(found->error, 0.05 * end));
    }
  }
}

TEST_CASE("a smaller threshold is met later, and the window may be a number of samples") {
  ConvergenceSettings strict;
  strict.threshold = 0.0003;
  const double usual = seen_until(30'000, 0).estimate(kEpoch)->samples;
  CHECK(seen_until(30'000, 0, strict).estimate(kEpoch)->samples > 1.5 * usual);
  ConvergenceSettings by_samples;
  by_samples.window_samples = kEpoch;
  CHECK(seen_until(30'000, 0, by_samples).estimate(0)->samples == doctest::Approx(usual));
  CHECK_FALSE(seen_until(30'000, 0).estimate(0).has_value());
  CHECK(seen_until(30'000, 0).why_not(0) == "the samples of an epoch are not known: set convergence.window_samples");
}

TEST_CASE("there is no estimate while the fit is poor, and it says why") {
  CHECK(seen_until(200, 0).why_not(kEpoch) == "10 points of the loss so far, 16 are needed");
  CHECK(seen_until(340, 0).why_not(kEpoch) == "the loss was fitted 2 times, 5 are needed");
  Convergence flat({});
  std::mt19937_64 rng(3);
  std::normal_distribution<double> normal(1, 0.2);
  for (double at = 20; at <= 20'000; at += 20) flat.add(at, normal(rng));
  CHECK_FALSE(flat.estimate(kEpoch).has_value());
  Convergence rising({});
  for (double at = 20; at <= 20'000; at += 20) rising.add(at, 1 + at);
  CHECK(rising.why_not(kEpoch) == "the loss does not fall");
  Convergence line({});
  for (double at = 20; at <= 1'000; at += 20) line.add(at, 50 - at / 1e3);
  CHECK(line.why_not(kEpoch) == "its end is more than 20 times as far as the job is");
  ConvergenceSettings off;
  off.threshold = 0;
  CHECK(seen_until(30'000, 0, off).why_not(kEpoch) == "convergence.threshold is 0");
}

TEST_CASE("memory is bounded, and losses that are no numbers or not newer change nothing") {
  Convergence convergence({});
  for (double at = 1; at <= 100'000; at += 1) {
    convergence.add(at, kTruth(at));
    REQUIRE(convergence.points() <= Convergence::kMostPoints);
  }
  const auto before = convergence.estimate(kEpoch);
  REQUIRE(before.has_value());
  const std::size_t points = convergence.points();
  for (int i = 0; i < 10'000; ++i) {
    convergence.add(5, 1);
    convergence.add(200'000 + i, std::numeric_limits<double>::quiet_NaN());
    convergence.add(200'000 + i, -1);
  }
  CHECK(convergence.points() == points);
  CHECK(convergence.estimate(kEpoch)->samples == before->samples);
}

TEST_CASE("single losses that are far off do not move the estimate") {
  Convergence clean({}), spoilt({});
  for (double at = 20; at <= 25'000; at += 20) {
    clean.add(at, kTruth(at));
    spoilt.add(at, std::fmod(at, 5'000) == 0 ? 100 : kTruth(at));
  }
  CAPTURE(spoilt.why_not(kEpoch));
  REQUIRE(spoilt.estimate(kEpoch).has_value());
  CHECK(spoilt.estimate(kEpoch)->samples == doctest::Approx(clean.estimate(kEpoch)->samples).epsilon(0.05));
}

}  // namespace
}  // namespace elastictrain::heuristics
