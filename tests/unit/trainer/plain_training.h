// Purpose: training without a session, for tests of the models' learning.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "train/builtin/model.h"
#include "train/builtin/optimizer.h"
#include "train/builtin/random.h"

namespace elastictrain::train {

inline std::unique_ptr<Model> must_make(const TrainerOptions& options) {
  auto model = make_model(options);
  if (!model) FAIL(model.error().message);
  return *std::move(model);
}

// Plain steps over shuffled epochs, until `steps` are done; the mean loss of the last quarter.
inline double run_steps(Model& model, const TrainerOptions& options, std::size_t global_batch, std::size_t steps) {
  const auto optimizer = make_optimizer(options, model.parameters().size());
  std::vector<std::uint64_t> order(model.sample_count());
  std::iota(order.begin(), order.end(), 0);
  Random random(options.seed);
  std::size_t cursor = order.size();
  double tail_loss = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    if (cursor + global_batch > order.size()) {
      for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.next() % i]);
      cursor = 0;
    }
    const double loss = model.compute(std::span(order).subspan(cursor, global_batch), [](Range) {});
    optimizer->update(model.parameters(), model.gradient(), effective_learning_rate(options));
    cursor += global_batch;
    if (step >= steps - steps / 4) tail_loss += loss;
  }
  return tail_loss / static_cast<double>(steps / 4);
}

inline double accuracy_after_epochs(const TrainerOptions& options, std::size_t global_batch) {
  const auto model = must_make(options);
  const std::size_t steps = options.epochs * (model->sample_count() / global_batch);
  run_steps(*model, options, global_batch, steps);
  return model->evaluate(model->parameters()).accuracy();
}

}  // namespace elastictrain::train
