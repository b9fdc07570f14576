#include "train/session/gradients.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "supervisor/protocol/check.h"
#include "train/session/half_floats.h"

namespace elastictrain::session {

void NarrowGradients::make_room(Bucket& bucket) {
  if (bucket.narrow != nullptr) bucket.data = wide_.of_bucket(bucket.index, bucket.count).data();
}

void NarrowGradients::widen(bool has_samples, Bucket& bucket) {
  if (bucket.narrow == nullptr || bucket.copied || !has_samples) return;
  const auto* const from = static_cast<const std::uint16_t*>(bucket.narrow);
  widen_floats(bucket.element == comm::Element::kFloat16, from, bucket.data, bucket.count);
  bucket.is_widened = true;
}

void NarrowGradients::round(const Bucket& bucket) {
  if (bucket.narrow == nullptr) return;
  auto* const into = static_cast<std::uint16_t*>(bucket.narrow);
  round_floats(bucket.element == comm::Element::kFloat16, bucket.data, into, bucket.count);
}

void HostInputs::prepare(const Input& input, Bucket& bucket, comm::ReduceOptions& options) {
  // A joiner's buffer may hold any value, including NaN, which a weight of zero would not remove.
  if (!input.has_samples) {
    if (!std::exchange(bucket.is_zero, false)) std::fill_n(bucket.data, bucket.count, 0.0F);
    return;
  }
  if (bucket.copied) {
    std::ranges::copy(bucket.copy, bucket.data);
  } else if (input.keeps) {
    make_room(bucket);  // a repeated step may have been opened alone, without copies
    options.keep = bucket.copy;
    bucket.copied = true;
  }
  options.scale = input.scale;
}

void HostInputs::keep(Bucket& bucket) {
  make_room(bucket);
  std::ranges::copy(std::span(bucket.data, bucket.count), bucket.copy.begin());
  bucket.copied = true;
}

void HostGradients::prepare_memory(const OpenStep& step, Bucket& bucket) {
  if (step.averages) return;
  if (keeps_inputs()) inputs_.make_room(bucket);
  if (step.has_samples()) return;
  std::fill_n(bucket.data, bucket.count, 0.0F);
  bucket.is_zero = true;
}

void HostGradients::keep_input(Bucket& bucket) {
  if (may_repeat_) inputs_.keep(bucket);
}

Status HostGradients::reduce(OpenStep& step, Bucket& bucket) {
  return gate_.run("all-reduce", [&] { return sum(step, bucket); });
}

Status HostGradients::sum(OpenStep& step, Bucket& bucket) {
  comm::ReduceOptions options{.want_norms = step.wants_norm, .element = bucket.element};
  HostInputs::Input input{.has_samples = step.has_samples(), .keeps = keeps_inputs()};
  if (input.has_samples) input.scale = step.division.my_weight();
  inputs_.prepare(input, bucket, options);
  if (!std::exchange(step.lane_sent, true)) options.lane = lane_.fill();
  if (step.wants_variance) square_into(bucket);
  comm::ReduceStats stats;
  Status status = assignment_.communicator->all_reduce({bucket.data, bucket.count}, options, &stats);
  step.add(stats);
  if (status && step.wants_variance) return add_variance(step, bucket, options.scale);
  return status;
}

void HostGradients::square_into(const Bucket& bucket) {
  squares_.resize(bucket.count);
  for (std::size_t i = 0; i < bucket.count; ++i) squares_[i] = bucket.data[i] * bucket.data[i];
}

//  avg(g^2) - avg(g)^2 | of a bucket whose average is known: one more all-reduce, for the squares.
Status HostGradients::add_variance(OpenStep& step, const Bucket& bucket, float scale) {
  comm::ReduceOptions options;
  options.scale = scale;
  if (auto status = assignment_.communicator->all_reduce(squares_, options); !status) return status;
  double square_sum = 0;
  for (std::size_t i = 0; i < bucket.count; ++i) {
    const double variance = static_cast<double>(squares_[i]) - static_cast<double>(bucket.data[i]) * bucket.data[i];
    square_sum += variance * variance;
  }
  step.gradient_variance += std::sqrt(square_sum);
  return {};
}

namespace {

// Neither peers nor a retry can repair it.
Error final_error(const Error& error) {
  return {ErrorCode::kInvalid, error.message};
}

}  // namespace

void DeviceGradients::check(const Status& status) {
  if (!status) lifecycle_.fail(status.error().message);
}

void DeviceGradients::step_begins(Clock::time_point now) {
  weights_.clear();
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
  return status ? Status() : final_error(status.error());
}

// An update that is queued behind the pass, in its one stream, reads no sum that could be broken off.
bool DeviceGradients::may_run_ahead(const OpenStep& step) const {
  const auto is_behind = [&](const Bucket& bucket) {
    return !bucket.on_device || (!bucket.copied && bucket.stream == step.last_of_pass().stream);
  };
  return device_->is_in_stream_order() && sums().queues_sums() && step.has_samples() && !step.wants_norm &&
         std::ranges::all_of(step.buckets, is_behind);
}

Status DeviceGradients::await_pass(const OpenStep& step) {
  const auto& last = step.last_of_pass();
  if (!last.on_device || assignment_.world_size() != 1) return await_input(last);
  if (!may_run_ahead(step)) return await_all(step);
  const Status status = device_->follow(last.stream);
  return status ? Status() : final_error(status.error());
}

// Alone no sum waits for a gradient that another stream produces.
Status DeviceGradients::await_all(const OpenStep& step) {
  for (const Bucket& bucket : step.buckets) {
    if (Status there = await_input(bucket); !there) return there;
  }
  return {};
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
  auto* const sums = assignment_.communicator->device_sums();
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

Status DeviceGradients::keep_input(Bucket& bucket) {
  if (!host_.may_repeat()) return {};
  const std::size_t bytes = bucket.memory_bytes();
  const auto keep = device_->keep(bucket.index, bytes);
  if (!keep) return final_error(keep.error());
  if (auto copied = device_->copy(*keep, bucket.memory(), bytes, bucket.stream); !copied)
    return final_error(copied.error());
  bucket.copied = true;
  check(device_->mark_input(bucket.index, bucket.stream));
  return await_input(bucket);
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

// Of a gradient in 16 bits: what its way through the other ranks needs.
Status DeviceGradients::make_room(const OpenStep& step, const Bucket& bucket, comm::DeviceReduce& reduce) {
  if (bucket.narrow == nullptr) return {};
  if (!sums().exchanges_narrow()) {
    const auto wide = device_->wide(bucket.index, bucket.count * sizeof(float));
    if (!wide) return final_error(wide.error());
    reduce.data = static_cast<float*>(*wide);
    return {};
  }
  if (weights_.empty() || weights_of_ != assignment_.generation) weights_ = step.division.weights(assignment_);
  weights_of_ = assignment_.generation;
  reduce.weights = weights_;
  if (assignment_.world_size() == 1) return {};
  const auto parts = device_->parts(comm::Shards{bucket.count, assignment_.world_size()}.bytes_of_parts());
  if (!parts) return final_error(parts.error());
  reduce.parts = *parts;
  return {};
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
  if (auto made = make_room(step, bucket, reduce); !made) return made;
  if (!step.has_samples()) {
    reduce.input = Input::kNothing;
  } else if (bucket.copied || host_.keeps_inputs()) {
    const auto keep = device_->keep(bucket.index, bucket.memory_bytes());
    if (!keep) return final_error(keep.error());
    reduce.keep = *keep;
    reduce.input = std::exchange(bucket.copied, true) ? Input::kKept : Input::kKeep;
  }
  if (step.has_samples()) reduce.scale = step.division.my_weight();
  return sums().start_sum(reduce);
}

void DeviceGradients::clear(Bucket& bucket) {
  if (!bucket.on_device) {
    std::fill_n(bucket.data, bucket.count, 0.0F);
    return;
  }
  void* const gradient = bucket.narrow != nullptr ? bucket.narrow : bucket.data;
  check(device_->fill_zero(gradient, bucket.memory_bytes(), bucket.stream));
}

void DeviceGradients::mark_state(const OpenStep& step) {
  if (!device_) return;
  if (step.buckets.empty() || !step.last_of_pass().on_device) return;
  check(device_->state_written(step.last_of_pass().stream));
}

}  // namespace elastictrain::session
