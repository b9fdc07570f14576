#include "supervisor/policy/noise_watch.h"

#include <algorithm>
#include <cmath>

namespace elastictrain::policy {
namespace {

constexpr double kKnown = 0.3;  // relative error below which the noise scale is used
constexpr double kDrift = 0.1;  // change of the learning rate that justifies a new generation
constexpr double kGrown = 0.4;  // as kDrift, of a lower bound, which grows with every measurement

}  // namespace

void NoiseWatch::add(const heuristics::JobView& job) {
  noise_.add(job.norms);
  base_batch_ = static_cast<double>(job.base_batch);
  largest_batch_ = static_cast<double>(heuristics::global_batch(job.batch, max_workers_));
}

double NoiseWatch::gain(double noise_scale) const {
  return heuristics::adascale_gain(noise_scale, std::max(largest_batch_, base_batch_), base_batch_);
}

std::optional<double> NoiseWatch::take_news() {
  if (rule_ != heuristics::LearningRateRule::kAdaScale) return std::nullopt;
  const bool known = noise_.value() && noise_.relative_error().value_or(1) <= kKnown;
  const auto scale = known ? noise_.value() : noise_.at_least();
  if (!scale) return std::nullopt;
  const double change = std::log(gain(*scale) / gain(reported_));
  if (known ? std::abs(change) <= kDrift : change <= kGrown) return std::nullopt;
  reported_ = *scale;
  return reported_;
}

}  // namespace elastictrain::policy
