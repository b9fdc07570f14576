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
  const auto oldest = finish(before_);
  before_ = std::exchange(open_, std::nullopt);
  committed_ = generation;
  last_s_.reset();
  if (!planned_survivors_.empty()) open_ = Open{generation, std::exchange(planned_survivors_, {}), std::nullopt};
  return oldest;
}

std::optional<IdleTimes::Idle> IdleTimes::measured(WorkerId worker, const protocol::WorkerSwap& swap) {
  auto idle = measured(before_, worker, swap);
  return idle ? idle : measured(open_, worker, swap);
}

std::optional<IdleTimes::Idle> IdleTimes::measured(std::optional<Open>& change, WorkerId worker,
                                                   const protocol::WorkerSwap& swap) {
  if (!change || swap.generation != change->generation || change->missing.erase(worker) == 0) return std::nullopt;
  if (!change->shortest || swap.gap_us < change->shortest->gap_us) change->shortest = swap;
  return change->missing.empty() ? finish(change) : std::nullopt;
}

std::optional<IdleTimes::Idle> IdleTimes::close() {
  auto idle = finish(before_);
  return idle ? idle : finish(open_);
}

std::optional<IdleTimes::Idle> IdleTimes::finish(std::optional<Open>& change) {
  const auto finished = std::exchange(change, std::nullopt);
  if (!finished || !finished->shortest) return std::nullopt;
  const protocol::WorkerSwap& shortest = *finished->shortest;
  const double seconds = std::max(0.0, shortest.gap_us - shortest.step_us) / 1e6;
  if (finished->generation == committed_) last_s_ = seconds;
  total_s_ += seconds;
  return Idle{finished->generation, seconds};
}

}  // namespace elastictrain
