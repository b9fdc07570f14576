// Purpose: the throughput of a job at each size, and a smooth curve through noisy rates. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "heuristics/policy/view.h"

// The throughput of a job at each size, from the intervals of its views. Warm-up is excluded.
//
// It keeps two statistics. The first is that of Or et al. 2020 (algorithms A1): the mean of all samples ever seen at a
// size. The second is recent and has a confidence: the logarithm of the rate over the last intervals. A few steps that
// take many times as long must not decide between sizes, so both its location and its scale are Huber's (1964, with
// proposal 2 for the scale): an interval within 1.345 standard deviations counts by its steps, one further away by
// less, which gives up 5 % of the precision where noise is normal. The scale is pooled over sizes, since noise is a
// property of the machines. It is measured between intervals, so correlated noise within an interval counts in full.
// Seven intervals in a row that are far off to one side are a change of the job: what was before is forgotten.
//
// Limit: a size whose only fault is that it has more such steps than another looks as good as that one.

namespace elastictrain::heuristics {

inline constexpr double kMemorySteps = 400;  // of a size: older ones are forgotten

struct SizeStatistics {
  double steps = 0;               // every one ever seen
  double mean_samples_per_s = 0;  // over all of them
  double recent_steps = 0;        // the steps behind `log_rate`
  double log_rate = 0;            // natural logarithm of samples per second, recent steps

  struct Part {
    double steps = 0;
    double log_rate = 0;
  };
  std::deque<Part> recent;  // intervals, the oldest first
};

// The logarithm of a size's rate and its standard deviation.
struct LogRate {
  double value = 0;
  double deviation = 0;
};

class ThroughputTable {
 public:
  void add(const Interval& interval);  // ignores warm-up and intervals without a step
  void add(const std::vector<Interval>& intervals);
  // The job behaves differently from now on: earlier measurements are dropped, the noise is kept.
  void forget();
  void forget(std::uint32_t workers);
  // All sizes became faster by this logarithm.
  void shift(double log_rate);

  const std::map<std::uint32_t, SizeStatistics>& sizes() const { return sizes_; }
  // Huber's location of what intervals of one size say, with the scale of all; empty: no steps.
  std::optional<double> log_rate_of(const std::vector<Interval>& intervals) const;
  // Whether steps that are far off are so common that one interval says little: then several must agree.
  std::size_t intervals_needed() const;

  const SizeStatistics* at(std::uint32_t workers) const;
  std::optional<LogRate> log_rate(std::uint32_t workers) const;  // empty: never seen
  // Of the logarithm of one step's rate: with the steps that are far off, and of a mean that counts those less.
  double step_deviation() const;
  double robust_deviation() const;

 private:
  void add_scatter(double square);
  bool has_changed(const SizeStatistics& size) const;
  static void forget_before_change(SizeStatistics& size);
  double robust_scale() const;

  std::map<std::uint32_t, SizeStatistics> sizes_;
  double freedom_ = 0;         // number of deviations between intervals
  double scatter_ = 0;         // their weighted squares
  double robust_scatter_ = 0;  // the same, of none more than Huber's limit
  double near_ = 0;            // those within that limit
  double far_ = 0;             // those that normal noise does not explain
};

// Algorithms A3, any distance between the two sizes: the throughput of each added worker relative to the previous
// throughput per worker. 1: perfect; 0: no gain; below 0: slower. Rates in samples per second. 0 if a rate or the
// distance is not positive.
double scaling_efficiency(std::uint32_t workers, double rate, std::uint32_t more_workers, double more_rate);

// The same for large distances, ln(R'/R) / ln(k'/k). That of k to m is the weighted mean of those of k to l and l to m,
// so the order in which sizes are tried does not matter. Equal to the above for small distances. Works downwards as
// well.
double marginal_efficiency(std::uint32_t workers, double log_rate, std::uint32_t other, double other_log_rate);

// Fits a smooth curve through noisy rates. The efficiency does not jump between pairs of neighbours, so sizes
// close to each other share their measurements.
//
// The posterior of a random walk of the slope of ln R over ln k (a smoothing spline). How far the slope walks is that
// of a smooth curve, or a multiple under which the measured rates are more likely (the marginal likelihood, as in
// Rasmussen and Williams 2006, 5.4.1): on some machines one more host makes a job much faster, and a peak that is
// measured well must not be drawn down to its neighbours. The sizes up to `cut_after` and those above are independent.
// Pure.

struct NoisyRate {
  std::uint32_t workers = 0;
  LogRate rate;
};

// Sizes increase. Sizes up to `cut_after` and those above are two curves.
std::vector<LogRate> smoothed(const std::vector<NoisyRate>& rates, std::uint32_t cut_after);

}  // namespace elastictrain::heuristics
