// Purpose: a multi-layer perceptron that classifies labelled rows. See model.h for thread and failure.
#pragma once

#include "train/builtin/dataset.h"
#include "train/builtin/dense_stack.h"
#include "train/builtin/model.h"

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

}  // namespace elastictrain::train
