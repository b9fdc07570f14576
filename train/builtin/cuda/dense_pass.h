// Purpose: what DenseStack does, on a GPU: the same layers on the same flat buffers, in the device's memory.
//
// Ownership: borrows the engine; keeps what one pass needs from pass to pass. Thread, failure: as Engine.
#pragma once

#include <vector>

#include "train/builtin/cuda/engine.h"
#include "train/builtin/dense_stack.h"

namespace elastictrain::train {

class DensePass {
 public:
  DensePass(Engine& engine, const DenseStack& stack);

  // Where a pass over so many rows takes its rows and labels from: to be written in the engine's stream.
  float* input(std::size_t rows);
  unsigned* labels() const { return labels_.as<unsigned>(); }

  // From the rows in input(): as DenseStack::forward() and backward(). `done` is told when all that makes a layer's
  // gradient is in the stream. The gradient by the input goes to `input_gradient` unless that is null.
  void run(const float* parameters, float* gradient, const DenseStack::LayerDone& done, float* input_gradient);

  // Of the last run(): waits until it is known.
  double mean_loss();

 private:
  struct Layer {
    std::size_t weights = 0;  // where they begin in the flat buffers; biases follow
    std::size_t inputs = 0;
    std::size_t outputs = 0;
    std::size_t biases() const { return weights + inputs * outputs; }
  };

  void forward(const float* parameters);
  void backward(const float* parameters, float* gradient, const DenseStack::LayerDone& done, float* input_gradient);
  float* values(std::size_t layer) const { return values_[layer].as<float>(); }

  Engine& engine_;
  std::vector<Layer> layers_;
  std::size_t rows_ = 0;
  std::vector<device::DeviceMemory> values_;  // input of every layer, then the output of the last one
  std::vector<device::DeviceMemory> deltas_;  // two, taken in turns
  device::DeviceMemory labels_;
  device::DeviceMemory partial_losses_;
  Readback losses_;
};

}  // namespace elastictrain::train
