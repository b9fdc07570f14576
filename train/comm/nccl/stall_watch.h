// Purpose: detects that the training generation stalls while the next one is built next to it, as it does when both
// wait for the same device (NCCL issues 195, 750, 1082). Thread: one. Failure: none. A stall is the time of k normal
// steps without a step, but at least the floor. A pause is none.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "train/comm/nccl/nccl_communicator.h"

namespace elastictrain::comm {

class StallWatch {
 public:
  bool stands_still(const StepClock& clock, std::chrono::steady_clock::time_point now) {
    if (!last_ || clock.steps != steps_ || clock.pauses) {
      last_ = now;
      steps_ = clock.steps;
    }
    if (clock.normal.count() == 0) return false;
    return now - *last_ > std::max<std::chrono::microseconds>(kNormalSteps * clock.normal, kFloor);
  }

 private:
  static constexpr int kNormalSteps = 10;
  static constexpr std::chrono::milliseconds kFloor{500};
  std::uint64_t steps_ = 0;
  std::optional<std::chrono::steady_clock::time_point> last_;
};

}  // namespace elastictrain::comm
