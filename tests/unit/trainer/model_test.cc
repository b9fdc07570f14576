#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "train/builtin/dataset.h"
#include "train/builtin/dense_models.h"
#include "train/builtin/dense_stack.h"
#include "train/builtin/evaluation.h"

using namespace elastictrain::train;

namespace {

using Samples = std::vector<std::uint64_t>;

double loss_of(Model& model, const Samples& samples) {
  return model.compute(samples, [](Range) {});
}

// Central differences against the model's own gradient. ReLU has kinks, where a difference is invalid; `agreeing`
// counts the parameters that match, of `count` tried from `begin` on.
std::size_t agreeing(Model& model, const Samples& samples, std::size_t begin, std::size_t count) {
  loss_of(model, samples);
  const std::vector<float> gradient(model.gradient().begin(), model.gradient().end());
  constexpr float kStep = 1e-2F;
  std::size_t good = 0;
  for (std::size_t i = begin; i < begin + count; ++i) {
    float& parameter = model.parameters()[i];
    const float kept = parameter;
    parameter = kept + kStep;
    const double above = loss_of(model, samples);
    parameter = kept - kStep;
    const double below = loss_of(model, samples);
    parameter = kept;
    const double numeric = (above - below) / (2.0 * kStep);
    good += std::fabs(numeric - gradient[i]) <= 2e-4 + 0.02 * std::fabs(numeric) ? 1 : 0;
  }
  return good;
}

MlpModel small_mlp() {
  const std::uint32_t hidden[] = {12, 9};
  return MlpModel(generate_task(64, 5), hidden, 5);
}

CharLmModel small_char_lm() {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "the quick brown fox ";
  return CharLmModel(*make_text_task(text, "t", "", ""), {4, 3, {8}}, 2);
}

}  // namespace

TEST_CASE("loss and gradient of softmax cross entropy are the analytic ones") {
  const DenseStack stack({2, 3});
  // Outputs are the biases 0, ln 2, ln 5: probabilities 1/8, 2/8, 5/8.
  const std::vector<float> parameters = {0, 0, 0, 0, 0, 0, 0, std::log(2.0F), std::log(5.0F)};
  DenseStack::Workspace workspace;
  stack.input(workspace, 2) << 1, 2, 3, -1;
  const std::vector<std::uint32_t> labels = {2, 0};
  const Score score = stack.forward(parameters, labels, workspace);
  CHECK(score.loss == doctest::Approx((std::log(8.0 / 5) + std::log(8.0)) / 2));
  CHECK(score.correct == 1);
  CHECK(score.count == 2);

  std::vector<float> gradient(9);
  stack.backward(parameters, labels, workspace, gradient, [](std::size_t) {});
  // Rows of (probability - label) / 2: {1, 2, -3} / 16 and {-7, 2, 5} / 16.
  const float expected[] = {1 - 21, 2 + 7, 2 + 6, 4 - 2, -3 + 15, -6 - 5, -6, 4, 2};
  for (std::size_t i = 0; i < 9; ++i) CHECK(gradient[i] == doctest::Approx(expected[i] / 16));
}

TEST_CASE("huge outputs give finite losses") {
  const DenseStack stack({1, 2});
  const std::vector<float> parameters = {1000, -1000, 0, 0};
  DenseStack::Workspace workspace;
  stack.input(workspace, 1) << 1;
  CHECK(stack.forward(parameters, std::vector<std::uint32_t>{1}, workspace).loss == doctest::Approx(2000));
}

TEST_CASE("the perceptron's gradient agrees with numeric differentiation in every layer") {
  MlpModel model = small_mlp();
  const Samples samples = {3, 1, 4, 15, 9, 2};
  const std::size_t layers[] = {(16 + 1) * 12, (12 + 1) * 9, (9 + 1) * 10};
  std::size_t begin = 0;
  for (const std::size_t count : layers) {
    CAPTURE(begin);
    CHECK(agreeing(model, samples, begin, count) >= count - count / 20);
    begin += count;
  }
  CHECK(begin == model.parameters().size());
}

