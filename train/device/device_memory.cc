#include "train/device/device_memory.h"

#include <string>

namespace elastictrain::device {
namespace {

Error outside(std::size_t offset, std::size_t size, std::size_t bytes) {
  return {ErrorCode::kInvalid, "bytes " + std::to_string(offset) + " to " + std::to_string(offset + size) +
                                   " are not in " + std::to_string(bytes) + " bytes of device memory"};
}

}  // namespace

Result<DeviceMemory> DeviceMemory::allocate(std::shared_ptr<Device> device, std::size_t bytes) {
  const Device::Scope scope(*device);
  DeviceMemory memory;
  const auto& cuda = device->cuda();
  if (bytes > 0) {
    auto made = cuda.check(cuda.allocate(&memory.address_, bytes),
                           "allocate " + std::to_string(bytes) + " bytes on GPU " + std::to_string(device->ordinal()));
    if (!made) return made.error();
  }
  memory.bytes_ = bytes;
  memory.device_ = std::move(device);
  return memory;
}

DeviceMemory::~DeviceMemory() {
  if (address_ == 0) return;
  const Device::Scope scope(*device_);
  device_->cuda().free(address_);
}

Status DeviceMemory::copy_in(const void* host, std::size_t size, CudaStream stream, std::size_t offset) const {
  if (offset > bytes_ || size > bytes_ - offset) return outside(offset, size, bytes_);
  if (size == 0) return {};
  const Device::Scope scope(*device_);
  return device_->cuda().check(device_->cuda().copy_to_device(address_ + offset, host, size, stream),
                               "copy " + std::to_string(size) + " bytes to the device");
}

Status DeviceMemory::copy_out(void* host, std::size_t size, CudaStream stream, std::size_t offset) const {
  if (offset > bytes_ || size > bytes_ - offset) return outside(offset, size, bytes_);
  if (size == 0) return {};
  const Device::Scope scope(*device_);
  return device_->cuda().check(device_->cuda().copy_to_host(host, address_ + offset, size, stream),
                               "copy " + std::to_string(size) + " bytes from the device");
}

Status DeviceMemory::fill_zero(CudaStream stream) const {
  if (bytes_ == 0) return {};
  const Device::Scope scope(*device_);
  return device_->cuda().check(device_->cuda().fill_bytes(address_, 0, bytes_, stream), "clear device memory");
}

Result<PinnedMemory> PinnedMemory::allocate(std::shared_ptr<Device> device, std::size_t bytes) {
  const Device::Scope scope(*device);
  PinnedMemory memory;
  const auto& cuda = device->cuda();
  if (bytes > 0) {
    auto made = cuda.check(cuda.host_allocate(&memory.data_, bytes, 0),
                           "pin " + std::to_string(bytes) + " bytes of host memory");
    if (!made) return made.error();
  }
  memory.bytes_ = bytes;
  memory.device_ = std::move(device);
  return memory;
}

PinnedMemory::~PinnedMemory() {
  if (data_ == nullptr) return;
  const Device::Scope scope(*device_);
  device_->cuda().host_free(data_);
}

}  // namespace elastictrain::device
