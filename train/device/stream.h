// Purpose: order of work on a device: queues of work, and marks in them that streams and the host wait for.
#pragma once

#include <memory>
#include <utility>

#include "train/device/device.h"

// A queue of work on a device. It is never the legacy stream and never one that waits for it: our work must
// not wait for unrelated work of the program.
//
// Ownership: destroys it; its queued work still runs to the end. Thread: any. Failure: as CudaLibrary::check.

namespace elastictrain::device {

class Stream {
 public:
  static Result<Stream> create(std::shared_ptr<Device> device);
  Stream() = default;
  Stream(Stream&& other) noexcept : device_(std::move(other.device_)), stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~Stream();

  CudaStream handle() const { return stream_; }
  // Waits on the host for all work that it holds.
  Status synchronize() const;

 private:
  std::shared_ptr<Device> device_;
  CudaStream stream_ = nullptr;
};

// A mark in a stream that other streams and the host can wait for, with or without a time.
// Ownership: destroys it. Thread: one at a time. Failure: as CudaLibrary::check.

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
