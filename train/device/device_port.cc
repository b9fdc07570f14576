#include "train/device/device_port.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace elastictrain::device {
namespace {

constexpr std::size_t kBounceBytes = 4 << 20;

std::string bytes_text(std::size_t bytes) {
  return std::to_string(bytes) + " bytes of state";
}

}  // namespace

DevicePort::DevicePort(std::shared_ptr<Device> device, Stream stream, PinnedMemory bounce, Event before)
    : device_(std::move(device)), stream_(std::move(stream)), bounce_(std::move(bounce)), before_(std::move(before)) {}

Result<std::unique_ptr<DevicePort>> DevicePort::open(std::shared_ptr<Device> device) {
  auto stream = Stream::create(device);
  if (!stream) return stream.error();
  auto bounce = PinnedMemory::allocate(device, kBounceBytes);
  if (!bounce) return bounce.error();
  auto before = Event::create(device);
  if (!before) return before.error();
  return std::unique_ptr<DevicePort>(
      new DevicePort(std::move(device), std::move(*stream), std::move(*bounce), std::move(*before)));
}

Status DevicePort::order_after(CudaStream stream) {
  const std::lock_guard lock(mutex_);
  if (auto status = before_.record(stream); !status) return status;
  return before_.order_before(stream_.handle());
}

Status DevicePort::read(const std::byte* device, std::span<std::byte> into) {
  const std::lock_guard lock(mutex_);
  const Device::Scope scope(*device_);
  const auto& cuda = device_->cuda();
  for (std::size_t at = 0; at < into.size();) {
    const std::size_t size = std::min(kBounceBytes, into.size() - at);
    const auto address = reinterpret_cast<DevicePointer>(device + at);
    auto status = cuda.check(cuda.copy_to_host(bounce_.as<void>(), address, size, stream_.handle()),
                             "read " + bytes_text(size) + " from the device");
    if (status) status = stream_.synchronize();
    if (!status) return status;
    std::memcpy(into.data() + at, bounce_.as<void>(), size);
    at += size;
  }
  return {};
}

Status DevicePort::write(std::byte* device, std::span<const std::byte> from) {
  const std::lock_guard lock(mutex_);
  const Device::Scope scope(*device_);
  const auto& cuda = device_->cuda();
  for (std::size_t at = 0; at < from.size();) {
    const std::size_t size = std::min(kBounceBytes, from.size() - at);
    std::memcpy(bounce_.as<void>(), from.data() + at, size);
    const auto address = reinterpret_cast<DevicePointer>(device + at);
    auto status = cuda.check(cuda.copy_to_device(address, bounce_.as<void>(), size, stream_.handle()),
                             "write " + bytes_text(size) + " to the device");
    if (status) status = stream_.synchronize();
    if (!status) return status;
    at += size;
  }
  return {};
}

}  // namespace elastictrain::device
