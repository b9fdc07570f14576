#include "heuristics/autoscale/change_detector.h"

#include <algorithm>

namespace elastictrain::heuristics {
namespace {

// With this slack, a sum of normal noise exceeds its threshold about once in e^25 steps.
constexpr double kRareness = 25;
constexpr double kReferenceSteps = 100;
constexpr double kMinStepsOfChange = 10;  // that a change must last

}  // namespace

ChangeDetector::ChangeDetector(double change, double log_rate, double steps)
    : reference_(log_rate), reference_steps_(std::min(steps, kReferenceSteps)), slack_(change / 2) {}

void ChangeDetector::add(double log_rate, double steps, double noise, double usual) {
  if (reference_steps_ < kReferenceSteps) {
    reference_steps_ += steps;
    reference_ = usual;
    return;
  }
  const double off = log_rate - reference_;
  above_ = std::max(0.0, above_ + steps * (off - slack_));
  below_ = std::max(0.0, below_ + steps * (-off - slack_));
  const double threshold = std::max(kRareness * noise * noise / (2 * slack_), kMinStepsOfChange * slack_);
  changed_ = changed_ || above_ > threshold || below_ > threshold;
}

}  // namespace elastictrain::heuristics
