// Purpose: one job as a policy sees it: its speed at each size, the cost of changing the size, the noise of its steps,
// and how its behaviour changes over time.
//
// Pure values. Rates in samples per second of the whole job, times in seconds since the job's start.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "heuristics/batch_plan.h"

namespace elastictrain::heuristics {

// Throughput per size. Between two points it is linear, below the first proportional, beyond the last constant.
class ThroughputCurve {
 public:
  ThroughputCurve() = default;
  explicit ThroughputCurve(
      std::vector<std::pair<std::uint32_t, double>> points);  // (workers, rate), increasing workers
  double operator()(std::uint32_t workers) const;
  const std::vector<std::pair<std::uint32_t, double>>& points() const { return points_; }
  // The running maximum: never decreases.
  ThroughputCurve monotone() const;
  std::uint32_t last_size() const { return points_.empty() ? 1 : points_.back().first; }

 private:
  std::vector<std::pair<std::uint32_t, double>> points_;
};

struct JobModel {
  ThroughputCurve curve;
  ThroughputCurve later;  // from `later_from_s` on, if that is above 0
  double later_from_s = 0;
  double drift_per_hour = 0;  // 0.1: 10 % faster after an hour

  double noise = 0.1;            // standard deviation of a step's time, relative; lognormal
  double noise_correlation = 0;  // between the noise of consecutive steps
  double outlier_share = 0;      // of the steps, which take so many times as long:
  double outlier_times = 8;
  std::uint32_t warm_up_steps = 3;  // after every change, and at the start
  double warm_up_factor = 2;        // by which these steps take longer

  double cold_start_s = 30;   // until joiners can take part; meanwhile the old size trains and both are paid for
  double grow_idle_s = 0.05;  // in which no worker computes
  double shrink_idle_s = 0.05;

  BatchRule batch;
  double samples_total = 0;
  bool end_is_known = true;  // to the policy
  std::uint32_t min_workers = 1;
  std::uint32_t max_workers = 64;
  std::uint32_t slots_per_host = 1;
  double price_per_worker_hour = 1;

  double rate(std::uint32_t workers, double now_s) const;  // without noise
  double step_s(std::uint32_t workers, double now_s) const;
  // Of a step; the rest is communication. A worker computes as fast as one that is alone.
  double compute_part(std::uint32_t workers, double now_s) const;
};

// The noise of consecutive steps: factors with mean 1.
class StepNoise {
 public:
  StepNoise(double deviation, double correlation);
  double next(std::mt19937_64& rng);

 private:
  double sigma_;
  double correlation_;
  double state_ = 0;
  bool first_ = true;
};

}  // namespace elastictrain::heuristics
