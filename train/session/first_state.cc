#include "train/session/first_state.h"

#include <algorithm>
#include <utility>

namespace elastictrain::session {
namespace {

constexpr std::byte kHasState{1};

}  // namespace

std::span<std::byte> FirstState::add(std::span<std::byte> memory, std::uint64_t every_steps) {
  return entries_.emplace_back(Entry{memory, every_steps, {memory.begin(), memory.end()}, {}}).copy;
}

std::vector<std::span<std::byte>> FirstState::take(Step step, Place place) {
  std::vector<std::span<std::byte>> marked;
  for (auto& entry : entries_) {
    entry.travels = step % entry.every_steps == 0;
    if (!entry.travels) continue;
    entry.is_own = place == Place::kFirst;
    entry.marked.resize(1 + entry.memory.size());
    entry.marked.front() = place == Place::kWithoutState ? std::byte{0} : kHasState;
    // Without the state the copy is still arriving, on another thread.
    if (place != Place::kWithoutState) {
      std::ranges::copy(entry.is_own ? entry.memory : std::span(entry.copy), entry.marked.begin() + 1);
    }
    marked.emplace_back(entry.marked);
  }
  return marked;
}

void FirstState::begin() {
  for (auto& entry : entries_) std::ranges::copy(entry.memory, entry.copy.begin());
}

void FirstState::commit(bool is_first) {
  for (auto& entry : entries_) {
    if (!std::exchange(entry.travels, false) || entry.marked.front() != kHasState) continue;
    std::copy(entry.marked.begin() + 1, entry.marked.end(), entry.copy.begin());
    if (!is_first || !entry.is_own) std::ranges::copy(entry.copy, entry.memory.begin());
  }
}

void FirstState::adopt() {
  for (const auto& entry : entries_) std::ranges::copy(entry.copy, entry.memory.begin());
}

}  // namespace elastictrain::session
