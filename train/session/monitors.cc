#include "train/session/monitors.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace elastictrain::session {
namespace {

double us(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace

void StepClock::step_begins(Clock::time_point now) {
  if (last_end_ == Clock::time_point{}) last_end_ = now;
  times_ = {};
}

void StepClock::phase_begins(bool is_data, Clock::time_point now) {
  account_for_phase(now);
  phase_ = Phase{is_data, now};
}

void StepClock::phase_ends(Clock::time_point now) {
  account_for_phase(now);
  phase_.reset();
}

// Between two steps all time counts as data wait already.
void StepClock::account_for_phase(Clock::time_point now) {
  if (!phase_ || now <= phase_->since) return;
  const auto taken = now - std::exchange(phase_->since, now);
  if (in_step_) mark_ += taken;
  if (phase_->is_data) {
    if (in_step_) times_.data_wait_us += us(taken);
  } else if (last_end_ != Clock::time_point{}) {
    last_end_ += taken;
  }
}

void StepClock::batch_given(Clock::time_point now) {
  account_for_phase(now);
  in_step_ = true;
  times_.data_wait_us = us(now - last_end_);
  mark_ = now;
}

void StepClock::collective_begins(Clock::time_point now) {
  account_for_phase(now);
  now = std::max(now, mark_);
  times_.compute_us += us(now - mark_);
  mark_ = now;
}

void StepClock::collective_ends(Clock::time_point now) {
  now = std::max(now, mark_);
  times_.communicate_us += us(now - mark_);
  mark_ = now;
  if (phase_) phase_->since = now;
}

StepTimes StepClock::step_ends(Clock::time_point now) {
  account_for_phase(now);
  in_step_ = false;
  times_.update_us = us(now - mark_);
  times_.step_us = us(now - last_end_);
  last_end_ = now;
  return times_;
}

void NoiseScale::add(double local_batch, double global_batch, double local_square, double global_square) {
  if (!(local_batch > 0) || !(global_batch > local_batch)) return;
  const double signal = (global_batch * global_square - local_batch * local_square) / (global_batch - local_batch);
  const double noise = (local_square - global_square) / (1 / local_batch - 1 / global_batch);
  const double keep = known_ ? 0.9 : 0;
  signal_ = keep * signal_ + (1 - keep) * signal;
  noise_ = keep * noise_ + (1 - keep) * noise;
  known_ = true;
}

std::optional<double> NoiseScale::value() const {
  if (!known_ || signal_ == 0) return std::nullopt;
  return noise_ / signal_;
}

void Monitors::assigned(Generation generation, Step committed_step) {
  const std::lock_guard lock(mutex_);
  figures_.generation = generation;
  figures_.traffic = {};
  figures_.step = committed_step;
}

void Monitors::step_done(const StepTimes& times, const StepFigures& figures, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (window_begin_ == Clock::time_point{}) {
    const std::chrono::duration<double, std::micro> step(times.step_us);
    window_begin_ = now - std::chrono::duration_cast<Clock::duration>(step);
  }
  // A new generation counts from 0.
  const bool goes_on = figures_.generation == figures.generation;
  const comm::Traffic before = goes_on ? figures_.traffic : comm::Traffic{};
  sum_.sent_bytes += static_cast<double>(figures.traffic.bytes_sent - before.bytes_sent);
  sum_.received_bytes += static_cast<double>(figures.traffic.bytes_received - before.bytes_received);
  figures_ = figures;
  ++steps_;
  samples_ += figures.global_samples;
  if (figures.has_new_loss && figures.loss != 0 && std::isfinite(figures.loss)) {
    loss_sum_ += figures.loss * static_cast<double>(figures.global_samples);
    loss_samples_ += figures.global_samples;
  }
  last_step_ = now;
  protocol::add(sum_, times);
}

void Monitors::batch_done(const StepTimes& times) {
  const std::lock_guard lock(mutex_);
  ++steps_;
  protocol::add(sum_, times);
}

void Monitors::round_trip_known(double round_trip_us) {
  const std::lock_guard lock(mutex_);
  round_trip_us_ = round_trip_us;
}

void Monitors::device_memory_known(const protocol::DeviceMemoryUse& use) {
  const std::lock_guard lock(mutex_);
  device_ = use;
}

void Monitors::norms_known(const StepNorms& norms) {
  const std::lock_guard lock(mutex_);
  ++norm_steps_;
  norm_sum_.local_square += norms.local_square;
  norm_sum_.global_square += norms.global_square;
  norm_sum_.local_inverse_batch += norms.local_inverse_batch;
  norm_sum_.global_inverse_batch += norms.global_inverse_batch;
}

protocol::WorkerHeartbeat Monitors::heartbeat() {
  const std::lock_guard lock(mutex_);
  protocol::WorkerHeartbeat heartbeat;
  heartbeat.sequence = ++sequence_;
  heartbeat.generation = figures_.generation;
  heartbeat.step = figures_.step;
  heartbeat.epoch = figures_.epoch;
  heartbeat.epoch_fraction = figures_.epoch_fraction;
  heartbeat.loss = figures_.loss;
  heartbeat.gradient_norm = figures_.gradient_norm;
  heartbeat.samples_used = figures_.samples_used;
  heartbeat.steps = steps_;
  heartbeat.device = device_;
  if (steps_ != 0) put_means(heartbeat);
  if (norm_steps_ != 0) put_norms(heartbeat);
  if (loss_samples_ != 0) put_loss(heartbeat);
  return heartbeat;
}

void Monitors::put_norms(protocol::WorkerHeartbeat& heartbeat) {
  heartbeat.norm_steps = norm_steps_;
  heartbeat.local_square = norm_sum_.local_square / norm_steps_;
  heartbeat.global_square = norm_sum_.global_square / norm_steps_;
  heartbeat.local_inverse_batch = norm_sum_.local_inverse_batch / norm_steps_;
  heartbeat.global_inverse_batch = norm_sum_.global_inverse_batch / norm_steps_;
  norm_steps_ = 0;
  norm_sum_ = {};
}

void Monitors::put_loss(protocol::WorkerHeartbeat& heartbeat) {
  heartbeat.mean_loss = loss_sum_ / static_cast<double>(loss_samples_);
  heartbeat.loss_samples = loss_samples_;
  loss_sum_ = 0;
  loss_samples_ = 0;
}

void Monitors::put_means(protocol::WorkerHeartbeat& heartbeat) {
  heartbeat.mean = protocol::mean(sum_, steps_);
  heartbeat.round_trip_us = round_trip_us_;
  const double window_us = us(last_step_ - window_begin_);
  if (window_us > 0) heartbeat.samples_per_s = static_cast<double>(samples_) * 1e6 / window_us;
  steps_ = 0;
  samples_ = 0;
  sum_ = {};
  window_begin_ = last_step_;
}

}  // namespace elastictrain::session
