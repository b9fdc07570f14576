#include "supervisor/core/pure/probation.h"

#include <algorithm>

namespace elastictrain::core {

void Probation::begin(WorkerId id, Generation generation, std::uint64_t epoch) {
  newcomers_.try_emplace(id, Newcomer{.since = generation, .epoch = epoch});
}

void Probation::active(WorkerId id, Step first_step) {
  const auto found = newcomers_.find(id);
  if (found != newcomers_.end() && found->second.first_step == 0) found->second.first_step = first_step;
}

bool Probation::take(WorkerId id, const protocol::WorkerHeartbeat& heartbeat) {
  const auto found = newcomers_.find(id);
  if (found == newcomers_.end() || heartbeat.generation < found->second.since) return false;
  Newcomer& newcomer = found->second;
  newcomer.committed = heartbeat.step;
  if (newcomer.epoch_began == 0 && heartbeat.epoch > newcomer.epoch) newcomer.epoch_began = heartbeat.step;
  const bool passed = newcomer.epoch_began != 0 && heartbeat.step >= newcomer.epoch_began + kFirstSteps;
  if (!passed || is_in_first_steps(id)) return false;
  newcomers_.erase(found);
  return true;
}

void Probation::keep_known(const Roster& roster) {
  std::erase_if(newcomers_, [&](const auto& entry) { return roster.worker(entry.first) == nullptr; });
}

bool Probation::steps_of(WorkerId id, Step fewer_than) const {
  const auto found = newcomers_.find(id);
  if (found == newcomers_.end()) return false;
  const Newcomer& newcomer = found->second;
  return newcomer.first_step == 0 || newcomer.committed + 1 < newcomer.first_step + fewer_than;
}

std::uint32_t Probation::without_a_step(const Roster& roster) const {
  return static_cast<std::uint32_t>(std::count_if(newcomers_.begin(), newcomers_.end(), [&](const auto& entry) {
    const Worker* worker = roster.worker(entry.first);
    return worker != nullptr && worker->trains() && has_no_step(entry.first);
  }));
}

std::vector<WorkerId> Probation::suspects(const Roster& roster, Generation generation) const {
  Generation newest = 0;
  const auto counts = [&](const auto& entry) {
    const Worker* worker = roster.worker(entry.first);
    return worker != nullptr && worker->trains() && entry.second.since <= generation;
  };
  for (const auto& entry : newcomers_) {
    if (counts(entry)) newest = std::max(newest, entry.second.since);
  }
  std::vector<WorkerId> found;
  for (const auto& entry : newcomers_) {
    if (counts(entry) && entry.second.since == newest) found.push_back(entry.first);
  }
  return found;
}

}  // namespace elastictrain::core
