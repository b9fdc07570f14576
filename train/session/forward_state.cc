#include "train/session/forward_state.h"

#include <algorithm>

namespace elastictrain::session {

std::span<std::byte> ForwardState::add(std::span<std::byte> memory) {
  return entries_.emplace_back(Entry{memory, {memory.begin(), memory.end()}}).copy;
}

void ForwardState::commit() {
  for (auto& entry : entries_) std::ranges::copy(entry.memory, entry.copy.begin());
}

void ForwardState::adopt() {
  for (const auto& entry : entries_) std::ranges::copy(entry.copy, entry.memory.begin());
}

}  // namespace elastictrain::session
