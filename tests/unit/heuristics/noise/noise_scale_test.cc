#include "heuristics/noise/noise_scale.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/unit/heuristics/noise/noisy_gradients.h"

namespace elastictrain::heuristics {
namespace {

using doctest::Approx;

// Algorithms B1: b = 32, B = 128, |g_b|^2 = 2, |g_B|^2 = 1.25 gives G = 1, S = 32, noise scale 32.
constexpr GradientNorms kWorked{
    .count = 1, .local_square = 2, .global_square = 1.25, .local_batch = 32, .global_batch = 128};

TEST_CASE("the worked numbers of the noise scale") {
  const auto moments = noise_moments(kWorked);
  REQUIRE(moments);
  CHECK(moments->gradient_square == Approx(1));  // (128 * 1.25 - 32 * 2) / (128 - 32) = 96 / 96
  CHECK(moments->variance == Approx(32));        // (2 - 1.25) / (1/32 - 1/128) = 0.75 / 0.0234375
  KungFuNoiseScale kungfu;
  kungfu.add(2, 32, 1.25, 128);
  CHECK(kungfu.value() == Approx(32));
  NoiseScale ours;
  ours.add(kWorked);
  CHECK(ours.value() == Approx(32));
}

TEST_CASE("a single worker, no step or a non-finite gradient gives no estimate") {
  GradientNorms alone = kWorked;
  alone.global_batch = 32;
  CHECK_FALSE(noise_moments(alone));
  GradientNorms none = kWorked;
  none.count = 0;
  CHECK_FALSE(noise_moments(none));
  GradientNorms overflow = kWorked;
  overflow.local_square = INFINITY;
  CHECK_FALSE(noise_moments(overflow));
  NoiseScale scale;
  scale.add(alone);
  scale.add(overflow);
  CHECK(scale.steps() == 0);
  CHECK_FALSE(scale.value());
}

TEST_CASE("the halves of an odd batch count with their own sizes") {
  // A batch of 5 with G 1, S 12: |g_2|^2 = 1 + 6, |g_3|^2 = 1 + 4, |g_5|^2 = 1 + 2.4. The harmonic mean of 2 and 3
  // is 2.4.
  const GradientNorms norms{.count = 1,
                            .local_square = (7 + 5) / 2.0,
                            .global_square = 3.4,
                            .local_batch = 2.4,
                            .global_batch = 5,
                            .workers = 1};
  CHECK(noise_moments(norms)->gradient_square == Approx(1));
  CHECK(noise_moments(norms)->variance == Approx(12));
}

TEST_CASE("two gradients of one worker in a row are a batch of twice the size") {
  // g1 = (1, 2), g2 = (3, 0): squares 5 and 9, dot 3; average (2, 1): square 5.
  const auto pair = norms_of_pair(5, 9, 3, 16);
  CHECK(pair.local_square == Approx(7));
  CHECK(pair.global_square == Approx(5));
  CHECK(pair.global_batch == 32);
  // AdaptDL with n = 2: sqr = (2 * 5 - 7) / 1 = 3; var per batch = 7 - 5 over 1/16 - 1/32: 64 per sample.
  CHECK(noise_moments(pair)->gradient_square == Approx(3));
  CHECK(noise_moments(pair)->variance == Approx(64));
}

TEST_CASE("KungFu's average starts with the first sample and forgets a tenth a step") {
  KungFuNoiseScale kungfu;
  kungfu.add(2, 32, 1.25, 128);  // G 1, S 32
  kungfu.add(3, 32, 1.5, 128);   // G (192 - 96) / 96 = 1, S 1.5 / 0.0234375 = 64
  CHECK(kungfu.value() == Approx(0.9 * 32 + 0.1 * 64));
  KungFuNoiseScale negative;
  negative.add(6, 32, 1.25, 128);  // G (160 - 192) / 96 = -1/3, S 4.75 / 0.0234375 = 202.67
  CHECK_FALSE(negative.value());
  CHECK(negative.magnitude() == Approx(608));
  for (int step = 0; step < 100; ++step) negative.add(2, 32, 1.25, 128);
  CHECK(negative.value() == Approx(32).epsilon(0.01));  // steps that show it count as before
}

TEST_CASE("a mean over steps counts as so many steps, however they were cut into views") {
  NoiseScale in_one(100);
  NoiseScale one_by_one(100);
  GradientNorms many = kWorked;
  many.count = 50;
  in_one.add(many);
  for (int step = 0; step < 50; ++step) one_by_one.add(kWorked);
  CHECK(in_one.value() == Approx(*one_by_one.value()));
  CHECK(in_one.steps() == one_by_one.steps());
}

TEST_CASE("what was long ago is forgotten") {
  NoiseScale scale(100);
  for (int step = 0; step < 500; ++step) scale.add(kWorked);
  GradientNorms later = kWorked;  // G 1, S 64 as above
  later.local_square = 3;
  later.global_square = 1.5;
  for (int step = 0; step < 1000; ++step) scale.add(later);
  CHECK(scale.value() == Approx(64).epsilon(0.001));
}

TEST_CASE("on gradients with known noise the scale is within 10 % of the true one, whatever the workers") {
  struct Case {
    std::uint32_t workers;
    double batch;
    double noise_scale;
  };
  for (const Case c : {Case{2, 32, 100}, Case{4, 32, 1000}, Case{16, 8, 50}, Case{8, 64, 5000}, Case{64, 16, 300}}) {
    CAPTURE(c.workers);
    CAPTURE(c.noise_scale);
    testing::NoisyGradients source({.dimensions = 500, .noise_scale = c.noise_scale, .seed = 7});
    NoiseScale scale;
    for (int step = 0; step < 600; ++step) scale.add(source.step(c.workers, c.batch).norms);
    REQUIRE(scale.value());
    CHECK(*scale.value() == Approx(c.noise_scale).epsilon(0.1));
    REQUIRE(scale.relative_error());
    CHECK(*scale.relative_error() < 0.1);
  }
}

TEST_CASE("the stated error is as large as the error is") {
  double squares = 0;
  double stated = 0;
  constexpr int kSeeds = 60;
  for (int seed = 0; seed < kSeeds; ++seed) {
    testing::NoisyGradients source(
        {.dimensions = 100, .noise_scale = 400, .seed = static_cast<std::uint64_t>(seed + 1)});
    NoiseScale scale;
    for (int step = 0; step < 200; ++step) scale.add(source.step(8, 32).norms);
    REQUIRE(scale.relative_error());
    squares += std::pow(*scale.value() / 400 - 1, 2) / kSeeds;
    stated += *scale.relative_error() / kSeeds;
  }
  CHECK(stated == Approx(std::sqrt(squares)).epsilon(0.3));
}

TEST_CASE("the stated error by hand: what G and S have in common cancels") {
  // Batches 1 and 2, so |g_1|^2 = G + S and |g_2|^2 = G + S/2. Four additions: share 1/4 each, 1/4 / (3/4) = 1/3.
  const auto error_of = [](double first_g, double first_s, double second_g, double second_s) {
    NoiseScale scale(1e9);
    for (int i = 0; i < 2; ++i) {
      scale.add({1, first_g + first_s, first_g + first_s / 2, 1, 2});
      scale.add({1, second_g + second_s, second_g + second_s / 2, 1, 2});
    }
    return *scale.relative_error();
  };
  // (G, S) = (1, 4), (2, 2): variances 1/4 and 1, covariance -1/2: sqrt((1/9 + 1/9 + 2/9) / 3).
  CHECK(error_of(1, 4, 2, 2) == Approx(std::sqrt(4.0 / 27)).epsilon(1e-5));
  // (1, 2), (2, 4): the ratio is always 2.
  CHECK(error_of(1, 2, 2, 4) < 1e-4);
}

// Eight additions, share 1/8 each: (1/8) / (7/8) = 1/7 of the variances of single ones.
NoiseScale eight_additions(NoiseMoments first, NoiseMoments second) {
  NoiseScale scale(1e9);
  for (int i = 0; i < 4; ++i) {
    for (const auto& [g, s] : {first, second}) scale.add({1, g + s, g + s / 2, 1, 2});
  }
  return scale;
}

TEST_CASE("the lower bound by hand: the smallest ratio at which S - r G^2 may be 0") {
  // Means 1.5 and 3, variances 1/28 and 1/7, covariance -1/14: 2.107 r^2 - 2 * 4.786 r + 8.429 = 0.
  const auto known = eight_additions({1, 4}, {2, 2});
  CHECK(*known.value() == Approx(2));
  CHECK(*known.at_least(2) == Approx(1.19495).epsilon(1e-4));
  CHECK(*known.at_least(0) == Approx(2).epsilon(1e-4));
  // A mean of G^2 of 0 with a variance of 1/7: there is no ratio, but 16 = 4 r^2 / 7.
  const auto tiny = eight_additions({1, 4}, {-1, 4});
  CHECK_FALSE(tiny.value());
  CHECK(*tiny.at_least(2) == Approx(std::sqrt(28.0)).epsilon(1e-4));
  // S may be 0: mean 1, variance 9/7.
  CHECK_FALSE(eight_additions({1, 4}, {1, -2}).at_least(2));
}

TEST_CASE("seven additions bound nothing") {
  NoiseScale scale;
  for (int i = 0; i < 7; ++i) scale.add(kWorked);
  CHECK_FALSE(scale.at_least(2));
  scale.add(kWorked);
  CHECK(*scale.at_least(2) == Approx(32).epsilon(1e-4));
}

TEST_CASE("where batches are far smaller than the noise scale, its bound is known before its value, and holds") {
  int unknown = 0;
  int bounded = 0;
  int above = 0;
  double least = 0;
  constexpr int kSeeds = 200;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    testing::NoisyGradients source({.dimensions = 200, .noise_scale = 5000, .seed = static_cast<std::uint64_t>(seed)});
    NoiseScale scale;
    for (int step = 0; step < 20; ++step) scale.add(source.step(2, 8).norms);
    unknown += scale.relative_error().value_or(1) > 0.3;
    const auto bound = scale.at_least(2);
    if (!bound) continue;
    ++bounded;
    least += *bound / kSeeds;
    above += *bound > 5000;
  }
  CHECK(unknown > 0.95 * kSeeds);
  CHECK(bounded > 0.95 * kSeeds);
  CHECK(least > 200);  // the batch is 16
  CHECK(above < kSeeds / 20);
}

TEST_CASE("the variance of a tensor is the norm over its elements") {
  // g of two workers (1, 4) and (3, 0): mean (2, 2), mean of squares (5, 8); variances (1, 4).
  CHECK(gradient_variance({5, 8}, {2, 2}) == Approx(std::sqrt(17.0)));
}

TEST_CASE("SGD noise is the ratio of means over its window") {
  SgdNoise noise(3);
  CHECK_FALSE(noise.value());
  noise.add({.count = 1, .local_square = 2, .global_square = 1.25});
  CHECK(noise.value() == Approx(1.6));  // algorithms F: G^2 = 1, S = 32, b = 32, K = 4
  noise.add({.count = 1, .local_square = 4, .global_square = 1});
  CHECK(noise.value() == Approx(6 / 2.25));
  noise.add({.count = 2, .local_square = 1, .global_square = 1});
  CHECK(noise.value() == Approx(6.0 / 3));  // the first step has left the window: (4 + 2 * 1) / (1 + 2 * 1)
}

TEST_CASE("SGD noise of independent workers lies between 1 and their number") {
  CHECK(expected_sgd_noise(32, 32, 4) == Approx(1.6));
  CHECK(expected_sgd_noise(0, 32, 4) == 1);
  CHECK(expected_sgd_noise(1e12, 32, 4) == Approx(4));
  testing::NoisyGradients source({.dimensions = 300, .noise_scale = 32, .seed = 3});
  SgdNoise noise(2000);
  for (int step = 0; step < 2000; ++step) noise.add(source.step(4, 32).norms);
  CHECK(noise.value() == Approx(1.6).epsilon(0.02));
}

}  // namespace
}  // namespace elastictrain::heuristics
