#include "heuristics/learning_rate.h"

#include <cmath>

namespace elastictrain::heuristics {

double learning_rate_factor(LearningRateRule rule, std::uint64_t batch, std::uint64_t base_batch) {
  if (rule == LearningRateRule::kNone || batch == 0 || base_batch == 0) return 1.0;
  const double ratio = static_cast<double>(batch) / static_cast<double>(base_batch);
  return rule == LearningRateRule::kLinear ? ratio : std::sqrt(ratio);
}

}  // namespace elastictrain::heuristics
