// Purpose: labelled rows in memory, as the readers produce them and the multi-layer perceptron uses them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace elastictrain::train {

// Images stay bytes until a batch is made from them: CIFAR-10 as floats would take 600 MB in every worker.
struct LabelledRows {
  std::size_t features = 0;           // columns of a row, label not counted
  std::vector<std::uint32_t> labels;  // one per row
  std::vector<float> numbers;         // row after row; empty when `bytes` holds the rows
  std::vector<std::uint8_t> bytes;

  std::size_t size() const { return labels.size(); }
  float value(std::size_t index) const { return bytes.empty() ? numbers[index] : static_cast<float>(bytes[index]); }
};

// value -> (value - centre) * factor, feature by feature.
struct Scaling {
  std::vector<float> centre;
  std::vector<float> factor;
};

// Centres every feature on its mean and scales its range to 2, so that columns of any unit are learnt alike.
Scaling make_scaling(const LabelledRows& rows);

struct LabelledTask {
  LabelledRows train;
  LabelledRows test;        // may be empty: nothing held out
  std::size_t classes = 0;  // labels are below it
  Scaling scaling;          // applied to rows before they enter the model
};

inline void copy_scaled_row(const LabelledRows& rows, const Scaling& scaling, std::size_t row, float* out) {
  const std::size_t begin = row * rows.features;
  for (std::size_t i = 0; i < rows.features; ++i) {
    out[i] = (rows.value(begin + i) - scaling.centre[i]) * scaling.factor[i];
  }
}

}  // namespace elastictrain::train
