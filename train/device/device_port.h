// Purpose: access from the host to state in device memory, for transfers, checkpoints and hashes.
//
// Copies go through pinned memory in pieces, two at a time, on a stream of its own. They do not wait for the program's
// work, nor the program for them, except for what order_after() names. Ownership: shares the device. Thread: any;
// concurrent calls take turns. Failure: as CudaLibrary::check.
#pragma once

#include <array>
#include <memory>
#include <mutex>

#include "train/device/device_memory.h"
#include "train/device/stream.h"
#include "train/state/state_buffers.h"

namespace elastictrain::device {

class DevicePort final : public state::MemoryPort {
 public:
  static Result<std::unique_ptr<DevicePort>> open(std::shared_ptr<Device> device);

  // The work that `stream` holds now is done before any later copy.
  Status order_after(CudaStream stream);
  Status read(const std::byte* device, std::span<std::byte> into) override;
  Status write(std::byte* device, std::span<const std::byte> from) override;

 private:
  static constexpr std::size_t kHalves = 2;  // of the pinned memory, which the pieces use in turn

  DevicePort(std::shared_ptr<Device> device, Stream stream, PinnedMemory bounce, Event before,
             std::array<Event, kHalves> copied);
  std::byte* half(std::size_t piece) const;
  Status copy(std::size_t piece, std::byte* device, std::size_t size, bool reads);

  const std::shared_ptr<Device> device_;
  std::mutex mutex_;
  Stream stream_;
  PinnedMemory bounce_;
  Event before_;
  std::array<Event, kHalves> copied_;
};

}  // namespace elastictrain::device
