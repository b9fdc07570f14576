#include "supervisor/policy/noise_watch.h"

#include <algorithm>
#include <cmath>

namespace elastictrain::policy {
namespace {

constexpr double kKnown = 0.3;  // relative error below which the noise scale is used
constexpr double kDrift = 0.1;  // change of the learning rate that justifies a new generation

}  // namespace

NoiseWatch::NoiseWatch(heuristics::LearningRateRule rule, const ObserverSettings& observer)
    : is_asked_(rule == heuristics::LearningRateRule::kAdaScale),
      base_batch_(static_cast<double>(observer.base_batch)),
      largest_batch_(static_cast<double>(heuristics::global_batch(observer.batch, observer.max_workers))) {}

double NoiseWatch::gain(double noise_scale) const {
  return heuristics::adascale_gain(noise_scale, std::max(largest_batch_, base_batch_), base_batch_);
}

std::optional<double> NoiseWatch::take_news() {
  if (!is_asked_ || !noise_.value() || noise_.relative_error().value_or(1) > kKnown) return std::nullopt;
  if (std::abs(std::log(gain(*noise_.value()) / gain(reported_))) <= kDrift) return std::nullopt;
  reported_ = *noise_.value();
  return reported_;
}

}  // namespace elastictrain::policy
