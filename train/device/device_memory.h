// Purpose: memory for a device: in the device, and pinned memory of the host that the device accesses directly.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "train/device/device.h"

// A piece of device memory. Ownership: frees it. Freeing waits for the device, so do not do it while a
// collective runs. Thread: any. Failure: as CudaLibrary::check.

namespace elastictrain::device {

class DeviceMemory {
 public:
  static Result<DeviceMemory> allocate(std::shared_ptr<Device> device, std::size_t bytes);
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& other) noexcept
      : device_(std::move(other.device_)),
        address_(std::exchange(other.address_, 0)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceMemory();

  DevicePointer address() const { return address_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(address_);
  }
  std::size_t bytes() const { return bytes_; }

  // Asynchronous, in `stream`; the host memory must stay valid until the copy is done.
  Status copy_in(const void* host, std::size_t size, CudaStream stream, std::size_t offset = 0) const;
  Status copy_out(void* host, std::size_t size, CudaStream stream, std::size_t offset = 0) const;
  Status fill_zero(CudaStream stream) const;

 private:
  std::shared_ptr<Device> device_;
  DevicePointer address_ = 0;
  std::size_t bytes_ = 0;
};

// Host memory that the device accesses directly. Ownership: frees it. Thread: any.
// Failure: as CudaLibrary::check.

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
