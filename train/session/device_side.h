// Purpose: what a session needs of its worker's GPU beside the communicator: the port to state in its memory, memory
// for kept gradients, waiting for the program's streams, and the times of a step's gradients and sums.
//
// Ownership: the session; the program's memory and streams stay the program's. Thread: the training thread;
// await_input() also and keep() only on the one that reduces; the port any.
// Failure: CUDA errors as Statuses; after some of them the process has to go (device::is_sticky).
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "supervisor/protocol/result.h"
#include "train/device/device.h"
#include "train/device/device_memory.h"
#include "train/device/device_port.h"
#include "train/device/event.h"
#include "train/session/device_times.h"

namespace elastictrain::session {

class DeviceSide {
 public:
  static Result<std::unique_ptr<DeviceSide>> open(int ordinal);

  const std::shared_ptr<device::Device>& device() const { return device_; }
  state::MemoryPort& port() { return *port_; }

  // What `stream` holds now is part of the state from here on.
  Status state_written(void* stream);
  // The stream of the last state_written().
  void* state_stream() const { return state_stream_; }

  Status step_begins(DeviceTimes::Time now) { return times_->step_begins(now); }
  // What `stream` holds now brings the gradient of the step's bucket `index`. On the training thread.
  Status mark_input(std::size_t index, void* stream);
  // Until that is done. No deadline: it is the program's computation.
  Status await_input(std::size_t index);
  // The CUevent that is to be recorded behind the sum of the step's bucket `index`.
  void* end_mark(std::size_t index) { return mark(index).sum.handle(); }
  // When the gradient of that bucket was there, and its sum, as DeviceTimes says it.
  std::optional<DeviceTimes::Time> input_time(std::size_t index) { return times_->of(mark(index).input); }
  std::optional<DeviceTimes::Time> sum_time(std::size_t index);
  Status fill_zero(float* data, std::size_t count, void* stream);
  // Memory for the copy of a step's bucket `index`, kept from step to step.
  Result<float*> keep(std::size_t index, std::size_t count);

 private:
  // Of one bucket, used again in each step.
  struct Marks {
    device::Event input;
    device::Event sum;
  };

  DeviceSide(std::shared_ptr<device::Device> device, std::unique_ptr<device::DevicePort> port,
             std::unique_ptr<DeviceTimes> times)
      : device_(std::move(device)), port_(std::move(port)), times_(std::move(times)) {}
  const Marks& mark(std::size_t index);

  const std::shared_ptr<device::Device> device_;
  const std::unique_ptr<device::DevicePort> port_;
  const std::unique_ptr<DeviceTimes> times_;
  void* state_stream_ = nullptr;
  std::mutex mutex_;         // of the list
  std::deque<Marks> marks_;  // index = bucket
  std::vector<device::DeviceMemory> keeps_;
};

}  // namespace elastictrain::session
