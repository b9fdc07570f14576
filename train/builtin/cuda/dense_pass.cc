#include "train/builtin/cuda/dense_pass.h"

#include <algorithm>
#include <numeric>

namespace elastictrain::train {
namespace {

constexpr std::size_t kPartialBytes = device::kKernelBlocks * sizeof(double);

}  // namespace

DensePass::DensePass(Engine& engine, const DenseStack& stack)
    : engine_(engine),
      values_(stack.layers() + 1),
      deltas_(2),
      partial_losses_(engine.allocate(kPartialBytes)),
      losses_(engine, kPartialBytes) {
  for (std::size_t i = 0; i < stack.layers(); ++i) {
    layers_.push_back({stack.ranges()[i].begin, stack.sizes()[i], stack.sizes()[i + 1]});
  }
}

float* DensePass::input(std::size_t rows) {
  rows_ = rows;
  std::size_t widest = 0;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    engine_.reserve(values_[i], rows * layers_[i].inputs * sizeof(float));
    widest = std::max(widest, layers_[i].inputs);
  }
  engine_.reserve(values_.back(), rows * layers_.back().outputs * sizeof(float));
  for (auto& delta : deltas_) engine_.reserve(delta, rows * widest * sizeof(float));
  engine_.reserve(labels_, rows * sizeof(unsigned));
  return values(0);
}

void DensePass::run(const float* parameters, float* gradient, const DenseStack::LayerDone& done,
                    float* input_gradient) {
  forward(parameters);
  backward(parameters, gradient, done, input_gradient);
}

void DensePass::forward(const float* parameters) {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    engine_.multiply({.a = values(i),
                      .b = parameters + layer.weights,
                      .transpose_b = true,
                      .c = values(i + 1),
                      .rows = rows_,
                      .inner = layer.inputs,
                      .columns = layer.outputs});
    const int relu = i + 1 < layers_.size() ? 1 : 0;
    engine_.launch("et_add_bias", values(i + 1), parameters + layer.biases(), rows_, layer.outputs, relu);
  }
  engine_.launch("et_softmax_loss", values(layers_.size()), labels(), rows_, layers_.back().outputs,
                 partial_losses_.as<double>());
  losses_.queue(partial_losses_.as<void>(), kPartialBytes);
}

void DensePass::backward(const float* parameters, float* gradient, const DenseStack::LayerDone& done,
                         float* input_gradient) {
  const float* delta = values(layers_.size());
  for (std::size_t i = layers_.size(); i-- > 0;) {
    const Layer& layer = layers_[i];
    engine_.multiply({.a = delta,
                      .transpose_a = true,
                      .b = values(i),
                      .c = gradient + layer.weights,
                      .rows = layer.outputs,
                      .inner = rows_,
                      .columns = layer.inputs});
    engine_.launch("et_column_sums", delta, rows_, layer.outputs, gradient + layer.biases());
    done(i);
    float* const next = i == 0 ? input_gradient : deltas_[i % 2].as<float>();
    if (next == nullptr) return;
    engine_.multiply({.a = delta,
                      .b = parameters + layer.weights,
                      .c = next,
                      .rows = rows_,
                      .inner = layer.outputs,
                      .columns = layer.inputs});
    if (i > 0) engine_.launch("et_relu_backward", next, static_cast<const float*>(values(i)), rows_ * layer.inputs);
    delta = next;
  }
}

double DensePass::mean_loss() {
  const std::span<const double> partials = losses_.wait<double>();
  return std::accumulate(partials.begin(), partials.end(), 0.0) / static_cast<double>(rows_);
}

}  // namespace elastictrain::train
