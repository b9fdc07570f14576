#include "train/session/control_lane.h"

#include <algorithm>

namespace elastictrain::session {

ControlLane::ControlLane(std::uint32_t rank, std::uint32_t world_size)
    : rank_(rank), world_size_(world_size), values_(kFields + (world_size <= kMaxTimedRanks ? world_size : 0)) {}

std::span<float> ControlLane::fill(const LaneInput& input) {
  std::fill(values_.begin(), values_.end(), 0.0F);
  values_[kReady] = input.swap_ready ? 1.0F : 0.0F;
  values_[kStop] = input.wants_stop ? 1.0F : 0.0F;
  values_[kEndsData] = input.ends_data ? 1.0F : 0.0F;
  if (input.loss_samples != 0) {
    values_[kLossSum] = static_cast<float>(input.loss * static_cast<double>(input.loss_samples));
    values_[kLossWeight] = static_cast<float>(input.loss_samples);
  }
  if (input.has_local_square) {
    values_[kSquareSum] = static_cast<float>(input.local_square);
    values_[kSquareCount] = 1.0F;
  }
  if (world_size_ <= kMaxTimedRanks) values_[kFields + rank_] = static_cast<float>(input.compute_us);
  return values_;
}

LaneOutput ControlLane::read() const {
  LaneOutput output;
  output.all_ready = values_[kReady] == static_cast<float>(world_size_);
  output.all_stop = values_[kStop] == static_cast<float>(world_size_);
  output.any_ends_data = values_[kEndsData] > 0;
  output.has_loss = values_[kLossWeight] > 0;
  if (output.has_loss) output.loss = static_cast<double>(values_[kLossSum]) / static_cast<double>(values_[kLossWeight]);
  output.local_squares = static_cast<std::uint32_t>(values_[kSquareCount]);
  if (output.local_squares != 0) output.local_square_mean = values_[kSquareSum] / values_[kSquareCount];
  if (world_size_ <= kMaxTimedRanks) {
    const auto slowest = std::max_element(values_.begin() + kFields, values_.end());
    output.slowest_compute_us = *slowest;
    output.slowest_rank = static_cast<std::uint32_t>(slowest - values_.begin() - kFields);
  }
  return output;
}

}  // namespace elastictrain::session
