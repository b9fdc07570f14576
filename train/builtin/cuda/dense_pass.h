// Purpose: DenseStack on a GPU: the same layers on the same flat buffers, in device memory.
//
// Ownership: borrows the engine; reuses the memory of a pass from pass to pass. Thread, failure: as Engine.
#pragma once

#include <vector>

#include "train/builtin/cuda/engine.h"
#include "train/builtin/dense_stack.h"

namespace elastictrain::train {

class DensePass {
 public:
  DensePass(Engine& engine, const DenseStack& stack);

  // The rows and labels of a pass over this number of rows; write them in the engine's stream.
  float* input(std::size_t rows);
  unsigned* labels() const { return labels_.as<unsigned>(); }

  // Runs DenseStack::forward() and backward() on the rows in input(). `done` is called when all work for a layer's
  // gradient is in the stream. The gradient by the input is written to `input_gradient` unless it is null.
  void run(const float* parameters, float* gradient, const DenseStack::LayerDone& done, float* input_gradient);

  // The result of the last run(). Waits until it is known.
  double mean_loss();

 private:
  struct Layer {
    std::size_t weights = 0;  // their offset in the flat buffers; biases follow
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
  std::vector<device::DeviceMemory> deltas_;  // two, used alternately
  device::DeviceMemory labels_;
  device::DeviceMemory partial_losses_;
  Readback losses_;
};

}  // namespace elastictrain::train
