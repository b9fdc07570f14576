#include "train/builtin/dense_stack.h"

#include <cmath>
#include <utility>

namespace elastictrain::train {
namespace {

using Vector = Eigen::Matrix<float, 1, Eigen::Dynamic>;

template <class Scalar>
struct Layer {
  using Weights = std::conditional_t<std::is_const_v<Scalar>, const Matrix, Matrix>;
  using Biases = std::conditional_t<std::is_const_v<Scalar>, const Vector, Vector>;
  Eigen::Map<Weights> weights;
  Eigen::Map<Biases> biases;
};

template <class Scalar>
Layer<Scalar> layer_at(std::span<Scalar> flat, std::size_t begin, std::size_t inputs, std::size_t outputs) {
  Scalar* const data = flat.data() + begin;
  const auto rows = static_cast<Eigen::Index>(outputs);
  const auto columns = static_cast<Eigen::Index>(inputs);
  return {{data, rows, columns}, {data + outputs * inputs, rows}};
}

// Turns a row of outputs into probabilities. Returns the logarithm of the label's probability.
double softmax_row(float* row, std::size_t count, std::uint32_t label) {
  float largest = row[0];
  for (std::size_t i = 1; i < count; ++i) largest = std::max(largest, row[i]);
  const double label_output = row[label];
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    row[i] = std::exp(row[i] - largest);
    sum += row[i];
  }
  const auto scale = static_cast<float>(1.0 / sum);
  for (std::size_t i = 0; i < count; ++i) row[i] *= scale;
  return label_output - largest - std::log(sum);
}

}  // namespace

DenseStack::DenseStack(std::vector<std::size_t> sizes) : sizes_(std::move(sizes)) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i + 1 < sizes_.size(); ++i) {
    const std::size_t count = (sizes_[i] + 1) * sizes_[i + 1];
    ranges_.push_back({begin, count});
    begin += count;
  }
}

void DenseStack::initialize(std::span<float> parameters, Random& random) const {
  for (std::size_t i = 0; i < layers(); ++i) {
    const double deviation = std::sqrt(2.0 / static_cast<double>(sizes_[i]));
    const std::size_t weights = sizes_[i] * sizes_[i + 1];
    float* const flat = parameters.data() + ranges_[i].begin;
    for (std::size_t k = 0; k < weights; ++k) flat[k] = static_cast<float>(deviation * random.normal());
    for (std::size_t k = weights; k < ranges_[i].count; ++k) flat[k] = 0;
  }
}

Matrix& DenseStack::input(Workspace& workspace, std::size_t rows) const {
  workspace.values.resize(sizes_.size());
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    workspace.values[i].resize(static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(sizes_[i]));
  }
  return workspace.values.front();
}

Score DenseStack::forward(std::span<const float> parameters, std::span<const std::uint32_t> labels,
                          Workspace& workspace) const {
  for (std::size_t i = 0; i < layers(); ++i) {
    const auto layer = layer_at<const float>(parameters, ranges_[i].begin, sizes_[i], sizes_[i + 1]);
    Matrix& out = workspace.values[i + 1];
    out.noalias() = workspace.values[i] * layer.weights.transpose();
    out.rowwise() += layer.biases;
    if (i + 1 < layers()) out = out.cwiseMax(0.0F);
  }
  Matrix& out = workspace.values.back();
  Score score;
  score.count = labels.size();
  for (std::size_t row = 0; row < labels.size(); ++row) {
    Eigen::Index best = 0;
    out.row(static_cast<Eigen::Index>(row)).maxCoeff(&best);
    score.correct += static_cast<std::uint32_t>(best) == labels[row] ? 1 : 0;
    score.loss -= softmax_row(out.data() + row * sizes_.back(), sizes_.back(), labels[row]);
  }
  score.loss /= static_cast<double>(std::max<std::size_t>(labels.size(), 1));
  return score;
}

void DenseStack::backward(std::span<const float> parameters, std::span<const std::uint32_t> labels,
                          Workspace& workspace, std::span<float> gradient, const LayerDone& done,
                          Matrix* input_gradient) const {
  Matrix& delta = workspace.delta;
  delta = workspace.values.back();
  for (std::size_t row = 0; row < labels.size(); ++row) delta(static_cast<Eigen::Index>(row), labels[row]) -= 1.0F;
  delta *= 1.0F / static_cast<float>(labels.size());
  for (std::size_t i = layers(); i-- > 0;) {
    auto into = layer_at<float>(gradient, ranges_[i].begin, sizes_[i], sizes_[i + 1]);
    into.weights.noalias() = delta.transpose() * workspace.values[i];
    into.biases = delta.colwise().sum();
    done(i);
    if (i == 0 && input_gradient == nullptr) return;
    const auto layer = layer_at<const float>(parameters, ranges_[i].begin, sizes_[i], sizes_[i + 1]);
    Matrix& next = i == 0 ? *input_gradient : workspace.next_delta;
    next.noalias() = delta * layer.weights;
    if (i == 0) return;
    next.array() *= (workspace.values[i].array() > 0.0F).cast<float>();
    delta.swap(next);
  }
}

}  // namespace elastictrain::train
