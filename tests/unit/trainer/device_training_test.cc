// The trainer on a GPU against the trainer on the host, on the stand-in of the driver, which runs the same kernels.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "tests/standin/standin_cuda.h"
#include "tests/unit/trainer/plain_training.h"
#include "train/builtin/cuda/device_model.h"
#include "train/builtin/cuda/device_optimizer.h"
#include "train/builtin/dataset.h"
#include "train/builtin/dense_models.h"

using namespace elastictrain;
using namespace elastictrain::train;

namespace {

using Batches = std::vector<std::vector<std::uint64_t>>;
using MakeModel = std::function<std::unique_ptr<Model>()>;

struct Trained {
  std::vector<double> losses;
  std::vector<float> parameters;
};

// Of different sizes, as a run that changes its size has them.
Batches some_batches(std::size_t sample_count) {
  Batches batches;
  Random random(7);
  for (std::size_t step = 0; step < 30; ++step) {
    batches.emplace_back(4 + step * 5 % 13);
    for (auto& sample : batches.back()) sample = random.next() % sample_count;
  }
  return batches;
}

std::unique_ptr<Engine> must_open() {
  auto engine = Engine::open(0);
  if (!engine) FAIL(engine.error().message);
  return *std::move(engine);
}

Trained train_on_host(const TrainerOptions& options, const MakeModel& make) {
  const auto model = make();
  const auto optimizer = make_optimizer(options, model->parameters().size());
  Trained trained;
  for (const auto& batch : some_batches(model->sample_count())) {
    trained.losses.push_back(model->compute(batch, [](Range) {}));
    optimizer->update(model->parameters(), model->gradient(), effective_learning_rate(options));
  }
  trained.parameters.assign(model->parameters().begin(), model->parameters().end());
  return trained;
}

Trained train_on_device(const TrainerOptions& options, const MakeModel& make) {
  const auto host = make();
  const auto engine = must_open();
  const auto model = make_device_model(*engine, options, *host);
  const auto optimizer = make_device_optimizer(*engine, options, model->count());
  Trained trained;
  for (const auto& batch : some_batches(host->sample_count())) {
    model->compute(batch, [](Range) {});
    trained.losses.push_back(model->loss());
    optimizer->update(model->parameters(), model->gradient(), effective_learning_rate(options));
  }
  trained.parameters.resize(model->count());
  engine->download(model->parameters(), trained.parameters);
  if (!engine->status()) FAIL(engine->status().error().message);
  return trained;
}

double distance(std::span<const float> a, std::span<const float> b) {
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    size += std::pow(static_cast<double>(a[i]), 2);
  }
  return std::sqrt(difference / size);
}

// `tolerance`: of the difference of all parameters relative to their length, and of each loss.
void check_same(const TrainerOptions& options, const MakeModel& make, double tolerance) {
  const Trained host = train_on_host(options, make);
  const Trained device = train_on_device(options, make);
  REQUIRE(host.losses.size() == device.losses.size());
  for (std::size_t i = 0; i < host.losses.size(); ++i) {
    CAPTURE(i);
    CHECK(device.losses[i] == doctest::Approx(host.losses[i]).epsilon(tolerance));
  }
  CHECK(distance(host.parameters, device.parameters) <= tolerance);
  CHECK(device.losses.back() != device.losses.front());
}

MakeModel mlp_of(LabelledTask task) {
  return [task] {
    const std::uint32_t hidden[] = {24, 17};
    return std::unique_ptr<Model>(std::make_unique<MlpModel>(task, hidden, 5));
  };
}

// Rows as in image data: bytes, scaled on the way into the model.
LabelledTask task_of_bytes() {
  LabelledTask task;
  task.classes = 3;
  task.train.features = 20;
  Random random(11);
  for (std::size_t i = 0; i < 90; ++i) task.train.labels.push_back(static_cast<std::uint32_t>(random.next() % 3));
  for (std::size_t i = 0; i < 90 * 20; ++i) task.train.bytes.push_back(static_cast<std::uint8_t>(random.next()));
  task.scaling = make_scaling(task.train);
  return task;
}

std::unique_ptr<Model> small_char_lm() {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "the quick brown fox ";
  return std::make_unique<CharLmModel>(*make_text_task(text, "t", "", ""), CharLmModel::Shape{4, 3, {8}}, 2);
}

