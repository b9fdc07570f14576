#include "heuristics/autoscale/throughput_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace elastictrain::heuristics {
namespace {

constexpr std::size_t kLeastIntervals = 8;  // that are kept, however many steps they have
constexpr double kMemoryDeviations = 200;
constexpr double kMaxSquare = 9;
// The noise assumed before it is measured: 10 % per step, with the weight of four deviations.
constexpr double kAssumedVariance = 0.01;
constexpr double kAssumedFreedom = 4;

// Huber's limit, in standard deviations, and of normal noise: how much lies within, and the mean square of what is cut.
constexpr double kLimit = 1.345;
constexpr double kNear = 0.8214;
constexpr double kCutSquare = 0.7102;
constexpr double kLeastNear = 0.2;
constexpr double kFar = 4;                 // standard deviations, which normal noise exceeds once in 16,000 times
constexpr double kManyFar = 0.01;          // of all intervals
constexpr std::size_t kManyIntervals = 7;  // of which half are hardly ever far off
constexpr int kIterations = 20;

double middle_of(const std::deque<SizeStatistics::Part>& parts) {
  std::vector<SizeStatistics::Part> sorted(parts.begin(), parts.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.log_rate < b.log_rate; });
  double steps = 0;
  for (const auto& part : sorted) steps += part.steps;
  double below = 0;
  for (std::size_t i = 0; i + 1 < sorted.size(); ++i) {
    below += sorted[i].steps;
    if (below == steps / 2) return (sorted[i].log_rate + sorted[i + 1].log_rate) / 2;
    if (below > steps / 2) return sorted[i].log_rate;
  }
  return sorted.back().log_rate;
}

// Huber's location of intervals whose steps have the standard deviation `scale`, from their median.
double location_of(const std::deque<SizeStatistics::Part>& parts, double scale) {
  double location = middle_of(parts);
  for (int i = 0; i < kIterations; ++i) {
    double weights = 0;
    double sum = 0;
    for (const auto& part : parts) {
      const double off = std::abs(part.log_rate - location) * std::sqrt(part.steps);
      const double weight = part.steps * (off > kLimit * scale ? kLimit * scale / off : 1);
      weights += weight;
      sum += weight * (part.log_rate - location);
    }
    location += sum / weights;
  }
  return location;
}

}  // namespace

void ThroughputTable::add(const Interval& interval) {
  const double rate = interval.samples_per_s();
  if (interval.warm_up || interval.steps == 0 || interval.workers == 0 || !(rate > 0)) return;
  auto& size = sizes_[interval.workers];
  const auto steps = static_cast<double>(interval.steps);
  size.steps += steps;
  size.mean_samples_per_s += steps / size.steps * (rate - size.mean_samples_per_s);

  const double off = std::log(rate) - size.log_rate;
  if (size.recent_steps > 0) add_scatter(steps * size.recent_steps / (steps + size.recent_steps) * off * off);
  size.recent.push_back({steps, std::log(rate)});
  size.recent_steps += steps;
  if (has_changed(size)) forget_before_change(size);
  while (size.recent.size() > kLeastIntervals && size.recent_steps - size.recent.front().steps >= kMemorySteps) {
    size.recent_steps -= size.recent.front().steps;
    size.recent.pop_front();
  }
  size.log_rate = location_of(size.recent, robust_scale());
}

// Steps that are far off one by one are outliers; as many in a row, to the same side, are what steps now take.
bool ThroughputTable::has_changed(const SizeStatistics& size) const {
  if (size.recent.size() <= kManyIntervals) return false;
  const auto all_are = [&](double side) {
    return std::all_of(size.recent.end() - kManyIntervals, size.recent.end(), [&](const auto& part) {
      return side * (part.log_rate - size.log_rate) * std::sqrt(part.steps) > kFar * robust_scale();
    });
  };
  return all_are(1) || all_are(-1);
}

