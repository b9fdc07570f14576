#include "train/session/measurements.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace elastictrain::session {
namespace {

constexpr std::size_t kTypicalSteps = 5;

}  // namespace

void SwapGap::committed(Time now) {
  if (generation_ != 0) gaps_us_.push_back(std::chrono::duration<double, std::micro>(now - *last_commit_).count());
  last_commit_ = now;
}

void SwapGap::swapped(Generation generation) {
  generation_ = last_commit_ ? generation : 0;
  gaps_us_.clear();
}

std::optional<protocol::WorkerSwap> SwapGap::take() {
  if (gaps_us_.size() <= kTypicalSteps) return std::nullopt;
  return take_early();
}

std::optional<protocol::WorkerSwap> SwapGap::take_early() {
  const Generation generation = std::exchange(generation_, 0);
  const auto gaps_us = std::exchange(gaps_us_, {});
  if (generation == 0 || gaps_us.size() < 2) return std::nullopt;
  std::vector<double> steps(gaps_us.begin() + 1, gaps_us.end());
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end());
  return protocol::WorkerSwap{generation, gaps_us.front(), *middle};
}

namespace {

// In steps: it takes a system call for each connection, and one of the GPU's driver.
constexpr std::uint64_t kRoundTripEvery = 16;

double farthest_round_trip_us(const comm::Communicator& communicator) {
  double farthest_us = 0;
  for (const auto& peer : communicator.peers()) farthest_us = std::max(farthest_us, peer.round_trip_us);
  return farthest_us;
}

}  // namespace

void Measurements::lane_read(const OpenStep& step, const LaneOutput& lane) {
  has_new_loss_ = lane.has_loss;
  if (lane.has_loss) report_.loss = lane.loss;
  report_.slowest_compute_us = lane.slowest_compute_us;
  report_.samples = step.division.counted;
  if (step.averages) report_.gradient_norm = 0;
  if (step.wants_norm) report_.gradient_norm = std::sqrt(step.reduced_square_sum);
  if (step.wants_variance) gradient_variance_ = step.gradient_variance;
  take_norms(lane);
}

// A sum is meaningless if a worker joined or left in between, or if gradients overflowed: one such value would stay in
// every mean.
void Measurements::take_norms(const LaneOutput& lane) {
  const auto pending = std::exchange(pending_norms_, std::nullopt);
  if (!pending || lane.local_squares != pending->workers) return;
  StepNorms norms = pending->norms;
  norms.local_square = lane.local_square_mean;
  if (!std::isfinite(norms.local_square) || !std::isfinite(norms.global_square)) return;
  monitors_.norms_known(norms);
  noise_scale_.add(1 / norms.local_inverse_batch, 1 / norms.global_inverse_batch, norms.local_square,
                   norms.global_square);
}

Measurements::PendingNorms Measurements::pending_norms_of(const OpenStep& step) {
  const auto& division = step.division;
  PendingNorms pending{.workers = division.workers_with_samples()};
  pending.norms.global_square = step.reduced_square_sum;
  pending.norms.global_inverse_batch = 1 / static_cast<double>(division.counted);
  pending.norms.local_inverse_batch = division.mean_inverse_share();
  if (step.halves_square) {
    const auto first = static_cast<double>(step.first_half);
    const auto second = static_cast<double>(division.my_count) - first;
    pending.norms.local_inverse_batch = (1 / first + 1 / second) / 2;
  }
  return pending;
}

LaneInput Measurements::step_ends(const OpenStep& step, double loss, Clock::time_point now) {
  const auto& division = step.division;
  last_times_ = clock_.step_ends(now);
  if (step.wants_norm && division.counted != 0) pending_norms_ = pending_norms_of(step);
  return {.loss = loss,
          .loss_samples = division.my_count,
          .compute_us = last_times_.compute_us,
          .has_local_square = step.wants_norm && step.has_samples(),
          .local_square = step.halves_square.value_or(step.local_square_sum)};
}

void Measurements::batch_ends(Clock::time_point now) {
  last_times_ = clock_.step_ends(now);
  monitors_.batch_done(last_times_);
  swap_gap_.committed(now);
  report_swap(swap_gap_.take());
}

Clock::duration Measurements::own_step() const {
  const std::chrono::duration<double, std::micro> own(last_times_.step_us - last_times_.communicate_us);
  return std::chrono::duration_cast<Clock::duration>(own);
}

void Measurements::publish(const StepDivision& step, const RunProgress& run_progress, const Assignment& assignment,
                           const DeviceSide* device, Clock::time_point now) {
  const StepFigures figures{.generation = assignment.generation,
                            .step = run_progress.committed_step(),
                            .epoch = step.cut.epoch,
                            .epoch_fraction = run_progress.fraction_of(step.cut.epoch),
                            .loss = report_.loss,
                            .has_new_loss = std::exchange(has_new_loss_, false),
                            .gradient_norm = report_.gradient_norm,
                            .global_samples = step.counted,
                            .samples_used = run_progress.progress().samples_used,
                            .traffic = assignment.communicator->traffic()};
  monitors_.step_done(last_times_, figures, now);
  if (run_progress.committed_step() % kRoundTripEvery == 0) {
    monitors_.round_trip_known(farthest_round_trip_us(*assignment.communicator));
    if (device != nullptr) monitors_.device_memory_known(device->memory_use());
  }
  swap_gap_.committed(now);
  report_swap(swap_gap_.take());
}

void Measurements::report_swap_early() {
  report_swap(swap_gap_.take_early());
}

std::vector<protocol::WorkerToAgent> Measurements::last_heartbeat() {
  protocol::WorkerHeartbeat last = monitors_.heartbeat();
  last.place = protocol::StepPlace::kOutside;
  return {last};
}

void Measurements::report_swap(const std::optional<protocol::WorkerSwap>& swap) {
  if (swap) reports_.send(*swap);
}

RunMonitors Measurements::run_monitors(const LaneOutput& lane) const {
  const auto noise_scale = noise_scale_.value();
  return {.has_noise_scale = noise_scale.has_value(),
          .noise_scale = noise_scale.value_or(0),
          .gradient_norm = report_.gradient_norm,
          .gradient_variance = gradient_variance_,
          .slowest_rank = lane.slowest_rank,
          .slowest_compute_us = lane.slowest_compute_us,
          .step_us = last_times_.step_us,
          .data_wait_us = last_times_.data_wait_us,
          .compute_us = last_times_.compute_us,
          .communicate_us = last_times_.communicate_us,
          .update_us = last_times_.update_us};
}

void add_traffic(RunMonitors& monitors, const Assignment& assignment) {
  if (!assignment.communicator) return;
  const auto traffic = assignment.communicator->traffic();
  monitors.bytes_sent = traffic.bytes_sent;
  monitors.bytes_received = traffic.bytes_received;
  monitors.bytes_shared = traffic.bytes_shared;
}

std::vector<PeerMonitors> peer_monitors_of(const Assignment& assignment) {
  std::vector<PeerMonitors> monitors(assignment.world_size());
  if (!assignment.communicator) return monitors;
  for (const auto& peer : assignment.communicator->peers()) {
    monitors[peer.rank] = {peer.bytes_sent, peer.bytes_received, peer.round_trip_us};
  }
  return monitors;
}

}  // namespace elastictrain::session
