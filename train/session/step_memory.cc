#include "train/session/step_memory.h"

#include <sys/mman.h>

#include <new>
#include <utility>

namespace elastictrain::session {

ResidentMemory::ResidentMemory(std::size_t floats) {
  if (floats == 0) return;
  const std::size_t bytes = floats * sizeof(float);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  // Only a matter of speed: a kernel before 5.14 does not know the advice and faults the pages in later.
  ::madvise(memory, bytes, MADV_POPULATE_WRITE);
  floats_ = {static_cast<float*>(memory), floats};
}

ResidentMemory::ResidentMemory(ResidentMemory&& other) noexcept : floats_(std::exchange(other.floats_, {})) {}

ResidentMemory& ResidentMemory::operator=(ResidentMemory&& other) noexcept {
  std::swap(floats_, other.floats_);
  return *this;
}

ResidentMemory::~ResidentMemory() {
  if (!floats_.empty()) ::munmap(floats_.data(), floats_.size_bytes());
}

void InputCopies::reserve(std::size_t count) {
  reserved_ = ResidentMemory(count);
  unused_ = reserved_.floats();
}

std::span<float> InputCopies::of_bucket(std::size_t index, std::size_t count) {
  if (slots_.size() <= index) slots_.resize(index + 1);
  auto& slot = slots_[index];
  if (slot.memory.size() < count) slot.memory = memory_for(slot, count);
  return slot.memory.first(count);
}

std::span<float> InputCopies::memory_for(Slot& slot, std::size_t count) {
  if (count > unused_.size()) {
    slot.own = ResidentMemory(count);
    return slot.own.floats();
  }
  const auto memory = unused_.first(count);
  unused_ = unused_.subspan(count);
  return memory;
}

std::byte* StepMemory::take(std::size_t bytes) {
  if (taken_ == blocks_.size()) blocks_.emplace_back();
  auto& block = blocks_[taken_];
  if (!block.memory || block.bytes < bytes) block = {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
  ++taken_;
  return block.memory.get();
}

}  // namespace elastictrain::session
