// Purpose: the experiments behind the rows autoscale-settle, autoscale-regret and autoscale-savings.
#pragma once

#include <string>
#include <vector>

#include "heuristics/policy/policy.h"
#include "heuristics/simulate/figures.h"
#include "tests/bench/autoscale/curve_files.h"

namespace elastictrain::bench {

std::unique_ptr<heuristics::Policy> make_policy(const std::string& name, const heuristics::Parameters& given);

// A job on a curve, with 10 % noise, that takes `hours` at the best size for `loss`.
heuristics::JobModel job_on(const RealCurve& curve, const heuristics::Loss& loss, double hours);

struct Regret {
  std::string curve;
  std::uint32_t best = 0;
  double worst = 0;  // over starts and seeds
  double mean = 0;
  double changes_per_hour = 0;      // after the policy said that it has settled, the maximum
  double comparisons_per_hour = 0;  // after the first good size, so with those of the search among good ones
  double settled_share = 0;         // of the job, mean
  std::uint32_t worst_start = 0;
  std::uint32_t worst_end = 0;
};

struct RegretSetup {
  double hours = 4;
  int seeds = 5;
  bool monotone = true;
  double noise = 0.1;
  double noise_correlation = 0;
};

// Starting sizes: the powers of two up to the last of the curve.
Regret regret_on(const RealCurve& curve, const heuristics::Policy& policy, const heuristics::Loss& loss,
                 const RegretSetup& setup);

struct Savings {
  double job_time = 0;  // mean over starting sizes of the share saved, below 0: lost
  double worker_seconds = 0;
  double job_time_max = 0;
  double worker_seconds_max = 0;
  double settled_s = 0;  // mean
  double settled_s_max = 0;
  double settled_share = 0;
  double wasted = 0;  // worker-seconds, mean
  double job_s = 0;
  double best_job_time = 0;  // savings of the best fixed size, known in advance
  double best_worker_seconds = 0;
};

// Algorithms A8: starting sizes `from`, `from` + `by`, …, each compared with keeping that size.
Savings savings_on(const heuristics::JobModel& model, const heuristics::Policy& policy, const heuristics::Loss& loss,
                   std::uint32_t from, std::uint32_t by, std::uint32_t to, int seeds);

struct LongRun {
  double regret = 0;     // mean over starting sizes and seeds
  double worst_end = 0;  // of the last size as a fixed one, above the best one
  int ends_off = 0;      // runs whose last size is more than 2 % off
  int runs = 0;
};

// A policy on a job, from `from`, `from` + `by`, … workers.
LongRun long_run_on(const heuristics::JobModel& model, const heuristics::Policy& policy, const heuristics::Loss& loss,
                    std::uint32_t from, std::uint32_t by, std::uint32_t to, int seeds);

// Set-ups as in A8. The CIFAR-10-like curve is t(k) = a/k + b + c k for a step of 1,024 samples with the coefficients
// that give the published savings when 8 workers are kept; the ImageNet-like one is the talk's.
heuristics::JobModel cifar_like();
heuristics::JobModel imagenet_like();

}  // namespace elastictrain::bench