void ThroughputTable::forget_before_change(SizeStatistics& size) {
  size.recent.erase(size.recent.begin(), size.recent.end() - kManyIntervals);
  size.recent_steps = 0;
  for (const auto& part : size.recent) size.recent_steps += part.steps;
}

// A jump is a change of the job, not noise.
void ThroughputTable::add_scatter(double square) {
  scatter_ += std::min(square, kMaxSquare * step_deviation() * step_deviation());
  const double limit = kLimit * kLimit * robust_scale() * robust_scale();
  robust_scatter_ += std::min(square, limit);
  near_ += square <= limit ? 1 : 0;
  far_ += square > kFar * kFar / (kLimit * kLimit) * limit ? 1 : 0;
  freedom_ += 1;
  if (freedom_ <= kMemoryDeviations) return;
  const double kept = kMemoryDeviations / freedom_;
  scatter_ *= kept;
  robust_scatter_ *= kept;
  near_ *= kept;
  far_ *= kept;
  freedom_ = kMemoryDeviations;
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
    for (auto& part : size.recent) part.log_rate += log_rate;
  }
}

const SizeStatistics* ThroughputTable::at(std::uint32_t workers) const {
  const auto found = sizes_.find(workers);
  return found == sizes_.end() ? nullptr : &found->second;
}

std::optional<LogRate> ThroughputTable::log_rate(std::uint32_t workers) const {
  const auto* size = at(workers);
  if (!size) return std::nullopt;
  const double deviation = size->recent.size() < intervals_needed() ? step_deviation() : robust_deviation();
  return LogRate{size->log_rate, deviation / std::sqrt(size->recent_steps)};
}

double ThroughputTable::step_deviation() const {
  return std::sqrt((scatter_ + kAssumedFreedom * kAssumedVariance) / (freedom_ + kAssumedFreedom));
}

std::optional<double> ThroughputTable::log_rate_of(const std::vector<Interval>& intervals) const {
  std::deque<SizeStatistics::Part> parts;
  for (const auto& interval : intervals) {
    if (interval.steps > 0 && interval.seconds() > 0)
      parts.push_back({static_cast<double>(interval.steps), std::log(interval.samples_per_s())});
  }
  if (parts.empty()) return std::nullopt;
  return location_of(parts, robust_scale());
}

std::size_t ThroughputTable::intervals_needed() const {
  return far_ > kManyFar * (freedom_ + kAssumedFreedom) ? kManyIntervals : 1;
}

double ThroughputTable::robust_scale() const {
  return std::sqrt((robust_scatter_ / kCutSquare + kAssumedFreedom * kAssumedVariance) / (freedom_ + kAssumedFreedom));
}

// The variance of Huber's location: the mean square of what is cut over the square of the share that is not.
double ThroughputTable::robust_deviation() const {
  const double near = (near_ + kAssumedFreedom * kNear) / (freedom_ + kAssumedFreedom);
  return robust_scale() * std::sqrt(kCutSquare) / std::max(near, kLeastNear);
}

double scaling_efficiency(std::uint32_t workers, double rate, std::uint32_t more_workers, double more_rate) {
  if (more_workers <= workers || workers == 0 || !(rate > 0)) return 0;
  return (more_rate - rate) / (more_workers - workers) / (rate / workers);
}

double marginal_efficiency(std::uint32_t workers, double log_rate, std::uint32_t other, double other_log_rate) {
  if (workers == other || workers == 0 || other == 0) return 0;
  return (other_log_rate - log_rate) / std::log(static_cast<double>(other) / workers);
}

