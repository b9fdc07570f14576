// Purpose: the core's numbered timers on the Asio loop.
// Ownership: owns the timers; destroying it cancels them all. Thread: the io_context's.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

#include "supervisor/protocol/ids.h"

namespace elastictrain {

class Timers {
 public:
  Timers(asio::io_context& io, std::function<void(std::uint64_t)> fired) : io_(io), fired_(std::move(fired)) {}

  // A timer that is armed again counts from the new instant only.
  void arm(std::uint64_t timer, Instant when);
  void cancel(std::uint64_t timer) { timers_.erase(timer); }
  void clear() { timers_.clear(); }

 private:
  void wait(std::uint64_t timer, Instant due, Instant until);

  asio::io_context& io_;
  std::function<void(std::uint64_t)> fired_;
  std::unordered_map<std::uint64_t, std::shared_ptr<asio::steady_timer>> timers_;
};

}  // namespace elastictrain
