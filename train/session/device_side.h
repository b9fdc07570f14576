// Purpose: what a session needs of its worker's GPU beside the communicator: the port to state in its memory, memory for
// kept gradients, and waiting for the program's streams.
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

  // What `stream` holds now brings the gradient of the step's bucket `index`. On the training thread.
  Status mark_input(std::size_t index, void* stream);
  // Until that is done. No deadline: it is the program's computation.
  Status await_input(std::size_t index);
  Status fill_zero(float* data, std::size_t count, void* stream);
  // Memory for the copy of a step's bucket `index`, kept from step to step.
  Result<float*> keep(std::size_t index, std::size_t count);

 private:
  DeviceSide(std::shared_ptr<device::Device> device, std::unique_ptr<device::DevicePort> port)
      : device_(std::move(device)), port_(std::move(port)) {}

  const std::shared_ptr<device::Device> device_;
  const std::unique_ptr<device::DevicePort> port_;
  void* state_stream_ = nullptr;
  std::mutex mutex_;                  // of the list
  std::deque<device::Event> inputs_;  // one for each bucket, used again in each step
  std::vector<device::DeviceMemory> keeps_;
};

}  // namespace elastictrain::session
