// Real learning on real data: does the built-in trainer's default configuration reach its expected accuracy?
#include <doctest/doctest.h>

#include <string>

#include "tests/unit/trainer/plain_training.h"

using namespace elastictrain;
using namespace elastictrain::train;

namespace {

const std::string kData = ELASTICTRAIN_TEST_DATA;

TrainerOptions optdigits() {
  TrainerOptions options;
  options.train = kData + "/optdigits/optdigits.tra";
  options.test = kData + "/optdigits/optdigits.tes";
  return options;
}

}  // namespace

TEST_CASE("the perceptron reaches 96 % on held-out handwritten digits with the default settings") {
  TrainerOptions options = optdigits();
  for (const std::size_t global_batch : {64U, 128U}) {
    options.seed = global_batch;
    const double accuracy = accuracy_after_epochs(options, global_batch);
    CAPTURE(global_batch);
    MESSAGE("accuracy " << accuracy);
    CHECK(accuracy >= 0.96);
  }
}

TEST_CASE("the character model gets far below the entropy of single characters") {
  TrainerOptions options;
  options.model = ModelKind::kCharLm;
  options.train = kData + "/tinyshakespeare/input.txt";
  const auto model = must_make(options);
  CHECK(model->sample_count() > 30'000);
  run_steps(*model, options, 32, 300);
  const Score score = model->evaluate(model->parameters());
  MESSAGE("held-out loss " << score.loss);
  CHECK(score.loss < 2.5);  // single characters: 3.3
}
