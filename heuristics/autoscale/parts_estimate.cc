#include "heuristics/autoscale/parts_estimate.h"

#include <cmath>

namespace elastictrain::heuristics {
namespace {

double share_of(const BatchRule& batch, std::uint32_t workers) {
  return static_cast<double>(global_batch(batch, workers)) / workers;
}

}  // namespace

SizeParts parts_of(const BatchRule& batch, std::uint32_t workers, double log_rate, double rest_share) {
  const double share = share_of(batch, workers);
  const double step_s = share * workers * std::exp(-log_rate);
  return {(1 - rest_share) * step_s / share, rest_share * step_s};
}

double rest_gain(const BatchRule& batch, const SizeParts& known, std::uint32_t workers) {
  const double compute_s = known.sample_s * share_of(batch, workers);
  return std::log((compute_s + known.rest_s) / compute_s);
}

double efficiency_bound(const BatchRule& batch, const SizeParts& known, std::uint32_t from, std::uint32_t to) {
  const auto log_rate = [&](std::uint32_t workers) {
    const double share = share_of(batch, workers);
    return std::log(share * workers / (known.sample_s * share + known.rest_s));
  };
  return (log_rate(to) - log_rate(from)) / std::log(static_cast<double>(to) / from);
}

}  // namespace elastictrain::heuristics
