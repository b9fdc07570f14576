// Purpose: detects a lasting change in the throughput of a settled job. A cumulative sum on each side (Page 1954) finds
// a large change within few steps, a small lasting change later, and ignores noise.
//
// The first steps set the reference. Pure. Rates are natural logarithms; `noise` is the standard deviation of the rate
// of one step.
#pragma once

namespace elastictrain::heuristics {

class ChangeDetector {
 public:
  ChangeDetector() = default;
  // Changes of at least `change` (0.1: 10 %) count, from what is known already: the mean rate over so many steps.
  explicit ChangeDetector(double change, double log_rate = 0, double steps = 0);

  // `usual`: the rate as all steps at this size say it, which is the reference until enough are known.
  void add(double log_rate, double steps, double noise, double usual);
  bool changed() const { return changed_; }
  double reference() const { return reference_; }
  // Steps that are off on one side, so far.
  bool suspects() const { return above_ > 0 || below_ > 0; }

 private:
  double reference_ = 0;
  double reference_steps_ = 0;
  double slack_ = 0.05;
  double above_ = 0;
  double below_ = 0;
  bool changed_ = false;
};

}  // namespace elastictrain::heuristics
