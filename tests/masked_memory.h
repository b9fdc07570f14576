// Simulates a device's memory: its bytes are stored inverted, so code that accesses them without the port fails its
// test.
#pragma once

#include <algorithm>

#include "train/state/state_buffers.h"

namespace elastictrain::tests {

class MaskedMemory : public state::MemoryPort {
 public:
  Status read(const std::byte* device, std::span<std::byte> into) override {
    if (fails) return Error{ErrorCode::kIo, "the device is gone"};
    std::transform(device, device + into.size(), into.begin(), [](std::byte byte) { return ~byte; });
    return {};
  }
  Status write(std::byte* device, std::span<const std::byte> from) override {
    std::transform(from.begin(), from.end(), device, [](std::byte byte) { return ~byte; });
    return {};
  }

  bool fails = false;
};

}  // namespace elastictrain::tests
