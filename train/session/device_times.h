// Purpose: when a device came to a mark in one of its streams, in the host's clock: a step's times are then those of
// the work itself, not those at which a thread of the host noticed.
//
// Ownership: the session. Thread: the training thread. Failure: CUDA errors as Statuses; a time that the device cannot
// tell without a wait is none.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "train/device/event.h"
#include "train/device/stream.h"

namespace elastictrain::session {

class DeviceTimes {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static Result<std::unique_ptr<DeviceTimes>> open(const std::shared_ptr<device::Device>& device);

  // In a stream of its own: in the program's the mark would wait for what that still holds of the step before.
  Status step_begins(Time now);
  // Of a mark with time that was set in this step; at the earliest its begin. Nothing: it is not known to be reached.
  std::optional<Time> of(const device::Event& mark) const;

 private:
  DeviceTimes(device::Stream stream, device::Event begin) : stream_(std::move(stream)), begin_(std::move(begin)) {}

  const device::Stream stream_;
  const device::Event begin_;
  Time began_{};
};

}  // namespace elastictrain::session
