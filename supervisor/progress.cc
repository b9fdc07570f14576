#include "supervisor/progress.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace elastictrain {
namespace {

constexpr double kSmoothing = 0.2;

}  // namespace

void Progress::heard(const protocol::WorkerHeartbeat& heartbeat, Instant now) {
  const bool newer = heartbeat.generation > newest_.generation ||
                     (heartbeat.generation == newest_.generation && heartbeat.step > newest_.step);
  if (!newer || heartbeat.generation == 0) return;
  if (heartbeat.generation >= awaited_ && awaited_ != 0) judge_change(heartbeat, now);
  if (heartbeat.generation != newest_.generation) step_us_ = 0;
  if (heartbeat.steps > 0) {
    step_us_ = step_us_ == 0 ? heartbeat.step_us : step_us_ + kSmoothing * (heartbeat.step_us - step_us_);
  }
  newest_ = heartbeat;
  newest_at_ = now;
}

void Progress::committed(Generation generation) {
  if (newest_.generation == 0) return;  // the first generation follows on nothing
  awaited_ = generation;
  step_before_ = newest_.step;
  heard_before_ = newest_at_;
  step_us_before_ = step_us_;
}

void Progress::judge_change(const protocol::WorkerHeartbeat& heartbeat, Instant now) {
  const double elapsed_s = std::chrono::duration<double>(now - heard_before_).count();
  const double busy_s =
      static_cast<double>(heartbeat.step - std::min(step_before_, heartbeat.step)) * step_us_before_ / 1e6;
  const double idle_s = std::max(0.0, elapsed_s - busy_s);
  idle_s_ += idle_s;
  fresh_ = Idle{awaited_, idle_s};
  awaited_ = 0;
}

std::optional<Progress::Idle> Progress::take_idle() {
  return std::exchange(fresh_, std::nullopt);
}

}  // namespace elastictrain
