// Purpose: a test program's weights, momentum and gradient in a device's memory. Writes are queued in a stream of the
// program's own and not waited for, as in a program that really trains on a GPU.
// Ownership: its own memory. Thread: one. Errors: throws std::runtime_error.
#pragma once

#include <vector>

#include "elastictrain/session.hpp"
#include "train/device/device_memory.h"
#include "train/device/stream.h"

namespace elastictrain::test {

class DeviceArrays {
 public:
  // Shares weights and momentum, and plans the copies of a gradient in two buckets.
  DeviceArrays(Session& session, std::size_t count);
  // A gradient more, on the device that the session uses, `ordinal`.
  DeviceArrays(std::size_t count, int ordinal);

  void put_state(const std::vector<float>& weights, const std::vector<float>& momentum);
  void get_state(std::vector<float>& weights, std::vector<float>& momentum);
  void put_gradient(const std::vector<float>& gradient);
  void get_gradient(std::vector<float>& gradient);
  float* gradient() const { return gradient_.as<float>(); }
  void* stream() const { return stream_.handle(); }
  void* second_stream() const { return second_stream_.handle(); }

 private:
  device::Stream stream_;
  device::Stream second_stream_;
  device::DeviceMemory weights_;
  device::DeviceMemory momentum_;
  device::DeviceMemory gradient_;
};

}  // namespace elastictrain::test