TrainerOptions small_synthetic() {
  TrainerOptions options;
  options.model = ModelKind::kSynthetic;
  options.compute_us_per_sample = 0;
  options.parameter_bytes = 20'000;
  options.samples = 500;
  return options;
}

}  // namespace

TEST_CASE("the perceptron learns on a device what it learns on the host") {
  TrainerOptions options;
  check_same(options, mlp_of(generate_task(200, 5)), 1e-4);
  check_same(options, mlp_of(task_of_bytes()), 1e-4);
  options.momentum = 0;
  options.weight_decay = 0.01;
  check_same(options, mlp_of(generate_task(200, 5)), 1e-4);
}

TEST_CASE("the language model learns on a device what it learns on the host") {
  TrainerOptions options;
  options.model = ModelKind::kCharLm;
  check_same(options, small_char_lm, 1e-4);
  options.optimizer = OptimizerKind::kSgd;
  check_same(options, small_char_lm, 1e-4);
}

TEST_CASE("where no matrices are multiplied, device and host give the same bits") {
  TrainerOptions options = small_synthetic();
  const MakeModel make = [&] { return must_make(options); };
  const Trained host = train_on_host(options, make);
  CHECK(train_on_device(options, make).parameters == host.parameters);
  CHECK(train_on_device(options, make).losses == host.losses);
  options.gradient = GradientKind::kConstant;
  CHECK(train_on_device(options, make).parameters == train_on_host(options, make).parameters);
}

TEST_CASE("training twice on a device gives the same bits") {
  const TrainerOptions options;
  const Trained first = train_on_device(options, mlp_of(generate_task(200, 5)));
  const Trained second = train_on_device(options, mlp_of(generate_task(200, 5)));
  CHECK(first.parameters == second.parameters);
  CHECK(first.losses == second.losses);
}

TEST_CASE("buckets are reported in order, the last layer's before the first is computed") {
  const TrainerOptions options;
  const std::uint32_t hidden[] = {512, 256};
  MlpModel host(generate_task(64, 5), hidden, 5);
  const auto engine = must_open();
  const auto model = make_device_model(*engine, options, host);
  std::vector<Range> reported;
  std::vector<float> first_layer(1);
  const std::vector<std::uint64_t> samples = {1, 2};
  model->compute(samples, [&](Range bucket) {
    if (reported.empty()) engine->download(model->gradient(), first_layer);
    reported.push_back(bucket);
  });
  CHECK(reported == std::vector<Range>(host.buckets().begin(), host.buckets().end()));
  CHECK(reported.size() == 2);
  CHECK(first_layer[0] == 0);
  std::vector<float> gradient(model->count());
  engine->download(model->gradient(), gradient);
  CHECK(distance(gradient, std::vector<float>(gradient.size())) == 1);
}

TEST_CASE("optimizers name the same state on a device as on the host") {
  TrainerOptions options;
  const auto engine = must_open();
  for (const auto kind : {OptimizerKind::kSgd, OptimizerKind::kAdam}) {
    options.optimizer = kind;
    const auto host = make_optimizer(options, 10)->state();
    const auto device = make_device_optimizer(*engine, options, 10)->state();
    REQUIRE(host.size() == device.size());
    for (std::size_t i = 0; i < host.size(); ++i) {
      CHECK(host[i].name == device[i].name);
      CHECK(host[i].bytes == device[i].bytes);
    }
  }
}

TEST_CASE("a failure of the device stays, and the step after it does nothing") {
  const TrainerOptions options = small_synthetic();
  const auto host = must_make(options);
  const auto engine = must_open();
  const auto model = make_device_model(*engine, options, *host);
  const std::vector<std::uint64_t> samples = {1, 2};
  standin_cuda_fault(700);
  model->compute(samples, [](Range) {});
  standin_cuda_fault(0);
  REQUIRE_FALSE(engine->status().ok());
  CHECK(engine->status().error().message.find("the process must end") != std::string::npos);
  model->compute(samples, [](Range) {});
  CHECK_FALSE(engine->status().ok());
}

TEST_CASE("a trainer gives everything back to its device") {
  const TrainerOptions options;
  const auto make = mlp_of(generate_task(64, 5));
  train_on_device(options, make);
  std::size_t before[3];
  std::size_t after[3];
  standin_cuda_alive(&before[0], &before[1], &before[2]);
  train_on_device(options, make);
  standin_cuda_alive(&after[0], &after[1], &after[2]);
  for (int i = 0; i < 3; ++i) CHECK(before[i] == after[i]);
}