TEST_CASE("the language model's gradient agrees with numeric differentiation, embedding included") {
  CharLmModel model = small_char_lm();
  const Samples samples = {0, 7};
  const std::size_t count = model.parameters().size();
  CHECK(agreeing(model, samples, 0, count) >= count - count / 20);
}

TEST_CASE("the gradient of a batch is the mean of its samples' gradients") {
  MlpModel model = small_mlp();
  const Samples all = {1, 2, 3, 4};
  std::vector<double> mean(model.gradient().size());
  for (const std::uint64_t sample : all) {
    loss_of(model, {sample});
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += static_cast<double>(model.gradient()[i]) / 4.0;
  }
  loss_of(model, all);
  for (std::size_t i = 0; i < mean.size(); ++i) {
    REQUIRE(model.gradient()[i] == doctest::Approx(mean[i]).epsilon(1e-4));
  }
}

TEST_CASE("neighbouring layers join into buckets of the least size, from the last to the first") {
  const std::vector<Range> layers = {{0, 50}, {50, 10}, {60, 10}, {70, 100}, {170, 5}};
  CHECK(plan_buckets(layers, 1) == std::vector<Range>{{170, 5}, {70, 100}, {60, 10}, {50, 10}, {0, 50}});
  CHECK(plan_buckets(layers, 60) == std::vector<Range>{{70, 105}, {0, 70}});
  CHECK(plan_buckets(layers, 1000) == std::vector<Range>{{0, 175}});
}

TEST_CASE("a bucket is passed on when its layers are done and not before") {
  const std::vector<Range> buckets = {{70, 105}, {0, 70}};
  std::vector<Range> reported;
  const BucketReady ready = [&](Range bucket) { reported.push_back(bucket); };
  BucketProgress progress(buckets, ready);
  progress.layer_done({170, 5});
  CHECK(reported.empty());
  progress.layer_done({70, 100});
  CHECK(reported.size() == 1);
  progress.layer_done({60, 10});
  CHECK(reported.size() == 1);
  progress.layer_done({0, 60});
  CHECK(reported == buckets);
}

TEST_CASE("a wide perceptron's last layer is ready while earlier layers still compute") {
  const std::uint32_t hidden[] = {512, 256};
  MlpModel model(generate_task(64, 5), hidden, 5);
  REQUIRE(model.buckets().size() == 2);
  bool first_layer_was_open = false;
  std::size_t reported = 0;
  model.gradient()[0] = 12345;
  model.compute(Samples{1, 2}, [&](Range bucket) {
    CHECK(bucket == model.buckets()[reported]);
    if (reported++ == 0) first_layer_was_open = model.gradient()[0] == 12345;
  });
  CHECK(reported == 2);
  CHECK(first_layer_was_open);
}

TEST_CASE("computing changes no parameter and the same samples give the same bits") {
  MlpModel model = small_mlp();
  const std::vector<float> before(model.parameters().begin(), model.parameters().end());
  loss_of(model, {1, 2, 3});
  const std::vector<float> gradient(model.gradient().begin(), model.gradient().end());
  loss_of(model, {4, 5});
  loss_of(model, {1, 2, 3});
  CHECK(std::equal(gradient.begin(), gradient.end(), model.gradient().begin()));
  CHECK(std::equal(before.begin(), before.end(), model.parameters().begin()));
}

TEST_CASE("a background score is that of the parameters at its start") {
  MlpModel model = small_mlp();
  const Score before = model.evaluate(model.parameters());
  BackgroundEvaluation evaluation(model);
  evaluation.start(3, model.parameters());
  for (float& value : model.parameters()) value = 0;
  std::optional<BackgroundEvaluation::Outcome> outcome;
  while (!outcome) outcome = evaluation.poll();
  CHECK(outcome->epoch == 3);
  CHECK(outcome->score.loss == before.loss);
  CHECK(outcome->score.correct == before.correct);
  CHECK_FALSE(evaluation.poll().has_value());
  evaluation.start(4, model.parameters());
  CHECK(evaluation.evaluate_now(model.parameters()).loss == doctest::Approx(std::log(10.0)));
}
