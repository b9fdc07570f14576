#include "heuristics/goodput/goodput_model.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

namespace elastictrain::heuristics {
namespace {

using doctest::Approx;

// Algorithms G: r = 4, m = 32, 2 hosts, ac .1, bc .01, an .2, bn .01, g 2.
constexpr GoodputParameters kWorked{.compute_s = 0.1,
                                    .compute_s_per_sample = 0.01,
                                    .net_s = 0.2,
                                    .net_s_per_worker = 0.01,
                                    .local_s = 0.02,
                                    .local_s_per_worker = 0.001,
                                    .overlap = 2};
constexpr GoodputPlace kPlace{.hosts = 2, .workers = 4};

std::vector<GoodputSample> samples_of(const GoodputParameters& p, const std::vector<GoodputPlace>& places,
                                      const std::vector<double>& batches, bool with_compute = true) {
  std::vector<GoodputSample> samples;
  for (const auto& place : places)
    for (const double batch : batches)
      samples.push_back({place, batch, step_s(p, place, batch), with_compute ? gradient_s(p, batch) : 0});
  return samples;
}

TEST_CASE("the worked numbers of goodput") {
  CHECK(gradient_s(kWorked, 32) == Approx(0.42));
  CHECK(network_s(kWorked, kPlace) == Approx(0.22));
  CHECK(step_s(kWorked, kPlace, 32) == Approx(0.47413).epsilon(1e-5));
  CHECK(throughput(kWorked, kPlace, 32) == Approx(269.97).epsilon(1e-5));
  // B0 = 32, sqr 1, var 4: a noise scale of 128 samples; gain 2.5 of 4.
  CHECK(statistical_efficiency(128, 128, 32) == Approx(0.625));
  const GoodputJob job{.parameters = kWorked, .noise_scale = 128, .base_batch = 32, .max_local = 64};
  CHECK(goodput(job, kPlace, 32) == Approx(168.73).epsilon(1e-4));
}

TEST_CASE("one worker has no network, one host its own, and gradients that are summed up hide it") {
  CHECK(network_s(kWorked, {1, 1}) == 0);
  CHECK(step_s(kWorked, {1, 1}, 32) == Approx(0.42));
  CHECK(network_s(kWorked, {1, 4}) == Approx(0.022));
  CHECK(throughput(kWorked, kPlace, 32, 3) == Approx(4 * 32 * 4 / (3 * 0.42 + 0.47413)).epsilon(1e-5));
}

TEST_CASE("a fit recovers the parameters that made the measurements") {
  const auto samples = samples_of(kWorked, {{1, 1}, {1, 2}, {1, 4}, {2, 4}, {2, 8}, {4, 16}, {8, 32}}, {8, 16, 32, 64});
  const auto fitted = fit_goodput(samples);
  REQUIRE(fitted);
  CHECK(fit_loss(*fitted, samples) < fit_loss(kWorked, samples) + 1e-3);  // 0.00105, all of it priors
  for (const auto& place : {GoodputPlace{2, 4}, GoodputPlace{3, 12}, GoodputPlace{16, 64}, GoodputPlace{1, 3}})
    for (const double batch : {8.0, 24.0, 100.0})
      CHECK(step_s(*fitted, place, batch) == Approx(step_s(kWorked, place, batch)).epsilon(0.03));
}

TEST_CASE("noise of the measurements does not carry it away") {
  std::mt19937_64 rng(3);
  std::normal_distribution<double> noise(0, 0.1);
  auto samples = samples_of(kWorked, {{1, 1}, {1, 2}, {1, 4}, {2, 8}, {4, 16}, {8, 32}}, {8, 16, 32, 64, 128});
  for (auto& sample : samples) {
    sample.step_s *= std::exp(noise(rng));
    sample.compute_s *= std::exp(noise(rng));
  }
  const auto fitted = fit_goodput(samples);
  REQUIRE(fitted);
  for (const double batch : {16.0, 64.0})
    CHECK(step_s(*fitted, {4, 16}, batch) == Approx(step_s(kWorked, {4, 16}, batch)).epsilon(0.1));
}

TEST_CASE("without gradient times the steps alone are fitted") {
  const auto samples = samples_of(kWorked, {{1, 1}, {2, 4}, {4, 16}}, {8, 32, 128}, false);
  const auto fitted = fit_goodput(samples);
  REQUIRE(fitted);
  CHECK(step_s(*fitted, {2, 8}, 64) == Approx(step_s(kWorked, {2, 8}, 64)).epsilon(0.06));
}

TEST_CASE("what was not seen is free, but several hosts never cost less than one") {
  const auto alone = fit_goodput(samples_of(kWorked, {{1, 1}}, {16, 32, 64}));
  REQUIRE(alone);
  CHECK(network_s(*alone, {2, 8}) < 1e-6);
  CHECK(alone->overlap == 1);
  const auto one_host = fit_goodput(samples_of(kWorked, {{1, 1}, {1, 2}, {1, 4}}, {16, 32, 64}));
  REQUIRE(one_host);
  CHECK(one_host->net_s >= 1.1 * one_host->local_s);
  CHECK(network_s(*one_host, {2, 4}) == Approx(1.1 * network_s(*one_host, {1, 4})));
}

TEST_CASE("with a single batch half the gradient's time is taken as fixed") {
  const auto fitted = fit_goodput(samples_of(kWorked, {{1, 1}}, {32}));
  REQUIRE(fitted);
  CHECK(fitted->compute_s == Approx(0.21));
  CHECK(step_s(*fitted, {1, 1}, 32) == Approx(0.42).epsilon(1e-3));
  CHECK_FALSE(fit_goodput({}));
  CHECK_FALSE(fit_goodput({{{1, 1}, 32, 0, 0}}));
}

TEST_CASE("the batch follows the noise, within what fits") {
  GoodputJob job{.parameters = kWorked, .noise_scale = 1, .base_batch = 32, .max_local = 512};
  const auto quiet = best_batch(job, kPlace);
  job.noise_scale = 1e6;
  const auto noisy = best_batch(job, kPlace);
  CHECK(quiet.local_batch < noisy.local_batch);
  CHECK(noisy.local_batch == 512);
  job.max_global = 400;
  CHECK(best_batch(job, kPlace).local_batch == 100);
  job.noise_scale.reset();
  CHECK(best_batch(job, kPlace).local_batch == 8);  // the base batch over four workers
  // By hand: the goodput of every batch is at most that of the chosen one.
  job.noise_scale = 300;
  job.max_global = 0;
  const auto best = best_batch(job, kPlace);
  for (double batch = 8; batch <= 512; ++batch) CHECK(goodput(job, kPlace, batch) <= best.goodput * 1.005);
}

}  // namespace
}  // namespace elastictrain::heuristics
