#include "supervisor/progress.h"

#include <algorithm>
#include <limits>

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

}  // namespace elastictrain
