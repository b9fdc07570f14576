// Purpose: a piece of device memory. Ownership: frees it. Freeing waits for the device, so do not do it while a
// collective runs. Thread: any. Failure: as CudaLibrary::check.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "train/device/device.h"

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

}  // namespace elastictrain::device
