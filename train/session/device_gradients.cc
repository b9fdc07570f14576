#include "train/session/device_gradients.h"

#include <algorithm>
#include <utility>

#include "supervisor/protocol/check.h"

namespace elastictrain::session {

void DeviceGradients::check(const Status& status) {
  if (!status) lifecycle_.fail(status.error().message);
}

void DeviceGradients::step_begins(Clock::time_point now) {
  if (device_) check(device_->step_begins(now));
}

void DeviceGradients::mark_input(Bucket& bucket, void* stream) {
  bucket.on_device = true;
  bucket.stream = stream;
  check(device_->mark_input(bucket.index, stream));
}

Status DeviceGradients::await_input(const Bucket& bucket) {
  if (!bucket.on_device) return {};
  const Status status = device_->await_input(bucket.index);
  if (status) return {};
  return Error{ErrorCode::kInvalid, status.error().message};
}

Clock::time_point DeviceGradients::input_time(const Bucket& bucket) {
  const auto now = Clock::now();
  return bucket.on_device ? std::min(now, device_->input_time(bucket.index).value_or(now)) : now;
}

Clock::time_point DeviceGradients::sum_time(const OpenStep& step) {
  const auto now = Clock::now();
  if (step.buckets.empty() || !step.last_of_pass().on_device) return now;
  return std::min(now, device_->sum_time(step.last_of_pass().index).value_or(now));
}

comm::DeviceSums& DeviceGradients::sums() const {
  auto* const sums = seat_.communicator->device_sums();
  ET_CHECK(sums != nullptr, "a session with a device has a data plane that sums its memory");
  return *sums;
}

Status DeviceGradients::reduce(OpenStep& step, Bucket& bucket) {
  if (!sums().queues_sums()) {
    if (auto there = await_input(bucket); !there) return there;
  }
  Status status = gate_.run("all-reduce", [&] { return start(step, bucket); });
  is_summing_ = is_summing_ || status.ok();
  return status;
}

Status DeviceGradients::finish(OpenStep& step) {
  if (!is_summing_) return {};
  Status status = gate_.run("all-reduce", [&] {
    comm::ReduceStats stats;
    const Status finished = sums().finish_sums(&stats);
    step.add(stats);
    return finished;
  });
  if (!status) abandon();
  is_summing_ = false;
  return status;
}

void DeviceGradients::abandon() {
  if (std::exchange(is_summing_, false)) (void)sums().finish_sums();
}

Status DeviceGradients::start(OpenStep& step, Bucket& bucket) {
  using Input = comm::DeviceReduce::Input;
  comm::DeviceReduce reduce{.data = bucket.data,
                            .count = bucket.count,
                            .narrow = bucket.narrow,
                            .element = bucket.element,
                            .stream = bucket.stream,
                            .ready = device_->input_mark(bucket.index),
                            .want_norms = step.wants_norm,
                            .finished = device_->end_mark(bucket.index)};
  if (bucket.narrow != nullptr) {
    const auto wide = device_->wide(bucket.index, bucket.count);
    if (!wide) return Error{ErrorCode::kInvalid, wide.error().message};
    reduce.data = *wide;
  }
  if (!step.has_samples()) {
    reduce.input = Input::kNothing;
  } else if (bucket.copied || host_.keeps_inputs()) {
    const auto keep = device_->keep(bucket.index, bucket.count);
    if (!keep) return Error{ErrorCode::kInvalid, keep.error().message};
    reduce.keep = *keep;
    reduce.input = std::exchange(bucket.copied, true) ? Input::kKept : Input::kKeep;
  }
  if (step.has_samples()) reduce.scale = step.division.my_weight();
  return sums().start_sum(reduce);
}

void DeviceGradients::clear(Bucket& bucket) {
  if (bucket.on_device && bucket.narrow != nullptr) {
    return check(device_->fill_zero(bucket.narrow, bucket.count * sizeof(std::uint16_t), bucket.stream));
  }
  if (bucket.on_device) return check(device_->fill_zero(bucket.data, bucket.count * sizeof(float), bucket.stream));
  std::fill_n(bucket.data, bucket.count, 0.0F);
}

void DeviceGradients::mark_state(const OpenStep& step) {
  if (!device_) return;
  if (step.buckets.empty() || !step.last_of_pass().on_device) return;
  check(device_->state_written(step.last_of_pass().stream));
}

}  // namespace elastictrain::session
