#include "supervisor/idle_times.h"

#include <algorithm>
#include <utility>

namespace elastictrain {

void IdleTimes::planned(const protocol::GenerationPlan& plan) {
  planned_ = plan.generation;
  planned_survivors_.clear();
  if (plan.previous == 0) return;
  for (const auto& member : plan.members) {
    if (!member.joiner) planned_survivors_.insert(member.worker);
  }
}

std::optional<IdleTimes::Idle> IdleTimes::committed(Generation generation) {
  if (generation != planned_) return std::nullopt;
  const auto before = close();
  last_s_.reset();
  missing_ = std::exchange(planned_survivors_, {});
  if (!missing_.empty()) open_ = generation;
  return before;
}

std::optional<IdleTimes::Idle> IdleTimes::measured(WorkerId worker, const protocol::WorkerSwap& swap) {
  if (open_ == 0 || swap.generation != open_ || missing_.erase(worker) == 0) return std::nullopt;
  if (!shortest_ || swap.gap_us < shortest_->gap_us) shortest_ = swap;
  return missing_.empty() ? close() : std::nullopt;
}

std::optional<IdleTimes::Idle> IdleTimes::close() {
  const Generation generation = std::exchange(open_, 0);
  const auto shortest = std::exchange(shortest_, std::nullopt);
  if (generation == 0 || !shortest) return std::nullopt;
  last_s_ = std::max(0.0, shortest->gap_us - shortest->step_us) / 1e6;
  total_s_ += *last_s_;
  return Idle{generation, *last_s_};
}

}  // namespace elastictrain