namespace {

constexpr double kSlopeVariance = 0.5;  // of the change of the efficiency over a factor of e in size, of a smooth curve
constexpr std::array kRuggedness{1.0, 4.0, 16.0, 64.0};  // its multiples that are compared
constexpr double kMinDeviation = 1e-4;                   // of a rate, so that no rate counts as exact

using Matrix = std::vector<std::vector<double>>;

struct Inverse {
  Matrix matrix;
  double log_determinant = 0;  // of what was inverted
};

// Inverts a symmetric positive definite matrix by Gauss-Jordan elimination.
Inverse inverse(Matrix matrix) {
  const std::size_t n = matrix.size();
  Inverse result{Matrix(n, std::vector<double>(n))};
  for (std::size_t i = 0; i < n; ++i) result.matrix[i][i] = 1;
  for (std::size_t column = 0; column < n; ++column) {
    const double pivot = matrix[column][column];
    result.log_determinant += std::log(pivot);
    for (std::size_t j = 0; j < n; ++j) {
      matrix[column][j] /= pivot;
      result.matrix[column][j] /= pivot;
    }
    for (std::size_t row = 0; row < n; ++row) {
      const double factor = matrix[row][column];
      if (row == column || factor == 0) continue;
      for (std::size_t j = 0; j < n; ++j) {
        matrix[row][j] -= factor * matrix[column][j];
        result.matrix[row][j] -= factor * result.matrix[column][j];
      }
    }
  }
  return result;
}

// Weights of a change of slope at the middle of three sizes.
void add_bend(Matrix& precision, std::size_t i, double left, double right, double variance) {
  const std::array<double, 3> bend{1 / left, -1 / left - 1 / right, 1 / right};
  const double weight = 1 / (variance * (left + right) / 2);
  for (std::size_t a = 0; a < 3; ++a) {
    for (std::size_t b = 0; b < 3; ++b) precision[i + a][i + b] += weight * bend[a] * bend[b];
  }
}

// Adds the weights of all changes of slope. Returns their number.
std::size_t add_bends(Matrix& precision, const std::vector<NoisyRate>& rates, std::uint32_t cut_after,
                      double variance) {
  std::size_t bends = 0;
  for (std::size_t i = 0; i + 2 < rates.size(); ++i) {
    if (rates[i].workers <= cut_after && rates[i + 2].workers > cut_after) continue;
    const auto distance = [&](std::size_t from) {
      return std::log(static_cast<double>(rates[from + 1].workers) / rates[from].workers);
    };
    add_bend(precision, i, distance(i), distance(i + 1), variance);
    ++bends;
  }
  return bends;
}

struct Fit {
  std::vector<LogRate> rates;
  double log_likelihood = 0;  // of the measured rates, up to a constant
};

Fit fit(const std::vector<NoisyRate>& rates, std::uint32_t cut_after, double variance) {
  const std::size_t n = rates.size();
  Matrix precision(n, std::vector<double>(n));
  std::vector<double> weights(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double deviation = std::max(rates[i].rate.deviation, kMinDeviation);
    precision[i][i] += weights[i] = 1 / (deviation * deviation);
  }
  const std::size_t bends = add_bends(precision, rates, cut_after, variance);
  const Inverse covariance = inverse(std::move(precision));
  Fit result{std::vector<LogRate>(n)};
  double squares = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double first = rates[0].rate.value;  // levels do not count
    double value = 0;
    for (std::size_t j = 0; j < n; ++j) value += covariance.matrix[i][j] * weights[j] * (rates[j].rate.value - first);
    const double measured = rates[i].rate.value - first;
    squares += weights[i] * measured * (measured - value);
    result.rates[i] = {first + value, std::sqrt(covariance.matrix[i][i])};
  }
  result.log_likelihood = -(covariance.log_determinant + static_cast<double>(bends) * std::log(variance) + squares) / 2;
  return result;
}

}  // namespace

std::vector<LogRate> smoothed(const std::vector<NoisyRate>& rates, std::uint32_t cut_after) {
  if (rates.empty()) return {};
  Fit best;
  for (const double times : kRuggedness) {
    Fit found = fit(rates, cut_after, times * kSlopeVariance);
    if (best.rates.empty() || found.log_likelihood > best.log_likelihood) best = std::move(found);
  }
  return best.rates;
}

}  // namespace elastictrain::heuristics
