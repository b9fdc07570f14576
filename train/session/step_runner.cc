#include "train/session/step_runner.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "supervisor/protocol/check.h"
#include "train/session/gradients.h"
#include "train/session/monitors.h"

namespace elastictrain::session {

namespace {

// Whether a program sums this memory once more in a step.
bool is_summed_again(const OpenStep& step, const Bucket& bucket) {
  const auto is_earlier_sum = [&](const Bucket& earlier) {
    return earlier.kind == Bucket::Kind::kGradient && earlier.shares_memory_with(bucket);
  };
  return bucket.kind == Bucket::Kind::kGradient &&
         std::any_of(step.buckets.begin(), step.buckets.begin() + static_cast<std::ptrdiff_t>(bucket.index),
                     is_earlier_sum);
}

}  // namespace

Status BucketReducer::reduce(OpenStep& step, Bucket& bucket) {
  const bool is_gradient = bucket.kind == Bucket::Kind::kGradient;
  if (is_gradient && !bucket.on_device) return reduce_host_gradient(step, bucket);
  if (auto status = send_lane(step); !status) return status;
  if (bucket.kind == Bucket::Kind::kElsewhere) return parts_.elsewhere.reduce(step, bucket);
  return is_gradient ? parts_.device.reduce(step, bucket) : parts_.own_data.share(bucket);
}

Status BucketReducer::keep_input(const OpenStep& step, Bucket& bucket) {
  if (step.averages || !step.has_samples() || bucket.copied || !is_summed_again(step, bucket)) return {};
  if (bucket.on_device) return parts_.device.keep_input(bucket);
  NarrowGradients::widen(step.has_samples(), bucket);
  parts_.host.keep_input(bucket);
  return {};
}

// The lane rides on the step's first sum in host memory. If the program has none, the lane has a sum of its own.
Status BucketReducer::send_lane(OpenStep& step) {
  if (step.lane_sent) return {};
  Bucket nothing;
  return reduce_host_gradient(step, nothing);
}

Status BucketReducer::reduce_host_gradient(OpenStep& step, Bucket& bucket) {
  const bool is_first = !step.lane_sent && !step.is_local;
  NarrowGradients::widen(step.has_samples(), bucket);
  Status status = step.averages ? parts_.averaging.take_local_gradient(step, bucket) : parts_.host.reduce(step, bucket);
  if (status) NarrowGradients::round(bucket);
  return status && is_first ? after_first_sum(step) : status;
}

Status BucketReducer::after_first_sum(OpenStep& step) {
  if (!step.averages && parts_.run_progress.replicas_differ()) {
    if (auto status = parts_.averaging.gather_equal_state(step); !status) return status;
  }
  return parts_.extension.after_first_sum();
}

void StepRunner::open(const RoundPace& pace) {
  ET_CHECK(!is_open(), "one step is open at a time");
  const bool begins = !step_;
  if (begins) {
    open_round(pace);
  } else {
    next_of_round();
  }
  round_.take_batch(pace);
  const auto samples = round_.samples();
  step_->samples.assign(samples.begin(), samples.end());
  step_->is_local = !round_.is_last();
  if (begins) start_transfers();
}

void StepRunner::open_round(const RoundPace& pace) {
  step_.emplace();
  divide();
  const auto& division = step_->division;
  std::vector<std::uint64_t> samples;
  parts_.run_progress.list_samples(division, samples);
  const std::uint64_t batch =
      parts_.run_progress.runs_ahead() ? parts_.assignment.shares[parts_.assignment.rank].samples : 0;
  round_.begin(std::move(samples), division.my_count, batch, parts_.run_progress.data().min_local_samples, pace);
}

void StepRunner::next_of_round() {
  parts_.averaging.drop_correction();
  OpenStep next;
  next.division = std::move(step_->division);
  next.averages = step_->averages;
  step_ = std::move(next);
  between_batches_ = false;
}

void StepRunner::end_batch() {
  ET_CHECK(step_->is_local && !in_background_, "a batch ends when all of its buckets are reduced");
  between_batches_ = true;
}

void StepRunner::count_used(std::span<const Claim> claims) {
  if (claims.empty()) return;
  auto& division = step_->division;
  std::vector<std::uint64_t> used(division.shares.size());
  for (std::size_t rank = 0; rank < claims.size(); ++rank) {
    division.steps = std::max<Step>(division.steps, claims[rank].steps);
    for (std::size_t share = 0; share < used.size(); ++share) {
      if (division.shares[share].worker == parts_.assignment.shares[rank].worker) used[share] = claims[rank].used;
    }
  }
  if (!std::equal(used.begin(), used.end(), division.counts.begin())) division.keep_used(used);
}

void StepRunner::start_transfers() {
  // No other worker's gradient shows how noisy this one's is.
  if (step_->wants_norm && parts_.assignment.world_size() == 1) step_->first_half = step_->division.my_count / 2;
  if (!parts_.handover.has_device_transfers()) return;
  starts_transfers_ = true;
  put(transfers_);
}

// Divides the step as the generation that opened it first, and determines which shares count in the current assignment.
void StepRunner::divide() {
  auto& step = *step_;
  const Step number = parts_.run_progress.next_step();
  const std::uint64_t variance_every = parts_.variance_every;
  parts_.averaging.drop_correction();
  step.averages = parts_.averaging.applies();
  step.wants_variance = !step.averages && variance_every != 0 && number % variance_every == 0;
  step.gradient_variance = 0;
  step.wants_norm =
      parts_.environment.monitors && !step.averages && measures_norms(number, parts_.assignment.world_size());
  step.division = divide_step(parts_.run_progress, parts_.assignment, parts_.self, parts_.environment.keep_gradients);
}

Status StepRunner::reduce(Bucket& bucket) {
  if (step_->discarded) return {};
  if (auto started = settle_transfers(); !started) return started;
  return finish_sums(parts_.reducer.reduce(*step_, bucket));
}

Status StepRunner::finish_sums(Status status) {
  if (status) status = parts_.device.finish(*step_);
  if (status) return parts_.elsewhere.finish(*step_);
  parts_.device.abandon();
  parts_.elsewhere.abandon();
  return status;
}

void StepRunner::submit(Bucket& bucket) {
  in_background_ = true;
  put(bucket);
}

void StepRunner::put(Bucket& bucket) {
  if (!reducer_) {
    reducer_ = std::make_unique<Reducer>([this](Bucket& next) {
      if (next.kind == Bucket::Kind::kDeviceTransfers) return parts_.handover.start_device_transfers();
      return parts_.reducer.reduce(*step_, next);
    });
  }
  if (!step_->discarded) reducer_->submit(bucket);
}

Status StepRunner::settle_transfers() {
  return std::exchange(starts_transfers_, false) ? reducer_->wait() : Status();
}

Status StepRunner::wait() {
  in_background_ = starts_transfers_ = false;
  return finish_sums(reducer_->wait());
}

Status StepRunner::repeat() {
  ET_CHECK(!in_background_, "no bucket is reduced in the background while the step is repeated");
  (void)settle_transfers();  // of the assignment before
  divide();
  step_->lane_sent = false;
  step_->is_local = false;  // all meet in what follows a loss
  step_->has_equal_state = false;
  step_->local_square_sum = step_->reduced_square_sum = 0;
  for (auto& bucket : step_->buckets) {
    if (auto kept = parts_.reducer.keep_input(*step_, bucket); !kept) return kept;
  }
  if (parts_.handover.has_device_transfers()) {
    if (auto started = parts_.handover.start_device_transfers(); !started) return started;
  }
  for (auto& bucket : step_->buckets) {
    // A device queues what follows, whose input would be written into a sum that goes on.
    const bool waits = bucket.on_device && is_summed_again(*step_, bucket);
    Status status = waits ? parts_.device.finish(*step_) : Status();
    if (status) status = parts_.reducer.reduce(*step_, bucket);
    if (!status) return finish_sums(status);
  }
  return finish_sums({});
}

// A worker with its own replica applies its own gradient, of which an interrupted sum may have left something else.
void StepRunner::settle_discarded() {
  for (auto& bucket : step_->buckets) {
    if (bucket.kind != Bucket::Kind::kGradient) continue;
    if (step_->averages) {
      ModelAveraging::restore_local_gradient(*step_, bucket);
    } else {
      parts_.device.clear(bucket);
    }
    const bool keeps_own = step_->averages && step_->has_samples() && !bucket.is_widened;
    if (!bucket.on_device && !keeps_own) NarrowGradients::round(bucket);
  }
}

OpenStep StepRunner::take() {
  ET_CHECK(!in_background_, "a step ends when all of its buckets are reduced");
  OpenStep step = std::move(*step_);
  step_.reset();
  return step;
}

}  // namespace elastictrain::session
