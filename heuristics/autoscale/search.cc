#include "heuristics/autoscale/search.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace elastictrain::heuristics {

Objective efficiency_objective(double target) {
  return [target](std::uint32_t workers, double log_rate) { return log_rate - target * std::log(workers); };
}

Objective cost_objective(Utility utility, Prices prices, double elapsed_s, double rest) {
  static constexpr double kMin = 1e-12;  // of a size without cost
  return [utility = std::move(utility), prices = std::move(prices), elapsed_s, rest](std::uint32_t workers,
                                                                                     double log_rate) {
    const double seconds = rest * std::exp(-log_rate);
    const double falls = utility(elapsed_s) - utility(elapsed_s + seconds);
    return -std::log(std::max(falls + seconds * prices.per_s(workers), kMin));
  };
}

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

namespace {

// Prior of the marginal efficiency, and of its deviation from smooth saturation.
constexpr double kFirstMeanAbove = 0.6;  // the user's size is more often too small than too large
constexpr double kFirstMeanBelow = 0.5;
constexpr double kFirstDeviation = 0.35;
constexpr double kBoundDeviation = 0.2;  // of an efficiency that is expected to reach its bound
constexpr double kLeastDeviation = 0.1;  // of one between two bounds
constexpr double kBehindCliff = 0.7;     // the mean when the job extends from one host to several
constexpr double kDeviation = 0.15;
constexpr double kDeviationWeight = 2;  // as a number of observed deviations
constexpr double kPath = 0.7;           // sizes between two known ones deviate less by this factor, but in a long job
constexpr double kLongJobDeviation = 0.4;  // of the efficiency beyond the largest size
constexpr double kCloseInLongJob = 1.05;   // sizes at a smaller ratio have none between them that is worth a look
constexpr double kFalling = 0.2;        // decrease of the efficiency per doubling when more workers only slow the job
constexpr double kLastDeviation = 0.5;  // of the efficiency of the last workers of a size
constexpr double kNarrowEnd = 1.02;     // the same if no other size is left
constexpr double kNearlyLinear = 0.8;
constexpr double kRugged = 0.25;   // deviation of the efficiency
constexpr double kNearBest = 0.5;  // of what a size close to the best counts: one further away shows more of the curve
constexpr double kNarrow = 1.3;    // smaller ratios give no reliable efficiency

double distance(std::uint32_t from, std::uint32_t to) {
  return std::log(static_cast<double>(to) / from);
}

double ratio(const Measured& from, const Measured& to) {
  return static_cast<double>(to.workers) / from.workers;
}

double efficiency(const Measured& from, const Measured& to) {
  return (to.log_rate - from.log_rate) / distance(from.workers, to.workers);
}

class Search {
 public:
  Search(const std::vector<Measured>& measured, const Objective& objective, const SearchLimits& limits)
      : measured_(measured), objective_(objective), limits_(limits), best_(measured[best_of(measured)]) {
    for (const auto& size : measured) {
      auto& world = several_hosts(size.workers) ? several_ : one_;
      if (world.empty() || ratio(world.back(), size) >= kNarrow) world.push_back(size);
    }
    double squares = kDeviationWeight * kDeviation * kDeviation;
    double weight = kDeviationWeight;
    for (const auto* world : {&one_, &several_}) {
      for (std::size_t i = 2; i < world->size(); ++i) {
        const auto &a = (*world)[i - 2], &b = (*world)[i - 1], &c = (*world)[i];
        const double off = efficiency(b, c) - efficiency_beyond(efficiency(a, b), ratio(a, b), ratio(b, c));
        squares += off * off;
        weight += 1;
      }
    }
    deviation_ = std::sqrt(squares / weight);
  }

  std::optional<Probe> next() {
    above();
    below();
    fill_hosts();
    for (std::size_t i = 0; i + 1 < measured_.size(); ++i) gap(i);
    if (!found_) last_eighth();
    again();
    return found_;
  }

 private:
  bool several_hosts(std::uint32_t workers) const { return limits_.host_slots > 1 && workers > limits_.host_slots; }

  // Rounds `workers` to a multiple of whole hosts if it takes several hosts.
  std::uint32_t whole(std::uint32_t workers) const {
    if (!several_hosts(workers)) return workers;
    const std::uint32_t hosts = (workers + limits_.host_slots / 2) / limits_.host_slots;
    return std::min(std::max(hosts, 2U) * limits_.host_slots, limits_.max);
  }

