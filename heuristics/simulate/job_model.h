// Purpose: models of a job for closed-loop simulation: as a whole by size, and worker by worker on hosts. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "heuristics/batch_plan.h"
#include "heuristics/policy/decision.h"
#include "heuristics/policy/view.h"

// One job as a policy sees it: its speed at each size, the cost of changing the size, the noise of its steps,
// and how its behaviour changes over time.
//
// Pure values. Rates in samples per second of the whole job, times in seconds since the job's start.

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

// A job of individual workers on hosts, step by step, for policies that look at workers. Each worker computes
// its share, all meet at the collective, and the slowest determines the step time.
//
// Pure: noise comes from a function of the caller. A replacement starts while the others continue to train, and joins
// when it is ready; its ranks follow those of the survivors, as in a real change of members.

// The cause of slowness: a worker's own slot, a whole host, or the work of a rank.
struct SlowCause {
  enum class Of : std::uint8_t { kWorker, kHost, kRank };
  Of of = Of::kWorker;
  std::uint64_t who = 0;
  double factor = 1;  // of the compute time
  std::uint64_t from_step = 0;
  std::uint64_t until_step = UINT64_MAX;
  std::uint64_t grows_over_steps = 0;  // from nothing to the full factor
};

struct WorkerModelOptions {
  std::uint32_t hosts = 1;
  std::uint32_t workers_per_host = 4;  // at the start, in the order of hosts
  std::uint32_t slots_per_host = 4;
  BatchRule batch;
  double sample_s = 0.25 / 32;
  double fixed_s = 0;  // of the compute time, independent of the share
  double communicate_s = 0.02;
  // Time of the exchange in a step, in seconds, by topology; empty: communicate_s.
  std::function<double(const std::string& topology, std::uint64_t step)> exchange_s;
  double start_s = 10;  // until a replacement can join
  // Factor of the compute time of a worker in a step; empty: 1.
  std::function<double(std::uint64_t worker, std::uint64_t step)> noise;
};

class WorkerModel {
 public:
  explicit WorkerModel(WorkerModelOptions options);

  void add(const SlowCause& cause) { causes_.push_back(cause); }
  // Simulates one step. Returns the view after it.
  const ClusterView& step();
  void carry_out(const Decision& decision);

  std::uint64_t steps_done() const { return step_; }
  double now_s() const { return view_.now_s; }
  double samples_done() const { return view_.jobs[0].samples_done; }
  const std::vector<WorkerView>& members() const { return view_.jobs[0].members; }
  std::uint32_t replaced() const { return replaced_; }
  std::uint32_t share_changes() const { return share_changes_; }
  // The compute time of the next step without noise, and its optimum with these workers if samples were divisible.
  double expected_compute_s() const;
  double best_compute_s() const;

 private:
  struct Start {
    std::uint64_t leaver = 0;
    std::uint32_t host = 0;
    double ready_s = 0;
  };
  double factor(const WorkerView& member) const;
  double compute_s(const WorkerView& member) const;
  std::optional<std::uint32_t> place_for(const Replacement& replacement) const;
  void start_replacement(const Replacement& replacement);
  void join_ready();
  void share_out_again();

  WorkerModelOptions options_;
  std::vector<SlowCause> causes_;
  ClusterView view_;
  std::map<std::uint64_t, double> speeds_;
  std::vector<Start> starts_;
  std::uint64_t step_ = 0;
  std::uint64_t next_id_ = 0;
  std::uint32_t replaced_ = 0;
  std::uint32_t share_changes_ = 0;
};

}  // namespace elastictrain::heuristics
