#include "train/builtin/optimizer.h"

#include <cmath>

namespace elastictrain::train {

Sgd::Sgd(std::size_t count, double momentum, double weight_decay)
    : momentum_(static_cast<float>(momentum)),
      weight_decay_(static_cast<float>(weight_decay)),
      velocity_(momentum > 0 ? count : 0) {}

void Sgd::update(std::span<float> parameters, std::span<const float> gradient, double learning_rate) {
  const auto rate = static_cast<float>(learning_rate);
  float* const p = parameters.data();
  const float* const g = gradient.data();
  if (velocity_.empty()) {
    for (std::size_t i = 0; i < parameters.size(); ++i) p[i] -= rate * (g[i] + weight_decay_ * p[i]);
    return;
  }
  float* const v = velocity_.data();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    v[i] = momentum_ * v[i] + (g[i] + weight_decay_ * p[i]);
    p[i] -= rate * v[i];
  }
}

std::vector<StateBuffer> Sgd::state() {
  if (velocity_.empty()) return {};
  return {{"momentum", velocity_.data(), velocity_.size() * sizeof(float)}};
}

AdamProgress::Scales AdamProgress::advance(double learning_rate) {
  ++steps;
  beta1_power *= kBeta1;
  beta2_power *= kBeta2;
  return {static_cast<float>(learning_rate / (1 - beta1_power)), static_cast<float>(1 / (1 - beta2_power))};
}

Adam::Adam(std::size_t count, double weight_decay)
    : weight_decay_(static_cast<float>(weight_decay)), first_(count), second_(count) {}

void Adam::update(std::span<float> parameters, std::span<const float> gradient, double learning_rate) {
  const auto [rate, second_scale] = progress_.advance(learning_rate);
  constexpr auto kKeep1 = static_cast<float>(AdamProgress::kBeta1);
  constexpr auto kKeep2 = static_cast<float>(AdamProgress::kBeta2);
  float* const p = parameters.data();
  float* const m = first_.data();
  float* const v = second_.data();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const float g = gradient[i] + weight_decay_ * p[i];
    m[i] = kKeep1 * m[i] + (1 - kKeep1) * g;
    v[i] = kKeep2 * v[i] + (1 - kKeep2) * (g * g);
    p[i] -= rate * m[i] / (std::sqrt(v[i] * second_scale) + AdamProgress::kEpsilon);
  }
}

std::vector<StateBuffer> Adam::state() {
  return {{"adam_first_moment", first_.data(), first_.size() * sizeof(float)},
          {"adam_second_moment", second_.data(), second_.size() * sizeof(float)},
          {"adam_progress", &progress_, sizeof(progress_)}};
}

std::unique_ptr<Optimizer> make_optimizer(const TrainerOptions& options, std::size_t count) {
  if (effective_optimizer(options) == OptimizerKind::kAdam) {
    return std::make_unique<Adam>(count, options.weight_decay);
  }
  return std::make_unique<Sgd>(count, effective_momentum(options), options.weight_decay);
}

}  // namespace elastictrain::train
