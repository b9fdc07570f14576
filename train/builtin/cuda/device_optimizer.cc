#include "train/builtin/cuda/device_optimizer.h"

namespace elastictrain::train {
namespace {

device::DeviceMemory zeros(Engine& engine, std::size_t count) {
  device::DeviceMemory memory = engine.allocate(count * sizeof(float));
  if (engine.status()) engine.note(memory.fill_zero(engine.stream()));
  engine.settle();
  return memory;
}

StateBuffer on_device(std::string_view name, const device::DeviceMemory& memory) {
  return {name, memory.as<void>(), memory.bytes(), true};
}

class DeviceSgd final : public DeviceOptimizer {
 public:
  DeviceSgd(Engine& engine, const TrainerOptions& options, std::size_t count)
      : engine_(engine),
        count_(count),
        momentum_(static_cast<float>(effective_momentum(options))),
        weight_decay_(static_cast<float>(options.weight_decay)) {
    if (momentum_ > 0) velocity_ = zeros(engine, count);
  }

  void update(float* parameters, const float* gradient, double learning_rate) override {
    const auto rate = static_cast<float>(learning_rate);
    if (velocity_.bytes() == 0) {
      engine_.launch("et_sgd", parameters, gradient, count_, rate, weight_decay_);
    } else {
      engine_.launch("et_sgd_momentum", parameters, velocity_.as<float>(), gradient, count_, rate, weight_decay_,
                     momentum_);
    }
  }

  std::vector<StateBuffer> state() override {
    if (velocity_.bytes() == 0) return {};
    return {on_device("momentum", velocity_)};
  }

 private:
  Engine& engine_;
  std::size_t count_;
  float momentum_;
  float weight_decay_;
  device::DeviceMemory velocity_;
};

class DeviceAdam final : public DeviceOptimizer {
 public:
  DeviceAdam(Engine& engine, const TrainerOptions& options, std::size_t count)
      : engine_(engine),
        count_(count),
        weight_decay_(static_cast<float>(options.weight_decay)),
        first_(zeros(engine, count)),
        second_(zeros(engine, count)) {}

  void update(float* parameters, const float* gradient, double learning_rate) override {
    const AdamProgress::Scales scales = progress_.advance(learning_rate);
    engine_.launch("et_adam", parameters, first_.as<float>(), second_.as<float>(), gradient, count_, scales.rate,
                   weight_decay_, static_cast<float>(AdamProgress::kBeta1), static_cast<float>(AdamProgress::kBeta2),
                   scales.second, AdamProgress::kEpsilon);
  }

  std::vector<StateBuffer> state() override {
    return {on_device("adam_first_moment", first_),
            on_device("adam_second_moment", second_),
            {"adam_progress", &progress_, sizeof(progress_)}};
  }

 private:
  Engine& engine_;
  std::size_t count_;
  float weight_decay_;
  AdamProgress progress_;
  device::DeviceMemory first_;
  device::DeviceMemory second_;
};

}  // namespace

std::unique_ptr<DeviceOptimizer> make_device_optimizer(Engine& engine, const TrainerOptions& options,
                                                       std::size_t count) {
  if (effective_optimizer(options) == OptimizerKind::kAdam) {
    return std::make_unique<DeviceAdam>(engine, options, count);
  }
  return std::make_unique<DeviceSgd>(engine, options, count);
}

}  // namespace elastictrain::train