  void above() {
    const std::uint32_t last = measured_.back().workers;
    offer_above(std::uint64_t{2} * last);
    if (limits_.is_long || far_may_be_better()) offer_above(std::uint64_t{4} * last);
    if (!several_hosts(last) && limits_.host_slots > 1) {
      if (last < limits_.host_slots) offer_above(limits_.host_slots);
      for (const std::uint32_t hosts : {2U, 4U}) offer_above(std::uint64_t{hosts} * limits_.host_slots);
    }
  }

  // A larger step needs a reason: nearly linear growth, or a curve that says little about the next size anyway.
  bool far_may_be_better() const {
    const auto& world = several_hosts(measured_.back().workers) ? several_ : one_;
    if (world.size() < 2) return !one_.empty() && !several_.empty();
    return efficiency(world[world.size() - 2], world.back()) > kNearlyLinear || deviation_ > kRugged;
  }

  void offer_above(std::uint64_t target) {
    const Measured& last = measured_.back();
    auto next = static_cast<std::uint32_t>(std::min<std::uint64_t>(target, limits_.max));
    next = limits_.max < kNarrow * next ? limits_.max : whole(next);
    if (next < (next == limits_.max ? kNarrowEnd : kNarrow) * last.workers) return;
    const bool crosses = several_hosts(next) != several_hosts(last.workers);
    const auto& world = several_hosts(last.workers) ? several_ : one_;
    double mean =
        world.size() == 1 && !one_.empty() && !crosses && &world == &several_ ? kBehindCliff : kFirstMeanAbove;
    double deviation = kFirstDeviation;
    if (!crosses && world.size() > 1) {
      mean = beyond(world, static_cast<double>(next) / last.workers);
      deviation = limits_.is_long ? std::max(deviation_, kLongJobDeviation) : deviation_;
    }
    obey_parts_above(last, next, mean, deviation);
    const double far = distance(last.workers, next);
    offer(next, last.log_rate + mean * far, deviation * far);
  }

  void obey_parts_above(const Measured& last, std::uint32_t next, double& mean, double& deviation) const {
    if (!last.parts) return;
    const double most = efficiency_bound(limits_.batch, *last.parts, last.workers, next);
    if (most >= mean) return;
    mean = most;
    deviation = std::min(deviation, kBoundDeviation);
  }

  // At most what the rest gives if it stays, at least what no rest at all gives; the latter only while hosts stay full,
  // because on one that does not, workers may compute faster.
  void obey_parts_below(const Measured& first, std::uint32_t next, double& mean, double& deviation) const {
    if (!first.parts) return;
    const double most = efficiency_bound(limits_.batch, *first.parts, next, first.workers);
    if (next < limits_.host_slots) {
      if (most < mean) deviation = std::min(deviation, kBoundDeviation);
      mean = std::min(mean, most);
      return;
    }
    const double least = most - rest_gain(limits_.batch, *first.parts, next) / distance(next, first.workers);
    mean = std::clamp(mean, std::min(least, most), most);
    deviation = std::min(deviation, std::max((most - least) / 2, kLeastDeviation));
  }

  void below() {
    const std::uint32_t first = measured_.front().workers;
    offer_below((first + 1) / 2);
    if (several_.size() > 1 && one_.empty()) offer_below(limits_.host_slots);
  }

  void offer_below(std::uint32_t target) {
    const Measured& first = measured_.front();
    const std::uint32_t next = target < kNarrow * limits_.min ? limits_.min : whole(target);
    if (first.workers < (next == limits_.min ? kNarrowEnd : kNarrow) * next) return;
    const bool crosses = several_hosts(next) != several_hosts(first.workers);
    const auto& world = several_hosts(first.workers) ? several_ : one_;
    double mean = kFirstMeanBelow;
    double deviation = crosses || world.size() < 2 ? kFirstDeviation : deviation_;
    if (world.size() > 1) mean = below(world, static_cast<double>(first.workers) / next);
    obey_parts_below(first, next, mean, deviation);
    const double far = distance(next, first.workers);
    offer(next, first.log_rate - mean * far, deviation * far);
  }

  // The efficiency over the next `next_ratio` upwards, from the trend if there is one.
  static double beyond(const std::vector<Measured>& world, double next_ratio) {
    const auto &b = world[world.size() - 2], &c = world.back();
    const double last = efficiency(b, c);
    const double smooth = efficiency_beyond(last, ratio(b, c), next_ratio);
    if (world.size() < 3) return smooth;
    const auto& a = world[world.size() - 3];
    const double falls = (efficiency(a, b) - last) / (std::log(ratio(a, c)) / 2);
    const double trend = last - falls * (std::log(ratio(b, c)) + std::log(next_ratio)) / 2;
    return std::min(smooth, trend);
  }

