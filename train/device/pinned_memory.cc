#include "train/device/pinned_memory.h"

#include <string>

namespace elastictrain::device {

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
