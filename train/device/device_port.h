// Purpose: the state that lies in a device's memory, for those who read and write it from the host: transfers,
// checkpoints, hashes.
//
// Copies go through pinned memory in pieces, on a stream of its own, so that they wait for nothing of the program's and
// the program waits for nothing of theirs, except for what order_after() names.
// Ownership: shares the device. Thread: any; several at once take turns. Failure: as CudaLibrary::check.
#pragma once

#include <memory>
#include <mutex>

#include "train/device/event.h"
#include "train/device/pinned_memory.h"
#include "train/device/stream.h"
#include "train/state/state_buffers.h"

namespace elastictrain::device {

class DevicePort final : public state::MemoryPort {
 public:
  static Result<std::unique_ptr<DevicePort>> open(std::shared_ptr<Device> device);

  // What `stream` holds now is done before anything is copied from here on.
  Status order_after(CudaStream stream);
  Status read(const std::byte* device, std::span<std::byte> into) override;
  Status write(std::byte* device, std::span<const std::byte> from) override;

 private:
  DevicePort(std::shared_ptr<Device> device, Stream stream, PinnedMemory bounce, Event before);

  const std::shared_ptr<Device> device_;
  std::mutex mutex_;
  Stream stream_;
  PinnedMemory bounce_;
  Event before_;
};

}  // namespace elastictrain::device
