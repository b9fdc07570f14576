#include "heuristics/autoscale/throughput_table.h"

#include <algorithm>
#include <cmath>

namespace elastictrain::heuristics {
namespace {

constexpr double kMemorySteps = 400;
constexpr double kMemoryDeviations = 200;
constexpr double kMaxSquare = 9;
// The noise assumed before it is measured: 10 % per step, with the weight of four deviations.
constexpr double kAssumedVariance = 0.01;
constexpr double kAssumedFreedom = 4;

}  // namespace

void ThroughputTable::add(const Interval& interval) {
  const double rate = interval.samples_per_s();
  if (interval.warm_up || interval.steps == 0 || interval.workers == 0 || !(rate > 0)) return;
  auto& size = sizes_[interval.workers];
  const auto steps = static_cast<double>(interval.steps);
  size.steps += steps;
  size.mean_samples_per_s += steps / size.steps * (rate - size.mean_samples_per_s);

  const double off = std::log(rate) - size.log_rate;
  if (size.recent_steps > 0) {
    // A jump is a change of the job, not noise.
    const double square = steps * size.recent_steps / (steps + size.recent_steps) * off * off;
    scatter_ += std::min(square, kMaxSquare * step_deviation() * step_deviation());
    freedom_ += 1;
    if (freedom_ > kMemoryDeviations) {
      scatter_ *= kMemoryDeviations / freedom_;
      freedom_ = kMemoryDeviations;
    }
  }
  size.recent_steps = std::min(size.recent_steps + steps, std::max(kMemorySteps, steps));
  size.log_rate += steps / size.recent_steps * off;
}

void ThroughputTable::add(const std::vector<Interval>& intervals) {
  for (const auto& interval : intervals) add(interval);
}

void ThroughputTable::forget() {
  sizes_.clear();
}

void ThroughputTable::forget(std::uint32_t workers) {
  sizes_.erase(workers);
}

void ThroughputTable::shift(double log_rate) {
  for (auto& [workers, size] : sizes_) {
    size.log_rate += log_rate;
    size.mean_samples_per_s *= std::exp(log_rate);
  }
}

const SizeStatistics* ThroughputTable::at(std::uint32_t workers) const {
  const auto found = sizes_.find(workers);
  return found == sizes_.end() ? nullptr : &found->second;
}

std::optional<LogRate> ThroughputTable::log_rate(std::uint32_t workers) const {
  const auto* size = at(workers);
  if (!size) return std::nullopt;
  return LogRate{size->log_rate, step_deviation() / std::sqrt(size->recent_steps)};
}

double ThroughputTable::step_deviation() const {
  return std::sqrt((scatter_ + kAssumedFreedom * kAssumedVariance) / (freedom_ + kAssumedFreedom));
}

double scaling_efficiency(std::uint32_t workers, double rate, std::uint32_t more_workers, double more_rate) {
  if (more_workers <= workers || workers == 0 || !(rate > 0)) return 0;
  return (more_rate - rate) / (more_workers - workers) / (rate / workers);
}

double marginal_efficiency(std::uint32_t workers, double log_rate, std::uint32_t other, double other_log_rate) {
  if (workers == other || workers == 0 || other == 0) return 0;
  return (other_log_rate - log_rate) / std::log(static_cast<double>(other) / workers);
}

}  // namespace elastictrain::heuristics
