#include "train/builtin/dense_models.h"

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

namespace {

constexpr std::size_t kMinCharLmBucketFloats = 64 * 1024;
constexpr std::size_t kEvaluationBlocks = 512;  // of the held-out text, evenly spread: enough for two digits of loss
constexpr std::size_t kEvaluationBlocksAtOnce = 8;

std::vector<std::size_t> layer_sizes(const TextTask& task, const CharLmModel::Shape& shape) {
  std::vector<std::size_t> sizes = {shape.context * shape.embedding};
  sizes.insert(sizes.end(), shape.hidden.begin(), shape.hidden.end());
  sizes.push_back(task.vocabulary);
  return sizes;
}

// In the flat buffers the embedding comes first, then the layers.
std::vector<Range> flat_ranges(const DenseStack& stack, std::size_t embedding_count) {
  std::vector<Range> ranges = {{0, embedding_count}};
  for (const Range& layer : stack.ranges()) ranges.push_back({embedding_count + layer.begin, layer.count});
  return ranges;
}

}  // namespace

CharLmModel::CharLmModel(TextTask task, Shape shape, std::uint64_t seed)
    : task_(std::move(task)), shape_(std::move(shape)), stack_(layer_sizes(task_, shape_)) {
  allocate(embedding_count() + stack_.parameter_count(),
           plan_buckets(flat_ranges(stack_, embedding_count()), kMinCharLmBucketFloats));
  Random random(seed);
  for (float& value : parameters().first(embedding_count())) value = static_cast<float>(random.normal());
  stack_.initialize(parameters().subspan(embedding_count()), random);
}

std::size_t CharLmModel::blocks_in(const std::vector<std::uint8_t>& text) const {
  return text.size() < shape_.context ? 0 : (text.size() - shape_.context) / kCharactersPerSample;
}

void CharLmModel::load_blocks(const std::vector<std::uint8_t>& text, std::span<const std::uint64_t> blocks,
                              std::span<const float> parameters, DenseStack::Workspace& workspace,
                              std::vector<std::uint32_t>& targets) const {
  float* out = stack_.input(workspace, blocks.size() * kCharactersPerSample).data();
  targets.clear();
  for (const std::uint64_t block : blocks) {
    for (std::size_t i = 0; i < kCharactersPerSample; ++i) {
      const std::size_t begin = block * kCharactersPerSample + i;
      for (std::size_t k = 0; k < shape_.context; ++k) {
        out = std::copy_n(parameters.data() + text[begin + k] * shape_.embedding, shape_.embedding, out);
      }
      targets.push_back(text[begin + shape_.context]);
    }
  }
}

double CharLmModel::compute(std::span<const std::uint64_t> samples, const BucketReady& ready) {
  const std::size_t offset = embedding_count();
  load_blocks(task_.train, samples, parameters(), workspace_, targets_);
  const std::span<const float> layers = parameters().subspan(offset);
  const Score score = stack_.forward(layers, targets_, workspace_);
  BucketProgress progress(buckets(), ready);
  const auto layer_done = [&](std::size_t layer) {
    const Range range = stack_.ranges()[layer];
    progress.layer_done({offset + range.begin, range.count});
  };
  stack_.backward(layers, targets_, workspace_, gradient().subspan(offset), layer_done, &input_gradient_);
  add_embedding_gradient(samples);
  progress.layer_done({0, offset});
  return score.loss;
}

void CharLmModel::add_embedding_gradient(std::span<const std::uint64_t> blocks) {
  const std::span<float> into = gradient().first(embedding_count());
  std::fill(into.begin(), into.end(), 0.0F);
  const float* from = input_gradient_.data();
  for (const std::uint64_t block : blocks) {
    for (std::size_t i = 0; i < kCharactersPerSample * shape_.context; ++i) {
      const std::size_t at = block * kCharactersPerSample + i / shape_.context + i % shape_.context;
      float* const row = into.data() + task_.train[at] * shape_.embedding;
      for (std::size_t k = 0; k < shape_.embedding; ++k) row[k] += *from++;
    }
  }
}

Score CharLmModel::evaluate(std::span<const float> parameters) const {
  const std::size_t available = blocks_in(task_.test);
  const std::size_t used = std::min(available, kEvaluationBlocks);
  DenseStack::Workspace workspace;
  std::vector<std::uint32_t> targets;
  std::vector<std::uint64_t> blocks;
  Score total;
  for (std::size_t done = 0; done < used; done += blocks.size()) {
    blocks.clear();
    const std::size_t end = std::min(done + kEvaluationBlocksAtOnce, used);
    for (std::size_t i = done; i < end; ++i) blocks.push_back(i * available / used);
    load_blocks(task_.test, blocks, parameters, workspace, targets);
    total.add(stack_.forward(parameters.subspan(embedding_count()), targets, workspace));
  }
  return total;
}

}  // namespace elastictrain::train
