// Purpose: the optimizers of optimizer.h on a GPU, with the same arithmetic and the same state by name.
// Ownership: borrows the engine; the addresses that state() gives stay valid as long as it lives. Thread, failure: as
// Engine.
#pragma once

#include <memory>
#include <vector>

#include "train/builtin/cuda/engine.h"
#include "train/builtin/optimizer.h"
#include "train/builtin/options.h"

namespace elastictrain::train {

class DeviceOptimizer {
 public:
  virtual ~DeviceOptimizer() = default;
  // Puts the update into the stream.
  virtual void update(float* parameters, const float* gradient, double learning_rate) = 0;
  virtual std::vector<StateBuffer> state() = 0;
};

std::unique_ptr<DeviceOptimizer> make_device_optimizer(Engine& engine, const TrainerOptions& options,
                                                       std::size_t count);

}  // namespace elastictrain::train
