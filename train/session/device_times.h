// Purpose: the time at which a device reached a mark in one of its streams, in the host's clock. A step's times are
// then those of the work itself, not those at which a host thread noticed its end.
//
// Ownership: the session. Thread: the training thread. Failure: CUDA errors as Statuses; nullopt for a time that the
// device cannot report without waiting.
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

  // Uses a stream of its own: in the program's stream the mark would wait for work left from the previous step.
  Status step_begins(Time now);
  // The time of a mark with time that was recorded in this step, but no earlier than the step's begin. nullopt if it is
  // not known to be reached.
  std::optional<Time> of(const device::Event& mark) const;

 private:
  DeviceTimes(device::Stream stream, device::Event begin) : stream_(std::move(stream)), begin_(std::move(begin)) {}

  const device::Stream stream_;
  const device::Event begin_;
  Time began_{};
};

}  // namespace elastictrain::session