  static double below(const std::vector<Measured>& world, double ratio_below) {
    const auto &a = world[0], &b = world[1];
    const double first = efficiency(a, b);
    const double smooth = efficiency_below(first, ratio(a, b), ratio_below);
    if (world.size() < 3) return smooth;
    const auto& c = world[2];
    const double falls = (first - efficiency(b, c)) / (std::log(ratio(a, c)) / 2);
    const double trend = first + falls * (std::log(ratio(a, b)) + std::log(ratio_below)) / 2;
    return std::clamp(trend, smooth, 1.0);
  }

  // Offers sizes between two measured neighbours.
  void gap(std::size_t i) {
    const Measured &low = measured_[i], &high = measured_[i + 1];
    if (high.workers < closest_with_gap(low, high) * low.workers || high.workers < low.workers + 2) return;
    const bool crosses = several_hosts(low.workers) != several_hosts(high.workers);
    if (crosses && low.workers < limits_.host_slots) offer_between(i, limits_.host_slots, crosses);
    for (const double part : {0.25, 0.5, 0.75}) {
      const double size = low.workers * std::pow(ratio(low, high), part);
      offer_between(i, whole(static_cast<std::uint32_t>(std::lround(size))), crosses);
    }
  }

  // In a long job also the sizes next to the best one are compared, and on a rugged curve all.
  double closest_with_gap(const Measured& low, const Measured& high) const {
    const bool may_hide_better = &low == &best_ || &high == &best_ || deviation_ > kRugged;
    return limits_.is_long && may_hide_better ? kCloseInLongJob : kNarrow;
  }

  // The gap below the best size may hide that its last workers do not pay.
  void last_eighth() {
    if (&best_ == measured_.data()) return;
    const auto i = static_cast<std::size_t>(&best_ - measured_.data()) - 1;
    if (several_hosts(best_.workers) != several_hosts(measured_[i].workers)) return;
    const Measured &low = measured_[i], &high = best_;
    const std::uint32_t size = whole(high.workers - high.workers / 8);
    if (ratio(low, high) < kNarrow || size <= low.workers || size >= high.workers) return;
    const double far = distance(size, high.workers);
    offer(size, high.log_rate - (efficiency(low, high) - curvature(i) * distance(low.workers, size)) * far,
          kLastDeviation * far);
  }

  // All sizes are of whole hosts but the one that the job began with.
  void fill_hosts() {
    const Measured& first = measured_.front();
    const std::uint32_t size = first.workers / limits_.host_slots * limits_.host_slots;
    if (!several_hosts(size) || size == first.workers || size < limits_.min || ratio(first, best_) >= kNarrow) return;
    double mean = several_.size() > 1 ? below(several_, static_cast<double>(first.workers) / size) : kFirstMeanBelow;
    double deviation = kLastDeviation;
    obey_parts_below(first, size, mean, deviation);
    const double far = distance(size, first.workers);
    offer(size, first.log_rate - mean * far, deviation * far);
  }

  void offer_between(std::size_t i, std::uint32_t workers, bool crosses) {
    const Measured &low = measured_[i], &high = measured_[i + 1];
    if (workers <= low.workers || workers >= high.workers) return;
    if (crosses && !several_hosts(workers) && efficiency(low, high) < 0) return offer_before_cliff(low, workers);
    const double from = distance(low.workers, workers), to = distance(workers, high.workers);
    const double line = low.log_rate + efficiency(low, high) * from;
    const double bulge = crosses ? 0 : curvature(i) * from * to;
    const double deviation = crosses ? kFirstDeviation : deviation_;
    // The deviation of a path whose ends are known.
    offer(workers, line + bulge, deviation * std::sqrt(from * to / (from + to)) * (limits_.is_long ? 1 : kPath));
  }

  // A size on one host above `low`, if several hosts were slower than `low`: the loss may come only from the network
  // between hosts.
  void offer_before_cliff(const Measured& low, std::uint32_t workers) {
    const double within = one_.size() > 1 ? beyond(one_, static_cast<double>(workers) / low.workers) : kFirstMeanAbove;
    const double deviation = one_.size() > 1 ? deviation_ : kFirstDeviation;
    const double far = distance(low.workers, workers);
    offer(workers, low.log_rate + within * far, deviation * far);
  }

