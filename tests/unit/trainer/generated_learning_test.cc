#include <doctest/doctest.h>

#include "tests/unit/trainer/plain_training.h"

using namespace elastictrain::train;

TEST_CASE("generated data are learnt to 97 % by the default perceptron, and not by a linear model") {
  TrainerOptions options;
  CHECK(accuracy_after_epochs(options, 64) >= 0.97);
  options.hidden = {};
  CHECK(accuracy_after_epochs(options, 64) < 0.9);
}
