#include "train/session/control_lane.h"

#include <algorithm>

namespace elastictrain::session {

ControlLane::ControlLane(std::uint32_t rank, std::uint32_t world_size, bool has_claims)
    : rank_(rank),
      world_size_(world_size),
      has_claims_(has_claims && times_ranks()),
      values_(kFields + (times_ranks() ? world_size : 0) + (has_claims_ ? kClaimFields * world_size : 0)) {}

std::span<float> ControlLane::fill(const LaneInput& input) {
  std::fill(values_.begin(), values_.end(), 0.0F);
  values_[kReady] = input.swap_ready ? 1.0F : 0.0F;
  values_[kPlanStops] = input.plan_stops ? 1.0F : 0.0F;
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
  if (times_ranks()) values_[kFields + rank_] = static_cast<float>(input.compute_us);
  if (has_claims_) {
    float* const claim = &values_[claims_at() + kClaimFields * rank_];
    claim[0] = static_cast<float>(input.claim.used);
    claim[1] = static_cast<float>(input.claim.steps);
    claim[2] = static_cast<float>(input.claim.batches);
  }
  return values_;
}

LaneOutput ControlLane::read() const {
  LaneOutput output;
  output.all_ready = values_[kReady] == static_cast<float>(world_size_);
  output.plan_stops = output.all_ready && values_[kPlanStops] > 0;
  output.all_stop = values_[kStop] == static_cast<float>(world_size_);
  output.any_ends_data = values_[kEndsData] > 0;
  output.has_loss = values_[kLossWeight] > 0;
  if (output.has_loss) output.loss = static_cast<double>(values_[kLossSum]) / static_cast<double>(values_[kLossWeight]);
  output.local_squares = static_cast<std::uint32_t>(values_[kSquareCount]);
  if (output.local_squares != 0) output.local_square_mean = values_[kSquareSum] / values_[kSquareCount];
  if (times_ranks()) {
    const auto end = values_.begin() + static_cast<std::ptrdiff_t>(claims_at());
    const auto slowest = std::max_element(values_.begin() + kFields, end);
    output.slowest_compute_us = *slowest;
    output.slowest_rank = static_cast<std::uint32_t>(slowest - values_.begin() - kFields);
  }
  for (std::uint32_t rank = 0; has_claims_ && rank < world_size_; ++rank) {
    const float* const claim = &values_[claims_at() + kClaimFields * rank];
    output.claims.push_back({.used = static_cast<std::uint64_t>(claim[0]),
                             .steps = static_cast<std::uint32_t>(claim[1]),
                             .batches = static_cast<std::uint32_t>(claim[2])});
  }
  return output;
}

}  // namespace elastictrain::session
