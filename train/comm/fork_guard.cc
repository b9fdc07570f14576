#include "train/comm/fork_guard.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace elastictrain::comm {
namespace {

// A child may only use what is safe in a signal handler, so the set is a plain array.
constexpr int kBitsPerWord = 64;
std::array<std::atomic<std::uint64_t>, kMaxGuarded / kBitsPerWord> guarded{};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

bool can_be_guarded(int fd) {
  return fd >= 0 && fd < kMaxGuarded;
}

std::atomic<std::uint64_t>& word_of(int fd) {
  return guarded[static_cast<std::size_t>(fd) / kBitsPerWord];
}

std::uint64_t bit_of(int fd) {
  return std::uint64_t{1} << (static_cast<unsigned>(fd) % kBitsPerWord);
}

void begin_child() {
  for (std::size_t i = 0; i < guarded.size(); ++i) {
    for (auto word = guarded[i].exchange(0); word != 0; word &= word - 1) {
      ::close(static_cast<int>(i) * kBitsPerWord + std::countr_zero(word));
    }
  }
}

const int registered = ::pthread_atfork(nullptr, nullptr, begin_child);

}  // namespace

void keep_from_children(int fd) {
  if (registered == 0 && can_be_guarded(fd)) word_of(fd).fetch_or(bit_of(fd), std::memory_order_relaxed);
}

void let_children_have(int fd) {
  if (can_be_guarded(fd)) word_of(fd).fetch_and(~bit_of(fd), std::memory_order_relaxed);
}

}  // namespace elastictrain::comm
