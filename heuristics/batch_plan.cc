#include "heuristics/batch_plan.h"

#include <algorithm>
#include <limits>

namespace elastictrain::heuristics {

std::uint32_t most_workers(const BatchRule& rule) {
  constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint32_t>::max();
  if (rule.max_global == 0) return kUnlimited;
  // A worker without a sample would only wait for the others, so splitting ends at one sample each.
  const std::uint64_t each = rule.at_limit == AtLimit::kStop ? std::max(rule.per_worker, 1U) : 1U;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(rule.max_global / each, 1, kUnlimited));
}

BatchPlan plan_batch(const BatchRule& rule, std::uint32_t workers) {
  BatchPlan plan;
  if (workers == 0) return plan;
  plan.global = std::uint64_t{rule.per_worker} * workers;
  if (rule.max_global != 0) plan.global = std::min(plan.global, rule.max_global);
  const auto base = static_cast<std::uint32_t>(plan.global / workers);
  const std::uint64_t larger = plan.global % workers;
  plan.shares.assign(workers, base);
  for (std::uint64_t rank = 0; rank < larger; ++rank) ++plan.shares[rank];
  return plan;
}

}  // namespace elastictrain::heuristics
