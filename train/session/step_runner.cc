#include "train/session/step_runner.h"

#include <utility>

#include "supervisor/protocol/check.h"
#include "train/session/narrow_gradients.h"

namespace elastictrain::session {
namespace {

constexpr std::uint64_t kNormEvery = 16;  // steps

}  // namespace

void StepRunner::open() {
  ET_CHECK(!step_, "one step is open at a time");
  step_.emplace();
  divide();
  parts_.course.list_samples(step_->division, step_->samples);
  // No other worker's gradient shows how noisy this one's is.
  if (step_->wants_norm && parts_.seat.world_size() == 1) step_->first_half = step_->division.my_count / 2;
  if (!parts_.handover.has_device_transfers()) return;
  starts_transfers_ = true;
  put(transfers_);
}

// Divides the step as the generation that opened it first, and determines which shares count in the current seat.
void StepRunner::divide() {
  auto& step = *step_;
  const Step number = parts_.course.next_step();
  const std::uint64_t variance_every = parts_.variance_every;
  parts_.averaging.drop_correction();
  step.averages = parts_.averaging.applies();
  step.wants_variance = !step.averages && variance_every != 0 && number % variance_every == 0;
  step.gradient_variance = 0;
  step.wants_norm = parts_.environment.monitors && !step.averages && number % kNormEvery == 1;
  step.division = divide_step(parts_.course, parts_.seat, parts_.self, parts_.environment.keep_gradients);
}

Status StepRunner::reduce(Bucket& bucket) {
  if (step_->discarded) return {};
  if (auto started = settle_transfers(); !started) return started;
  return finish_sums(parts_.reducer.reduce(*step_, bucket));
}

Status StepRunner::finish_sums(Status status) {
  if (status) return parts_.device.finish(*step_);
  parts_.device.abandon();
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
  (void)settle_transfers();  // of the seat before
  divide();
  step_->lane_sent = false;
  step_->has_equal_state = false;
  step_->local_square_sum = step_->reduced_square_sum = 0;
  if (parts_.handover.has_device_transfers()) {
    if (auto started = parts_.handover.start_device_transfers(); !started) return started;
  }
  for (auto& bucket : step_->buckets) {
    if (auto status = parts_.reducer.reduce(*step_, bucket); !status) return finish_sums(status);
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
