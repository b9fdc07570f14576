#include "supervisor/timers.h"

namespace elastictrain {

void Timers::arm(std::uint64_t timer, Instant when) {
  auto clock = std::make_shared<asio::steady_timer>(io_, when);
  timers_[timer] = clock;
  // The weak pointer tells a timer that was cancelled or replaced while its expiry was already queued.
  clock->async_wait([this, timer, weak = std::weak_ptr(clock)](asio::error_code error) {
    if (error || weak.expired()) return;
    timers_.erase(timer);
    fired_(timer);
  });
}

}  // namespace elastictrain
