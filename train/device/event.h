// Purpose: a mark in a stream that other streams and the host can wait for, with or without a time.
// Ownership: destroys it. Thread: one at a time. Failure: as CudaLibrary::check.
#pragma once

#include <memory>
#include <utility>

#include "train/device/device.h"

namespace elastictrain::device {

class Event {
 public:
  static Result<Event> create(std::shared_ptr<Device> device, bool with_time = false);
  Event() = default;
  Event(Event&& other) noexcept : device_(std::move(other.device_)), event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(event_, other.event_);
    return *this;
  }
  ~Event();

  CudaEvent handle() const { return event_; }
  // Records the mark after the work that `stream` holds now.
  Status record(CudaStream stream) const;
  // Work that is added to `stream` from now on runs after the mark.
  Status order_before(CudaStream stream) const;
  // kCudaSuccess once the mark is reached, kCudaNotReady before, or the error of the device.
  CudaCode query() const;
  Status synchronize() const;
  // The time from `earlier` to this event; both have a time and both are reached.
  Result<double> seconds_since(const Event& earlier) const;

 private:
  std::shared_ptr<Device> device_;
  CudaEvent event_ = nullptr;
};

}  // namespace elastictrain::device