  // The curvature of ln R over ln k between two neighbours: half of the rate at which the efficiency falls, from the
  // adjacent intervals, else from smooth saturation.
  double curvature(std::size_t i) const {
    const Measured &low = measured_[i], &high = measured_[i + 1];
    const double here = efficiency(low, high);
    double falls = 0;
    int known = 0;
    if (i > 0 && ratio(measured_[i - 1], low) >= kNarrow) {
      falls += (efficiency(measured_[i - 1], low) - here) / (distance(measured_[i - 1].workers, high.workers) / 2);
      ++known;
    }
    if (i + 2 < measured_.size() && ratio(high, measured_[i + 2]) >= kNarrow) {
      falls += (here - efficiency(high, measured_[i + 2])) / (distance(low.workers, measured_[i + 2].workers) / 2);
      ++known;
    }
    if (known == 0) {
      falls =
          (here - efficiency_beyond(here, ratio(low, high), ratio(low, high))) / distance(low.workers, high.workers);
      known = 1;
    }
    return std::max(0.0, falls / known / 2);
  }

  // A size that was measured briefly and came close may have been measured too low.
  void again() {
    for (const auto& size : measured_) {
      if (&size != &best_) offer(size.workers, size.log_rate, size.deviation);
    }
  }

  // `log_rate` is the expected value, `deviation` its standard deviation.
  void offer(std::uint32_t workers, double log_rate, double deviation) {
    const double mean = objective_(workers, log_rate) - best_.value;
    // How much a measurement can reduce the uncertainty.
    const double learned = deviation * deviation / std::hypot(deviation, limits_.noise);
    const double improvement = expected_improvement(mean, learned);
    // Joiners cost before they contribute. Fewer workers are available at once; only growing back takes time.
    const bool up = workers > best_.workers;
    const double loss =
        up ? std::max(best_.value - objective_(workers, best_.log_rate), deviation - mean) : deviation / 2 - mean;
    double cost = (up ? 1 : 0.5) * limits_.probe_s * std::expm1(std::clamp(loss, 0.0, 10.0));
    if (measured_.size() == 1) cost /= 2;  // the second size tells something about all others, too
    double net = improvement * limits_.horizon_s - cost;
    if (limits_.is_long && std::abs(distance(best_.workers, workers)) < std::log(kNarrow)) net *= kNearBest;
    if (improvement < limits_.least || net <= 0 || net <= net_) return;
    found_ = Probe{workers, improvement};
    net_ = net;
  }

  const std::vector<Measured>& measured_;
  const Objective& objective_;
  const SearchLimits& limits_;
  const Measured& best_;
  std::vector<Measured> one_;      // on one host, far enough apart to derive an efficiency
  std::vector<Measured> several_;  // on several hosts
  double deviation_ = kDeviation;
  std::optional<Probe> found_;
  double net_ = 0;
};

}  // namespace

std::size_t best_of(const std::vector<Measured>& measured) {
  const auto best = std::max_element(measured.begin(), measured.end(),
                                     [](const Measured& a, const Measured& b) { return a.value < b.value; });
  return static_cast<std::size_t>(best - measured.begin());
}

std::size_t smallest_good(const std::vector<Measured>& measured, double margin) {
  const double min = measured[best_of(measured)].value - margin;
  const auto good =
      std::find_if(measured.begin(), measured.end(), [&](const Measured& size) { return size.value >= min; });
  return static_cast<std::size_t>(good - measured.begin());
}

std::optional<Probe> next_probe(const std::vector<Measured>& measured, const Objective& objective,
                                const SearchLimits& limits) {
  if (!limits.may_probe) return std::nullopt;
  return Search(measured, objective, limits).next();
}

// With x = a/(k b) at the size k: R(k) / R(k/r) = (r x + 1) / (x + 1).
double efficiency_beyond(double efficiency, double ratio, double next_ratio) {
  const double gain = std::pow(ratio, efficiency);
  if (gain >= ratio) return 1;
  if (gain <= 1) return efficiency - kFalling * (std::log2(ratio) + std::log2(next_ratio)) / 2;
  const double x = (gain - 1) / (ratio - gain);
  return std::log((x + 1) / (x / next_ratio + 1)) / std::log(next_ratio);
}

double efficiency_below(double efficiency, double ratio, double ratio_below) {
  const double gain = std::pow(ratio, efficiency);
  if (gain >= ratio) return 1;
  if (gain <= 1) return efficiency + kFalling * (std::log2(ratio) + std::log2(ratio_below)) / 2;
  const double x = ratio * (gain - 1) / (ratio - gain);  // at the lower end of the known interval
  return std::log((ratio_below * x + 1) / (x + 1)) / std::log(ratio_below);
}

double expected_improvement(double mean, double deviation) {
  if (!(deviation > 0)) return std::max(mean, 0.0);
  const double z = mean / deviation;
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  return mean * std::erfc(-z / std::numbers::sqrt2) / 2 + deviation * density;
}

}  // namespace elastictrain::heuristics
