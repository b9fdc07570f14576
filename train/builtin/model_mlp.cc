#include "train/builtin/model_mlp.h"

#include <algorithm>
#include <utility>

namespace elastictrain::train {
namespace {

constexpr std::size_t kMinMlpBucketFloats = 64 * 1024;
constexpr std::size_t kEvaluationRows = 256;

std::vector<std::size_t> layer_sizes(const LabelledTask& task, std::span<const std::uint32_t> hidden) {
  std::vector<std::size_t> sizes = {task.train.features};
  sizes.insert(sizes.end(), hidden.begin(), hidden.end());
  sizes.push_back(task.classes);
  return sizes;
}

}  // namespace

MlpModel::MlpModel(LabelledTask task, std::span<const std::uint32_t> hidden, std::uint64_t seed)
    : task_(std::move(task)), stack_(layer_sizes(task_, hidden)) {
  allocate(stack_.parameter_count(), plan_buckets(stack_.ranges(), kMinMlpBucketFloats));
  Random random(seed);
  stack_.initialize(parameters(), random);
}

double MlpModel::compute(std::span<const std::uint64_t> samples, const BucketReady& ready) {
  Matrix& input = stack_.input(workspace_, samples.size());
  labels_.resize(samples.size());
  for (std::size_t row = 0; row < samples.size(); ++row) {
    copy_scaled_row(task_.train, task_.scaling, samples[row], input.data() + row * task_.train.features);
    labels_[row] = task_.train.labels[samples[row]];
  }
  const Score score = stack_.forward(parameters(), labels_, workspace_);
  BucketProgress progress(buckets(), ready);
  stack_.backward(parameters(), labels_, workspace_, gradient(),
                  [&](std::size_t layer) { progress.layer_done(stack_.ranges()[layer]); });
  return score.loss;
}

Score MlpModel::evaluate(std::span<const float> parameters) const {
  DenseStack::Workspace workspace;
  Score total;
  for (std::size_t begin = 0; begin < task_.test.size(); begin += kEvaluationRows) {
    const std::size_t rows = std::min(kEvaluationRows, task_.test.size() - begin);
    Matrix& input = stack_.input(workspace, rows);
    for (std::size_t row = 0; row < rows; ++row) {
      copy_scaled_row(task_.test, task_.scaling, begin + row, input.data() + row * task_.test.features);
    }
    total.add(stack_.forward(parameters, std::span(task_.test.labels).subspan(begin, rows), workspace));
  }
  return total;
}

}  // namespace elastictrain::train
