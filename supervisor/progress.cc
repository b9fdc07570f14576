#include "supervisor/progress.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace elastictrain {

void Progress::on_heartbeat(const protocol::WorkerHeartbeat& heartbeat) {
  const bool newer = heartbeat.generation > newest_.generation ||
                     (heartbeat.generation == newest_.generation && heartbeat.step > newest_.step);
  if (newer && heartbeat.generation != 0) newest_ = heartbeat;
}

std::optional<double> time_left_s(const protocol::WorkerHeartbeat& newest, const core::RunView& run) {
  double samples = std::numeric_limits<double>::infinity();
  if (run.epochs > 0 && run.epoch_samples > 0) {
    const double epochs = static_cast<double>(run.epochs) - static_cast<double>(newest.epoch) - newest.epoch_fraction;
    samples = epochs * static_cast<double>(run.epoch_samples);
  }
  if (run.max_steps > 0 && run.global_batch > 0) {
    const double steps = static_cast<double>(run.max_steps) - static_cast<double>(newest.step);
    samples = std::min(samples, steps * static_cast<double>(run.global_batch));
  }
  const bool known = newest.samples_per_s > 0 && samples < std::numeric_limits<double>::infinity();
  return known ? std::optional(std::max(0.0, samples / newest.samples_per_s)) : std::nullopt;
}

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
