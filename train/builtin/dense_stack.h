// Purpose: fully connected layers with ReLU between them and softmax cross entropy at the end, on parameters and
// gradients that the caller keeps in flat buffers (layer after layer: weights output x input row by row, then biases).
//
// Ownership: the caller owns the buffers; a Workspace holds the memory of one pass and is reused between passes.
// Thread: const; any thread, each with a Workspace of its own.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "train/builtin/model.h"
#include "train/builtin/random.h"

namespace elastictrain::train {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

class DenseStack {
 public:
  using LayerDone = std::function<void(std::size_t layer)>;

  struct Workspace {
    std::vector<Matrix> values;  // input of every layer, then the output of the last one
    Matrix delta;
    Matrix next_delta;
  };

  // Sizes from input to output; two or more.
  explicit DenseStack(std::vector<std::size_t> sizes);

  std::span<const std::size_t> sizes() const { return sizes_; }
  std::size_t layers() const { return ranges_.size(); }
  std::span<const Range> ranges() const { return ranges_; }  // of the layers in the flat buffers
  std::size_t parameter_count() const { return ranges_.back().begin + ranges_.back().count; }

  // He's rule: normal weights of deviation sqrt(2 / inputs), biases 0.
  void initialize(std::span<float> parameters, Random& random) const;

  // The input rows; resized to `rows`.
  Matrix& input(Workspace& workspace, std::size_t rows) const;

  // Predictions for the rows in input(): mean loss, and the number of rows whose label was the most likely class.
  Score forward(std::span<const float> parameters, std::span<const std::uint32_t> labels, Workspace& workspace) const;

  // Call it after forward(): the gradient of the mean loss. `done` is called after each layer, from the last to the
  // first; the layer's range of `gradient` is final by then. The gradient by the input is written to `input_gradient`
  // unless it is null.
  void backward(std::span<const float> parameters, std::span<const std::uint32_t> labels, Workspace& workspace,
                std::span<float> gradient, const LayerDone& done, Matrix* input_gradient = nullptr) const;

 private:
  std::vector<std::size_t> sizes_;
  std::vector<Range> ranges_;
};

}  // namespace elastictrain::train
