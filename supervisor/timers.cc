#include "supervisor/timers.h"

#include <asio/error_code.hpp>
#include <chrono>

namespace elastictrain {
namespace {

// A loop that comes this late was delayed (a suspended process, a very large plan). Data that arrived meanwhile is
// still unread, and a timer that watches for silence must not fire before it is read: it waits once more.
constexpr std::chrono::milliseconds kHeldUp{100};
constexpr std::chrono::milliseconds kCatchUp{500};

}  // namespace

void Timers::arm(std::uint64_t timer, Instant when) {
  wait(timer, when, when);
}

void Timers::wait(std::uint64_t timer, Instant due, Instant until) {
  auto clock = std::make_shared<asio::steady_timer>(io_, until);
  timers_[timer] = clock;
  // The weak pointer identifies a timer that was cancelled or replaced while its expiry was already queued.
  clock->async_wait([this, timer, due, until, weak = std::weak_ptr(clock)](asio::error_code error) {
    if (error || weak.expired()) return;
    const auto now = std::chrono::steady_clock::now();
    if (due == until && now - due > kHeldUp) {
      return wait(timer, due, std::chrono::time_point_cast<Instant::duration>(now + kCatchUp));
    }
    timers_.erase(timer);
    fired_(timer);
  });
}

}  // namespace elastictrain
