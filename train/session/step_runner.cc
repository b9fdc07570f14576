#include "train/session/step_runner.h"

#include <utility>

#include "supervisor/protocol/check.h"

namespace elastictrain::session {
namespace {

constexpr std::uint64_t kNormEvery = 16;

}  // namespace

void StepRunner::open() {
  ET_CHECK(!step_, "one step is open at a time");
  step_.emplace();
  divide();
  parts_.course.list_samples(step_->division, step_->samples);
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
  return step_->discarded ? Status() : parts_.reducer.reduce(*step_, bucket);
}

void StepRunner::submit(Bucket& bucket) {
  if (!reducer_) {
    reducer_ = std::make_unique<Reducer>([this](Bucket& next) {
      const Status there = parts_.device.await_input(next);
      return there ? parts_.reducer.reduce(*step_, next) : there;
    });
  }
  in_background_ = true;
  if (!step_->discarded) reducer_->submit(bucket);
}

Status StepRunner::wait() {
  in_background_ = false;
  return reducer_->wait();
}

Status StepRunner::repeat() {
  ET_CHECK(!in_background_, "no bucket is reduced in the background while the step is repeated");
  divide();
  step_->lane_sent = false;
  step_->has_equal_state = false;
  step_->local_square_sum = step_->reduced_square_sum = 0;
  for (auto& bucket : step_->buckets) {
    if (auto status = parts_.reducer.reduce(*step_, bucket); !status) return status;
  }
  return {};
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
  }
}

OpenStep StepRunner::take() {
  ET_CHECK(!in_background_, "a step ends when all of its buckets are reduced");
  OpenStep step = std::move(*step_);
  step_.reset();
  return step;
}

}  // namespace elastictrain::session
