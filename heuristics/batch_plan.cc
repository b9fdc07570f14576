#include "heuristics/batch_plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

namespace elastictrain::heuristics {

std::uint32_t max_workers(const BatchRule& rule) {
  constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint32_t>::max();
  if (rule.max_global == 0) return kUnlimited;
  // A worker without a sample would only wait for the others, so splitting stops at one sample each.
  const std::uint64_t each = rule.at_limit == AtLimit::kStop ? std::max(rule.per_worker, 1U) : 1U;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(rule.max_global / each, 1, kUnlimited));
}

std::uint64_t global_batch(const BatchRule& rule, std::size_t workers) {
  const std::uint64_t target = std::uint64_t{rule.per_worker} * workers;
  return rule.max_global == 0 ? target : std::min(target, rule.max_global);
}

namespace {

std::vector<std::uint32_t> equal_shares(std::uint64_t global, std::size_t workers) {
  std::vector<std::uint32_t> shares(workers, static_cast<std::uint32_t>(global / workers));
  for (std::uint64_t rank = 0; rank < global % workers; ++rank) ++shares[rank];
  return shares;
}

bool are_speeds(const std::vector<double>& speeds) {
  return std::all_of(speeds.begin(), speeds.end(), [](double speed) { return speed > 0 && std::isfinite(speed); });
}

// Ranks ordered by when they finish one more sample; the first gets it. Ties are in rank order.
class NextSample {
 public:
  NextSample(const std::vector<double>& speeds, const std::vector<std::uint32_t>& shares, std::uint64_t max)
      : speeds_(speeds), shares_(shares), max_(max) {
    for (std::size_t rank = 0; rank < speeds.size(); ++rank) put(rank);
  }
  void put(std::size_t rank) {
    if (shares_[rank] < max_) ends_.emplace((shares_[rank] + 1) / speeds_[rank], rank);
  }
  std::size_t take() {
    const std::size_t rank = ends_.top().second;
    ends_.pop();
    return rank;
  }

 private:
  using End = std::pair<double, std::size_t>;
  const std::vector<double>& speeds_;
  const std::vector<std::uint32_t>& shares_;
  std::uint64_t max_;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
};

}  // namespace

std::vector<std::uint32_t> share_out(std::uint64_t global, const std::vector<double>& speeds, std::uint32_t max_share) {
  const std::size_t workers = speeds.size();
  if (workers == 0) return {};
  if (global < workers || !are_speeds(speeds)) return equal_shares(global, workers);
  const std::uint64_t needed = (global + workers - 1) / workers;
  const std::uint64_t max = max_share == 0 ? global : std::max<std::uint64_t>(max_share, needed);
  const double sum = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  std::vector<std::uint32_t> shares(workers);
  std::uint64_t left = global;
  for (std::size_t rank = 0; rank < workers; ++rank) {
    // At least one less than the exact share is reserved for the queue, which then also redistributes what the limits
    // cut.
    const double exact = static_cast<double>(global) * speeds[rank] / sum;
    const auto whole = static_cast<std::uint64_t>(std::max(1.0, std::floor(exact) - 1));
    shares[rank] = static_cast<std::uint32_t>(std::min({whole, max, left - (workers - rank - 1)}));
    left -= shares[rank];
  }
  NextSample next(speeds, shares, max);
  for (; left > 0; --left) {
    const std::size_t rank = next.take();
    ++shares[rank];
    next.put(rank);
  }
  return shares;
}

BatchPlan plan_batch(const BatchRule& rule, std::uint32_t workers) {
  if (workers == 0) return {};
  const std::uint64_t global = global_batch(rule, workers);
  return {global, equal_shares(global, workers)};
}

BatchPlan plan_batch(const BatchRule& rule, const std::vector<double>& speeds) {
  if (speeds.empty()) return {};
  const std::uint64_t global = global_batch(rule, speeds.size());
  return {global, share_out(global, speeds, rule.max_share)};
}

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
