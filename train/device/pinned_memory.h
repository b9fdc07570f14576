// Purpose: host memory that the device accesses directly. Ownership: frees it. Thread: any.
// Failure: as CudaLibrary::check.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "train/device/device.h"

namespace elastictrain::device {

class PinnedMemory {
 public:
  static Result<PinnedMemory> allocate(std::shared_ptr<Device> device, std::size_t bytes);
  PinnedMemory() = default;
  PinnedMemory(PinnedMemory&& other) noexcept
      : device_(std::move(other.device_)),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  PinnedMemory& operator=(PinnedMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~PinnedMemory();

  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<Device> device_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace elastictrain::device
