#include "train/builtin/replica.h"

#include <Eigen/Core>
#include <algorithm>

namespace elastictrain::train {
namespace {

constexpr std::size_t kBlock = 4096;  // floats that stay in the cache while three things are done with them

struct SquareSums {
  double first = 0;
  double second = 0;
};

// Makes `gradient`, that of the second half, the one of all samples; `share`: the first half's part of them.
SquareSums combine_halves(std::span<const float> first, std::span<float> gradient, float share) {
  SquareSums sums;
  for (std::size_t begin = 0; begin < gradient.size(); begin += kBlock) {
    const auto count = static_cast<Eigen::Index>(std::min(kBlock, gradient.size() - begin));
    const Eigen::Map<const Eigen::ArrayXf> one(first.data() + begin, count);
    Eigen::Map<Eigen::ArrayXf> two(gradient.data() + begin, count);
    sums.first += one.cast<double>().square().sum();
    sums.second += two.cast<double>().square().sum();
    two += share * (one - two);
  }
  return sums;
}

}  // namespace

HostReplica::HostReplica(const TrainerOptions& options, Model& model, Session& session)
    : model_(model), session_(session), optimizer_(make_optimizer(options, model.parameters().size())) {
  const std::span<float> parameters = model.parameters();
  session.share_model("parameters", parameters.data(), parameters.size());
  for (const StateBuffer& part : optimizer_->state()) session.share_state(part.name, part.data, part.bytes);
}

// No computation overlaps with a model's only bucket: it is reduced on this thread, which saves small models a thread
// switch.
void HostReplica::reduce(Range bucket) {
  float* const data = model_.gradient().data() + bucket.begin;
  if (model_.buckets().size() == 1) {
    session_.all_reduce(data, bucket.count);
  } else {
    session_.all_reduce_async(data, bucket.count);
  }
}

Status HostReplica::compute(std::span<const std::uint64_t> samples) {
  loss_ = 0;
  if (samples.empty()) {
    for (const Range& bucket : model_.buckets()) reduce(bucket);
  } else if (const std::size_t first_half = session_.half_batch(); first_half != 0) {
    loss_ = compute_halves(samples, first_half);
  } else {
    loss_ = model_.compute(samples, [this](Range bucket) { reduce(bucket); });
  }
  return {};
}

double HostReplica::compute_halves(std::span<const std::uint64_t> samples, std::size_t first_half) {
  const std::span<float> gradient = model_.gradient();
  const double first_loss = model_.compute(samples.first(first_half), [](Range) {});
  first_half_gradient_.assign(gradient.begin(), gradient.end());
  const double second_loss = model_.compute(samples.subspan(first_half), [](Range) {});
  const double share = static_cast<double>(first_half) / static_cast<double>(samples.size());
  const SquareSums squares = combine_halves(first_half_gradient_, gradient, static_cast<float>(share));
  session_.report_halves(squares.first, squares.second);
  for (const Range& bucket : model_.buckets()) reduce(bucket);
  return second_loss + share * (first_loss - second_loss);
}

Result<double> HostReplica::update(double learning_rate) {
  optimizer_->update(model_.parameters(), model_.gradient(), learning_rate);
  return loss_;
}

}  // namespace elastictrain::train
