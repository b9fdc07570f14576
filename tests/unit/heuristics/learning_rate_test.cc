#include "heuristics/learning_rate.h"

#include <doctest/doctest.h>

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
