#include "train/session/monitors.h"

namespace elastictrain::session {
namespace {

double us(Clock::duration duration) { return std::chrono::duration<double, std::micro>(duration).count(); }

}  // namespace

void StepClock::step_begins(Clock::time_point now) {
  if (last_end_ == Clock::time_point{}) last_end_ = now;
  times_ = {};
}

void StepClock::batch_given(Clock::time_point now) {
  times_.data_wait_us = us(now - last_end_);
  mark_ = now;
}

void StepClock::collective_begins(Clock::time_point now) {
  times_.compute_us += us(now - mark_);
  mark_ = now;
}

void StepClock::collective_ends(Clock::time_point now) {
  times_.communicate_us += us(now - mark_);
  mark_ = now;
}

StepTimes StepClock::step_ends(Clock::time_point now) {
  times_.update_us = us(now - mark_);
  times_.step_us = us(now - last_end_);
  last_end_ = now;
  return times_;
}

void Means::add(const StepTimes& times, std::uint64_t global_samples, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (window_begin_ == Clock::time_point{}) {
    window_begin_ = now - std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::micro>(times.step_us));
  }
  ++steps_;
  samples_ += global_samples;
  last_step_ = now;
  sum_.step_us += times.step_us;
  sum_.data_wait_us += times.data_wait_us;
  sum_.compute_us += times.compute_us;
  sum_.communicate_us += times.communicate_us;
  sum_.update_us += times.update_us;
}

Means::Snapshot Means::take() {
  const std::lock_guard lock(mutex_);
  Snapshot snapshot;
  snapshot.steps = steps_;
  if (steps_ == 0) return snapshot;
  const double n = steps_;
  snapshot.mean = {sum_.step_us / n, sum_.data_wait_us / n, sum_.compute_us / n, sum_.communicate_us / n,
                   sum_.update_us / n};
  const double window_us = us(last_step_ - window_begin_);
  if (window_us > 0) snapshot.samples_per_s = static_cast<double>(samples_) * 1e6 / window_us;
  steps_ = 0;
  samples_ = 0;
  sum_ = {};
  window_begin_ = last_step_;
  return snapshot;
}

}  // namespace elastictrain::session
