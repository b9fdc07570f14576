// Purpose: limits how much is sent: a number of units at once, refilled at a steady rate (a token bucket). Pure.
// Thread: its owner's. Failure: none.
#pragma once

#include <algorithm>
#include <chrono>

namespace elastictrain::protocol {

class Allowance {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  Allowance(double at_once, double per_second) : at_once_(at_once), per_second_(per_second), left_(at_once) {}

  // Takes the units if all of them are left.
  bool take(TimePoint now, double units = 1) {
    const double seconds = std::chrono::duration<double>(now - seen_).count();
    left_ = std::min(at_once_, left_ + std::max(seconds, 0.0) * per_second_);
    seen_ = now;
    if (units > left_) return false;
    left_ -= units;
    return true;
  }

 private:
  double at_once_;
  double per_second_;
  double left_;
  TimePoint seen_{};
};

}  // namespace elastictrain::protocol
