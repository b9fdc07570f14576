// How ShmGroup waits: it spins, then yields the core, then sleeps in futex(2), and watches the peers meanwhile.
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "train/comm/shm_group.h"

namespace elastictrain::comm {
namespace {

constexpr long kSleepNanoseconds = 2'000'000;
constexpr int kYieldsBetweenChecks = 64;
constexpr int kMaxWaitsBeforeMove = 1 << 20;

// Counters wrap around; only their distance matters.
bool reached(const std::atomic<std::uint32_t>& counter, std::uint32_t target) {
  return static_cast<std::int32_t>(counter.load(std::memory_order_acquire) - target) >= 0;
}

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void wake(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

// Moves this thread to another core once; its affinity mask stays as it was.
void leave_core(std::uint32_t core) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  cpu_set_t others = allowed;
  CPU_CLR(core, &others);
  if (CPU_COUNT(&others) == 0 || ::sched_setaffinity(0, sizeof others, &others) != 0) return;
  ::sched_setaffinity(0, sizeof allowed, &allowed);
}

}  // namespace

// Sequentially consistent on both sides: either the publisher sees the sleeper, or the sleeper sees the new value.
void ShmGroup::publish(Counter& counter, std::uint32_t value) noexcept {
  counter.store(value, std::memory_order_seq_cst);
  if (region_.header().sleepers.load(std::memory_order_seq_cst) != 0) wake(counter);
}

std::uint32_t ShmGroup::current_core() noexcept {
  return static_cast<std::uint32_t>(::sched_getcpu());
}

bool ShmGroup::shares_core_with(std::size_t peer) const noexcept {
  return region_.control(peer).core.load(std::memory_order_relaxed) == current_core();
}

// The scheduler places ranks that wake each other through sockets together, and leaves them there on a busy machine.
void ShmGroup::note_shared_core(std::size_t peer) noexcept {
  if (control_.crowded() || local_ < peer || ++waits_on_shared_core_ < waits_before_move_) return;
  waits_on_shared_core_ = 0;
  waits_before_move_ = std::min(2 * waits_before_move_, kMaxWaitsBeforeMove);
  leave_core(current_core());
}

Status ShmGroup::wait_for(Counter& counter, std::uint32_t target, std::size_t peer) {
  if (reached(counter, target)) [[likely]]
    return {};
  if (shares_core_with(peer)) {
    note_shared_core(peer);
    return wait_slowly(counter, target, peer);
  }
  for (int spin = control_.spins(); spin > 0; --spin) {
    pause_core();
    if (reached(counter, target)) return {};
  }
  return wait_slowly(counter, target, peer);
}

Status ShmGroup::wait_slowly(Counter& counter, std::uint32_t target, std::size_t peer) {
  for (int yield = 1; !reached(counter, target); ++yield) {
    if (yield > control_.yields()) {
      sleep_on(counter, counter.load(std::memory_order_seq_cst), target);
    } else {
      ::sched_yield();
      if (yield % kYieldsBetweenChecks != 0) continue;
    }
    auto status = check_wait(peer);
    // The peer may have published between our read of the counter and its departure.
    if (!status && !(status.error().code == ErrorCode::kPeerLost && reached(counter, target))) return status;
  }
  return {};
}

void ShmGroup::sleep_on(Counter& counter, std::uint32_t seen, std::uint32_t target) {
  auto& sleepers = region_.header().sleepers;
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  if (!reached(counter, target) && region_.header().broken.load(std::memory_order_seq_cst) == 0 &&
      !control_.aborted()) {
    const timespec limit{0, kSleepNanoseconds};
    ::syscall(SYS_futex, &counter, FUTEX_WAIT, seen, &limit, nullptr, 0);
  }
  sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

Status ShmGroup::check_wait(std::size_t peer) {
  if (auto status = check(); !status) return status;
  if (region_.control(peer).state.load(std::memory_order_acquire) == static_cast<std::uint32_t>(SlotState::kLeft)) {
    return Error{ErrorCode::kPeerLost, "local rank " + std::to_string(peer) + " closed its communicator"};
  }
  return control_.check();
}

Status ShmGroup::check() {
  if (control_.aborted()) return Error{ErrorCode::kAborted, "the operation was aborted"};
  if (region_.header().broken.load(std::memory_order_acquire) != 0) {
    return Error{ErrorCode::kPeerLost, "another rank of this host aborted or lost a peer"};
  }
  for (auto gone = watch_.gone(); gone; gone = watch_.gone()) {
    const auto state = region_.control(*gone).state.load(std::memory_order_acquire);
    if (state != static_cast<std::uint32_t>(SlotState::kLeft)) {
      return Error{ErrorCode::kPeerLost, "local rank " + std::to_string(*gone) + " exited"};
    }
    watch_.forget(*gone);
  }
  return {};
}

void ShmGroup::break_up() noexcept {
  region_.header().broken.store(1, std::memory_order_seq_cst);
  wake_everybody();
  watch_.hang_up();
}

void ShmGroup::wake_everybody() noexcept {
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    wake(region_.control(rank).entered);
    wake(region_.control(rank).reduced);
  }
}

}  // namespace elastictrain::comm
