#include "heuristics/batch_plan.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace elastictrain::heuristics;

TEST_CASE("without a rule the learning rate stays") {
  CHECK(learning_rate_factor(LearningRateRule::kNone, 512, 64) == 1.0);
}

TEST_CASE("the linear rule follows the batch") {
  CHECK(learning_rate_factor(LearningRateRule::kLinear, 256, 64) == doctest::Approx(4.0));
  CHECK(learning_rate_factor(LearningRateRule::kLinear, 32, 64) == doctest::Approx(0.5));
}

TEST_CASE("the square root rule follows the root of the batch") {
  CHECK(learning_rate_factor(LearningRateRule::kSqrt, 256, 64) == doctest::Approx(2.0));
}

TEST_CASE("an unknown batch changes nothing") {
  CHECK(learning_rate_factor(LearningRateRule::kLinear, 0, 64) == 1.0);
  CHECK(learning_rate_factor(LearningRateRule::kSqrt, 64, 0) == 1.0);
}

TEST_CASE("AdaScale follows the gain: the worked numbers") {
  // Algorithms G: B0 = 32, B = 128, sqr 1, var 4 (of one gradient of 32 samples): noise scale 4 * 32 = 128 samples.
  CHECK(adascale_gain(128, 128, 32) == doctest::Approx(2.5));  // (4 + 1) / (4 / 4 + 1)
  CHECK(learning_rate_factor(LearningRateRule::kAdaScale, 128, 32, 128) == doctest::Approx(2.5));
  // A smaller batch is worth less than one step of the base: (1 + 1) / (2 + 1) at a noise scale of the base batch.
  CHECK(adascale_gain(64, 32, 64) == doctest::Approx(2.0 / 3));
}

TEST_CASE("AdaScale lies between no change and the linear rule") {
  CHECK(adascale_gain(0, 512, 64) == 1.0);
  CHECK(adascale_gain(1e15, 512, 64) == doctest::Approx(8.0));
  CHECK(adascale_gain(INFINITY, 512, 64) == 8.0);
  double before = 1;
  for (double noise = 1; noise < 1e6; noise *= 2) {
    const double gain = adascale_gain(noise, 512, 64);
    CHECK(gain > before);
    CHECK(gain < 8);
    before = gain;
  }
}

TEST_CASE("without a measured noise scale AdaScale keeps the learning rate") {
  CHECK(learning_rate_factor(LearningRateRule::kAdaScale, 512, 64) == 1.0);
  CHECK(learning_rate_factor(LearningRateRule::kAdaScale, 512, 64, -42) == 1.0);
  CHECK(learning_rate_factor(LearningRateRule::kAdaScale, 512, 64, NAN) == 1.0);
}
