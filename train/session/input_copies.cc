#include "train/session/input_copies.h"

namespace elastictrain::session {

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

}  // namespace elastictrain::session
