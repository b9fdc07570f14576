#include "train/session/host_gradients.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace elastictrain::session {

// On the training thread, or on the reducer's after prepare_memory(), which leaves nothing to do here.
void HostGradients::reserve_copy(Bucket& bucket) {
  copies_.make_room(bucket.copy, bucket.index, bucket.count);
}

void HostGradients::prepare_memory(const OpenStep& step, Bucket& bucket) {
  if (step.averages) return;
  if (keeps_inputs()) reserve_copy(bucket);
  if (step.has_samples()) return;
  std::fill_n(bucket.data, bucket.count, 0.0F);
  bucket.is_zero = true;
}

// This worker's input to the sum: its gradient as it was before a failed reduction.
void HostGradients::prepare_input(const OpenStep& step, Bucket& bucket, comm::ReduceOptions& options) {
  // A joiner's buffer may hold any value, including NaN, which a weight of zero would not remove.
  if (!step.has_samples()) {
    if (!std::exchange(bucket.is_zero, false)) std::fill_n(bucket.data, bucket.count, 0.0F);
    return;
  }
  if (bucket.copied) {
    std::ranges::copy(bucket.copy, bucket.data);
  } else if (keeps_inputs()) {
    reserve_copy(bucket);  // a repeated step may have been opened alone, without copies
    options.keep = bucket.copy;
    bucket.copied = true;
  }
  options.scale = step.division.my_weight();
}

Status HostGradients::reduce(OpenStep& step, Bucket& bucket) {
  return gate_.run("all-reduce", [&] { return sum(step, bucket); });
}

Status HostGradients::sum(OpenStep& step, Bucket& bucket) {
  comm::ReduceOptions options{.want_norms = step.wants_norm, .element = bucket.element};
  prepare_input(step, bucket, options);
  if (!std::exchange(step.lane_sent, true)) options.lane = lane_.fill();
  if (step.wants_variance) square_into(bucket);
  comm::ReduceStats stats;
  Status status = seat_.communicator->all_reduce({bucket.data, bucket.count}, options, &stats);
  step.add(stats);
  if (status && step.wants_variance) return add_variance(step, bucket, options.scale);
  return status;
}

void HostGradients::square_into(const Bucket& bucket) {
  squares_.resize(bucket.count);
  for (std::size_t i = 0; i < bucket.count; ++i) squares_[i] = bucket.data[i] * bucket.data[i];
}

//  avg(g^2) - avg(g)^2 | of a bucket whose average is known: one more all-reduce, for the squares.
Status HostGradients::add_variance(OpenStep& step, const Bucket& bucket, float scale) {
  comm::ReduceOptions options;
  options.scale = scale;
  if (auto status = seat_.communicator->all_reduce(squares_, options); !status) return status;
  double square_sum = 0;
  for (std::size_t i = 0; i < bucket.count; ++i) {
    const double variance = static_cast<double>(squares_[i]) - static_cast<double>(bucket.data[i]) * bucket.data[i];
    square_sum += variance * variance;
  }
  step.gradient_variance += std::sqrt(square_sum);
  return {};
}

}  // namespace elastictrain::session
