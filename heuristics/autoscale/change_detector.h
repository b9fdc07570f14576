// Purpose: says when a settled job's throughput has become another one: a cumulative sum on each side (Page 1954), so
// that a large change is seen within few steps, a small lasting one later, and noise never.
//
// The first steps settle what it compares with. Pure. Rates are natural logarithms; `noise` is the standard deviation
// of one step's.
#pragma once

namespace elastictrain::heuristics {

class ChangeDetector {
 public:
  ChangeDetector() = default;
  // Changes of `change` (0.1: 10 %) and more count.
  explicit ChangeDetector(double change) : slack_(change / 2) {}

  void add(double log_rate, double steps, double noise);
  bool changed() const { return changed_; }
  double reference() const { return reference_; }

 private:
  double reference_ = 0;
  double reference_steps_ = 0;
  double slack_ = 0.05;
  double above_ = 0;
  double below_ = 0;
  bool changed_ = false;
};

}  // namespace elastictrain::heuristics
