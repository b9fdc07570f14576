// Purpose: data sets in memory as the models use them: labelled rows, text as indices of characters, and generated
// rows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "supervisor/protocol/result.h"

// Labelled rows in memory, as the readers produce them and the multi-layer perceptron uses them.

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

// Text for the character language model, as indices into the characters (bytes) that occur in it.

class Vocabulary {
 public:
  // The bytes that occur, in ascending order.
  explicit Vocabulary(std::string_view text);

  std::size_t size() const { return size_; }

  // kInvalid at the first byte that the vocabulary lacks.
  Result<std::vector<std::uint8_t>> encode(std::string_view text, std::string_view name) const;

 private:
  std::array<std::int16_t, 256> index_;  // -1: does not occur
  std::size_t size_ = 0;
};

struct TextTask {
  std::size_t vocabulary = 0;
  std::vector<std::uint8_t> train;
  std::vector<std::uint8_t> test;
};

// Without a test text, the last tenth of the training text is held out.
Result<TextTask> make_text_task(std::string_view train, std::string_view train_name, std::string_view test,
                                std::string_view test_name);

// A data set that needs no files: ten classes of noisy points. Every class has several centres, so that a
// linear model is often wrong and a small multi-layer perceptron reaches about 98 %.

// The same for the same arguments on every host. The held-out rows are a quarter as many.
LabelledTask generate_task(std::uint64_t samples, std::uint64_t seed);

}  // namespace elastictrain::train
