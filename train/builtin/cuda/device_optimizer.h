// Purpose: the optimizers of optimizer.h on a GPU, with the same arithmetic and the same state by name.
// Ownership: borrows the engine; the addresses that state() returns stay valid for its lifetime. Thread, failure: as
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
  // Queues the update in the stream.
  virtual void update(float* parameters, const float* gradient, double learning_rate) = 0;
  virtual std::vector<StateBuffer> state() = 0;
};

std::unique_ptr<DeviceOptimizer> make_device_optimizer(Engine& engine, const TrainerOptions& options,
                                                       std::size_t count);

}  // namespace elastictrain::train
