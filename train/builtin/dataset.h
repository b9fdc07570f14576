// Purpose: labelled rows in memory, as the readers give them and the multi-layer perceptron takes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace elastictrain::train {

// Images stay bytes until a batch is made of them: CIFAR-10 as floats would take 600 MB in every worker.
struct LabelledRows {
  std::size_t features = 0;           // columns of a row, label not counted
  std::vector<std::uint32_t> labels;  // one per row
  std::vector<float> numbers;         // row after row; empty when `bytes` holds the rows
  std::vector<std::uint8_t> bytes;

  std::size_t size() const { return labels.size(); }
};

struct LabelledTask {
  LabelledRows train;
  LabelledRows test;         // may be empty: nothing held out
  std::size_t classes = 0;   // labels are below it
  std::vector<float> scale;  // per feature; rows are multiplied by it
};

inline void copy_scaled_row(const LabelledRows& rows, const std::vector<float>& scale, std::size_t row, float* out) {
  const std::size_t begin = row * rows.features;
  for (std::size_t i = 0; i < rows.features; ++i) {
    const float value = rows.bytes.empty() ? rows.numbers[begin + i] : static_cast<float>(rows.bytes[begin + i]);
    out[i] = value * scale[i];
  }
}

}  // namespace elastictrain::train
