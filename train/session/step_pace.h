// Purpose: counts committed steps and measures how long one takes, to detect that training has stopped making progress.
// Thread: step_done() and pauses() on the training thread, clock() on any.
#pragma once

#include <atomic>
#include <chrono>

#include "train/comm/nccl/nccl_communicator.h"

namespace elastictrain::session {

class StepPace {
 public:
  void step_done(std::chrono::steady_clock::time_point now) {
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(now - last_).count();
    const auto known = normal_us_.load(std::memory_order_relaxed);
    // The mean of about the last ten steps; the first interval does not count.
    const bool goes_on = last_ != std::chrono::steady_clock::time_point{};
    if (goes_on) normal_us_.store(known == 0 ? took : known + (took - known) / 10, std::memory_order_relaxed);
    last_ = now;
    steps_.fetch_add(1, std::memory_order_relaxed);
  }

  // No step follows for some time.
  void pauses() { last_ = {}; }

  // No step is expected: an evaluation, for example. Any thread.
  void phase_is_long(bool is) { long_phase_.store(is, std::memory_order_relaxed); }

  comm::StepClock clock() const {
    return {.steps = steps_.load(std::memory_order_relaxed),
            .normal = std::chrono::microseconds(normal_us_.load(std::memory_order_relaxed)),
            .pauses = long_phase_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<std::uint64_t> steps_{0};
  std::atomic<long long> normal_us_{0};
  std::atomic<bool> long_phase_{false};
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace elastictrain::session
