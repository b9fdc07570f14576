#include "heuristics/learning_rate.h"

#include <algorithm>
#include <cmath>

namespace elastictrain::heuristics {

double adascale_gain(double noise_scale, double batch, double base_batch) {
  if (!(batch > 0) || !(base_batch > 0)) return 1.0;
  if (std::isinf(noise_scale) && noise_scale > 0) return batch / base_batch;
  const double noise = std::isfinite(noise_scale) ? std::max(noise_scale, 0.0) : 0.0;
  return (noise / base_batch + 1) / (noise / batch + 1);
}

double learning_rate_factor(LearningRateRule rule, std::uint64_t batch, std::uint64_t base_batch, double noise_scale) {
  if (rule == LearningRateRule::kNone || batch == 0 || base_batch == 0) return 1.0;
  const auto now = static_cast<double>(batch);
  const auto base = static_cast<double>(base_batch);
  if (rule == LearningRateRule::kAdaScale) return adascale_gain(noise_scale, now, base);
  return rule == LearningRateRule::kLinear ? now / base : std::sqrt(now / base);
}

}  // namespace elastictrain::heuristics
