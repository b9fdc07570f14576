// Purpose: a queue of work on a device. It is never the legacy stream and never one that waits for it: our work must
// not wait for unrelated work of the program.
//
// Ownership: destroys it; its queued work still runs to the end. Thread: any. Failure: as CudaLibrary::check.
#pragma once

#include <memory>
#include <utility>

#include "train/device/device.h"

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

}  // namespace elastictrain::device
