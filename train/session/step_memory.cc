#include "train/session/step_memory.h"

namespace elastictrain::session {

std::byte* StepMemory::take(std::size_t bytes) {
  if (taken_ == blocks_.size()) blocks_.emplace_back();
  auto& block = blocks_[taken_];
  if (!block.memory || block.bytes < bytes) block = {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
  ++taken_;
  return block.memory.get();
}

}  // namespace elastictrain::session
