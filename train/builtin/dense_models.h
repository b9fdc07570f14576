// Purpose: models of fully connected layers: a multi-layer perceptron on rows, and a character language model.
#pragma once

#include <vector>

#include "train/builtin/dataset.h"
#include "train/builtin/dense_stack.h"
#include "train/builtin/model.h"

// A multi-layer perceptron that classifies labelled rows. See model.h for thread and failure.

namespace elastictrain::train {

class MlpModel final : public Model {
 public:
  MlpModel(LabelledTask task, std::span<const std::uint32_t> hidden, std::uint64_t seed);

  std::uint64_t sample_count() const override { return task_.train.size(); }
  double compute(std::span<const std::uint64_t> samples, const BucketReady& ready) override;
  bool has_held_out_data() const override { return task_.test.size() > 0; }
  Score evaluate(std::span<const float> parameters) const override;

  const LabelledTask& task() const { return task_; }
  const DenseStack& stack() const { return stack_; }

 private:
  LabelledTask task_;
  DenseStack stack_;
  DenseStack::Workspace workspace_;
  std::vector<std::uint32_t> labels_;
};

// A character language model: from the embeddings of the last few characters, fully connected layers predict
// the next one. A sample is a block of consecutive characters to predict. See model.h for thread and failure.

inline constexpr std::size_t kCharactersPerSample = 32;

class CharLmModel final : public Model {
 public:
  struct Shape {
    std::size_t context = 0;
    std::size_t embedding = 0;
    std::vector<std::uint32_t> hidden;
  };

  // The training text must be long enough for one sample: context + kCharactersPerSample characters.
  CharLmModel(TextTask task, Shape shape, std::uint64_t seed);

  std::uint64_t sample_count() const override { return blocks_in(task_.train); }
  double compute(std::span<const std::uint64_t> samples, const BucketReady& ready) override;
  bool has_held_out_data() const override { return blocks_in(task_.test) > 0; }
  Score evaluate(std::span<const float> parameters) const override;

  const TextTask& task() const { return task_; }
  const Shape& shape() const { return shape_; }
  const DenseStack& stack() const { return stack_; }

 private:
  std::size_t blocks_in(const std::vector<std::uint8_t>& text) const;
  std::size_t embedding_count() const { return task_.vocabulary * shape_.embedding; }
  // Embeds the blocks' contexts into the input of the layers and returns the characters to predict.
  void load_blocks(const std::vector<std::uint8_t>& text, std::span<const std::uint64_t> blocks,
                   std::span<const float> parameters, DenseStack::Workspace& workspace,
                   std::vector<std::uint32_t>& targets) const;
  void add_embedding_gradient(std::span<const std::uint64_t> blocks);

  TextTask task_;
  Shape shape_;
  DenseStack stack_;
  DenseStack::Workspace workspace_;
  Matrix input_gradient_;
  std::vector<std::uint32_t> targets_;
};

}  // namespace elastictrain::train
