#include "heuristics/autoscale/step_parts.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace elastictrain::heuristics {
namespace {

constexpr double kPartsMemorySteps = 100;
// Of a size that is compared with the present one, the rest of a step has at most this multiple of its present share.
constexpr double kOtherShare = 2;

}  // namespace

void StepParts::add(const JobView& job) {
  double steps = 0;
  double step_s = 0;
  double compute_s = 0;
  for (const WorkerView& member : job.members) {
    const auto weight = static_cast<double>(member.steps);
    steps += weight;
    step_s += weight * member.step_s;
    compute_s += weight * member.compute_s;
  }
  if (!(steps > 0)) return;
  const double added = steps / static_cast<double>(job.members.size());
  steps_ = std::min(steps_ + added, std::max(kPartsMemorySteps, added));
  step_s_ += added / steps_ * (step_s / steps - step_s_);
  compute_s_ += added / steps_ * (compute_s / steps - compute_s_);
}

double unevenness(const StepParts& before, const StepParts& after) {
  if (!before.is_known() || !after.is_known()) return std::numeric_limits<double>::infinity();
  const double compute = after.compute_s() / before.compute_s();
  const double rest = after.rest_s() / before.rest_s();
  const double share = before.rest_s() / (before.compute_s() + before.rest_s());
  const double most = std::min(1.0, kOtherShare * share);
  const auto changed = [&](double rest_share) { return std::log(compute * (1 - rest_share) + rest * rest_share); };
  return std::max(std::abs(changed(most) - changed(share)), std::abs(changed(0) - changed(share)));
}

}  // namespace elastictrain::heuristics
