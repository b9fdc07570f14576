#include "train/device/device_port.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace elastictrain::device {
namespace {

constexpr std::size_t kBounceBytes = 4 << 20;

std::string bytes_text(std::size_t bytes) {
  return std::to_string(bytes) + " bytes of state of the device";
}

std::size_t pieces_of(std::size_t bytes) {
  return (bytes + kBounceBytes - 1) / kBounceBytes;
}

struct Part {
  std::size_t offset;
  std::size_t size;
};

Part part_of(std::size_t piece, std::size_t bytes) {
  const std::size_t offset = piece * kBounceBytes;
  return {offset, std::min(kBounceBytes, bytes - offset)};
}

}  // namespace

DevicePort::DevicePort(std::shared_ptr<Device> device, Stream stream, PinnedMemory bounce, Event before,
                       std::array<Event, kHalves> copied)
    : device_(std::move(device)),
      stream_(std::move(stream)),
      bounce_(std::move(bounce)),
      before_(std::move(before)),
      copied_(std::move(copied)) {}

std::byte* DevicePort::half(std::size_t piece) const {
  return bounce_.as<std::byte>() + piece % kHalves * kBounceBytes;
}

Result<std::unique_ptr<DevicePort>> DevicePort::open(std::shared_ptr<Device> device) {
  auto stream = Stream::create(device);
  if (!stream) return stream.error();
  auto bounce = PinnedMemory::allocate(device, kHalves * kBounceBytes);
  if (!bounce) return bounce.error();
  auto before = Event::create(device);
  if (!before) return before.error();
  std::array<Event, kHalves> copied;
  for (auto& event : copied) {
    auto made = Event::create(device);
    if (!made) return made.error();
    event = std::move(*made);
  }
  return std::unique_ptr<DevicePort>(
      new DevicePort(std::move(device), std::move(*stream), std::move(*bounce), std::move(*before), std::move(copied)));
}

Status DevicePort::order_after(CudaStream stream) {
  const std::lock_guard lock(mutex_);
  if (auto status = before_.record(stream); !status) return status;
  return before_.order_before(stream_.handle());
}

Status DevicePort::copy(std::size_t piece, std::byte* device, std::size_t size, bool reads) {
  const Device::Scope scope(*device_);
  const auto& cuda = device_->cuda();
  const auto address = reinterpret_cast<DevicePointer>(device);
  void* const here = half(piece);
  const auto queued =
      reads ? cuda.check(cuda.copy_to_host(here, address, size, stream_.handle()), "read " + bytes_text(size))
            : cuda.check(cuda.copy_to_device(address, here, size, stream_.handle()), "write " + bytes_text(size));
  return queued ? copied_[piece % kHalves].record(stream_.handle()) : queued;
}

// The device copies a piece while the host copies the one before.
Status DevicePort::read(const std::byte* device, std::span<std::byte> into) {
  const std::lock_guard lock(mutex_);
  const std::size_t pieces = pieces_of(into.size());
  for (std::size_t piece = 0; piece <= pieces; ++piece) {
    if (piece < pieces) {
      const auto part = part_of(piece, into.size());
      auto queued = copy(piece, const_cast<std::byte*>(device) + part.offset, part.size, true);
      if (!queued) return queued;
    }
    if (piece == 0) continue;
    if (auto arrived = copied_[(piece - 1) % kHalves].synchronize(); !arrived) return arrived;
    const auto part = part_of(piece - 1, into.size());
    std::memcpy(into.data() + part.offset, half(piece - 1), part.size);
  }
  return {};
}

Status DevicePort::write(std::byte* device, std::span<const std::byte> from) {
  const std::lock_guard lock(mutex_);
  const std::size_t pieces = pieces_of(from.size());
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const auto part = part_of(piece, from.size());
    if (piece >= kHalves) {
      if (auto free = copied_[piece % kHalves].synchronize(); !free) return free;
    }
    std::memcpy(half(piece), from.data() + part.offset, part.size);
    if (auto queued = copy(piece, device + part.offset, part.size, false); !queued) return queued;
  }
  return stream_.synchronize();
}

}  // namespace elastictrain::device
