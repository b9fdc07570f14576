// Purpose: updates of flat parameters: SGD with momentum, and Adam. The arithmetic is one rounded operation at a time
// in a fixed order, so that equal gradients give bit-identical parameters on every worker.
//
// Ownership: the optimizer owns its state; the addresses that state() returns stay valid for its lifetime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "train/builtin/options.h"

namespace elastictrain::train {

// A part of the optimizer's state that a new worker needs to continue.
struct StateBuffer {
  std::string_view name;
  void* data = nullptr;
  std::size_t bytes = 0;
  bool on_device = false;  // in a GPU's memory
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual void update(std::span<float> parameters, std::span<const float> gradient, double learning_rate) = 0;
  virtual std::vector<StateBuffer> state() = 0;
};

// v = momentum * v + g; p = p - learning_rate * v. Without momentum there is no state.
class Sgd final : public Optimizer {
 public:
  Sgd(std::size_t count, double momentum, double weight_decay);
  void update(std::span<float> parameters, std::span<const float> gradient, double learning_rate) override;
  std::vector<StateBuffer> state() override;

 private:
  float momentum_;
  float weight_decay_;
  std::vector<float> velocity_;
};

// The progress of Adam, as part of its state: powers of the betas, multiplied step by step, because pow() may differ in
// the last bit between hosts.
struct AdamProgress {
  static constexpr double kBeta1 = 0.9;
  static constexpr double kBeta2 = 0.999;
  static constexpr float kEpsilon = 1e-8F;

  struct Scales {
    float rate;    // of the first moment
    float second;  // of the second moment
  };

  Scales advance(double learning_rate);

  std::uint64_t steps = 0;
  double beta1_power = 1;
  double beta2_power = 1;
};

// Kingma and Ba, with beta 0.9 and 0.999 and epsilon 1e-8.
class Adam final : public Optimizer {
 public:
  Adam(std::size_t count, double weight_decay);
  void update(std::span<float> parameters, std::span<const float> gradient, double learning_rate) override;
  std::vector<StateBuffer> state() override;

 private:
  float weight_decay_;
  AdamProgress progress_;
  std::vector<float> first_;
  std::vector<float> second_;
};

std::unique_ptr<Optimizer> make_optimizer(const TrainerOptions& options, std::size_t count);

}  // namespace elastictrain::train
